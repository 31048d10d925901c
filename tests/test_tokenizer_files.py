#!/usr/bin/env python3
"""tools/tokenizer_files.py and tools/gguf.py: the layout is read from tokenizer.h, and what is damaged or not supported is told by name.
Standard library alone."""
import json
import os
import re
import struct
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "tools"), os.path.join(HERE, "corpus")]
import gguf  # noqa: E402
import tokenizer  # noqa: E402
import tokenizer_files  # noqa: E402
from gguf import ConvertError  # noqa: E402
from tokenizer_files import C, FIELDS, SPACE  # noqa: E402


def header(section):
    names = [name for _, name in FIELDS]
    return dict(zip(names, struct.unpack_from("<" + "".join("I" if t == "uint32_t" else "i" for t, _ in FIELDS), section)))


def texts(section):
    h = header(section)
    at = struct.unpack_from(f"<{h['n_tokens'] + 1}I", section, h["text_offsets"])
    return [section[h["texts"] + a:h["texts"] + b] for a, b in zip(at, at[1:])]


def merges(section):
    h = header(section)
    flat = struct.unpack_from(f"<{3 * h['n_merges']}I", section, h["merges"])
    return [flat[i:i + 3] for i in range(0, len(flat), 3)]


BERT = {"normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "a": 1, "##b": 2, "[SEP]": 3}},
        "added_tokens": [{"id": 0, "content": "[UNK]", "special": True}, {"id": 3, "content": "[SEP]", "special": True}],
        "post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "[SEP]"}}], "special_tokens": {"[SEP]": {"ids": [3]}}}}
GPT2 = {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "model": {"type": "BPE", "vocab": {"a": 0, "\u0120": 1, "\u0120a": 2}, "merges": ["\u0120 a"]}}


class Folders(unittest.TestCase):
    def convert(self, files, config=None):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as f: f.write(content if isinstance(content, str) else json.dumps(content))
            return tokenizer_files.from_folder(folder, config or {})

    def refused(self, words, **changes):
        doc = {**GPT2, **changes}
        with self.assertRaisesRegex(ConvertError, re.escape(words)): self.convert({"tokenizer.json": doc})

    def test_layout(self):
        with open(tokenizer_files.HEADER, encoding="utf-8") as f: text = re.search(r"struct TokenizerHeader \{(.*?)\n\};", f.read(), re.S).group(1)
        self.assertEqual(FIELDS[0], ("uint32_t", "version"))
        self.assertIn(("int32_t", "bos"), FIELDS)
        self.assertEqual(len(FIELDS), text.count(";") - sum(line.split("//")[-1].count(";") for line in text.split("\n") if "//" in line))  # every declaration was understood
        self.assertEqual((C["PRE_GPT2"], C["TOKEN_UNUSED"], C["TOKEN_RSTRIP"]), (1, 4, 32))
        for name, v in tokenizer.seeds():
            section = v.section()
            h = header(section)
            self.assertEqual((h["version"], h["bytes"], h["n_tokens"]), (C["TOKENIZER_VERSION"], len(section), len(v.texts)), name)
            self.assertEqual(texts(section), v.texts, name)

    def test_wordpiece(self):
        section = self.convert({"tokenizer.json": BERT, "chat_template.jinja": "{{ x }}"}, {"vocab_size": 8})
        h = header(section)
        self.assertEqual((h["kind"], h["lowercase"], h["strip_accents"], h["n_tokens"], h["n_suffix"], h["n_prefix"]), (C["TOKENIZER_WORDPIECE"], 1, 1, 8, 1, 0))
        self.assertEqual(texts(section)[:4], [b"[UNK]", b"a", b"##b", b"[SEP]"])
        self.assertEqual(section[h["chat_template"]:h["chat_template"] + h["chat_template_bytes"]], b"{{ x }}")

    def test_vocab_txt(self):
        h = header(self.convert({"vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n", "tokenizer_config.json": {"do_lower_case": False}}, {"model_type": "bert"}))
        self.assertEqual((h["n_tokens"], h["lowercase"], h["unk"], h["mask"]), (6, 0, 1, 4))

    def test_byte_level(self):
        section = self.convert({"tokenizer.json": GPT2, "generation_config.json": {"eos_token_id": [0, 2]}})
        self.assertEqual(texts(section), [b"a", b" ", b" a"])
        self.assertEqual(merges(section), [(1, 0, 2)])
        h = header(section)
        self.assertEqual(struct.unpack_from("<2I", section, h["ends"]), (0, 2))
        self.assertIsNone(self.convert({}))

    def test_refusals(self):
        split = lambda regex: {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}, {"type": "ByteLevel", "use_regex": False}]}
        self.refused("'\\\\w+' then 'bytes'", pre_tokenizer=split(r"\w+"))
        self.refused("'NFKC'", normalizer={"type": "NFKC"})
        self.refused("'Odd'", post_processor={"type": "Odd"})
        self.refused("model of type 'WordLevel'", model={"type": "WordLevel", "vocab": {}})
        self.refused("end_of_word_suffix", model={**GPT2["model"], "end_of_word_suffix": "</w>"})
        self.refused("needs the token 'b'", model={**GPT2["model"], "merges": ["a b"]})
        self.refused("tokenizer.json: the merge 'a b c' has 3 parts, expected 2", model={**GPT2["model"], "merges": ["a b c"]})
        self.refused("damaged", model={**GPT2["model"], "vocab": 5})
        self.refused("same id", model={**GPT2["model"], "vocab": {"a": 0, "b": 0}})
        self.refused("a vocabulary of", model={**GPT2["model"], "vocab": {"a": 1 << 40}})
        self.refused("single_word", added_tokens=[{"id": 3, "content": "x", "special": True, "single_word": True}])
        with self.assertRaisesRegex(ConvertError, "not valid JSON"): self.convert({"tokenizer.json": "{"})
        with self.assertRaisesRegex(ConvertError, "'a' stands twice"): self.convert({"tokenizer.json": '{"a": 1, "a": 2}'})
        with self.assertRaisesRegex(ConvertError, "sentencepiece.bpe.model"): self.convert({"sentencepiece.bpe.model": ""})
        with self.assertRaisesRegex(ConvertError, "not a SentencePiece model|damaged"): self.convert({"tokenizer.model": "hello"})
        with self.assertRaisesRegex(ConvertError, "tokenizer.ggml.pre"): tokenizer_files.from_gguf({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": [b"a"], "tokenizer.ggml.pre": "odd"})
        with self.assertRaisesRegex(ConvertError, "'rwkv'"): tokenizer_files.from_gguf({"tokenizer.ggml.model": "rwkv", "tokenizer.ggml.tokens": [b"a"]})
        with self.assertRaises(ConvertError): tokenizer_files.from_gguf({"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": [b"a"], "tokenizer.ggml.token_type": 5})

    def test_sentencepiece_gguf(self):
        pieces = ["<unk>", "<s>", "</s>", SPACE, "a", "b", "ab", SPACE + "ab"]
        kv = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": [p.encode() for p in pieces], "tokenizer.ggml.token_type": (2, 3, 3, 1, 1, 1, 1, 1),
              "tokenizer.ggml.scores": (0, 0, 0, -9, -8, -7, -1, -2), "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2}
        section = tokenizer_files.from_gguf(kv)
        self.assertEqual(merges(section), [(4, 5, 6), (3, 6, 7)])
        h = header(section)
        self.assertEqual((h["bos"], h["eos"], h["n_prefix"], h["n_suffix"], h["space_prefix"]), (1, 2, 1, 0, C["PREFIX_ALWAYS"]))

    def test_llama2c(self):
        with tempfile.NamedTemporaryFile() as f:
            tokens = [b"<unk>", b"\n<s>\n", b"\n</s>\n"] + [b"<0x%02X>" % b for b in range(256)] + [b" ", b"a", b" a"]
            data = struct.pack("<I", 8) + b"".join(struct.pack("<fi", 0, len(t)) + t for t in tokens)
            f.write(data); f.flush()
            section = tokenizer_files.from_llama2c(f.name, 262)
            self.assertEqual(merges(section), [(259, 260, 261)])
            self.assertEqual(texts(section)[1], b"<s>")
            with self.assertRaisesRegex(ConvertError, "262 tokens, the model 300"): tokenizer_files.from_llama2c(f.name, 300)
            f.truncate(len(data) - 1)
            with self.assertRaisesRegex(ConvertError, "token 261 has 2 bytes"): tokenizer_files.from_llama2c(f.name, 262)


class Gguf(unittest.TestCase):
    @staticmethod
    def file():
        s = lambda text: struct.pack("<Q", len(text)) + text
        kv = s(b"a") + struct.pack("<IB", gguf.UINT8, 7) + s(b"b") + struct.pack("<I", gguf.STRING) + s(b"text") + s(b"c") + struct.pack("<IIQ", gguf.ARRAY, gguf.STRING, 2) + s(b"x") + s(b"yz") \
            + s(b"d") + struct.pack("<IIQ3f", gguf.ARRAY, gguf.FLOAT32, 3, 1, 2, 3)
        info = s(b"w") + struct.pack("<IQQIQ", 2, 4, 3, 0, 0)
        head = b"GGUF" + struct.pack("<IQQ", 3, 1, 4) + kv + info
        return head + bytes(-len(head) % 32) + bytes(48)

    def read(self, data):
        with tempfile.NamedTemporaryFile() as f:
            f.write(data); f.flush()
            return gguf.read_gguf(f.name)

    def test_reads(self):
        kv, tensors, alignment = self.read(self.file())
        self.assertEqual(kv, {"a": 7, "b": "text", "c": [b"x", b"yz"], "d": (1.0, 2.0, 3.0)})
        self.assertEqual([t[:3] for t in tensors], [("w", (4, 3), 0)])
        self.assertEqual((tensors[0][3] + 48, alignment), (len(self.file()), 32))

    def test_every_truncation_and_every_byte(self):
        good = self.file()
        for n in range(len(good)):
            with self.assertRaises(ConvertError, msg=n): self.read(good[:n])
        for i in range(len(good) - 48):
            for value in (0, 1, 0x7F, 0x80, 0xFF):
                try: self.read(good[:i] + bytes([value]) + good[i + 1:])
                except ConvertError: pass


if __name__ == "__main__":
    unittest.main()
