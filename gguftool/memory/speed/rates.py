"""How much a device reads and computes in a second: named, measured here, or out of its maker's specification.

`facts/data/devices.json` has a row a device: GB/s, 10^12 operations/s in 16 bits (dense), those of the fastest kind it
has (8 or 4 bits, dense), and where the figures are from. A bound takes the fastest, what is likely the 16 bits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.facts import data
from gguftool.memory.devices import HOST
from gguftool.memory.use import DeviceUse
from gguftool.records import dataclass, replace
from gguftool.regex import regex

GIGA, TERA = 10**9, 10**12
GIB = 1 << 30
_MODULES = regex(r"(?:lp)?ddr[3-6]x?-?(\d{3,5})(?:\s*x\s*(\d{1,2}))?", re.ASCII)
_NUMBER = regex(r"(\d{1,6}(?:\.\d{1,6})?)\s*(gb/s|tb/s)?", re.ASCII)
CHANNEL = 8
"""Bytes a channel of memory modules moves at once."""
TRANSFERS, CHANNELS = 5600, 2
ASSUMED = f"DDR5-{TRANSFERS}x{CHANNELS}"
"""Of the host, where nobody named it and nothing was measured."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What a device can do in a second.

    Attributes:
        bandwidth: bytes it reads.
        compute: operations on 16-bit numbers; 0: unknown.
        fastest: operations of the fastest kind it has; 0: unknown.
        source: where the figures are from, in words.
        basis: ``named``, ``measured``, ``specification`` or ``assumed``.
    """

    bandwidth: float
    compute: float
    fastest: float
    source: str
    basis: str

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Known:
    """A row of the table."""

    name: str
    words: tuple[str, ...]
    bandwidth: float
    fp16: float
    fastest: float
    memory: int | None
    source: str

    __repr__ = short_repr


@cache
def table() -> tuple[Known, ...]:
    """All devices, those with the longest name first."""
    rows = [
        Known(x["name"], _words(x["name"]), x["bandwidth"], x["fp16"], x["fastest"], x.get("memory"), x["source"])
        for x in data.load("devices.json")
    ]
    return tuple(sorted(rows, key=lambda x: -len(x.words)))


def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z]+\d*[a-z]*|\d+", text.lower().replace("(tm)", " ").replace("(r)", " ")))


def known(about: str, memory: int | None = None) -> Known | None:
    """The device that a text is about, for example ``NVIDIA GeForce RTX 4070 Ti SUPER``; None: none of the table.

    Args:
        about: what llama.cpp or a driver calls it.
        memory: its bytes, which tell apart those that share a name.
    """
    words = _words(about)
    if {"laptop", "mobile", "max-q", "maxq"} & set(words):
        return None  # other chips under the same names
    found = [x for x in table() if _within(x.words, words)]
    best = [x for x in found if len(x.words) == len(found[0].words)]
    if memory is not None and len(best) > 1:
        best.sort(key=lambda x: abs((x.memory or 0) * GIB - memory))
    return best[0] if best else None


def _within(name: Sequence[str], words: Sequence[str]) -> bool:
    """The words of a name one after another, or run together (``RTX4090``)."""
    n = len(name)
    return any(tuple(words[i : i + n]) == tuple(name) for i in range(len(words))) or "".join(name) in words


def parse(text: str) -> tuple[tuple[str, str], ...]:
    """``CUDA0=936,CPU=DDR5-5600x2`` as (device, what): a number of GB/s, memory modules, or the name of a device.

    A value without a device is for all but the host.

    Raises:
        UsageError: none of the three.
    """
    out = []
    for part in text.split(","):
        name, equals, value = (x.strip() for x in part.partition("="))
        name, value = (name, value) if equals else ("", name)
        rate_of(value)
        out.append((name, value))
    return tuple(out)


def shown_rates(named: Sequence[tuple[str, str]]) -> str:
    """What `parse` reads."""
    return ",".join(f"{name}={value}" if name else value for name, value in named)


def rate_of(text: str) -> Rate:
    """The rate that a text names.

    Raises:
        UsageError: it is no number of GB/s, no memory modules, and the name of no device of the table.
    """
    word = text.strip().lower()
    if found := _MODULES.fullmatch(word):
        return _of_modules(int(found[1]), int(found[2] or 1), f"{text} named", "named")
    if (found := _NUMBER.fullmatch(word)) and float(found[1]) > 0:
        return Rate(float(found[1]) * (TERA if found[2] == "tb/s" else GIGA), 0, 0, f"{text} named", "named")
    row = known(text)
    if row is None:
        raise UsageError(
            f"{text!r} is no bandwidth and no device that is known", "for example 936, RTX 3090 or DDR5-5600x2"
        )
    return _of(row, "named")


def _of_modules(transfers: int, channels: int, source: str, basis: str) -> Rate:
    return Rate(transfers * 1e6 * CHANNEL * channels, 0, 0, source, basis)


def _of(row: Known, basis: str) -> Rate:
    return Rate(row.bandwidth * GIGA, row.fp16 * TERA, row.fastest * TERA, f"{row.name}: {row.source}", basis)


def rates(
    devices: Sequence[DeviceUse], named: Sequence[tuple[str, str]] = (), host: Rate | None = None
) -> dict[str, Rate]:
    """The rate of each device, as far as it is known.

    Args:
        devices: those of a plan, the host last.
        named: what the user said, as `parse` gives it.
        host: what was measured of the host.

    Raises:
        UsageError: a device is named that is not there.
    """
    names = {d.name.lower() for d in devices}
    said = {name.lower(): value for name, value in named}
    odd = [name for name in said if name and name not in names]
    if odd:
        there = ", ".join(d.name for d in devices)
        raise UsageError(f"--bandwidth {odd[0]}: there is no such device", f"one of {there}")
    out = {}
    for d in devices:
        row = known(d.about, d.memory) if d.name != HOST else None
        found = _of(row, "specification") if row else None
        value = said.get(d.name.lower(), said.get("", "") if d.name != HOST else "")
        if value:
            spoken = rate_of(value)
            if found and not spoken.compute:
                spoken = replace(spoken, compute=found.compute, fastest=found.fastest)
            if d.name == HOST and host:
                spoken = replace(spoken, compute=spoken.compute or host.compute, fastest=spoken.fastest or host.fastest)
            found = spoken
        elif d.name == HOST:
            found = host or _of_modules(TRANSFERS, CHANNELS, f"{ASSUMED} assumed", "assumed")
        if found:
            out[d.name] = found
    return out
