"""What a value of an option looks like: how its text is read, and how it is written again.

Pure functions; ``parse`` raises `UsageError` with what would be right, ``show`` writes what ``parse`` reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.facts.cachetypes import CACHE_TYPES
from gguftool.memory.settings import MAX_SEQUENCES
from gguftool.memory.speed.rates import parse, shown_rates
from gguftool.quantity import count, exact, size
from gguftool.records import dataclass
from gguftool.regex import regex

AUTO_LAYERS, ALL_LAYERS = -1, -2
"""What llama.cpp makes of ``-ngl auto`` and ``-ngl all`` (`common/arg.cpp`, b11434)."""
MOST_DEVICES = 128
_WHOLE = regex(r"[+-]?[0-9]{1,18}", re.ASCII)
_FLOAT = regex(
    r"\s*[+-]?(0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?"
    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)",
    re.ASCII,
)
_LARGEST = 3.4e38
_ENDPOINT = regex(r"(\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|[^\s:\[\]/=]+):([0-9]{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of values.

    Attributes:
        metavar: how help shows it; "" for a switch.
        parse: text to value.
        show: value to the text that `parse` and llama.cpp read.
        many: the value is a tuple, and an option given again adds to it.
        values: all that is allowed, when it is a list.
    """

    metavar: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str] = str
    many: bool = False
    values: tuple[str, ...] = ()

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class RpcServer:
    """A ``ggml-rpc-server``: where it listens, and bytes of memory to count on (None: what it says itself)."""

    endpoint: str
    memory: int | None = None


def whole(text: str) -> int:
    """A whole number in digits of ASCII.

    Raises:
        UsageError: it is none.
    """
    clean = text.strip()
    if not _WHOLE.fullmatch(clean):
        raise UsageError(f"{text!r} is not a whole number")
    return int(clean)


def numbers(low: int | None = None, high: int | None = None, metavar: str = "N") -> Kind:
    """Whole numbers from ``low`` to ``high``."""

    def parse(text: str) -> int:
        n = whole(text)
        if (low is not None and n < low) or (high is not None and n > high):
            raise UsageError(f"{n} is out of range", _range(low, high))
        return n

    return Kind(metavar, parse)


def _range(low: int | None, high: int | None) -> str:
    return f"from {low} to {high}" if high is not None else f"{low} or more"


def tokens(text: str) -> int:
    """A number of tokens; ``32k`` is 32,768."""
    n = count(text)
    if n >= 2**31:
        raise UsageError(f"{n} tokens are out of range")
    return n


def choice(*values: str, also: dict[str, str] | None = None) -> Kind:
    """One of ``values``; ``also``: other words that llama.cpp takes, and what they mean."""

    def parse(text: str) -> str:
        word = (also or {}).get(text, text)
        if word not in values:
            raise UsageError(f"{text!r} is not one of " + ", ".join(repr(v) for v in values))
        return word

    return Kind("|".join(values), parse, values=values)


def words(*values: str) -> Kind:
    """One or several of ``values`` with commas between them."""

    def parse(text: str) -> tuple[str, ...]:
        out = tuple(part.strip() for part in text.split(","))
        for word in out:
            if word not in values:
                raise UsageError(f"{word!r} is not one of " + ", ".join(values))
        return out

    return Kind("NAME[,NAME…]", parse, ",".join, many=True, values=values)


def seconds(text: str) -> float:
    """A positive number of seconds."""
    n = _number(_FLOAT.fullmatch(text))
    if n is None or n < 1:
        raise UsageError(f"{text!r} is not a number of seconds, 1 or more")
    return n


def _number(found: re.Match[str] | None) -> float | None:
    """The number that `_FLOAT` found, also in hexadecimal; None: it is none, or too large for llama.cpp's floats."""
    if not found:
        return None
    word = found[0].strip()
    try:
        n = float.fromhex(word) if "x" in word.lower() else float(word)
    except OverflowError:
        return None
    return n if abs(n) <= _LARGEST else None


def shown_float(x: float) -> str:
    """The shortest text that is read as the same number."""
    return repr(x).removesuffix(".0")


def layers(text: str) -> int:
    """``-ngl``: a number, ``auto`` (or -1) or ``all``; llama.cpp takes any other negative number for all."""
    word = text.strip()
    if word in ("auto", "all"):
        return AUTO_LAYERS if word == "auto" else ALL_LAYERS
    if not _WHOLE.fullmatch(word):
        raise UsageError(f"{text!r}: expected a number, all or auto")
    n = int(word)
    if n >= 2**31:
        raise UsageError(f"{n} layers are out of range")
    return n if n >= AUTO_LAYERS else ALL_LAYERS


def shown_layers(n: int) -> str:
    """What `layers` reads."""
    return {AUTO_LAYERS: "auto", ALL_LAYERS: "all"}.get(n, str(n))


def slots(text: str) -> int | None:
    """``-np``: a number, or ``auto`` (llama.cpp: -1), llama-server's own choice, which is None here."""
    word = text.strip()
    if word == "auto":
        return None
    if not _WHOLE.fullmatch(word):
        raise UsageError(f"{text!r}: expected a number or auto")
    n = int(word)
    if n < 0:
        return None
    if not 1 <= n <= MAX_SEQUENCES:
        raise UsageError(f"{n} slots are out of range", f"llama.cpp takes 1 to {MAX_SEQUENCES}")
    return n


def shown_slots(n: int | None) -> str:
    """What `slots` reads."""
    return "auto" if n is None else str(n)


def split(text: str) -> tuple[float, ...]:
    """``-ts``: shares with ``,`` or ``/`` between them, each read as `std::stof` reads it (``1e0``, ``0x2``, ``.5``).

    Raises:
        UsageError: a share is no number, none is positive, or there are too many.
    """
    parts = re.split(r"[,/]+", text)
    if len(parts) > 1 and not parts[-1]:
        parts.pop()
    out = []
    for part in parts:
        share = _number(_FLOAT.match(part))
        if share is None:
            raise UsageError(f"{text!r}: expected numbers", "for example 3,1")
        if share < 0:
            raise UsageError(f"{text!r}: a share is a positive number", "for example 3,1")
        out.append(share)
    if not any(out):
        raise UsageError(f"{text!r}: every share is nothing", "for example 3,1")
    if len(out) >= MOST_DEVICES:
        raise UsageError(f"{len(out)} shares: llama.cpp takes fewer than {MOST_DEVICES}")
    return tuple(out)


def shown_split(shares: tuple[float, ...]) -> str:
    """What `split` reads."""
    return ",".join(shown_float(x) for x in shares)


def sizes(text: str) -> tuple[int, ...] | str:
    """``--vram``: the memory of each device, ``auto``, or ``none`` (an empty tuple)."""
    word = text.strip().lower()
    if word == "auto":
        return word
    if word in ("0", "none"):
        return ()
    return tuple(n for part in text.split(",") if (n := size(part)))


def shown_sizes(value: tuple[int, ...] | str) -> str:
    """What `sizes` reads."""
    return value if isinstance(value, str) else ",".join(exact(n) for n in value) or "none"


def ram(text: str) -> int | str:
    """``--ram``: a size, or ``auto``."""
    return "auto" if text.strip().lower() == "auto" else size(text)


def shown_ram(value: int | str) -> str:
    """What `ram` reads."""
    return value if isinstance(value, str) else exact(value)


def rpc(text: str) -> tuple[RpcServer, ...]:
    """``host:port=24GiB,[fe80::1]:port`` as data.

    Raises:
        UsageError: not HOST:PORT, a port that is none, or not a size.
    """
    out = []
    for part in text.split(","):
        endpoint, equals, memory = (x.strip() for x in part.partition("="))
        found = _ENDPOINT.fullmatch(endpoint)
        if not found or not 0 < int(found[2]) < 65536:
            wrong = f"{part.strip()!r} is not HOST:PORT or HOST:PORT=SIZE"
            raise UsageError(wrong, "for example 192.168.1.7:50052=24GiB")
        out.append(RpcServer(endpoint, size(memory) if equals else None))
    return tuple(out)


def shown_rpc(servers: tuple[RpcServer, ...]) -> str:
    """What `rpc` reads."""
    return ",".join(r.endpoint + (f"={exact(r.memory)}" if r.memory is not None else "") for r in servers)


def devices(text: str) -> tuple[str, ...]:
    """``-dev``: names in order; ``none`` alone: no device at all."""
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        raise UsageError(f"{text!r}: a name is missing", "for example CUDA0,CUDA1; none for the CPU")
    if "none" in names and len(names) > 1:
        raise UsageError(f"{text!r}: none stands alone", "none for the CPU, or the names of devices")
    return names


def overrides(text: str) -> tuple[tuple[str, str], ...]:
    """``-ot``: ``REGEX=DEVICE`` with commas between them; for llama.cpp the first ``=`` ends the pattern."""
    out = []
    for part in text.split(","):
        pattern, equals, device = part.partition("=")
        if not equals or not pattern or not device:
            raise UsageError(f"{part!r}: expected REGEX=DEVICE", r"for example 'ffn_.*_exps=CPU'")
        out.append((pattern, device))
    return tuple(out)


def shown_overrides(rules: tuple[tuple[str, str], ...]) -> str:
    """What `overrides` reads."""
    return ",".join(f"{pattern}={device}" for pattern, device in rules)


def cache_type(text: str) -> str:
    """One type of the KV cache, as llama.cpp spells it."""
    name = text.strip().lower()
    if name not in CACHE_TYPES:
        raise UsageError(f"{text!r} is not a cache type", "one of " + ", ".join(CACHE_TYPES))
    return name


def row(text: str) -> tuple[str, ...]:
    """A list with commas, a part in double quotes where it holds one (`common/arg.cpp:parse_csv_row`)."""
    out, field, quoted, i = [], "", False, 0
    while i < len(text):
        c = text[i]
        if c == '"' and quoted and text[i + 1 : i + 2] == '"':
            field += c
            i += 1
        elif c == '"' and (quoted or not field):
            quoted = not quoted
        elif c == "," and not quoted:
            out.append(field)
            field = ""
        else:
            field += c
        i += 1
    return (*out, field)


def shown_row(parts: tuple[str, ...]) -> str:
    """What `row` reads."""
    return ",".join(_quoted(part) for part in parts)


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"' if "," in part or part.startswith('"') else part


def scaled(text: str) -> tuple[tuple[str, float], ...]:
    """``FILE:SCALE,…``; llama.cpp takes no other colon in it."""
    out = []
    for part in row(text):
        name, colon, number = part.rpartition(":")
        scale = _number(_FLOAT.fullmatch(number))
        if not colon or not name or ":" in name or scale is None:
            raise UsageError(f"{part!r}: expected FILE:SCALE", "for example adapter.gguf:0.5")
        out.append((name, scale))
    return tuple(out)


def shown_scaled(pairs: tuple[tuple[str, float], ...]) -> str:
    """What `scaled` reads."""
    return shown_row(tuple(f"{name}:{shown_float(scale)}" for name, scale in pairs))


def text(value: str) -> str:
    """Text as it is; llama.cpp has no use for an empty one."""
    if not value:
        raise UsageError("a value is missing")
    return value


TEXT = Kind("TEXT", text)
FILE = Kind("FILE", text)
SWITCH = Kind("", lambda text: True)
TOKENS = Kind("N", tokens)
LAYERS = Kind("N|auto|all", layers, shown_layers)
SLOTS = Kind("N|auto", slots, shown_slots)
SPLIT = Kind("N,N", split, shown_split)
SIZE = Kind("SIZE", size, exact)
SIZES = Kind("SIZE[,SIZE…]|auto|none", sizes, shown_sizes)
RAM = Kind("SIZE|auto", ram, shown_ram)
RPC = Kind("HOST:PORT[=SIZE],…", rpc, shown_rpc, many=True)
DEVICES = Kind("NAMES", devices, ",".join)
OVERRIDES = Kind("REGEX=DEVICE", overrides, shown_overrides, many=True)
CACHE_TYPE = Kind("TYPE", cache_type, values=tuple(CACHE_TYPES))
FILES = Kind("FILE[,FILE…]", row, shown_row, many=True)
SCALED = Kind("FILE:SCALE,…", scaled, shown_scaled, many=True)
BANDWIDTH = Kind("[DEVICE=]RATE,…", parse, shown_rates, many=True)
SECONDS = Kind("N", seconds, shown_float)
ON_OFF_WORDS = {
    **dict.fromkeys(("true", "1", "enabled"), "on"), **dict.fromkeys(("false", "0", "disabled"), "off"), "-1": "auto",
}  # fmt: skip
"""Other words llama.cpp takes for on, off and auto (`arg.cpp:is_truthy`)."""
