"""Writes the seeds of tests/fuzz_tokenizer.cpp: a small section of each kind and a text. Run from the repository's root."""
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools"))
from tokenizer_files import C, SPACE, Vocabulary, scored_merges

TEXT = "Hello, world's 1234 caf\u00e9 e\u0301 \uac00\u4f60\u597d  \r\n<s> [MASK] \U0001f600\x00\t<0x0A>"


def vocabulary(kind, tokens, **fields):
    v = Vocabulary(kind, len(tokens))
    for i, (text, name) in enumerate(tokens): v.put(i, text if isinstance(text, bytes) else text.encode(), name)
    v.fields.update(fields)
    v.prefix = v.suffix = v.ends = [0]
    v.chat_template = "{{ messages }}"
    return v


def seeds():
    special = [("<s>", "CONTROL"), ("\n\n", "ADDED"), ("", "UNUSED")]
    for name in [name for name in C if name.startswith("PRE_")]:
        v = vocabulary("BYTE_BPE", special + [(bytes([b]), "NORMAL") for b in range(256)] + [("el", "NORMAL"), ("ell", "NORMAL")], pre_tokenizer=C[name], nfc=int(name in ("PRE_QWEN2", "PRE_NONE")))
        v.merges = [(3 + ord("e"), 3 + ord("l"), 259), (259, 3 + ord("l"), 260)]
        yield name.lower(), v
    pieces = [SPACE, "H", "e", "l", "o", "el", "ell", SPACE + "H", SPACE + SPACE]
    tokens = special + [("<0x%02X>" % b, "BYTE") for b in range(256)] + [(p, "NORMAL") for p in pieces]
    v = vocabulary("SPM_BPE", tokens, unk=0, bos=0, byte_fallback=1, space_prefix=C["PREFIX_ALWAYS"])
    v.merges = scored_merges({p: 259 + i for i, p in enumerate(pieces)}, [(p, -float(i)) for i, p in enumerate(pieces)])
    yield "spm", v
    for spaces in ("WORDS", "STRIP_COLLAPSE"):
        v = vocabulary("UNIGRAM", special + [(p, "NORMAL") for p in pieces], unk=0, spaces=C["SPACES_" + spaces], space_prefix=C["PREFIX_MISSING"])
        v.scores = [-float(i) for i in range(len(v.texts))]
        if spaces == "STRIP_COLLAPSE":  # "A" becomes "a"
            trie = [0] * 0x100
            trie[0], trie[0x80 ^ 65], trie[0x41] = 0x80 << 10, (0x80 ^ 65 ^ 0x41) << 10 | 0x100 | 65, 1
            v.charsmap = struct.pack("<I256I", 1024, *trie) + b"\0a\0"
        yield "unigram_" + spaces.lower(), v
    yield "wordpiece", vocabulary("WORDPIECE", [("[UNK]", "CONTROL"), ("[MASK]", "CONTROL"), ("hel", "NORMAL"), ("##lo", "NORMAL"), (",", "NORMAL"), ("cafe", "NORMAL")], unk=0, mask=1, max_word=100,
                                  clean_text=1, chinese_chars=1, strip_accents=1, lowercase=1)


if __name__ == "__main__":
    for name, v in seeds():
        section = v.section()
        with open(os.path.join(HERE, "tokenizer", name), "wb") as f:
            f.write(struct.pack("<I", len(section)) + section + TEXT.encode())
