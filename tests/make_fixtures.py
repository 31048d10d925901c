#!/usr/bin/env python3
"""Writes tests/fixtures: tiny random checkpoints of many architectures, and what transformers makes of them in float32.

  make_fixtures.py [--out FOLDER] [CASE...]      for developers: needs torch and transformers 4.57; test_fixtures.py reads the result

Each case is a folder: config.json and model.safetensors as save_pretrained writes them, scores.f32 (a row of scores, or of hidden
state, for each position) and reference.json (the ids they belong to, the likeliest next ids after a prompt, the scores' spread).
"""
import argparse
import json
import os
import shutil

import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))


def randomise(model, generator):
    """Weights large enough that every part of the model shows in the scores; norms keep their centre."""
    norm = lambda shape, std: torch.randn(shape, generator=generator) * std
    with torch.no_grad():
        for name, p in model.named_parameters():
            if not p.requires_grad: continue  # sinusoidal positions
            if p.dim() == 1: p.add_(norm(p.shape, 0.15))
            elif "embed" in name or "wte" in name or "wpe" in name or "shared" in name: p.copy_(norm(p.shape, 0.3))
            elif "relative_attention_bias" in name: p.copy_(norm(p.shape, 1.0))
            else: p.copy_(norm(p.shape, 1.2 * p.shape[-1] ** -0.5))
        for name, b in model.named_buffers():
            if "e_score_correction_bias" in name: b.copy_(norm(b.shape, 0.2))
            if "final_logits_bias" in name: b.copy_(norm(b.shape, 0.3))


def build(case):
    """The model of a case: (class name, configuration, number of ids[, seed])."""
    kind, settings, _, *seed = case
    cls = getattr(transformers, kind)
    defaults = {} if cls.config_class.model_type == "openai-gpt" else {"bos_token_id": 1, "eos_token_id": 2}
    config = cls.config_class(**dict(defaults, **settings))
    config._attn_implementation = "eager"
    base = next(k for k in cls.__mro__ if "_init_weights" in vars(k))
    own = base._init_weights
    base._init_weights = lambda self, module: None if isinstance(module, torch.nn.LayerNorm) else own(self, module)  # some fail on norms without biases
    model = cls(config).eval().float()
    base._init_weights = own
    if model.generation_config: model.generation_config.eos_token_id = None
    randomise(model, torch.Generator().manual_seed(*(seed or [0])))
    return model


def scores_of(model, inputs):
    with torch.no_grad(): out = model(**inputs)
    return (out.logits if "logits" in out else out.last_hidden_state)[0].float()


def reference(model, n, seed=0):
    """Ids and what the model makes of them."""
    config = model.config.get_text_config()
    generator = torch.Generator().manual_seed(seed + 1)
    draw = lambda n: torch.randint(4, config.vocab_size, (1, n), generator=generator)
    ids = draw(n)
    if config.is_encoder_decoder:
        start = torch.tensor([[config.decoder_start_token_id]])
        inputs = {"input_ids": ids, "decoder_input_ids": torch.cat([start, draw(max(4, n // 3))], 1)}
    else: inputs = {"input_ids": ids}
    scores = scores_of(model, inputs)
    ref = {"ids": ids[0].tolist(), "shape": list(scores.shape), "std": scores.std().item()}
    if config.is_encoder_decoder: ref["decoder_ids"] = inputs["decoder_input_ids"][0].tolist()
    elif model.can_generate():
        prompt = ids[:, :8]
        with torch.no_grad(): out = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, num_beams=1, max_new_tokens=12, pad_token_id=0)
        ref.update(greedy_prompt=prompt[0].tolist(), greedy=out[0, prompt.shape[1]:].tolist())
    return ref, scores


def write(folder, model, ref, scores):
    model.save_pretrained(folder)
    for extra in ("generation_config.json",):
        if os.path.exists(os.path.join(folder, extra)): os.remove(os.path.join(folder, extra))
    scores.numpy().astype("<f4").tofile(os.path.join(folder, "scores.f32"))
    with open(os.path.join(folder, "reference.json"), "w") as f: json.dump(ref, f)


def make(folder, case):
    torch.manual_seed(0)
    model = build(case)
    write(folder, model, *reference(model, case[2], *case[3:]))
