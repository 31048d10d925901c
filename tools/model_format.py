"""The layout of model.bin, read from model.h: constants, enumerations and structs are declared there and nowhere else."""
import ast
import os
import re
import struct

ELEMENT = {"char": (1, "s"), "uint32_t": (4, "I"), "uint64_t": (8, "Q"), "float": (4, "f")}

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "model.h"), encoding="utf-8") as f:
    SOURCE = re.sub(r"//[^\n]*", "", f.read())

MAGIC = bytes(ord(v) if isinstance(v, str) else v for v in ast.literal_eval("[" + re.search(r"MAGIC\[8\] = \{(.*?)\}", SOURCE).group(1) + "]"))
VERSION, PANEL, BLOCK = (int(re.search(rf"uint32_t {name} = (\d+);", SOURCE).group(1)) for name in ("VERSION", "PANEL", "BLOCK"))
NO_ROPE = ~int(re.search(r"NO_ROPE = ~(\d)u", SOURCE).group(1)) & 0xFFFFFFFF


class Enums:
    """Every enumerator by its name: E.NORM_RMS."""

    def __init__(self):
        for body in re.findall(r"enum \w+ : uint32_t \{(.*?)\};", SOURCE, re.S):
            for name, value in re.findall(r"(\w+) = (\d+)", body): setattr(self, name, int(value))


class Struct:
    """A C struct of numbers, texts and other such structs."""
    known = {}

    def __init__(self, name):
        self.name, self.fields, self.bytes, self.align = name, [], 0, 1
        body = re.search(rf"struct {name} \{{(.*?)\n\}};", SOURCE, re.S).group(1)
        for kind, field, count in re.findall(r"^\s*(\w+) (\w+)(?:\[(\w+)\])?;", body, re.M):
            inner = Struct.known.get(kind)
            size, align = (inner.bytes, inner.align) if inner else (ELEMENT[kind][0],) * 2
            self.bytes += -self.bytes % align
            self.fields.append((kind, field, int(count or 0), self.bytes))
            self.bytes += size * (int(count) if count else 1)
            self.align = max(self.align, align)
        self.bytes += -self.bytes % self.align
        Struct.known[name] = self

    def pack(self, values):
        """Bytes of the struct; fields without a value are 0."""
        out = bytearray(self.bytes)
        unknown = set(values) - {field for _, field, _, _ in self.fields}
        if unknown: raise KeyError(f"{self.name} has no field {sorted(unknown)}")
        for kind, field, count, at in self.fields:
            value = values.get(field)
            if value is None: continue
            if kind in Struct.known:
                for i, v in enumerate(value if count else [value]):
                    part = Struct.known[kind].pack(v)
                    out[at + i * len(part):at + (i + 1) * len(part)] = part
            elif kind == "char":
                raw = value if isinstance(value, bytes) else value.encode()
                if len(raw) > count: raise ValueError(f"{self.name}.{field}: {value!r} is too long")
                out[at:at + len(raw)] = raw
            else:
                struct.pack_into("<" + ELEMENT[kind][1], out, at, value)
        return bytes(out)


E = Enums()
ROPE, HEADER, LAYER_HEADER, TENSOR_ENTRY = (Struct(name) for name in ("Rope", "Header", "LayerHeader", "TensorEntry"))
TYPES = {"f32": E.TYPE_F32, "f16": E.TYPE_F16, "bf16": E.TYPE_BF16, "q8": E.TYPE_Q8, "q4": E.TYPE_Q4}


def matrix_bytes(type, rows, cols):
    """Bytes of one matrix in panels."""
    blocks = -(-cols // BLOCK)
    panel = {E.TYPE_F32: PANEL * cols * 4, E.TYPE_F16: PANEL * cols * 2, E.TYPE_BF16: PANEL * cols * 2,
             E.TYPE_Q8: blocks * (2 * PANEL + PANEL * BLOCK), E.TYPE_Q4: blocks * (4 * PANEL + PANEL * BLOCK // 2)}[type]
    return -(-rows // PANEL) * panel
