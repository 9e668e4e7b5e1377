"""Files cut into raw pieces (`split -b`, upload limits): recognised by name, proven by the size the header asks for.

Such pieces are not shards: only the first is a GGUF, the others begin anywhere. Putting them one behind the other
gives the file back.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

from gguftool.errors import ChangedMeanwhile, FormatError, GgufToolError, UsageError
from gguftool.files.attributes import readers_of
from gguftool.files.copies import copy_ranges
from gguftool.files.disk import check_room
from gguftool.files.draft import Draft
from gguftool.files.faults import writing
from gguftool.format.parse import parse
from gguftool.model.pieces import PATTERNS, number, piece_name
from gguftool.quantity import whole
from gguftool.records import dataclass
from gguftool.source import LocalFile
from gguftool.verify.inside import ends
from gguftool.verify.stream import Progress, fill

MOST = 10_000
"""Pieces at most."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of one file.

    Attributes:
        base: name of the whole file.
        paths: pieces in order.
        size: of all of them together.
        expected: smallest and largest size that the header of the first allows; None when it cannot be known.
        missing: numbers that are left out between those there are.
    """

    base: str
    paths: tuple[str, ...]
    size: int
    expected: tuple[int, int] | None
    missing: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether they are all there, as the header says."""
        return not self.missing and self.expected is not None and self.expected[0] <= self.size <= self.expected[1]


def find(path: str) -> Pieces | None:
    """The pieces that a file belongs to; None when it is none, or there are no others."""
    named = piece_name(path)
    if named is None:
        return None
    pattern, base, _ = named
    folder = os.path.dirname(path)
    found: dict[int, tuple[str, str]] = {}
    count = 0
    for name in os.listdir(folder or "."):
        m = pattern.match(name)
        if m and m["base"] == base and os.path.isfile(os.path.join(folder, name)):
            found[number(m["no"])] = (os.path.join(folder, name), m["no"])
            count = max(count, int(m.groupdict().get("count") or 0))
    numbers = sorted(found)
    letters = whole(named[2]) is None
    bare = letters and pattern is PATTERNS[-1]
    if not numbers or (len(numbers) < 2 and not count) or (bare and numbers[0] != 0):
        return None
    first = 0 if letters else min(numbers[0], 1)
    last = max(numbers[-1], count + first - 1 if count else 0)
    if last - first > MOST:
        return None
    missing = tuple(_label(n, named[2]) for n in range(first, last + 1) if n not in found)
    paths = tuple(found[n][0] for n in numbers)
    expected = None
    if numbers[0] == first:
        expected = _expected(paths)
        if expected is None:
            return None
    return Pieces(os.path.join(folder, base), paths, sum(map(os.path.getsize, paths)), expected, missing)


def _label(number: int, like: str) -> str:
    """The reverse of `number`, written as in the name ``like``."""
    if whole(like) is not None:
        return str(number)
    text = ""
    for _ in like:
        number, rest = divmod(number, 26)
        text = chr(ord("a") + rest) + text
    return text


class Joined:
    """Several files one behind the other as one source."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.name = paths[0]
        self._files = [LocalFile(path) for path in paths]
        self.size = sum(file.size for file in self._files)

    def read_at(self, offset: int, n: int) -> bytes:
        """As `Source.read_at`."""
        parts: list[bytes] = []
        for file in self._files:
            if n > 0 and offset < file.size:
                parts.append(file.read_at(offset, n))
                n -= len(parts[-1])
                offset = 0
            else:
                offset = max(0, offset - file.size)
        return b"".join(parts)

    def close(self) -> None:
        """Close all of them."""
        for file in self._files:
            file.close()


def _expected(paths: Sequence[str]) -> tuple[int, int] | None:
    """Sizes the whole file may have, by its header; None when it is no GGUF, (0, 0) when that cannot be told."""
    try:
        source = Joined(paths)
    except GgufToolError:
        return 0, 0
    try:
        return ends(parse(source, strict=False)) or (0, 0)
    except FormatError:
        return None
    except GgufToolError:
        return 0, 0
    finally:
        source.close()


def of_piece(path: str) -> Pieces:
    """The pieces that a file belongs to.

    Raises:
        UsageError: it is none, or there are no others.
    """
    pieces = find(path)
    if pieces is None:
        hint = "gguftool merge joins shards"
        raise UsageError(f"{path}: its name is not that of a raw piece, or there are no others", hint)
    return pieces


def join(pieces: Pieces, output: str, progress: Progress | None = None) -> int:
    """Write the whole file; returns its length in bytes.

    Raises:
        FormatError: a piece is missing, or the sizes do not fit the header.
        Refused: the output exists.
        NoRoom: not enough space.
    """
    if pieces.missing:
        raise FormatError(
            f"{pieces.base}: piece {', '.join(pieces.missing)} is missing", "fetch it", kind="piece-missing"
        )
    if pieces.expected is None:
        raise UsageError(f"{pieces.base}: the first piece is missing or has no complete header")
    if not pieces.whole:
        low, high = pieces.expected
        what = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        message = f"{pieces.base}: {len(pieces.paths)} pieces have {pieces.size:,} bytes, the header asks for {what}"
        raise FormatError(message, "a piece is cut off or missing", kind="pieces-size")
    with Draft(output, readers=readers_of(pieces.paths)) as draft:
        check_room(os.path.dirname(output), pieces.size)
        with writing(output):
            os.ftruncate(draft.fd, pieces.size)
        at = 0
        for path in pieces.paths:
            source = LocalFile(path)
            try:
                with writing(output):
                    move = (0, at, source.size)
                    copy_ranges(source.descriptor, draft.fd, [move], progress, read=partial(fill, source))
                source.check_unchanged()
            finally:
                source.close()
            at += source.size
        if at != pieces.size:
            raise ChangedMeanwhile(f"{pieces.base}: a piece has another length by now", "try again when all are there")
        draft.publish()
        return at
