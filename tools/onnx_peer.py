"""Sentence vectors by onnxruntime, for tools/benchmark.py: onnx_peer.py MODEL.onnx tokenizer.json SENTENCES THREADS VECTORS

Writes the vectors as --embed does and prints one JSON object: sentences a second, one by one and in batches. Runs in build/peers/venv.
"""
import json, sys, time

import numpy as np
import onnxruntime
import tokenizers

BATCH = 32
model, vocabulary, sentences, threads, vectors = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(threads)
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
inputs = {i.name for i in session.get_inputs()}
tokenizer = tokenizers.Tokenizer.from_file(vocabulary)
tokenizer.enable_padding()
tokenizer.enable_truncation(256)


def embed(lines):
    texts = tokenizer.encode_batch(lines)
    feed = {"input_ids": [t.ids for t in texts], "attention_mask": [t.attention_mask for t in texts], "token_type_ids": [t.type_ids for t in texts]}
    feed = {name: np.array(rows, np.int64) for name, rows in feed.items() if name in inputs}
    mask = np.array([t.attention_mask for t in texts], np.float32)[:, :, None]
    mean = (session.run(None, feed)[0] * mask).sum(1) / mask.sum(1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def rate(batches):
    embed(batches[0])
    start = time.perf_counter()
    rows = np.concatenate([embed(b) for b in batches])
    return len(rows) / (time.perf_counter() - start), rows


with open(sentences, encoding="utf-8") as f: lines = f.read().splitlines()
single, rows = rate([[line] for line in lines])
by_length = sorted(lines, key=len)  # so that a batch has little padding
batched, _ = rate([by_length[i:i + BATCH] for i in range(0, len(lines), BATCH)])
np.savetxt(vectors, rows, "%.9g")
print(json.dumps({"single": single, "batched": batched, "version": onnxruntime.__version__, "tokens": float(np.mean([sum(tokenizer.encode(l).attention_mask) for l in lines]))}))
