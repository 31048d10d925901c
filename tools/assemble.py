"""From a Model (families.py) and a source's tensors to the list of tensors that model.bin holds, each with the pieces it is made of.

Every tensor that the model needs must be there with the right shape, and every tensor that is there must be used or known to be no
part of the function.
"""
import re

from checkpoints import BLOCKS, ConvertError
from model_format import E

WIDTH = {"Q4_0": E.TYPE_Q4, "Q4_1": E.TYPE_Q4, "Q4_K": E.TYPE_Q4, "F16": E.TYPE_F16, "BF16": E.TYPE_BF16, "F32": E.TYPE_F32, "F64": E.TYPE_F32,
         "INTGEMM8": E.TYPE_F16}  # other types: q8
SCORES = ("embed.tokens", "head.weight")
ORDER = [E.TYPE_Q4, E.TYPE_Q8, E.TYPE_F16, E.TYPE_BF16, E.TYPE_F32]


class View:
    """Rows of a source tensor as a matrix; a vector is a matrix of one column."""

    def __init__(self, tensor, rows, cols, first=0, row_stride=None, col_stride=1, add=0.0):
        self.tensor, self.shape, self.first, self.strides, self.add = tensor, (rows, cols), first, (cols if row_stride is None else row_stride, col_stride), add

    def rows(self, start, n):
        return View(self.tensor, n, self.shape[1], self.first + start * self.strides[0], *self.strides, self.add)

    def transposed(self):
        return View(self.tensor, self.shape[1], self.shape[0], self.first, self.strides[1], self.strides[0], self.add)


class Output:
    """A tensor of model.bin: pieces are (matrix, first row, View)."""

    def __init__(self, name, layout, count, rows, cols):
        self.name, self.layout, self.count, self.rows, self.cols, self.pieces, self.values = name, layout, count, rows, cols, [], None
        self.vector = layout == E.LAYOUT_PLAIN and cols == 1  # a column here, a row there: the same bytes


def natural_type(output):
    """The storage that loses nothing worth naming: of several pieces' the widest."""
    kinds = [WIDTH.get(view.tensor.type, E.TYPE_Q8) for _, _, view in output.pieces]
    if E.TYPE_F16 in kinds and E.TYPE_BF16 in kinds: return E.TYPE_F32
    return max(kinds, key=ORDER.index)


def storage(output, asked, moments=None, keep=None):
    """The type of an output; asked: by --type, or None; moments: whether those of its activations are known; keep: parts of the names of
    those that stay in q8 when q4 is asked for, or None."""
    if output.layout == E.LAYOUT_PLAIN: return E.TYPE_F32
    natural = natural_type(output)
    # the scores feel four bits most: 6 % of perplexity on SmolLM2, whose other matrices together lose nothing; 1.1 % with moments
    kept = output.name in SCORES and not moments if keep is None else any(part in output.name for part in keep)
    if asked == E.TYPE_Q4 and kept and natural != E.TYPE_Q4: return E.TYPE_Q8
    # of Marian's translations, activations in int8 change 1 in 20, before the scores alone 1 in 100
    if asked is None and output.name in SCORES and all(view.tensor.type == "INTGEMM8" for _, _, view in output.pieces): return E.TYPE_Q8
    return natural if asked is None else asked


class Assembler:
    def __init__(self, model, tensors, source):
        self.m, self.h, self.source, self.outputs, self.used, self.planned = model, model.h, source, [], set(), set()
        self.tensors = {}
        # "model.decoder." may stand whole, or without its beginning
        parts = model.prefix.split(".")[:-1]
        prefix = "^(?:" + "|".join(re.escape(".".join(parts[i:]) + ".") for i in range(len(parts))) + ")" if parts else "^"
        for name, tensor in tensors.items():
            short = re.sub(prefix, "", name)
            for old, new in ((".gamma", ".weight"), (".beta", ".bias")):  # BERT's first checkpoints
                if short.endswith("LayerNorm" + old): short = short[:-len(old)] + new
            if short in self.tensors: raise ConvertError(f"{source}: tensor {short!r} is there twice, with and without {model.prefix!r}")
            self.tensors[short] = tensor
        self.table = model.names

    # -- finding

    def name(self, role, i=None, e=None):
        if role not in self.table: raise ConvertError(f"{self.source}: this architecture has no {role}")
        return self.table[role].replace("{i}", str(i)).replace("{i+1}", str((i or 0) + 1)).replace("{e}", str(e))

    def has(self, role, suffix=".weight"):
        return role in self.table and self.table[role] + suffix in self.tensors

    def take(self, name, *shape):
        tensor = self.tensors.get(name)
        if tensor is None: raise ConvertError(f"{self.source}: tensor {name!r} of shape {list(shape)} is missing")
        if tensor.shape != shape: raise ConvertError(f"{self.source}: tensor {name!r} has shape {list(tensor.shape)}, expected {list(shape)}")
        if tensor.type not in BLOCKS: raise ConvertError(f"{self.source}: tensor {name!r} is of type {tensor.type}, which is not supported")
        self.used.add(name)
        return tensor

    def matrix(self, role, rows, cols, i=None, e=None):
        name = self.name(role, i, e) + ".weight"
        if self.m.transposed and i is not None:
            t = self.take(name, cols, rows)
            return View(t, cols, rows, 0, *t.strides).transposed()
        t = self.take(name, rows, cols)
        return View(t, rows, cols, 0, *t.strides)

    def vector(self, name, n, add=0.0):
        t = self.take(name, n)
        return View(t, n, 1, 0, t.strides[0], 1, add)

    def bias(self, role, n, i=None):
        return self.vector(self.name(role, i) + ".bias", n)

    # -- putting

    def put(self, name, layout, rows, cols, views, count=1, row=0):
        """A tensor whose rows are those of the views, one after the other from row on; rows are one column wide in a vector."""
        out = Output(name, layout, count, rows, cols)
        for view in views:
            if view.shape[0]: out.pieces.append((row // rows, row % rows, view))
            row += view.shape[0]
        self.outputs.append(out)

    def put_matrix(self, name, rows, cols, *views, count=1):
        self.put(name, E.LAYOUT_PANELS, rows, cols, views, count)

    def put_vector(self, name, n, *views):
        self.put(name, E.LAYOUT_PLAIN, n, 1, views)

    def put_table(self, name, role, rows, cols):
        self.put(name, E.LAYOUT_PLAIN, rows, cols, [self.matrix(role, rows, cols)])
        self.outputs[-1].vector = False

    def put_linear(self, name, role, rows, cols, bias, i=None):
        self.put_matrix(name + ".weight", rows, cols, self.matrix(role, rows, cols, i))
        if bias: self.put_vector(name + ".bias", rows, self.bias(role, rows, i))

    def put_norm(self, name, role, n, i=None, bias=None):
        at = self.name(role, i)
        self.put_vector(name + ".weight", n, self.vector(at + ".weight", n, self.m.norm_plus))
        if self.h["norm_bias"] if bias is None else bias: self.put_vector(name + ".bias", n, self.vector(at + ".bias", n))

    # -- parts of a layer

    def split(self, view):
        """Rows of queries, then keys, then values, out of a fused qkv."""
        h, n = self.h, self.h["head_dim"]
        if self.m.fused == "rows": return [view]
        group = h["n_heads"] // h["n_kv_heads"]
        kv = range(h["n_kv_heads"])
        at = lambda g, first, count: view.rows((g * (group + 2) + first) * n, count * n)
        return [at(g, 0, group) for g in kv] + [at(g, group, 1) for g in kv] + [at(g, group + 1, 1) for g in kv]

    def attention(self, to, i):
        h, dim = self.h, self.h["dim"]
        q, k, v = h["n_heads"] * h["head_dim"], h["n_kv_heads"] * h["head_dim"], h["n_kv_heads"] * h["v_head_dim"]
        if self.m.fused:
            weights, biases = self.split(self.matrix("qkv", q + k + v, dim, i)), lambda: self.split(self.bias("qkv", q + k + v, i))
        else:
            weights = [self.matrix("q", q, dim, i), self.matrix("k", k, dim, i), self.matrix("v", v, dim, i)]
            biases = lambda: [self.bias("q", q, i), self.bias("k", k, i), self.bias("v", v, i)]
        self.put_matrix(to + "attn.qkv.weight", q + k + v, dim, *weights)
        if h["qkv_bias"]: self.put_vector(to + "attn.qkv.bias", q + k + v, *biases())
        if h["qk_norm"]:
            self.qk_norm(to + "attn.q_norm", "q_norm", h["n_heads"], i)
            self.qk_norm(to + "attn.k_norm", "k_norm", h["n_kv_heads"], i)

    def qk_norm(self, to, role, heads, i):
        n = self.h["head_dim"]
        for suffix, add in ((".weight", self.m.norm_plus), (".bias", 0.0))[:2 if self.h["norm_bias"] else 1]:
            name = self.name(role, i) + suffix
            if "{e}" in self.table[role]:  # each head's own, without bias
                if suffix == ".bias":
                    self.values(to + suffix, [0.0] * (heads * n))
                    continue
                views = [self.vector(self.name(role, i, head) + suffix, n, add) for head in range(heads)]
            elif self.h["qk_norm"] == E.QK_FULL: views = [self.vector(name, heads * n, add)]
            elif self.m.repeat_qk_norm: views = [self.vector(name, n, add)] * heads
            else:  # a row for each head
                t = self.take(name, heads, n)
                views = [View(t, n, 1, head * t.strides[0], t.strides[1], 1, add) for head in range(heads)]
            self.put_vector(to + suffix, heads * n, *views)

    def latent_attention(self, to, i):
        h, dim, turning = self.h, self.h["dim"], self.h["rope"][0]["dim"]
        heads, rank, nope, v, q = h["n_heads"], h["kv_lora_rank"], h["head_dim"] - turning, h["v_head_dim"], h["n_heads"] * h["head_dim"]
        if h["q_lora_rank"]:
            self.put_linear(to + "attn.q_a", "q_a", h["q_lora_rank"], dim, 0, i)
            self.put_norm(to + "attn.q_a_norm", "q_a_norm", h["q_lora_rank"], i, 0)
            self.put_linear(to + "attn.q_b", "q_b", q, h["q_lora_rank"], 0, i)
        else: self.put_linear(to + "attn.q", "q", q, dim, 0, i)
        self.put_linear(to + "attn.kv_a", "kv_a", rank + turning, dim, 0, i)
        self.put_norm(to + "attn.kv_a_norm", "kv_a_norm", rank, i, 0)
        if "k_b" in self.table and self.name("k_b", i) + ".weight" in self.tensors:  # split already, and the keys' half transposed
            k_b = self.stacked(self.name("k_b", i) + ".weight", heads, rank, nope)
            v_b = self.stacked(self.name("v_b", i) + ".weight", heads, v, rank)
        else:
            kv_b = self.matrix("kv_b", heads * (nope + v), rank, i)
            k_b = [kv_b.rows(head * (nope + v), nope).transposed() for head in range(heads)]
            v_b = [kv_b.rows(head * (nope + v) + nope, v) for head in range(heads)]
        self.put_matrix(to + "attn.k_b.weight", rank, nope, *k_b, count=heads)
        self.put_matrix(to + "attn.v_b.weight", v, rank, *v_b, count=heads)

    def stacked(self, name, count, rows, cols):
        """The matrices of a tensor of three dimensions."""
        t = self.take(name, count, rows, cols)
        return [View(t, rows, cols, n * t.strides[0], *t.strides[1:]) for n in range(count)]

    def ssru(self, to, i):
        dim = self.h["dim"]
        self.put_matrix(to + "ssru.weight", 2 * dim, dim, self.matrix("ssru_input", dim, dim, i), self.matrix("ssru_gate", dim, dim, i))
        self.put(to + "ssru.bias", E.LAYOUT_PLAIN, 2 * dim, 1, [self.bias("ssru_gate", dim, i)], row=dim)

    def cross_attention(self, to, i):
        h, dim = self.h, self.h["dim"]
        q, k, v = h["n_heads"] * h["head_dim"], h["n_kv_heads"] * h["head_dim"], h["n_kv_heads"] * h["v_head_dim"]
        self.put_norm(to + "cross_norm", "cross_norm", dim, i)
        self.put_linear(to + "cross.q", "cross_q", q, dim, h["qkv_bias"], i)
        self.put_matrix(to + "cross.kv.weight", k + v, dim, self.matrix("cross_k", k, dim, i), self.matrix("cross_v", v, dim, i))
        if h["qkv_bias"]: self.put_vector(to + "cross.kv.bias", k + v, self.bias("cross_k", k, i), self.bias("cross_v", v, i))
        self.put_linear(to + "cross.out", "cross_out", dim, q, h["out_bias"], i)

    def feed_forward(self, to, roles, hidden, bias, i):
        """roles: of the gate, up and down projections."""
        gate, up, down = roles
        rows = hidden * (1 + self.h["gated"])
        if self.h["gated"] and "gate_up" in self.table: parts = [("gate_up", rows)]
        else: parts = ([(gate, hidden)] if self.h["gated"] else []) + [(up, hidden)]
        self.put_matrix(to + ".up.weight", rows, self.h["dim"], *(self.matrix(role, n, self.h["dim"], i) for role, n in parts))
        if bias: self.put_vector(to + ".up.bias", rows, *(self.bias(role, n, i) for role, n in parts))
        self.put_linear(to + ".down", down, self.h["dim"], hidden, bias, i)

    def mixture(self, to, i):
        h, dim, n, hidden = self.h, self.h["dim"], self.h["n_experts"], self.h["expert_dim"]
        self.put_matrix(to + "router.weight", n, dim, self.matrix("router", n, dim, i))
        if h["router_bias"]: self.put_vector(to + "router.bias", n, self.vector(self.name("router_bias", i), n))

        def each(role, rows, cols):
            if "{e}" in self.table.get(role, ""): return [self.matrix(role, rows, cols, i, e) for e in range(n)]
            return self.stacked(self.name(role, i) + ".weight", n, rows, cols)
        if "expert_gate_up" in self.table and self.name("expert_gate_up", i) + ".weight" in self.tensors: ups = each("expert_gate_up", 2 * hidden, dim)
        else: ups = [view for pair in zip(each("expert_gate", hidden, dim), each("expert_up", hidden, dim)) for view in pair]
        self.put_matrix(to + "experts.up.weight", 2 * hidden, dim, *ups, count=n)
        self.put_matrix(to + "experts.down.weight", dim, hidden, *each("expert_down", dim, hidden), count=n)
        if h["shared_dim"]:
            self.feed_forward(to + "shared", ("shared_gate", "shared_up", "shared_down"), h["shared_dim"], 0, i)
            if h["shared_gate"]: self.put_matrix(to + "shared.gate.weight", 1, dim, self.shared_router(dim, i))

    def shared_router(self, dim, i):
        t = self.tensors.get(self.name("shared_router", i) + ".weight")
        if t is not None and t.shape == (dim,): return View(self.take(self.name("shared_router", i) + ".weight", dim), 1, dim)
        return self.matrix("shared_router", 1, dim, i)

    def layer(self, to, i, layer, cross):
        h, dim = self.h, self.h["dim"]
        before, after = h["norm_place"] != E.NORM_OUTPUT, h["norm_place"] in (E.NORM_SANDWICH, E.NORM_OUTPUT)
        if before and not layer["skip_attn_norm"]: self.put_norm(to + "attn_norm", "attn_norm", dim, i)
        if layer["kind"] == E.LAYER_SSRU: self.ssru(to, i)
        else:
            (self.latent_attention if h["kv_lora_rank"] else self.attention)(to, i)
            self.put_linear(to + "attn.out", "out", dim, h["n_heads"] * h["v_head_dim"], h["out_bias"], i)
        if after: self.put_norm(to + "attn_post_norm", "attn_post_norm", dim, i)
        if cross: self.cross_attention(to, i)
        if before and h["parallel"] != E.PARALLEL_ONE_NORM: self.put_norm(to + "ffn_norm", "ffn_norm", dim, i)
        if layer["experts"]: self.mixture(to, i)
        else: self.feed_forward(to + "ffn", ("gate", "up", "down"), h["hidden_dim"], h["ffn_bias"], i)
        if after: self.put_norm(to + "ffn_post_norm", "ffn_post_norm", dim, i)

    # -- the whole

    def embedding(self):
        h, dim, width = self.h, self.h["dim"], self.h["embed_dim"]
        self.put_matrix("embed.tokens", h["vocab_size"], width, self.matrix("embed", h["vocab_size"], width))
        if width != dim: self.put_matrix("embed.project_in", dim, width, self.matrix("project_in", dim, width))
        if h["positions"] == E.POSITIONS_LEARNED:
            self.put_table("embed.positions", "embed_positions", h["n_positions"], dim)
        if h["embed_type"]:  # a text is all of the first segment
            name = self.name("embed_type") + ".weight"
            t = self.tensors.get(name)
            if t is None or len(t.shape) != 2 or t.shape[0] < 1: raise ConvertError(f"{self.source}: tensor {name!r} of shape [segments, {dim}] is missing")
            t = self.take(name, t.shape[0], dim)
            self.put_vector("embed.type", dim, View(t, dim, 1, 0, t.strides[1]))
        if h["embed_norm"]: self.put_norm("embed.norm", "embed_norm", dim)

    def head(self):
        h, dim, width = self.h, self.h["dim"], self.h["embed_dim"]
        if self.m.masked_head and not self.has("head_dense"):
            for key in ("head", "head_dense", "head_dense_bias", "head_bias"): h[key] = 0
        if self.m.bare and not self.has("head"): h["head"] = h["head_bias"] = 0
        if h["head_dense"]:
            self.put_linear("head.dense", "head_dense", dim, dim, h["head_dense_bias"])
            self.put_norm("head.norm", "head_norm", dim)
        if not h["head"]: return
        if width != dim: self.put_matrix("head.project_out", width, dim, self.matrix("project_out", width, dim))
        if h["head"] == E.HEAD_OWN: self.put_matrix("head.weight", h["vocab_size"], width, self.matrix("head", h["vocab_size"], width))
        if h["head_bias"]:
            name = self.table.get("head_bias_whole") or self.name("head_bias" if "head_bias" in self.table else "head") + ".bias"
            t = self.tensors.get(name)
            n = h["vocab_size"]
            if t is not None and t.shape == (1, n): self.put_vector("head.bias", n, View(self.take(name, 1, n), n, 1, 0, t.strides[1]))
            else: self.put_vector("head.bias", n, self.vector(name, n))

    def stack(self, to, first, n, cross):
        for i in range(n): self.layer(f"{to}{i}.", i, self.m.layers[first + i], cross)
        to = "encoder." if to == "encoder." else ""
        if self.h["final_norm"]: self.put_norm(to + "final_norm", "final_norm", self.h["dim"])
        if self.h["positions"] == E.POSITIONS_RELATIVE:
            self.put_table(to + "relative_bias", "relative", self.h["relative_buckets"], self.h["n_heads"])

    def values(self, name, values):
        out = Output(name, E.LAYOUT_PLAIN, 1, len(values), 1)
        out.values = values
        self.outputs.append(out)

    def assemble(self):
        """The outputs, in the order in which the forward pass reads them. Settles header fields that depend on which tensors are there."""
        h = self.h
        self.embedding()
        if h["n_encoder_layers"]:
            self.table = self.m.encoder_names
            self.stack("encoder.", 0, h["n_encoder_layers"], False)
            self.table = self.m.names
        self.stack("layers.", h["n_encoder_layers"], h["n_layers"], h["n_encoder_layers"] > 0)
        self.head()
        for name, values in self.m.extra.items(): self.values(name, values)
        for r, rope in enumerate(h["rope"]):
            for kind, values in zip(("short", "long"), rope.pop("factors", ())): self.values(f"rope.{r}.{kind}_factors", values)
            for kind, name in zip(("short", "long"), rope.pop("tensors", ())): self.put_vector(f"rope.{r}.{kind}_factors", rope["dim"] // 2, self.vector(name, rope["dim"] // 2))
        if h["head"] == E.HEAD_TIED: self.m.skip.append(re.escape(self.name("head") + ".weight"))
        unused = [n for n in self.tensors if n not in self.used and not any(re.fullmatch(p, n) for p in self.m.skip)]
        if unused: raise ConvertError(f"{self.source}: tensor {unused[0]!r} is not one that this architecture has" + (f", nor are {len(unused) - 1} others" if len(unused) > 1 else ""))
        return self.outputs
