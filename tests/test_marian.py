#!/usr/bin/env python3
"""Marian's binary file: a tiny model written here, converted, run, and held against a forward pass in plain Python (the Transformer of
Vaswani et al. 2017 with the recurrent unit of Kim et al. 2019 in the decoder). Standard library alone; needs ./run and build/quantize."""
import array
import math
import os
import random
import struct
import subprocess
import unittest

from test_convert import ROOT, Case

FLOAT32, INT8, INTGEMM8 = 0x404, 0x101, 0x4101
PIECES = ["</s>", "<unk>", "\u2581", "a", "b", "\u2581the", "\u2581cat", "\u2581dog", "sat", "s", ".", ",", "\u2581on"]
OPTIONS = {"type": "transformer", "enc-depth": 2, "dec-depth": 2, "dec-cell": "ssru", "transformer-decoder-autoreg": "rnn", "dim-emb": 24, "transformer-heads": 3, "transformer-dim-ffn": 40,
           "transformer-ffn-depth": 2, "transformer-ffn-activation": "relu", "transformer-preprocess": '""', "transformer-postprocess": "dan", "transformer-postprocess-emb": "d",
           "transformer-postprocess-top": '""', "tied-embeddings-all": "true", "lemma-dim-emb": 0, "right-left": "false", "transformer-tied-layers": "[]",
           "dim-vocabs": f"\n  - {len(PIECES)}\n  - {len(PIECES)}", "version": "v1.9.56 94aeaa46 2021-04-28 00:28:35 +0100"}


# ---- a model ------------------------------------------------------------------------------------------------------------

def rounded(x): return struct.unpack("<f", struct.pack("<f", x))[0]


class Marian:
    """Random weights by Marian's names: matrices [in][out] of whole numbers and their multiplier, vectors of floats."""

    def __init__(self, seed=1, **changes):
        self.options, self.random = dict(OPTIONS, **{key.replace("_", "-"): value for key, value in changes.items()}), random.Random(seed)
        self.dim, self.ffn = self.options["dim-emb"], self.options["transformer-dim-ffn"]
        self.whole, self.multiplier, self.vectors = {}, {}, {}
        d, f = self.dim, self.ffn
        self.matrix("Wemb", len(PIECES), d)
        self.vector("decoder_ff_logit_out_b", len(PIECES))
        for i in (1, 2):
            self.attention(f"encoder_l{i}_self")
            self.feed_forward(f"encoder_l{i}_ffn", d, f)
            self.matrix(f"decoder_l{i}_rnn_W", d, d)
            self.matrix(f"decoder_l{i}_rnn_Wf", d, d)
            self.vector(f"decoder_l{i}_rnn_bf", d)
            self.norm(f"decoder_l{i}_rnn_ffn", d)
            self.attention(f"decoder_l{i}_context")
            self.feed_forward(f"decoder_l{i}_ffn", d, f)

    def matrix(self, name, rows, cols):
        self.whole[name] = [[self.random.randint(-127, 127) for _ in range(cols)] for _ in range(rows)]
        self.multiplier[name] = rounded(self.random.uniform(150, 300))

    def vector(self, name, n, centre=0.0): self.vectors[name] = [rounded(self.random.gauss(centre, 0.3)) for _ in range(n)]

    def norm(self, name, n):
        self.vector(name + "_ln_scale", n, 1.0)
        self.vector(name + "_ln_bias", n)

    def attention(self, name):
        for part in "qkvo":
            self.matrix(f"{name}_W{part}", self.dim, self.dim)
            self.vector(f"{name}_b{part}", self.dim)
        self.norm(name + "_Wo", self.dim)

    def feed_forward(self, name, d, f):
        self.matrix(name + "_W1", d, f)
        self.matrix(name + "_W2", f, d)
        self.vector(name + "_b1", f)
        self.vector(name + "_b2", d)
        self.norm(name + "_ffn", d)

    def weight(self, name): return [[q / self.multiplier[name] for q in row] for row in self.whole[name]]

    def items(self, quantised=True):
        """(name, type, shape, data); in int8 a matrix lies transposed, save for the embedding."""
        out = []
        for name, rows in self.whole.items():
            shape = (len(rows), len(rows[0]))
            if quantised:
                flat = [q for row in (rows if name == "Wemb" else zip(*rows)) for q in row]
                out.append((name, INTGEMM8, shape, struct.pack(f"<{len(flat)}bf", *flat, self.multiplier[name])))
                out.append((name + "_QuantMultA", FLOAT32, (1, 1), struct.pack("<f", 12.5)))
            else: out.append((name, FLOAT32, shape, b"".join(struct.pack("<f", v) for row in self.weight(name) for v in row)))
        out += [(name, FLOAT32, (1, len(values)), struct.pack(f"<{len(values)}f", *values)) for name, values in self.vectors.items()]
        return out + [("special:model.yml", INT8, None, "".join(f"{key}: {value}\n".replace(": \n", ":\n") for key, value in self.options.items()).encode() + b"\0")]


def pack(items):
    data = [raw + bytes(-len(raw) % 256) for *_, raw in items]
    shapes = [(len(raw),) if shape is None else shape for (_, _, shape, _), raw in zip(items, data)]
    head = struct.pack("<QQ", 1, len(items))
    head += b"".join(struct.pack("<4Q", len(name) + 1, kind, len(shape), len(raw)) for (name, kind, *_), shape, raw in zip(items, shapes, data))
    head += b"".join(name.encode() + b"\0" for name, *_ in items) + b"".join(struct.pack(f"<{len(shape)}i", *shape) for shape in shapes)
    padding = -(len(head) + 8) % 256
    return head + struct.pack("<Q", padding) + bytes(padding) + b"".join(data)


def sentencepiece(pieces):
    def message(number, raw): return bytes([number << 3 | 2]) + (bytes([len(raw)]) if len(raw) < 128 else bytes([len(raw) & 127 | 128, len(raw) >> 7])) + raw
    kinds = {"</s>": 3, "<unk>": 2}
    return b"".join(message(1, message(1, text.encode()) + b"\x15" + struct.pack("<f", -len(pieces) + 3 * len(text)) + b"\x18" + bytes([kinds.get(text, 1)])) for text in pieces)


# ---- the forward pass ---------------------------------------------------------------------------------------------------

def times(x, w, b=None): return [sum(v * row[j] for v, row in zip(x, w)) + (b[j] if b else 0.0) for j in range(len(w[0]))]
def sigmoid(v): return 1 / (1 + math.exp(-v))


class Forward:
    def __init__(self, model, activation):
        self.m, self.activation, self.heads = model, activation, model.options["transformer-heads"]
        self.w, self.v = {name: model.weight(name) for name in model.whole}, model.vectors

    def embed(self, row, position):
        """Vaswani et al., 3.4 and 3.5; all sines, then all cosines, the last of d / 2 frequencies 1 / 10000."""
        half = self.m.dim // 2
        angles = [position / 10000 ** (i / (half - 1)) for i in range(half)]
        return [v * self.m.dim ** 0.5 + s for v, s in zip(row, [*map(math.sin, angles), *map(math.cos, angles)])]

    def add_norm(self, x, y, name):
        x = [a + b for a, b in zip(x, y)]
        mean = sum(x) / len(x)
        spread = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + 1e-6)
        return [(v - mean) / spread * s + b for v, s, b in zip(x, self.v[name + "_ln_scale"], self.v[name + "_ln_bias"])]

    def linear(self, x, name, part): return times(x, self.w[f"{name}_W{part}"], self.v[f"{name}_b{part}"])

    def attention(self, x, source, name):
        """Of one query, x, over all of the source."""
        q, ks, vs = self.linear(x, name, "q"), [self.linear(s, name, "k") for s in source], [self.linear(s, name, "v") for s in source]
        size, out = self.m.dim // self.heads, []
        for at in range(0, self.m.dim, size):
            scores = [math.exp(sum(q[i] * k[i] for i in range(at, at + size)) / size ** 0.5) for k in ks]
            out += [sum(s * v[i] for s, v in zip(scores, vs)) / sum(scores) for i in range(at, at + size)]
        return self.add_norm(x, self.linear(out, name, "o"), name + "_Wo")

    def feed_forward(self, x, name):
        return self.add_norm(x, self.linear([self.activation(v) for v in self.linear(x, name, "1")], name, "2"), name + "_ffn")

    def ssru(self, x, cell, name):
        """c = f c' + (1 - f) W x, relu(c) (Kim et al., 3.1)."""
        f = [sigmoid(v) for v in times(x, self.w[name + "_Wf"], self.v[name + "_bf"])]
        cell[:] = [a * c + (1 - a) * u for a, c, u in zip(f, cell, times(x, self.w[name + "_W"]))]
        return self.add_norm(x, [max(c, 0.0) for c in cell], name + "_ffn")

    def scores(self, source, target):
        """A row of scores for each target position; the first token's embedding is zero."""
        states = [self.embed(self.w["Wemb"][token], i) for i, token in enumerate(source)]
        for i in (1, 2):
            states = [self.attention(x, states, f"encoder_l{i}_self") for x in states]
            states = [self.feed_forward(x, f"encoder_l{i}_ffn") for x in states]
        cells, rows = {i: [0.0] * self.m.dim for i in (1, 2)}, []
        for t, token in enumerate(target):
            x = self.embed(self.w["Wemb"][token] if t else [0.0] * self.m.dim, t)
            for i in (1, 2):
                x = self.ssru(x, cells[i], f"decoder_l{i}_rnn")
                x = self.attention(x, states, f"decoder_l{i}_context")
                x = self.feed_forward(x, f"decoder_l{i}_ffn")
            rows += times(x, list(zip(*self.w["Wemb"])), self.v["decoder_ff_logit_out_b"])
        return rows


# ---- tests --------------------------------------------------------------------------------------------------------------

class Base(Case):
    def write(self, items, pieces=PIECES):
        os.makedirs(self.path("model"), exist_ok=True)
        for name, data in (("model.bin", pack(items)), ("vocab.spm", sentencepiece(pieces)), ("lex.bin", struct.pack("<Q", 0xF11A48D5013417F5) + bytes(64))):
            with open(self.path("model/" + name), "wb") as f: f.write(data)
        return self.path("model")

    def run_model(self, *args):
        done = subprocess.run([os.path.join(ROOT, "run"), self.out, *args], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()


class Values(Base):
    def logits(self, *args):
        self.run_model(*args, "--logits", self.path("logits"))
        out = array.array("f")
        with open(self.path("logits"), "rb") as f: out.frombytes(f.read())
        return list(out)

    def check_scores(self, model, activation, quantised):
        self.convert(self.write(model.items(quantised)), "--type", "f32")
        source, target = [5, 7, 8, 10, 0], [0, 6, 3, 12, 4]
        want = Forward(model, activation).scores(source, target)
        got = self.logits("--ids", " ".join(map(str, source)), "--decoder-ids", " ".join(map(str, target)))
        self.near(got, want, 2e-4)

    def test_int8(self): self.check_scores(Marian(), lambda v: max(v, 0.0), True)

    def test_float32(self): self.check_scores(Marian(2, transformer_ffn_activation="swish"), lambda v: v * sigmoid(v), False)

    def test_gelu(self): self.check_scores(Marian(3, transformer_ffn_activation="gelu"), lambda v: v * sigmoid(1.702 * v), True)

    def test_text(self):
        """A text goes in with eos behind it; the answer is the likeliest, without the space in front of its first word."""
        model = Marian(4)
        self.convert(self.write(model.items()), "--type", "f32")
        self.assertEqual(self.logits("-p", "the cats."), self.logits("--ids", "5 6 9 10 0"))
        want, forward = [0], Forward(model, lambda v: max(v, 0.0))
        for _ in range(6):
            last = forward.scores([5, 6, 9, 10, 0], want)[-len(PIECES):]
            want.append(last.index(max(last)))
            if not want[-1]: break
        text = "".join(PIECES[i] for i in want if i > 1).replace("\u2581", " ").removeprefix(" ")
        done = subprocess.run([os.path.join(ROOT, "run"), self.out, "-p", "the cats.", "-n", "6"], capture_output=True, timeout=60, check=True)
        self.assertEqual(done.stdout.decode(), text + "\n")
        self.assertIn(b"prompt: 6 tokens,", done.stderr)  # the source and the token that the answer begins with

    def test_storage(self):
        """The embedding keeps its int8 numbers, the layers become f16; asked for q8, they keep theirs, too."""
        model = Marian(5, dim_emb=32, transformer_heads=4, transformer_dim_ffn=64)
        b = self.convert(os.path.join(self.write(model.items()), "model.bin"))
        half = lambda v: struct.unpack("<e", struct.pack("<e", v))[0]
        kept = lambda name, rows: [q * half(1 / model.multiplier[name]) for row in rows for q in row]
        self.assertEqual(b.tensor("embed.tokens"), kept("Wemb", model.whole["Wemb"]))
        stored = b.tensor("layers.1.ffn.up.weight")
        self.near(stored, [v for row in zip(*model.weight("decoder_l2_ffn_W1")) for v in row], 3e-4)
        self.assertEqual(stored, [half(v) for v in stored])
        self.assertEqual(b.tensor("layers.0.ssru.bias"), [0.0] * 32 + model.vectors["decoder_l1_rnn_bf"])
        b = self.convert(self.path("model"), "--type", "q8")
        self.assertEqual(b.tensor("layers.1.ffn.up.weight"), kept("decoder_l2_ffn_W1", zip(*model.whole["decoder_l2_ffn_W1"])))
        self.assertEqual((b.h("zero_start"), b.h("source_bits"), b.layer(1, "kind"), b.layer(2, "kind")), (1, 8, 0, 1))


class Refusals(Base):
    def test_options(self):
        for key, value, *parts in (("transformer_decoder_autoreg", "self-attention", "'rnn'"), ("dec_cell", "gru", "'ssru'"), ("transformer_ffn_activation", "prelu", "one of gelu, relu, swish"),
                                   ("right_left", "true", "False"), ("transformer_postprocess", "da", "'dan'"), ("transformer_preprocess", "n"), ("transformer_heads", 5, "a divisor of dim-emb = 24"),
                                   ("tied_embeddings_all", "false", "True"), ("dim_vocabs", "\n  - 13\n  - 14", "two equal numbers"), ("transformer_ffn_depth", 3), ("dim_emb", 24.5),
                                   ("transformer_tied_layers", "\n  - 1\n  - 1"), ("enc_depth", "~")):
            model = Marian(1)
            model.options[key.replace("_", "-")] = value
            self.refused(self.write(model.items()), key.replace("_", "-") + " is ", *parts)

    def test_tensors(self):
        items = Marian().items()
        at = next(i for i, item in enumerate(items) if item[0] == "decoder_l1_rnn_Wf")
        name, kind, shape, raw = items[at]
        for changed, *parts in (([], "'decoder_l1_rnn_Wf.weight' of shape [24, 24] is missing"), ([items[at], items[at]], "stands twice"), ([items[at], ("extra", *items[at][1:])], "'extra' is not one"),
                                ([(name, 0x1801, shape, raw)], "type 0x1801", "intgemm8"), ([(name, kind, (24, 32), raw)], "768 bytes, expected 772"), ([(name, kind, (-24, 24), raw)], "[-24, 24]"),
                                ([(name, kind, (24, 12), raw[288:])], "expected [24, 24]"), ([(name, kind, shape, raw[:-4] + struct.pack("<f", 0))], "multiplier 0.0"),
                                ([(name, kind, shape, raw[:-4] + struct.pack("<f", math.nan))], "multiplier nan"), ([(name, kind, (1,) * 9, raw)], "9 dimensions")):
            with self.subTest(parts=parts): self.refused(self.write(items[:at] + changed + items[at + 1:]), *parts)
        self.refused(self.write(items[:-1]), "special:model.yml")

    def test_vocabulary(self):
        items = Marian().items()
        self.refused(self.write(items, PIECES + ["x"]), "vocab.spm has 14 tokens, the model 13")
        folder = self.write(items)
        with open(folder + "/second.spm", "wb") as f: f.write(sentencepiece(PIECES))
        self.refused(folder, "2 files *.spm")
        self.convert(folder, "--tokenizer", folder + "/second.spm")
        os.remove(self.out)
        with open(folder + "/second.bin", "wb") as f: f.write(pack(items))
        self.refused(folder, "model.bin and second.bin")

    def test_damage(self):
        """Cut short anywhere, or with a byte of the head changed: one line, or a model; never anything else."""
        items = Marian().items()
        whole, folder = pack(items), self.write(items)
        lengths = [*range(16, 5000, 97), *range(5000, len(whole) - 256, 3001), len(whole) - 257]
        for n in lengths:
            with self.subTest(length=n):
                with open(folder + "/model.bin", "wb") as f: f.write(whole[:n])
                self.refused(folder + "/model.bin", "model.bin: ")
        chance = random.Random(6)
        for _ in range(60):
            broken = bytearray(whole)
            broken[chance.randrange(8, 5000)] = chance.randrange(256)
            with open(folder + "/model.bin", "wb") as f: f.write(broken)
            status, error = self.run_main(folder + "/model.bin", self.out)
            self.assertNotIn("\n", error)
            self.assertEqual(os.path.exists(self.out), status == 0)
            if status == 0: os.remove(self.out)


if __name__ == "__main__":
    unittest.main()
