#!/usr/bin/env python3
"""tools/convert.py against values computed here from the documented formats: what goes where, how each type rounds, what is refused,
and that damaged or malicious sources give one line and no file. Standard library alone; needs build/quantize."""
import contextlib
import io
import json
import math
import os
import pickle
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
CONVERT = os.path.join(ROOT, "tools", "convert.py")
sys.path.insert(0, os.path.join(ROOT, "tools"))
import convert  # noqa: E402
import model_format  # noqa: E402

random.seed(1)


# ---- writing sources ----------------------------------------------------------------------------------------------------

def numbers(n, spread=1.0):
    """n float32 values."""
    return list(struct.unpack(f"<{n}f", struct.pack(f"<{n}f", *(random.gauss(0, spread) for _ in range(n)))))


def count(shape): return math.prod(shape)


def half(x): return struct.unpack("<e", struct.pack("<e", x))[0]


def bf16_bytes(values):
    out = b""
    for v in values:
        bits, = struct.unpack("<I", struct.pack("<f", v))
        out += struct.pack("<H", bits + 0x7FFF + (bits >> 16 & 1) >> 16)
    return out


def encode(kind, values):
    if kind == "BF16": return bf16_bytes(values)
    return struct.pack(f"<{len(values)}{ {'F64': 'd', 'F32': 'f', 'F16': 'e'}[kind]}", *values)


def write_safetensors(path, tensors, kind="F32"):
    """tensors: name -> (shape, values)."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = encode(kind, values)
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as f: f.write(struct.pack("<Q", len(text)) + text + data)


def pickled(tensors):
    """data.pkl as torch.save writes it; tensors: name -> (key, first, shape, strides, elements of the storage)."""
    def text(s): return b"X" + struct.pack("<I", len(s)) + s.encode()
    def integer(n): return b"J" + struct.pack("<i", n)
    def many(ns): return b"(" + b"".join(map(integer, ns)) + b"t"
    out = b"\x80\x02ccollections\nOrderedDict\n)Rq\x00("
    for name, (key, first, shape, strides, n) in tensors.items():
        out += text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + integer(n) + b"tQ"
        out += integer(first) + many(shape) + many(strides) + b"\x89ccollections\nOrderedDict\n)RtR"
    return out + b"u."


def write_torch(path, data_pkl, storages):
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("archive/data.pkl", data_pkl)
        for key, values in storages.items(): z.writestr(f"archive/data/{key}", encode("F32", values))


GGUF_TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144),
              "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210), "BF16": (30, 1, 2)}


def write_gguf(path, kv, tensors):
    """tensors: name -> (shape as in the file, type, bytes)."""
    def text(s): return struct.pack("<Q", len(s)) + s.encode()
    def value(v):
        if isinstance(v, bool): return struct.pack("<IB", 7, v)
        if isinstance(v, int): return struct.pack("<II", 4, v)
        if isinstance(v, float): return struct.pack("<If", 6, v)
        if isinstance(v, str): return struct.pack("<I", 8) + text(v)
        raise TypeError(v)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(kv)) + b"".join(text(k) + value(v) for k, v in kv.items())
    data = b""
    for name, (shape, kind, raw) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", GGUF_TYPES[kind][0], len(data))
        data += raw + bytes(-len(raw) % 32)
    with open(path, "wb") as f: f.write(head + bytes(-len(head) % 32) + data)


# ---- reading model.bin ----------------------------------------------------------------------------------------------------

def field(struct_, raw, name):
    for kind, f, n, at in struct_.fields:
        if f == name:
            if kind == "char": return raw[at:at + n].split(b"\0")[0].decode()
            return struct.unpack_from("<" + model_format.ELEMENT[kind][1], raw, at)[0]
    raise KeyError(name)


class Bin:
    def __init__(self, path):
        with open(path, "rb") as f: self.raw = f.read()
        assert self.h("file_bytes") == len(self.raw)
        entries, size = self.h("tensors_offset"), model_format.TENSOR_ENTRY.bytes
        self.entries = {}
        for i in range(self.h("n_tensors")):
            e = self.raw[entries + i * size:entries + (i + 1) * size]
            self.entries[field(model_format.TENSOR_ENTRY, e, "name")] = e

    def h(self, name): return field(model_format.HEADER, self.raw, name)

    def layer(self, i, name):
        size = model_format.LAYER_HEADER.bytes
        at = self.h("layers_offset") + i * size
        return field(model_format.LAYER_HEADER, self.raw[at:at + size], name)

    def tensor(self, name):
        """Values of a tensor, row after row, unpacked as model.h says."""
        e = self.entries[name]
        kind, layout, n, rows, cols, at = (field(model_format.TENSOR_ENTRY, e, k) for k in ("type", "layout", "count", "rows", "cols", "offset"))
        assert at % 64 == 0
        raw = self.raw[at:at + field(model_format.TENSOR_ENTRY, e, "bytes")]
        if layout == 0: return list(struct.unpack(f"<{len(raw) // 4}f", raw))
        panels, blocks, out = -(-rows // 16), -(-cols // 32), []
        size = {0: 64 * cols, 1: 32 * cols, 2: 32 * cols, 3: 544 * blocks, 4: 320 * blocks}[kind]
        assert len(raw) == n * panels * size
        for m in range(n):
            for r in range(rows):
                panel = raw[(m * panels + r // 16) * size:][:size]
                r %= 16
                for c in range(cols):
                    b, i = c // 32, c % 32
                    if kind == 0: v, = struct.unpack_from("<f", panel, (c * 16 + r) * 4)
                    elif kind == 1: v, = struct.unpack_from("<e", panel, (c * 16 + r) * 2)
                    elif kind == 2: v, = struct.unpack("<f", b"\0\0" + panel[(c * 16 + r) * 2:][:2])
                    elif kind == 3:
                        d, = struct.unpack_from("<e", panel, b * 544 + 2 * r)
                        v = d * struct.unpack_from("<b", panel, b * 544 + 32 + i // 4 * 64 + 4 * r + i % 4)[0]
                    else:
                        d, = struct.unpack_from("<e", panel, b * 320 + 2 * r)
                        m16, = struct.unpack_from("<e", panel, b * 320 + 32 + 2 * r)
                        pair = panel[b * 320 + 64 + i % 16 // 4 * 64 + 4 * r + i % 4]
                        v = d * (pair & 15 if i < 16 else pair >> 4) + m16
                    out.append(v)
        return out


# ---- a small llama --------------------------------------------------------------------------------------------------------

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 40, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 6, "vocab_size": 19, "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": False}


def llama_tensors(tied=False):
    shapes = {"model.embed_tokens.weight": (19, 40), "model.norm.weight": (40,), "model.layers.0.input_layernorm.weight": (40,), "model.layers.0.post_attention_layernorm.weight": (40,),
              "model.layers.0.self_attn.q_proj.weight": (24, 40), "model.layers.0.self_attn.k_proj.weight": (12, 40), "model.layers.0.self_attn.v_proj.weight": (12, 40),
              "model.layers.0.self_attn.o_proj.weight": (40, 24), "model.layers.0.mlp.gate_proj.weight": (24, 40), "model.layers.0.mlp.up_proj.weight": (24, 40),
              "model.layers.0.mlp.down_proj.weight": (40, 24)}
    if not tied: shapes["lm_head.weight"] = (19, 40)
    return {name: (shape, numbers(count(shape))) for name, shape in shapes.items()}


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="test-convert-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.out = os.path.join(self.dir, "out", "model.bin")
        os.mkdir(os.path.dirname(self.out))

    def path(self, name): return os.path.join(self.dir, name)

    def folder(self, config, tensors, kind="F32", name="source"):
        os.makedirs(self.path(name), exist_ok=True)
        with open(self.path(name + "/config.json"), "w") as f: json.dump(config, f)
        write_safetensors(self.path(name + "/model.safetensors"), tensors, kind)
        return self.path(name)

    def run_main(self, *args):
        """(status, standard error) of convert.py, run in this process."""
        err, argv = io.StringIO(), sys.argv
        sys.argv = ["convert.py", *args]
        try:
            with contextlib.redirect_stderr(err): convert.main()
            return 0, err.getvalue()
        except SystemExit as e:
            return 1, err.getvalue() + str(e.code)
        finally:
            sys.argv = argv

    def convert(self, src, *args):
        status, error = self.run_main(src, self.out, *args)
        self.assertEqual(status, 0, error)
        return Bin(self.out)

    def refused(self, src, *parts):
        status, error = self.run_main(src, self.out)
        self.assertEqual(status, 1, f"was not refused, expected {parts}")
        self.assertNotIn("\n", error)
        for part in parts: self.assertIn(part, error)
        self.assertEqual(os.listdir(os.path.dirname(self.out)), [])
        return error

    def near(self, got, want, tolerance):
        self.assertEqual(len(got), len(want))
        worst = max(abs(a - b) for a, b in zip(got, want))
        self.assertLessEqual(worst, tolerance)


class Layout(Case):
    def test_llama(self):
        t = llama_tensors()
        b = self.convert(self.folder(LLAMA, t))
        v = lambda name: t["model.layers.0." + name + ".weight"][1]
        self.assertEqual(b.tensor("embed.tokens"), t["model.embed_tokens.weight"][1])
        self.assertEqual(b.tensor("head.weight"), t["lm_head.weight"][1])
        self.assertEqual(b.tensor("layers.0.attn.qkv.weight"), v("self_attn.q_proj") + v("self_attn.k_proj") + v("self_attn.v_proj"))
        self.assertEqual(b.tensor("layers.0.ffn.up.weight"), v("mlp.gate_proj") + v("mlp.up_proj"))
        self.assertEqual(b.tensor("layers.0.ffn.down.weight"), v("mlp.down_proj"))
        self.assertEqual(b.tensor("layers.0.attn_norm.weight"), v("input_layernorm"))
        for name, value in (("dim", 40), ("n_kv_heads", 2), ("head_dim", 6), ("v_head_dim", 6), ("context", 32), ("head", 2), ("source_bits", 32), ("positions", 3)):
            self.assertEqual(b.h(name), value, name)
        self.assertAlmostEqual(b.layer(0, "attn_scale"), 6 ** -0.5, 6)
        self.assertEqual(sorted(os.listdir(os.path.dirname(self.out))), ["model.bin"])

    def test_tied(self):
        b = self.convert(self.folder(dict(LLAMA, tie_word_embeddings=True), dict(llama_tensors(True), **{"lm_head.weight": ((19, 40), numbers(760))})))
        self.assertEqual(b.h("head"), 1)
        self.assertNotIn("head.weight", b.entries)

    def test_transposed_and_learned(self):
        config = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 5, "vocab_size": 7, "activation_function": "gelu_new"}
        shapes = {"wte.weight": (7, 8), "wpe.weight": (5, 8), "ln_f.weight": (8,), "ln_f.bias": (8,), "h.0.ln_1.weight": (8,), "h.0.ln_1.bias": (8,), "h.0.ln_2.weight": (8,), "h.0.ln_2.bias": (8,),
                  "h.0.attn.c_attn.weight": (8, 24), "h.0.attn.c_attn.bias": (24,), "h.0.attn.c_proj.weight": (8, 8), "h.0.attn.c_proj.bias": (8,), "h.0.mlp.c_fc.weight": (8, 32),
                  "h.0.mlp.c_fc.bias": (32,), "h.0.mlp.c_proj.weight": (32, 8), "h.0.mlp.c_proj.bias": (8,), "h.0.attn.bias": (1, 1, 5, 5)}
        t = {name: (shape, numbers(count(shape))) for name, shape in shapes.items()}
        b = self.convert(self.folder(config, {"transformer." + n: v for n, v in t.items()}))
        w = t["h.0.attn.c_attn.weight"][1]
        self.assertEqual(b.tensor("layers.0.attn.qkv.weight"), [w[c * 24 + r] for r in range(24) for c in range(8)])
        self.assertEqual(b.tensor("layers.0.attn.qkv.bias"), t["h.0.attn.c_attn.bias"][1])
        self.assertEqual(b.tensor("embed.positions"), t["wpe.weight"][1])
        self.assertEqual((b.h("head"), b.h("n_positions"), b.h("activation")), (1, 5, 2))

    def test_fused_heads(self):
        config = {"model_type": "bloom", "hidden_size": 12, "n_head": 3, "n_layer": 1, "vocab_size": 5}
        shapes = {"word_embeddings.weight": (5, 12)}
        for name in ("word_embeddings_layernorm", "ln_f", "h.0.input_layernorm", "h.0.post_attention_layernorm"): shapes.update({name + ".weight": (12,), name + ".bias": (12,)})
        for name, rows, cols in (("self_attention.query_key_value", 36, 12), ("self_attention.dense", 12, 12), ("mlp.dense_h_to_4h", 48, 12), ("mlp.dense_4h_to_h", 12, 48)):
            shapes.update({f"h.0.{name}.weight": (rows, cols), f"h.0.{name}.bias": (rows,)})
        t = {name: (shape, numbers(count(shape))) for name, shape in shapes.items()}
        b = self.convert(self.folder(config, t))
        bias = t["h.0.self_attention.query_key_value.bias"][1]
        order = [(head * 3 + part) * 4 + i for part in range(3) for head in range(3) for i in range(4)]
        self.assertEqual(b.tensor("layers.0.attn.qkv.bias"), [bias[r] for r in order])
        w = t["h.0.self_attention.query_key_value.weight"][1]
        self.assertEqual(b.tensor("layers.0.attn.qkv.weight"), [w[r * 12 + c] for r in order for c in range(12)])
        self.assertEqual(b.tensor("alibi.slopes"), [2.0 ** -4, 2.0 ** -8, 2.0 ** -2])

    def test_norm_plus_one(self):
        t = llama_tensors(True)
        b = self.convert(self.folder(dict(LLAMA, model_type="gemma", hidden_act="gelu_pytorch_tanh", tie_word_embeddings=True), t))
        self.near(b.tensor("final_norm.weight"), [1 + v for v in t["model.norm.weight"][1]], 1e-6)
        self.assertAlmostEqual(b.h("embed_scale"), 40 ** 0.5, 5)

    def test_pickle_with_strides(self):
        t = llama_tensors()
        folder = self.folder(LLAMA, {})
        os.remove(folder + "/model.safetensors")
        storages, described = {}, {}
        for i, (name, (shape, values)) in enumerate(t.items()):  # each in column-major order, two elements after its storage's start
            if len(shape) == 2: values = [values[r * shape[1] + c] for c in range(shape[1]) for r in range(shape[0])]
            storages[str(i)] = [0.0, 0.0] + values
            described[name] = (str(i), 2, shape, (1, shape[0])[:len(shape)], len(values) + 2)
        write_torch(folder + "/pytorch_model.bin", pickled(described), storages)
        b = self.convert(folder)
        self.assertEqual(b.tensor("embed.tokens"), t["model.embed_tokens.weight"][1])
        self.assertEqual(b.tensor("layers.0.attn.out.weight"), t["model.layers.0.self_attn.o_proj.weight"][1])

    def test_shards(self):
        t = llama_tensors()
        folder = self.folder(LLAMA, {})
        os.remove(folder + "/model.safetensors")
        names, places = list(t), {}
        for i in range(2):
            write_safetensors(f"{folder}/part-{i}.safetensors", {n: t[n] for n in names[i::2]})
            places.update({n: f"part-{i}.safetensors" for n in names[i::2]})
        with open(folder + "/model.safetensors.index.json", "w") as f: json.dump({"weight_map": places}, f)
        self.assertEqual(self.convert(folder).tensor("embed.tokens"), t["model.embed_tokens.weight"][1])
        for bad in ("../source/part-0.safetensors", "absent.safetensors"):
            with open(folder + "/model.safetensors.index.json", "w") as f: json.dump({"weight_map": dict(places, **{names[0]: bad})}, f)
            os.remove(self.out) if os.path.exists(self.out) else None
            self.refused(folder, "not in the folder")

    def test_llama2c(self):
        dim, hidden, heads, kv, vocab, context = 8, 12, 2, 1, 11, 6
        parts = [vocab * dim, dim, dim * dim, 4 * dim, 4 * dim, dim * dim, dim, hidden * dim, dim * hidden, hidden * dim, dim, context * 2, context * 2]
        values = [numbers(n) for n in parts]
        with open(self.path("m.bin"), "wb") as f: f.write(struct.pack("<7i", dim, hidden, 1, heads, kv, vocab, context) + b"".join(encode("F32", v) for v in values))
        b = self.convert(self.path("m.bin"))
        self.assertEqual(b.tensor("layers.0.attn.qkv.weight"), values[2] + values[3] + values[4])
        self.assertEqual(b.tensor("layers.0.ffn.up.weight"), values[7] + values[9])
        self.assertEqual(b.tensor("final_norm.weight"), values[10])
        self.assertEqual(b.h("head"), 1)

    def test_sentence_settings(self):
        config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 4, "num_attention_heads": 1, "num_hidden_layers": 0 + 1, "intermediate_size": 4, "vocab_size": 3,
                  "max_position_embeddings": 6, "hidden_act": "gelu"}
        layer = "encoder.layer.0."
        shapes = {"embeddings.word_embeddings.weight": (3, 4), "embeddings.position_embeddings.weight": (6, 4), "embeddings.token_type_embeddings.weight": (2, 4), "pooler.dense.weight": (4, 4)}
        for name in ("embeddings.LayerNorm", layer + "attention.output.LayerNorm", layer + "output.LayerNorm"): shapes.update({name + ".gamma": (4,), name + ".beta": (4,)})
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense", "intermediate.dense", "output.dense"):
            shapes.update({layer + name + ".weight": (4, 4), layer + name + ".bias": (4,)})
        t = {name: (shape, numbers(count(shape))) for name, shape in shapes.items()}
        folder = self.folder(config, t)
        for name, value in (("modules.json", [{"type": "a.Transformer"}, {"type": "a.Pooling", "path": "1_Pooling"}, {"type": "a.Normalize"}]), ("sentence_bert_config.json", {"max_seq_length": 5}),
                            ("1_Pooling/config.json", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})):
            os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
            with open(f"{folder}/{name}", "w") as f: json.dump(value, f)
        b = self.convert(folder)
        self.assertEqual([b.h(k) for k in ("pooling", "normalize", "max_tokens", "head", "causal")], [2, 1, 5, 0, 0])
        self.assertEqual(b.tensor("embed.type"), t["embeddings.token_type_embeddings.weight"][1][:4])


# ---- numbers -----------------------------------------------------------------------------------------------------------------

def k_scales(s):
    """Eight 6-bit scales and minima in 12 bytes (Q4_K, Q5_K)."""
    scales = [s[j] & 63 for j in range(4)] + [s[j + 8] & 15 | s[j] >> 6 << 4 for j in range(4)]
    return scales, [s[j + 4] & 63 for j in range(4)] + [s[j + 8] >> 4 | s[j + 4] >> 6 << 4 for j in range(4)]


def dequantize(kind, b):
    """The values of one GGUF block, written from the format's description."""
    h = lambda at: struct.unpack_from("<e", b, at)[0]
    if kind == "Q4_0": return [h(0) * ((b[2 + i % 16] >> (i // 16 * 4) & 15) - 8) for i in range(32)]
    if kind == "Q4_1": return [h(0) * (b[4 + i % 16] >> (i // 16 * 4) & 15) + h(2) for i in range(32)]
    if kind in ("Q5_0", "Q5_1"):
        at = 2 if kind == "Q5_0" else 4
        fifth, = struct.unpack_from("<I", b, at)
        q = [b[at + 4 + i % 16] >> (i // 16 * 4) & 15 | (fifth >> i & 1) << 4 for i in range(32)]
        return [h(0) * (n - 16) for n in q] if kind == "Q5_0" else [h(0) * n + h(2) for n in q]
    if kind == "Q8_0": return [h(0) * n for n in struct.unpack_from("<32b", b, 2)]
    if kind in ("Q4_K", "Q5_K"):
        scales, minima = k_scales(b[4:16])
        low = 16 if kind == "Q4_K" else 48
        q = [b[low + i // 64 * 32 + i % 32] >> (i // 32 % 2 * 4) & 15 for i in range(256)]
        if kind == "Q5_K": q = [n | (b[16 + i % 32] >> i // 32 & 1) << 4 for i, n in enumerate(q)]
        return [h(0) * scales[i // 32] * n - h(2) * minima[i // 32] for i, n in enumerate(q)]
    assert kind == "Q6_K"
    out = []
    for i in range(256):
        part, j = divmod(i, 128)
        low = b[64 * part + j % 64] >> (j // 64 * 4) & 15
        high = b[128 + 32 * part + j % 32] >> (j // 32 * 2) & 3
        out.append(h(208) * struct.unpack_from("<b", b, 192 + i // 16)[0] * ((low | high << 4) - 32))
    return out


def random_block(kind):
    raw = bytearray(random.randbytes(GGUF_TYPES[kind][2]) if hasattr(random, "randbytes") else bytes(random.getrandbits(8) for _ in range(GGUF_TYPES[kind][2])))
    for at in {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}.get(kind, (0,)): struct.pack_into("<e", raw, at, random.gauss(0, 0.1))
    return bytes(raw)


class Numbers(Case):
    def gguf(self, kind, dim=256, vocab=18):
        """A one-layer model whose embedding is of this type; the values it stands for."""
        _, block, size = GGUF_TYPES[kind]
        kv = {"general.architecture": "llama", "general.name": "a test", "llama.embedding_length": dim, "llama.block_count": 1, "llama.attention.head_count": 2, "llama.context_length": 16,
              "llama.feed_forward_length": 32, "llama.attention.layer_norm_rms_epsilon": 1e-5}
        t = {n: ((dim,), "F32", encode("F32", numbers(dim))) for n in ("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight")}
        for name, cols, rows in (("attn_q", dim, dim), ("attn_k", dim, dim), ("attn_v", dim, dim), ("attn_output", dim, dim), ("ffn_gate", dim, 32), ("ffn_up", dim, 32), ("ffn_down", 32, dim)):
            t[f"blk.0.{name}.weight"] = ((cols, rows), "F16", bytes(2 * cols * rows))
        if block == 1:
            values = numbers(dim * vocab)
            raw = encode(kind, values)
            if kind == "F16": values = [half(v) for v in values]
            if kind == "BF16": values = [struct.unpack("<f", b"\0\0" + raw[2 * i:2 * i + 2])[0] for i in range(len(values))]
        else:
            blocks = [random_block(kind) for _ in range(dim * vocab // block)]
            raw, values = b"".join(blocks), [v for b in blocks for v in dequantize(kind, b)]
        t["token_embd.weight"] = ((dim, vocab), kind, raw)
        write_gguf(self.path("m.gguf"), kv, t)
        return self.path("m.gguf"), values

    def test_gguf_types(self):
        natural = {"F32": 0, "F16": 1, "BF16": 2, "Q4_0": 4, "Q4_1": 4, "Q4_K": 4}
        for kind in GGUF_TYPES:
            with self.subTest(kind):
                src, values = self.gguf(kind)
                self.near(self.convert(src, "--type", "f32").tensor("embed.tokens"), values, 1e-6 * max(map(abs, values)))
                b = self.convert(src)
                self.assertEqual(field(model_format.TENSOR_ENTRY, b.entries["embed.tokens"], "type"), natural.get(kind, 3))
                # what comes from a type of the same kind must not change at all
                tolerance = 0 if kind in ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0") else max(map(abs, values)) / (2000 if kind == "Q4_K" else 200)
                self.near(b.tensor("embed.tokens"), values, tolerance)
                self.assertEqual(b.h("name"), "a test")

    def stored(self, values, kind):
        """760 values as a matrix [19, 40] of this type gives them back."""
        t = llama_tensors()
        t["model.layers.0.mlp.gate_proj.weight"] = ((19, 40), values)
        t["model.layers.0.mlp.up_proj.weight"] = ((19, 40), values)
        t["model.layers.0.mlp.down_proj.weight"] = ((40, 19), values)
        return self.convert(self.folder(dict(LLAMA, intermediate_size=19), t), "--type", kind).tensor("layers.0.ffn.up.weight")[:760]

    def test_half_rounds_to_even(self):
        special = [0.0, -0.0, 1.0, 65504.0, -65504.0, 2 ** -14, 2 ** -24, 2 ** -25, 3 * 2 ** -25, 2 ** -26, 1 + 2 ** -11, 1 + 3 * 2 ** -11, 2 ** -14 - 2 ** -25, 1e-30, 1 / 3, 65519.0]
        values = (special + numbers(760, 1e-5) + numbers(760))[:760]
        self.assertEqual(self.stored(values, "f16"), [half(v) if abs(v) < 65519 else 65504.0 for v in values])

    def test_bfloat_rounds_to_even(self):
        values = ([1 + 2 ** -8, 1 + 3 * 2 ** -8, 3e38] + numbers(757))[:760]
        raw = bf16_bytes(values)
        self.assertEqual(self.stored(values, "bf16"), [struct.unpack("<f", b"\0\0" + raw[2 * i:2 * i + 2])[0] for i in range(760)])

    def test_not_a_number(self):
        values = numbers(760)
        values[3], values[50], values[90] = math.nan, math.inf, -math.inf
        for kind in ("f32", "f16", "bf16"):
            got = self.stored(values, kind)
            self.assertTrue(math.isnan(got[3]))
            self.assertEqual((got[50], got[90]), (math.inf, -math.inf))
        for kind in ("q8", "q4"): self.assertTrue(math.isnan(self.stored(values, kind)[3]))

    def test_does_not_fit(self):
        t = llama_tensors()
        t["model.embed_tokens.weight"][1][5] = 1e6
        status, error = self.run_main(self.folder(LLAMA, t), self.out, "--type", "f16")
        self.assertEqual(status, 1)
        self.assertIn("embed.tokens: a weight of 1000000.0", error)

    def test_q8(self):
        values = numbers(760)
        got = self.stored(values, "q8")
        for row in range(19):
            for block in (range(row * 40, row * 40 + 32), range(row * 40 + 32, row * 40 + 40)):
                most = max(abs(values[i]) for i in block)
                self.near([got[i] for i in block], [values[i] for i in block], most / 127 * 0.51)

    def test_q4_scores(self):
        b = self.convert(self.folder(LLAMA, llama_tensors()), "--type", "q4")
        types = {name: field(model_format.TENSOR_ENTRY, e, "type") for name, e in b.entries.items()}
        self.assertEqual((types["embed.tokens"], types["head.weight"], types["layers.0.attn.qkv.weight"], types["final_norm.weight"]), (3, 3, 4, 0))

    def test_q8_within_q4(self):
        src = self.folder(LLAMA, llama_tensors())
        types = {name: field(model_format.TENSOR_ENTRY, e, "type") for name, e in self.convert(src, "--type", "q4", "--q8", "head,ffn.down").entries.items()}
        self.assertEqual((types["embed.tokens"], types["head.weight"], types["layers.0.ffn.down.weight"], types["layers.0.ffn.up.weight"]), (4, 3, 3, 4))
        status, error = self.run_main(src, self.out, "--type", "q4", "--q8", "hed")
        self.assertEqual(status, 1)
        self.assertIn("--q8 hed: no matrix", error)

    def test_q4(self):
        values = numbers(19 * 40)
        got = self.stored(values, "q4")
        error = sum((a - b) ** 2 for a, b in zip(got, values)) / sum(v * v for v in values)
        self.assertLess(error, 0.0055)  # rounding to 16 levels between the extremes: 0.0061
        self.assertEqual(self.stored([0.25] * 760, "q4"), [0.25] * 760)
        self.assertEqual(self.stored([0.0] * 760, "q4"), [0.0] * 760)


# ---- what is refused -----------------------------------------------------------------------------------------------------------

class Refusals(Case):
    def test_configurations(self):
        tensors = llama_tensors()
        for change, *parts in (
                ({"model_type": "mamba"}, "model_type is 'mamba'"), ({"model_type": None}, "model_type is missing"), ({"hidden_act": "mish"}, "hidden_act is 'mish'"),
                ({"rope_scaling": {"rope_type": "mrope"}}, "rope_type is 'mrope'"), ({"rope_scaling": {"rope_type": "linear"}}, "factor is missing"), ({"rope_scaling": {"factor": 2.0}}, "rope_type is missing"), ({"rope_scaling": 3}, "rope_scaling is 3"),
                ({"rope_scaling": {"rope_type": "linear", "factor": "2"}}, "factor is '2'"), ({"quantization_config": {"bits": 4}}, "quantization_config"), ({"num_attention_heads": 0}, "num_attention_heads is 0"),
                ({"num_attention_heads": -4}, "num_attention_heads is -4"), ({"num_key_value_heads": 3}, "num_key_value_heads is 3"), ({"num_hidden_layers": 100000}, "num_hidden_layers is 100000"),
                ({"hidden_size": 1e9}, "hidden_size is 1000000000.0"), ({"hidden_size": "40"}, "hidden_size is '40'"), ({"vocab_size": None}, "vocab_size is missing"), ({"head_dim": 7}, "7 of 7 dimensions"),
                ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan"), ({"attention_bias": "yes"}, "attention_bias is 'yes'"), ({"attention_bias": True}, "q_proj.bias", "missing"),
                ({"num_hidden_layers": 2}, "layers.1.input_layernorm.weight", "missing"), ({"vocab_size": 20}, "embed_tokens.weight", "[19, 40], expected [20, 40]"),
                ({"tie_word_embeddings": 5}, "tie_word_embeddings is 5"), ({"rope_theta": 0}, "rope_theta is 0")):
            with self.subTest(change): self.refused(self.folder(dict(LLAMA, **change), tensors), *parts)

    def test_what_other_families_ask_for(self):
        bloom = {"model_type": "bloom", "hidden_size": 24, "n_layer": 1, "n_head": 3, "vocab_size": 19}
        mpt = {"model_type": "mpt", "d_model": 24, "n_layers": 1, "n_heads": 3, "vocab_size": 19, "max_seq_len": 64}
        xglm = {"model_type": "xglm", "d_model": 24, "num_layers": 1, "attention_heads": 3, "ffn_dim": 19, "vocab_size": 19, "max_position_embeddings": 64, "activation_function": "gelu"}
        bert = {"model_type": "bert", "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 19, "vocab_size": 19, "max_position_embeddings": 64, "hidden_act": "gelu",
                "position_embedding_type": "relative_key"}
        for config, part in (
                (dict(bloom, apply_residual_connection_post_layernorm=True), "apply_residual_connection_post_layernorm is True"),
                (dict(bloom, pretraining_tp=2, slow_but_exact=True), "slow_but_exact is True"), (dict(mpt, attn_config={"alibi_bias_max": 5}), "alibi_bias_max is 5"),
                (dict(mpt, attn_config={"clip_qkv": 6.0}), "clip_qkv is 6.0"), (dict(xglm, pad_token_id=2), "pad_token_id is 2"), (bert, "position_embedding_type is 'relative_key'")):
            with self.subTest(part): self.refused(self.folder(config, llama_tensors()), part)

    def test_tensors(self):
        t = llama_tensors()
        self.refused(self.folder(LLAMA, dict(t, surprise=((2,), [1.0, 2.0]))), "'surprise' is not one that this architecture has")
        self.refused(self.folder(LLAMA, {n: v for n, v in t.items() if "lm_head" not in n}), "'lm_head.weight'", "missing")
        self.refused(self.folder(LLAMA, dict(t, **{"norm.weight": ((40,), numbers(40))})), "twice")

    def test_tensors_that_overlap(self):
        folder = self.folder(LLAMA, llama_tensors())
        with open(folder + "/model.safetensors", "rb") as f: data = f.read()
        size, = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + size])
        header["model.norm.weight"]["data_offsets"] = header["model.layers.0.input_layernorm.weight"]["data_offsets"]
        text = json.dumps(header).encode()
        with open(folder + "/model.safetensors", "wb") as f: f.write(struct.pack("<Q", len(text)) + text + data[8 + size:])
        self.refused(folder, "model.norm.weight", "overlap")
        write_gguf(self.path("m.gguf"), {}, {"a": ((16,), "F32", bytes(32)), "b": ((8,), "F32", bytes(32))})
        self.refused(self.path("m.gguf"), "'a' and 'b' overlap")

    def test_no_source(self):
        self.refused(self.path("nothing"), "no such file")
        os.mkdir(self.path("empty"))
        self.refused(self.path("empty"), "no config.json")
        for name, data in (("a", b""), ("b", b"hello"), ("c", b"GGUF"), ("d", b"GGUF\1\0\0\0" + bytes(16)), ("e", bytes(64))):
            with open(self.path(name), "wb") as f: f.write(data)
            self.refused(self.path(name))

    def test_pipes(self):
        """They are not opened: a reader would wait for ever."""
        os.mkfifo(self.path("pipe"))
        self.refused(self.path("pipe"), "neither a folder nor a regular file")
        folder = self.folder(LLAMA, llama_tensors())
        os.mkfifo(folder + "/tokenizer.json")
        self.refused(folder, "tokenizer.json: not a regular file")

    def test_outputs(self):
        src = self.folder(LLAMA, llama_tensors())
        for out in ("", self.dir, self.path("absent/model.bin"), "/dev/null"):
            status, error = self.run_main(src, out)
            self.assertEqual((status, "\n" in error), (1, False), error)

    def test_the_source_is_not_replaced(self):
        src = self.folder(LLAMA, llama_tensors())
        os.symlink(src + "/model.safetensors", self.path("link"))
        for out in (src + "/model.safetensors", self.path("link")):
            status, error = self.run_main(src, out)
            self.assertEqual(status, 1)
            self.assertIn("is the source itself", error)
        self.convert(src)

    def test_unknown_gguf(self):
        write_gguf(self.path("m.gguf"), {"general.architecture": "rwkv6"}, {"token_embd.weight": ((4, 4), "F32", bytes(64))})
        self.refused(self.path("m.gguf"), "general.architecture is 'rwkv6'")

    def test_long_gguf_array(self):
        with open(self.path("m.gguf"), "wb") as f: f.write(b"GGUF" + struct.pack("<IQQQsIIQ", 3, 0, 1, 1, b"k", 9, 0, 1 << 23) + bytes(1 << 23))
        self.refused(self.path("m.gguf"), "k counts 8388608 values")

    def test_malicious_pickle(self):
        folder = self.folder(LLAMA, {})
        os.remove(folder + "/model.safetensors")
        trace = self.path("executed")

        class Evil:
            def __reduce__(self): return os.system, (f"touch {trace}",)
        for protocol in range(5):
            write_torch(folder + "/pytorch_model.bin", pickle.dumps({"a": Evil()}, protocol), {})
            self.refused(folder, "pytorch_model.bin")
            self.assertFalse(os.path.exists(trace))
        bomb = b"\x80\x02" + b"N" + b"q\x00" + b"".join(b"h" + bytes([i]) * 1 + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(200)) + b"."
        write_torch(folder + "/pytorch_model.bin", bomb, {})
        self.refused(folder, "pytorch_model.bin")
        write_torch(folder + "/pytorch_model.bin", b"\x80\x02(" + b"N" * (9 << 20) + b"t.", {})
        self.refused(folder, "a pickle of 9437189 bytes")


class Failures(Case):
    """Ends that come from outside: no file must stay behind."""

    def big(self):
        """A source of half a gigabyte that takes no disk."""
        config = dict(LLAMA, vocab_size=1 << 21, hidden_size=64, num_attention_heads=1, num_key_value_heads=1, head_dim=64, intermediate_size=64, tie_word_embeddings=True)
        shapes = {n: [64 if d in (40, 24, 12) else d for d in s] for n, (s, _) in llama_tensors(True).items()}
        shapes["model.embed_tokens.weight"] = [1 << 21, 64]
        header, at = {}, 0
        for name, shape in shapes.items():
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * count(shape)]}
            at += 4 * count(shape)
        folder = self.folder(config, {})
        text = json.dumps(header).encode()
        with open(folder + "/model.safetensors", "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            f.truncate(8 + len(text) + at)
        return folder

    def ended(self, process):
        _, error = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual(error.count(b"\n"), 1, error)
        self.assertNotIn(b"Traceback", error)
        self.assertEqual(os.listdir(os.path.dirname(self.out)), [])
        return error

    def test_interrupted(self):
        source = self.big()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            p = subprocess.Popen([sys.executable, CONVERT, source, self.out, "--type", "q4"], stderr=subprocess.PIPE)
            while not os.listdir(os.path.dirname(self.out)) and p.poll() is None: time.sleep(0.002)
            p.send_signal(number)
            self.ended(p)

    def test_no_room(self):
        source = self.folder(LLAMA, llama_tensors())
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        p = subprocess.Popen([sys.executable, CONVERT, source, self.out], stderr=subprocess.PIPE, preexec_fn=limit)
        self.assertIn(b"File too large", self.ended(p))
        if os.path.exists("/dev/full"):
            p = subprocess.run([convert.QUANTIZE], input=b"out /dev/full\ntensor 0 0 1 1 16 4 x\n", capture_output=True)
            self.assertEqual((p.returncode, p.stderr), (1, b"/dev/full: No space left on device\n"))

    def test_memory(self):
        source = self.big()
        p = subprocess.Popen([sys.executable, CONVERT, source, self.out, "--type", "q8"])
        _, status, usage = os.wait4(p.pid, 0)  # of this one and its own children, not of those of other tests
        p.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(p.returncode, 0)
        self.assertLess(usage.ru_maxrss, 300 * 1024)

    def test_not_built(self):
        tools = self.path("copy/tools")
        shutil.copytree(os.path.join(ROOT, "tools"), tools, ignore=shutil.ignore_patterns("*.cpp", "__pycache__"))
        for name in ("model.h", "tokenizer.h"): shutil.copy(os.path.join(ROOT, name), self.path("copy"))
        p = subprocess.Popen([sys.executable, os.path.join(tools, "convert.py"), self.folder(LLAMA, llama_tensors()), self.out], stderr=subprocess.PIPE)
        self.assertIn(b"run make first", self.ended(p))


class Mutations(Case):
    """Random damage: success, or one line and no file."""

    def damage(self, data, reach):
        data = bytearray(data)
        kind = random.random()
        if kind < 0.2: return bytes(data[:random.randrange(len(data))])
        for _ in range(random.choice((1, 1, 2, 8))):
            at = random.randrange(min(len(data), reach))
            if kind < 0.6: data[at] ^= 1 << random.randrange(8)
            elif kind < 0.8: data[at] = random.choice((0, 255, 127, 128, 34, 123, 45))
            else: data[at:at + 8] = struct.pack("<Q", random.choice((0, 1, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)))[:max(0, len(data) - at)]
        return bytes(data)

    def attack(self, src, victim, rounds, reach):
        with open(victim, "rb") as f: good = f.read()
        for _ in range(rounds):
            bad = self.damage(good, reach)
            with open(victim, "wb") as f: f.write(bad)
            status, error = self.run_main(src, self.out)
            left = os.listdir(os.path.dirname(self.out))
            self.assertEqual(left, [] if status else ["model.bin"], error)
            if status:
                self.assertNotIn("\n", error)
                self.assertTrue(error.startswith("convert.py: "), error)
            else:
                Bin(self.out)
                os.remove(self.out)
        with open(victim, "wb") as f: f.write(good)

    def test_folder(self):
        src = self.folder(LLAMA, llama_tensors())
        self.attack(src, src + "/config.json", 150, 1 << 20)
        self.attack(src, src + "/model.safetensors", 150, 1200)

    def test_pickle(self):
        src = self.folder(LLAMA, {})
        os.remove(src + "/model.safetensors")
        t = llama_tensors()
        described = {name: (str(i), 0, shape, (shape[1], 1) if len(shape) == 2 else (1,), count(shape)) for i, (name, (shape, _)) in enumerate(t.items())}
        write_torch(src + "/pytorch_model.bin", pickled(described), {str(i): values for i, (_, values) in enumerate(t.values())})
        self.attack(src, src + "/pytorch_model.bin", 200, 2500)

    def test_gguf(self):
        src, _ = Numbers.gguf(self, "Q4_1", dim=64)
        self.attack(src, src, 200, 1400)


if __name__ == "__main__":
    unittest.main()
