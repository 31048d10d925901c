"""The program's command line: what it prints, and that bad input gives one clear line and an exit status, never a crash."""
import json, math, os, re, resource, signal, struct, subprocess, tempfile, time, unittest

import fixture

RUN = os.path.join(fixture.ROOT, "run")
SIZES = {"uint32_t": ("I", 4), "uint64_t": ("Q", 8), "float": ("f", 4), "char": ("s", 1)}


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))  # a bad file must not make it allocate without bound


def run(*args, stdin=b"", **options):
    return subprocess.run([RUN, *map(str, args)], input=stdin, capture_output=True, timeout=60, preexec_fn=limit, **options)


def structs():
    """{struct: [(field, format, offset)]} of the checkpoint's structs, from their declarations in model.h."""
    with open(os.path.join(fixture.ROOT, "model.h"), encoding="utf-8") as f: text = f.read()
    found = {}
    for name in ("Rope", "Header", "LayerHeader", "TensorEntry"):
        body = re.search(r"^struct %s \{.*?\n(.*?)^\};" % name, text, re.M | re.S).group(1)
        fields, offset = [], 0
        for kind, field, count in re.findall(r"^    (\w+) (\w+)(?:\[(\d+)\])?;", body, re.M):
            for i in range(1 if kind == "char" else int(count or 1)):
                label = field + (f"[{i}]" if count and kind != "char" else "")
                if kind == "Rope":
                    fields += [(f"{label}.{f}", fmt, offset + at) for f, fmt, at in found["Rope"]]
                    offset += 4 * len(found["Rope"])
                    continue
                fmt, size = SIZES[kind]
                if kind == "char": fmt, size = count + "s", int(count)
                offset += -offset % min(size, 8) if kind != "char" else 0
                fields.append((label, fmt, offset))
                offset += size
        found[name] = fields
    return found


STRUCTS = structs()


class Checkpoint:
    """A checkpoint's bytes, with named fields that can be set."""

    def __init__(self, data):
        self.data = bytearray(data)

    def field(self, struct_name, field, base=0):
        fmt, offset = next((f, o) for n, f, o in STRUCTS[struct_name] if n == field)
        return "<" + fmt, base + offset

    def get(self, struct_name, field, base=0):
        fmt, offset = self.field(struct_name, field, base)
        return struct.unpack_from(fmt, self.data, offset)[0]

    def set(self, struct_name, field, value, base=0):
        fmt, offset = self.field(struct_name, field, base)
        struct.pack_into(fmt, self.data, offset, value)
        return self

    def tensor(self, i):
        last, fmt, offset = STRUCTS["TensorEntry"][-1]
        return self.get("Header", "tensors_offset") + i * (offset + struct.calcsize(fmt))

    def save(self, path):
        with open(path, "wb") as f: f.write(self.data)
        return path


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.llama = fixture.make("llama", cls.path("llama.bin"))
        cls.bert = fixture.make("bert", cls.path("bert.bin"))
        cls.sentence = fixture.make("sentence", cls.path("sentence.bin"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as f: f.write(data)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as f: return f.read()

    def works(self, *args, **options):
        p = run(*args, **options)
        self.assertEqual(p.returncode, 0, p.stderr.decode(errors="replace"))
        return p.stdout.decode(errors="replace")

    def fails(self, status, pattern, *args, **options):
        p = run(*args, **options)
        error = p.stderr.decode(errors="replace")
        self.assertEqual(p.returncode, status, error)
        self.assertRegex(error, r"\Arun: [^\n]*\n\Z")
        self.assertRegex(error, pattern)

    def survives(self, *args):
        """Bad bytes may happen to be good; what is refused is refused in one line."""
        p = run(*args)
        self.assertIn(p.returncode, (0, 1), (args, p.stderr))
        if p.returncode: self.assertRegex(p.stderr.decode(errors="replace"), r"\Arun: [^\n]*\n\Z")
        return p.returncode


class Usage(Case):
    def test_help_fits_a_screen(self):
        lines = self.works("--help").splitlines()
        self.assertLessEqual(len(lines), 30)
        self.assertLessEqual(max(map(len, lines)), 110)
        with open(os.path.join(fixture.ROOT, "README.md"), encoding="utf-8") as f: self.assertIn("\n".join(lines), f.read())

    def test_version(self):
        self.assertRegex(self.works("--version"), r"^locus \d+\.\d+\.\d+, checkpoint format \d+, kernels: \w+\n$")

    def test_switches(self):
        m = self.llama
        for pattern, args in ((r"no model", []), (r"unknown switch --nope", [m, "--nope"]), (r"unknown switch -x", [m, "-x"]), (r"-n needs a value", [m, "-n"]), (r"-p needs a value", [m, "-p"]),
                              (r"-n: 'many' is not a number", [m, "-n", "many"]), (r"-n: '3x' is not a number", [m, "-n", "3x"]), (r"-n: '' is not a number", [m, "-n", ""]),
                              (r"-n: '-1'", [m, "-n", "-1"]), (r"-n: '99999999999999999999' is out of range", [m, "-n", "99999999999999999999"]),
                              (r"-t: 'nan' is out of range", [m, "-t", "nan"]), (r"-t: 'inf' is out of range", [m, "-t", "inf"]), (r"-t: '-1' is out of range: 0 to 100", [m, "-t", "-1"]),
                              (r"--top-p: '1.5' is out of range: 0 to 1", [m, "--top-p", "1.5"]), (r"--min-p", [m, "--min-p", "2"]), (r"--repeat-penalty", [m, "--repeat-penalty", "0"]),
                              (r"--top-k", [m, "--top-k", "-3"]), (r"-s", [m, "-s", "x"]), (r"-c: '0' is out of range", [m, "-c", "0"]), (r"-j: '0' is out of range", [m, "-j", "0"]),
                              (r"--ids: 'x' is not a number", [m, "--ids", "1 x"]), (r"--ids: no ids", [m, "--ids", " "]), (r"--ids: '-1' is out of range", [m, "--ids", "-1"]),
                              (r"--rope-scaling: 'dynamic', expected one of linear, ntk, yarn", [m, "--rope-scaling", "dynamic"]), (r"--rope-factor: '0.5' is out of range: 1 to 1000", [m, "--rope-factor", "0.5"]),
                              (r"--rope-factor needs --rope-scaling", [m, "--rope-factor", "2"]), (r"--rope-scaling needs --rope-factor", [m, "--rope-scaling", "ntk"]),
                              (r"--attention: the file's name is empty", [m, "--attention", ""]), (r"-t does not go with --attention", [m, "--attention", "x", "-t", "1"]),
                              (r"one model", [m, m, "-p", "x"]), (r"an empty argument", ["", "-p", "x"]), (r"-f: the file's name is empty", [m, "-f", ""]), (r"--ppl: the file's name is empty", [m, "--ppl", ""]), (r"exclude each other", [m, "-p", "x", "--ids", "1"]), (r"exclude each other", [m, "-p", "x", "-f", "y"]),
                              (r"--chat and --info exclude", [m, "--chat", "--info"]), (r"-t does not go with --embed", [m, "--embed", "-t", "1"]), (r"--system does not go", [m, "--system", "x"]),
                              (r"-c does not go with --info", [m, "--info", "-c", "5"]), (r"--positions does not go with --similar", [m, "--similar", "x", "--positions", "none"]),
                              (r"-j does not go with --tokenize", [m, "--tokenize", "-j", "2"]), (r"--exact-cache does not go with --analogy", [m, "--analogy", "x", "--exact-cache"]),
                              (r"-n is given twice", [m, "-n", "1", "-n", "2"]), (r"--chat is given twice", [m, "--chat", "--chat"]), (r"--stop: the text is empty", [m, "-p", "x", "--stop", ""]),
                              (r"--stop does not go with --print-ids", [m, "-p", "x", "--stop", "y", "--print-ids"]), (r"--analogy: expected words", [m, "--analogy", "a b"]),
                              (r"--analogy: expected words", [m, "--analogy", "a +"]), (r"--analogy: expected words", [m, "--analogy", ""])):
            with self.subTest(args=args[1:]): self.fails(2, pattern, *args)


class Generating(Case):
    def ids(self, *args):
        return [int(t) for t in self.works(self.llama, *args, "--print-ids").split()]

    def test_greedy_is_the_same_for_any_threads(self):
        one = self.ids("--ids", "5 6 7", "-n", 20, "-t", 0, "-j", 1)
        self.assertEqual(len(one), 20)
        self.assertEqual(one, self.ids("--ids", "5 6 7", "-n", 20, "-t", 0, "-j", 2))

    def test_a_seed_repeats_a_run(self):
        a = run(self.llama, "-p", "hello", "-n", 12)
        seed = re.search(rb"seed: -s (\d+)", a.stderr).group(1).decode()
        self.assertEqual(run(self.llama, "-p", "hello", "-n", 12, "-s", seed).stdout, a.stdout)
        self.assertNotIn(b"seed", run(self.llama, "-p", "hello", "-n", 2, "-s", 1).stderr)

    def test_text_comes_from_three_places(self):
        f = self.write("prompt", b"hello world\n")
        a = self.works(self.llama, "-p", "hello world", "-n", 5, "-t", 0)
        self.assertEqual(a, self.works(self.llama, "-f", f, "-n", 5, "-t", 0))
        for end in (b"\n", b"\r\n"): self.assertEqual(a, self.works(self.llama, "-n", 5, "-t", 0, stdin=b"hello world" + end))

    def test_figures(self):
        error = run(self.llama, "-p", "hello", "-n", 3, "-t", 0).stderr.decode()
        self.assertRegex(error, r"^prompt: 1 token, [\d.]+ tokens/s; generated: \d+ tokens, [\d.]+ tokens/s; first token after \d+ ms\n$")

    def test_full_context_is_said(self):
        p = run(self.llama, "--ids", "5 6 7", "-t", 0, "-c", 10, "--print-ids")
        self.assertEqual(p.returncode, 0)
        ids = [int(t) for t in p.stdout.split()]
        if ids[-1] != 2:
            self.assertEqual(len(ids), 8)  # the last one needs no room
            self.assertIn(b"the context of 10 tokens is full", p.stderr)

    def test_stop_text(self):
        whole = self.works(self.llama, "-p", "hello", "-n", 20, "-t", 0).rstrip("\n")
        stop = whole[4:7]
        self.assertEqual(self.works(self.llama, "-p", "hello", "-n", 20, "-t", 0, "--stop", stop).rstrip("\n"), whole[:whole.index(stop)])
        self.assertEqual(self.works(self.llama, "-p", "hello", "-n", 20, "-t", 0, "--stop", whole[-2:] + "never").rstrip("\n"), whole)

    def test_nothing_to_generate(self):
        self.assertEqual(self.ids("--ids", "5", "-n", 0), [])

    def test_bad_prompts(self):
        m = self.llama
        self.works(m, "-p", "", "-n", 2)  # starts from the beginning-of-text token
        self.fails(1, r"vocabulary", m, "--ids", "5 400", "-n", 1)
        self.fails(1, r"64", m, "-p", "x " * 100, "-n", 1)
        self.fails(1, r"No such file", m, "-f", self.path("missing"))
        self.fails(1, r"[Dd]irectory", m, "-f", self.folder.name)
        for data in (b"\xff\xfe\xc3(", b"a\0b\0", b"\xf0\x9f", b"\xed\xa0\x80"):
            self.works(m, "-f", self.write("odd", data), "-n", 2)
            self.works(m, "--tokenize", "-f", self.path("odd"))

    def test_an_encoder_does_not_generate(self):
        self.fails(1, r"does not generate", self.bert, "-p", "the cat")

    def test_decoder_ids_need_a_decoder(self):
        self.fails(1, r"encoder-decoder", self.llama, "--ids", "1", "--decoder-ids", "1")

    def test_interrupt(self):
        big = fixture.make("llama", self.path("long.bin"), max_position_embeddings=8192)
        for args in (["-p", "hello", "-s", "1"], ["--chat"]):
            p = subprocess.Popen([RUN, big, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(0.3)
            if p.poll() is None:
                p.send_signal(signal.SIGINT)
                _, error = p.communicate(timeout=20)
                self.assertEqual(p.returncode, 130, error)
                self.assertIn(b"generated:", error)
            else: p.communicate()

    def test_interrupt_before_there_is_anything_to_finish(self):
        """While a text comes in, and while a long one is read."""
        big = fixture.make("llama", self.path("very-long.bin"), max_position_embeddings=1 << 17)
        for args, text in (([], b""), (["--tokenize"], b"half a li"), (["-c", "100000", "-p", "a" * 100000, "-n", "1"], b"")):
            with self.subTest(args=args[:1]):
                p = subprocess.Popen([RUN, big, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                p.stdin.write(text)
                p.stdin.flush()
                time.sleep(0.3)
                p.send_signal(signal.SIGINT)
                self.assertEqual(p.wait(timeout=2), 130)
                self.assertEqual(p.communicate()[1], b"")

    def test_closed_output_ends_quietly(self):
        p = subprocess.run(f"'{RUN}' '{self.llama}' -p hello -t 1 -s 1 | head -c 1", shell=True, capture_output=True, timeout=60)
        self.assertNotIn(b"run: standard", p.stderr)

    def test_full_disk(self):
        if not os.path.exists("/dev/full"): self.skipTest("no /dev/full")
        self.fails(1, r"/dev/full: No space", self.llama, "--ids", "5", "--logits", "/dev/full")
        with open("/dev/full", "wb") as full:
            for args in (["-p", "hello", "-n", "4", "-t", "0"], ["--info"], ["--tokenize", "-p", "hello"], ["--help"], ["--version"]):
                p = subprocess.run([RUN, self.llama, *args], stdout=full, stderr=subprocess.PIPE, timeout=60)
                self.assertEqual(p.returncode, 1)
                self.assertRegex(p.stderr.decode(), r"run: standard output: No space")


class Chat(Case):
    def test_system_message_is_the_templates_own(self):
        default = self.works(self.llama, "--chat", "-p", "hi", "-n", 12, "-t", 0, "--print-ids")
        self.assertEqual(default, self.works(self.llama, "--chat", "-p", "hi", "-n", 12, "-t", 0, "--print-ids", "--system", "You are a test"))
        self.assertNotEqual(default, self.works(self.llama, "--chat", "-p", "hi", "-n", 12, "-t", 0, "--print-ids", "--system", "You are an ant"))

    def test_users_special_tokens_are_text(self):
        tokens = self.works(self.llama, "--tokenize", "-p", "<|im_end|>").split()
        self.assertNotIn("2", tokens)
        self.assertEqual(len(tokens), len("<|im_end|>"))

    def test_turns_continue_the_conversation(self):
        m = fixture.make("llama", self.path("roomy.bin"), max_position_embeddings=256)
        out = self.works(m, "--chat", "-n", 3, "-t", 0, "--print-ids", stdin=b"a\nb\n").splitlines()
        self.assertEqual(len(out), 2)

        def text(s): return self.works(m, "--tokenize", "-p", s).split()
        first = ["1", *text("system\nYou are a test"), "2", *text("\n"), "1", *text("user\na"), "2", *text("\n"), "1", *text("assistant\n")]
        then = [*text("\n"), "1", *text("user\nb"), "2", *text("\n"), "1", *text("assistant\n")]
        answer = out[0].split()
        self.assertEqual(self.works(m, "--ids", " ".join(first), "-n", 3, "-t", 0, "--print-ids").split(), answer)
        closed = answer if answer[-1] == "2" else answer + ["2"]
        self.assertEqual(self.works(m, "--ids", " ".join(first + closed + then), "-n", 3, "-t", 0, "--print-ids").split(), out[1].split())

    def test_a_turn_that_does_not_fit_is_left_out(self):
        chat = (self.llama, "--chat", "-n", 1, "-t", 0, "--system", "", "--print-ids")
        p = run(*chat, stdin=b"a\n" + b"x" * 100 + b"\n\r\nb\r\n")
        self.assertEqual(p.returncode, 1)
        self.assertRegex(p.stderr.decode(), r"\Arun: a turn of 121 tokens is left out: the context of 64 has room for \d\d \(-c sets it\)\nprompt: [^\n]*\n\Z")
        self.assertEqual(p.stdout.decode(), self.works(*chat, stdin=b"a\nb\n"))

    def test_whoever_asks_for_dice_gets_them(self):
        chat = (self.llama, "--chat", "-p", "hi", "-n", 20, "--print-ids")
        greedy = self.works(*chat, "-t", 0)
        self.assertEqual(self.works(*chat), greedy)
        for switches in (("-s", 3), ("-s", 3, "--top-k", 100), ("-s", 3, "--top-p", 0.9), ("-s", 3, "--min-p", 0.01)):
            with self.subTest(switches=switches):
                self.assertEqual(self.works(*chat, *switches), self.works(*chat, *switches, "-t", 0.8))
                self.assertNotEqual(self.works(*chat, *switches), greedy)

    def test_input_that_cannot_be_read(self):
        folder = os.open(self.folder.name, os.O_RDONLY)
        try: p = subprocess.run([RUN, self.llama, "--chat"], stdin=folder, capture_output=True, timeout=60)
        finally: os.close(folder)
        self.assertEqual((p.returncode, p.stderr), (1, b"run: standard input: Is a directory\n"))

    def test_no_template(self):
        self.fails(1, r"no chat template", self.bert, "--chat", "-p", "hi")


class Overwriting(Case):
    def test_what_is_read_is_not_written(self):
        text = self.write("text", b"hello world")
        os.symlink(self.llama, self.path("link.bin"))
        for mode in ("--logits", "--moments", "--attention"):
            before = self.read("llama.bin")
            for model, name in ((self.llama, self.llama), (self.llama, self.path("link.bin")), (self.path("link.bin"), self.llama), (self.llama, text)):
                self.fails(2, f"{mode}: .* would be lost: it is read as well", model, mode, name, "-f", text)
            self.assertEqual((self.read("llama.bin"), self.read("text")), (before, b"hello world"))


class Changes(Case):
    def start(self):
        path = fixture.make("llama", self.path("model.bin"), max_position_embeddings=256)
        p = subprocess.Popen([RUN, path, "--chat", "-n", "2", "-t", "0", "--print-ids"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        p.stdin.write(b"a\n")
        p.stdin.flush()
        return p, p.stdout.readline()

    def test_replaced(self):
        p, first = self.start()
        os.replace(self.write("new.bin", b"something else"), self.path("model.bin"))
        self.assertEqual(len(first.split()), 2)
        self.assertEqual(len(p.communicate(b"b\n", timeout=20)[0].split()), 2)
        self.assertEqual(p.returncode, 0)

    def test_cut(self):
        for _ in range(10):  # two threads may find out at once
            p, _ = self.start()
            os.truncate(self.path("model.bin"), 100)
            _, error = p.communicate(b"b\n", timeout=20)
            self.assertEqual((p.returncode, error), (1, b"run: the checkpoint was cut or became unreadable while it was in use\n"))


class Scores(Case):
    def test_logits(self):
        out = self.path("scores")
        self.works(self.llama, "--ids", "5 6 7", "--logits", out)
        rows = self.read("scores")
        self.assertEqual(len(rows), 3 * 268 * 4)
        last = struct.unpack("<268f", rows[-268 * 4:])
        best = last.index(max(last))
        self.assertEqual(self.works(self.llama, "--ids", "5 6 7", "-n", 1, "-t", 0, "--print-ids"), f"{best}\n")
        self.works(self.sentence, "--ids", "2 5 3", "--logits", out)
        self.assertEqual(os.path.getsize(out), 3 * 32 * 4)
        self.fails(1, r"missing/x: No such file", self.llama, "--ids", "5", "--logits", "missing/x")

    def test_perplexity_is_the_mean_loss_of_the_windows(self):
        text = self.write("text", b"hello world, abc def hello hello ghi")
        ids = [int(t) for t in self.works(self.llama, "--tokenize", "-f", text).split()][:14]
        total, count = 0, 0
        for begin in range(0, len(ids), 6):
            part = ids[begin:begin + 6]
            self.works(self.llama, "--ids", " ".join(map(str, part)), "--logits", self.path("scores"))
            raw = self.read("scores")
            for i, following in enumerate(part[1:]):
                row = struct.unpack_from("<268f", raw, i * 268 * 4)
                total += math.log(sum(math.exp(s) for s in row)) - row[following]
                count += 1
        line = self.works(self.llama, "--ppl", text, "-c", 6, "-n", 14).splitlines()[-1].split()
        self.assertEqual(line[::2], ["nll", "ppl", "tokens"])
        self.assertAlmostEqual(float(line[1]), total / count, 4)
        self.assertAlmostEqual(float(line[3]), math.exp(total / count), delta=0.01 * float(line[3]))
        self.assertEqual(int(line[5]), count)

    def test_divergence_is_the_mean_over_the_windows(self):
        reference = fixture.make("llama", self.path("reference.bin"), "--type", "f32")
        model = fixture.make("llama", self.path("model.bin"), "--type", "q4")
        text = self.write("text", b"hello world, abc def hello hello ghi")
        ids = [int(t) for t in self.works(model, "--tokenize", "-f", text).split()][:14]

        def log_softmax(row):
            total = math.log(sum(math.exp(s) for s in row))
            return [s - total for s in row]
        divergence, same, losses, count = 0, 0, [0, 0], 0
        for begin in range(0, len(ids), 6):
            part = ids[begin:begin + 6]
            raw = []
            for m in (model, reference):
                self.works(m, "--ids", " ".join(map(str, part)), "--logits", self.path("scores"))
                raw.append(self.read("scores"))
            for i, following in enumerate(part[1:]):
                q, p = (log_softmax(struct.unpack_from("<268f", r, i * 268 * 4)) for r in raw)
                divergence += sum(math.exp(a) * (a - b) for a, b in zip(p, q))
                same += q.index(max(q)) == p.index(max(p))
                losses = [losses[0] - q[following], losses[1] - p[following]]
                count += 1
        self.assertGreater(divergence / count, 1e-5)
        line = self.works(model, "--divergence", reference, "-f", text, "-c", 6, "-n", 14).splitlines()[-1].split()
        self.assertEqual(line[::2], ["divergence", "same_top", "ppl", "reference_ppl", "tokens"])
        got = [float(x) for x in line[1::2]]
        self.assertAlmostEqual(got[0], divergence / count, delta=1e-6 + 1e-3 * divergence / count)
        self.assertAlmostEqual(got[1], same / count, 5)
        for i in (0, 1): self.assertAlmostEqual(got[2 + i], math.exp(losses[i] / count), delta=1e-5 * got[2 + i])
        self.assertEqual(got[4], count)
        line = self.works(model, "--divergence", model, "-p", "hello world").split()
        self.assertEqual(line[:4], ["divergence", "0.000000", "same_top", "1.000000"])

    def test_divergence_needs_one_vocabulary(self):
        self.fails(1, r"other.bin: another vocabulary than that of .*llama.bin", self.llama, "--divergence", self.other_vocabulary(), "-p", "hello world")
        self.fails(1, r"bert.bin: --divergence is for models that read left to right", self.llama, "--divergence", self.bert, "-p", "hello world")
        self.fails(1, r"missing", self.llama, "--divergence", self.path("missing"), "-p", "hello world")
        self.fails(1, r"nothing to score", self.llama, "--divergence", self.llama, "-p", "")
        self.fails(2, r"--divergence needs a value", self.llama, "--divergence")

    def other_vocabulary(self):
        """The same model, but that one token has another text."""
        c = Checkpoint(self.read("llama.bin"))
        begin = c.get("Header", "tokenizer_offset")
        at = c.data.index(b"hello", begin, begin + c.get("Header", "tokenizer_bytes"))
        c.data[at:at + 5] = b"jello"
        return c.save(self.path("other.bin"))

    def test_progress_is_not_a_line_a_window(self):
        text = self.write("long", b"hello world " * 200)
        lines = run(self.llama, "--ppl", text, "-c", 4).stderr.count(b"\n")
        self.assertLess(lines, 20)

    def moments(self, raw):
        """{tensor: (columns, columns a group, means)}"""
        self.assertEqual(raw[:8], b"LOCUSMOM")
        found, at = {}, 8
        while at < len(raw):
            name, cols, width = struct.unpack_from("<64sII", raw, at)
            n = -(-cols // width) * width * width
            found[name.rstrip(b"\0").decode()] = cols, width, struct.unpack_from(f"<{n}f", raw, at + 72)
            at += 72 + 4 * n
        return found

    def test_moments(self):
        text = self.write("text", b"hello world, abc def hello hello ghi" * 20)
        self.works(self.llama, "--moments", self.path("moments"), "-f", text, "-n", 100, "-c", 30)
        found = self.moments(self.read("moments"))
        layer = ["attn.out.weight", "attn.qkv.weight", "ffn.down.weight", "ffn.up.weight"]
        self.assertEqual(sorted(found), ["embed.tokens"] + [f"layers.{i}.{n}" for i in range(2) for n in layer])
        for name, (cols, width, means) in found.items():
            self.assertEqual((cols, width), (48, 64) if "down" in name else (32, 32))
            for i in range(cols):
                for j in range(i):  # Cauchy and Schwarz
                    self.assertLessEqual(means[i * width + j] ** 2, means[i * width + i] * means[j * width + j] * 1.001)
            if "down" not in name and "out" not in name:  # after a norm whose weights are near 1
                self.assertAlmostEqual(sum(means[i * width + i] for i in range(cols)), 32, delta=8)
        self.works(self.sentence, "--moments", self.path("moments"), "-p", "the cat sat on the mat.")
        self.assertEqual(len(self.moments(self.read("moments"))), 8)
        self.fails(1, r"no tokens", self.llama, "--moments", self.path("moments"), "-p", "")
        self.fails(1, r"missing/x: No such file", self.llama, "--moments", "missing/x", "-p", "a")
        self.fails(2, r"-n 0 leaves nothing to measure", self.llama, "--moments", self.path("nothing"), "-p", "a", "-n", 0)
        # one token: the first matrix reads the same as with any other text that begins with it
        self.works(self.llama, "--moments", self.path("one"), "-p", "a", "-c", 1)
        self.works(self.llama, "--moments", self.path("two"), "-p", "aa", "-c", 1)
        one, two = (self.moments(self.read(name)) for name in ("one", "two"))
        for name in one:
            for a, b in zip(one[name][2], two[name][2]): self.assertAlmostEqual(a, b, delta=1e-5 + 1e-4 * abs(a))

    def test_four_bits_with_moments_are_nearer(self):
        reference = fixture.make("llama", self.path("reference.bin"), "--type", "f32")
        text = self.write("text", b"hello world, abc def hello hello ghi, some say hello, others world; abacus, zebra 0 1 2 3" * 6)
        self.works(reference, "--moments", self.path("moments"), "-f", text)
        fixture.make("llama", self.path("with.bin"), "--type", "q4", "--moments", self.path("moments"))
        fixture.make("llama", self.path("without.bin"), "--type", "q4")
        self.assertLess(os.path.getsize(self.path("with.bin")), os.path.getsize(self.path("without.bin")))  # head and embedding, too
        found = [float(self.works(self.path(name), "--divergence", reference, "-f", text, "-c", 64).split()[1]) for name in ("with.bin", "without.bin")]
        self.assertLess(*found)
        fixture.make("llama", self.path("kept.bin"), "--type", "q4", "--moments", self.path("moments"), "--q8", "embed")
        self.assertEqual(os.path.getsize(self.path("kept.bin")), os.path.getsize(self.path("without.bin")))
        self.fails(1, r"with.bin: every matrix has four bits already", self.path("with.bin"), "--moments", self.path("nothing"), "-f", text)
        self.assertFalse(os.path.exists(self.path("nothing")))
        kept = float(self.works(self.path("kept.bin"), "--divergence", reference, "-f", text, "-c", 64).split()[1])
        self.assertLess(kept, found[0])
        raw = self.read("moments")
        for data, complaint in ((raw[:-4], "damaged or cut"), (raw[:100], "damaged or cut"), (b"LOCUS" + raw[5:8].lower() + raw[8:], "was not written by run --moments"),
                                (raw[:80] + struct.pack("<f", math.nan) * 1024 + raw[80 + 4096:], "not those of finite activations"),
                                (raw.replace(struct.pack("<II", 32, 32), struct.pack("<II", 31, 32)), "embed.tokens has 31 columns, expected 32")):
            with self.assertRaisesRegex(RuntimeError, complaint):
                fixture.make("llama", self.path("with.bin"), "--type", "q4", "--moments", self.write("bad", data))

    def test_perplexity_needs_something_to_score(self):
        self.fails(1, r"nothing to score", self.llama, "--ppl", self.write("empty", b""))
        self.fails(1, r"nothing to score", self.llama, "--ppl", self.write("some", b"hello world"), "-c", 1)
        self.fails(1, r"left to right", self.bert, "--ppl", self.path("empty"))


class Attention(Case):
    def table(self, *args):
        self.works(*args, "--attention", self.path("map.tsv"))
        lines = self.read("map.tsv").decode().splitlines()
        self.assertEqual(lines[0], "layer\thead\tquery\tkey\tweight\tquery token\tkey token")
        return [line.split("\t") for line in lines[1:]]

    def check(self, rows, n, seen):
        sums = {}
        for layer, head, query, key, weight, *_ in rows:
            self.assertTrue(int(key) <= int(query) or seen == n * n)
            sums[layer, head, query] = sums.get((layer, head, query), 0) + float(weight)
        self.assertEqual((len(sums), len(rows)), (2 * 4 * n, 2 * 4 * seen))
        for total in sums.values(): self.assertAlmostEqual(total, 1, 5)

    def test_a_row_a_pair_that_is_seen(self):
        rows = self.table(self.llama, "-p", "hello\n world")
        self.check(rows, 3, 6)
        self.assertEqual(rows[5][5:], [" world", " world"])
        self.assertEqual(rows[4][5:], [" world", "\\n"])
        self.assertEqual({row[5] for row in self.table(self.llama, "-p", "\x1b[2J")}, set("?[2J"))  # a terminal would obey the first
        self.check(self.table(self.bert, "-p", "the cat sat"), 5, 25)
        self.assertEqual(self.table(self.bert, "--ids", "2 5 6 8 3"), self.table(self.bert, "-p", "the cat sat"))

    def test_drawing(self):
        import xml.etree.ElementTree as xml
        self.works(self.llama, "-p", "hello world", "--attention", self.path("map.svg"))
        drawing = xml.parse(self.path("map.svg")).getroot()
        texts = [e.text for e in drawing.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(texts[1:], ["head 0", "head 1", "head 2", "head 3", "layer 0", "layer 1"])

    def test_what_cannot_be_written(self):
        self.fails(1, r"missing/x: No such file", self.llama, "-p", "x", "--attention", "missing/x")
        self.fails(1, r"24", self.bert, "--ids", "5 " * 30, "--attention", self.path("map.tsv"))
        if os.path.exists("/dev/full"): self.fails(1, r"/dev/full: No space", self.llama, "-p", "x", "--attention", "/dev/full")


class LongerTexts(Case):
    def logits(self, *args):
        self.works(*args, "--logits", self.path("scores"))
        return self.read("scores")

    def test_scaled_rotation(self):
        ids = ("--ids", "5 6 7 8 9")
        plain = self.logits(self.llama, *ids)
        for kind in ("linear", "ntk", "yarn"):
            self.assertNotEqual(plain, self.logits(self.llama, *ids, "--rope-scaling", kind, "--rope-factor", 4))
            self.assertEqual(plain, self.logits(self.llama, *ids, "--rope-scaling", kind, "--rope-factor", 1))
        self.assertEqual(self.logits(self.llama, *ids, "--rope-scaling", "linear", "--rope-factor", 4),
                         self.logits(fixture.make("llama", self.path("scaled.bin"), rope_scaling={"rope_type": "linear", "factor": 4.0}), *ids))
        self.fails(1, r"does not have", self.bert, *ids, "--rope-scaling", "ntk", "--rope-factor", 2, "--logits", self.path("scores"))
        self.fails(1, r"scaled already", self.path("scaled.bin"), *ids, "--rope-scaling", "ntk", "--rope-factor", 2, "--logits", self.path("scores"))

    def test_extended_table(self):
        ids = ("--ids", "5 " * 30)
        self.fails(1, r"30 tokens .* 24", self.bert, *ids, "--logits", self.path("scores"))
        self.assertEqual(len(self.logits(self.bert, *ids, "--extend")) % 30, 0)
        self.assertEqual(self.logits(self.bert, "--ids", "5 6", "--extend"), self.logits(self.bert, "--ids", "5 6"))
        self.fails(1, r"no table of learned positions", self.llama, *ids, "--extend")


class Vectors(Case):
    def test_a_line_a_sentence(self):
        f = self.write("lines", b"the cat sat on the mat.\n\nthe king\n")
        lines = self.works(self.sentence, "--embed", "-f", f).splitlines()
        self.assertEqual(len(lines), 3)
        for line in lines:
            v = [float(x) for x in line.split()]
            self.assertEqual(len(v), 32)
            self.assertAlmostEqual(sum(x * x for x in v), 1, 5)

    def test_many_lines_keep_their_order_whatever_the_threads(self):
        texts = ["the cat sat", "the king", "a queen sat on the mat"]
        alone = [self.works(self.sentence, "--embed", "-p", t) for t in texts]
        f = self.write("many", "\n".join(texts * 500).encode())
        for j in (1, 2): self.assertEqual(self.works(self.sentence, "--embed", "-f", f, "-j", j), "".join(alone * 500))
        f = self.write("gap", "\n".join(texts).encode() + b"\n\n")
        self.assertEqual(len(self.works(self.sentence, "--embed", "-f", f).splitlines()), 4)

    def test_mean_of_the_hidden_states(self):
        ids = [int(t) for t in "2 5 6 3".split()]  # [CLS] the cat [SEP]
        self.works(self.sentence, "--ids", " ".join(map(str, ids)), "--logits", self.path("hidden"))
        h = struct.unpack("<128f", self.read("hidden"))
        mean = [sum(h[r * 32 + i] for r in range(4)) / 4 for i in range(32)]
        norm = sum(x * x for x in mean) ** 0.5
        got = [float(x) for x in self.works(self.sentence, "--embed", "-p", "the cat").split()]
        for a, b in zip(got, mean): self.assertAlmostEqual(a, b / norm, 5)

    def test_long_sentences_are_cut_and_closed(self):
        cut = self.works(self.sentence, "--embed", "-p", "the cat sat on a mat king queen man woman")
        self.assertEqual(cut, self.works(self.sentence, "--embed", "-p", "the cat sat on a mat"))  # 6 words, [CLS] and [SEP]: 8 tokens

    def test_not_a_sentence_encoder(self):
        self.fails(1, r"how to pool", self.llama, "--embed", "-p", "x")

    def test_fill(self):
        rows = [l.split() for l in self.works(self.bert, "--fill", "the [MASK] sat on the mat.").splitlines()]
        self.assertEqual(len(rows), 5)
        chances = [float(r[0]) for r in rows]
        self.assertEqual(chances, sorted(chances, reverse=True))
        self.assertLessEqual(sum(chances), 1.001)
        self.fails(2, r"no \[MASK\]", self.bert, "--fill", "the cat")
        self.fails(1, r"masked models", self.llama, "--fill", "a [MASK]")

    def test_neighbours(self):
        rows = self.works(self.bert, "--similar", "king").splitlines()
        self.assertEqual(len(rows), 10)
        self.assertNotIn("king", [r.split()[1] for r in rows])
        words = [r.split()[1] for r in self.works(self.bert, "--analogy", "king - man + woman").splitlines()]
        self.assertFalse({"king", "man", "woman"} & set(words))
        self.fails(1, r"'kings' is not a single token", self.bert, "--similar", "kings")
        words = {r.split()[1] for word in ("king", "man", "cat", "sat", "mat") for r in self.works(self.bert, "--similar", word).splitlines()}
        self.assertIn("##s", words)  # the end of a word, as the vocabulary has it
        self.assertNotIn("s", words)
        self.fails(1, r"add up to nothing", self.bert, "--analogy", "king - king")


class Info(Case):
    def test_info(self):
        text = self.works(self.llama, "--info")
        for part in (r"2 layers", r"width\s+32", r"positions\s+rotary", r"base 10000", r"4 heads, 2 of keys", r"48 wide, gated silu", r"rms, eps 1e-05", r"0 to 1", r"chat template\s+yes", r"all "):
            self.assertRegex(text, part)
        self.assertRegex(self.works(self.bert, "--info"), r"positions\s+learned, 24 rows[\s\S]*head +tied to the embedding, after a dense layer, gelu and a norm")

    def test_a_token_stays_on_its_line(self):
        data = Checkpoint(self.read("llama.bin"))
        begin = data.get("Header", "tokenizer_offset")
        at = data.data.index(b"<|im_end|>", begin)
        data.data[at:at + 10] = b"<|im\nend|>"
        self.assertRegex(self.works(data.save(self.path("odd.bin")), "--info"), r"\n  end             2 <\|im\?end\|>\n")


class Bench(Case):
    def test_a_context_shorter_than_its_prompts(self):
        for model in (self.llama, self.bert):
            found = json.loads(self.works(model, "--bench", "-c", 3).splitlines()[-1])
            self.assertGreater(found["first_token_ms"], 0)


class BadFiles(Case):
    ARGS = ("--ids", "5 6", "-n", "1", "-t", "0", "--print-ids")

    def test_not_a_checkpoint(self):
        for pattern, path in ((r"No such file", self.path("missing.bin")), (r"not a regular file", self.folder.name), (r"empty|short|truncated|bytes", self.write("empty.bin", b"")),
                              (r"not a (Locus )?checkpoint", self.write("text.bin", b"Once upon a time there was a file that was no checkpoint.\n" * 40)),
                              (r"GGUF.*convert", self.write("gguf.bin", b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + bytes(2000)))):
            with self.subTest(path=path): self.fails(1, pattern, path, *self.ARGS)

    def test_a_tokenizer_without_a_model(self):
        for name in ("llama.bin", "bert.bin"):
            path = Checkpoint(self.read(name)).set("Header", "n_tensors", 0).save(self.path("words-only.bin"))
            self.works(path, "--tokenize", "-p", "the cat")
            self.assertNotIn("layers", self.works(path, "--info"))
            for args in (["-p", "a"], ["--embed", "-p", "a"], ["--fill", "a"], ["--similar", "the"], ["--ppl", self.write("text", b"the cat sat")], ["--bench"],
                         ["--attention", self.path("map"), "-p", "a"], ["--logits", self.path("scores"), "-p", "a"], ["--moments", self.path("moments"), "-p", "a"]):
                with self.subTest(name=name, args=args): self.fails(1, r"words-only.bin: the checkpoint holds a tokenizer only, no model", path, *args)

    def test_newer_format(self):
        data = Checkpoint(self.read("llama.bin"))
        self.fails(1, r"version|format|newer", data.set("Header", "version", 99).save(self.path("newer.bin")), *self.ARGS)

    def test_cut_anywhere(self):
        data = self.read("llama.bin")
        for i in range(200):
            cut = len(data) * i // 200
            with self.subTest(cut=cut): self.fails(1, r"\w", self.write("cut.bin", data[:cut]), *self.ARGS)

    def test_header_fields(self):
        original = self.read("llama.bin")
        for name, fmt, offset in STRUCTS["Header"]:
            if fmt.endswith("s"): continue
            size = struct.calcsize(fmt)
            for value in (bytes(size), b"\xff" * size, b"\xff" * (size - 1) + b"\x7f", b"\0" * (size - 4) + struct.pack("<f", float("nan")), struct.pack("<f", 1e30) + b"\0" * (size - 4)):
                data = bytearray(original)
                data[offset:offset + size] = value
                with self.subTest(field=name, value=value.hex()): self.survives(self.write("field.bin", data), *self.ARGS)

    def test_100_000_layers(self):
        data = Checkpoint(self.read("llama.bin"))
        self.fails(1, r"\w", data.set("Header", "n_layers", 100000).save(self.path("layers.bin")), *self.ARGS)

    def test_tensors(self):
        def changed(**fields):
            data = Checkpoint(self.read("llama.bin"))
            for name, value in fields.items(): data.set("TensorEntry", name, value, data.tensor(1))
            return data.save(self.path("tensor.bin"))
        original = Checkpoint(self.read("llama.bin"))
        first = original.get("TensorEntry", "offset", original.tensor(0))
        for fields in ({"offset": 1 << 40}, {"offset": (1 << 64) - 64}, {"offset": first}, {"offset": 3}, {"offset": 0}, {"rows": 0xFFFFFFFF, "cols": 0xFFFFFFFF, "count": 0xFFFFFFFF}, {"rows": 0},
                       {"bytes": (1 << 64) - 1}, {"bytes": 0}, {"type": 77}, {"layout": 9}, {"name": original.get("TensorEntry", "name", original.tensor(0))}, {"name": b"nobody"}, {"name": b"x" * 48}):
            with self.subTest(fields=fields): self.fails(1, r"\w", changed(**fields), *self.ARGS)

    def test_context_longer_than_a_learned_table(self):
        self.fails(1, r"24", self.bert, "--ids", "5", "-c", 1000, "--logits", self.path("scores"))
        self.fails(1, r"24", self.bert, "--ids", "5 " * 30, "--logits", self.path("scores"))

    def test_tokenizer_bytes(self):
        """Damage in the tokenizer's section never crashes."""
        import random
        original = Checkpoint(self.read("llama.bin"))
        begin, size = original.get("Header", "tokenizer_offset"), original.get("Header", "tokenizer_bytes")
        rng = random.Random(7)
        for i in range(150):
            data = bytearray(original.data)
            for _ in range(rng.choice((1, 1, 4, 16))): data[begin + rng.randrange(min(size, 400) if i % 2 else size)] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
            with self.subTest(i=i): self.survives(self.write("tokenizer.bin", data), "-p", "hello world <|im_end|>", "-n", "3", "-t", "0")


if __name__ == "__main__":
    unittest.main()
