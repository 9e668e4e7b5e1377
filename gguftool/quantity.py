"""Quantities as people write and read them: whole numbers, token counts (``32k``), sizes (``16GiB``)."""

from __future__ import annotations

import re

from gguftool.errors import UsageError
from gguftool.regex import regex

_NUMBER = r"\d+(?:_\d+)*|\d{1,3}(?:,\d{3})+"
_COUNT = regex(rf"(?P<whole>{_NUMBER})(?P<part>\.\d+)?\s*(?:(?P<unit>[km])i?)?", re.IGNORECASE | re.ASCII)
_SIZE = regex(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?)(?P<base>i?b)?", re.IGNORECASE | re.ASCII)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
SMALLEST = 1 << 20
"""Bytes below which a number without a unit is taken for one whose unit was forgotten."""


def count(text: str) -> int:
    """A number of tokens: ``32768``, ``32_768``, ``32,768``, ``32k`` (1024 each, in either case), ``1M``.

    Raises:
        UsageError: it is none.
    """
    match = _COUNT.fullmatch(text.strip()) if len(text) <= 40 else None
    if match:
        times = 1 << 10 * _POWER[(match["unit"] or "").lower()]
        digits = (match["part"] or "")[1:]
        more, rest = divmod(int(digits or "0") * times, int("1" + "0" * len(digits)))
        if not rest:
            return int(re.sub("[_,]", "", match["whole"])) * times + more
    raise UsageError(f"{text!r} is not a whole number; write for example 32768, 32k (that is 32768) or 1M.")


def size(text: str, bare_base: int = 1024, *, small: bool = False) -> int:
    """A number of bytes: ``16GiB`` (binary), ``4GB`` (decimal), ``512M``.

    Args:
        text: what the user typed.
        bare_base: what a letter alone stands for, 1024 (``G`` is GiB) or 1000 (as llama-gguf-split has it).
        small: take a small number without a unit as bytes; else it is refused, but for 0.

    Raises:
        UsageError: it is none, or its unit is missing.
    """
    clean = text.strip()
    match = _SIZE.fullmatch(clean) if len(clean) <= LONGEST else None
    if not match:
        raise UsageError(f"{text!r} is not a size; write for example 512MiB, 16GiB or 4GB.")
    suffix = (match["base"] or "").lower()
    base = {"ib": 1024, "b": 1000}.get(suffix, bare_base)
    bytes_ = round(float(match["number"]) * float(base ** _POWER[match["unit"].lower()]))
    # `--vram 16` on a machine with 16 GB: whoever writes a bare number means the unit on the box.
    if not (match["unit"] or suffix or small) and 0 < float(match["number"]) < SMALLEST:
        unit = ("GiB" if float(match["number"]) < 1024 else "MiB") if bare_base == 1024 else "G"
        raise UsageError(f"{clean} bytes? Name the unit: {clean}{unit}? ({clean}B if bytes are meant.)")
    return bytes_


def whole(text: str, base: int = 10) -> int | None:
    """The whole number that ASCII digits spell; None for anything else (``²`` is a digit, too, and no number)."""
    digits = _DIGITS[base]
    return int(text, base) if 0 < len(text) <= LONGEST and set(text) <= digits else None


_DIGITS = {10: frozenset("0123456789"), 16: frozenset("0123456789abcdefABCDEF")}
LONGEST = 40
"""Digits of a number that is one; int() refuses 4,300."""


def is_number(text: str) -> bool:
    """Whether it is a number of any kind: ``-1``, ``.5``, ``1e6``."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def human(n: int | float) -> str:
    """Bytes for people, in binary units with one decimal: ``512 B``, ``241.4 MiB``."""
    if abs(n) < 1024:
        return f"{n:.0f} B"
    # Numbers out of a hostile header can be larger than any float.
    exponent = 0
    while abs(n) >= 1 << 60 and exponent < 4:
        n, exponent = int(n) >> 10, exponent + 1
    value = float(min(n, 1 << 1000))
    for unit in _UNITS[exponent:]:
        value /= 1024
        # 1023.95 would be shown as "1024.0 KiB".
        if abs(value) < 1023.95 or unit == _UNITS[-1]:
            return f"{value:.1f} {unit}"
    return f"{value:.1f} {_UNITS[-1]}"


_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def exact(n: int) -> str:
    """Bytes as `size` reads them back, to the byte: ``16GiB``, ``1000B``."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if n and n % (1 << power) == 0:
            return f"{n >> power}{unit}"
    return f"{n}B" if n else "0"
