"""Every command that writes a new file, ready to be run in a folder: the list that the tests of this room walk."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.build import llama
from tests.verify.sets import pieces, write

NAMES = ("fix --output", "split", "merge", "join", "repair", "manifest", "quantize", "prepare")


@dataclass(frozen=True, slots=True)
class Writer:
    """A command line, the files it reads, and those it leaves: ``made`` only has them when it has run."""

    argv: tuple[object, ...]
    sources: tuple[Path, ...]
    made: Callable[[], list[Path]]


def model(folder: Path) -> Path:
    """A model of llama.cpp's with 30 tensors."""
    return llama(layers=3).write(folder / "m.gguf")


def writer(name: str, folder: Path) -> Writer:
    """One of `NAMES`, its sources written to a folder."""
    out = folder / "out.gguf"
    source = model(folder)

    def one() -> list[Path]:
        return [out] if os.path.lexists(out) else []

    match name:
        case "fix --output":
            return Writer(("fix", source, "--set", "general.name=x", "--output", out), (source,), one)
        case "split":
            argv = ("split", source, "--max-tensors", 12, "-o", folder / "out")
            return Writer(argv, (source,), lambda: sorted(folder.glob("out-*.gguf")))
        case "merge":
            source.unlink()
            shards = write(pieces(llama(layers=3), [10, 20]), folder)
            return Writer(("merge", shards[1], "-o", out), tuple(shards), one)
        case "join":
            data, raws = source.read_bytes(), [folder / f"raw.gguf.part{i}of2" for i in (1, 2)]
            for raw, part in zip(raws, (data[:9000], data[9000:]), strict=True):
                raw.write_bytes(part)
            return Writer(("verify", "--join", out, raws[0]), tuple(raws), one)
        case "repair":
            good, data = folder / "good.gguf", bytearray(source.read_bytes())
            good.write_bytes(data)
            data[-100] ^= 1
            out.write_bytes(data)
            return Writer(("verify", "--repair-from", good, "--sha256", digest(good), out), (out,), one)
        case "manifest":
            return Writer(("verify", "--write-manifest", out, source), (source,), one)
        case "quantize":
            return Writer(("quantize", source, out, "Q8_0", "--engine", "builtin"), (source,), one)
        case "prepare":
            return Writer(("prepare", source, "-o", out), (source,), one)
    raise KeyError(name)


def digest(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()
