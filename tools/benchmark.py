#!/usr/bin/env python3
"""Measures Locus beside its peers and the machine's limits, and writes docs/benchmarks.md. `make bench` builds what it needs first.

  python3 tools/benchmark.py              everything, in interleaved rounds: about an hour
  python3 tools/benchmark.py --quick      everything once, with tiny sizes: shows that it works, and no speeds
  python3 tools/benchmark.py --render     writes the page again, from the figures of the last run

A machine is shared and its speed changes by the minute, so ours, the peer and the roofline take turns, and ratios are of the bests.
What is missing (a peer, a model) is left out and named. Needs Python's standard library alone.
"""
import argparse, array, datetime, json, os, pydoc_data.topics, re, statistics, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUN, ROOFLINE = os.path.join(ROOT, "run"), os.path.join(ROOT, "build", "roofline")
BY_HAND = "## What was tried, and what limits it"  # from here on the page is kept as it is
TYPES = {"f32": ["F32"], "f16": ["F16"], "bf16": [], "q8": ["Q8_0"], "q4": ["Q4_0", "Q4_K_M"]}  # ours: the peer's
DEPTHS, PROMPTS = (0, 2048, 6000), (128, 512, 2048)
SHORT = 700  # a context that leaves long prompts and depths out of --bench
PROMPT = "Once upon a time"
START_CONTEXT = 512


# ---- measuring --------------------------------------------------------------------------------------------------------------

class Failed(Exception):
    pass


class Result:
    def __init__(self, command, env=None, cpus=None):
        """Runs a command. cpus: the only processors it may use."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            start = time.perf_counter()
            process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=dict(os.environ, **(env or {})),
                                       preexec_fn=cpus and (lambda: os.sched_setaffinity(0, cpus)))
            _, status, usage = os.wait4(process.pid, 0)
            self.seconds = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            self.peak_bytes = usage.ru_maxrss * 1024  # never below what this program holds itself: the child begins as its copy
            self.out, self.err = ((f.seek(0), f.read().decode(errors="replace"))[1] for f in (out, err))
        if process.returncode: raise Failed(f"{' '.join(map(str, command))}: exit status {process.returncode}\n{self.err[-2000:]}")


class Bench:
    def __init__(self, options):
        self.o = options
        self.work = options.work
        self.figures = os.path.join(self.work, "figures.json")
        self.samples, self.facts = {}, {}
        os.makedirs(self.work, exist_ok=True)

    def add(self, key, value):
        self.samples.setdefault(key, []).append(value)
        print(f"  {key:<36} {value:.6g}", flush=True)

    def model(self, name):
        return os.path.join(self.work, name + ".bin")

    def peer(self, *path):
        """A file of the peers' folder, or None."""
        full = os.path.join(self.o.peers, *path)
        return full if os.path.exists(full) else None

    def convert(self, source, name, *options):
        return Result([sys.executable, os.path.join(ROOT, "tools", "convert.py"), source, self.model(name), *options])

    def prepare(self):
        """Checkpoints of every type, and texts: sentences, and more for the tokenizer. The text is the Python manual that pydoc brings."""
        self.decoder, self.encoder = self.o.decoder or self.peer("smollm2.gguf"), self.o.encoder or self.peer("minilm")
        self.stories = None
        if self.o.stories and os.path.exists(os.path.join(self.o.stories, "stories260K.bin")):
            self.stories = self.model("stories")
            self.convert(os.path.join(self.o.stories, "stories260K.bin"), "stories", "--tokenizer", os.path.join(self.o.stories, "tok512.bin"))
        if not self.decoder: sys.exit("benchmark.py: no checkpoint to measure: run tools/peers.sh build/peers, or give --decoder")
        for kind in TYPES: self.convert(self.decoder, kind, "--type", kind)
        for kind in ("f32", "q8") if self.encoder else (): self.convert(self.encoder, "encoder-" + kind, "--type", kind)

        topics = pydoc_data.topics.topics
        text = "\n\n".join(topics[name] for name in sorted(topics))
        prose = [re.sub(r"\s+", " ", p) for p in text.split("\n\n") if "\n" in p and not re.match(r"[ *+]", p) and not re.search(r"::=|==|--", p)]
        sentences = [s for p in prose for s in re.split(r"(?<=\.) (?=[A-Z])", p) if 70 <= len(s) <= 165 and s.endswith(".")]
        self.sentences, self.text = (os.path.join(self.work, name) for name in ("sentences.txt", "text.txt"))
        with open(self.sentences, "w", encoding="utf-8") as f: f.write("\n".join(sentences[:8 if self.o.quick else 512]) + "\n")
        with open(self.text, "w", encoding="utf-8") as f: f.writelines([text[:100000]] if self.o.quick else [text] * 22)

    def describe(self, load):
        info = Result([RUN, self.model("f32"), "--info"]).out
        number = lambda pattern: int(re.search(pattern, info).group(1))
        table = number(r"vocabulary\s+(\d+)") * number(r"width\s+(\d+)")
        tables = 1 if "tied to the embedding" in info else 2
        self.facts = {"machine": machine(), "date": datetime.date.today().isoformat(), "load": load, "threads": self.o.threads, "rounds": self.o.rounds, "quick": self.o.quick,
                      "python": sys.version.split()[0], "locus": Result([RUN, "--version"]).out.strip(), "model": os.path.basename(self.decoder),
                      "matrix_weights": number(r"  all +\d+ +(\d+)") - tables * table,  # that each token of a prompt meets
                      "attention": number(r"(\d+) layers") * number(r"(\d+) heads") * number(r"head width (\d+)"),
                      "bytes": {kind: os.path.getsize(self.model(kind)) for kind in TYPES}, "text_bytes": os.path.getsize(self.text),
                      "sentences": sum(1 for _ in open(self.sentences, encoding="utf-8"))}
        self.facts["compiler"] = Result([os.environ.get("CXX", "g++"), "--version"]).out.splitlines()[0]
        self.facts["wide"] = "avx512" in self.facts["locus"]
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
        if not commit.returncode: self.facts["commit"] = commit.stdout.strip()
        with open(os.path.join(ROOT, "tools", "peers.sh"), encoding="utf-8") as f: self.facts["llama-cpp-python"] = re.search(r"llama-cpp-python==([\d.]+)", f.read()).group(1)

    def ours(self, kind, as_name=None, context=None, keys=None, **how):
        """One --bench. Its figures go under 'as_name/figure'; of them only the keys, if any are named."""
        threads = how.pop("threads", self.o.threads)
        context = [] if context is None and not self.o.quick else ["-c", 256 if self.o.quick else context]
        r = Result([RUN, self.model(kind), "--bench", "-j", threads, *context], **how)
        json.loads(r.out.splitlines()[-1])
        for line in r.err.splitlines():
            key, value = line.split()
            if keys is None or key in keys: self.add(f"{as_name or 'locus/' + kind}/{key}", float(value))

    def llama(self, kind):
        program, model = self.peer("bin", "llama-bench"), self.peer(f"smollm2-{kind}.gguf")
        if not program or not model: return
        runs = [("-p", "128", "-n", "8", "-r", "1", "--no-warmup")] if self.o.quick else [
            ("-p", "128,512,2048", "-n", "32", "-r", "3"), ("-p", "0", "-n", "32", "-d", "2048", "-r", "3", "--no-warmup"),
            ("-p", "2048", "-n", "32", "-d", "6000", "-r", "1", "--no-warmup")]  # reaching the depth warms up
        for how in runs:
            for line in Result([program, "-m", model, "-t", self.o.threads, "-o", "jsonl", *how]).out.splitlines():
                t = json.loads(line)
                n, depth = t["n_prompt"], t["n_depth"]
                key = f"decode_{depth}" if t["n_gen"] else f"prompt_{n}_at_{depth}" if depth else f"prompt_{n}"
                self.add(f"llama.cpp/{kind}/{key}", max(t["samples_ts"]))

    def roofline(self):
        for key, value in json.loads(Result([ROOFLINE, self.o.threads]).out).items():
            if key != "threads": self.add(f"roofline/{key}", value)

    def start(self, kind):
        """Whole processes, from nothing to the first word and out."""
        programs = {f"locus/{kind}": [RUN, self.model(kind), "-p", PROMPT, "-n", 1, "-t", 0, "-c", START_CONTEXT, "-j", self.o.threads]}
        for peer in TYPES[kind]:
            program, model = self.peer("bin", "llama-completion"), self.peer(f"smollm2-{peer}.gguf")
            if program and model:
                programs[f"llama.cpp/{peer}"] = [program, "-m", model, "-p", PROMPT, "-n", 1, "--temp", 0, "-c", START_CONTEXT, "-t", self.o.threads, "-no-cnv", "--no-warmup"]
        for _ in range(1 if self.o.quick else 5):
            for name, command in programs.items():
                r = Result(command)
                self.add(name + "/start_ms", r.seconds * 1e3)
                self.add(name + "/peak_bytes", r.peak_bytes)

    def threads(self, kind):
        """One thread, two, eight asked for on two processors, and two beside a neighbour that never rests."""
        cpus = sorted(os.sched_getaffinity(0))[:2]
        figures = ("prompt_512", "decode_0")
        for name, threads in (("1", 1), ("2", 2), ("8 on 2", 8)): self.ours(kind, f"threads {name}/{kind}", SHORT, figures, threads=threads, cpus=cpus)
        neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        try: self.ours(kind, f"threads 2, neighbour/{kind}", SHORT, figures, threads=2, cpus=cpus)
        finally:
            neighbour.kill()
            neighbour.wait()

    def embed(self):
        vectors = {}
        for kind in ("f32", "q8"):
            r = Result([RUN, self.model("encoder-" + kind), "--embed", "-f", self.sentences, "-j", self.o.threads])
            self.add(f"embed/locus {kind}/sentences", self.facts["sentences"] / r.seconds)
            vectors[kind] = rows(r.out)
        self.facts["cosine q8"] = least_cosine(vectors["q8"], vectors["f32"])
        python, model, vocabulary = self.peer("venv", "bin", "python"), self.peer("minilm-int8.onnx"), self.peer("minilm", "tokenizer.json")
        if not (python and model and vocabulary): return
        out = os.path.join(self.work, "onnx.txt")
        r = json.loads(Result([python, os.path.join(ROOT, "tools", "onnx_peer.py"), model, vocabulary, self.sentences, self.o.threads, out]).out)
        for key in ("single", "batched"): self.add(f"embed/onnxruntime/{key}", r[key])
        with open(out, encoding="utf-8") as f: self.facts["cosine onnxruntime"] = least_cosine(rows(f.read()), vectors["f32"])
        self.facts["onnxruntime"], self.facts["tokens a sentence"] = r["version"], r["tokens"]

    def tiny(self):
        rate = lambda text, pattern: float(re.search(pattern, text).group(1))
        programs = [("stories/locus", [RUN, self.stories, "-p", PROMPT, "-n", 256, "-t", 0], r"generated: .* ([\d.]+) tokens/s")]
        if self.peer("llama2c"):
            files = [os.path.join(self.o.stories, name) for name in ("stories260K.bin", "tok512.bin")]
            programs.append(("stories/llama2.c", [self.peer("llama2c"), files[0], "-z", files[1], "-t", 0, "-n", 256, "-i", PROMPT], r"tok/s: ([\d.]+)"))
        for _ in range(1 if self.o.quick else 5):
            for name, command, pattern in programs: self.add(name, rate(Result(command).err, pattern))

    def tools(self):
        self.add("tokenise/bytes", os.path.getsize(self.text) / Result([RUN, self.model("q4"), "--tokenize", "-f", self.text]).seconds)
        r = self.convert(self.decoder, "q4", "--type", "q4")
        self.add("convert/seconds", r.seconds)
        self.add("convert/peak_bytes", r.peak_bytes)

    def measure(self):
        load = os.getloadavg()[0]
        print("converting", flush=True)
        self.prepare()
        self.describe(load)
        for number in range(1, self.o.rounds + 1):
            for kind, peers in TYPES.items():
                print(f"round {number} of {self.o.rounds}: {kind}", flush=True)
                self.roofline()
                self.ours(kind)
                for peer in peers: self.llama(peer)
                self.start(kind)
                if kind in ("f32", "q8", "q4"):
                    if self.facts["wide"]: self.ours(kind, f"avx2/{kind}", SHORT, ("prompt_512", "decode_0"), env={"LOCUS_ISA": "avx2"})
                    self.threads(kind)
                self.save()
            print(f"round {number} of {self.o.rounds}: the rest", flush=True)
            if self.encoder: self.embed()
            if self.stories: self.tiny()
            self.tools()
            self.save()

    def save(self):
        with open(self.figures, "w", encoding="utf-8") as f: json.dump({"samples": self.samples, "facts": self.facts}, f, indent=1)


def rows(text):
    return [array.array("f", map(float, line.split())) for line in text.splitlines()]


def least_cosine(a, b):
    dot = lambda x, y: sum(p * q for p, q in zip(x, y))
    return min(dot(x, y) / (dot(x, x) * dot(y, y)) ** 0.5 for x, y in zip(a, b, strict=True))


def machine():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f: cpu = f.read()
    except OSError: cpu = ""
    first = lambda key: next(iter(re.findall(rf"^{key}\s*: (.*)$", cpu, re.M)), "")
    flags = set(first("flags").split())
    known = ("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8")
    model = "family {}, model {}".format(first("cpu family"), first("model"))
    return {"cpu": f"{first('model name') or os.uname().machine} ({model})", "cores": len(os.sched_getaffinity(0)), "instructions": [f for f in known if f in flags],
            "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "system": "{0.sysname} {0.release}".format(os.uname())}


# ---- the page ---------------------------------------------------------------------------------------------------------------

def figure(x):
    return "" if x is None else f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def percent(x):
    return "" if x is None else f"{100 * x:.0f} %"


def times(x):
    return "" if x is None else f"{x:.2f}"


def table(names, figures, body):
    """Markdown: columns of names, then columns of figures. A row without a figure is left out."""
    names, figures = names.split(" | "), figures.split(" | ")
    body = [row for row in body if any(row[len(names):])]
    if not body: return "Not measured.\n"
    lines = [names + figures, ["---"] * len(names) + ["--:"] * len(figures), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


class Check:
    """One figure that a target asks for."""

    def __init__(self, label, value, bound, show, at_most=False):
        self.label, self.value, self.show = label, value, show
        self.met = None if value is None else value <= bound if at_most else value >= bound

    def __str__(self):
        return f"{self.label} {self.show(self.value)}".strip()


class Page:
    def __init__(self, samples, facts):
        self.samples, self.f = samples, facts
        self.t = facts["threads"]

    def best(self, key, low=False):
        values = self.samples.get(key)
        return values and (min if low else max)(values)

    def both(self, key, low=False, scale=1):
        """Median and best, two cells."""
        values = self.samples.get(key)
        return [figure(statistics.median(values) * scale), figure(self.best(key, low) * scale)] if values else ["", ""]

    def ratio(self, a, b, low=False):
        a, b = self.best(a, low), self.best(b, low)
        return None if a is None or b is None else b / a if low else a / b

    def limit(self, name):
        value = self.best(f"roofline/{name}")
        return value * 1e9 if value else None

    def bytes_read(self, kind, depth):
        token, cache = self.best(f"locus/{kind}/bytes_per_token"), self.best(f"locus/{kind}/cache_bytes_per_token")
        return token + cache * depth

    def of_bandwidth(self, kind, depth):
        rate, limit = self.best(f"locus/{kind}/decode_{depth}"), self.limit("read_gbs")
        return rate * self.bytes_read(kind, depth) / limit if rate and limit else None

    def of_peak(self, kind, n, depth=0, prefix="locus", narrow=False):
        """Operations of the matrices that every token meets, and of attention over the tokens before it."""
        rate = self.best(f"{prefix}/{kind}/prompt_{n}" + (f"_at_{depth}" if depth else ""))
        limit = self.limit(("i8" if kind in ("q8", "q4") else "f32") + ("_avx2" if narrow else ""))
        return rate * (2 * self.f["matrix_weights"] + 4 * self.f["attention"] * (depth + n / 2)) / limit if rate and limit else None

    def growth(self, kind):
        """How much longer a token takes after 6,000 tokens than after none, by how many more bytes it reads."""
        a, b = (self.best(f"locus/{kind}/decode_{depth}") for depth in (0, 6000))
        return a / b / (self.bytes_read(kind, 6000) / self.bytes_read(kind, 0)) if a and b else None

    def memory(self, kind):
        """Peak memory, by the file. The cache of a few tokens is too small to count."""
        peak = self.best(f"locus/{kind}/peak_bytes", low=True)
        return peak / self.f["bytes"][kind] if peak else None

    def against(self, key, kinds=TYPES, low=False):
        """The types, each with every peer of it: (kind, peer, times as fast)."""
        return [(kind, peer, self.ratio(f"locus/{kind}/{key}", f"llama.cpp/{peer}/{key}", low)) for kind in kinds for peer in TYPES[kind] or [""]]

    def compared(self, key, share):
        for kind, peer, faster in self.against(key):
            yield [kind, peer, *self.both(f"locus/{kind}/{key}"), percent(share(kind)), *self.both(f"llama.cpp/{peer}/{key}"), times(faster)]

    def targets(self):
        faster = lambda key, kinds, bound: [Check(f"{kind}/{peer}", x, bound, times) for kind, peer, x in self.against(key, kinds)]
        floats, blocks = ("f32", "f16", "bf16", "q8"), ("q8", "q4")
        yield ("1", "decoding at short context: f32, f16, bf16, q8 at 90 % and q4 at 85 % of the read bandwidth",
               [Check(kind, self.of_bandwidth(kind, 0), 0.9, percent) for kind in floats] + [Check("q4", self.of_bandwidth("q4", 0), 0.85, percent)])
        yield "", "the same, by llama.cpp: 2.5 times in q8 and q4", faster("decode_0", blocks, 2.5)
        yield ("2", "prompt of 512: f32 at 70 % of the f32 peak, q8 and q4 at 50 % of the int8 peak",
               [Check("f32", self.of_peak("f32", 512), 0.7, percent)] + [Check(kind, self.of_peak(kind, 512), 0.5, percent) for kind in blocks])
        yield "", "with AVX2 alone: q8 and q4 at 60 % of its int8 peak", [Check(kind, self.of_peak(kind, 512, prefix="avx2", narrow=True), 0.6, percent) for kind in blocks]
        yield "", "the same, by llama.cpp: 3 times in q8 and q4, 1.5 times in f32", faster("prompt_512", blocks, 3) + faster("prompt_512", ("f32",), 1.5)
        yield "3", "decoding after 6,000 tokens: 3 times llama.cpp", faster("decode_6000", ("f32", "f16", "q8", "q4"), 3)
        yield "", "prompt of 2,048 after 6,000: 5 times llama.cpp", faster("prompt_2048_at_6000", ("f32", "f16", "q8", "q4"), 5)
        yield "", "time a token grows no faster than the bytes it reads, from none to 6,000 tokens (within 3 %)", [Check(kind, self.growth(kind), 1.03, times, True) for kind in TYPES]
        yield ("4", "start to first token under 30 ms, file in the page cache", [Check(kind, self.best(f"locus/{kind}/start_ms", True), 30, lambda x: f"{figure(x)} ms", True) for kind in TYPES])
        yield "", "peak memory under 1.15 times file and cache (here of a few tokens)", [Check(kind, self.memory(kind), 1.15, times, True) for kind in TYPES]
        yield ("5", "MiniLM in q8: 2.5 times onnxruntime int8's sentences a second, one by one and in batches",
               [Check(label, self.ratio("embed/locus q8/sentences", f"embed/onnxruntime/{key}"), 2.5, times) for label, key in (("one by one", "single"), ("batches", "batched"))])
        yield "", "at a cosine of 0.999 to float (the least of all sentences)", [Check("", self.f.get("cosine q8"), 0.999, "{:.5f}".format)]
        yield "6", "stories260K: twice llama2.c compiled with -Ofast", [Check("", self.ratio("stories/locus", "stories/llama2.c"), 2, times)]
        yield ("7", "two threads: 1.8 times one, where bandwidth is not the limit (prompt of 512)",
               [Check(kind, self.ratio(f"threads 2/{kind}/prompt_512", f"threads 1/{kind}/prompt_512"), 1.8, times) for kind in ("f32", "q8", "q4")])
        yield ("", "eight threads asked for on two processors: not slower than two (within 3 %)",
               [Check(f"{kind} {name.split('_')[0]}", self.ratio(f"threads 8 on 2/{kind}/{name}", f"threads 2/{kind}/{name}"), 0.97, times)
                for kind in ("f32", "q8", "q4") for name in ("prompt_512", "decode_0")])
        yield "8", "tokenising: 10 MB/s", [Check("", self.best("tokenise/bytes"), 10e6, lambda x: f"{x / 1e6:.1f} MB/s")]
        yield "", "conversion to q4 under 10 s", [Check("", self.best("convert/seconds", True), 10, lambda x: f"{x:.1f} s", True)]

    def verdicts(self):
        for number, text, checks in self.targets():
            known = [c for c in checks if c.met is not None]
            good = [c for c in known if c.met]
            met = "not measured" if not known else "yes" if len(good) == len(known) else "no" if not good else "in part: " + ", ".join(c.label for c in good)
            yield [number, text, ", ".join(map(str, known)), met]

    def write(self):
        f, t, m = self.f, self.t, self.f["machine"]
        llama = any(key.startswith("llama.cpp") for key in self.samples)
        roofline = lambda name: self.both(f"roofline/{name}")
        peers = {"llama.cpp": llama and f"llama-cpp-python {f['llama-cpp-python']}'s source, built for this processor",
                 "onnxruntime": f.get("onnxruntime") and f"{f['onnxruntime']}, all-MiniLM-L6-v2 in int8",
                 "llama2.c": "stories/llama2.c" in self.samples and "compiled with -Ofast -march=native"}
        absent = [name for name, what in peers.items() if not what]
        types = "type | llama.cpp's type"
        compared = "Locus, median | best | {} | llama.cpp, median | best | Locus is times as fast"
        text = ["# Benchmarks\n",
                "`make bench` measures all of this and writes the page, but for its last section, which is kept by hand. Ours, the peer and the",
                f"machine's own limits (`tools/roofline.cpp`) take turns, {f['rounds']} round{'s' * (f['rounds'] != 1)}. Ratios are of the bests; rates are tokens a second unless a head says otherwise.\n"]
        if f["quick"]: text += ["**Made with `--quick`: it shows that the measuring works, not how fast anything is.**\n"]
        text += ["| | |", "| --- | --- |", f"| date | {f['date']}{', commit ' + f['commit'] if 'commit' in f else ''} |",
                 f"| processor | {m['cpu']}, {m['cores']} core{'s' * (m['cores'] != 1)} used, {t} thread{'s' * (t != 1)} |", f"| instruction sets | {', '.join(m['instructions']) or 'none that are asked for'} |",
                 f"| memory, system | {m['memory'] / 2**30:.0f} GiB, {m['system']}, load average before the first round {f['load']:.1f} |", f"| Locus | {f['locus']}, compiled by {f['compiler']} |", *(f"| {name} | {what} |" for name, what in peers.items() if what),
                 f"| model | {f['model']}, converted to each type |", ""]
        if absent: text += [f"Not at hand, and so not compared: {', '.join(absent)}. `tools/peers.sh` says what it takes.\n"]
        text += ["## Targets\n", table("no. | target", "measured | met", self.verdicts())]
        text += ["## The machine's limits\n", table("limit", "median | best", [["read, GB/s", *roofline("read_gbs")], ["f32, GFLOPS", *roofline("f32")], ["int8, GOPS", *roofline("i8")],
                                                                          ["f32 with AVX2, GFLOPS", *roofline("f32_avx2")], ["int8 with AVX2, GOPS", *roofline("i8_avx2")]])]
        text += ["Decoding reads every weight and the cache for each token; its share is of the read bandwidth of a buffer larger than any cache, so a file that",
                 "the last cache holds in part can pass 100 %. A prompt's share is of the f32 peak, in q8 and q4 of the int8 peak: two operations a weight, and attention.\n"]
        for depth in DEPTHS:
            text += [f"## Decoding after {depth:,} tokens\n" if depth else "## Decoding\n", table(types, compared.format("of bandwidth"), self.compared(f"decode_{depth}", lambda kind: self.of_bandwidth(kind, depth)))]
        for n, depth in [*((n, 0) for n in PROMPTS), (2048, 6000)]:
            title, key = f"## Prompt of {n:,} tokens" + (f" after {depth:,}" if depth else ""), f"prompt_{n}" + (f"_at_{depth}" if depth else "")
            text += [title + "\n", table(types, compared.format("of peak"), self.compared(key, lambda kind: self.of_peak(kind, n, depth)))]
        text += ["## With AVX2 alone\n", table("type", "prompt of 512, median | best | of its peak | decoding, median | best", [
            [kind, *self.both(f"avx2/{kind}/prompt_512"), percent(self.of_peak(kind, 512, prefix="avx2", narrow=True)), *self.both(f"avx2/{kind}/decode_0")] for kind in TYPES])]
        text += ["## Start to first token, and memory\n", f"A whole process: open, read {PROMPT!r}, one token, end; a context of {START_CONTEXT}. The file is in the page cache.\n",
                 table(types, "Locus, ms, median | best | peak MB | by the file | llama.cpp, ms, median | best | peak MB | Locus is times as fast", [
                     [kind, peer, *self.both(f"locus/{kind}/start_ms", True), self.both(f"locus/{kind}/peak_bytes", True, 1e-6)[1], times(self.memory(kind)),
                      *self.both(f"llama.cpp/{peer}/start_ms", True), self.both(f"llama.cpp/{peer}/peak_bytes", True, 1e-6)[1], times(faster)]
                     for kind, peer, faster in self.against("start_ms", low=True)])]
        length = f", {f['tokens a sentence']:.1f} tokens each on average" if "tokens a sentence" in f else ""
        cosine = lambda key: f"{f[key]:.5f}" if key in f else ""
        text += ["## Sentences (MiniLM)\n", f"{f['sentences']} sentences of the Python manual{length}. Ours takes them one by one, in a whole process: start and printing count. Batches are of 32, by length.\n",
                 table("program", "sentences a second, median | best | least cosine to float", [
                     ["Locus, f32", *self.both("embed/locus f32/sentences"), ""], ["Locus, q8", *self.both("embed/locus q8/sentences"), cosine("cosine q8")],
                     ["onnxruntime int8, one by one", *self.both("embed/onnxruntime/single"), cosine("cosine onnxruntime")], ["onnxruntime int8, batches", *self.both("embed/onnxruntime/batched"), ""]])]
        text += ["## A tiny model (stories260K)\n", table("program", "generated, median | best", [[name, *self.both("stories/" + name.lower())] for name in ("Locus", "llama2.c")])]
        text += ["## Threads\n", "On two processors: what was asked for, and two threads beside a process that never rests.\n", table("type | threads", "prompt of 512, median | best | decoding, median | best", [
            [kind, name, *self.both(f"threads {name}/{kind}/prompt_512"), *self.both(f"threads {name}/{kind}/decode_0")] for kind in TYPES for name in ("1", "2", "8 on 2", "2, neighbour")])]
        text += ["## Text and files\n", table("work", "median | best", [
            [f"tokenising {f['text_bytes'] / 1e6:.1f} MB of the Python manual, ids printed, MB/s", *self.both("tokenise/bytes", scale=1e-6)], ["conversion to q4, s", *self.both("convert/seconds", True)],
            ["its peak memory, MB", *self.both("convert/peak_bytes", True, 1e-6)]])]
        return "\n".join(text) + "\n"


def by_hand(path):
    """The section of the page there is that people write."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f: text = f.read()
        if BY_HAND in text: return text[text.index(BY_HAND):]
    return BY_HAND + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="everything once, with tiny sizes")
    parser.add_argument("--render", action="store_true", help="measure nothing: write the last run's page again")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--peers", default=os.path.join(ROOT, "build", "peers"), help="what tools/peers.sh made")
    parser.add_argument("--decoder", help="checkpoint to measure (default: the peers' SmolLM2)")
    parser.add_argument("--encoder", help="sentence encoder (default: the peers' MiniLM)")
    parser.add_argument("--stories", default=os.path.join(ROOT, "..", "shared", "reference", "llama2c"), help="folder of stories260K.bin and tok512.bin")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "bench"), help="folder for what is made on the way")
    parser.add_argument("--out", help="the page (default: docs/benchmarks.md; with --quick, benchmarks.md beside what is made on the way)")
    o = parser.parse_args()
    if o.quick: o.rounds = 1
    bench = Bench(o)
    out = o.out or (os.path.join(bench.work, "benchmarks.md") if o.quick else os.path.join(ROOT, "docs", "benchmarks.md"))
    if not o.render:
        try: bench.measure()
        except Failed as e: sys.exit(f"benchmark.py: {e}")
    with open(bench.figures, encoding="utf-8") as f: page = Page(**json.load(f)).write() + by_hand(out)
    with open(out, "w", encoding="utf-8") as f: f.write(page)
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
