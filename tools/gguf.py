"""Reads the metadata of a GGUF file (versions 2 and 3), Python's standard library alone.

The file is not trusted: every count and offset is checked against the file's size before it is used.
"""
import mmap
import struct

MAGIC = b"GGUF"
UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 = range(13)
SCALARS = {UINT8: "B", INT8: "b", UINT16: "H", INT16: "h", UINT32: "I", INT32: "i", FLOAT32: "f", BOOL: "?", UINT64: "Q", INT64: "q", FLOAT64: "d"}
# ggml_type: name, elements a block, bytes a block
TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24),
         8: ("Q8_0", 32, 34), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 30: ("BF16", 1, 2)}
MAX_DIMENSIONS = 4  # as in ggml
MAX_ARRAY = 1 << 22  # values of an array; no vocabulary is longer


class ConvertError(Exception):
    """What is wrong with a source checkpoint, or what of it is not supported, in one line."""


class Reader:
    def __init__(self, data, path):
        self.data, self.path, self.at = data, path, 0

    def fail(self, message):
        raise ConvertError(f"{self.path}: {message}")

    def take(self, size, what):
        if size > len(self.data) - self.at:
            self.fail(f"{what} at byte {self.at} needs {size} bytes, the file ends at {len(self.data)}")
        start = self.at
        self.at += size
        return start

    def scalar(self, kind, what):
        if kind == BOOL:
            value = self.data[self.take(1, what)]
            if value > 1: self.fail(f"{what} is a truth value of {value}, expected 0 or 1")
            return bool(value)
        code = "<" + SCALARS[kind]
        return struct.unpack_from(code, self.data, self.take(struct.calcsize(code), what))[0]

    def string(self, what):
        size = self.scalar(UINT64, what)
        start = self.take(size, what)
        return self.data[start:start + size]

    def text(self, what):
        raw = self.string(what)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.fail(f"{what} is not valid UTF-8")

    def strings(self, count, what):
        """Many strings at once, as bytes: a vocabulary has a quarter of a million."""
        if count > (len(self.data) - self.at) // 8: self.fail(f"{what} counts {count} strings, more than the file can hold")
        data, at, end, size_of, out = self.data, self.at, len(self.data), struct.Struct("<Q").unpack_from, []
        for _ in range(count):
            if end - at < 8: self.fail(f"{what} is cut off at byte {at}")
            size, = size_of(data, at)
            at += 8
            if size > end - at: self.fail(f"{what} has a string of {size} bytes at byte {at}, the file ends at {end}")
            out.append(data[at:at + size])
            at += size
        self.at = at
        return out

    def array(self, what):
        kind, count = self.scalar(UINT32, what), self.scalar(UINT64, what)
        if count > MAX_ARRAY: self.fail(f"{what} counts {count} values, expected {MAX_ARRAY} at most")
        if kind == STRING:
            return self.strings(count, what)
        if kind not in SCALARS:
            self.fail(f"{what} is an array of type {kind}, expected numbers or strings")
        size = struct.calcsize("<" + SCALARS[kind])
        if count > (len(self.data) - self.at) // size: self.fail(f"{what} counts {count} values, more than the file can hold")
        code = "B" if kind == BOOL else SCALARS[kind]
        return struct.unpack_from(f"<{count}{code}", self.data, self.take(count * size, what))

    def value(self, what):
        kind = self.scalar(UINT32, what)
        if kind == STRING: return self.text(what)
        if kind == ARRAY: return self.array(what)
        if kind not in SCALARS: self.fail(f"{what} has the unknown type {kind}")
        return self.scalar(kind, what)


def type_bytes(ggml_type, elements):
    """Bytes that a row-major tensor of this type takes, or ConvertError."""
    if ggml_type not in TYPES: raise ConvertError(f"ggml type {ggml_type} is not supported")
    name, block, size = TYPES[ggml_type]
    if elements % block: raise ConvertError(f"{elements} elements are no whole number of {name} blocks of {block}")
    return elements // block * size


def check_apart(path, spans):
    """Tensors lie one beside the other: those that share bytes are damage. spans: (begin, end, name)."""
    reached, last = 0, None
    for begin, end, name in sorted(s for s in spans if s[0] < s[1]):
        if begin < reached: raise ConvertError(f"{path}: tensors {last!r} and {name!r} overlap at byte {begin}")
        reached, last = end, name


def is_gguf(path):
    with open(path, "rb") as f:
        return f.read(4) == MAGIC


def read_gguf(path):
    """(kv, tensors, alignment): metadata by key; (name, shape, ggml type, absolute offset) a tensor; bytes the data is aligned to.

    Arrays come as tuples of numbers or lists of bytes. A shape is as stored: the fastest dimension first.
    Whether a type is supported is for type_bytes to say, and the data of those it knows are checked to lie inside the file.
    """
    with open(path, "rb") as f:
        try:
            data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise ConvertError(f"{path}: the file is empty") from None
    with data:
        r = Reader(data, path)
        if data[:4] != MAGIC: r.fail("not a GGUF file")
        r.at = 4
        version = r.scalar(UINT32, "version")
        if version not in (2, 3): r.fail(f"GGUF version {version} is not supported, expected 2 or 3 (little-endian)")
        n_tensors, n_kv = r.scalar(UINT64, "the count of tensors"), r.scalar(UINT64, "the count of keys")
        # a tensor takes 24 bytes and more here, a key 13
        if n_tensors > len(data) // 24: r.fail(f"{n_tensors} tensors are more than the file can hold")
        if n_kv > len(data) // 13: r.fail(f"{n_kv} keys are more than the file can hold")

        kv = {}
        for i in range(n_kv):
            key = r.text(f"key {i}")
            if key in kv: r.fail(f"the key {key!r} stands twice")
            kv[key] = r.value(key)

        alignment = kv.get("general.alignment", 32)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1): r.fail(f"general.alignment is {alignment!r}, expected a power of two")

        infos, names = [], set()
        for i in range(n_tensors):
            name = r.text(f"the name of tensor {i}")
            if name in names: r.fail(f"the tensor {name!r} stands twice")
            names.add(name)
            n_dims = r.scalar(UINT32, name)
            if n_dims > MAX_DIMENSIONS: r.fail(f"tensor {name!r} has {n_dims} dimensions, expected {MAX_DIMENSIONS} or fewer")
            shape = tuple(r.scalar(UINT64, name) for _ in range(n_dims))
            infos.append((name, shape, r.scalar(UINT32, name), r.scalar(UINT64, name)))

        start = (r.at + alignment - 1) // alignment * alignment
        tensors, spans = [], []
        for name, shape, ggml_type, offset in infos:
            elements = 1
            for n in shape: elements *= n
            if offset % alignment: r.fail(f"tensor {name!r} starts at {offset}, which is no multiple of the alignment {alignment}")
            if ggml_type in TYPES:
                block = TYPES[ggml_type][1]
                if shape and shape[0] % block: r.fail(f"tensor {name!r} has rows of {shape[0]}, no whole number of {TYPES[ggml_type][0]} blocks of {block}")
                size = type_bytes(ggml_type, elements)
            else:
                size = 0
            if start + offset + size > len(data): r.fail(f"tensor {name!r} ends at byte {start + offset + size}, the file at {len(data)}: truncated")
            tensors.append((name, shape, ggml_type, start + offset))
            spans.append((start + offset, start + offset + size, name))
        check_apart(path, spans)
        return kv, tensors, alignment
