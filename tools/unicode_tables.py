"""Writes the tables at the end of tokenizer.h: what Hugging Face's tokenizers takes each character for.

Its regular expressions, its BERT normaliser and its NFC stand on three different versions of Unicode, so the tables are
asked from the library itself (pip install tokenizers), and only the decompositions from Python. Run from the repository's
root: python3 tools/unicode_tables.py
"""
import os
import re
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

CHARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tokenizer.h")
MARK = "// ---- Unicode tables"


def matched(pattern):
    """Characters that the regular expression matches."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    found = set()
    for i in range(0, len(CHARS), 4096):
        chunk = CHARS[i:i + 4096]
        kept = {ord(c) for piece, _ in split.pre_tokenize_str("".join(map(chr, chunk))) for c in piece}
        found |= set(chunk) - kept
    return found


def classes():
    """In the order of the enum CharClass in tokenizer.h."""
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    strip = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    bert = pre_tokenizers.BertPreTokenizer()
    return [matched(p) for p in (r"[\p{Lu}\p{Lt}]", r"\p{Ll}", r"[\p{Lm}\p{Lo}]", r"\p{M}", r"\p{N}", r"\p{P}", r"\p{S}", r"\s")] + [
        {c for c in CHARS if len(bert.pre_tokenize_str("a" + chr(c) + "a")) == 3},
        {c for c in CHARS if not strip.normalize_str(chr(c))},
        {c for c in CHARS if not clean.normalize_str(chr(c))}]


def class_runs():
    flags = [0] * 0x110000
    for bit, chars in enumerate(classes()):
        for c in chars: flags[c] |= 1 << bit
    for c in range(0xD800, 0xE000): flags[c] = flags[0xD7FF]  # no characters: joined to what stands before
    return [c << 11 | f for c, f in enumerate(flags) if c == 0 or f != flags[c - 1]]


def decompositions():
    """Differences from the entry before: the character, its first and its second part (0: none) of the canonical decomposition."""
    nfd, nfc = normalizers.NFD(), normalizers.NFC()
    out, last = [], [0, 0, 0]
    for c in CHARS:
        parts = unicodedata.decomposition(chr(c)).split()
        if not parts or parts[0].startswith("<") or nfd.normalize_str(chr(c)) == chr(c): continue
        row = [c, int(parts[0], 16), int(parts[1], 16) if len(parts) > 1 else 0]
        out += [a - b for a, b in zip(row, last)]
        last = row
    return out


def exclusions():
    """Characters with a decomposition in two that NFC does not compose."""
    nfc = normalizers.NFC()
    return [c for c in CHARS if len(unicodedata.decomposition(chr(c)).split()) == 2 and not unicodedata.decomposition(chr(c)).startswith("<")
            and nfc.normalize_str(chr(c)) != chr(c)]


def combining_runs():
    value = lambda c: unicodedata.combining(chr(c))
    return [x for c in range(0x110000) if c == 0 or value(c) != value(c - 1) for x in (c, value(c))]


def lower_runs():
    """(first, last, step, difference): U+0130 alone has two letters, and is left to the code."""
    lower = normalizers.Lowercase()
    runs = []
    for c in CHARS:
        low = lower.normalize_str(chr(c))
        if low == chr(c) or len(low) != 1: continue
        d = ord(low) - c
        if runs and runs[-1][3] == d and (runs[-1][2] == c - runs[-1][1] or runs[-1][0] == runs[-1][1] and c - runs[-1][1] <= 2):
            runs[-1][2] = c - runs[-1][1]
            runs[-1][1] = c
        else:
            runs.append([c, c, 1, d])
    return [x for run in runs for x in run]


def table(kind, name, comment, values):
    lines, line = [], "   "
    for v in values:
        if len(line) + len(str(v)) + 2 > 158: lines.append(line); line = "   "
        line += f" {v},"
    return f"// {comment}\nconstexpr {kind} {name}[] = {{\n" + "\n".join(lines + [line]) + "\n};\n"


if __name__ == "__main__":
    text = open(HEADER, encoding="utf-8").read()
    head, found, tail = text.partition(MARK)
    if not found: raise SystemExit(f"{HEADER} has no line {MARK!r}")
    guard = tail[tail.index("} // namespace unicode"):]
    tables = MARK + ", written by tools/unicode_tables.py -----------------------------------------------------------\n\nnamespace unicode {\n// clang-format off\n"
    tables += table("uint32_t", "CLASSES", "first character of a run << 11 | its CharClass", class_runs())
    tables += table("int32_t", "DECOMPOSITIONS", "canonical decompositions: character, first part, second part (0: none), each less the entry before", decompositions())
    tables += table("int32_t", "NOT_COMPOSED", "characters that NFC leaves decomposed", exclusions())
    tables += table("int32_t", "COMBINING", "canonical combining classes: first character of a run, class", combining_runs())
    tables += table("int32_t", "LOWER", "first, last, step, difference to lower case", lower_runs())
    open(HEADER, "w", encoding="utf-8").write(head + tables + "// clang-format on\n" + guard)
