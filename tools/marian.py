"""Reads a Marian translation model: its binary file, whose options stand in it as YAML, and the SentencePiece vocabulary beside it.

Facts are those of marian-dev 1.9 and its bergamot branch. The weights are float32, or int8 in the layout that is the same on every
processor; a file prepared for one kind of processor is refused.
"""
import math
import mmap
import os
import re
import struct

from checkpoints import ConvertError, Tensor, elements, is_count
from families import BIG, Model, names
from gguf import INT32, UINT64, Reader
from model_format import E

VERSION = 1
OPTIONS = "special:model.yml"
INT8, INTGEMM8, FLOAT32 = 0x101, 0x4101, 0x404
MAX_DIMENSIONS = 8
CONTEXT = 512  # the file does not say with how many tokens it was trained
ENCODER = names("""
    q encoder_l{i+1}_self_Wq  k encoder_l{i+1}_self_Wk  v encoder_l{i+1}_self_Wv  out encoder_l{i+1}_self_Wo  attn_norm encoder_l{i+1}_self_Wo_ln
    up encoder_l{i+1}_ffn_W1  down encoder_l{i+1}_ffn_W2  ffn_norm encoder_l{i+1}_ffn_ffn_ln""")
DECODER = names("""
    embed Wemb  head Wemb  head_bias_whole decoder_ff_logit_out_b
    ssru_input decoder_l{i+1}_rnn_W  ssru_gate decoder_l{i+1}_rnn_Wf  attn_norm decoder_l{i+1}_rnn_ffn_ln
    cross_q decoder_l{i+1}_context_Wq  cross_k decoder_l{i+1}_context_Wk  cross_v decoder_l{i+1}_context_Wv  cross_out decoder_l{i+1}_context_Wo
    cross_norm decoder_l{i+1}_context_Wo_ln  up decoder_l{i+1}_ffn_W1  down decoder_l{i+1}_ffn_W2  ffn_norm decoder_l{i+1}_ffn_ffn_ln""")
ACTIVATIONS = {"relu": E.ACT_RELU, "swish": E.ACT_SILU, "gelu": E.ACT_GELU_SIGMOID}


def is_marian(path):
    """A file that begins with the version and a count of items; the first is 1 in no other format."""
    with open(path, "rb") as f: head = f.read(16)
    return len(head) == 16 and struct.unpack("<Q", head[:8])[0] == VERSION


def find(folder):
    """The model's file in a folder, None if there is none."""
    found = [f for f in sorted(os.listdir(folder)) if f.endswith(".bin") and is_marian(os.path.join(folder, f))]
    if len(found) > 1: raise ConvertError(f"{folder}: holds the Marian models {' and '.join(found)[:200]}, name one of them")
    return os.path.join(folder, found[0]) if found else None


def vocabulary(path):
    """The SentencePiece model beside the model's file."""
    folder = os.path.dirname(os.path.abspath(path))
    found = [f for f in sorted(os.listdir(folder)) if f.endswith(".spm")]
    if len(found) != 1: raise ConvertError(f"{path}: {len(found)} files *.spm beside it, expected one that source and target share (or --tokenizer FILE)")
    return os.path.join(folder, found[0])


def value_of(text):
    """A YAML scalar."""
    if text in ("true", "false"): return text == "true"
    if text == "[]": return []
    if re.fullmatch(r"-?\d{1,18}", text): return int(text)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def read_options(text, path):
    """The options: a line each, and lists of lines that begin with a dash."""
    options, key = {}, None
    for line in text.splitlines():
        item = re.fullmatch(r" *- (.+)", line)
        if item and isinstance(options.get(key), list): options[key].append(value_of(item[1]))
        elif pair := re.fullmatch(r"([\w-]+):(?: (.*))?", line):
            key = pair[1]
            if key in options: raise ConvertError(f"{path}: {OPTIONS}: {key!r} stands twice")
            options[key] = value_of(pair[2]) if pair[2] else []
        else: raise ConvertError(f"{path}: {OPTIONS}: {line[:80]!r} is not an option")
    return options


def canonical(name):
    """Marian calls a weight x_Wy, its bias x_by, and a norm's two halves x_ln_scale and x_ln_bias."""
    name = re.sub(r"_ln_scale$", "_ln.weight", re.sub(r"_ln_bias$", "_ln.bias", name))
    return re.sub(r"(^Wemb|_W\w?)$", r"\1.weight", re.sub(r"_b(\w)$", r"_W\1.bias", name))


def read_marian(path):
    """(options, tensors). A weight has shape [in, out]; in int8 it lies transposed, its quantisation multiplier behind it."""
    with open(path, "rb") as f: data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    with data:
        r = Reader(data, path)
        r.at = 8  # behind the version, which is_marian() has seen
        n = r.scalar(UINT64, "the count of items")
        if n > len(data) // 32: r.fail(f"{n} items are more than the file can hold")
        heads = [struct.unpack_from("<4Q", data, r.take(32, f"the head of item {i}")) for i in range(n)]
        texts = []
        for i, (length, *_) in enumerate(heads):
            start = r.take(length, f"the name of item {i}")
            texts.append(data[start:start + length].rstrip(b"\0").decode(errors="replace"))
        shapes = []
        for text, (_, _, rank, _) in zip(texts, heads):
            if rank > MAX_DIMENSIONS: r.fail(f"tensor {text!r} has {rank} dimensions, expected {MAX_DIMENSIONS} or fewer")
            shapes.append(tuple(r.scalar(INT32, text) for _ in range(rank)))
        r.take(r.scalar(UINT64, "the padding"), "the padding")
        options, tensors = None, {}
        for text, shape, (_, kind, _, size) in zip(texts, shapes, heads):
            start = r.take(size, f"tensor {text!r}")
            if text == OPTIONS: options = read_options(data[start:start + size].rstrip(b"\0").decode(errors="replace"), path)
            elif not text.endswith("_QuantMultA"):  # multipliers of int8 activations; here each block of those has its own
                name = canonical(text)
                if name in tensors: r.fail(f"tensor {text!r} stands twice")
                if not all(is_count(d) and d for d in shape): r.fail(f"tensor {text!r} has shape {list(shape)}")
                tensors[name] = tensor_of(r, text, kind, start, size, shape)
        if options is None: r.fail(f"item {OPTIONS!r} is missing: the model says nothing of its architecture")
        return options, tensors


def tensor_of(r, name, kind, start, size, shape):
    n = elements(shape)
    if kind not in (FLOAT32, INTGEMM8): r.fail(f"tensor {name!r} is of type {kind:#x}, expected float32 ({FLOAT32:#x}) or intgemm8 ({INTGEMM8:#x})")
    needed = 4 * n if kind == FLOAT32 else n + 4
    if size < needed: r.fail(f"tensor {name!r} of shape {list(shape)} has {size} bytes, expected {needed}")
    if len(shape) > 1 and shape[0] == 1: shape = shape[1:]  # a vector
    if kind == FLOAT32: return Tensor(r.path, "F32", start, shape)
    multiplier, = struct.unpack_from("<f", r.data, start + n)
    if not (math.isfinite(multiplier) and multiplier > 0): r.fail(f"tensor {name!r} has the quantisation multiplier {multiplier}")
    lies_transposed = name != "Wemb" and len(shape) == 2
    return Tensor(r.path, "INTGEMM8", start, shape, (1, shape[0]) if lies_transposed else None, 1 / multiplier)


def model_of(c):
    c.only("type", "transformer")
    for key, value in (("transformer-decoder-autoreg", "rnn"), ("dec-cell", "ssru"), ("transformer-preprocess", ""), ("transformer-postprocess", "dan"), ("transformer-postprocess-emb", "d"),
                       ("transformer-postprocess-top", ""), ("transformer-ffn-depth", 2), ("lemma-dim-emb", 0), ("tied-embeddings-all", True), ("transformer-tied-layers", [])):
        if c.values.get(key) != value: c.refuse(key, f"{value!r}, nothing else is supported")
    for key in ("layer-normalization", "right-left", "transformer-no-projection", "transformer-no-bias", "transformer-no-affine", "transformer-pool", "transformer-rnn-projection",
                "transformer-train-position-embeddings", "ulr"): c.only(key, False)
    c.only("transformer-decoder-dim-ffn", 0)
    c.only("transformer-decoder-ffn-depth", 0)
    c.only("input-types", [])
    dim, heads = c.int("dim-emb"), c.int("transformer-heads", most=4096)
    if dim % heads: c.refuse("transformer-heads", f"a divisor of dim-emb = {dim}")
    if dim % 2 or dim < 4: c.refuse("dim-emb", "an even number, 4 or more")
    vocabularies = c.list("dim-vocabs", None, 2, lambda n: type(n) is int and 0 < n <= BIG, f"whole numbers from 1 to {BIG}")
    if not vocabularies or vocabularies[0] != vocabularies[1]: c.refuse("dim-vocabs", "two equal numbers: source and target share their vocabulary")
    m = Model(dict(DECODER), dim=dim, n_heads=heads, n_layers=c.int("dec-depth", most=1024), n_encoder_layers=c.int("enc-depth", most=1024), vocab_size=vocabularies[0],
              hidden_dim=c.int("transformer-dim-ffn"), context=CONTEXT, activation=c.activation("transformer-ffn-activation", known=ACTIVATIONS),
              norm=E.NORM_LAYER, norm_bias=1, norm_eps=1e-6, norm_place=E.NORM_POST, final_norm=0, qkv_bias=1, out_bias=1, ffn_bias=1,
              head=E.HEAD_TIED, head_bias=1 - c.flag("output-omit-bias", False), embed_scale=dim ** 0.5,
              positions=E.POSITIONS_SINUSOIDAL, sinusoid=E.SINUSOID_FAIRSEQ, zero_start=1)
    m.encoder_names, m.transposed = ENCODER, True
    m.every("kind", E.LAYER_SSRU)
    return m
