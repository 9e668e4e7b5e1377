"""The one fixture builder: GGUF files made from scratch with struct, and the levers to break them.

It shares no code with the package, so that a test never compares the product with itself::

    GGUF().kv("general.architecture", "llama").kv("llama.block_count", 1).tensor("w", (32, 32), "q4_0").bytes()
"""

from __future__ import annotations

import copy
import random
import struct
from functools import lru_cache
from math import prod
from pathlib import Path

# name -> (id, struct code); str and arrays are special
VALUE = {
    "u8": (0, "B"), "i8": (1, "b"), "u16": (2, "H"), "i16": (3, "h"), "u32": (4, "I"), "i32": (5, "i"),
    "f32": (6, "f"), "bool": (7, "?"), "str": (8, ""), "arr": (9, ""),
    "u64": (10, "Q"), "i64": (11, "q"), "f64": (12, "d"),
}  # fmt: skip
# name -> (id, elements of a block, bytes of a block), from ggml.h and ggml-common.h
TENSOR = {
    "f32": (0, 1, 4), "f16": (1, 1, 2), "q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q5_0": (6, 32, 22),
    "q5_1": (7, 32, 24), "q8_0": (8, 32, 34), "q2_k": (10, 256, 84), "q3_k": (11, 256, 110), "q4_k": (12, 256, 144),
    "q5_k": (13, 256, 176), "q6_k": (14, 256, 210), "iq4_nl": (20, 32, 18), "iq4_xs": (23, 256, 136), "i8": (24, 1, 1),
    "i16": (25, 1, 2), "i32": (26, 1, 4), "i64": (27, 1, 8), "f64": (28, 1, 8), "bf16": (30, 1, 2),
    "mxfp4": (39, 32, 17),
}  # fmt: skip


class GGUF:
    """Builder; every lever returns the builder itself."""

    def __init__(self, arch: str | None = None) -> None:
        self._order = "<"
        self._version = 3
        self._kv: list[bytes | tuple[str, object, str | None]] = []
        self._tensors: list[dict] = []
        self._align = 32
        self._dk = self._dt = 0
        self._cut: int | None = None
        self._trail = b""
        if arch:
            self.kv("general.architecture", arch)

    # -- content

    def kv(self, key: str, value: object, type: str | None = None) -> GGUF:
        """A field; type is guessed (bool, u32/i32, f32, str, arrays of the first element's type) unless named."""
        self._kv.append((key, value, type))
        return self

    def replace(self, key: str, value: object, type: str | None = None) -> GGUF:
        """Another value at the place of the first field of that key (added when there is none)."""
        for i, e in enumerate(self._kv):
            if isinstance(e, tuple) and e[0] == key:
                self._kv[i] = (key, value, type if type is not None else e[2])
                return self
        return self.kv(key, value, type)

    def drop(self, *keys: str) -> GGUF:
        """Without these keys."""
        self._kv = [e for e in self._kv if not (isinstance(e, tuple) and e[0] in keys)]
        return self

    def drop_tensor(self, *names: str) -> GGUF:
        """Without these tensors."""
        self._tensors = [t for t in self._tensors if t["name"] not in names]
        return self

    def tensor(
        self, name: str, shape: tuple[int, ...] = (32, 4), type: str | int = "f32", data: bytes | None = None
    ) -> GGUF:
        """A tensor; its data is pseudo-random but valid for float types (small numbers) unless given."""
        self._tensors.append({"name": name, "shape": tuple(shape), "type": type, "data": data, "shift": 0})
        return self

    def retensor(self, name: str, **changes: object) -> GGUF:
        """Other shape, type or data for a tensor that is there."""
        for t in self._tensors:
            if t["name"] == name:
                t.update(changes)
        return self

    # -- levers

    def raw_kv(self, record: bytes) -> GGUF:
        """A record as bytes, counted as one field."""
        self._kv.append(record)
        return self

    def counts(self, kv: int = 0, tensors: int = 0) -> GGUF:
        """State this many more (or fewer) fields and tensors than there are."""
        self._dk, self._dt = kv, tensors
        return self

    def gap(self, name: str, n: int) -> GGUF:
        """State an offset n bytes too far for that tensor (negative: overlap)."""
        for t in self._tensors:
            if t["name"] == name:
                t["shift"] = n
        return self

    def align(self, n: int, *, key: bool = True) -> GGUF:
        """Lay the data out with this alignment; with the key unless told otherwise."""
        self._align = n
        return self.replace("general.alignment", n, "u32") if key else self

    def version(self, v: int) -> GGUF:
        """GGUF version; 1 writes 32-bit counts and lengths."""
        self._version = v
        return self

    def big_endian(self) -> GGUF:
        """Most significant byte first."""
        self._order = ">"
        return self

    def truncate(self, n: int) -> GGUF:
        """Keep the first n bytes; negative: cut that many off the end."""
        self._cut = n
        return self

    def trailing(self, data: bytes) -> GGUF:
        """Bytes behind the end."""
        self._trail = data
        return self

    def shard(self, no: int, count: int, tensors: int | None = None) -> GGUF:
        """The split keys: no from 0."""
        self.kv("split.no", no, "u16").kv("split.count", count, "u16")
        return self if tensors is None else self.kv("split.tensors.count", tensors, "i32")

    def copy(self) -> GGUF:
        """An independent copy to change further."""
        new = copy.copy(self)
        new._kv = [e if isinstance(e, bytes) else (e[0], copy.copy(e[1]), e[2]) for e in self._kv]
        new._tensors = [dict(t) for t in self._tensors]
        return new

    # -- bytes

    def _len(self, n: int) -> bytes:
        return struct.pack(self._order + ("I" if self._version == 1 else "Q"), n)

    def string(self, s: str | bytes) -> bytes:
        """Length and bytes of a string in this builder's version and byte order."""
        data = s if isinstance(s, bytes) else s.encode("utf-8", "surrogateescape")
        return self._len(len(data)) + data

    def record(self, key: str | bytes, value: object, type: str | None = None) -> bytes:
        """One field as bytes; arrays as type ``[u32]``."""
        type = type or guess(value)
        head = self.string(key)
        if type.startswith("["):
            inner = type[1:-1]
            body = self._array(inner, list(value))  # type: ignore[call-overload]
            code = struct.pack(self._order + "II", 9, VALUE[inner][0])
            return head + code + self._len(len(value)) + body  # type: ignore[arg-type]
        return head + struct.pack(self._order + "I", VALUE[type][0]) + self._value(type, value)

    def _value(self, type: str, value: object) -> bytes:
        if type == "str":
            return self.string(value)  # type: ignore[arg-type]
        return struct.pack(self._order + VALUE[type][1], value)

    def _array(self, type: str, values: list) -> bytes:
        if type != "str":
            return struct.pack(f"{self._order}{len(values)}{VALUE[type][1]}", *values)
        pack = struct.Struct(self._order + ("I" if self._version == 1 else "Q")).pack
        texts = [s if isinstance(s, bytes) else s.encode("utf-8", "surrogateescape") for s in values]
        return b"".join([part for text in texts for part in (pack(len(text)), text)])

    def data_of(self, t: dict) -> bytes:
        """The data bytes of a tensor of this builder."""
        return t["data"] if t["data"] is not None else numbers(t["name"], prod(t["shape"]), t["type"], self._order)

    def _size_of(self, t: dict) -> int:
        if t["data"] is not None:
            return len(t["data"])
        _, block, size = TENSOR[t["type"]] if isinstance(t["type"], str) else (0, 1, 1)
        return -(-prod(t["shape"]) // block) * size

    def header(self) -> bytes:
        """Everything before the data section, with padding."""
        raw = [e if isinstance(e, bytes) else self.record(*e) for e in self._kv]
        head = bytearray(b"GGUF" + struct.pack(self._order + "I", self._version))
        head += self._len(len(self._tensors) + self._dt) + self._len(len(raw) + self._dk) + b"".join(raw)
        offset = 0
        for t in self._tensors:
            type_id = TENSOR[t["type"]][0] if isinstance(t["type"], str) else t["type"]
            head += self.string(t["name"]) + struct.pack(self._order + "I", len(t["shape"]))
            head += b"".join(self._len(d) for d in t["shape"])
            head += struct.pack(self._order + "IQ", type_id, (offset + t["shift"]) % (1 << 64))
            offset += -(-self._size_of(t) // self._align) * self._align
        return bytes(head) + bytes(-len(head) % self._align)

    def bytes(self) -> bytes:
        """The whole file."""
        parts = [self.header()]
        for t in self._tensors:
            data = self.data_of(t)
            parts += data, bytes(-len(data) % self._align)
        out = b"".join([*parts, self._trail])
        return out if self._cut is None else out[: self._cut]

    def write(self, path: Path | str) -> Path:
        """Write the file and return its path."""
        path = Path(path)
        path.write_bytes(self.bytes())
        return path

    def write_sparse(self, path: Path | str) -> Path:
        """Write the header; the data of tensors is a hole."""
        end = sum(-(-self._size_of(t) // self._align) * self._align for t in self._tensors)
        header = self.header()
        with open(path, "wb") as f:
            f.write(header)
            f.truncate(len(header) + end)
        return Path(path)


@lru_cache(maxsize=512)
def numbers(name: str, count: int, type: str | int, order: str) -> bytes:
    """The data of a tensor of that name: always the same."""
    rng = random.Random(name)
    if type in ("f32", "f16"):
        span = [rng.uniform(-0.1, 0.1) for _ in range(count)]
        return struct.pack(f"{order}{count}{'f' if type == 'f32' else 'e'}", *span)
    _, block, size = TENSOR[type] if isinstance(type, str) else (0, 1, 1)
    return bytes(rng.randrange(0, 60) for _ in range(-(-count // block) * size))


def guess(value: object) -> str:
    """The GGUF type a Python value gets when none is named."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "u32" if value >= 0 else "i32"
    if isinstance(value, float):
        return "f32"
    if isinstance(value, (str, bytes)):
        return "str"
    items = list(value)  # type: ignore[call-overload]
    return f"[{guess(items[0])}]" if items else "[str]"


def llama(tokens: int = 32, layers: int = 1, arch: str = "llama", **more: object) -> GGUF:
    """A small healthy llama-like model with every tensor llama.cpp wants: 64 wide, 4 heads, 2 KV heads, FFN 128."""
    d, ff, kv = 64, 128, 32
    vocab = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    vocab = (vocab + [f"▁t{i}" for i in range(tokens)])[: 259 + tokens]
    types = [2, 3, 3] + [6] * 256 + [1] * tokens
    g = GGUF(arch).kv("general.name", "tiny llama").kv("general.file_type", 0)
    g.kv(f"{arch}.block_count", layers).kv(f"{arch}.context_length", 2048).kv(f"{arch}.embedding_length", d)
    g.kv(f"{arch}.feed_forward_length", ff).kv(f"{arch}.attention.head_count", 4)
    g.kv(f"{arch}.attention.head_count_kv", 2).kv(f"{arch}.attention.layer_norm_rms_epsilon", 1e-5)
    g.kv(f"{arch}.rope.freq_base", 10000.0).kv(f"{arch}.rope.dimension_count", 16)
    g.kv("tokenizer.ggml.model", "llama").kv("tokenizer.ggml.tokens", vocab)
    g.kv("tokenizer.ggml.scores", [-float(i) for i in range(len(vocab))])
    g.kv("tokenizer.ggml.token_type", types, "[i32]")
    g.kv("tokenizer.ggml.bos_token_id", 1).kv("tokenizer.ggml.eos_token_id", 2).kv("tokenizer.ggml.unknown_token_id", 0)
    for key, value in more.items():
        g.kv(key.replace("__", "."), value)
    g.tensor("token_embd.weight", (d, len(vocab))).tensor("output_norm.weight", (d,))
    for i in range(layers):
        b = f"blk.{i}."
        g.tensor(b + "attn_norm.weight", (d,)).tensor(b + "attn_q.weight", (d, d)).tensor(b + "attn_k.weight", (d, kv))
        g.tensor(b + "attn_v.weight", (d, kv)).tensor(b + "attn_output.weight", (d, d)).tensor(
            b + "ffn_norm.weight", (d,)
        )
        g.tensor(b + "ffn_gate.weight", (d, ff)).tensor(b + "ffn_down.weight", (ff, d)).tensor(
            b + "ffn_up.weight", (d, ff)
        )
    return g
