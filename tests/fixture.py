"""Tiny random checkpoints in Hugging Face's layout, converted for the tests. Standard library only.

  fixture.py KIND OUT.bin     KIND: llama (chat template ChatML), bert (masked model), sentence (encoder with mean pooling)
"""
import array, json, os, random, struct, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CHATML = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a test<|im_end|>\n' }}{% endif %}"
          "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def write_safetensors(path, shapes, seed=1):
    """A file of random f32 tensors, {name: shape}. Names that end in norm's weight are near 1, as trained ones are."""
    rng = random.Random(seed)
    index, data, offset = {}, [], 0
    for name, shape in shapes.items():
        n = 1
        for d in shape: n *= d
        centre = 1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0
        values = array.array("f", (rng.gauss(centre, 0.15) for _ in range(n)))
        if sys.byteorder == "big": values.byteswap()
        raw = values.tobytes()
        index[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + len(raw)]}
        data.append(raw)
        offset += len(raw)
    text = json.dumps(index).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def write_json(path, value):
    with open(path, "w") as f: json.dump(value, f)


def byte_alphabet():
    """GPT-2's printable character for each byte."""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    out, extra = {}, 0
    for b in range(256):
        if b in plain: out[b] = chr(b)
        else:
            out[b] = chr(256 + extra)
            extra += 1
    return out


def special(i, text):
    return {"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def llama(folder, context=64):
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [c for _, c in sorted(byte_alphabet().items())]
    merges = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld"]
    tokens += [m.replace(" ", "") for m in merges]
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
              "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": len(tokens), "max_position_embeddings": context, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "rope_scaling": None, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "bos_token_id": 1, "eos_token_id": 2}
    shapes = {"model.embed_tokens.weight": (len(tokens), 32), "model.norm.weight": (32,)}
    for i in range(2):
        p = f"model.layers.{i}."
        shapes.update({p + "input_layernorm.weight": (32,), p + "post_attention_layernorm.weight": (32,), p + "self_attn.q_proj.weight": (32, 32), p + "self_attn.k_proj.weight": (16, 32),
                       p + "self_attn.v_proj.weight": (16, 32), p + "self_attn.o_proj.weight": (32, 32), p + "mlp.gate_proj.weight": (48, 32), p + "mlp.up_proj.weight": (48, 32),
                       p + "mlp.down_proj.weight": (32, 48)})
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [special(i, t) for i, t in enumerate(tokens[:3])], "normalizer": None,
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}, "post_processor": None,
                 "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
                 "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                           "vocab": {t: i for i, t in enumerate(tokens)}, "merges": merges}}
    settings = {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "unk_token": "<|endoftext|>", "chat_template": CHATML}
    return config, shapes, tokenizer, settings


def bert(folder, masked=True, positions=24):
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat dog sat on a mat king queen man woman ##s . , paris is of france".split()
    config = {"architectures": ["BertForMaskedLM" if masked else "BertModel"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
              "num_attention_heads": 4, "vocab_size": len(words), "max_position_embeddings": positions, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
              "position_embedding_type": "absolute"}
    p = "bert." if masked else ""
    shapes = {p + "embeddings.word_embeddings.weight": (len(words), 32), p + "embeddings.position_embeddings.weight": (positions, 32), p + "embeddings.token_type_embeddings.weight": (2, 32),
              p + "embeddings.LayerNorm.weight": (32,), p + "embeddings.LayerNorm.bias": (32,)}
    for i in range(2):
        l = f"{p}encoder.layer.{i}."
        for name, out, inner in (("attention.self.query", 32, 32), ("attention.self.key", 32, 32), ("attention.self.value", 32, 32), ("attention.output.dense", 32, 32),
                                 ("intermediate.dense", 48, 32), ("output.dense", 32, 48)):
            shapes[l + name + ".weight"], shapes[l + name + ".bias"] = (out, inner), (out,)
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[l + name + ".weight"], shapes[l + name + ".bias"] = (32,), (32,)
    if masked:
        shapes.update({"cls.predictions.transform.dense.weight": (32, 32), "cls.predictions.transform.dense.bias": (32,), "cls.predictions.transform.LayerNorm.weight": (32,),
                       "cls.predictions.transform.LayerNorm.bias": (32,), "cls.predictions.bias": (len(words),)})
    post = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
                     {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
            "special_tokens": {t: {"id": t, "ids": [words.index(t)], "tokens": [t]} for t in ("[CLS]", "[SEP]")}}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [special(i, t) for i, t in enumerate(words[:5])],
                 "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}, "pre_tokenizer": {"type": "BertPreTokenizer"},
                 "post_processor": post, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
                 "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {w: i for i, w in enumerate(words)}}}
    settings = {"tokenizer_class": "BertTokenizer", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]", "unk_token": "[UNK]", "pad_token": "[PAD]", "do_lower_case": True}
    if not masked:
        os.makedirs(os.path.join(folder, "1_Pooling"))
        files = {"1_Pooling/config.json": {"word_embedding_dimension": 32, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False,
                                           "pooling_mode_mean_sqrt_len_tokens": False},
                 "sentence_bert_config.json": {"max_seq_length": 8, "do_lower_case": False},
                 "modules.json": [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                                  {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                                  {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]}
        for name, value in files.items(): write_json(os.path.join(folder, name), value)
    return config, shapes, tokenizer, settings


def write(kind, folder, **changes):
    """Writes the checkpoint `kind` into a folder, as Hugging Face would; `changes` go to config.json."""
    config, shapes, tokenizer, settings = {"llama": llama, "bert": bert, "sentence": lambda f: bert(f, False), "long-bert": lambda f: bert(f, positions=80)}[kind](folder)
    config.update(changes)
    write_safetensors(os.path.join(folder, "model.safetensors"), shapes)
    for name, value in (("config.json", config), ("tokenizer.json", tokenizer), ("tokenizer_config.json", settings)):
        write_json(os.path.join(folder, name), value)


def make(kind, out, *options, **changes):
    """Writes the checkpoint `kind` and converts it to `out`; `options` go to convert.py."""
    with tempfile.TemporaryDirectory() as folder:
        write(kind, folder, **changes)
        p = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "convert.py"), folder, out, *options], capture_output=True)
        if p.returncode: raise RuntimeError(p.stderr.decode(errors="replace"))
    return out


if __name__ == "__main__":
    if len(sys.argv) != 3: sys.exit(__doc__.strip())
    make(sys.argv[1], sys.argv[2])
