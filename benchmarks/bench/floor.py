"""The limit: what a command costs at least, whoever writes it.

Bytes that must be read, copied or hashed at the speed of this machine's memory and processor, measured in the same run,
and the start of Python. Files lie in the page cache; from a disk they come slower, for everybody.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

PIECE = 1 << 20
SIZE = 64 << 20


@dataclass(frozen=True, slots=True)
class Speeds:
    """Bytes a second of processor time.

    Attributes:
        read: from the page cache into memory.
        write: from memory into the page cache.
        copy: in the kernel, from file to file.
        sha256: by OpenSSL, as `hashlib` calls it.
        memory: from memory to memory.
    """

    read: float
    write: float
    copy: float
    sha256: float
    memory: float

    def __str__(self) -> str:
        parts = {"page cache read": self.read, "written": self.write, "copied": self.copy, "memory": self.memory}
        shown = ", ".join(f"{name} {value / 1e9:.1f}" for name, value in parts.items())
        return f"GB a second of processor time: {shown}, sha256 {self.sha256 / 1e9:.2f}"


def _best(work: Callable[[], object], times: int = 5) -> float:
    """Bytes a second of a work on `SIZE` bytes."""
    took = []
    for _ in range(times):
        begun = time.process_time()
        work()
        took.append(time.process_time() - begun)
    return SIZE / max(min(took), 1e-6)


def speeds(folder: Path) -> Speeds:
    """Measure, with a file of 64 MiB in ``folder``."""
    data, room = bytearray(os.urandom(PIECE)) * (SIZE // PIECE), bytearray(SIZE)
    path, other = folder / "speed", folder / "speed.copy"
    piece = memoryview(bytearray(PIECE))

    def write() -> None:
        with open(path, "wb", buffering=0) as f:
            f.write(data)

    def read() -> None:
        # A piece that stays in the cache of the processor, as a hash or a parser has it.
        with open(path, "rb", buffering=0) as f:
            while f.readinto(piece):
                pass

    def copied() -> None:
        with open(path, "rb") as a, open(other, "wb") as b:
            left = SIZE
            while left:
                left -= os.copy_file_range(a.fileno(), b.fileno(), left)

    def memory() -> None:
        room[:] = data

    try:
        wrote = _best(write)
        return Speeds(
            read=_best(read),
            write=wrote,
            copy=_best(copied) if hasattr(os, "copy_file_range") else wrote,
            sha256=_best(lambda: hashlib.sha256(data).digest()),
            memory=_best(memory),
        )
    finally:
        for made in (path, other):
            made.unlink(missing_ok=True)


def limit(needs: tuple[str, ...], speed: Speeds, sizes: Mapping[str, int], start: float) -> float | None:
    """Seconds of processor time that a row cannot do without; None for a row that needs nothing.

    Args:
        needs: ``start`` (of Python), ``header``, ``data`` or ``f16`` (read), ``sha256`` (read and hash), ``copy``, and
            ``write NAME``; each as often as it must be done.
        speed: of this machine.
        sizes: bytes: ``header``, ``data``, ``f16``, and of each ``NAME``.
        start: seconds of ``python -c pass``.
    """
    total = 0.0
    for need in needs:
        if need == "start":
            total += start
        elif need == "sha256":
            total += sizes["data"] / speed.sha256 + sizes["data"] / speed.read
        elif need == "copy":
            total += sizes["data"] / speed.copy
        elif need.startswith("write "):
            total += sizes.get(need[6:], 0) / speed.write
        else:
            total += sizes[need] / speed.read
    return total if needs else None
