"""Quantities as people write them: token counts (``32k``) and sizes (``16GiB``)."""

from __future__ import annotations

import re

from gguftool.errors import UsageError

_NUMBER = r"\d+(?:_\d+)*|\d{1,3}(?:,\d{3})+"
_COUNT = re.compile(rf"(?P<whole>{_NUMBER})(?P<part>\.\d+)?\s*(?:(?P<unit>[km])i?)?", re.IGNORECASE | re.ASCII)
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?)(?P<base>i?b)?", re.IGNORECASE | re.ASCII)
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
    match = _SIZE.fullmatch(clean)
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
