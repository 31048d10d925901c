"""The models that the repository holds."""
import os
import re
import subprocess
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def run(*arguments):
    p = subprocess.run([os.path.join(ROOT, "run"), *arguments], capture_output=True, text=True)
    if p.returncode: raise AssertionError(p.stderr)
    return p.stdout


HELD_OUT = os.path.join(ROOT, "models", "positions", "held-out.txt")
# of its first 2,048 tokens by PyTorch, float32, before the weights became q8
LOSSES = {"tales": 3.263255, "positions/none": 4.083962, "positions/sinusoidal": 3.864888, "positions/learned": 3.970641, "positions/rotary": 3.756267}


class Models(unittest.TestCase):
    def test_loss_is_that_of_pytorch(self):
        for name, loss in LOSSES.items():
            length = 512 if name == "tales" else 256
            nll, tokens = re.search(r"nll ([\d.]+) .*tokens (\d+)", run(os.path.join(ROOT, "models", name + ".bin"), "--ppl", HELD_OUT, "-c", str(length), "-n", "2048")).groups()
            self.assertAlmostEqual(float(nll), loss, delta=1e-3, msg=name)
            self.assertEqual(int(tokens), 2048 - 2048 // length, name)

    def test_tales_talks(self):
        words = run(os.path.join(ROOT, "models", "tales.bin"), "-p", "Once upon a time", "-n", "100", "-s", "1").split()
        self.assertGreater(len(words), 50)
        self.assertGreater(len(set(words) & {"the", "and", "a", "to", "of", "he", "was", "that", "in", "said"}), 5)


if __name__ == "__main__":
    unittest.main()
