"""The options of every program of llama.cpp, of the build that our facts are from (`facts/data/options.json`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.facts.data import load
from gguftool.quantity import LONGEST, count
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.run.capabilities import Capabilities, Option, known
from gguftool.run.options.table import normal

SERVER, CLI = "llama-server", "llama-cli"
_INT = regex(r"\s*[+-]?[0-9]+", re.ASCII)
_FLOAT = regex(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Values:
    """What a program takes as the value of an option.

    Attributes:
        kind: ``int`` or ``float``, read as C++ does, which leaves what stands behind the digits; "" for text.
        listed: all that is allowed, when it is a list.
    """

    kind: str = ""
    listed: tuple[str, ...] = ()

    __repr__ = short_repr


@cache
def programs() -> Mapping[str, Capabilities]:
    """The options of each program by its name, scripts of Python among them."""
    table = load("options.json")
    build = known().build
    out = {}
    for name, entry in table["programs"].items():
        rows = entry["options"] if "options" in entry else _of_set(table["shared"], entry["set"])
        out[name] = Capabilities(tuple(_option(row) for row in rows), build, assumed=True)
    return out


def of_app(command: str) -> str | None:
    """The program behind a command of ``llama``: ``serve`` is llama-server."""
    found: str | None = load("options.json")["app"].get(command)
    return found


def having(name: str) -> list[str]:
    """The programs that take a spelling, the best known first."""
    found = [p for p, c in programs().items() if c.takes(name)]
    return sorted(found, key=lambda p: (_RANK.index(p) if p in _RANK else len(_RANK), p))


_RANK = (SERVER, CLI, "llama-completion", "llama-quantize", "llama-bench", "llama-perplexity", "llama-imatrix",
         "llama-gguf-split", "convert_hf_to_gguf.py", "llama-mtmd-cli", "llama-embedding")  # fmt: skip


@cache
def _values() -> dict[str, Values]:
    return {
        name: Values(row.get("kind", ""), tuple(v for v in row.get("values", ()) if v))
        for row in load("options.json")["shared"]
        for name in row["names"]
    }


def values(name: str) -> Values:
    """What the programs that share `common/arg.cpp` take as the value of an option."""
    return _values().get(normal(name), Values())


def refused(name: str, value: str) -> tuple[str, str]:
    """Why llama.cpp would not take a value as it was meant, and how to say it; both empty: it takes it.

    Source: `common/arg.cpp:common_params_parse_ex` (b11434): numbers are read by `std::stoi` and `std::stof`, which
    take ``32k`` for 32.
    """
    takes = values(name)
    if takes.listed and value not in takes.listed:
        return f"{value!r} is not one of " + ", ".join(takes.listed), ""
    pattern = {"int": _INT, "float": _FLOAT}.get(takes.kind)
    if pattern is None:
        return "", ""
    found = pattern.match(value)
    if takes.kind == "int" and found is not None and (len(found[0]) > LONGEST or abs(int(found[0])) >= 2**31):
        return f"{value} is out of the range that llama.cpp reads", ""
    if found is not None and found.end() == len(value):
        return "", ""
    meant = _meant(value) if takes.kind == "int" else ""
    if found is not None:
        return f"llama.cpp reads {value} as {found[0].strip()}", meant
    return f"{value!r} is no number", meant


def _meant(value: str) -> str:
    try:
        return str(count(value))
    except UsageError:
        return ""


def _of_set(rows: list[Any], which: str) -> list[Any]:
    """The options of a set of programs (`arg.cpp:common_params_parser_init`)."""
    return [
        row
        for row in rows
        if (which in row.get("in", ["COMMON"]) or (which != "DOWNLOAD" and "COMMON" in row.get("in", ["COMMON"])))
        and which not in row.get("not", ())
    ]


def _option(row: Any) -> Option:
    names = (*row["names"], *row.get("off", ()))
    return Option(names, row.get("value", ""), row.get("env", ""), removed=row.get("removed", False))
