"""Programs beside llama.cpp that read or write GGUF, or once did: their architectures, tensor types and file types.

The table is `facts/data/programs.json`, by hand from the sources of each program; every program names its source. A
number may mean one thing here and another there: forks number their tensor types as they like.
"""

from __future__ import annotations

from functools import cache
from math import prod

from gguftool.facts.data import load
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Program:
    """A program that a file was made for.

    Attributes:
        key: its name in the table.
        name: what to call it.
        way: how to run the file with it, or what else helps.
    """

    key: str
    name: str
    way: str


@dataclass(frozen=True, slots=True)
class ForkType:
    """A tensor type of a fork: ``block`` elements in ``size`` bytes and ``row`` bytes before each row.

    Attributes:
        name: what the fork calls it.
        form: ``ternary`` or ``tl2`` for those of bitnet.cpp, whose size is no matter of blocks; else "".
        block: 0 when the sizes are not known.
    """

    name: str
    form: str = ""
    block: int = 0
    size: int = 0
    row: int = 0

    def nbytes(self, shape: tuple[int, ...]) -> int | None:
        """Bytes of a tensor of that shape; None when the sizes are not known or the shape is no whole number of blocks.

        Source: `ggml.c:ggml_nbytes` and `ggml_row_size` of the fork.
        """
        first, rows = (shape[0] if shape else 1), prod(shape[1:])
        if self.form == "ternary":
            return first * rows // 4 + 32
        if self.form == "tl2":
            whole = (first - 256) * rows // 3 * 5 // 8 + 256 * rows // 2 * 4 // 8
            return whole + -whole % 32 + 32 if first >= 256 else None
        if not self.block or first % self.block:
            return None
        return rows * (self.row + first // self.block * self.size)


def program(key: str) -> Program:
    """The program of that key in the table."""
    entry = load("programs.json")["programs"][key]
    return Program(key, entry["name"], entry["way"])


@cache
def architectures() -> dict[str, tuple[str, str]]:
    """`general.architecture` that llama.cpp does not know -> role of the file, program it was made for."""
    return {
        name: (entry["role"], entry["program"])
        for entry in load("programs.json")["architectures"]
        for name in entry["names"].split()
    }


@cache
def tensor_types() -> dict[int, dict[str, ForkType]]:
    """Number of a tensor type -> program -> what it is there; in the order in which programs are asked."""
    found: dict[int, dict[str, ForkType]] = {}
    for key, types in load("programs.json")["tensor_types"].items():
        for number, (name, *rest) in types.items():
            kind = ForkType(name, rest[0]) if rest and isinstance(rest[0], str) else ForkType(name, "", *rest)
            found.setdefault(int(number), {})[key] = kind
    return found


def converter_elsewhere(architecture: str) -> str:
    """What helps with a Hugging Face architecture that llama.cpp will not have; "" when nothing is known."""
    way: str = load("programs.json")["source_architectures"].get(architecture, "")
    return way


def file_type(key: str, number: int) -> str:
    """Name of a `general.file_type` of a program; "" when it has none of its own under that number."""
    name: str = load("programs.json")["file_types"].get(key, {}).get(str(number & ~1024), "")
    return name
