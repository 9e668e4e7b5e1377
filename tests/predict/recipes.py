"""Mutated files as recipes: a base header and a list of operations, rebuilt as header bytes and a file size.

The bases (`tests/data/load/bases.tar.xz`) are headers of models that the real llama.cpp made or describes; behind the
header a file is a hole of zeros, which loads the same. A recipe is ``{"base": "tiny/qwen2", "ops": [...]}``; the
operations are in `_OPS`.
"""

from __future__ import annotations

import gzip
import json
import math
import struct
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

from gguftool.source import Memory
from tests.build import TENSOR
from tests.predict.plain_header import ARR, CODE, STR, TYPES, Array, copied, read_header

DATA = Path(__file__).resolve().parents[1] / "data" / "load"
NAMES = {v: k for k, v in TYPES.items()}
BITS = {0: 8, 1: -8, 2: 16, 3: -16, 4: 32, 5: -32, 10: 64, 11: -64}
MOST_DATA = 256 << 20
"""A layout larger than this leaves the data section at its former size."""
BLOCKS = {i: (n, size) for i, n, size in TENSOR.values()} | {
    9: (32, 36), 15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 21: (256, 110),
    22: (256, 82), 29: (256, 56), 34: (256, 54), 35: (256, 66), 40: (64, 36), 41: (128, 18), 42: (64, 18),
}  # fmt: skip


class Hole(Memory):
    """A file whose bytes behind the header are zeros."""

    def read_at(self, offset: int, n: int) -> bytes:
        n = max(0, min(n, self.size - offset))
        data = self.data[offset : offset + n]
        return data + bytes(n - len(data))


@cache
def bases() -> dict[str, tuple[bytes, int]]:
    """Header and file size of every base by name."""
    with tarfile.open(DATA / "bases.tar.xz") as tar:
        read = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}  # type: ignore[union-attr]
    return {name: (read[name + ".hdr"], size) for name, size in json.loads(read["sizes.json"]).items()}


@cache
def recipes(name: str = "recipes") -> list[dict[str, Any]]:
    """Records of one file of recipes with what the real library did."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def built(recipe: dict[str, Any], name: str = "/x/m.gguf", base: tuple[bytes, int] | None = None) -> Hole:
    """The mutated file; ``base``: header and size of another than that of the recipe's name."""
    header = _Header(*(base or bases()[recipe["base"]]))
    for op in recipe["ops"]:
        _OPS[op["op"]](header, op)
    data, size = header.encode()
    return Hole(data, name, size)


def write(recipe: dict[str, Any], path: Path) -> Path:
    """The mutated file on disk, sparse."""
    return put(built(recipe), path)


def put(file: Hole, path: Path) -> Path:
    """A file on disk, sparse."""
    with open(path, "wb") as f:
        f.write(file.data)
        f.truncate(file.size)
    return path


def _pad(n: int, alignment: int) -> int:
    return -(-n // alignment) * alignment if alignment > 0 else n


def _nbytes(shape: list[int], type_id: int) -> int:
    n, size = BLOCKS.get(type_id, (1, 4))
    return math.prod(shape) // n * size


class _Header:
    """``kv``: [key, type id, value]; ``tensors``: [name, shape, type id, offset]; strings are bytes."""

    def __init__(self, data: bytes, size: int) -> None:
        read = read_header(data)
        self.magic, self.version, self.at = data[:4], read.version, read.at
        self.kv = [[key, t, copied(v)] for key, t, v in read.kv]
        self.tensors = [[name, list(shape), t, offset] for name, shape, t, offset in read.tensors]
        found = self.find(b"general.alignment")
        self.align = self.kv[found][2] if found is not None else 32
        self.more_tensors = self.more_kv = self.delta = 0
        self.pokes: list[tuple[Any, bytes]] = []
        self.cut: int | None = None
        self.absolute: int | None = None
        self.data_size = size - _pad(self.at, self.align)
        own = max((_pad(off + _nbytes(d, t), self.align) for _, d, t, off in self.tensors), default=0)
        self.trailing = self.data_size - own
        self.marks: dict[str, int] = {}

    def find(self, key: bytes) -> int | None:
        return next((i for i, e in enumerate(self.kv) if e[0] == key), None)

    def field(self, op: dict[str, Any], name: str = "key") -> list[Any]:
        i = self.find(op[name].encode())
        assert i is not None, op
        return self.kv[i]

    def tensor(self, op: dict[str, Any]) -> list[Any]:
        return next(e for e in self.tensors if e[0] == op["name"].encode())

    def lay_out(self, op: dict[str, Any] | None = None) -> None:
        if op is not None and not op.get("relayout", True):
            return
        at = 0
        for e in self.tensors:
            e[3] = at & (1 << 64) - 1
            at = _pad(at + _nbytes(e[1], e[2]), self.align)
        if at <= MOST_DATA:
            self.data_size = at + self.trailing

    def encode(self) -> tuple[bytes, int]:
        out, marks = bytearray(), self.marks
        mask = (1 << 64) - 1
        out += self.magic + struct.pack("<I", self.version & 0xFFFFFFFF)
        out += struct.pack("<QQ", len(self.tensors) + self.more_tensors & mask, len(self.kv) + self.more_kv & mask)

        def put(t: int, v: Any) -> None:
            if t == STR:
                out.extend(struct.pack("<Q", len(v)) + v)
            elif t == ARR:
                out.extend(struct.pack("<IQ", v.element, len(v)))
                if v.element in (STR, ARR):
                    for x in v:
                        put(v.element, x)
                else:
                    out.extend(struct.pack(f"<{len(v)}{CODE[v.element][1:]}", *v))
            else:
                out.extend(struct.pack(CODE[t], v))

        for key, t, value in self.kv:
            name = key.decode("utf-8", "replace")
            marks.setdefault("key_len:" + name, len(out))
            put(STR, key)
            marks.setdefault("kv_type:" + name, len(out))
            out += struct.pack("<I", t)
            for mark, shift in (("arr_type:", 0), ("arr_n:", 4), ("str_len:", 0)):
                marks.setdefault(mark + name, len(out) + shift)
            put(t, value)
        marks["end_kv"] = len(out)
        for key, shape, t, offset in self.tensors:
            name = key.decode("utf-8", "replace")
            marks.setdefault("name_len:" + name, len(out))
            put(STR, key)
            marks.setdefault("n_dims:" + name, len(out))
            out += struct.pack("<I", len(shape))
            marks.setdefault("dim0:" + name, len(out))
            for n in shape:
                out += struct.pack("<Q", n & mask)
            marks.setdefault("ttype:" + name, len(out))
            out += struct.pack("<I", t & 0xFFFFFFFF)
            marks.setdefault("toff:" + name, len(out))
            out += struct.pack("<Q", offset & mask)
        return self._finished(out)

    def _finished(self, out: bytearray) -> tuple[bytes, int]:
        end = len(out)
        start = _pad(end, self.align)
        size = start + self.data_size
        out += bytes(start - end)
        for at, raw in self.pokes:
            place = self.marks[at] if isinstance(at, str) else at + end if at < 0 else at
            out[place : place + len(raw)] = raw
        size = max(0, (size if self.absolute is None else self.absolute) + self.delta)
        if self.cut is not None:
            return bytes(out[: self.cut]), len(out[: self.cut])
        return bytes(out[:size]), size


def _text(v: Any) -> bytes:
    return (
        v.encode()
        if isinstance(v, str)
        else bytes.fromhex(v["hex"])
        if "hex" in v
        else v["repeat"][0].encode() * v["repeat"][1]
    )  # type: ignore[no-any-return]


def _parsed(type_name: str, v: Any) -> tuple[int, Any]:
    if type_name.startswith("arr:"):
        if isinstance(v, dict):
            fill, span = v.get("fill"), v.get("range")
            v = [fill[0]] * fill[1] if fill else [f"{span[0]}{i}" for i in range(span[1])]
        return ARR, Array(TYPES[type_name[4:]], [_parsed(type_name[4:], x)[1] for x in v])
    t = TYPES[type_name]
    return t, _text(v) if t == STR else float(v) if t in (6, 12) else int(v)


def _converted(v: Any, source: int, t: int) -> Any:
    """A value of one type as another."""
    if isinstance(v, Array):
        v, source = (v[0] if v else 0), v.element
    if t == STR:
        if isinstance(v, bytes):
            return v
        return (("true" if v else "false") if source == 7 else repr(v)).encode()
    if isinstance(v, bytes):
        try:
            v = float(v) if t in (6, 12) else int(v)
        except ValueError:
            v = len(v)
    if t == 7:
        return 1 if v else 0
    if t in (6, 12):
        return float(v)
    v = (int(v) if math.isfinite(v) else 0) & (1 << abs(BITS[t])) - 1
    return v - (1 << -BITS[t]) if BITS[t] < 0 and v >> -BITS[t] - 1 else v


def _retype(h: _Header, op: dict[str, Any]) -> None:
    e = h.field(op)
    if op["type"].startswith("arr:"):
        t = TYPES[op["type"][4:]]
        old = e[2] if isinstance(e[2], Array) else Array(e[1], [e[2]])
        e[1:] = [ARR, Array(t, [_converted(x, old.element, t) for x in old])]
    else:
        t = TYPES[op["type"]]
        e[1:] = [t, _converted(e[2], e[1], t)]


def _set(h: _Header, op: dict[str, Any]) -> None:
    value = list(_parsed(op["type"], op["value"]))
    i = h.find(op["key"].encode())
    if i is None:
        h.kv.append([op["key"].encode(), *value])
    else:
        h.kv[i][1:] = value


def _array_len(h: _Header, op: dict[str, Any]) -> None:
    a, n = h.field(op)[2], op["n"]
    filler = a[-1] if a else b"" if a.element == STR else 0
    a[:] = (list(a) + [filler] * max(0, n - len(a)))[:n]


def _array_set(h: _Header, op: dict[str, Any]) -> None:
    a = h.field(op)[2]
    a[op["i"]] = _parsed(NAMES[a.element], op["value"])[1]


def _elem_type(h: _Header, op: dict[str, Any]) -> None:
    e, t = h.field(op), TYPES[op["type"]]
    e[2] = Array(t, [_converted(x, e[2].element, t) for x in e[2]])


def _move(items: list[Any], e: Any, to: int) -> None:
    items.remove(e)
    items.insert(to if to >= 0 else len(items), e)


def _swap(h: _Header, op: dict[str, Any]) -> None:
    a, b = h.field(op), h.field(op, "key2")
    a[1:], b[1:] = b[1:], a[1:]


def _on_tensor(change: Any) -> Any:
    def apply(h: _Header, op: dict[str, Any]) -> None:
        change(h, h.tensor(op), op)
        h.lay_out(op)

    return apply


def _add_tensor(h: _Header, op: dict[str, Any]) -> None:
    h.tensors.append([op["name"].encode(), list(op["dims"]), op["type"], h.data_size])
    h.lay_out(op)


def _del_tensors(h: _Header, op: dict[str, Any]) -> None:
    h.tensors = [e for e in h.tensors if not e[0].decode().endswith(tuple(op["ending"]))]
    h.lay_out()


def _gap(h: _Header, op: dict[str, Any]) -> None:
    for e in h.tensors[h.tensors.index(h.tensor(op)) :]:
        e[3] += op["bytes"]
    h.data_size += op["bytes"]


def _align(h: _Header, op: dict[str, Any]) -> None:
    _set(h, {"key": "general.alignment", "type": "u32", "value": op["value"]})
    if op.get("relayout", True) and op["value"] > 0:
        h.align = op["value"]
        h.lay_out()


def _arch(h: _Header, op: dict[str, Any]) -> None:
    e = h.field({"key": "general.architecture"})
    old, e[2] = e[2], op["to"].encode()
    if op.get("keys"):
        for f in h.kv:
            if f[0].startswith(old + b"."):
                f[0] = op["to"].encode() + f[0][len(old) :]


def _counts(h: _Header, op: dict[str, Any]) -> None:
    h.more_tensors += op.get("tensors", 0)
    h.more_kv += op.get("kv", 0)


_OPS: dict[str, Any] = {
    "del": lambda h, op: h.kv.remove(h.field(op)),
    "retype": _retype,
    "set": _set,
    "rename": lambda h, op: h.field(op).__setitem__(0, _text(op["to"])),
    "dup_key": lambda h, op: h.kv.append(list(h.field(op))),
    "move_key": lambda h, op: _move(h.kv, h.field(op), op["to"]),
    "swap_value": _swap,
    "insert_kv": lambda h, op: h.kv.insert(op["at"], [op["key"].encode(), *_parsed(op["type"], op["value"])]),
    "kv_type": lambda h, op: h.pokes.append(("kv_type:" + op["key"], struct.pack("<I", op["id"] & 0xFFFFFFFF))),
    "array_len": _array_len,
    "array_set": _array_set,
    "elem_type": _elem_type,
    "del_tensor": _on_tensor(lambda h, e, op: h.tensors.remove(e)),
    "del_tensors": _del_tensors,
    "rename_tensor": lambda h, op: h.tensor(op).__setitem__(0, op["to"].encode()),
    "dup_tensor": _on_tensor(
        lambda h, e, op: h.tensors.append([op.get("to", op["name"]).encode(), list(e[1]), e[2], h.data_size])
    ),
    "add_tensor": _add_tensor,
    "move_tensor": _on_tensor(lambda h, e, op: _move(h.tensors, e, op["to"])),
    "shape": _on_tensor(lambda h, e, op: e.__setitem__(1, list(op["dims"]))),
    "reverse_dims": _on_tensor(lambda h, e, op: e[1].reverse()),
    "ttype": _on_tensor(lambda h, e, op: e.__setitem__(2, op["type"])),
    "offset": lambda h, op: h.tensor(op).__setitem__(3, h.tensor(op)[3] + op["add"]),
    "gap": _gap,
    "align": _align,
    "arch": _arch,
    "counts": _counts,
    "version": lambda h, op: setattr(h, "version", op["v"]),
    "magic": lambda h, op: setattr(h, "magic", bytes.fromhex(op["hex"])),
    "truncate": lambda h, op: setattr(h, "delta", h.delta - op["bytes"]),
    "append": lambda h, op: setattr(h, "delta", h.delta + op["bytes"]),
    "truncate_to": lambda h, op: setattr(h, "absolute", op["bytes"]),
    "cut_header": lambda h, op: setattr(h, "cut", op["bytes"]),
    "poke": lambda h, op: h.pokes.append((op["at"], bytes.fromhex(op["hex"]))),
}
