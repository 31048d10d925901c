"""The README's example: three files and a main of 15 lines, compiled in an empty folder, generate what ./run does."""
import os, re, shutil, subprocess, tempfile, unittest

import fixture


class Embed(unittest.TestCase):
    def test_readme_example(self):
        with open(os.path.join(fixture.ROOT, "README.md"), encoding="utf-8") as f: readme = f.read()
        source = re.search(r"```cpp\n(.*?)```", readme, re.S).group(1)
        self.assertLessEqual(len(source.strip().splitlines()), 15)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("runtime.cpp", "model.h", "tokenizer.h"): shutil.copy(os.path.join(fixture.ROOT, name), folder)
            with open(os.path.join(folder, "app.cpp"), "w") as f: f.write(source)
            command = re.search(r"^g\+\+ .*app\.cpp.*$", readme, re.M).group(0).split()
            subprocess.run([os.environ.get("CXX", "g++"), *command[1:], "-o", "app"], cwd=folder, check=True)
            os.mkdir(os.path.join(folder, "lib"))
            for name in ("runtime.cpp", "model.h", "tokenizer.h"): os.rename(os.path.join(folder, name), os.path.join(folder, "lib", name))
            subprocess.run([os.environ.get("CXX", "g++"), "-std=c++17", "-fsyntax-only", "-Ilib", "app.cpp", "lib/runtime.cpp"], cwd=folder, check=True)
            model = fixture.make("llama", os.path.join(folder, "model.bin"))
            got = subprocess.run([os.path.join(folder, "app"), model, "hello"], check=True, capture_output=True, timeout=60).stdout
            want = subprocess.run([os.path.join(fixture.ROOT, "run"), model, "-p", "hello", "-n", "50", "-t", "0"], check=True, capture_output=True, timeout=60).stdout
            self.assertGreater(len(got), 10)
            self.assertTrue(want.startswith(got), (got, want))
            self.assertLess(len(want) - len(got), 8)  # the line break, and bytes of a character that was not finished


if __name__ == "__main__":
    unittest.main()
