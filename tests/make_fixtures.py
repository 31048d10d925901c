#!/usr/bin/env python3
"""Writes tests/fixtures: tiny random checkpoints of many architectures, and what transformers makes of them in float32.

  make_fixtures.py [--out FOLDER] [CASE...]      for developers: needs torch and transformers 4.57

A case becomes a folder that test_fixtures.py reads: config.json and model.safetensors as save_pretrained writes them; logits.f32, a
row of scores (or of hidden state) for each position; reference.json: the ids they belong to, the scores' spread, the ids that follow
a prompt when the likeliest is taken each time, and the keys of config.json that say no more than their absence would; for some cases
attentions.f32: what the first ids of them look at, a text of their own, [layers, heads, queries, keys].
"""
import argparse
import json
import os
import shutil

import torch
import transformers

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")


def kin(layers=1, heads=3, **settings):
    """Settings of LLaMA and its kin, with sizes that are multiples of nothing."""
    return dict({"vocab_size": 37, "hidden_size": 24, "intermediate_size": 19, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": 1,
                 "max_position_embeddings": 64, "pad_token_id": 0}, **settings)


def encoder(**settings):
    return dict({"vocab_size": 37, "hidden_size": 21, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 19, "max_position_embeddings": 40}, **settings)


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
MIXTURE = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 9}
DEEPSEEK = dict(kin(2), num_key_value_heads=3, hidden_size=20, moe_intermediate_size=9, n_routed_experts=8, num_experts_per_tok=3, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=10,
                v_head_dim=7, first_k_dense_replace=1)
MARIAN = {"vocab_size": 37, "decoder_vocab_size": 37, "d_model": 18, "encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 19, "decoder_ffn_dim": 19,
          "max_position_embeddings": 64, "pad_token_id": 36, "decoder_start_token_id": 36, "forced_eos_token_id": None}
T5 = {"vocab_size": 37, "d_model": 22, "d_kv": 7, "d_ff": 19, "num_layers": 1, "decoder_start_token_id": 0, "pad_token_id": 0}

# class of transformers, settings, number of ids
CASES = {
    "llama-one-head": ("LlamaForCausalLM", kin(heads=1, hidden_size=23, head_dim=6, attention_bias=True, mlp_bias=True, hidden_act="relu2", tie_word_embeddings=True), 21),
    "llama-llama3": ("LlamaForCausalLM", kin(rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}), 37),
    "llama-yarn": ("LlamaForCausalLM", kin(head_dim=24, rope_theta=500.0, rope_scaling=dict(YARN, mscale=0.7, mscale_all_dim=0.4, truncate=False, beta_fast=8.0)), 70),
    "llama-dynamic": ("LlamaForCausalLM", kin(max_position_embeddings=16, rope_scaling={"rope_type": "dynamic", "factor": 2.5}), 70),
    "mistral-window": ("MistralForCausalLM", kin(2, head_dim=8, sliding_window=5), 70),
    "mixtral": ("MixtralForCausalLM", kin(num_local_experts=3, num_experts_per_tok=2, intermediate_size=17, sliding_window=7), 37),
    "qwen2-moe": ("Qwen2MoeForCausalLM", kin(2, **MIXTURE, shared_expert_intermediate_size=11, decoder_sparse_step=2), 21),
    "qwen3-moe": ("Qwen3MoeForCausalLM", kin(2, **MIXTURE, head_dim=10, mlp_only_layers=[1], norm_topk_prob=False, attention_bias=True, use_sliding_window=True, sliding_window=7), 37),
    "gemma2": ("Gemma2ForCausalLM", kin(2, head_dim=8, sliding_window=5, query_pre_attn_scalar=13, attn_logit_softcapping=2.0, final_logit_softcapping=1.5), 37),
    "gemma3": ("Gemma3ForCausalLM", kin(3, head_dim=8, intermediate_size=17, sliding_window=5, sliding_window_pattern=2, query_pre_attn_scalar=50, rope_local_base_freq=300.0,
                                        rope_scaling={"rope_type": "linear", "factor": 8.0}, attn_logit_softcapping=2.0), 37),
    "cohere": ("CohereForCausalLM", kin(use_qk_norm=True, logit_scale=0.7), 21),
    "granite": ("GraniteForCausalLM", kin(attention_multiplier=0.2, embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=0.3), 21),
    "olmo2": ("Olmo2ForCausalLM", kin(rms_norm_eps=1e-3), 21),
    "phi": ("PhiForCausalLM", kin(partial_rotary_factor=0.5, qk_layernorm=True), 21),
    "phi3-longrope": ("Phi3ForCausalLM", kin(original_max_position_embeddings=24, rope_scaling={"type": "longrope", "short_factor": [1, 1.1, 1.2, 1.3],
                                             "long_factor": [1, 1.7, 2.4, 3.1]}), 37),
    "stablelm": ("StableLmForCausalLM", kin(partial_rotary_factor=0.5, qk_layernorm=True, use_parallel_residual=True, use_qkv_bias=True), 21),
    "smollm3": ("SmolLM3ForCausalLM", kin(2, no_rope_layers=[0, 1], sliding_window=5, layer_types=["sliding_attention", "full_attention"]), 37),
    "deepseek-v2": ("DeepseekV2ForCausalLM", dict(DEEPSEEK, q_lora_rank=None, n_shared_experts=2, topk_method="group_limited_greedy", n_group=4, topk_group=2, routed_scaling_factor=1.7), 21),
    "deepseek-v3": ("DeepseekV3ForCausalLM", dict(DEEPSEEK, q_lora_rank=14, n_shared_experts=1, rope_interleave=False, n_group=4, topk_group=2, rope_scaling=dict(YARN, mscale=1.0, mscale_all_dim=0.5,
                                                  beta_fast=32.0, beta_slow=1.0)), 37),
    "gpt2": ("GPT2LMHeadModel", {"vocab_size": 37, "n_embd": 21, "n_layer": 2, "n_head": 3, "n_positions": 40, "n_inner": 19, "scale_attn_by_inverse_layer_idx": True}, 40),
    "gpt-neo": ("GPTNeoForCausalLM", {"vocab_size": 37, "hidden_size": 21, "num_layers": 2, "num_heads": 3, "max_position_embeddings": 40, "window_size": 5, "intermediate_size": 19,
                                      "attention_types": [[["local", "global"], 1]]}, 37),
    "gpt-neox": ("GPTNeoXForCausalLM", {"vocab_size": 37, "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 19, "max_position_embeddings": 64,
                                        "rotary_pct": 0.5, "use_parallel_residual": False}, 21),
    "bloom": ("BloomForCausalLM", {"vocab_size": 37, "hidden_size": 20, "n_layer": 1, "n_head": 5}, 37),
    "mpt": ("MptForCausalLM", {"vocab_size": 37, "d_model": 21, "n_layers": 1, "n_heads": 3, "max_seq_len": 64, "no_bias": False, "attn_config": {"softmax_scale": 0.3}}, 37),
    "falcon-groups": ("FalconForCausalLM", {"vocab_size": 37, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "new_decoder_architecture": True, "num_kv_heads": 2,
                                            "ffn_hidden_size": 19, "bias": True}, 21),
    "falcon-alibi": ("FalconForCausalLM", {"vocab_size": 37, "hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 3, "alibi": True, "ffn_hidden_size": 19}, 37),
    "opt-projected": ("OPTForCausalLM", {"vocab_size": 37, "hidden_size": 21, "num_hidden_layers": 1, "num_attention_heads": 3, "ffn_dim": 19, "max_position_embeddings": 40,
                                         "word_embed_proj_dim": 14, "do_layer_norm_before": False}, 40),
    "xglm": ("XGLMForCausalLM", {"vocab_size": 37, "d_model": 18, "num_layers": 1, "attention_heads": 3, "ffn_dim": 19, "max_position_embeddings": 64}, 37),
    "roberta": ("RobertaForMaskedLM", encoder(pad_token_id=3, hidden_act="relu"), 36),
    "distilbert-sinusoidal": ("DistilBertModel", {"vocab_size": 37, "dim": 18, "n_layers": 1, "n_heads": 3, "hidden_dim": 19, "max_position_embeddings": 40, "sinusoidal_pos_embds": True}, 21),
    "roformer": ("RoFormerForMaskedLM", encoder(hidden_size=24), 21),
    "modernbert": ("ModernBertForMaskedLM", encoder(hidden_size=24, num_hidden_layers=3, pad_token_id=0, cls_token_id=1, sep_token_id=2, local_attention=6,
                                                    global_attn_every_n_layers=2, hidden_activation="silu", norm_bias=True, decoder_bias=False), 37),
    "marian": ("MarianMTModel", dict(MARIAN, encoder_layers=1, decoder_layers=2), 21),
    "t5-one-head": ("T5ForConditionalGeneration", dict(T5, num_heads=1, num_decoder_layers=2, relative_attention_num_buckets=8, relative_attention_max_distance=6), 37),
    "t5-gated": ("T5ForConditionalGeneration", dict(T5, num_heads=3, feed_forward_proj="gated-gelu", tie_word_embeddings=False), 21),
}

# of each kind of mask, bias and cache
WATCHED = {"llama-yarn", "gemma2", "gpt2", "bloom", "falcon-alibi", "deepseek-v3", "modernbert"}
WATCHED_IDS = 12


def randomise(model, generator):
    """Weights large enough that every part of the model shows in its scores; norms keep their centre."""
    def draw(p, std): return torch.randn(p.shape, generator=generator) * std
    with torch.no_grad():
        for name, p in model.named_parameters():
            if not p.requires_grad: continue  # sinusoidal positions
            if p.dim() == 1: p.add_(draw(p, 0.15))
            elif "relative_attention_bias" in name: p.copy_(draw(p, 1.0))
            elif any(word in name for word in ("embed", "wte", "wpe", "shared.weight")): p.copy_(draw(p, 0.3))
            else: p.copy_(draw(p, 1.2 * p.shape[-1] ** -0.5))
        for name, buffer in model.named_buffers():
            if name.endswith(("e_score_correction_bias", "final_logits_bias")): buffer.copy_(draw(buffer, 0.2))


def build(kind, settings, seed=0):
    cls = getattr(transformers, kind)
    config = cls.config_class(**dict({"bos_token_id": 1, "eos_token_id": 2}, **settings))
    config._attn_implementation = "eager"
    base = next(k for k in cls.__mro__ if "_init_weights" in vars(k))
    own = base._init_weights
    base._init_weights = lambda self, module: None if isinstance(module, torch.nn.LayerNorm) else own(self, module)  # some fail on norms without biases
    model = cls(config).eval().float()
    base._init_weights = own
    if model.generation_config: model.generation_config.eos_token_id = None
    randomise(model, torch.Generator().manual_seed(seed))
    return model


def reference(model, n, seed=0):
    """n random ids and what the model makes of them."""
    config, generator = model.config, torch.Generator().manual_seed(seed + 1)
    def draw(n): return torch.randint(4, config.vocab_size, (1, n), generator=generator)
    ids = draw(n)
    inputs, prompt = {"input_ids": ids}, ids[:, :8]
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.cat([torch.tensor([[config.decoder_start_token_id]]), draw(max(4, n // 3))], 1)
        prompt = ids
    with torch.no_grad(): out = model(**inputs)
    logits = (out.logits if "logits" in out else out.last_hidden_state)[0].float()
    ref = {"ids": ids[0].tolist(), "shape": list(logits.shape), "std": logits.std().item()}
    if config.is_encoder_decoder: ref["decoder_ids"] = inputs["decoder_input_ids"][0].tolist()
    if model.can_generate():
        with torch.no_grad():
            out = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=12, pad_token_id=0, use_cache=not config.is_encoder_decoder)
        ref.update(greedy_prompt=prompt[0].tolist(), greedy=out[0, -12:].tolist())
    return ref, logits


def defaults(model):
    """Keys of the configuration that could as well be missing, all of them."""
    config, left_out = json.loads(model.config.to_json_string()), []
    for key in config:
        sparse = {k: v for k, v in config.items() if k not in (*left_out, key)}
        try: same = json.loads(model.config_class.from_dict(sparse).to_json_string()) == config
        except ValueError: same = False
        if same and key != "model_type": left_out.append(key)
    return left_out


def write(folder, model, ref, logits):
    os.makedirs(folder, exist_ok=True)
    model.save_pretrained(folder)
    generation = os.path.join(folder, "generation_config.json")
    if os.path.exists(generation): os.remove(generation)
    logits.numpy().astype("<f4").tofile(os.path.join(folder, "logits.f32"))
    with open(os.path.join(folder, "reference.json"), "w") as f:
        json.dump(dict(ref, defaults=defaults(model)), f)
        f.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--out", default=FIXTURES)
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for name in args.cases or CASES:
        kind, settings, n = CASES[name]
        torch.manual_seed(0)
        model = build(kind, settings)
        folder = os.path.join(args.out, name)
        shutil.rmtree(folder, ignore_errors=True)
        ref, logits = reference(model, n)
        write(folder, model, ref, logits)
        if name not in WATCHED: continue
        with torch.no_grad(): seen = model(torch.tensor([ref["ids"][:WATCHED_IDS]]), output_attentions=True).attentions
        torch.cat(seen).float().numpy().astype("<f4").tofile(os.path.join(folder, "attentions.f32"))


if __name__ == "__main__":
    main()
