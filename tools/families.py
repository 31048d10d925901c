"""What a checkpoint's config.json means: for each family the header's features and the names of its tensors.

A family is a function from a Config to a Model. Facts are those of transformers 4.57's modeling files. Whatever a configuration
asks for that would not come out right is refused by name; the tensors are checked later, one by one, by assemble.py.
"""
import math

from checkpoints import ConvertError
from model_format import E, NO_ROPE

WIDE, BIG, LONG = 1 << 20, 1 << 24, 1 << 28  # the most that a width, a table and a context may be
REQUIRED = object()
ACTIVATIONS = {"silu": E.ACT_SILU, "swish": E.ACT_SILU, "gelu": E.ACT_GELU, "gelu_python": E.ACT_GELU, "gelu_new": E.ACT_GELU_TANH, "gelu_pytorch_tanh": E.ACT_GELU_TANH,
               "gelu_python_tanh": E.ACT_GELU_TANH, "gelu_fast": E.ACT_GELU_TANH, "gelu_accurate": E.ACT_GELU_TANH, "relu": E.ACT_RELU, "relu2": E.ACT_RELU2, "quick_gelu": E.ACT_GELU_SIGMOID}


class Config:
    """Values from outside, each checked as it is read. A missing key and null are the same, but a flag that is null is false."""

    def __init__(self, path, values):
        self.path, self.values = path, values

    def assume(self, **defaults):
        """What an architecture takes for keys that are not there at all."""
        self.values = dict(defaults, **self.values)

    def refuse(self, key, expected):
        value = self.values.get(key)
        shown = "missing" if value is None else repr(value) if len(repr(value)) < 80 else repr(value)[:77] + "..."
        raise ConvertError(f"{self.path}: {key} is {shown}, expected {expected}")

    def read(self, key, default, good, expected):
        value = self.values.get(key)
        if value is None and default is not REQUIRED: return default
        if not good(value): self.refuse(key, expected)
        return value

    def int(self, key, default=REQUIRED, least=1, most=WIDE):
        return self.read(key, default, lambda v: type(v) is int and least <= v <= most, f"a whole number from {least} to {most}")

    def real(self, key, default=REQUIRED, least=1e-30, most=1e12):
        return float(self.read(key, default, lambda v: type(v) in (int, float) and least <= v <= most, f"a number from {least:g} to {most:g}"))

    def flag(self, key, default=REQUIRED):
        if key in self.values: default = REQUIRED if default is REQUIRED else False
        return int(self.read(key, default, lambda v: type(v) is bool or v in (0, 1), "true or false"))

    def text(self, key, default=REQUIRED):
        return self.read(key, default, lambda v: isinstance(v, str), "a text")

    def list(self, key, default, n, good, expected):
        return self.read(key, default, lambda v: isinstance(v, (list, tuple)) and len(v) == n and all(map(good, v)), f"a list of {n} {expected}")

    def only(self, key, *allowed):
        """The key must be missing or have one of these values."""
        value = self.values.get(key)
        if value is not None and not any(type(value) is type(a) and value == a for a in allowed): self.refuse(key, " or ".join(map(repr, allowed)) + ", nothing else is supported")

    def activation(self, key, default=REQUIRED, known=ACTIVATIONS):
        name = self.text(key, default)
        if name not in known: self.refuse(key, "one of " + ", ".join(sorted(known)))
        return known[name]

    def inner(self, key):
        value = self.values.get(key)
        if value is not None and not isinstance(value, dict): self.refuse(key, "an object")
        return Config(f"{self.path}: {key}", value or {})

    def has(self, key):
        return self.values.get(key) is not None


class Model:
    """Header fields, layer headers (the encoder's first) and, for assemble.py, where the tensors are."""

    def __init__(self, names, **fields):
        self.h = {"n_encoder_layers": 0, "causal": 1, "norm": E.NORM_RMS, "norm_place": E.NORM_PRE, "parallel": E.PARALLEL_NO, "final_norm": 1, "head": E.HEAD_OWN,
                  "embed_scale": 1.0, "residual_scale": 1.0, "logit_scale": 1.0, "router_scale": 1.0, "rope": [{}, {}]}
        for key in ("gated", "qk_norm", "qk_norm_layer", "norm_bias", "qkv_bias", "out_bias", "ffn_bias", "head_bias", "head_dense", "head_dense_bias", "embed_norm",
                    "embed_type", "positions", "position_offset", "n_experts", "shared_dim", "shared_gate", "router_bias", "q_lora_rank", "kv_lora_rank"): self.h[key] = 0
        self.h.update(fields)
        h = self.h
        h.setdefault("n_kv_heads", h["n_heads"])
        h.setdefault("head_dim", h["dim"] // h["n_heads"])
        h.setdefault("v_head_dim", h["head_dim"])
        h.setdefault("embed_dim", h["dim"])
        self.names, self.encoder_names = names, None
        layer = {"kind": E.LAYER_ATTENTION, "rope": 0 if h["positions"] == E.POSITIONS_ROTARY else NO_ROPE, "window": 0, "experts": 0, "skip_attn_norm": 0,
                 "attn_scale": h["head_dim"] ** -0.5}
        self.layers = [dict(layer) for _ in range(h["n_encoder_layers"] + h["n_layers"])]
        self.prefix = ""           # of the base model's tensors, whole, in part or not there at all
        self.fused = None          # a fused qkv's rows: "rows" (all queries, keys, values), "groups" (queries, key and value of each group of heads)
        self.transposed = False    # weights of layers are stored [in, out] (OpenAI's Conv1D)
        self.norm_plus = 0.0       # added to the weights of norms (Gemma)
        self.repeat_qk_norm = True # one head's q and k norm serves all
        self.bare = False          # a base model saved without its head
        self.masked_head = False   # the head is there if its tensors are (encoders)
        self.skip = []             # patterns of tensors that are no part of the function
        self.extra = {}            # small tensors made here: name -> values

    def every(self, key, values):
        """Sets a field of each decoder layer, from a list or one value."""
        layers = self.layers[self.h["n_encoder_layers"]:]
        for i, layer in enumerate(layers): layer[key] = values[i] if isinstance(values, list) else values


# ---- names ------------------------------------------------------------------------------------------------------------

def names(text):
    """A table from lines of 'role template role template ...'; {i} is the layer, {e} the expert."""
    words = text.split()
    return dict(zip(words[::2], words[1::2]))


LLAMA = names("""
    embed embed_tokens  final_norm norm  head lm_head
    attn_norm layers.{i}.input_layernorm  q layers.{i}.self_attn.q_proj  k layers.{i}.self_attn.k_proj  v layers.{i}.self_attn.v_proj  out layers.{i}.self_attn.o_proj
    q_norm layers.{i}.self_attn.q_norm  k_norm layers.{i}.self_attn.k_norm
    ffn_norm layers.{i}.post_attention_layernorm  gate layers.{i}.mlp.gate_proj  up layers.{i}.mlp.up_proj  down layers.{i}.mlp.down_proj
    router layers.{i}.mlp.gate  expert_gate layers.{i}.mlp.experts.{e}.gate_proj  expert_up layers.{i}.mlp.experts.{e}.up_proj  expert_down layers.{i}.mlp.experts.{e}.down_proj""")
MIXTRAL = dict(LLAMA, **names("""
    router layers.{i}.block_sparse_moe.gate  expert_gate layers.{i}.block_sparse_moe.experts.{e}.w1  expert_up layers.{i}.block_sparse_moe.experts.{e}.w3
    expert_down layers.{i}.block_sparse_moe.experts.{e}.w2"""))
QWEN2_MOE = dict(LLAMA, **names("""
    shared_gate layers.{i}.mlp.shared_expert.gate_proj  shared_up layers.{i}.mlp.shared_expert.up_proj  shared_down layers.{i}.mlp.shared_expert.down_proj
    shared_router layers.{i}.mlp.shared_expert_gate"""))
DEEPSEEK = dict(LLAMA, **names("""
    q_a layers.{i}.self_attn.q_a_proj  q_a_norm layers.{i}.self_attn.q_a_layernorm  q_b layers.{i}.self_attn.q_b_proj
    kv_a layers.{i}.self_attn.kv_a_proj_with_mqa  kv_a_norm layers.{i}.self_attn.kv_a_layernorm  kv_b layers.{i}.self_attn.kv_b_proj
    router_bias layers.{i}.mlp.gate.e_score_correction_bias
    shared_gate layers.{i}.mlp.shared_experts.gate_proj  shared_up layers.{i}.mlp.shared_experts.up_proj  shared_down layers.{i}.mlp.shared_experts.down_proj"""))
SANDWICH = dict(LLAMA, **names("attn_post_norm layers.{i}.post_attention_layernorm  ffn_norm layers.{i}.pre_feedforward_layernorm  ffn_post_norm layers.{i}.post_feedforward_layernorm"))
PHI = dict(LLAMA, **names("""
    final_norm final_layernorm  out layers.{i}.self_attn.dense  up layers.{i}.mlp.fc1  down layers.{i}.mlp.fc2
    q_norm layers.{i}.self_attn.q_layernorm  k_norm layers.{i}.self_attn.k_layernorm"""))
PHI3 = dict(LLAMA, qkv="layers.{i}.self_attn.qkv_proj", gate_up="layers.{i}.mlp.gate_up_proj")
STABLELM = dict(LLAMA, **names("q_norm layers.{i}.self_attn.q_layernorm.norms.{e}  k_norm layers.{i}.self_attn.k_layernorm.norms.{e}"))
STARCODER2 = dict(LLAMA, **names("up layers.{i}.mlp.c_fc  down layers.{i}.mlp.c_proj"))
GPT2 = names("""
    embed wte  embed_positions wpe  final_norm ln_f  head lm_head  attn_norm h.{i}.ln_1  qkv h.{i}.attn.c_attn  out h.{i}.attn.c_proj
    ffn_norm h.{i}.ln_2  up h.{i}.mlp.c_fc  down h.{i}.mlp.c_proj""")
GPT_NEO = dict(GPT2, **names("q h.{i}.attn.attention.q_proj  k h.{i}.attn.attention.k_proj  v h.{i}.attn.attention.v_proj  out h.{i}.attn.attention.out_proj"))
GPTJ = dict(GPT2, **names("q h.{i}.attn.q_proj  k h.{i}.attn.k_proj  v h.{i}.attn.v_proj  out h.{i}.attn.out_proj  up h.{i}.mlp.fc_in  down h.{i}.mlp.fc_out"))
NEOX = names("""
    embed embed_in  final_norm final_layer_norm  head embed_out  attn_norm layers.{i}.input_layernorm  qkv layers.{i}.attention.query_key_value  out layers.{i}.attention.dense
    ffn_norm layers.{i}.post_attention_layernorm  up layers.{i}.mlp.dense_h_to_4h  down layers.{i}.mlp.dense_4h_to_h""")
BLOOM = names("""
    embed word_embeddings  embed_norm word_embeddings_layernorm  final_norm ln_f  head lm_head  attn_norm h.{i}.input_layernorm
    qkv h.{i}.self_attention.query_key_value  out h.{i}.self_attention.dense
    ffn_norm h.{i}.post_attention_layernorm  up h.{i}.mlp.dense_h_to_4h  down h.{i}.mlp.dense_4h_to_h""")
MPT = names("""
    embed wte  final_norm norm_f  head lm_head  attn_norm blocks.{i}.norm_1  qkv blocks.{i}.attn.Wqkv  out blocks.{i}.attn.out_proj
    ffn_norm blocks.{i}.norm_2  up blocks.{i}.ffn.up_proj  down blocks.{i}.ffn.down_proj""")
FAIRSEQ = names("""
    embed embed_tokens  embed_positions embed_positions  project_in project_in  project_out project_out  final_norm layer_norm  head lm_head
    attn_norm layers.{i}.self_attn_layer_norm  q layers.{i}.self_attn.q_proj  k layers.{i}.self_attn.k_proj  v layers.{i}.self_attn.v_proj  out layers.{i}.self_attn.out_proj
    ffn_norm layers.{i}.final_layer_norm  up layers.{i}.fc1  down layers.{i}.fc2
    cross_norm layers.{i}.encoder_attn_layer_norm  cross_q layers.{i}.encoder_attn.q_proj  cross_k layers.{i}.encoder_attn.k_proj  cross_v layers.{i}.encoder_attn.v_proj
    cross_out layers.{i}.encoder_attn.out_proj""")
BERT = names("""
    embed embeddings.word_embeddings  embed_positions embeddings.position_embeddings  embed_type embeddings.token_type_embeddings  embed_norm embeddings.LayerNorm
    q encoder.layer.{i}.attention.self.query  k encoder.layer.{i}.attention.self.key  v encoder.layer.{i}.attention.self.value  out encoder.layer.{i}.attention.output.dense
    attn_norm encoder.layer.{i}.attention.output.LayerNorm  up encoder.layer.{i}.intermediate.dense  down encoder.layer.{i}.output.dense  ffn_norm encoder.layer.{i}.output.LayerNorm
    head_dense cls.predictions.transform.dense  head_norm cls.predictions.transform.LayerNorm  head cls.predictions.decoder  head_bias cls.predictions""")
ROBERTA = dict(BERT, **names("head_dense lm_head.dense  head_norm lm_head.layer_norm  head lm_head.decoder  head_bias lm_head"))
DISTILBERT = names("""
    embed embeddings.word_embeddings  embed_positions embeddings.position_embeddings  embed_norm embeddings.LayerNorm
    q transformer.layer.{i}.attention.q_lin  k transformer.layer.{i}.attention.k_lin  v transformer.layer.{i}.attention.v_lin  out transformer.layer.{i}.attention.out_lin
    attn_norm transformer.layer.{i}.sa_layer_norm  up transformer.layer.{i}.ffn.lin1  down transformer.layer.{i}.ffn.lin2  ffn_norm transformer.layer.{i}.output_layer_norm
    head_dense vocab_transform  head_norm vocab_layer_norm  head vocab_projector""")
MODERNBERT = names("""
    embed embeddings.tok_embeddings  embed_norm embeddings.norm  final_norm final_norm  attn_norm layers.{i}.attn_norm  qkv layers.{i}.attn.Wqkv  out layers.{i}.attn.Wo
    ffn_norm layers.{i}.mlp_norm  gate_up layers.{i}.mlp.Wi  down layers.{i}.mlp.Wo  head_dense head.dense  head_norm head.norm  head decoder""")


def t5_names(stack, ffn):
    at = stack + ".block.{i}.layer."
    table = names("""attn_norm 0.layer_norm  q 0.SelfAttention.q  k 0.SelfAttention.k  v 0.SelfAttention.v  out 0.SelfAttention.o
                     cross_norm 1.layer_norm  cross_q 1.EncDecAttention.q  cross_k 1.EncDecAttention.k  cross_v 1.EncDecAttention.v  cross_out 1.EncDecAttention.o""")
    table.update(ffn_norm=f"{ffn}.layer_norm", gate=f"{ffn}.DenseReluDense.wi_0", up=f"{ffn}.DenseReluDense.wi_1", down=f"{ffn}.DenseReluDense.wo")
    table = {role: at + name for role, name in table.items()}
    return dict(table, embed="shared", head="lm_head", final_norm=stack + ".final_layer_norm", relative=stack + ".block.0.layer.0.SelfAttention.relative_attention_bias")


# ---- positions ----------------------------------------------------------------------------------------------------------

def rope(c, head_dim, interleaved=0, theta=None, partial=1.0, dim=None, scaled=True):
    """A Rope from rope_theta and rope_scaling."""
    s = c.inner("rope_parameters" if c.has("rope_parameters") else "rope_scaling")
    for key, value in s.values.items():
        if isinstance(value, dict): s.refuse(key, "a value: parameters by kind of layer are not supported")
    if theta is None: theta = (s if s.has("rope_theta") else c).real("rope_theta", 10000.0, 1.0)
    if dim is None: dim = int(head_dim * partial)
    if dim % 2 or not 0 < dim <= head_dim: raise ConvertError(f"{c.path}: the rotary part of a head has {dim} of {head_dim} dimensions, expected an even number")
    r = {"theta": theta, "dim": dim, "interleaved": interleaved, "scaling": E.ROPE_PLAIN, "attention_factor": 1.0}
    if not scaled: return r
    kind = s.text("rope_type", s.text("type", "" if s.has("factor") else "default"))
    if kind in ("su", "yarn") and c.values.get("model_type") == "phi3": kind = "longrope"  # its former names
    context = c.int("max_position_embeddings", 2048, most=LONG)
    if kind == "default": return r
    if kind == "linear": r.update(scaling=E.ROPE_LINEAR, factor=s.real("factor", least=1e-3, most=1e6))
    elif kind == "dynamic": r.update(scaling=E.ROPE_DYNAMIC, factor=s.real("factor", least=1, most=1e6), original_context=context)
    elif kind == "llama3":
        r.update(scaling=E.ROPE_LLAMA3, factor=s.real("factor", least=1e-3, most=1e6), low_freq_factor=s.real("low_freq_factor", least=1e-3, most=1e6),
                 high_freq_factor=s.real("high_freq_factor", least=1e-3, most=1e6), original_context=s.int("original_max_position_embeddings", context, most=LONG))
        if r["high_freq_factor"] <= r["low_freq_factor"]: s.refuse("high_freq_factor", "more than low_freq_factor")
    elif kind == "yarn":
        factor = s.real("factor", least=1e-3, most=1e6)
        mscale, all_dim = s.real("mscale", 0.0, -1e6, 1e6), s.real("mscale_all_dim", 0.0, -1e6, 1e6)
        default = yarn_mscale(factor, mscale) / yarn_mscale(factor, all_dim) if mscale and all_dim else yarn_mscale(factor)
        r.update(scaling=E.ROPE_YARN, factor=factor, attention_factor=s.real("attention_factor", default, -1e6, 1e6), beta_fast=s.real("beta_fast", 0.0, 0.0, 1e6) or 32.0,
                 beta_slow=s.real("beta_slow", 0.0, 0.0, 1e6) or 1.0, truncate=s.flag("truncate", True), original_context=s.int("original_max_position_embeddings", context, most=LONG))
    elif kind == "longrope":
        original = c.int("original_max_position_embeddings", context, most=LONG)
        factor = context / original if c.has("original_max_position_embeddings") else s.real("factor", least=1e-3, most=1e6)
        default = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 and original > 1 else 1.0
        good = lambda v: type(v) in (int, float) and 1e-6 <= v <= 1e6
        r.update(scaling=E.ROPE_LONGROPE, attention_factor=s.real("attention_factor", default, -1e6, 1e6), original_context=original, has_factors=1,
                 factors=[s.list(key, REQUIRED, dim // 2, good, "numbers from 1e-6 to 1e6") for key in ("short_factor", "long_factor")])
    else: s.refuse("rope_type", "default, linear, dynamic, yarn, llama3 or longrope")
    return r


def yarn_mscale(factor, mscale=1.0):
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0


def alibi_slopes(n, most=8.0):
    """Press et al. 2022: a geometric sequence for a power of two of heads; the others take every second one of the next sequence."""
    whole = 1 << n.bit_length() - 1
    return [2.0 ** (-most * (i + 1) / whole) for i in range(whole)] + [2.0 ** (-most * (i + 0.5) / whole) for i in range(n - whole)]


def bfloat16(x):
    """Rounded to bfloat16, for a normal number."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(round(mantissa * 256), exponent - 8)


def windows(c, n, default):
    """Window of each layer, from layer_types or default(i) -> whether layer i slides."""
    kinds = c.list("layer_types", None, n, lambda v: v in ("full_attention", "sliding_attention"), "of full_attention and sliding_attention")
    slides = [k == "sliding_attention" for k in kinds] if kinds else [default(i) for i in range(n)]
    return [c.int("sliding_window", most=LONG) if s else 0 for s in slides]


# ---- LLaMA and its kin ---------------------------------------------------------------------------------------------------

def sizes(c, kv_required=False, head_dim=None, dim="hidden_size", layers="num_hidden_layers", heads="num_attention_heads"):
    """Header fields that every stack has."""
    h = {"dim": c.int(dim), "n_layers": c.int(layers, most=1024), "n_heads": c.int(heads, most=4096), "vocab_size": c.int("vocab_size", most=BIG)}
    h["n_kv_heads"] = c.int("num_key_value_heads", REQUIRED if kv_required else h["n_heads"], most=h["n_heads"])
    if h["n_heads"] % h["n_kv_heads"]: c.refuse("num_key_value_heads", f"a divisor of {h['n_heads']} heads")
    h["head_dim"] = c.int("head_dim", head_dim or 0, most=8192) if head_dim is not False else 0
    if not h["head_dim"]:
        if h["dim"] % h["n_heads"]: c.refuse(heads, f"a divisor of {dim} = {h['dim']}")
        h["head_dim"] = h["dim"] // h["n_heads"]
    return h


def tied(c, default):
    return E.HEAD_TIED if c.flag("tie_word_embeddings", default) else E.HEAD_OWN


def llama_like(c, table=LLAMA, kv_required=False, head_dim=None, tie=False, interleaved=0, act="hidden_act", eps="rms_norm_eps", partial=1.0, **fields):
    h = dict(sizes(c, kv_required, head_dim), hidden_dim=c.int("intermediate_size"), context=c.int("max_position_embeddings", most=LONG), activation=c.activation(act),
             gated=1, norm_eps=c.real(eps, 1e-6, 0, 1), head=tied(c, tie), positions=E.POSITIONS_ROTARY)
    r = rope(c, h["head_dim"], interleaved, partial=partial)
    h["rope"] = [r, {}]
    if r["scaling"] == E.ROPE_DYNAMIC: h["context"] = min(int(h["context"] * r["factor"]), LONG)  # max_position_embeddings is what it was trained with
    h.update(fields)
    m = Model(table, **h)
    m.prefix, m.skip = "model.", [r".*rotary_emb\.inv_freq"]
    return m


def llama(c):
    bias = c.flag("attention_bias", False)
    return llama_like(c, qkv_bias=bias, out_bias=bias, ffn_bias=c.flag("mlp_bias", False))


def mistral(c, table=LLAMA, **fields):
    m = llama_like(c, table, kv_required=True, **fields)
    m.every("window", c.int("sliding_window", 0, most=LONG))
    return m


def experts(c, m, n, used, dim, **fields):
    """A mixture of experts in the layers that m.layers says."""
    n, used = c.int(n, most=4096), c.int(used, most=4096)
    if used > n: raise ConvertError(f"{c.path}: {used} of {n} experts a token")
    m.h.update(n_experts=n, n_experts_used=used, expert_dim=c.int(dim), router=E.ROUTER_SOFTMAX, n_groups=1, n_groups_used=1, group_score=E.GROUP_MAX)
    m.h.update(fields)


def mixtral(c):
    c.assume(rms_norm_eps=1e-5, rope_theta=1e6)
    m = mistral(c, MIXTRAL)
    experts(c, m, "num_local_experts", "num_experts_per_tok", "intermediate_size", router_norm=1)
    m.every("experts", 1)
    return m


def qwen2(c, table=LLAMA, head_dim=None, **fields):
    m = llama_like(c, table, kv_required=True, head_dim=head_dim, **fields)
    first = c.int("max_window_layers", 0, 0, BIG)
    if c.flag("use_sliding_window", False) and c.has("sliding_window"): m.every("window", windows(c, m.h["n_layers"], lambda i: i >= first))
    return m


def qwen3(c):
    bias = c.flag("attention_bias", False)
    return qwen2(c, head_dim=128, qkv_bias=bias, out_bias=bias, qk_norm=E.QK_HEAD)


def qwen_moe(c, m):
    n = m.h["n_layers"]
    experts(c, m, "num_experts", "num_experts_per_tok", "moe_intermediate_size", router_norm=c.flag("norm_topk_prob", False))
    step, plain = c.int("decoder_sparse_step", 1, most=BIG), c.values.get("mlp_only_layers") or []
    if not isinstance(plain, list) or not all(type(i) is int for i in plain): c.refuse("mlp_only_layers", "a list of layer numbers")
    m.every("experts", [int(i not in plain and (i + 1) % step == 0) for i in range(n)])
    return m


def qwen3_moe(c):
    bias = c.flag("attention_bias", False)
    m = qwen_moe(c, llama_like(c, kv_required=True, qkv_bias=bias, out_bias=bias, qk_norm=E.QK_HEAD))
    if c.flag("use_sliding_window", False): m.every("window", c.int("sliding_window", 0, most=LONG))
    return m


def qwen2_moe(c):
    c.only("use_sliding_window", False)
    m = qwen_moe(c, llama_like(c, QWEN2_MOE, kv_required=True, qkv_bias=c.flag("qkv_bias", True)))
    m.h.update(shared_dim=c.int("shared_expert_intermediate_size"), shared_gate=1)
    return m


def gemma(c, table=LLAMA, act="hidden_act", **fields):
    bias = c.flag("attention_bias", False)
    m = llama_like(c, table, kv_required=True, head_dim=256, tie=True, act=act, qkv_bias=bias, out_bias=bias, embed_scale=float(c.int("hidden_size")) ** 0.5, **fields)
    m.norm_plus = 1.0
    return m


def gemma2(c, **fields):
    c.assume(attn_logit_softcapping=50.0, final_logit_softcapping=30.0)
    m = gemma(c, SANDWICH, "hidden_activation", norm_place=E.NORM_SANDWICH, attn_softcap=c.real("attn_logit_softcapping", 0.0, 0, 1e6),
              logit_softcap=c.real("final_logit_softcapping", 0.0, 0, 1e6), **fields)
    m.every("attn_scale", c.real("query_pre_attn_scalar", 256.0, 1e-6, 1e9) ** -0.5)
    m.every("window", windows(c, m.h["n_layers"], lambda i: i % 2 == 0))
    return m


def gemma3(c):
    c.only("use_bidirectional_attention", False)
    c.assume(rope_theta=1e6, final_logit_softcapping=None)
    m = gemma2(c, qk_norm=E.QK_HEAD)
    m.h["attn_softcap"] = 0.0  # a field that is there and not used: the norms took its place
    pattern = c.int("sliding_window_pattern", c.int("_sliding_window_pattern", 6, most=BIG), most=BIG)
    m.every("window", windows(c, m.h["n_layers"], lambda i: (i + 1) % pattern != 0))
    m.h["rope"][1] = rope(c, m.h["head_dim"], theta=c.real("rope_local_base_freq", 10000.0, 1.0), scaled=False)
    m.every("rope", [1 if layer["window"] else 0 for layer in m.layers])
    return m


def cohere(c):
    c.assume(layer_norm_eps=1e-5)
    bias, qk = c.flag("attention_bias", False), c.flag("use_qk_norm", False)
    m = llama_like(c, tie=True, interleaved=1, eps="layer_norm_eps", norm=E.NORM_LAYER, parallel=E.PARALLEL_ONE_NORM, qkv_bias=bias, out_bias=bias,
                   qk_norm=E.QK_HEAD if qk else E.QK_NONE, qk_norm_layer=qk, logit_scale=c.real("logit_scale", 0.0625, -1e6, 1e6))
    m.repeat_qk_norm = False
    return m


def granite(c):
    bias = c.flag("attention_bias", False)
    m = llama_like(c, qkv_bias=bias, out_bias=bias, ffn_bias=c.flag("mlp_bias", False), embed_scale=c.real("embedding_multiplier", 1.0, -1e6, 1e6),
                   residual_scale=c.real("residual_multiplier", 1.0, -1e6, 1e6), logit_scale=1 / c.real("logits_scaling", 1.0, 1e-6, 1e6))
    m.every("attn_scale", c.real("attention_multiplier", 1.0, -1e6, 1e6))
    return m


def olmo2(c):
    c.assume(rms_norm_eps=1e-5)
    bias = c.flag("attention_bias", False)
    return llama_like(c, SANDWICH, qkv_bias=bias, out_bias=bias, norm_place=E.NORM_OUTPUT, qk_norm=E.QK_FULL)


def phi(c):
    c.assume(layer_norm_eps=1e-5)
    qk = c.flag("qk_layernorm", False)
    return llama_like(c, PHI, head_dim=False, eps="layer_norm_eps", partial=c.real("partial_rotary_factor", 0.5, 1e-6, 1), norm=E.NORM_LAYER, norm_bias=1, gated=0, parallel=E.PARALLEL_ONE_NORM,
                      qkv_bias=1, out_bias=1, ffn_bias=1, head_bias=1, qk_norm=E.QK_HEAD if qk else E.QK_NONE, qk_norm_layer=qk)


def phi3(c):
    c.assume(rms_norm_eps=1e-5)
    m = llama_like(c, PHI3, partial=c.real("partial_rotary_factor", 1.0, 1e-6, 1))
    m.fused = "rows"
    m.every("window", c.int("sliding_window", 0, most=LONG))
    return m


def stablelm(c):
    c.assume(layer_norm_eps=1e-5)
    qk, parallel = c.flag("qk_layernorm", False), E.PARALLEL_ONE_NORM if c.flag("use_parallel_residual", False) else E.PARALLEL_NO
    return llama_like(c, STABLELM, kv_required=True, eps="layer_norm_eps", partial=c.real("partial_rotary_factor", 0.25, 1e-6, 1), norm=E.NORM_LAYER, norm_bias=1, parallel=parallel,
                      qkv_bias=c.flag("use_qkv_bias", False), qk_norm=E.QK_HEAD if qk else E.QK_NONE, qk_norm_layer=qk)


def starcoder2(c):
    c.assume(norm_epsilon=1e-5)
    bias = c.flag("use_bias", True)
    m = llama_like(c, STARCODER2, kv_required=True, tie=True, eps="norm_epsilon", norm=E.NORM_LAYER, norm_bias=1, gated=0, qkv_bias=bias, out_bias=bias, ffn_bias=bias)
    m.every("window", c.int("sliding_window", 0, most=LONG))
    return m


def smollm3(c):
    c.assume(rope_theta=2e6)
    bias = c.flag("attention_bias", False)
    m = llama_like(c, kv_required=True, tie=True, qkv_bias=bias, out_bias=bias, ffn_bias=c.flag("mlp_bias", False))
    n, interval = m.h["n_layers"], c.int("no_rope_layer_interval", 4, most=BIG)
    rotary = c.list("no_rope_layers", [int((i + 1) % interval != 0) for i in range(n)], n, lambda v: v in (0, 1), "of 0 and 1")
    m.every("rope", [0 if r else NO_ROPE for r in rotary])
    slides = c.flag("use_sliding_window", False) and c.has("sliding_window")
    m.every("window", windows(c, n, lambda i: slides and not rotary[i]))  # layer_types count whatever use_sliding_window says
    return m


# ---- DeepSeek: latent attention, grouped experts ---------------------------------------------------------------------------

def deepseek(c, interleaved, **fields):
    c.only("attention_bias", False)
    c.only("mlp_bias", False)
    c.only("moe_layer_freq", 1)
    nope, turning = c.int("qk_nope_head_dim", most=8192), c.int("qk_rope_head_dim", most=8192)
    c.only("head_dim", turning)
    h = dict(sizes(c, head_dim=1), head_dim=nope + turning, v_head_dim=c.int("v_head_dim", most=8192), hidden_dim=c.int("intermediate_size"), gated=1,
             context=c.int("max_position_embeddings", most=LONG), activation=c.activation("hidden_act"), norm_eps=c.real("rms_norm_eps", 1e-6, 0, 1), latent_norm_eps=1e-6,
             head=tied(c, False), positions=E.POSITIONS_ROTARY, q_lora_rank=c.int("q_lora_rank", 0), kv_lora_rank=c.int("kv_lora_rank"))
    h["n_kv_heads"] = h["n_heads"]
    h["rope"] = [rope(c, turning, interleaved), {}]
    m = Model(DEEPSEEK, **h)
    m.prefix, m.skip = "model.", [r".*rotary_emb\.inv_freq"]
    n_shared = c.int("n_shared_experts", 0, 0, 4096)
    experts(c, m, "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", router_scale=c.real("routed_scaling_factor", 1.0, -1e6, 1e6),
            shared_dim=n_shared * c.int("moe_intermediate_size"), **fields)
    dense = c.int("first_k_dense_replace", 0, 0, BIG)
    m.every("experts", [int(i >= dense) for i in range(h["n_layers"])])
    return m


def groups(c, n_experts):
    n, used = c.int("n_group", most=4096), c.int("topk_group", most=4096)
    if n_experts % n: c.refuse("n_group", f"a divisor of {n_experts} experts")
    if used > n: c.refuse("topk_group", f"at most n_group = {n}")
    c.int("num_experts_per_tok", most=n_experts // n * used)
    return {"n_groups": n, "n_groups_used": used}


def deepseek_v2(c):
    c.only("topk_method", "greedy", "group_limited_greedy")
    c.assume(n_shared_experts=2)
    m = deepseek(c, 1)
    if c.text("topk_method", "greedy") == "group_limited_greedy": m.h.update(groups(c, m.h["n_experts"]))
    return m


def deepseek_v3(c):
    c.only("topk_method", "noaux_tc")
    c.assume(routed_scaling_factor=2.5, n_shared_experts=1, first_k_dense_replace=3)
    c.only("scoring_func", "sigmoid")
    m = deepseek(c, c.flag("rope_interleave", True), router=E.ROUTER_SIGMOID, router_bias=1, router_norm=c.flag("norm_topk_prob", True), group_score=E.GROUP_TOP2)
    m.h.update(groups(c, m.h["n_experts"]))
    s = c.inner("rope_scaling")
    if s.has("mscale_all_dim"): m.every("attn_scale", m.h["head_dim"] ** -0.5 * yarn_mscale(s.real("factor", least=1e-3, most=1e6), s.real("mscale_all_dim", 0.0, -1e6, 1e6)) ** 2)
    m.skip.append(r"layers\.%d\..*" % m.h["n_layers"])  # the next-token-but-one head
    return m


# ---- GPT and its kin ------------------------------------------------------------------------------------------------------

def gpt_like(c, table, prefix="transformer.", dim="n_embd", layers="n_layer", heads="n_head", act="activation_function", eps="layer_norm_epsilon", acts=ACTIVATIONS, **fields):
    h = dict(sizes(c, head_dim=False, dim=dim, layers=layers, heads=heads), norm=E.NORM_LAYER, norm_bias=1, qkv_bias=1, out_bias=1, ffn_bias=1)
    h["n_kv_heads"] = h["n_heads"]
    if act: h["activation"] = c.activation(act, known=acts)
    h["norm_eps"] = c.real(eps, 1e-5, 0, 1) if eps else 1e-5
    h.update(fields)
    m = Model(table, **h)
    m.prefix, m.fused, m.skip = prefix, "rows" if "qkv" in table and "q" not in table else None, [r"(.*\.)?attn(\.attention)?\.(masked_)?bias"]
    return m


def learned(c, key="n_positions", offset=0):
    n = c.int(key, most=BIG)
    return {"positions": E.POSITIONS_LEARNED, "context": n, "n_positions": n + offset, "position_offset": offset}


def gpt2(c, table=GPT2):
    m = gpt_like(c, table, head=tied(c, True), hidden_dim=c.int("n_inner", 4 * c.int("n_embd")), **learned(c))
    if not c.flag("scale_attn_weights", True): m.every("attn_scale", 1.0)
    if c.flag("scale_attn_by_inverse_layer_idx", False):
        for i, layer in enumerate(m.layers): layer["attn_scale"] /= i + 1
    c.only("add_cross_attention", False)
    m.transposed = True
    return m


def gpt_bigcode(c):
    c.only("scale_attn_by_inverse_layer_idx", False)
    m = gpt2(c)
    m.transposed = False
    if c.flag("multi_query", True): m.h["n_kv_heads"] = 1
    else: m.fused = "groups"
    return m


def openai_gpt(c):
    acts = {"gelu": E.ACT_GELU_TANH, "relu": E.ACT_RELU, "silu": E.ACT_SILU, "swish": E.ACT_SILU}
    table = dict(GPT2, embed="tokens_embed", embed_positions="positions_embed")
    m = gpt_like(c, table, act="afn", acts=acts, norm_place=E.NORM_POST, final_norm=0, head=tied(c, True), hidden_dim=4 * c.int("n_embd"), **learned(c))
    m.transposed = True
    m.skip.append("position_ids")
    return m


def gpt_neo(c):
    m = gpt_like(c, GPT_NEO, dim="hidden_size", layers="num_layers", heads="num_heads", qkv_bias=0, head=tied(c, True),
                 hidden_dim=c.int("intermediate_size", 4 * c.int("hidden_size")), **learned(c, "max_position_embeddings"))
    kinds = c.list("attention_layers", None, m.h["n_layers"], lambda v: v in ("global", "local"), "of global and local")
    if kinds is None: c.refuse("attention_layers", "a list of global and local")
    m.every("window", [c.int("window_size", 256, most=LONG) if k == "local" else 0 for k in kinds])
    m.every("attn_scale", 1.0)
    return m


def gptj(c):
    n = c.int("n_embd")
    m = gpt_like(c, GPTJ, qkv_bias=0, out_bias=0, head_bias=1, head=tied(c, False), parallel=E.PARALLEL_ONE_NORM, hidden_dim=c.int("n_inner", 4 * n),
                 context=c.int("n_positions", most=LONG), positions=E.POSITIONS_ROTARY)
    m.h["rope"] = [rope(c, m.h["head_dim"], 1, theta=10000.0, dim=c.int("rotary_dim", 64), scaled=False), {}]
    return m


def gpt_neox(c):
    bias = c.flag("attention_bias", True)
    m = gpt_like(c, NEOX, "gpt_neox.", "hidden_size", "num_hidden_layers", "num_attention_heads", "hidden_act", "layer_norm_eps", qkv_bias=bias, out_bias=bias, head=tied(c, False),
                 parallel=E.PARALLEL_TWO_NORMS if c.flag("use_parallel_residual", True) else E.PARALLEL_NO, hidden_dim=c.int("intermediate_size"),
                 context=c.int("max_position_embeddings", most=LONG), positions=E.POSITIONS_ROTARY)
    theta = c.real("rotary_emb_base", 10000.0, 1.0)
    m.h["rope"] = [rope(c, m.h["head_dim"], theta=theta, partial=c.real("rotary_pct", 0.25, 1e-6, 1)), {}]
    m.fused = "groups"
    m.skip += [r".*rotary_emb\.inv_freq"]
    m.skip += [r"layers\.\d+\.attention\.(masked_)?bias"]
    return m


def bloom(c):
    c.only("apply_residual_connection_post_layernorm", False)
    if c.int("pretraining_tp", 1) > 1: c.only("slow_but_exact", False)  # it leaves out biases
    dim = "n_embed" if c.has("n_embed") else "hidden_size"
    layers, heads = ("num_hidden_layers" if c.has("num_hidden_layers") else "n_layer"), ("num_attention_heads" if c.has("num_attention_heads") else "n_head")
    m = gpt_like(c, BLOOM, dim=dim, layers=layers, heads=heads, act=None, activation=E.ACT_GELU_TANH, embed_norm=1, head=tied(c, True), hidden_dim=4 * c.int(dim),
                 context=c.int("seq_length", 2048, most=LONG), positions=E.POSITIONS_ALIBI)
    m.fused = "groups"
    m.extra["alibi.slopes"] = alibi_slopes(m.h["n_heads"])
    return m


def mpt(c):
    a = c.inner("attn_config")
    a.only("attn_type", "multihead_attention")
    a.only("alibi", True)
    for key in ("prefix_lm", "qk_ln", "attn_uses_sequence_id"): a.only(key, False)
    if a.has("clip_qkv"): a.refuse("clip_qkv", "null")
    a.only("alibi_bias_max", 8, 8.0)  # transformers takes 8 whatever this says, the model's authors what it says
    if c.has("logit_scale"): c.refuse("logit_scale", "null")
    c.only("norm_type", "low_precision_layernorm")
    m = gpt_like(c, MPT, dim="d_model", layers="n_layers", heads="n_heads", act=None, activation=E.ACT_GELU, norm_bias=0, qkv_bias=0, out_bias=0, ffn_bias=0, head=tied(c, True),
                 hidden_dim=4 * c.int("d_model"), context=c.int("max_seq_len", most=LONG), positions=E.POSITIONS_ALIBI)
    if a.has("softmax_scale"): m.every("attn_scale", a.real("softmax_scale", least=-1e6, most=1e6))
    m.extra["alibi.slopes"] = alibi_slopes(m.h["n_heads"])
    return m


def falcon(c):
    layers, heads = ("num_hidden_layers" if c.has("num_hidden_layers") else "n_layer"), ("num_attention_heads" if c.has("num_attention_heads") else "n_head")
    bias, grouped, dim = c.flag("bias", False), c.flag("new_decoder_architecture", False), c.int("hidden_size")
    m = gpt_like(c, BLOOM, layers=layers, heads=heads, dim="hidden_size", act=None, activation=c.activation("activation", "gelu"), qkv_bias=bias, out_bias=bias, ffn_bias=bias,
                 head=tied(c, True), hidden_dim=c.int("ffn_hidden_size", 4 * dim), context=c.int("max_position_embeddings", 2048, most=LONG))
    h, n = m.h, m.h["n_heads"]
    if grouped:
        h["n_kv_heads"] = c.int("num_kv_heads", n, most=n)
        if n % h["n_kv_heads"]: c.refuse("num_kv_heads", f"a divisor of {n} heads")
        m.fused = "groups"
        two = c.int("num_ln_in_parallel_attn", 2, most=2) == 2
        if not two: c.only("parallel_attn", True)
        h["parallel"] = E.PARALLEL_TWO_NORMS if two else E.PARALLEL_ONE_NORM
        if two: m.names = dict(BLOOM, attn_norm="h.{i}.ln_attn", ffn_norm="h.{i}.ln_mlp")
    else:
        if c.flag("multi_query", True): h["n_kv_heads"] = 1
        else: m.fused = "groups"
        h["parallel"] = E.PARALLEL_ONE_NORM if c.flag("parallel_attn", True) else E.PARALLEL_NO
    if c.flag("alibi", False):
        # transformers' eager attention adds the bias twice, with the scores before they are scaled and, scaled, in the mask: (q.k + 2 slope position) attn_scale.
        # Slope and product are rounded to bfloat16.
        scale = h["head_dim"] ** -0.5
        h.update(positions=E.POSITIONS_ALIBI, alibi_bf16=2 * scale)
        m.extra["alibi.slopes"] = [bfloat16(slope) for slope in alibi_slopes(n)]
    else:
        h.update(positions=E.POSITIONS_ROTARY, rope=[rope(c, h["head_dim"]), {}])
        m.every("rope", 0)
        m.skip += [r".*rotary_emb\.inv_freq"]
    return m


# ---- fairseq's children: their layer norms keep PyTorch's epsilon, 1e-5, whatever the configuration says --------------------------

def opt(c):
    c.only("layer_norm_elementwise_affine", True)
    before, bias = c.flag("do_layer_norm_before", True), c.flag("enable_bias", True)
    table = dict(FAIRSEQ, final_norm="final_layer_norm")
    m = gpt_like(c, table, "model.decoder.", "hidden_size", "num_hidden_layers", "num_attention_heads", eps=None, qkv_bias=bias, out_bias=bias, ffn_bias=bias,
                 norm_place=E.NORM_PRE if before else E.NORM_POST, final_norm=int(before and not c.flag("_remove_final_layer_norm", False)), head=tied(c, True),
                 hidden_dim=c.int("ffn_dim"), embed_dim=c.int("word_embed_proj_dim", c.int("hidden_size")), **learned(c, "max_position_embeddings", 2))
    return m


def xglm(c):
    dim = c.int("d_model")
    if dim % 2 or dim < 4: c.refuse("d_model", "an even number")
    c.only("pad_token_id", 0, 1)  # the table of positions has a row of zeros there; its first used row is the third
    m = gpt_like(c, FAIRSEQ, "model.", "d_model", "num_layers", "attention_heads", eps=None, head=tied(c, True), hidden_dim=c.int("ffn_dim"),
                 embed_scale=dim ** 0.5 if c.flag("scale_embedding", True) else 1.0, context=c.int("max_position_embeddings", most=LONG),
                 positions=E.POSITIONS_SINUSOIDAL, sinusoid=E.SINUSOID_FAIRSEQ, position_offset=2)
    m.skip += [r"embed_positions\.weights?"]
    return m


def biogpt(c):
    return gpt_like(c, dict(FAIRSEQ, head="output_projection"), "biogpt.", "hidden_size", "num_hidden_layers", "num_attention_heads", "hidden_act", None, head=tied(c, True),
                 hidden_dim=c.int("intermediate_size"), embed_scale=c.int("hidden_size") ** 0.5 if c.flag("scale_embedding", True) else 1.0, **learned(c, "max_position_embeddings", 2))


# ---- encoders -----------------------------------------------------------------------------------------------------------------

BERT_SKIP = [r"pooler\..*", r"(.*\.)?position_ids", r"(.*\.)?token_type_ids", r"cls\.seq_relationship\..*", r"cls\.predictions\.decoder\.bias", r"lm_head\.decoder\.bias"]


def bert_like(c, table, prefix, **fields):
    c.only("is_decoder", False)
    c.only("position_embedding_type", "absolute")
    h = {"norm": E.NORM_LAYER, "norm_bias": 1, "norm_place": E.NORM_POST, "qkv_bias": 1, "out_bias": 1, "ffn_bias": 1, "embed_norm": 1, "embed_type": 1, "final_norm": 0,
         "causal": 0, "head_dense": 1, "head_dense_bias": 1, "head_bias": 1, "head": tied(c, True)}
    h.update(fields)
    m = Model(table, **h)
    m.h["head_activation"] = m.h["activation"]
    m.prefix, m.skip, m.masked_head = prefix, list(BERT_SKIP), True
    return m


def bert(c, table=BERT, prefix="bert.", **fields):
    base = dict(sizes(c, head_dim=False), hidden_dim=c.int("intermediate_size"), activation=c.activation("hidden_act"), norm_eps=c.real("layer_norm_eps", 1e-12, 0, 1))
    base["n_kv_heads"] = base["n_heads"]
    if "positions" not in fields: base.update(learned(c, "max_position_embeddings"))
    return bert_like(c, table, prefix, **dict(base, **fields))


def roberta(c):
    offset = c.int("pad_token_id", 1, 0, BIG) + 1
    n = c.int("max_position_embeddings", most=BIG)
    if n <= offset: c.refuse("max_position_embeddings", f"more than pad_token_id + 1 = {offset}")
    m = bert(c, ROBERTA, "roberta.", n_positions=n, position_offset=offset, context=n - offset, positions=E.POSITIONS_LEARNED)
    m.h["head_activation"] = E.ACT_GELU
    return m


def roformer(c):
    c.only("rotary_value", False)
    c.only("embedding_size", c.int("hidden_size"))
    m = bert(c, prefix="roformer.", positions=E.POSITIONS_ROTARY, context=c.int("max_position_embeddings", most=LONG))
    m.h["rope"] = [rope(c, m.h["head_dim"], 1, theta=10000.0, scaled=False), {}]
    m.skip += [r"encoder\.embed_positions\.weight"]
    return m


def distilbert(c):
    base = sizes(c, head_dim=False, dim="dim", layers="n_layers", heads="n_heads")
    base["n_kv_heads"] = base["n_heads"]
    return bert_like(c, DISTILBERT, "distilbert.", embed_type=0, hidden_dim=c.int("hidden_dim"), activation=c.activation("activation"), norm_eps=1e-12,
                     **base, **learned(c, "max_position_embeddings"))


def modernbert(c):
    c.assume(local_rope_theta=10000.0)
    bias, norm_bias = c.flag("attention_bias", False), c.flag("norm_bias", False)
    h = dict(sizes(c, head_dim=False), hidden_dim=c.int("intermediate_size"), activation=c.activation("hidden_activation"), norm_eps=c.real("norm_eps", 1e-5, 0, 1))
    h["n_kv_heads"] = h["n_heads"]
    m = bert_like(c, MODERNBERT, "model.", norm_place=E.NORM_PRE, norm_bias=norm_bias, qkv_bias=bias, out_bias=bias, ffn_bias=c.flag("mlp_bias", False), gated=1, final_norm=1,
                  embed_type=0, head_dense_bias=c.flag("classifier_bias", False), head_bias=c.flag("decoder_bias", True), context=c.int("max_position_embeddings", most=LONG),
                  positions=E.POSITIONS_ROTARY, **h)
    m.fused = "rows"
    m.h["head_activation"] = c.activation("classifier_activation", "gelu")
    theta = c.real("global_rope_theta", 160000.0, 1.0)
    m.h["rope"] = [rope(c, m.h["head_dim"], theta=theta, scaled=False), rope(c, m.h["head_dim"], theta=c.real("local_rope_theta", theta, 1.0), scaled=False)]
    every = c.int("global_attn_every_n_layers", 3, most=BIG)
    local = [i % every != 0 for i in range(m.h["n_layers"])]
    m.every("rope", [int(l) for l in local])
    m.every("window", [c.int("local_attention", 128, 2, LONG) if l else 0 for l in local])
    m.layers[0]["skip_attn_norm"] = 1
    return m


# ---- encoder-decoders ----------------------------------------------------------------------------------------------------------

def marian(c):
    dim = c.int("d_model")
    if dim % 2: c.refuse("d_model", "an even number")
    c.only("share_encoder_decoder_embeddings", True)
    c.only("decoder_vocab_size", c.int("vocab_size", most=BIG))
    heads, ffn = c.int("encoder_attention_heads", most=4096), c.int("encoder_ffn_dim")
    c.only("decoder_attention_heads", heads)
    c.only("decoder_ffn_dim", ffn)
    m = gpt_like(c, {role: "decoder." + name for role, name in FAIRSEQ.items()}, "model.", "d_model", "decoder_layers", "encoder_attention_heads", eps=None,
                 n_encoder_layers=c.int("encoder_layers", most=1024), norm_place=E.NORM_POST, final_norm=0, hidden_dim=ffn, head=tied(c, True), head_bias=1,
                 embed_scale=dim ** 0.5 if c.flag("scale_embedding", False) else 1.0, context=c.int("max_position_embeddings", most=LONG),
                 positions=E.POSITIONS_SINUSOIDAL, sinusoid=E.SINUSOID_HALVES, decoder_start=c.int("decoder_start_token_id", least=0, most=BIG))
    m.encoder_names = {role: "encoder." + name for role, name in FAIRSEQ.items()}
    m.names.update(embed="shared", head="lm_head", head_bias_whole="final_logits_bias")
    m.skip += [r"(en|de)coder\.embed_(positions|tokens)\.weight"]
    return m


def t5(c):
    kind = c.text("feed_forward_proj", "relu")
    gated, act = kind.startswith("gated-"), "gelu_new" if kind == "gated-gelu" else kind.replace("gated-", "", 1)
    if act not in ACTIVATIONS: c.refuse("feed_forward_proj", "[gated-] and one of " + ", ".join(sorted(ACTIVATIONS)))
    gated, act = c.flag("is_gated_act", gated), c.activation("dense_act_fn", act)  # which say the same in their own way, and count
    dim, heads, layers = c.int("d_model"), c.int("num_heads", most=4096), c.int("num_layers", most=1024)
    head, buckets = tied(c, True), c.int("relative_attention_num_buckets", 32, 4, 65536)
    m = Model(t5_names("decoder", 2), dim=dim, n_heads=heads, head_dim=c.int("d_kv", most=8192), n_layers=c.int("num_decoder_layers", layers, most=1024), n_encoder_layers=layers,
              vocab_size=c.int("vocab_size", most=BIG), hidden_dim=c.int("d_ff"), context=c.int("n_positions", 512, most=LONG), activation=act, gated=gated,
              norm_eps=c.real("layer_norm_epsilon", 1e-6, 0, 1), positions=E.POSITIONS_RELATIVE, relative_buckets=buckets,
              relative_max=c.int("relative_attention_max_distance", 128, buckets // 2 + 1, BIG), head=head, logit_scale=dim ** -0.5 if head == E.HEAD_TIED else 1.0,
              decoder_start=c.int("decoder_start_token_id", 0, 0, BIG))
    m.encoder_names = t5_names("encoder", 1)
    if not gated:
        for table in (m.names, m.encoder_names): table["up"] = table["up"].replace("wi_1", "wi")
    for layer in m.layers: layer["attn_scale"] = 1.0
    m.skip += [r"(en|de)coder\.embed_tokens\.weight", r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"]
    return m


FAMILIES = {
    "llama": llama, "mistral": mistral, "mixtral": mixtral, "qwen2": lambda c: qwen2(c, qkv_bias=1), "qwen2_moe": qwen2_moe, "qwen3": qwen3, "qwen3_moe": qwen3_moe,
    "gemma": gemma, "gemma2": gemma2, "gemma3_text": gemma3, "cohere": cohere, "granite": granite, "olmo2": olmo2, "phi": phi, "phi3": phi3, "stablelm": stablelm,
    "starcoder2": starcoder2, "smollm3": smollm3, "deepseek_v2": deepseek_v2, "deepseek_v3": deepseek_v3, "gpt2": gpt2, "gpt_bigcode": gpt_bigcode, "openai-gpt": openai_gpt,
    "gpt_neo": gpt_neo, "gptj": gptj, "gpt_neox": gpt_neox, "bloom": bloom, "mpt": mpt, "falcon": falcon, "opt": opt, "xglm": xglm, "biogpt": biogpt,
    "bert": bert, "roberta": roberta, "xlm-roberta": roberta, "camembert": roberta, "distilbert": distilbert, "roformer": roformer, "modernbert": modernbert,
    "marian": marian, "t5": t5,
}


def model_of(c):
    kind = c.text("model_type")
    if kind not in FAMILIES: c.refuse("model_type", "one of " + ", ".join(sorted(FAMILIES)))
    if c.has("quantization_config"): c.refuse("quantization_config", "none: only unquantised Hugging Face folders can be read")
    return FAMILIES[kind](c)
