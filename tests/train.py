"""tools/train.py: run by `make trainer-test`, with PyTorch; too heavy for `make test`."""
import argparse
import array
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tools"))
import torch

import train

SMALL = {"dim": 32, "layers": 2, "heads": 2, "hidden": 48, "vocab": 300, "length": 24, "batch": 4, "steps": 20, "seed": 3}


def sentences(n, seed):
    """Text that has something to learn."""
    r = random.Random(seed)
    nouns, verbs = ["king", "queen", "fox", "raven", "miller", "giant", "daughter", "tailor"], ["saw", "followed", "deceived", "married", "forgot"]
    return "\n".join(f"The {r.choice(nouns)} {r.choice(verbs)} the {r.choice(['old ', 'sly ', ''])}{r.choice(nouns)}, and {r.choice(['laughed', 'wept', 'slept'])}." for _ in range(n))


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for name, n, seed in (("text", 600, 1), ("held-out", 60, 2)):
            os.makedirs(cls.path(name))
            with open(cls.path(name, "a.txt"), "w") as f: f.write(sentences(n, seed))

    @classmethod
    def tearDownClass(cls): cls.folder.cleanup()

    @classmethod
    def path(cls, *names): return os.path.join(cls.folder.name, *names)

    def command(self, out, *more, **changes):
        sizes = [x for name, value in dict(SMALL, **changes).items() for x in ("--" + name, str(value))]
        return [sys.executable, os.path.join(ROOT, "tools", "train.py"), self.path("text"), self.path(out), "--valid", self.path("held-out"), *sizes, *more]

    def train(self, out, *more, **changes):
        p = subprocess.run(self.command(out, *more, **changes), capture_output=True, text=True, env=dict(os.environ, TORCH_COMPILE_DISABLE="1"))
        self.assertEqual(p.returncode, 0, p.stderr)
        return p.stdout

    def fails(self, status, pattern, *command):
        p = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(p.returncode, status)
        self.assertRegex(p.stderr, pattern)
        self.assertEqual(p.stderr.count("\n"), 1)

    def losses(self, out):
        with open(self.path(out, "history.json")) as f: return [loss for _, loss, _ in json.load(f)["history"]]

    def run_model(self, *arguments):
        p = subprocess.run([os.path.join(ROOT, "run"), *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(p.returncode, 0, p.stderr)
        return p.stdout

    def test_scores_are_those_of_pytorch(self):
        for positions in train.POSITIONS:
            for masked in (False, True):
                with self.subTest(positions=positions, masked=masked):
                    out = self.path(f"scores-{positions}-{masked}")
                    o = argparse.Namespace(**SMALL, positions=positions, masked=masked, out=out, type="f32")
                    os.makedirs(out)
                    train.make_tokenizer(train.read_texts(self.path("text")), o).save(os.path.join(out, "tokenizer.json"))
                    torch.manual_seed(5)
                    model = train.Transformer(o)
                    with torch.no_grad():
                        for p in model.parameters(): p += 0.1 * torch.randn_like(p)
                        train.export(model, o)
                        ids = torch.randint(2, o.vocab, (1, 20))
                        want = torch.nn.functional.linear(model.hidden(ids)[0], model.embed.weight).flatten()
                    self.run_model(os.path.join(out, "model.bin"), "--ids", " ".join(map(str, ids[0].tolist())), "--logits", self.path("logits"))
                    got = array.array("f")
                    with open(self.path("logits"), "rb") as f: got.frombytes(f.read())
                    self.assertEqual(len(got), len(want))
                    spread = float(want.max() - want.min())
                    self.assertLess(max(abs(a - float(b)) for a, b in zip(got, want)) / spread, 2e-5)

    def test_an_export_that_fails_leaves_nothing(self):
        o = argparse.Namespace(**SMALL, positions="none", masked=False, out=self.path("blocked"), type="f32")
        os.makedirs(self.path("blocked", "model.bin"))  # a folder where the file should go
        with self.assertRaises(OSError): train.export(train.Transformer(o), o)
        self.assertEqual(os.listdir(self.path("blocked")), ["model.bin"])

    def test_held_out_loss_is_that_of_the_runtime(self):
        printed = self.train("whole", "--type", "f32")
        loss, count = re.search(r"held-out loss ([\d.]+) of ([\d,]+) tokens", printed).groups()
        nll, tokens = re.search(r"nll ([\d.]+) .*tokens (\d+)", self.run_model(self.path("whole", "model.bin"), "--ppl", self.path("held-out", "a.txt"), "-c", SMALL["length"])).groups()
        self.assertAlmostEqual(float(nll), float(loss), 3)
        self.assertEqual(int(tokens), int(count.replace(",", "")))
        text = self.path("held-out", "a.txt")
        tokens_per_byte = len(self.run_model(self.path("whole", "model.bin"), "--tokenize", "-f", text).split()) / os.path.getsize(text)
        self.assertAlmostEqual(float(re.search(r"([\d.]+) bits per byte", printed)[1]), float(nll) / math.log(2) * tokens_per_byte, 3)
        losses = self.losses("whole")
        self.assertLess(losses[-1], losses[0] - 0.2)

    def test_same_seed_same_losses_and_a_stopped_training_goes_on(self):
        steps = 80
        p = subprocess.Popen(self.command("stopped", steps=steps), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ, TORCH_COMPILE_DISABLE="1"))
        while "step 10/" not in p.stdout.readline(): self.assertIsNone(p.poll())
        p.send_signal(signal.SIGTERM)
        _, complaint = p.communicate()
        self.assertEqual(p.returncode, 1)
        self.assertRegex(complaint, r"stopped after step \d+; the same command goes on")
        self.assertFalse(os.path.exists(self.path("stopped", "model.bin")))
        self.train("stopped", steps=steps)
        self.train("straight", steps=steps)
        self.assertEqual(len(self.losses("stopped")), steps)
        for a, b in zip(self.losses("stopped"), self.losses("straight")): self.assertAlmostEqual(a, b, 4)
        self.assertRegex(self.train("stopped", steps=steps + 20), f"from step {int(steps * (1 - train.DECAY))}")  # longer: before the rate fell
        self.fails(1, "was trained with --seed 3, not 4", *self.command("stopped", seed=4))

    def test_a_masked_model_fills_in(self):
        self.train("masked", "--masked", "--positions", "learned")
        self.assertEqual(len(self.run_model(self.path("masked", "model.bin"), "--fill", "The king saw the [MASK], and wept.").splitlines()), 5)

    def test_bad_input(self):
        os.makedirs(self.path("empty"), exist_ok=True)
        tool = os.path.join(ROOT, "tools", "train.py")
        self.fails(1, "no text: expected files .txt", sys.executable, tool, self.path("empty"), self.path("x"))
        self.fails(1, "no such folder", sys.executable, tool, self.path("nowhere"), self.path("x"))
        self.fails(1, r"--vocab 5000: the text gives \d+ tokens", *self.command("x", vocab=5000))
        self.fails(1, "--dim 30: expected a multiple", *self.command("x", dim=30))
        self.fails(1, "the corpus has .* tokens, expected more", *self.command("x", length=100000))
        self.fails(1, "pip install torch numpy tokenizers", sys.executable, "-S", tool, self.path("text"), self.path("x"))  # no installed packages
        self.fails(2, "argument --positions: invalid choice: 'cubic'", *self.command("x", "--positions", "cubic"))
        self.assertFalse(os.path.exists(self.path("x", "model.bin")))


if __name__ == "__main__":
    unittest.main()
