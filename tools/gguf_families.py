"""What the metadata of a GGUF file means: the same Models as families.py makes, from llama.cpp's keys and tensor names.

llama.cpp's converter stores some weights otherwise than Hugging Face: the rows of q and k of LLaMA and its kin are reordered so that
rotary pairs are neighbours, Gemma's norms have their 1 added, a fused qkv has all queries, then keys, then values, Conv1D weights
are transposed. What the file does not say (a bias, an output matrix) follows from the tensors that are there.
"""
from checkpoints import ConvertError
from families import BIG, LONG, Config, Model, alibi_slopes, names, yarn_mscale
from model_format import E, NO_ROPE

GGUF = names("""
    embed token_embd  embed_positions position_embd  embed_norm token_embd_norm  embed_type token_types  final_norm output_norm  head output
    attn_norm blk.{i}.attn_norm  q blk.{i}.attn_q  k blk.{i}.attn_k  v blk.{i}.attn_v  out blk.{i}.attn_output  q_norm blk.{i}.attn_q_norm  k_norm blk.{i}.attn_k_norm
    attn_post_norm blk.{i}.post_attention_norm  ffn_norm blk.{i}.ffn_norm  ffn_post_norm blk.{i}.post_ffw_norm  gate blk.{i}.ffn_gate  up blk.{i}.ffn_up  down blk.{i}.ffn_down
    router blk.{i}.ffn_gate_inp  router_bias blk.{i}.exp_probs_b.bias  expert_gate blk.{i}.ffn_gate_exps  expert_gate_up blk.{i}.ffn_gate_up_exps  expert_up blk.{i}.ffn_up_exps  expert_down blk.{i}.ffn_down_exps
    shared_gate blk.{i}.ffn_gate_shexp  shared_up blk.{i}.ffn_up_shexp  shared_down blk.{i}.ffn_down_shexp  shared_router blk.{i}.ffn_gate_inp_shexp
    q_a blk.{i}.attn_q_a  q_a_norm blk.{i}.attn_q_a_norm  q_b blk.{i}.attn_q_b  kv_a blk.{i}.attn_kv_a_mqa  kv_a_norm blk.{i}.attn_kv_a_norm
    kv_b blk.{i}.attn_kv_b  k_b blk.{i}.attn_k_b  v_b blk.{i}.attn_v_b""")
FUSED = "blk.{i}.attn_qkv"
SILU = {"activation": E.ACT_SILU, "gated": 1}
TANH = {"activation": E.ACT_GELU_TANH}
LAYER_NORM = {"norm": E.NORM_LAYER, "norm_bias": 1}


class File:
    """Keys of one architecture, without its name in front, and the tensors."""

    def __init__(self, path, architecture, kv, tensors):
        start = architecture + "."
        self.c = Config(f"{path}: {architecture}", {k[len(start):]: v for k, v in kv.items() if k.startswith(start)})
        self.tensors, self.path = tensors, path

    def there(self, name): return int(name in self.tensors)

    def length(self, name, axis):
        t = self.tensors.get(name)
        if t is None or len(t.shape) <= axis: raise ConvertError(f"{self.path}: tensor {name!r} is missing")
        return t.shape[axis]

    def local(self, n, pattern):
        """Which layers see a window only: all but each pattern-th, unless the file says otherwise."""
        key = "attention.sliding_window_pattern"
        if isinstance(self.c.values.get(key), tuple): return [bool(v) for v in self.c.list(key, None, n, lambda v: v in (0, 1), "truth values")]
        pattern = self.c.int(key, pattern, most=BIG)
        return [(i + 1) % pattern != 0 for i in range(n)]

    def stack(self, interleaved=0, rotary=True, **fields):
        """The Model that the keys common to all architectures describe."""
        c = self.c
        dim, heads = c.int("embedding_length"), c.int("attention.head_count", most=4096)
        kv = c.int("attention.head_count_kv", heads, most=heads)
        if heads % kv: c.refuse("attention.head_count_kv", f"a divisor of {heads} heads")
        if not c.has("attention.key_length") and dim % heads: c.refuse("attention.head_count", f"a divisor of embedding_length = {dim}")
        head_dim = c.int("attention.key_length", dim // heads, most=8192)
        fused = self.there("blk.0.attn_qkv.weight")
        # the key is what some converters assume, the tensor is what there is
        hidden = self.length("blk.0.ffn_down.weight", 1) if self.there("blk.0.ffn_down.weight") else c.int("feed_forward_length")
        h = {"dim": dim, "n_layers": c.int("block_count", most=1024), "n_heads": heads, "n_kv_heads": kv, "head_dim": head_dim,
             "v_head_dim": c.int("attention.value_length", head_dim, most=8192), "hidden_dim": hidden, "vocab_size": self.length("token_embd.weight", 0),
             "context": c.int("context_length", most=LONG), "head": E.HEAD_OWN if self.there("output.weight") else E.HEAD_TIED, "head_bias": self.there("output.bias"),
             "qkv_bias": self.there("blk.0.attn_qkv.bias" if fused else "blk.0.attn_q.bias"), "out_bias": self.there("blk.0.attn_output.bias"), "ffn_bias": self.there("blk.0.ffn_down.bias")}
        if rotary: h["positions"] = E.POSITIONS_ROTARY
        h.update(fields)
        if h["vocab_size"] > BIG: raise ConvertError(f"{self.path}: a vocabulary of {h['vocab_size']} tokens, expected {BIG} or fewer")
        h["norm_eps"] = c.real("attention.layer_norm_epsilon" if h.get("norm") == E.NORM_LAYER else "attention.layer_norm_rms_epsilon", least=0, most=1)
        m = Model(dict(GGUF, qkv=FUSED) if fused else dict(GGUF), **h)
        m.fused = "rows" if fused else None
        if h.get("positions") == E.POSITIONS_ROTARY: m.h["rope"] = [self.rope(head_dim, interleaved), {}]
        return m

    def rope(self, head_dim, interleaved):
        c = self.c
        dim = c.int("rope.dimension_count", head_dim, least=2, most=head_dim)
        if dim % 2: c.refuse("rope.dimension_count", "an even number")
        r = {"theta": c.real("rope.freq_base", 10000.0, 1.0), "dim": dim, "interleaved": interleaved, "scaling": E.ROPE_PLAIN, "attention_factor": 1.0}
        kind = c.text("rope.scaling.type", "linear" if c.has("rope.scale_linear") else "none")
        original = c.int("rope.scaling.original_context_length", c.int("context_length", most=LONG), most=LONG)
        attention = c.real("rope.scaling.attn_factor", 1.0, -1e6, 1e6)
        if kind in ("linear", "yarn"): factor = c.real("rope.scaling.factor", c.real("rope.scale_linear", 1.0, 1e-3, 1e6), 1e-3, 1e6)
        if kind == "linear": r.update(scaling=E.ROPE_LINEAR, factor=factor)
        elif kind == "yarn":
            # with a multiplier of the logarithm (DeepSeek) the magnitude goes into the scores' scale instead
            magnitude = 1.0 if c.has("rope.scaling.yarn_log_multiplier") else c.real("rope.scaling.yarn_attn_factor", yarn_mscale(factor), -1e6, 1e6)
            r.update(scaling=E.ROPE_YARN, factor=factor, attention_factor=attention * magnitude, beta_fast=c.real("rope.scaling.yarn_beta_fast", 32.0, 1e-3, 1e6),
                     beta_slow=c.real("rope.scaling.yarn_beta_slow", 1.0, 1e-3, 1e6), truncate=1, original_context=original)
        elif kind not in ("none", "longrope"): c.refuse("rope.scaling.type", "none, linear, yarn or longrope")
        if self.there("rope_factors_short.weight"): r.update(scaling=E.ROPE_LONGROPE, attention_factor=attention, original_context=original, has_factors=1, tensors=["rope_factors_short.weight", "rope_factors_long.weight"])
        elif kind == "longrope": c.refuse("rope.scaling.type", "tensors rope_factors_short and rope_factors_long beside it")
        elif self.there("rope_freqs.weight"): r.update(has_factors=1, tensors=["rope_freqs.weight"])
        return r

    def mixture(self, m, **fields):
        """A mixture of experts in the layers that have a router."""
        c, n = self.c, self.c.int("expert_count", most=4096)
        used = c.int("expert_used_count", most=n)
        shared = m.h["n_layers"] - 1
        m.h.update(n_experts=n, n_experts_used=used, expert_dim=c.int("expert_feed_forward_length", m.h["hidden_dim"]), router=E.ROUTER_SOFTMAX, n_groups=1, n_groups_used=1,
                   group_score=E.GROUP_MAX, shared_dim=self.length(f"blk.{shared}.ffn_up_shexp.weight", 0) if self.there(f"blk.{shared}.ffn_up_shexp.weight") else 0)
        m.h.update(fields)
        m.every("experts", [self.there(f"blk.{i}.ffn_gate_inp.weight") for i in range(m.h["n_layers"])])


def llama(f, **fields):
    m = f.stack(1, **SILU, **fields)
    m.every("window", f.c.int("attention.sliding_window", 0, 0, LONG))
    if f.c.int("expert_count", 0, 0, 4096): f.mixture(m, router_norm=1)
    return m


def granite(f):
    c = f.c
    m = llama(f, embed_scale=c.real("embedding_scale", 1.0, -1e6, 1e6), residual_scale=c.real("residual_scale", 1.0, -1e6, 1e6), logit_scale=1 / c.real("logit_scale", 1.0, 1e-6, 1e6))
    if c.has("attention.scale"): m.every("attn_scale", c.real("attention.scale", least=-1e6, most=1e6))
    return m


def smollm3(f):
    m = llama(f)
    m.every("rope", [NO_ROPE if (i + 1) % 4 == 0 else 0 for i in range(m.h["n_layers"])])
    return m


def command_r(f):
    qk = f.there("blk.0.attn_q_norm.weight")
    m = f.stack(1, norm=E.NORM_LAYER, parallel=E.PARALLEL_ONE_NORM, logit_scale=f.c.real("logit_scale", 1.0, -1e6, 1e6), qk_norm=E.QK_HEAD if qk else E.QK_NONE, qk_norm_layer=qk, **SILU)
    m.repeat_qk_norm = False
    return m


def qwen2(f): return f.stack(**SILU)
def qwen3(f): return f.stack(qk_norm=E.QK_HEAD, **SILU)


def qwen2_moe(f):
    m = qwen2(f)
    f.mixture(m, router_norm=f.c.flag("expert_weights_norm", False), shared_gate=1)
    return m


def qwen3_moe(f):
    m = qwen3(f)
    f.mixture(m, router_norm=f.c.flag("expert_weights_norm", True))
    return m


def gemma(f, **fields):
    return f.stack(activation=E.ACT_GELU_TANH, gated=1, embed_scale=float(f.c.int("embedding_length")) ** 0.5, **fields)


def gemma2(f, **fields):
    c = f.c
    m = gemma(f, norm_place=E.NORM_SANDWICH, attn_softcap=c.real("attn_logit_softcapping", 0.0, 0, 1e6), logit_softcap=c.real("final_logit_softcapping", 0.0, 0, 1e6), **fields)
    # the file does not hold query_pre_attn_scalar: it is the head's width, but dim / heads in the 27 billion models
    if m.h["n_layers"] in (46, 62): m.every("attn_scale", (m.h["dim"] / m.h["n_heads"]) ** -0.5)
    window = c.int("attention.sliding_window", most=LONG)
    m.every("window", [window if local else 0 for local in f.local(m.h["n_layers"], 2)])
    return m


def two_ropes(f, m, pattern, theta):
    """Windows in the local layers, and there rotary positions of their own base, not stretched."""
    local, window = f.local(m.h["n_layers"], pattern), f.c.int("attention.sliding_window", most=LONG)
    m.every("window", [window if l else 0 for l in local])
    m.every("rope", [int(l) for l in local])
    first = m.h["rope"][0]
    m.h["rope"][1] = {"theta": f.c.real("rope.freq_base_swa", theta, 1.0), "dim": first["dim"], "interleaved": first["interleaved"], "scaling": E.ROPE_PLAIN, "attention_factor": 1.0}
    return m


def gemma3(f): return two_ropes(f, gemma2(f, qk_norm=E.QK_HEAD), 6, 10000.0)


def olmo2(f):
    m = f.stack(norm_place=E.NORM_OUTPUT, qk_norm=E.QK_FULL, **SILU)
    return two_ropes(f, m, 4, m.h["rope"][0]["theta"]) if f.c.has("attention.sliding_window") else m


def phi2(f): return f.stack(parallel=E.PARALLEL_ONE_NORM, **LAYER_NORM, **TANH)


def phi3(f):
    m = f.stack(**SILU)
    m.names["gate_up"] = m.names["up"]
    m.every("window", f.c.int("attention.sliding_window", 0, 0, LONG))
    return m


def stablelm(f):
    return f.stack(parallel=E.PARALLEL_NO if f.there("blk.0.ffn_norm.weight") else E.PARALLEL_ONE_NORM, **LAYER_NORM, **SILU)


def starcoder2(f):
    m = f.stack(**LAYER_NORM, **TANH)
    m.every("window", f.c.int("attention.sliding_window", 0, 0, LONG))
    return m


def gpt_neox(f):
    return f.stack(activation=E.ACT_GELU, parallel=E.PARALLEL_TWO_NORMS if f.c.flag("use_parallel_residual", True) else E.PARALLEL_NO, **LAYER_NORM)


def learned(f):
    n = f.length("position_embd.weight", 0)
    return {"positions": E.POSITIONS_LEARNED, "n_positions": n, "context": n}


def gpt2(f): return f.stack(rotary=False, **LAYER_NORM, **TANH, **learned(f))


def alibi(f, **fields):
    m = f.stack(rotary=False, positions=E.POSITIONS_ALIBI, norm=E.NORM_LAYER, norm_bias=f.there("output_norm.bias"), **fields)
    m.extra["alibi.slopes"] = alibi_slopes(m.h["n_heads"], f.c.real("attention.max_alibi_bias", 8.0, 1e-3, 1e3))
    return m


def bloom(f): return alibi(f, embed_norm=1, **TANH)


def mpt(f):
    if f.c.real("attention.clamp_kqv", 0.0, 0): f.c.refuse("attention.clamp_kqv", "0")
    return alibi(f, activation=E.ACT_GELU)


def falcon(f):
    two = f.there("blk.0.attn_norm_2.weight")
    m = f.stack(activation=E.ACT_GELU, parallel=E.PARALLEL_TWO_NORMS if two else E.PARALLEL_ONE_NORM, **LAYER_NORM)
    if two: m.names.update(attn_norm="blk.{i}.attn_norm_2", ffn_norm="blk.{i}.attn_norm")
    return m


def deepseek2(f):
    c = f.c
    q = c.int("attention.key_length_mla", c.int("attention.key_length", most=8192), most=8192)
    v = c.int("attention.value_length_mla", c.int("attention.value_length", most=8192), most=8192)
    heads, turning = c.int("attention.head_count", most=4096), c.int("rope.dimension_count", most=8192)
    if turning >= q or turning % 2: c.refuse("rope.dimension_count", f"an even number below the {q} dimensions of a head")
    m = f.stack(1, head_dim=q, v_head_dim=v, n_kv_heads=heads, latent_norm_eps=c.real("attention.layer_norm_rms_epsilon", least=0, most=1),
                q_lora_rank=c.int("attention.q_lora_rank", 0), kv_lora_rank=c.int("attention.kv_lora_rank"), **SILU)
    biased = f.there(f"blk.{m.h['n_layers'] - 1}.exp_probs_b.bias")
    gating = c.int("expert_gating_func", 2 if biased else 1, 0, 9)
    if gating not in (1, 2): c.refuse("expert_gating_func", "1 (softmax) or 2 (sigmoid)")
    f.mixture(m, router=E.ROUTER_SIGMOID if gating == 2 else E.ROUTER_SOFTMAX, router_norm=c.flag("expert_weights_norm", False), router_scale=c.real("expert_weights_scale", 1.0, -1e6, 1e6) or 1.0,
              router_bias=biased, group_score=E.GROUP_TOP2 if biased else E.GROUP_MAX)
    n = m.h["n_experts"]
    groups = c.int("expert_group_count", 1, most=n)
    if n % groups: c.refuse("expert_group_count", f"a divisor of {n} experts")
    m.h.update(n_groups=groups, n_groups_used=c.int("expert_group_used_count", 1, most=groups))
    r = m.h["rope"][0]
    if r["scaling"] == E.ROPE_YARN: m.every("attn_scale", q ** -0.5 * yarn_mscale(r["factor"], 10 * c.real("rope.scaling.yarn_log_multiplier", 0.0, -1e6, 1e6)) ** 2)
    return m


def bert(f, **fields):
    pooling = {0: E.POOL_NONE, 1: E.POOL_MEAN, 2: E.POOL_FIRST, 3: E.POOL_LAST}
    kind = f.c.int("pooling_type", 0, 0, 9)
    if kind not in pooling: f.c.refuse("pooling_type", "0 (none), 1 (mean), 2 (first) or 3 (last)")
    if "positions" not in fields: fields.update(rotary=False, **learned(f))
    fields = dict({"activation": E.ACT_GELU}, **fields)
    m = f.stack(causal=0, norm_place=E.NORM_POST, final_norm=0, head=E.HEAD_NONE, embed_norm=1, embed_type=f.there("token_types.weight"), pooling=pooling[kind], normalize=int(kind > 0), **LAYER_NORM, **fields)
    m.names.update(attn_norm="blk.{i}.attn_output_norm", ffn_norm="blk.{i}.layer_output_norm")
    return m


def nomic_bert(f): return bert(f, positions=E.POSITIONS_ROTARY, **SILU)


ARCHITECTURES = {
    "llama": llama, "granite": granite, "smollm3": smollm3, "command-r": command_r, "qwen2": qwen2, "qwen2moe": qwen2_moe, "qwen3": qwen3, "qwen3moe": qwen3_moe, "gemma": gemma,
    "gemma2": gemma2, "gemma3": gemma3, "olmo2": olmo2, "phi2": phi2, "phi3": phi3, "stablelm": stablelm, "starcoder": gpt2, "starcoder2": starcoder2, "gptneox": gpt_neox, "gpt2": gpt2,
    "bloom": bloom, "mpt": mpt, "falcon": falcon, "deepseek2": deepseek2, "bert": bert, "nomic-bert": nomic_bert,
}


def model_of(c, tensors):
    kind = c.text("general.architecture")
    if kind not in ARCHITECTURES: c.refuse("general.architecture", "one of " + ", ".join(sorted(ARCHITECTURES)))
    m = ARCHITECTURES[kind](File(c.path, kind, c.values, tensors))
    m.bare = False
    return m
