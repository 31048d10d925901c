"""Reads a tokenizer from the files of a checkpoint and writes the tokenizer section of a model.bin; its layout stands in tokenizer.h.

Python's standard library alone. What would come out other than Hugging Face's tokenizers has it is refused by name.
"""
import base64
import json
import os
import re
import struct

from checkpoints import ConvertError, read_file, read_json

DAMAGE = (KeyError, IndexError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError, struct.error)  # what reading an unexpected form raises
HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tokenizer.h")
SPACE = "\u2581"
UNIVERSAL_ENDS = {"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|endoftext|>", "<end_of_turn>", "<\uff5cend\u2581of\u2581sentence\uff5c>"}  # tokens that end a turn under whatever name eos has

# ---- the layout, as tokenizer.h declares it ----------------------------------------------------------------------------


def declarations():
    """(fields of TokenizerHeader as (type, name) in order, values by name of the enums and constants)."""
    with open(HEADER, encoding="utf-8") as f:
        text = f.read()
    body = re.search(r"struct TokenizerHeader \{(.*?)\n\};", text, re.S).group(1)
    fields = re.findall(r"^ *(uint32_t|int32_t) (\w+);", body, re.M)
    values = {name: int(value) for enum in re.findall(r"^enum (?:TokenizerKind|PreTokenizer|SpacePrefix|Spaces|TokenType|TokenFlag) : \w+ \{([^}]*)\}", text, re.M)
              for name, value in re.findall(r"(\w+) = (\d+)", enum)}
    values.update((name, int(value)) for name, value in re.findall(r"^constexpr uint32_t (\w+) = (\d+);", text, re.M))
    return fields, values


FIELDS, C = declarations()


class Vocabulary:
    """Tokens by id, and what goes into the header; section() writes it all."""

    def __init__(self, kind, size):
        self.texts = [b""] * size
        self.types = bytearray([C["TOKEN_UNUSED"]]) * size
        self.scores, self.merges, self.charsmap, self.chat_template = None, [], b"", ""
        self.prefix, self.suffix, self.ends = [], [], []
        self.fields = {"version": C["TOKENIZER_VERSION"], "kind": C["TOKENIZER_" + kind], "n_tokens": size, "bos": -1, "eos": -1, "unk": -1, "mask": -1}

    def put(self, token, text, kind, flags=0):
        if not 0 <= token < len(self.texts): raise ConvertError(f"token {text!r} has id {token}, the vocabulary {len(self.texts)}")
        if len(text) > C["MAX_TOKEN_BYTES"]: raise ConvertError(f"token {token} has {len(text)} bytes, expected {C['MAX_TOKEN_BYTES']} at most")
        self.texts[token] = text
        self.types[token] = C["TOKEN_" + kind] + flags

    def check(self, name, token):
        if type(token) is not int or not 0 <= token < len(self.texts): raise ConvertError(f"{name} is token {token!r}, the vocabulary has {len(self.texts)}")
        return token

    def add_ends(self, *ids):
        """Ends: these, and the special tokens that always are."""
        known = [i for i, t in enumerate(self.types) if t & 15 == C["TOKEN_CONTROL"] and self.texts[i].decode(errors="replace") in UNIVERSAL_ENDS]
        self.ends = sorted({self.check("an end token", i) for i in [*ids, *known] if i is not None and i != -1})

    def section(self):
        fields, out = dict(self.fields), bytearray(4 * len(FIELDS))

        def add(name, data):
            out.extend(bytes(-len(out) % 4))
            fields[name] = len(out)
            out.extend(data)

        offsets, at = [0], 0
        for t in self.texts:
            at += len(t)
            offsets.append(at)
        add("text_offsets", struct.pack(f"<{len(offsets)}I", *offsets))
        add("texts", b"".join(self.texts))
        if self.scores is not None: add("scores", struct.pack(f"<{len(self.scores)}f", *self.scores))
        add("types", self.types)
        flat = [i for merge in self.merges for i in merge]
        for name, count, values in (("merges", len(self.merges), flat), ("ends", len(self.ends), self.ends), ("prefix", len(self.prefix), self.prefix), ("suffix", len(self.suffix), self.suffix)):
            fields["n_" + name] = count
            add(name, struct.pack(f"<{len(values)}I", *values))
        template = self.chat_template.encode(errors="replace")
        fields["chat_template_bytes"], fields["charsmap_bytes"] = len(template), len(self.charsmap)
        add("chat_template", template)
        add("charsmap", self.charsmap)
        fields["bytes"] = len(out)
        unknown = set(fields) - {name for _, name in FIELDS}
        if unknown: raise AssertionError(f"tokenizer.h declares no {unknown}")
        struct.pack_into("<" + "".join("I" if t == "uint32_t" else "i" for t, _ in FIELDS), out, 0, *(fields.get(name, 0) for _, name in FIELDS))
        return bytes(out)


# ---- byte-level BPE's alphabet: GPT-2 writes each byte as a printable character ----------------------------------------

BYTES = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTE_OF = {chr(b): b for b in BYTES}
BYTE_OF.update((chr(256 + i), b) for i, b in enumerate(b for b in range(256) if b not in BYTES))


def raw(text):
    """The bytes a byte-level token stands for, None if it is not written in that alphabet."""
    try:
        return bytes([BYTE_OF[c] for c in text])
    except KeyError:
        return None


def is_byte(text):
    return re.fullmatch(r"<0x[0-9A-F]{2}>", text) is not None


def scored_merges(vocab, scores):
    """The merges that a SentencePiece BPE model's scores stand for, in the order in which transformers lists them."""
    found = []
    for text, score in scores:
        merges = [(vocab[text[:i]], vocab[text[i:]]) for i in range(1, len(text)) if text[:i] in vocab and text[i:] in vocab]
        merges.sort()
        lengths = {left: i for i in range(1, len(text)) if (left := vocab.get(text[:i])) is not None}
        found += [(score, lengths[left], len(text) - lengths[left], left, right, vocab[text]) for left, right in merges]
    found.sort(key=lambda m: m[:3], reverse=True)
    return [m[3:] for m in found]


# ---- GGUF --------------------------------------------------------------------------------------------------------------

# tokenizer.ggml.pre: pre-tokeniser, and the settings that go with it
GGUF_PRE = {
    "gpt-2": ("GPT2", {}), "phi-2": ("GPT2", {}), "roberta-bpe": ("GPT2", {}), "olmo": ("GPT2", {"nfc": 1}), "mpt": ("GPT2", {"nfc": 1}),
    "smollm": ("DIGITS_GPT2", {}), "starcoder": ("DIGITS_GPT2", {}), "refact": ("DIGITS_GPT2", {}), "command-r": ("DIGITS_GPT2", {"nfc": 1}),
    "llama3": ("LLAMA3", {"ignore_merges": 1}), "llama-v3": ("LLAMA3", {"ignore_merges": 1}), "llama-bpe": ("LLAMA3", {"ignore_merges": 1}),
    "qwen2": ("QWEN2", {"nfc": 1}), "tekken": ("TEKKEN", {"ignore_merges": 1}), "falcon": ("FALCON", {}), "bloom": ("BLOOM", {}),
    "deepseek-llm": ("DEEPSEEK_LLM", {}), "deepseek-coder": ("DEEPSEEK_CODER", {}), "deepseek-v3": ("DEEPSEEK_V3", {}),
}
GGUF_ADDS_BOS = {"llama3", "llama-v3", "llama-bpe", "tekken"}  # where the file does not say


def from_gguf(kv):
    """The section of a GGUF file's metadata."""
    try:
        return gguf_vocabulary(kv).section()
    except DAMAGE as e:
        raise ConvertError(f"the tokenizer's metadata are damaged or of an unknown form ({type(e).__name__}: {e})") from None


def gguf_vocabulary(kv):
    model, pre = kv.get("tokenizer.ggml.model"), kv.get("tokenizer.ggml.pre")
    if model is None: raise ConvertError("the file has no tokenizer (tokenizer.ggml.model)")
    tokens = kv.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list): raise ConvertError("tokenizer.ggml.tokens is no list of strings")
    n = len(tokens)
    types = kv.get("tokenizer.ggml.token_type", (1,) * n)
    scores = kv.get("tokenizer.ggml.scores", ())
    if len(types) != n: raise ConvertError(f"tokenizer.ggml.token_type has {len(types)} entries for {n} tokens")
    try:
        texts = [t.decode() for t in tokens]
    except UnicodeDecodeError as e:
        raise ConvertError(f"tokenizer.ggml.tokens: {e}") from None

    def token(name):
        value = kv.get(f"tokenizer.ggml.{name}_token_id")
        return value if value is not None and 0 <= value < n else None

    kinds = {"gpt2": "BYTE_BPE", "llama": "SPM_BPE", "t5": "UNIGRAM", "bert": "WORDPIECE"}
    if model not in kinds: raise ConvertError(f"tokenizer.ggml.model {model!r} is not supported")
    kind = kinds[model]
    v = Vocabulary(kind, n)
    names = {1: "NORMAL", 2: "CONTROL", 3: "CONTROL", 4: "ADDED", 5: "UNUSED", 6: "BYTE"}
    for i, (text, t) in enumerate(zip(texts, types)):
        if t not in names: raise ConvertError(f"tokenizer.ggml.token_type of token {i} is {t}")
        name = names[t]
        if name == "ADDED" and re.fullmatch(r"\[PAD\d+\]", text): name = "UNUSED"  # fillers that converters make up
        if name == "ADDED" and text == "</s>": name = "CONTROL"  # Gemma's, which its own files count among the special tokens
        data = text.encode()
        if kind == "BYTE_BPE" and name == "NORMAL": data = raw(text) if raw(text) is not None else data
        if kind == "SPM_BPE" and name == "ADDED" and text.strip(" ") == "": data = text.replace(" ", SPACE).encode()
        if kind == "WORDPIECE" and name == "NORMAL" and not re.fullmatch(r"\[.*\]", text): data = data[3:] if text.startswith(SPACE) else b"##" + data
        v.put(i, data, name, C["TOKEN_LSTRIP"] if text == "<mask>" and name == "CONTROL" else 0)

    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("mask", "mask")):
        if token(key) is not None: v.fields[name] = token(key)
    add_bos, add_eos = kv.get("tokenizer.ggml.add_bos_token"), kv.get("tokenizer.ggml.add_eos_token")
    front, back = token("bos"), token("eos")
    if kind == "BYTE_BPE":
        if pre not in GGUF_PRE: raise ConvertError(f"the pre-tokeniser {pre!r} (tokenizer.ggml.pre) is not supported; its Hugging Face folder may be")
        name, settings = GGUF_PRE[pre]
        v.fields.update(settings, pre_tokenizer=C["PRE_" + name], space_prefix=C["PREFIX_MISSING" if kv.get("tokenizer.ggml.add_space_prefix") else "PREFIX_NONE"])
        by_text = {text: i for i, (text, t) in enumerate(zip(texts, types)) if t == 1}
        for i, text in enumerate(texts): by_text.setdefault(text, i)
        v.merges = text_merges(by_text, [m.decode() for m in kv.get("tokenizer.ggml.merges", ())])
        add_bos = pre in GGUF_ADDS_BOS or pre == "roberta-bpe" if add_bos is None else add_bos
        add_eos = pre == "roberta-bpe" if add_eos is None else add_eos
    elif kind == "SPM_BPE":
        if len(scores) != n: raise ConvertError(f"tokenizer.ggml.scores has {len(scores)} entries for {n} tokens")
        pieces = [v.texts[i].decode() for i in range(n)]
        vocab = {}
        for i, text in enumerate(pieces): vocab.setdefault(text, i)
        # SentencePiece scores the tokens that a user defined 0: they come before all others
        v.merges = scored_merges(vocab, [(text, 0.0 if t == 4 else s) for text, s, t in zip(pieces, scores, types) if t == 1 or (t == 4 and text.strip(SPACE) == "")])
        v.fields.update(byte_fallback=int(6 in types), space_prefix=C["PREFIX_ALWAYS" if kv.get("tokenizer.ggml.add_space_prefix", True) else "PREFIX_NONE"])
        add_bos, add_eos = True if add_bos is None else add_bos, bool(add_eos)
    elif kind == "UNIGRAM":
        if len(scores) != n: raise ConvertError(f"tokenizer.ggml.scores has {len(scores)} entries for {n} tokens")
        v.scores, v.charsmap = scores, bytes(b & 255 for b in kv.get("tokenizer.ggml.precompiled_charsmap", ()))
        v.fields.update(space_prefix=C["PREFIX_MISSING" if kv.get("tokenizer.ggml.add_space_prefix", True) else "PREFIX_NONE"], byte_fallback=int(6 in types),
                        spaces=C["SPACES_WORDS" if kv.get("tokenizer.ggml.remove_extra_whitespaces", True) else "SPACES_KEEP"])
        add_bos, add_eos = bool(add_bos), True if add_eos is None else add_eos
    else:
        cased = any(text != text.lower() for text, t in zip(texts, types) if t == 1 and not text.startswith("["))
        v.fields.update(clean_text=1, chinese_chars=1, strip_accents=int(not cased), lowercase=int(not cased), max_word=100)
        first, last = token("cls"), token("seperator")
        front, back = front if first is None else first, back if last is None else last
        add_bos, add_eos = True if add_bos is None else add_bos, True if add_eos is None else add_eos
    if add_bos and front is not None: v.prefix = [front]
    if add_eos and back is not None: v.suffix = [back]
    v.add_ends(token("eos"), token("eot"), token("eom"))
    v.chat_template = kv.get("tokenizer.chat_template", "")
    return v


def text_merges(vocab, merges):
    """Merges as ids; each is "left right" or a pair."""
    out = []
    for merge in merges:
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if len(pair) != 2: raise ConvertError(f"the merge {merge!r} has {len(pair)} parts, expected 2")
        try:
            out.append((vocab[pair[0]], vocab[pair[1]], vocab[pair[0] + pair[1]]))
        except KeyError as e:
            raise ConvertError(f"the merge {merge!r} needs the token {e.args[0]!r}, which the vocabulary lacks") from None
    return out


# ---- llama2.c ----------------------------------------------------------------------------------------------------------


def from_llama2c(path, vocab_size):
    data, at, pieces = read_file(path), 4, []
    while at < len(data):
        if len(data) - at < 8: raise ConvertError(f"{path}: cut off within token {len(pieces)}")
        score, size = struct.unpack_from("<fi", data, at)
        at += 8
        if not 0 <= size <= len(data) - at: raise ConvertError(f"{path}: token {len(pieces)} has {size} bytes, the file {len(data) - at} more")
        pieces.append((data[at:at + size].replace(b" ", SPACE.encode()), score))
        at += size
    if len(pieces) != vocab_size: raise ConvertError(f"{path} has {len(pieces)} tokens, the model {vocab_size}")
    if len(pieces) < 259: raise ConvertError(f"{path} has {len(pieces)} tokens, expected 259 (three special ones and a byte each) or more")
    v = Vocabulary("SPM_BPE", vocab_size)
    for i, text in enumerate([b"<unk>", b"<s>", b"</s>"]): v.put(i, text, "CONTROL")
    for b in range(256): v.put(3 + b, b"<0x%02X>" % b, "BYTE")
    for i, (text, _) in enumerate(pieces[259:], 259): v.put(i, text, "NORMAL")
    try:
        scored = [(text.decode(), score) for text, score in pieces[259:]]
    except UnicodeDecodeError as e:
        raise ConvertError(f"{path}: {e}") from None
    v.merges = scored_merges({text: i for i, (text, _) in reversed(list(enumerate(scored, 259)))}, scored)
    v.fields.update(bos=1, eos=2, unk=0, byte_fallback=1, space_prefix=C["PREFIX_ALWAYS"])
    v.prefix = [1]
    v.add_ends(1, 2)  # stories follow each other with bos in between
    return v.section()


# ---- Hugging Face ------------------------------------------------------------------------------------------------------

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s"
         r"|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK_V3 = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
               "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
DEEPSEEK_CJK, DEEPSEEK_SIGNS = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
CASED = "\\s?[A-Za-z\u00b5\u00c0-\u00d6"  # how DeepSeek LLM's list of letters begins; it ends with that of Adlam
CASED_END = "\U0001e900-\U0001e943]+"
# what a byte-level tokenizer.json cuts text by, in order
PRE_TOKENIZERS = {
    ("gpt2",): "GPT2", ("digit", "gpt2"): "DIGITS_GPT2", (LLAMA3, "bytes"): "LLAMA3", (LLAMA3.replace("{1,3}", ""), "bytes"): "QWEN2", (QWEN35, "bytes"): "QWEN35",
    (GPT4O % (CONTRACTIONS + "?", CONTRACTIONS + "?", "{1,3}"), "bytes"): "GPT4O", (GPT4O % ("", "", ""), "bytes"): "TEKKEN",
    ("[\r\n]", CASED, DEEPSEEK_SIGNS, "\\s+$", DEEPSEEK_CJK, "digit", "bytes"): "DEEPSEEK_LLM",
    ("[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "digit", "bytes"): "DEEPSEEK_CODER",
    ("\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK_V3, "bytes"): "DEEPSEEK_V3",
    ("signs", "gpt2", "digits", "[0-9][0-9][0-9]"): "FALCON", (BLOOM, "bytes"): "BLOOM",
}
ADDS_BOS = {"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "CohereTokenizer"}  # classes whose add_bos_token outranks the post-processor


def from_folder(path, config):
    """The section of a Hugging Face folder's tokenizer, None if it has none. config: its config.json."""
    folder = Folder(path, config)
    readers = (("tokenizer.json", folder.tokenizer_json), ("tokenizer.model", folder.sentencepiece), ("spiece.model", folder.sentencepiece), ("vocab.json", folder.vocab_json), ("vocab.txt", folder.vocab_txt))
    for name, reader in readers:
        file = os.path.join(path, name)
        if not os.path.exists(file): continue
        try:
            return folder.finish(reader(file))
        except ConvertError as e:
            raise ConvertError(str(e) if path in str(e) else f"{file}: {e}") from None
        except DAMAGE as e:
            raise ConvertError(f"{file} or a file of settings beside it is damaged or of an unknown form ({type(e).__name__}: {e})") from None
    if os.path.exists(os.path.join(path, "sentencepiece.bpe.model")): raise ConvertError(f"{path}: sentencepiece.bpe.model without tokenizer.json is not supported")
    return None


def from_marian(path, vocab_size):
    """The section of the SentencePiece model that a Marian model was trained with: eos follows a source text."""
    folder = Folder(os.path.dirname(path), {"model_type": "marian", "vocab_size": vocab_size})
    try:
        v = folder.sentencepiece(path)
    except DAMAGE as e:
        raise ConvertError(f"{path} is damaged or of an unknown form ({type(e).__name__}: {e})") from None
    if len(v.texts) != vocab_size: raise ConvertError(f"{path} has {len(v.texts)} tokens, the model {vocab_size}")
    return folder.finish(v)


def flat(node, kind):
    """The steps of a normaliser or pre-tokeniser."""
    if node is None: return []
    if node["type"] == "Sequence": return [s for child in node[kind] for s in flat(child, kind)]
    return [node]


def pattern(node):
    """(kind, text) of a pattern: Regex or String."""
    (kind, text), = node["pattern"].items()
    return kind, text


class Folder:
    def __init__(self, path, config):
        self.path, self.config = path, config or {}
        read = lambda name: read_json(os.path.join(path, name)) if os.path.exists(os.path.join(path, name)) else {}
        self.settings, self.special_map, self.generation = read("tokenizer_config.json"), read("special_tokens_map.json"), read("generation_config.json")
        self.tokenizer_class = str(self.settings.get("tokenizer_class") or "").replace("TokenizerFast", "Tokenizer")

    def named(self, name):
        """The text of bos_token and the like, None: not set."""
        token = self.settings.get(name + "_token", self.special_map.get(name + "_token"))
        return token["content"] if isinstance(token, dict) else token

    def vocabulary(self, kind, ids):
        """Room for these ids and for the rows of the embedding table, which may be more."""
        n = max(max(ids, default=0) + 1, self.config.get("vocab_size") or 0)
        if not 0 < n <= 1 << 24: raise ConvertError(f"{self.path}: a vocabulary of {n} tokens")
        return Vocabulary(kind, n)

    def add(self, v, token, content, special, lstrip=False, rstrip=False, single_word=False, **_):
        if single_word: raise ConvertError(f"{self.path}: token {content!r} has single_word, which is not supported")
        v.put(token, content.encode(), "CONTROL" if special else "ADDED", (C["TOKEN_LSTRIP"] if lstrip else 0) + (C["TOKEN_RSTRIP"] if rstrip else 0))

    def finish(self, v):
        """Named tokens, ends and chat template."""
        ids = {text.decode(errors="replace"): i for i, text in reversed(list(enumerate(v.texts))) if v.types[i] & 15 != C["TOKEN_UNUSED"]}
        for name in ("bos", "eos", "unk", "mask"):
            token = self.named(name)
            if token is not None and token in ids: v.fields[name] = ids[token]
            elif name in ("bos", "eos") and not self.settings and not self.special_map:  # only config.json says
                token = self.config.get(name + "_token_id")
                if isinstance(token, int) and 0 <= token < len(v.texts): v.fields[name] = token
        ends = [v.fields["eos"]]
        for source in (self.config, self.generation):
            e = source.get("eos_token_id")
            ends += e if isinstance(e, list) else [e]
        if self.tokenizer_class in ADDS_BOS:
            add_bos, add_eos = self.settings.get("add_bos_token", True), self.settings.get("add_eos_token", False)
            v.prefix = [v.fields["bos"]] if add_bos and v.fields["bos"] >= 0 else []
            v.suffix = [v.fields["eos"]] if add_eos and v.fields["eos"] >= 0 else []
        v.add_ends(*(e for e in ends if e is None or e < len(v.texts)))
        jinja = os.path.join(self.path, "chat_template.jinja")
        template = self.settings.get("chat_template") or ""
        if os.path.exists(jinja):
            template = read_file(jinja).decode()
        elif isinstance(template, list):  # several, by name
            template = next((t["template"] for t in template if t["name"] == "default"), "")
        v.chat_template = template
        return v.section()

    # ---- tokenizer.json

    def tokenizer_json(self, path):
        doc = read_json(path)
        model, normalizer, pre = doc["model"], flat(doc.get("normalizer"), "normalizers"), flat(doc.get("pre_tokenizer"), "pretokenizers")
        kind = model.get("type") or ("Unigram" if isinstance(model["vocab"], list) else "BPE" if "merges" in model else "WordPiece")
        if kind not in ("BPE", "Unigram", "WordPiece"): raise ConvertError(f"{path}: a model of type {kind!r} is not supported")
        vocab = {text: i for i, (text, _) in enumerate(model["vocab"])} if kind == "Unigram" else model["vocab"]
        added = doc.get("added_tokens") or []
        if len(set(vocab.values())) != len(vocab): raise ConvertError(f"{path}: two tokens have the same id")
        ids = [*vocab.values(), *(a["id"] for a in added)]
        if any(type(i) is not int or i < 0 for i in ids): raise ConvertError(f"{path}: a token's id is no whole number")
        byte_level = any(s["type"] == "ByteLevel" for s in pre)
        v = self.vocabulary({"BPE": "BYTE_BPE" if byte_level else "SPM_BPE", "Unigram": "UNIGRAM", "WordPiece": "WORDPIECE"}[kind], ids)
        fallback = bool(model.get("byte_fallback"))
        for text, i in vocab.items():
            data = raw(text) if byte_level else None
            v.put(i, text.encode(errors="replace") if data is None else data, "BYTE" if fallback and is_byte(text) else "NORMAL")
        if kind == "Unigram":
            self.unigram(v, path, model, normalizer, pre)
        elif kind == "WordPiece":
            self.wordpiece(v, path, model, normalizer, pre)
        else:
            for name in ("continuing_subword_prefix", "end_of_word_suffix", "dropout"):
                if model.get(name): raise ConvertError(f"{path}: a BPE model with {name} {model[name]!r} is not supported")
            v.merges = text_merges(vocab, model["merges"])
            v.fields.update(byte_fallback=int(fallback), ignore_merges=int(bool(model.get("ignore_merges"))))
            if byte_level: self.byte_level(v, path, model, normalizer, pre)
            else: self.spm(v, path, model, normalizer, pre)
            if model.get("unk_token") is not None: v.fields["unk"] = vocab[model["unk_token"]]
        changes = [s["type"] for s in normalizer if s["type"] not in ("NFC", "Replace", "Precompiled")]
        for a in added:
            if not a.get("special") and a.get("normalized") and changes: raise ConvertError(f"{path}: the added token {a['content']!r} is looked for in normalised text ({changes[0]}), which is not supported")
            self.add(v, a.pop("id"), **a)
        self.post_process(v, path, doc.get("post_processor"), {**vocab, **{a["content"]: i for a, i in zip(added, ids[len(vocab):])}})
        return v

    def byte_level(self, v, path, model, normalizer, pre):
        for step in normalizer:
            if step["type"] != "NFC": raise ConvertError(f"{path}: the normaliser {step['type']!r} before byte-level BPE is not supported")
            v.fields["nfc"] = 1
        steps = []
        for step in pre:
            t = step["type"]
            if t == "ByteLevel":
                steps.append("gpt2" if step.get("use_regex", True) else "bytes")
                if step.get("add_prefix_space"): v.fields["space_prefix"] = C["PREFIX_MISSING"]
            elif t == "Digits": steps.append("digit" if step["individual_digits"] else "digits")
            elif t == "Punctuation" and step.get("behavior") == "Contiguous": steps.append("signs")
            elif t == "Split" and (step["behavior"], step.get("invert")) in (("Isolated", False), ("Removed", True)):
                text = pattern(step)[1]
                steps.append(CASED if text.startswith(CASED) and text.endswith(CASED_END) else text)
            else: raise ConvertError(f"{path}: the pre-tokeniser {json.dumps(step)[:200]} is not supported")
        if steps[-1:] == ["bytes"] and steps[-2:-1] == ["gpt2"]: steps.pop()
        name = PRE_TOKENIZERS.get(tuple(steps))
        if model.get("unk_token") is not None and not set(BYTE_OF) <= set(model["vocab"]): raise ConvertError(f"{path}: byte-level BPE with an unknown token and without some bytes is not supported")
        if name is None: raise ConvertError(f"{path}: the pre-tokeniser {' then '.join(map(repr, steps))} is not supported")
        if v.fields.get("space_prefix") and name != "GPT2": raise ConvertError(f"{path}: add_prefix_space with {name} is not supported")
        v.fields["pre_tokenizer"] = C["PRE_" + name]

    def metaspace(self, v, path, step):
        if step.get("replacement", SPACE) != SPACE: raise ConvertError(f"{path}: Metaspace with {step['replacement']!r} is not supported")
        scheme = step.get("prepend_scheme", "always" if step.get("add_prefix_space", True) else "never")
        v.fields["space_prefix"] = C[{"always": "PREFIX_MISSING", "first": "PREFIX_FIRST", "never": "PREFIX_NONE"}[scheme]]
        return step.get("split", True)

    def spm(self, v, path, model, normalizer, pre):
        if model.get("unk_token") is not None and not model.get("fuse_unk") and not model.get("byte_fallback"): raise ConvertError(f"{path}: a BPE model without fuse_unk is not supported")
        spaced = False
        for step in normalizer:
            if step["type"] == "Prepend" and step["prepend"] == SPACE and not spaced: v.fields["space_prefix"] = C["PREFIX_ALWAYS"]
            elif step["type"] == "Replace" and pattern(step) == ("String", " ") and step["content"] == SPACE: spaced = True
            else: raise ConvertError(f"{path}: the normaliser {json.dumps(step)[:200]} before SentencePiece BPE is not supported")
        for step in pre:
            if step["type"] == "Metaspace" and not spaced:
                spaced = True
                if self.metaspace(v, path, step): raise ConvertError(f"{path}: Metaspace with split before BPE is not supported")
            elif not (spaced and step["type"] == "Split" and pattern(step) == ("String", " ")):  # no space is left to split at
                raise ConvertError(f"{path}: the pre-tokeniser {json.dumps(step)[:200]} before SentencePiece BPE is not supported")
        if not spaced: raise ConvertError(f"{path}: a BPE model without byte-level or SentencePiece spaces is not supported")

    def unigram(self, v, path, model, normalizer, pre):
        v.scores = [s for _, s in model["vocab"]] + [0.0] * (len(v.texts) - len(model["vocab"]))
        v.fields.update(unk=v.check("unk_id", model.get("unk_id")), byte_fallback=int(bool(model.get("byte_fallback"))))
        for step in normalizer:
            if step["type"] == "Precompiled" and step is normalizer[0]: v.charsmap = base64.b64decode(step["precompiled_charsmap"] or "")
            elif step["type"] == "Strip" and not step["strip_left"] and step["strip_right"]: v.fields["spaces"] = C["SPACES_STRIP_COLLAPSE"]
            elif step["type"] == "Replace" and pattern(step) == ("Regex", " {2,}") and step["content"] in (" ", SPACE):
                v.fields["spaces"] = v.fields.get("spaces") or C["SPACES_COLLAPSE"]
            else: raise ConvertError(f"{path}: the normaliser {json.dumps(step)[:200]} before a unigram model is not supported")
        if normalizer and normalizer[-1]["type"] == "Strip": raise ConvertError(f"{path}: the normaliser Strip alone is not supported")
        types = [step["type"] for step in pre]
        if types not in (["WhitespaceSplit", "Metaspace"], ["Metaspace"]): raise ConvertError(f"{path}: the pre-tokeniser {' then '.join(types) or 'none'} before a unigram model is not supported")
        if not self.metaspace(v, path, pre[-1]): raise ConvertError(f"{path}: Metaspace without split before a unigram model is not supported")
        if len(pre) == 2: v.fields["spaces"] = C["SPACES_WORDS"]

    def wordpiece(self, v, path, model, normalizer, pre):
        if model.get("continuing_subword_prefix", "##") != "##": raise ConvertError(f"{path}: WordPiece with the prefix {model['continuing_subword_prefix']!r} is not supported")
        if [s["type"] for s in pre] != ["BertPreTokenizer"]: raise ConvertError(f"{path}: the pre-tokeniser {[s['type'] for s in pre]} before WordPiece is not supported")
        if [s["type"] for s in normalizer] != ["BertNormalizer"]: raise ConvertError(f"{path}: the normaliser {[s['type'] for s in normalizer]} before WordPiece is not supported")
        n = normalizer[0]
        accents = n["lowercase"] if n.get("strip_accents") is None else n["strip_accents"]
        v.fields.update(clean_text=int(n["clean_text"]), chinese_chars=int(n["handle_chinese_chars"]), strip_accents=int(accents), lowercase=int(n["lowercase"]),
                        max_word=model.get("max_input_chars_per_word", 100), unk=model["vocab"][model.get("unk_token", "[UNK]")])

    def post_process(self, v, path, node, ids):
        """Special tokens in front of a text and behind it."""
        for step in flat(node, "processors"):
            t = step["type"]
            if t == "TemplateProcessing":
                before = True
                for part in step["single"]:
                    if "Sequence" in part: before = False
                    else: (v.prefix if before else v.suffix).extend(step["special_tokens"][part["SpecialToken"]["id"]]["ids"])
            elif t in ("BertProcessing", "RobertaProcessing"):
                v.prefix, v.suffix = [step["cls"][1]], [step["sep"][1]]
            elif t != "ByteLevel": raise ConvertError(f"{path}: the post-processor {t!r} is not supported")
        for i in v.prefix + v.suffix: v.check("a token of the post-processor", i)

    # ---- older files

    def added_tokens(self, v, ids):
        """tokenizer_config.json's and added_tokens.json's, and the named special tokens."""
        named = {}
        for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"):
            token = self.settings.get(name + "_token", self.special_map.get(name + "_token"))
            if token: named[token["content"] if isinstance(token, dict) else token] = token if isinstance(token, dict) else {"lstrip": name == "mask" and v.fields["kind"] == C["TOKENIZER_BYTE_BPE"]}
        for i, token in (self.settings.get("added_tokens_decoder") or {}).items(): self.add(v, int(i), **token)
        file = os.path.join(self.path, "added_tokens.json")
        if os.path.exists(file) and "added_tokens_decoder" not in self.settings:
            for text, i in read_json(file).items(): self.add(v, i, text, text in named)
        for text, token in named.items():
            if text in ids: self.add(v, ids[text], text, True, bool(token.get("lstrip")), bool(token.get("rstrip")))

    def extra_ids(self):
        file = os.path.join(self.path, "added_tokens.json")
        return [*map(int, self.settings.get("added_tokens_decoder") or {}), *(read_json(file).values() if os.path.exists(file) else ())]

    def vocab_json(self, path):
        kind = self.tokenizer_class or {"gpt2": "GPT2Tokenizer", "opt": "GPT2Tokenizer", "roberta": "RobertaTokenizer", "qwen2": "Qwen2Tokenizer"}.get(self.config.get("model_type"))
        if kind not in ("GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer", "Qwen2Tokenizer"): raise ConvertError(f"{path}: the tokenizer class {kind!r} without tokenizer.json is not supported")
        vocab = read_json(path)
        v = self.vocabulary("BYTE_BPE", [*vocab.values(), *self.extra_ids()])
        for text, i in vocab.items(): v.put(i, raw(text) if raw(text) is not None else text.encode(), "NORMAL")
        lines = read_file(os.path.join(self.path, "merges.txt")).decode().replace("\r\n", "\n").split("\n")
        v.merges = text_merges(vocab, [line for line in lines[lines[0].startswith("#version"):] if line.strip()])
        v.fields.update(pre_tokenizer=C["PRE_QWEN2" if kind == "Qwen2Tokenizer" else "PRE_GPT2"], nfc=int(kind == "Qwen2Tokenizer"),
                        space_prefix=C["PREFIX_MISSING" if self.settings.get("add_prefix_space") else "PREFIX_NONE"])
        self.added_tokens(v, vocab)
        if kind in ("RobertaTokenizer", "BartTokenizer"): v.prefix, v.suffix = [vocab[self.named("cls") or "<s>"]], [vocab[self.named("sep") or "</s>"]]
        elif kind == "GPT2Tokenizer" and self.settings.get("add_bos_token"): v.prefix = [vocab[self.named("bos")]]
        return v

    def vocab_txt(self, path):
        kind = self.tokenizer_class or {"bert": "BertTokenizer", "distilbert": "DistilBertTokenizer", "electra": "ElectraTokenizer", "mobilebert": "MobileBertTokenizer"}.get(self.config.get("model_type"))
        if kind not in ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer"): raise ConvertError(f"{path}: the tokenizer class {kind!r} without tokenizer.json is not supported")
        tokens = read_file(path).decode().split("\n")
        if tokens[-1] == "": tokens.pop()
        vocab = {text.rstrip("\r"): i for i, text in enumerate(tokens)}
        v = self.vocabulary("WORDPIECE", [len(tokens) - 1, *self.extra_ids()])
        for text, i in vocab.items(): v.put(i, text.encode(), "NORMAL")
        for name, text in (("unk", "[UNK]"), ("sep", "[SEP]"), ("pad", "[PAD]"), ("cls", "[CLS]"), ("mask", "[MASK]")): self.special_map.setdefault(name + "_token", text)
        self.added_tokens(v, vocab)
        lower = bool(self.settings.get("do_lower_case", True))
        accents = self.settings.get("strip_accents")
        v.fields.update(clean_text=1, chinese_chars=int(self.settings.get("tokenize_chinese_chars", True)), lowercase=int(lower), strip_accents=int(lower if accents is None else accents), max_word=100)
        v.prefix, v.suffix = [vocab[self.named("cls")]], [vocab[self.named("sep")]]
        return v

    def sentencepiece(self, path):
        fields = protobuf(read_file(path), path)
        pieces = []
        for data in fields.get(1, ()):
            p = protobuf(data, path)
            pieces.append((p[1][-1].decode(), struct.unpack("<f", p[2][-1])[0] if 2 in p else 0.0, p[3][-1] if 3 in p else 1))
        trainer, normalizer = protobuf(fields[2][-1], path) if 2 in fields else {}, protobuf(fields[3][-1], path) if 3 in fields else {}
        model = trainer.get(3, [1])[-1]
        if model not in (1, 2): raise ConvertError(f"{path}: a SentencePiece model of type {model} is not supported, expected unigram (1) or BPE (2)")
        charsmap, prefix, collapse = normalizer.get(2, [b""])[-1], normalizer.get(3, [1])[-1], normalizer.get(4, [1])[-1]
        v = self.vocabulary("UNIGRAM" if model == 1 else "SPM_BPE", [len(pieces) - 1, *self.extra_ids()])
        names = {1: "NORMAL", 2: "CONTROL", 3: "CONTROL", 4: "ADDED", 5: "UNUSED", 6: "BYTE"}
        for i, (text, _, t) in enumerate(pieces): v.put(i, text.encode(), names[t])
        vocab = {text: i for i, (text, _, _) in enumerate(pieces)}
        v.fields.update(byte_fallback=trainer.get(35, [0])[-1], unk=next((i for i, p in enumerate(pieces) if p[2] == 2), -1))
        if model == 2:
            if charsmap or (3 in fields and collapse): raise ConvertError(f"{path}: SentencePiece BPE with a normaliser is not supported")
            v.merges = scored_merges(vocab, [(text, s) for text, s, t in pieces if t == 1 or (t == 4 and text.strip(SPACE) == "")])
            v.fields["space_prefix"] = C["PREFIX_ALWAYS" if prefix else "PREFIX_NONE"]
        else:
            v.scores, v.charsmap = [s for _, s, _ in pieces] + [0.0] * (len(v.texts) - len(pieces)), charsmap
            v.fields.update(space_prefix=C["PREFIX_MISSING" if prefix else "PREFIX_NONE"], spaces=C["SPACES_STRIP_COLLAPSE" if collapse else "SPACES_KEEP"])
        self.added_tokens(v, vocab)
        for name, default in (("bos", "<s>"), ("eos", "</s>")):
            token = self.named(name) or default
            if token in vocab: v.fields[name] = vocab[token]
        if self.tokenizer_class == "T5Tokenizer" or self.config.get("model_type") in ("t5", "mt5", "marian"): v.suffix = [v.fields["eos"]]
        elif not self.tokenizer_class: v.prefix = [v.fields["bos"]]
        elif self.tokenizer_class not in ADDS_BOS: raise ConvertError(f"{path}: the tokenizer class {self.tokenizer_class!r} without tokenizer.json is not supported")
        return v


def protobuf(data, path):
    """Values by field number of one protocol buffer message: whole numbers, or bytes."""
    out, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(data) or shift > 63: raise ConvertError(f"{path}: not a SentencePiece model, or cut off")
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128: return value

    while at < len(data):
        key = varint()
        wire = key & 7
        if wire == 0:
            value = varint()
        elif wire in (1, 2, 5):
            size = varint() if wire == 2 else 8 if wire == 1 else 4
            if size > len(data) - at: raise ConvertError(f"{path}: not a SentencePiece model, or cut off")
            value = data[at:at + size]
            at += size
        else:
            raise ConvertError(f"{path}: not a SentencePiece model")
        out.setdefault(key >> 3, []).append(value)
    return out
