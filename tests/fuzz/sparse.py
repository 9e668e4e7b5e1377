"""Files of a few kilobytes on the disk that state gigabytes: bytes, and holes that are read as zeros."""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path

from tests.build import GGUF

ON_DISK = 64 << 10
"""Bytes that a file may take on the disk."""
M = 1 << 20

Piece = bytes | int
"""Bytes, or the length of a hole."""


@dataclass
class File:
    """A header in pieces; ``fields`` and ``tensors``: how many there are in ``records`` and ``infos``.

    Attributes:
        behind: bytes of zeros behind the header.
        whole: the pieces are a whole file, with its first bytes.
        name: of the file, where it matters.
    """

    records: list[Piece] = field(default_factory=list)
    fields: int = 0
    infos: list[Piece] = field(default_factory=list)
    tensors: int = 0
    version: int = 3
    order: str = "<"
    behind: int = 0
    whole: bool = False
    name: str = ""

    def text(self, s: bytes | int) -> list[Piece]:
        """A string; a number for one of so many zero bytes."""
        n = s if isinstance(s, int) else len(s)
        return [struct.pack(self.order + ("I" if self.version == 1 else "Q"), n), s]

    def add(self, key: bytes | int, *value: Piece, many: int = 1) -> File:
        """A field: its type id and value as pieces."""
        self.records += [*self.text(key), *value]
        self.fields += many
        return self

    def string(self, key: bytes, value: bytes | int, more: Piece = b"") -> File:
        """A string that ends in a hole of ``more`` bytes."""
        n = (value if isinstance(value, int) else len(value)) + (more if isinstance(more, int) else len(more))
        return self.add(key, struct.pack(self.order + "IQ", 8, n), value, more)

    def array(self, key: bytes, kind: int, count: int, size: int, first: bytes = b"") -> File:
        """An array of ``count`` elements of ``size`` bytes each: zeros, but for the first ones."""
        code = "I" if self.version == 1 else "Q"
        head = struct.pack(self.order + "II" + code, 9, kind, count)
        return self.add(key, head + first, size * count - len(first))

    def number(self, key: bytes, value: int, kind: int = 4, code: str = "I") -> File:
        """A number, a u32 unless told otherwise."""
        return self.add(key, struct.pack(self.order + "I" + code, kind, value))

    def tensor(self, name: bytes, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> File:
        """One tensor."""
        head = struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in shape)
        self.infos += [*self.text(name), head + struct.pack("<IQ", kind, offset)]
        self.tensors += 1
        return self

    def pieces(self) -> list[Piece]:
        """The whole file."""
        code = "II" if self.version == 1 else "QQ"
        counts = struct.pack(self.order + "I" + code, self.version, self.tensors, self.fields)
        return [b"" if self.whole else b"GGUF" + counts, *self.records, *self.infos, self.behind]

    def write(self, path: Path) -> None:
        """The file, its zeros as holes."""
        write(path, self.pieces())


def write(path: Path, pieces: list[Piece]) -> None:
    """A file of pieces."""
    with open(path, "wb") as f:
        for piece in pieces:
            if isinstance(piece, int):
                f.seek(piece, os.SEEK_CUR)
            else:
                f.write(piece)
        f.truncate()


def packed(file: File) -> bytes:
    """A file as a few bytes, holes as their lengths: what a corpus keeps."""
    pieces = [p if isinstance(p, int) else p.hex() for p in file.pieces() if p]
    return json.dumps({"name": file.name, "pieces": pieces}).encode()


def unpacked(data: bytes) -> tuple[str, list[Piece]]:
    """The name and the pieces of `packed`."""
    found = json.loads(data)
    return found["name"], [p if isinstance(p, int) else bytes.fromhex(p) for p in found["pieces"]]


def holed(g: GGUF) -> File:
    """A file of the fixture builder, its data zeros."""
    whole = File(whole=True)
    whole.infos, whole.behind = [g.header()], len(g.bytes()) - len(g.header())
    return whole


def base(arch: bytes = b"llama", layers: int = 1) -> File:
    """The least that is a model."""
    return File().string(b"general.architecture", arch).number(arch + b".block_count", layers)


TOKENS = b"tokenizer.ggml.tokens"


def vocabulary(n: int, model: bytes = b"llama") -> File:
    """A model with ``n`` empty tokens."""
    return base().string(b"tokenizer.ggml.model", model).array(TOKENS, 8, n, 8)


def long_keys(n: int, step: int) -> File:
    """Keys of zero bytes, each ``step`` longer than the one before: all are different."""
    out = base()
    for i in range(1, n):
        out.add(i * step, struct.pack("<IB", 0, 1))
    return out


def dense(n: int, *, tensors: bool) -> File:
    """As many short records as go into 64 KB."""
    out = base()
    for i in range(n):
        name = b"%x" % i
        if tensors:
            out.tensor(name, (1 << 62, 3), kind=i % 40, offset=(i & 0x3FFF) << 50)
        else:
            out.add(name, struct.pack("<IB", 0, 1))
    return out
