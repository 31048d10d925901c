#!/usr/bin/env python3
"""Trains a small decoder, or a masked encoder, on a folder of text files and writes it as model.bin.

  python3 tools/train.py CORPUS OUT [--valid FOLDER] [--positions none|sinusoidal|learned|rotary|alibi] [--masked] [--help]

OUT is a folder: tokenizer.json (byte-level BPE made of the corpus), checkpoint.pt, history.json, loss.svg, model.bin. The same command goes on
where it was stopped. For developers: the only tool that needs PyTorch, numpy and Hugging Face's tokenizers.

The model is LLaMA's: norm (RMS) before attention and before a gated feed-forward (SwiGLU), no biases, the head tied to the embedding.
Matrices of layers are trained with Muon (Jordan et al. 2024), the rest with AdamW.
"""
import argparse
import json
import math
import os
import signal
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from torch import nn
except ImportError as e:
    sys.exit(f"train.py: {e}: it needs PyTorch, numpy and Hugging Face's tokenizers (pip install torch numpy tokenizers)")

import convert
import tokenizer_files
from checkpoints import Tensor
from families import Model as Plan, alibi_slopes, names
from gguf import ConvertError
from model_format import E, TYPES

END, MASK = "<|end|>", "[MASK]"  # between files; in place of a hidden token. Ids 0 and 1
POSITIONS = ("none", "sinusoidal", "learned", "rotary", "alibi")
THETA = 10000.0
EPS = 1e-6
IGNORED = -100  # a target that does not count
WARMUP, DECAY = 60, 0.3  # steps; part of all steps
REPORT, SAVE, WINDOWS = 10, 50, 16  # steps between lines and between checkpoints; of each held-out text then


# ---- the model ------------------------------------------------------------------------------------------------------------

def angles(length, dim):
    """Position times THETA^(-2 i / dim): [length, dim / 2]."""
    return torch.outer(torch.arange(length).float(), THETA ** (-torch.arange(0, dim, 2).float() / dim))


class Layer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads = o.heads
        self.attn_norm, self.ffn_norm = nn.RMSNorm(o.dim, EPS), nn.RMSNorm(o.dim, EPS)
        self.qkv, self.out = nn.Linear(o.dim, 3 * o.dim, False), nn.Linear(o.dim, o.dim, False)
        self.up, self.down = nn.Linear(o.dim, 2 * o.hidden, False), nn.Linear(o.hidden, o.dim, False)

    def forward(self, x, rotation, bias, causal):
        n, length, dim = x.shape
        q, k, v = self.qkv(self.attn_norm(x)).view(n, length, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        if rotation is not None:
            cos, sin = rotation[0][:length], rotation[1][:length]
            turn = lambda t: t * cos + torch.cat([-t[..., t.shape[-1] // 2:], t[..., :t.shape[-1] // 2]], -1) * sin
            q, k = turn(q).to(v.dtype), turn(k).to(v.dtype)
        mask = None if bias is None else bias[:, :length, :length].to(q.dtype)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal and mask is None)
        x = x + self.out(mixed.transpose(1, 2).reshape(n, length, dim))
        gate, up = self.up(self.ffn_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Transformer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.causal, self.scale = not o.masked, math.sqrt(o.dim)
        self.embed = nn.Embedding(o.vocab, o.dim)
        self.layers = nn.ModuleList(Layer(o) for _ in range(o.layers))
        self.norm = nn.RMSNorm(o.dim, EPS)
        for p in self.parameters():
            if p.dim() == 2: nn.init.normal_(p, std=0.02)
        for layer in self.layers:  # the sum of all sublayers begins as large as one (Radford et al. 2019, 2.3)
            for m in (layer.out, layer.down): nn.init.normal_(m.weight, std=0.02 / math.sqrt(2 * o.layers))
        self.positions = nn.Embedding(o.length, o.dim) if o.positions == "learned" else None
        if self.positions: nn.init.normal_(self.positions.weight, std=0.02 * self.scale)  # as large as a token's embedding
        table = rotation = bias = None
        if o.positions == "sinusoidal":
            a = angles(o.length, o.dim)
            table = torch.stack([a.sin(), a.cos()], -1).flatten(1)
        if o.positions == "rotary":
            a = angles(o.length, o.dim // o.heads).repeat(1, 2)
            rotation = torch.stack([a.cos(), a.sin()])
        if o.positions == "alibi":
            distance = (torch.arange(o.length)[:, None] - torch.arange(o.length)[None]).abs()
            bias = -torch.tensor(alibi_slopes(o.heads))[:, None, None] * distance
            if self.causal: bias = bias.masked_fill(torch.ones(o.length, o.length).triu(1) > 0, -math.inf)
        for name, value in (("table", table), ("rotation", rotation), ("bias", bias)): self.register_buffer(name, value, persistent=False)

    def hidden(self, ids):
        x = self.embed(ids) * self.scale
        if self.positions: x = x + self.positions.weight[:ids.shape[1]]
        if self.table is not None: x = x + self.table[:ids.shape[1]]
        for layer in self.layers: x = layer(x, self.rotation, self.bias, self.causal)
        return self.norm(x)

    def forward(self, ids, targets):
        """Mean loss of the targets that count."""
        x, targets = self.hidden(ids).flatten(0, 1), targets.flatten()
        if not self.causal:
            counted = (targets != IGNORED).nonzero()[:, 0]  # few: the scores of the others are not needed
            x, targets = x[counted], targets[counted]
        return F.cross_entropy(F.linear(x, self.embed.weight).float(), targets)


# ---- the text ------------------------------------------------------------------------------------------------------------

def read_texts(folder):
    if not os.path.isdir(folder): raise ConvertError(f"{folder}: no such folder")
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".txt"))
    texts = {}
    for path in paths:
        with open(path, encoding="utf-8", errors="replace", newline="") as f: texts[path] = f.read()
    if not any(texts.values()): raise ConvertError(f"{folder}: no text: expected files .txt")
    return texts


def make_tokenizer(texts, o):
    """Byte-level BPE of o.vocab tokens; fewer if the text does not give so many."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.train_from_iterator(texts.values(), trainers.BpeTrainer(vocab_size=o.vocab, special_tokens=[END, MASK] if o.masked else [END], show_progress=False,
                                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def encode(tokenizer, texts): return [torch.tensor(e.ids) for e in tokenizer.encode_batch(list(texts.values()))]


class Batches:
    """Windows of the text in an order that depends on the seed and the step alone: each epoch cuts elsewhere and shuffles anew."""

    def __init__(self, ids, o):
        self.ids, self.o, self.epoch = ids, o, -1
        self.windows = (len(ids) - 1) // o.length - 1  # the cut moves by up to one window
        if self.windows < 1: raise ConvertError(f"the corpus has {len(ids)} tokens, expected more than {2 * o.length + 1} for --length {o.length}")

    def window(self, k):
        epoch, i = divmod(k, self.windows)
        if epoch != self.epoch:
            g = torch.Generator().manual_seed(self.o.seed * 1000003 + epoch)
            self.epoch, self.shift, self.order = epoch, int(torch.randint(self.o.length, (1,), generator=g)), torch.randperm(self.windows, generator=g)
        start = int(self.order[i]) * self.o.length + self.shift
        return self.ids[start:start + self.o.length + 1]

    def __getitem__(self, step):
        rows = torch.stack([self.window(step * self.o.batch + i) for i in range(self.o.batch)])
        return hide(rows[:, :-1], self.o, torch.Generator().manual_seed(self.o.seed * 1000003 + step)) if self.o.masked else (rows[:, :-1], rows[:, 1:])


def hide(ids, o, generator):
    """(input, targets) of a masked model: of 15 % of the tokens, 80 % become MASK and 10 % any token (Devlin et al. 2019, 3.1)."""
    chance = torch.rand(ids.shape, generator=generator) / 0.15
    random = torch.randint(2, o.vocab, ids.shape, generator=generator)
    return torch.where(chance < 0.8, 1, torch.where(chance < 0.9, random, ids)), torch.where(chance < 1, ids, IGNORED)


def held_out(model, texts, o, most=None):
    """(mean loss, tokens scored) of texts in windows of o.length; most: windows of each text."""
    total = count = 0
    with torch.no_grad():
        for ids in texts:
            whole = len(ids) // o.length
            rows = [*ids[:whole * o.length].view(whole, o.length)[:most].split(o.batch), ids[whole * o.length:][None]]
            for i, window in enumerate(rows):
                if window.shape[1] < 2 or not len(window): continue
                x, y = hide(window, o, torch.Generator().manual_seed(i)) if o.masked else (window[:, :-1], window[:, 1:])
                n = int((y != IGNORED).sum())
                if n: total, count = total + model(x, y).item() * n, count + n
    return total / count, count


# ---- model.bin ------------------------------------------------------------------------------------------------------------

NAMES = names("""
    embed embed  embed_positions positions  final_norm norm  attn_norm layers.{i}.attn_norm  qkv layers.{i}.qkv  out layers.{i}.out
    ffn_norm layers.{i}.ffn_norm  gate_up layers.{i}.up  down layers.{i}.down  head head""")


def export(model, o):
    plan = Plan(NAMES, vocab_size=o.vocab, dim=o.dim, n_layers=o.layers, n_heads=o.heads, hidden_dim=o.hidden, context=o.length, norm_eps=EPS, activation=E.ACT_SILU, gated=1,
                head=E.HEAD_TIED, embed_scale=math.sqrt(o.dim), causal=int(not o.masked), positions=getattr(E, "POSITIONS_" + o.positions.upper()), sinusoid=E.SINUSOID_INTERLEAVED,
                n_positions=o.length if o.positions == "learned" else 0, pooling=E.POOL_MEAN if o.masked else E.POOL_NONE, normalize=int(o.masked))
    plan.fused = "rows"
    if o.positions == "rotary": plan.h["rope"][0] = {"theta": THETA, "dim": o.dim // o.heads, "factor": 1.0, "attention_factor": 1.0, "original_context": o.length}
    if o.positions == "alibi": plan.extra["alibi.slopes"] = alibi_slopes(o.heads)
    path, tensors, at = os.path.join(o.out, "weights.f32"), {}, 0
    try:
        with open(path, "wb") as f:
            for name, value in model.state_dict().items():
                f.write(value.float().contiguous().numpy().tobytes())
                tensors[name] = Tensor(path, "F32", at, value.shape)
                at += 4 * value.numel()
        section = tokenizer_files.from_folder(o.out, {"vocab_size": o.vocab})
        convert.write(convert.File(convert.Source(path, plan, tensors, section, os.path.basename(os.path.abspath(o.out))), TYPES[o.type]), os.path.join(o.out, "model.bin"))
    finally:
        os.unlink(path)


def draw(history, path):
    """The losses as an SVG: mean of each REPORT steps, and the held-out ones."""
    width, height, left, bottom = 640, 360, 50, 320
    lines = [[(history[i + REPORT - 1][0], sum(h[1] for h in history[i:i + REPORT]) / REPORT) for i in range(0, len(history) - REPORT + 1, REPORT)], [(h[0], h[2]) for h in history if h[2]]]
    values = [y for line in lines for _, y in line] or [0]
    low, last = math.floor(min(values)), history[-1][0]
    high = max(low + 1, math.ceil(max(values)))
    x = lambda step: left + (width - left - 20) * step / last
    y = lambda loss: bottom - (bottom - 20) * (loss - low) / (high - low)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>']
    for loss in range(low, high + 1): out.append(f'<path d="M{left} {y(loss):.1f}H{width - 20}" stroke="#ddd"/><text x="{left - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss}</text>')
    for i in range(5): out.append(f'<text x="{x(last * i / 4):.1f}" y="{bottom + 18}" text-anchor="middle">{last * i // 4}</text>')
    out.append(f'<text x="{width / 2}" y="{height - 6}" text-anchor="middle">step</text>')
    for line, colour, name, row in zip(lines, ("#8aa6c8", "#c0392b"), ("training loss", "held-out loss"), (40, 58)):
        if not line: continue
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{" ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in line)}"/><text x="{width - 30}" y="{row}" text-anchor="end" fill="{colour}">{name}</text>')
    with open(path, "w") as f: f.write("\n".join(out) + "\n</svg>\n")


# ---- training ------------------------------------------------------------------------------------------------------------

def rate(step, o):
    """Rises, stays, falls over the last DECAY of the steps: a longer training goes on from where it begins to fall."""
    return o.rate * min((step + 1) / WARMUP, 1, (o.steps - step) / (DECAY * o.steps))


def save(path, data):
    torch.save(data, path + ".new")
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda message: parser.exit(2, f"train.py: {message}\n")
    parser.add_argument("corpus")
    parser.add_argument("out")
    parser.add_argument("--valid", help="folder of texts that are not trained on")
    parser.add_argument("--positions", default="rotary", choices=POSITIONS)
    parser.add_argument("--masked", action="store_true", help="an encoder that fills in hidden words")
    parser.add_argument("--type", default="f16", choices=sorted(TYPES), help="storage in model.bin (f16)")
    for name, value, meaning in (("dim", 384, "width"), ("layers", 6, ""), ("heads", 6, ""), ("hidden", 896, "feed-forward width"), ("vocab", 4096, "tokens"), ("length", 512, "tokens a window"),
                                 ("batch", 32, "windows a step"), ("steps", 1000, "more than before: goes on from where the rate began to fall"), ("seed", 1, "")): parser.add_argument("--" + name, type=int, default=value, help=f"{meaning} ({value})".strip())
    parser.add_argument("--bfloat16", action="store_true", help="products in bfloat16: twice as fast on some processors that know it, slower on others")
    parser.add_argument("--rate", type=float, default=0.003, help="highest learning rate (0.003)")
    o = parser.parse_args()
    try:
        train(o)
    except (ConvertError, OSError) as e:
        sys.exit(f"train.py: {e}")


def train(o):
    for name in ("dim", "layers", "heads", "hidden", "vocab", "length", "batch", "steps"):
        if getattr(o, name) < 1: raise ConvertError(f"--{name} {getattr(o, name)}: expected 1 or more")
    if o.dim % (2 * o.heads): raise ConvertError(f"--dim {o.dim}: expected a multiple of twice the {o.heads} heads")
    os.makedirs(o.out, exist_ok=True)
    at = lambda name: os.path.join(o.out, name)
    texts = read_texts(o.corpus)
    made = os.path.exists(at("tokenizer.json"))
    tokenizer = Tokenizer.from_file(at("tokenizer.json")) if made else make_tokenizer(texts, o)
    if tokenizer.get_vocab_size() != o.vocab: raise ConvertError(f"--vocab {o.vocab}: {at('tokenizer.json') if made else 'the text'} gives {tokenizer.get_vocab_size()} tokens")
    if not made:
        tokenizer.save(at("tokenizer.json"))
        with open(at("tokenizer_config.json"), "w") as f: json.dump(dict({"eos_token": END}, **({"mask_token": MASK} if o.masked else {})), f)
    pieces = encode(tokenizer, texts)
    batches = Batches(torch.cat([t for piece in pieces for t in (piece, torch.tensor([0]))]), o)
    valid_texts = read_texts(o.valid) if o.valid else {}
    valid = encode(tokenizer, valid_texts)

    torch.manual_seed(o.seed)
    model = Transformer(o)
    matrices = [p for name, p in model.named_parameters() if name.startswith("layers.") and p.dim() == 2]
    others = [p for name, p in model.named_parameters() if not (name.startswith("layers.") and p.dim() == 2)]
    optimizers = [torch.optim.Muon(matrices, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"), torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0)]
    settings = {k: getattr(o, k) for k in ("positions", "masked", "dim", "layers", "heads", "hidden", "vocab", "length", "batch", "seed", "rate", "bfloat16")}
    first, history = 0, []
    if os.path.exists(at("checkpoint.pt")):
        state = torch.load(at("checkpoint.pt"))
        if o.steps > state["steps"] and os.path.exists(at("plateau.pt")): state = torch.load(at("plateau.pt"))
        differ = [k for k in settings if state["settings"][k] != settings[k]]
        if differ: raise ConvertError(f"{at('checkpoint.pt')}: was trained with --{differ[0]} {state['settings'][differ[0]]}, not {settings[differ[0]]}")
        model.load_state_dict(state["model"])
        for optimizer, held in zip(optimizers, state["optimizers"]): optimizer.load_state_dict(held)
        first, history = state["step"], state["history"]
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(batches.ids):,} tokens, {o.steps * o.batch * o.length / len(batches.ids):.1f} epochs, from step {first}", flush=True)

    stopped = []
    for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, lambda *_: stopped.append(True))
    compiled, began = torch.compile(model), time.time()
    for step in range(first, o.steps):
        for optimizer in optimizers:
            for group in optimizer.param_groups: group["lr"] = rate(step, o)
        with torch.autocast("cpu", torch.bfloat16, enabled=o.bfloat16): loss = compiled(*batches[step])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        done = step + 1
        history.append([done, loss.item(), None])
        if done % REPORT == 0:
            speed = (done - first) / (time.time() - began)
            print(f"step {done}/{o.steps}  loss {sum(h[1] for h in history[-REPORT:]) / REPORT:.4f}  {speed * o.batch * o.length:,.0f} tokens/s  {(o.steps - done) / speed / 60:.0f} min left", flush=True)
        plateau = done == int(o.steps * (1 - DECAY))
        if done % SAVE == 0 or done == o.steps or plateau or stopped:
            if valid:
                history[-1][2] = held_out(model, valid, o, WINDOWS)[0]
                print(f"step {done}/{o.steps}  held-out loss {history[-1][2]:.4f}", flush=True)
            state = {"settings": settings, "steps": o.steps, "model": model.state_dict(), "optimizers": [x.state_dict() for x in optimizers], "step": done, "history": history}
            save(at("checkpoint.pt"), state)
            if plateau: save(at("plateau.pt"), state)
            if stopped: sys.exit(f"stopped after step {done}; the same command goes on")
    with open(at("history.json"), "w") as f: json.dump({"settings": settings, "history": history}, f)
    draw(history, at("loss.svg"))
    export(model, o)
    if valid:
        loss, count = held_out(model, valid, o)
        tokens_per_byte = sum(map(len, valid)) / sum(len(t.encode()) for t in valid_texts.values())
        print(f"held-out loss {loss:.4f} of {count:,} tokens" + ("" if o.masked else f", {loss / math.log(2) * tokens_per_byte:.4f} bits per byte"))


if __name__ == "__main__":
    main()
