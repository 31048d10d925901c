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


class Tales(unittest.TestCase):
    model = os.path.join(ROOT, "models", "tales.bin")

    def test_loss_is_that_of_pytorch(self):
        nll, tokens = re.search(r"nll ([\d.]+) .*tokens (\d+)", run(self.model, "--ppl", os.path.join(ROOT, "models", "positions", "held-out.txt"), "-n", "2048")).groups()
        self.assertAlmostEqual(float(nll), 3.493734, delta=1e-3)  # PyTorch, float32, before the weights became q8
        self.assertEqual(tokens, "2044")

    def test_it_talks(self):
        words = run(self.model, "-p", "Once upon a time", "-n", "100", "-s", "1").split()
        self.assertGreater(len(words), 50)
        self.assertGreater(len(set(words) & {"the", "and", "a", "to", "of", "he", "was", "that", "in", "said"}), 5)


if __name__ == "__main__":
    unittest.main()
