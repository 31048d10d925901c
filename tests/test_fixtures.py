#!/usr/bin/env python3
"""The checkpoints in tests/fixtures, which make_fixtures.py wrote, against transformers' scores: converted and run as a whole and token
by token, with the plain kernels and the widest, and the likeliest tokens one after the other. Standard library alone."""
import array
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WATCHED_IDS = 12  # as make_fixtures.py has it
FIXTURES = os.path.join(ROOT, "tests", "fixtures")
CONVERT = os.path.join(ROOT, "tools", "convert.py")
RUN, STEPS = os.path.join(ROOT, "run"), os.path.join(ROOT, "build", "steps")
WHOLE = {"llama-dynamic", "phi3-longrope"}  # here the rotation depends on how long the text is


def floats(path):
    values = array.array("f")
    with open(path, "rb") as f: values.frombytes(f.read())
    if sys.byteorder == "big": values.byteswap()
    return values


def text(ids): return " ".join(map(str, ids))


class Fixtures(unittest.TestCase):
    def call(self, *command, **environment):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, env=dict(os.environ, **environment))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def near(self, path, want, spread, what):
        got = floats(path)
        self.assertEqual(len(got), len(want), what)
        error = max(abs(a - b) for a, b in zip(got, want)) / spread
        self.assertTrue(error < 1e-4, f"{what}: off by {error:.1e} of the spread")
        return got

    def check(self, name, folder):
        source = os.path.join(FIXTURES, name)
        with open(os.path.join(source, "reference.json")) as f: ref = json.load(f)
        want = floats(os.path.join(source, "logits.f32"))
        model, out = os.path.join(folder, "model.bin"), os.path.join(folder, "logits")
        self.call(sys.executable, CONVERT, source, model)
        target = ref.get("decoder_ids")
        command = [RUN, model, "--ids", text(ref["ids"]), *(["--decoder-ids", text(target)] if target else []), "--logits", out]
        self.call(*command, LOCUS_ISA="scalar")
        self.near(out, want, ref["std"], "scalar")
        self.call(*command)
        whole = self.near(out, want, ref["std"], "in one batch")
        self.attention(os.path.join(source, "attentions.f32"), model, ref["ids"], folder)
        self.without_defaults(name, source, folder, ref["defaults"], model)
        if "greedy" not in ref: return
        said = self.call(RUN, model, "--ids", text(ref["greedy_prompt"]), "-n", len(ref["greedy"]), "-t", 0, "--print-ids")
        self.assertEqual(said.split(), text(ref["greedy"]).split())
        if name in WHOLE: return
        self.call(STEPS, model, text(ref["ids"] if target else []), text(target or ref["ids"]), out)
        self.assertEqual(floats(out), whole, "token by token")

    def attention(self, path, model, ids, folder):
        """What each head looks at, where make_fixtures.py has asked transformers."""
        if not os.path.exists(path): return
        n, want, out = WATCHED_IDS, floats(path), os.path.join(folder, "attention")
        self.call(RUN, model, "--ids", text(ids[:n]), "--attention", out)
        with open(out) as f: rows = [line.split("\t") for line in f][1:]
        heads = 1 + max(int(row[1]) for row in rows)
        got = [0.0] * len(want)
        for layer, head, query, key, weight, *_ in rows: got[((int(layer) * heads + int(head)) * n + int(query)) * n + int(key)] = float(weight)
        self.assertLess(max(abs(a - b) for a, b in zip(got, want)), 1e-5)

    def without_defaults(self, name, source, folder, keys, model):
        """A configuration that leaves out what goes without saying means the same, or is refused for what it leaves out."""
        with open(os.path.join(source, "config.json")) as f: config = json.load(f)
        sparse, out = os.path.join(folder, name), os.path.join(folder, "sparse.bin")
        os.mkdir(sparse)
        os.symlink(os.path.join(source, "model.safetensors"), os.path.join(sparse, "model.safetensors"))
        left = set(keys)
        while True:
            with open(os.path.join(sparse, "config.json"), "w") as f: json.dump({key: value for key, value in config.items() if key not in left}, f)
            done = subprocess.run([sys.executable, CONVERT, sparse, out], capture_output=True, text=True, timeout=120)
            if not done.returncode: break
            missing = re.search(r"config\.json: (\w+) is missing", done.stderr)
            self.assertTrue(missing and missing[1] in left, done.stderr)
            left.remove(missing[1])
        with open(out, "rb") as a, open(model, "rb") as b: self.assertEqual(a.read(), b.read(), "without the keys that go without saying")


def case(name):
    def test(self):
        with tempfile.TemporaryDirectory() as folder: self.check(name, folder)
    return test


for fixture in sorted(os.listdir(FIXTURES)): setattr(Fixtures, "test_" + fixture.replace("-", "_"), case(fixture))

if __name__ == "__main__":
    unittest.main()
