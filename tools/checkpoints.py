"""Finds the tensors of other programs' checkpoints: where in which file each lies, without reading the numbers.

Safetensors, PyTorch's zip files and llama2.c's .bin; Python's standard library alone. No file is trusted: a pickle is walked opcode
by opcode by an interpreter that knows tensors and containers and can call nothing, and every offset is checked against its file.
"""
import json
import os
import pickletools
import struct
import zipfile

from gguf import ConvertError, TYPES, check_apart

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}  # bytes an element of the types that can be converted
BLOCKS = {name: (elements, size) for name, elements, size in TYPES.values()}
BLOCKS.update({name: (1, size) for name, size in SIZES.items()}, INTGEMM8=(1, 1))  # Marian's int8: the Tensor has its scale
MAX_HEADER = 100 << 20
MAX_PICKLE = 8 << 20  # a tensor takes some 150 bytes
MAX_DIM = 1 << 40


class Tensor:
    """An array in a file: element [i, j, ..] is scale times number i strides[0] + j strides[1] + .. of those that start at offset."""

    def __init__(self, path, type, offset, shape, strides=None, scale=1.0):
        self.path, self.type, self.offset, self.shape, self.scale = path, type, offset, tuple(shape), scale
        self.strides = tuple(strides) if strides is not None else row_major(shape)


def row_major(shape):
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def elements(shape):
    n = 1
    for d in shape: n *= d
    return n


def read_file(path):
    """A whole file that is not too large. A pipe or a device, which may have no end, is none."""
    if os.path.exists(path) and not os.path.isfile(path): raise ConvertError(f"{path}: not a regular file")
    if os.path.getsize(path) > MAX_HEADER: raise ConvertError(f"{path}: {os.path.getsize(path)} bytes, expected {MAX_HEADER} at most")
    with open(path, "rb") as f: return f.read()


def read_json(path, text=None):
    """A JSON object; a key that stands twice is an error."""
    def unique(pairs):
        out = dict(pairs)
        if len(out) != len(pairs):
            seen = set()
            twice = next(k for k, _ in pairs if k in seen or seen.add(k))
            raise ConvertError(f"{path}: {twice!r} stands twice")
        return out
    try:
        value = json.loads((read_file(path) if text is None else text).decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as e:
        raise ConvertError(f"{path}: not valid JSON: {e}") from None
    if not isinstance(value, dict): raise ConvertError(f"{path}: expected a JSON object")
    return value


def is_count(n, most=MAX_DIM):
    return type(n) is int and 0 <= n <= most


# ---- safetensors ------------------------------------------------------------------------------------------------------

def read_safetensors(path):
    size = os.path.getsize(path)
    with open(path, "rb") as f:
        head = f.read(8)
        if len(head) < 8: raise ConvertError(f"{path}: {size} bytes are no safetensors file")
        length, = struct.unpack("<Q", head)
        if length > min(size - 8, MAX_HEADER): raise ConvertError(f"{path}: a header of {length} bytes does not fit into the file's {size}: truncated, or no safetensors file")
        header = read_json(path, f.read(length))
    tensors, spans = {}, []
    for name, entry in header.items():
        if name == "__metadata__": continue
        entry = entry if isinstance(entry, dict) else {}
        kind, shape, span = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
        if not isinstance(kind, str) or not isinstance(shape, list) or not all(is_count(n) for n in shape) or not isinstance(span, list) or len(span) != 2 or not all(map(is_count, span)):
            raise ConvertError(f"{path}: tensor {name!r} is described wrongly")
        start, end = span
        if start > end or 8 + length + end > size: raise ConvertError(f"{path}: tensor {name!r} ends at byte {8 + length + end}, the file at {size}: truncated")
        if kind in SIZES and end - start != elements(shape) * SIZES[kind]:
            raise ConvertError(f"{path}: tensor {name!r} of shape {shape} and type {kind} has {end - start} bytes, expected {elements(shape) * SIZES[kind]}")
        tensors[name] = Tensor(path, kind, 8 + length + start, shape)
        spans.append((8 + length + start, 8 + length + end, name))
    check_apart(path, spans)
    return tensors


# ---- PyTorch ----------------------------------------------------------------------------------------------------------

STORAGES = {"DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16", "CharStorage": "I8",
            "LongStorage": "I64", "IntStorage": "I32", "ShortStorage": "I16", "ByteStorage": "U8", "BoolStorage": "BOOL"}
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
LITERALS = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
EMPTY = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}


class Name:
    """A global that the pickle names. It stands for itself: nothing is imported."""

    def __init__(self, module, name):
        self.full = f"{module}.{name}"


class Storage:
    def __init__(self, path, type, offset, count):
        self.path, self.type, self.offset, self.count = path, type, offset, count


def walk_pickle(path, data, storage):
    """The object that a pickle of tensors in containers describes. storage: (type, key, count) -> Storage."""
    def refuse(what): raise ConvertError(f"{path}: the pickle {what}, which no checkpoint of plain tensors needs")

    def persistent(pid):
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage" or not isinstance(pid[1], Name) or not isinstance(pid[2], str) or not is_count(pid[4]):
            refuse("refers to something else than a storage")
        kind = pid[1].full.rpartition(".")[2]
        if pid[1].full != "torch." + kind or kind not in STORAGES: refuse(f"has a storage of {pid[1].full[:60]!r}")
        return storage(STORAGES[kind], pid[2], pid[4])

    def call(function, arguments):
        name = function.full if isinstance(function, Name) else None
        if name == "collections.OrderedDict" and arguments == (): return {}
        if name == "torch._utils._rebuild_parameter" and len(arguments) == 3: return arguments[0]
        if name == "torch._utils._rebuild_tensor_v2" and 6 <= len(arguments) <= 7 and isinstance(arguments[0], Storage):
            s, first, shape, strides = arguments[:4]
            if not is_count(first) or not isinstance(shape, tuple) or not isinstance(strides, tuple) or len(shape) != len(strides) or not all(map(is_count, shape + strides)):
                refuse("describes a tensor wrongly")
            last = first + sum((n - 1) * step for n, step in zip(shape, strides))
            if 0 not in shape and last >= s.count: raise ConvertError(f"{path}: a tensor reaches element {last} of a storage of {s.count}: damaged")
            return Tensor(s.path, s.type, s.offset + first * SIZES.get(s.type, 0), shape, strides)
        refuse(f"calls {(name or '?')[:80]}")

    def put(target, keys, values):
        if not all(isinstance(k, str) for k in keys): refuse("has a key that is no text")
        target.update(zip(keys, values))

    stack, marks, memo = [], [], {}

    def since_mark():
        at = marks.pop()
        items = stack[at:]
        del stack[at:]
        return items

    for opcode, argument, _ in pickletools.genops(data):
        op = opcode.name
        if op in ("PROTO", "FRAME"): continue
        elif op == "STOP": return stack.pop()
        elif op == "MARK": marks.append(len(stack))
        elif op in CONSTANTS: stack.append(CONSTANTS[op])
        elif op in LITERALS: stack.append(argument)
        elif op in EMPTY: stack.append(EMPTY[op]())
        elif op == "TUPLE": stack.append(tuple(since_mark()))
        elif op in ("TUPLE1", "TUPLE2", "TUPLE3"):
            n = int(op[-1])
            items = tuple(stack[-n:])
            if len(items) < n: raise IndexError
            stack[-n:] = [items]
        elif op in ("BINPUT", "LONG_BINPUT"): memo[argument] = stack[-1]
        elif op == "MEMOIZE": memo[len(memo)] = stack[-1]
        elif op in ("BINGET", "LONG_BINGET"): stack.append(memo[argument])
        elif op == "GLOBAL": stack.append(Name(*argument.split(" ", 1)))
        elif op == "STACK_GLOBAL":
            name, module = stack.pop(), stack.pop()
            stack.append(Name(module, name))
        elif op == "BINPERSID": stack.append(persistent(stack.pop()))
        elif op == "REDUCE":
            arguments = stack.pop()
            stack.append(call(stack.pop(), arguments))
        elif op == "APPEND":
            item = stack.pop()
            stack[-1].append(item)
        elif op == "APPENDS":
            items = since_mark()
            stack[-1].extend(items)
        elif op == "SETITEM":
            value, key = stack.pop(), stack.pop()
            put(stack[-1], [key], [value])
        elif op == "SETITEMS":
            items = since_mark()
            put(stack[-1], items[::2], items[1::2])
        elif op == "BUILD": stack.pop()  # attributes of the dictionary: version numbers
        else: refuse(f"has the opcode {op}")
    raise IndexError


def read_torch(path):
    size = os.path.getsize(path)
    with open(path, "rb") as f:
        if f.read(2) != b"PK": raise ConvertError(f"{path}: not a zip file; PyTorch before 1.6 wrote another format: load it and torch.save it anew, or save it as safetensors")
        try:
            archive = zipfile.ZipFile(f)
            members = {info.filename: info for info in archive.infolist()}
            pickles = [n for n in members if n.endswith("/data.pkl") and n.count("/") == 1]
            if len(pickles) != 1: raise ConvertError(f"{path}: {len(pickles)} files data.pkl in the zip, expected one")
            root = pickles[0][:-len("data.pkl")]
            if members.get(root + "byteorder") and archive.open(root + "byteorder").read(16) != b"little": raise ConvertError(f"{path}: big-endian, not supported")

            def stored(name):
                info = members.get(name)
                if info is None: raise ConvertError(f"{path}: {name} is missing in the zip")
                if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size: raise ConvertError(f"{path}: {name} is compressed, torch.save stores it plain")
                f.seek(info.header_offset)
                local = f.read(30)
                if len(local) < 30 or local[:4] != b"PK\3\4": raise ConvertError(f"{path}: {name} has no local header: damaged")
                start = info.header_offset + 30 + sum(struct.unpack("<2H", local[26:30]))
                if start + info.file_size > size: raise ConvertError(f"{path}: {name} ends at byte {start + info.file_size}, the file at {size}: truncated")
                return start, info.file_size

            def storage(kind, key, count):
                start, length = stored(root + "data/" + key)
                if kind in SIZES and count * SIZES[kind] > length: raise ConvertError(f"{path}: storage {key} has {length} bytes, expected {count * SIZES[kind]}")
                return Storage(path, kind, start, count)

            start, length = stored(pickles[0])
            if length > MAX_PICKLE: raise ConvertError(f"{path}: a pickle of {length} bytes is more than the names of tensors need")
            f.seek(start)
            value = walk_pickle(path, f.read(length), storage)
        except ConvertError:
            raise
        except Exception as e:  # zipfile and pickletools answer damage with a dozen kinds
            raise ConvertError(f"{path}: damaged: {type(e).__name__} {str(e)[:80]}") from None
    if isinstance(value, dict) and isinstance(value.get("state_dict"), dict): value = value["state_dict"]
    if not isinstance(value, dict): raise ConvertError(f"{path}: holds no dictionary of tensors")
    for name, tensor in value.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor): raise ConvertError(f"{path}: {str(name)[:60]!r} is not a tensor")
    return value


# ---- a folder ---------------------------------------------------------------------------------------------------------

def read_folder(folder):
    """All tensors of a Hugging Face folder."""
    def at(name): return os.path.join(folder, name)
    for single, index, read in (("model.safetensors", "model.safetensors.index.json", read_safetensors), ("pytorch_model.bin", "pytorch_model.bin.index.json", read_torch)):
        if os.path.isfile(at(single)): return read(at(single))
        if not os.path.isfile(at(index)): continue
        places = read_json(at(index)).get("weight_map")
        if not isinstance(places, dict) or not places: raise ConvertError(f"{at(index)}: no weight_map")
        tensors = {}
        for file in sorted({str(f) for f in places.values()}):
            if os.path.basename(file) != file or not os.path.isfile(at(file)): raise ConvertError(f"{at(index)}: names the file {file[:80]!r}, which is not in the folder")
            for name, tensor in read(at(file)).items():
                if name in tensors: raise ConvertError(f"{at(file)}: tensor {name!r} stands in two files")
                tensors[name] = tensor
        missing = [n for n in places if n not in tensors]
        if missing: raise ConvertError(f"{at(index)}: tensor {missing[0]!r} is in none of the files")
        return tensors
    raise ConvertError(f"{folder}: neither model.safetensors nor pytorch_model.bin, nor an index of either")


# ---- llama2.c ---------------------------------------------------------------------------------------------------------

def read_llama2c(path):
    """(fields, tensors) of llama2.c's first format: seven integers, then float32 arrays, named here as the llama family's are."""
    size = os.path.getsize(path)
    with open(path, "rb") as f: head = f.read(28)
    if len(head) < 28: raise ConvertError(f"{path}: {size} bytes are no checkpoint of any known kind")
    dim, hidden, layers, heads, kv_heads, vocab, context = struct.unpack("<7i", head)
    tied, vocab = vocab > 0, abs(vocab)
    if not (0 < dim < 1 << 20 and 0 < hidden < 1 << 20 and 0 < layers <= 1024 and 0 < kv_heads <= heads <= dim and dim % heads == 0 and 0 < vocab < 1 << 24 and 0 < context < 1 << 24):
        raise ConvertError(f"{path}: not a checkpoint of any known kind (safetensors folder, GGUF, llama2.c)")
    head_dim = dim // heads
    kv = kv_heads * head_dim
    tensors, at = {}, 28

    def place(shape, *names):
        nonlocal at
        for name in names:
            tensors[name] = Tensor(path, "F32", at, shape)
            at += 4 * elements(shape)

    def per_layer(name, *shape): place(shape, *(f"layers.{i}.{name}.weight" for i in range(layers)))
    place((vocab, dim), "embed_tokens.weight")
    per_layer("input_layernorm", dim)
    per_layer("self_attn.q_proj", dim, dim)
    per_layer("self_attn.k_proj", kv, dim)
    per_layer("self_attn.v_proj", kv, dim)
    per_layer("self_attn.o_proj", dim, dim)
    per_layer("post_attention_layernorm", dim)
    per_layer("mlp.gate_proj", hidden, dim)
    per_layer("mlp.down_proj", dim, hidden)
    per_layer("mlp.up_proj", hidden, dim)
    place((dim,), "norm.weight")
    at += 2 * 4 * context * (head_dim // 2)  # tables of cosines and sines
    if not tied: place((vocab, dim), "lm_head.weight")
    if at != size: raise ConvertError(f"{path}: {size} bytes; as a llama2.c checkpoint (dim {dim}, {layers} layers, vocabulary {vocab}) it would have {at}")
    fields = {"hidden_size": dim, "intermediate_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
              "vocab_size": vocab, "max_position_embeddings": context, "tie_word_embeddings": tied, "rms_norm_eps": 1e-5}
    return fields, tensors
