"""--bench's figures, and the benchmark page: made without any peer, and only its structure is looked at, never a time."""
import json, os, re, subprocess, sys, tempfile, unittest

import fixture

RATES = ["prompt_128", "prompt_512", "prompt_2048", "decode_0", "decode_2048", "decode_6000"]
REST = ["load_ms", "first_token_ms", "bytes_per_token", "threads", "isa"]


def bench(path, *options):
    p = subprocess.run([os.path.join(fixture.ROOT, "run"), path, "--bench", *options], check=True, capture_output=True, text=True, timeout=120)
    return json.loads(p.stdout.splitlines()[-1])


class Figures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = lambda name: os.path.join(cls.folder.name, name)
        cls.long, cls.short, cls.encoder = fixture.make("llama", path("long"), max_position_embeddings=8192), fixture.make("llama", path("short")), fixture.make("sentence", path("encoder"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_keys(self):
        row = bench(self.long, "-j", "1")
        self.assertEqual(list(row), RATES + REST)
        for key in RATES + REST[:3]: self.assertGreater(row[key], 0, key)
        self.assertEqual(row["threads"], 1)
        self.assertIn(row["isa"], ("scalar", "avx2", "avx512"))

    def test_what_does_not_fit_is_left_out(self):
        self.assertEqual(list(bench(self.short)), REST)
        self.assertEqual(list(bench(self.encoder)), REST)
        self.assertEqual(list(bench(self.long, "-c", "600")), ["prompt_128", "prompt_512", "decode_0"] + REST)

    def test_bytes_of_a_token(self):
        row = bench(self.long, "-c", "600")
        weights = os.path.getsize(self.long)
        cache = 64 * 2 * 2 * 16 * 4  # half of the tokens decoded, layers, keys and values, width, f32
        self.assertGreater(row["bytes_per_token"], cache + weights / 2)
        self.assertLess(row["bytes_per_token"], 2 * cache + weights)  # narrow heads are padded


class Page(unittest.TestCase):
    def test_quick(self):
        with tempfile.TemporaryDirectory() as folder:
            path = lambda name: os.path.join(folder, name)
            for name, kind in (("decoder", "llama"), ("encoder", "sentence")):
                os.mkdir(path(name))
                fixture.write(kind, path(name), **({"max_position_embeddings": 512} if kind == "llama" else {}))
            with open(path("page.md"), "w", encoding="utf-8") as f: f.write("# Old\n\n## What was tried, and what limits it\n\nKept.\n")
            command = [sys.executable, os.path.join(fixture.ROOT, "tools", "benchmark.py"), "--quick", "--peers", path("none"), "--stories", path("none"), "--work", path("work"),
                       "--decoder", path("decoder"), "--encoder", path("encoder"), "--out", path("page.md")]
            p = subprocess.run(command, capture_output=True, text=True, timeout=300)
            self.assertEqual(p.returncode, 0, p.stderr)
            with open(path("page.md"), encoding="utf-8") as f: page = f.read()
            heads = re.findall(r"^## (.*)$", page, re.M)
            self.assertEqual(heads[:2], ["Targets", "The machine's limits"])
            self.assertEqual(heads[-1], "What was tried, and what limits it")
            self.assertTrue(page.endswith("\n\nKept.\n"))
            self.assertNotIn("Old", page)
            self.assertIn("not compared: llama.cpp, onnxruntime, llama2.c", page)
            self.assertRegex(page, r"\n\| q4 \| Q4_0 \| [\d.,]+ \| [\d.,]+ \| \d+ % \|  \|  \|  \|\n")
            targets = page[page.index("## Targets"):page.index("## The machine's limits")]
            self.assertEqual(set(re.findall(r"^\| (\d*) \|", targets, re.M)), {"1", "2", "3", "4", "5", "6", "7", "8", ""})
            for block in re.findall(r"(?:^\|.*\n)+", page, re.M):  # a table's rows are as wide as its head
                self.assertEqual(len({line.count("|") for line in block.splitlines()}), 1, block)
            again = subprocess.run([*command, "--render"], capture_output=True, text=True, timeout=60)
            self.assertEqual(again.returncode, 0, again.stderr)
            with open(path("page.md"), encoding="utf-8") as f: self.assertEqual(f.read(), page)


if __name__ == "__main__":
    unittest.main()
