#!/usr/bin/env python3
"""Converts a checkpoint to model.bin.

  python3 tools/convert.py SRC OUT.bin [--type f32|f16|bf16|q8|q4] [--tokenizer FILE]

SRC is a Hugging Face folder (config.json with safetensors or pytorch_model.bin), a GGUF file, a Marian translation model (its .bin, or
the folder that holds it, with the vocabulary's .spm beside it), or a llama2.c .bin.
Python's standard library alone; the numbers are converted by build/quantize, which `make` builds.
"""
import argparse
import os
import signal
import struct
import subprocess
import sys

import model_format
from assemble import Assembler, storage
from checkpoints import BLOCKS, ConvertError, Tensor, elements, read_file, read_folder, read_json, read_llama2c
from families import Config, llama_like, model_of
from gguf import TYPES, is_gguf, read_gguf
from model_format import E, HEADER, LAYER_HEADER, TENSOR_ENTRY
import gguf_families
import marian
import tokenizer_files

ALIGNMENT = 64
QUANTIZE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "quantize")


class Source:
    """What was read: a Model or None, tensors by name, the tokenizer's section or None, a name for people."""

    def __init__(self, path, model, tensors, tokenizer, name):
        self.path, self.model, self.tensors, self.tokenizer, self.name = path, model, tensors, tokenizer, name


# ---- sources ------------------------------------------------------------------------------------------------------------

def open_folder(path):
    config_path = os.path.join(path, "config.json")
    if not os.path.isfile(config_path): raise ConvertError(f"{path}: no config.json in the folder")
    config = read_json(config_path)
    c = Config(config_path, config)
    model = model_of(c)
    architectures = config.get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures and isinstance(architectures[0], str) else ""
    model.bare = first.endswith("Model") and not first.endswith("HeadModel") and not first.endswith("MTModel")
    sentence_settings(path, model)
    return Source(path, model, read_folder(path), tokenizer_files.from_folder(path, config), os.path.basename(os.path.abspath(path)))


def sentence_settings(path, model):
    """How sentence-transformers makes one vector of a text."""
    modules_path = os.path.join(path, "modules.json")
    if not os.path.isfile(modules_path): return
    modules = read_json(modules_path, b'{"modules":' + read_file(modules_path) + b"}")["modules"]
    kinds = [str(m.get("type", "")).rpartition(".")[2] if isinstance(m, dict) else "" for m in modules] if isinstance(modules, list) else [""]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ConvertError(f"{modules_path}: modules are {', '.join(kinds)[:100]}, expected Transformer, Pooling and perhaps Normalize")
    folder = str(modules[1].get("path"))
    if os.path.basename(folder) != folder: raise ConvertError(f"{modules_path}: path {folder[:80]!r} is not a folder of the checkpoint")
    pooling_path = os.path.join(path, folder, "config.json")
    pooling = read_json(pooling_path)
    modes = [key for key, value in pooling.items() if key.startswith("pooling_mode_") and value is True]
    known = {"pooling_mode_mean_tokens": E.POOL_MEAN, "pooling_mode_cls_token": E.POOL_FIRST, "pooling_mode_lasttoken": E.POOL_LAST}
    if len(modes) != 1 or modes[0] not in known: raise ConvertError(f"{pooling_path}: pooling is {' and '.join(modes) or 'missing'}, expected one of {', '.join(known)}")
    settings_path = os.path.join(path, "sentence_bert_config.json")
    settings = Config(settings_path, read_json(settings_path) if os.path.isfile(settings_path) else {})
    model.h.update(pooling=known[modes[0]], normalize=int("Normalize" in kinds), max_tokens=min(settings.int("max_seq_length", model.h["context"], most=1 << 28), model.h["context"]))


def open_gguf(path):
    kv, infos, _ = read_gguf(path)
    tensors = {}
    for name, shape, kind, offset in infos:
        if kind not in TYPES: raise ConvertError(f"{path}: tensor {name!r} is of ggml type {kind}, expected one of {', '.join(sorted(t[0] for t in TYPES.values()))}")
        tensors[name] = Tensor(path, TYPES[kind][0], offset, shape[::-1])
    c = Config(path, kv)
    model = gguf_families.model_of(c, tensors) if tensors else None
    section = None
    if c.text("tokenizer.ggml.model", "none") not in ("none", "no_vocab"):
        try: section = tokenizer_files.from_gguf(kv)
        except ConvertError as e: raise ConvertError(f"{path}: {e}") from None
    return Source(path, model, tensors, section, c.text("general.name", os.path.basename(path)))


def open_marian(path, vocabulary):
    options, tensors = marian.read_marian(path)
    model = marian.model_of(Config(path, options))
    section = tokenizer_files.from_marian(vocabulary or marian.vocabulary(path), model.h["vocab_size"])
    return Source(path, model, tensors, section, os.path.basename(path))


def open_llama2c(path, tokenizer):
    fields, tensors = read_llama2c(path)
    model = llama_like(Config(path, dict(fields, hidden_act="silu")), interleaved=1)
    section = tokenizer_files.from_llama2c(tokenizer, fields["vocab_size"]) if tokenizer else None
    return Source(path, model, tensors, section, os.path.basename(path))


def open_source(path, tokenizer):
    if not os.path.exists(path): raise ConvertError(f"{path}: no such file or folder")
    if not os.path.isdir(path) and not os.path.isfile(path): raise ConvertError(f"{path}: neither a folder nor a regular file")
    if os.path.isdir(path) and not os.path.isfile(os.path.join(path, "config.json")): path = marian.find(path) or path
    if os.path.isfile(path) and marian.is_marian(path): return open_marian(path, tokenizer)
    if not os.path.isdir(path) and not is_gguf(path): return open_llama2c(path, tokenizer)
    if tokenizer: raise ConvertError(f"--tokenizer {tokenizer}: only a checkpoint of llama2.c or Marian takes it, {path} has its own")
    return open_folder(path) if os.path.isdir(path) else open_gguf(path)


# ---- model.bin ------------------------------------------------------------------------------------------------------------

def aligned(n, to=ALIGNMENT): return -(-n // to) * to


def source_bits(tensors):
    """Bits a weight of the type that most weights have."""
    total = {}
    for t in tensors.values():
        if t.type in BLOCKS: total[t.type] = total.get(t.type, 0) + elements(t.shape)
    if not total: return 0
    block, size = BLOCKS[max(total, key=total.get)]
    return 8 * size // block


def read_moments(path):
    """{tensor: (columns, columns a group, offset)} of what `run --moments` wrote."""
    found, size = {}, os.path.getsize(path)
    with open(path, "rb") as f:
        if f.read(8) != b"LOCUSMOM": raise ConvertError(f"{path}: was not written by run --moments")
        while entry := f.read(72):
            name, cols, width = struct.unpack("<64sII", entry) if len(entry) == 72 else (b"", 0, 0)
            at, groups = f.tell(), -(-cols // max(width, 1))
            if not 0 < width <= 1024 or width % model_format.BLOCK or at + 4 * groups * width * width > size: raise ConvertError(f"{path}: is damaged or cut")
            found[name.rstrip(b"\0").decode(errors="replace")] = cols, width, at
            f.seek(4 * groups * width * width, os.SEEK_CUR)
    return found


class File:
    """The layout of model.bin: what goes before the tensors, and where each tensor goes."""

    def __init__(self, source, type, moments=None, keep=None):
        model, outputs = source.model, []
        self.moments, moments = moments, read_moments(moments) if moments else {}
        header = {"magic": model_format.MAGIC, "version": model_format.VERSION, "header_bytes": HEADER.bytes, "name": source.name.replace("\0", "").encode(errors="replace")[:63].decode(errors="ignore")}
        layers = []
        if model:
            outputs = Assembler(model, source.tensors, source.path).assemble()
            header.update(model.h, source_bits=source_bits(source.tensors))
            layers = model.layers
        tokenizer = source.tokenizer or b""
        layers_at = aligned(HEADER.bytes)
        tensors_at = aligned(layers_at + len(layers) * LAYER_HEADER.bytes)
        tokenizer_at = aligned(tensors_at + len(outputs) * TENSOR_ENTRY.bytes)
        end = tokenizer_at + len(tokenizer)
        entries, self.placed = [], []
        for out in outputs:
            known = moments.get(out.name)
            if known and known[0] != out.cols: raise ConvertError(f"{self.moments}: {out.name} has {known[0]} columns, expected {out.cols}: this is of another model")
            kind = storage(out, type, known, keep)
            size = 4 * out.rows * out.cols if out.layout == E.LAYOUT_PLAIN else out.count * model_format.matrix_bytes(kind, out.rows, out.cols)
            at = aligned(end)
            entries.append(TENSOR_ENTRY.pack({"name": out.name, "type": kind, "layout": out.layout, "count": out.count, "rows": 1 if out.vector else out.rows,
                                              "cols": out.rows if out.vector else out.cols, "offset": at, "bytes": size}))
            self.placed.append((out, kind, at, known))
            end = at + size
        for part in keep or ():
            if not any(part in out.name for out in outputs): raise ConvertError(f"--q8 {part}: no matrix has this in its name")
        header.update(file_bytes=end, layers_offset=layers_at, tensors_offset=tensors_at, tokenizer_offset=tokenizer_at, tokenizer_bytes=len(tokenizer), n_tensors=len(outputs))
        self.bytes = end
        self.parts = [(0, HEADER.pack(header)), (layers_at, b"".join(map(LAYER_HEADER.pack, layers))), (tensors_at, b"".join(entries)), (tokenizer_at, tokenizer)]
        self.parts += [(at, struct.pack(f"<{len(out.values)}f", *out.values)) for out, _, at, _ in self.placed if out.values is not None]

    def jobs(self, path):
        """What quantize.cpp is to do; its head says how to read this."""
        numbers, lines = {}, []
        for out, kind, at, known in self.placed:
            if not out.pieces: continue
            lines.append(f"tensor {at} {kind} {out.layout} {out.count} {out.rows} {out.cols} {out.name}")
            if known and kind == E.TYPE_Q4: lines.append(f"moments {known[1]} {known[2]} {os.path.abspath(self.moments)}")
            for matrix, row, view in out.pieces:
                t, (rows, cols) = view.tensor, view.shape
                number = numbers.setdefault(t.path, len(numbers))
                lines.append(f"piece {matrix} {row} {rows} {number} {t.type} {t.offset} {view.first} {view.strides[0]} {view.strides[1]} {t.scale!r} {view.add!r}")
        for p in (path, *numbers, self.moments or ""):
            if "\n" in p: raise ConvertError(f"{p!r}: a path with a line break is not supported")
        return "\n".join([f"out {path}"] + [f"source {os.path.abspath(p)}" for p in numbers] + lines) + "\n"


def write(file, out_path):
    """Writes next to OUT first, so that a model.bin is whole or not there."""
    temporary = os.path.join(os.path.dirname(os.path.abspath(out_path)), f".convert-{os.urandom(8).hex()}.bin")
    helper = None
    try:
        try:
            f = open(temporary, "xb")
        except OSError as e:
            raise ConvertError(f"{out_path}: cannot be written: {e.strerror}") from None
        with f:
            f.truncate(file.bytes)
            for at, data in file.parts:
                f.seek(at)
                f.write(data)
        helper = subprocess.Popen([QUANTIZE], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        _, complaint = helper.communicate(file.jobs(temporary).encode(errors="surrogateescape"))
        if helper.returncode: raise ConvertError(complaint.decode(errors="replace").strip().replace(temporary, out_path) or f"build/quantize ended with status {helper.returncode}")
        os.replace(temporary, out_path)
    except BaseException:
        if helper and helper.poll() is None:
            helper.kill()
            helper.wait()
        if os.path.exists(temporary): os.unlink(temporary)
        raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("src")
    parser.add_argument("out")
    parser.add_argument("--type", choices=list(model_format.TYPES), help="storage of the matrices; by default each one's that loses nothing worth naming")
    parser.add_argument("--moments", metavar="FILE", help="written by run --moments: q4 then rounds so that what a matrix gives on such a text comes out near")
    parser.add_argument("--q8", metavar="NAMES", help="with --type q4: matrices that stay in q8, by parts of their names, as in embed,head,ffn.down (default: embed.tokens and head.weight, unless --moments knows them)")
    parser.add_argument("--tokenizer", metavar="FILE", help="llama2.c's tokenizer.bin or Marian's .spm, for their checkpoints")
    args = parser.parse_args()
    if (args.q8 or args.moments) and args.type != "q4": parser.error("--q8 and --moments go with --type q4")
    keep = args.q8 and [part for part in args.q8.split(",") if part]
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL: signal.signal(number, lambda *_: sys.exit("convert.py: stopped"))
    try:
        if not os.path.isfile(QUANTIZE): raise ConvertError("build/quantize is missing: run make first")
        if not os.path.basename(args.out) or os.path.exists(args.out) and not os.path.isfile(args.out): raise ConvertError(f"{args.out or repr('')}: is not a file that can be replaced")
        source = open_source(args.src, args.tokenizer)
        if source.model is None and source.tokenizer is None: raise ConvertError(f"{args.src}: holds neither tensors nor a tokenizer")
        read = [args.src, args.tokenizer, *(t.path for t in source.tensors.values())]
        if any(p and os.path.exists(args.out) and os.path.samefile(p, args.out) for p in read): raise ConvertError(f"{args.out}: is the source itself, name another file")
        write(File(source, model_format.TYPES.get(args.type), args.moments, keep), args.out)
    except KeyboardInterrupt:
        complaint = "interrupted"
    except ConvertError as e:
        complaint = str(e)
    except OSError as e:
        complaint = f"{e.filename or args.out}: {e.strerror}"
    except Exception as e:  # a source is not trusted: whatever else it breaks is one line, too
        complaint = f"{args.src}: damaged or not supported: {type(e).__name__}: {e}"
    else:
        return
    sys.exit("convert.py: " + "".join(c if c.isprintable() else "?" for c in complaint[:500]))


if __name__ == "__main__":
    main()
