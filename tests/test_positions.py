"""`build/positions`: the experiments of docs/positions.md, on tiny random models in place of the trained ones."""
import math, os, re, struct, subprocess, tempfile, unittest
import xml.etree.ElementTree as xml

import fixture
from test_run import Checkpoint, STRUCTS, RUN

POSITIONS = os.path.join(fixture.ROOT, "build", "positions")
LENGTH, NO_ROPE = 80, 0xFFFFFFFF


def changed(source, path, **fields):
    """A copy of a checkpoint with other fields in its header; without positions its layers do not rotate."""
    with open(source, "rb") as f: c = Checkpoint(f.read())
    for name, value in fields.items(): c.set("Header", name, value)
    last, fmt, offset = STRUCTS["LayerHeader"][-1]
    size = offset + struct.calcsize(fmt)
    for i in range(c.get("Header", "n_layers")): c.set("LayerHeader", "rope", NO_ROPE, c.get("Header", "layers_offset") + i * size)
    return c.save(path)


class Positions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.models, cls.docs = os.path.join(cls.folder.name, "models", "positions"), os.path.join(cls.folder.name, "docs")
        os.makedirs(cls.models)
        def at(name): return os.path.join(cls.models, name + ".bin")
        fixture.make("llama", at("rotary"), max_position_embeddings=LENGTH)
        fixture.make("long-bert", at("masked"))
        changed(at("masked"), at("learned"), causal=1)
        changed(at("rotary"), at("none"), positions=0)
        changed(at("rotary"), at("sinusoidal"), positions=1)
        changed(at("rotary"), at("masked-none"), positions=0, causal=0)
        with open(os.path.join(cls.models, "held-out.txt"), "w") as f: f.write("the king sat on a mat, the queen of france is a woman. hello world " * 40)
        cls.done = subprocess.run([POSITIONS, cls.models, cls.docs], capture_output=True, text=True, timeout=300)
        if cls.done.returncode: raise AssertionError(cls.done.stderr)
        with open(os.path.join(cls.docs, "positions.md"), encoding="utf-8") as f: cls.page = f.read()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def rows(self, head):
        """The rows of the table whose head begins so, by their first cell."""
        table = re.search(r"^\| " + re.escape(head) + r".*\n\| ---.*\n((?:\|.*\n)+)", self.page, re.M)[1]
        cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
        return {row[0]: row[1:] for row in cells}

    def test_the_same_again(self):
        def contents():
            found = {}
            for base, _, names in os.walk(self.docs):
                for name in names:
                    with open(os.path.join(base, name), "rb") as f: found[name] = f.read()
            return found
        before = contents()
        subprocess.run([POSITIONS, self.models, self.docs], check=True, capture_output=True, timeout=300)
        self.assertEqual(contents(), before)

    def test_every_picture_is_there(self):
        pictures = re.findall(r"!\[[^]]+\]\((\S+)\)", self.page)
        self.assertEqual(sorted(pictures), sorted("positions/" + name for name in os.listdir(os.path.join(self.docs, "positions"))))
        self.assertEqual(len(pictures), 11)
        for name in pictures: self.assertTrue(xml.parse(os.path.join(self.docs, name)).getroot().tag.endswith("svg"))
        self.assertNotRegex(self.page, r"\bnan\b|\binf\b")

    def test_order_without_positions(self):
        """An encoder is blind to it; a decoder is in its first layer, and no longer in its second."""
        weights, sets = self.rows("attention of the last token"), self.rows("encoder")
        self.assertLess(float(weights["none"][0]), 1e-6)
        self.assertGreater(float(weights["none"][1]), 1e-5)
        self.assertLess(max(map(float, weights["masked-none"])), 1e-6)
        self.assertLess(float(sets["masked-none"][0]), 1e-5)
        self.assertGreater(float(sets["masked"][0]), 1e-2)

    def test_distance_alone(self):
        shifts = self.rows("first layer, the same word throughout")
        self.assertEqual(shifts["none"], ["0", "0"])
        self.assertLess(float(shifts["rotary"][1]), 1e-3)
        self.assertGreater(float(shifts["rotary"][0]), 1e-2)
        self.assertGreater(float(shifts["learned"][1]), 1e-2)

    def test_losses_are_those_of_the_scores(self):
        text, model, scores = os.path.join(self.models, "held-out.txt"), os.path.join(self.models, "rotary.bin"), os.path.join(self.folder.name, "scores")
        ids = [int(t) for t in subprocess.run([RUN, model, "--tokenize", "-f", text], check=True, capture_output=True).stdout.split()]
        step, total, width = (len(ids) - 8 * LENGTH - 1) // 16, {2: 0.0, 1: 0.0}, 268
        for w in range(16):
            for factor, switches in ((1, []), (2, ["--rope-scaling", "yarn", "--rope-factor", "2"])):
                n = factor * LENGTH
                part = ids[w * step:w * step + n + 1]
                subprocess.run([RUN, model, "--ids", " ".join(map(str, part[:-1])), *switches, "--logits", scores], check=True)
                with open(scores, "rb") as f: raw = f.read()
                for i in range(n):
                    row = struct.unpack_from(f"<{width}f", raw, i * width * 4)
                    total[factor] += (math.log(sum(map(math.exp, row))) - row[part[i + 1]]) / (16 * n)
        got = self.rows("mean loss of the whole window")
        self.assertAlmostEqual(float(got["rotary"][0]), total[1], delta=2e-3)
        self.assertAlmostEqual(float(got["rotary, YaRN"][1]), total[2], delta=2e-3)
        self.assertIn(f"a context of {8 * LENGTH} tokens is longer than the model's table of {LENGTH} positions", self.page)

    def test_a_word_is_found_next_to_itself(self):
        analogies = self.rows("analogy")
        self.assertEqual(analogies["king - man + woman"][0], "queen")

    def test_the_end_of_a_word_is_not_taken_for_a_word(self):
        nearest = {re.match(r"\S+", entry)[0] for row in re.findall(r"^\| king \| (.*) \|$", self.page, re.M) for entry in row.split(", ")}
        self.assertEqual({word for word in nearest if word.lstrip("-") == "s"}, {"-s"})  # ##s

    def test_what_is_missing_is_said(self):
        self.assertIn("minilm.bin is not there", self.done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.docs, "positions-real.md")))
        empty = os.path.join(self.folder.name, "empty")
        os.mkdir(empty)
        p = subprocess.run([POSITIONS, self.models, self.docs, "more"], capture_output=True, text=True, timeout=60)
        self.assertEqual((p.returncode, p.stderr), (1, "positions: expected at most two folders: positions [MODELS [PAGES]]\n"))
        with tempfile.TemporaryDirectory() as folder:
            for name in os.listdir(self.models): os.symlink(os.path.join(self.models, "masked.bin" if name == "rotary.bin" else name), os.path.join(folder, name))
            p = subprocess.run([POSITIONS, folder, os.path.join(folder, "docs")], capture_output=True, text=True, timeout=60)
            self.assertEqual((p.returncode, p.stderr), (1, f"positions: {folder}/rotary.bin: not a decoder with such positions\n"))
        for models in (empty, "missing"):
            p = subprocess.run([POSITIONS, models, self.docs], capture_output=True, text=True, timeout=60)
            self.assertEqual(p.returncode, 1)
            self.assertRegex(p.stderr, r"\Apositions: [^\n]*none\.bin: No such file[^\n]*\n\Z")
        with tempfile.TemporaryDirectory() as folder:
            for name in os.listdir(self.models): os.symlink(os.path.join(self.models, name), os.path.join(folder, name))
            os.unlink(os.path.join(folder, "held-out.txt"))
            with open(os.path.join(folder, "held-out.txt"), "w") as f: f.write("too short")
            p = subprocess.run([POSITIONS, folder, os.path.join(folder, "docs")], capture_output=True, text=True, timeout=300)
            self.assertEqual(p.returncode, 1)
            self.assertRegex(p.stderr, r"\Apositions: the held-out text has \d+ tokens, expected more than \d+\n\Z")


if __name__ == "__main__":
    unittest.main()
