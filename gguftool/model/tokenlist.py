"""The token list of a vocabulary as bytes, and its tokens by their text; nothing in it holds the model."""

from __future__ import annotations

import re
import struct
from functools import cache, cached_property
from typing import Any

from gguftool.format import again
from gguftool.format.header import Field

_WINDOW = 1 << 20
"""Bytes of strings that are cut at a time."""
_WALK = 1 << 20
"""Tokens walked past in searches, after which a map is made."""


class TokenList:
    """The strings of an array, each with its length prefix, so that no slice per token is needed.

    Attributes:
        records: in order.
        all_short: none has more than 255 bytes, as far as that was told on the way.
        prefix: how a length is written.
        told: what else was found out about them, by name.
    """

    def __init__(self, f: Field | None) -> None:
        found = [] if f is None else short_strings(f)
        self.all_short = f is not None and found is not None
        self.records: list[bytes] = long_strings(f) if found is None and f is not None else found or []
        self.prefix = struct.Struct(f.layout.order + f.layout.length_code if f is not None else "<Q")
        self._walked = 0
        self.told: dict[str, Any] = {}

    @cached_property
    def zero_bytes(self) -> int:
        """Zero bytes among them, length prefixes included."""
        return b"".join(self.records).count(0)

    @cached_property
    def by_record(self) -> dict[bytes, int]:
        """Number of each; of equal ones the last one wins, as in llama.cpp's map."""
        return dict(zip(self.records, range(len(self.records)), strict=True))

    @cached_property
    def different(self) -> frozenset[bytes]:
        """Half the time and memory of the map, and most questions are for tokens that are not there."""
        return frozenset(self.records)

    def record(self, text: str) -> bytes:
        """As it would stand in the list."""
        data = text.encode("utf-8", "surrogateescape")
        return self.prefix.pack(len(data)) + data

    def find(self, text: str) -> int | None:
        """Number of a text; None when it is not there."""
        if not self.records:
            return None
        record = self.record(text)
        if record not in self.different:
            return None
        # A few are found faster by walking than by making the map; of equal ones the map knows the last.
        if "by_record" in self.__dict__ or self._walked > _WALK or len(self.different) < len(self.records):
            return self.by_record[record]
        found = self.records.index(record)
        self._walked += found
        return found


def token_list(f: Field | None) -> TokenList:
    """The token list in a field; None gives an empty one."""
    return TokenList(None) if f is None else again.of(f, "tokens", lambda: TokenList(f))


@cache
def _pattern() -> re.Pattern[bytes]:
    """One alternative per length up to 255, most frequent lengths first: three times as fast as a loop in Python."""
    order = sorted(range(256), key=lambda n: (abs(n - 5), n))
    some = (re.escape(bytes([n])) + b"\0" * 7 + (b"." * n if n < 4 else b".{%d}" % n) for n in order)
    return re.compile(b"|".join(some), re.S)


def short_strings(f: Field) -> list[bytes] | None:
    """As `split_strings`, the fast way; None when a string has more than 255 bytes or the array is too small for it."""
    view, layout, count = f.value_bytes, f.layout, f.count or 0
    if layout.length_size == 8 and not layout.big_endian and count > 64:
        found: list[bytes] = []
        at = 0
        while at < len(view):
            # In windows: where a longer string makes it slip, what lies in that one may match at every place.
            some: list[bytes] = _pattern().findall(view, at, at + _WINDOW)
            together = b"".join(some)
            if not some or len(found) + len(some) > count or together != view[at : at + len(together)]:
                return None
            found += some
            at += len(together)
        if len(found) == count:
            return found
    return None


def split_strings(f: Field) -> list[bytes]:
    """The strings of an array field as bytes, each with its length prefix."""
    found = short_strings(f)
    return long_strings(f) if found is None else found


def long_strings(f: Field) -> list[bytes]:
    """As `split_strings`, string by string, of any length."""
    view, layout, count = f.value_bytes, f.layout, f.count or 0
    unpack = struct.Struct(layout.order + layout.length_code).unpack_from
    size, o, out = layout.length_size, 0, []
    data = bytes(view)
    for _ in range(count):
        end = o + size + unpack(data, o)[0]
        out.append(data[o:end])
        o = end
    return out
