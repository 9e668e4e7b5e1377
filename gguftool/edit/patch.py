"""An edit as a small file: made where only the header of a model can be had, applied where its data lies.

The file holds the new front of the model (all bytes before the tensor data) in terms of the old one, and what the old
one must be. It is JSON: others may read it, and what it says it does can be looked at.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence

from gguftool.brief import short_repr
from gguftool.edit.fromfile import read_file
from gguftool.edit.ops import Front
from gguftool.edit.whole import editable
from gguftool.errors import FormatError, Refused, UsageError
from gguftool.files.small import write_file
from gguftool.format.header import Field, Header, TensorInfo, align
from gguftool.format.limits import HEADER
from gguftool.reading import Malformed, from_json
from gguftool.records import dataclass
from gguftool.shell import gguftool, path_word
from gguftool.source import Memory

FORMAT = "gguftool.patch/1"
BEGIN = b'{"format": "gguftool.patch/1"'
"""What such a file begins with."""
CHUNK = 128 << 10
"""The longest chunk that the Hub's storage cuts a file into, in bytes (Xet: 64 KiB on average, 8 to 128 KiB)."""
WHAT = "patch of gguftool"
_SHORT = 32
"""A record of fewer bytes costs more as a place than as itself."""
Piece = tuple[int, int] | bytes
"""Bytes of the new front: (start, length) in the old one, or as they are."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One edit of one file.

    Attributes:
        made_of: path or address of the model it was made of.
        operations: what it does, a line each.
        version: of gguftool.
        old_size, new_size: bytes of the file before and after.
        old_front, new_front: bytes in front of the tensor data before and after.
        old_sha, new_sha: sha256 of these, hexadecimal.
        pieces: the new front, in order.
    """

    made_of: str
    operations: tuple[str, ...]
    version: str
    old_size: int
    new_size: int
    old_front: int
    new_front: int
    old_sha: str
    new_sha: str
    pieces: tuple[Piece, ...]

    __repr__ = short_repr

    @property
    def news(self) -> int:
        """Bytes at most that the Hub's storage has not, when the old file lies there.

        It cuts files into chunks by their content and takes each once, so what an upload of the new file sends are the
        chunks in which something changed: a changed run with what is left of the chunk in front of it and, until the
        cuts are where they were, of two behind it.
        """
        total, at, end = 0, 0, -1
        for piece in self.pieces:
            n = len(piece) if isinstance(piece, bytes) else piece[1]
            if isinstance(piece, bytes):
                start = max(end, at - CHUNK, 0)
                end = max(end, at + n + 2 * CHUNK)
                total += max(0, end - start)
            at += n
        return min(total, self.new_size)

    def onto(self, named: str, front: bytes, size: int) -> Front:
        """The new front, for a file with that old one.

        Raises:
            Refused: it is another file, or has the edit already.
            FormatError: the patch contradicts itself.
        """
        found = hashlib.sha256(front).hexdigest()
        if (size, found) == (self.new_size, self.new_sha):
            raise Refused(f"{named}: has this edit already", gguftool("lint", path_word(named)))
        if (size, len(front), found) != (self.old_size, self.old_front, self.old_sha):
            what = f"{size:,} bytes" if size != self.old_size else "a header with other content"
            raise Refused(
                f"{named}: is not the file the patch was made for: it has {what}",
                f"the patch is for {self.made_of}, {self.old_size:,} bytes",
            )
        parts = (p if isinstance(p, bytes) else front[p[0] : p[0] + p[1]] for p in self.pieces)
        new = b"".join(parts)
        if hashlib.sha256(new).hexdigest() != self.new_sha:
            raise FormatError(f"the patch of {self.made_of} is damaged: its header has another hash", kind="patch")
        header = editable(Memory(new, f"the patch of {self.made_of}", self.new_size), f"the patch of {self.made_of}")
        if align(header.end, header.alignment) != len(new):
            raise FormatError(f"the patch of {self.made_of} is damaged: its header ends elsewhere", kind="patch")
        return Front(new, header, self.operations)


def patch_of(
    made_of: str, old: Header, old_front: bytes, size: int, front: bytes, operations: Sequence[str], version: str
) -> Patch:
    """The patch that makes ``front`` of ``old_front``; the data behind it stays as it is.

    Args:
        made_of: path or address of the model.
        old: its header.
        old_front: its bytes in front of the tensor data.
        size: its bytes in all.
        front: the new bytes in front of the tensor data.
        operations: what was done, a line each.
        version: of gguftool.
    """
    return Patch(
        made_of,
        tuple(operations),
        version,
        size,
        size - len(old_front) + len(front),
        len(old_front),
        len(front),
        hashlib.sha256(old_front).hexdigest(),
        hashlib.sha256(front).hexdigest(),
        tuple(_pieces(old, old_front, front, size)),
    )


def _pieces(old: Header, old_front: bytes, front: bytes, size: int) -> Iterator[Piece]:
    """Records that both have are places in the old front; what is between them is written out."""
    new = editable(Memory(front, size=size - len(old_front) + len(front)), "the new header")
    before: list[Field | TensorInfo] = [*old.fields, *old.tensors]
    after: list[Field | TensorInfo] = [*new.fields, *new.tensors]
    places = {r.buffer.tobytes(): r.span for r in before if len(r.buffer) >= _SHORT}
    plain, begin, end = bytearray(), 0, 0
    at = 0
    for record in after:
        start, stop = record.span
        place = places.get(record.buffer.tobytes())
        plain += front[at:start]
        at = stop
        if place is None:
            plain += front[start:stop]
            continue
        if plain or place[0] != end:
            if end > begin:
                yield begin, end - begin
            if plain:
                yield bytes(plain)
                plain.clear()
            begin = place[0]
        end = place[1]
    if end > begin:
        yield begin, end - begin
    if plain or at < len(front):
        yield bytes(plain) + front[at:]


def pack(patch: Patch) -> bytes:
    """The patch as the bytes of its file."""
    body = {
        "format": FORMAT,
        "made_of": patch.made_of,
        "operations": patch.operations,
        "version": patch.version,
        "old": {"size": patch.old_size, "front": patch.old_front, "sha256": patch.old_sha},
        "new": {"size": patch.new_size, "front": patch.new_front, "sha256": patch.new_sha},
        "pieces": [
            {"zlib": base64.b64encode(zlib.compress(p, 9)).decode(), "size": len(p)}
            if isinstance(p, bytes)
            else {"old": p[0], "size": p[1]}
            for p in patch.pieces
        ],
    }
    return (json.dumps(body, ensure_ascii=True, indent=1) + "\n").replace('{\n "format"', '{"format"', 1).encode()


def write_patch(path: str, patch: Patch) -> None:
    """Write the file of a patch, which may replace an older patch.

    Raises:
        Refused: something else has that name.
        NoRoom, MissingFile: it cannot be written.
    """
    write_file(path, pack(patch), mine=is_patch, what=WHAT)


def is_patch(begin: bytes) -> bool:
    """Whether a file with these first bytes is a patch, or empty."""
    return not begin or begin.startswith(BEGIN)


def read_patch(path: str) -> Patch:
    """Read the file of a patch, which may come from anywhere.

    Raises:
        UsageError: there is none, or it is no patch.
        FormatError: it is damaged.
    """
    data = read_file(path)
    if not data or not is_patch(data):
        raise UsageError(f"{path}: is no patch of gguftool", "gguftool fix hf://owner/repo/x.gguf … --patch-out FILE")
    try:
        return _checked(from_json(data, halves=True))
    except Malformed as error:
        raise FormatError(f"{path}: {error}", kind="patch") from None
    except (KeyError, TypeError, ValueError, zlib.error):
        raise FormatError(f"{path}: is damaged: not what a patch says of a file", kind="patch") from None


def _checked(body: dict[str, object]) -> Patch:
    old, new = (_side(body[name]) for name in ("old", "new"))
    rows = body["pieces"]
    operations = body["operations"]
    if not isinstance(rows, list) or not isinstance(operations, list):
        raise TypeError
    pieces: list[Piece] = []
    room = new[1]
    for row in rows:
        n = _number(row["size"], room)
        room -= n
        if "old" in row:
            pieces.append((_number(row["old"], old[1] - n), n))
            continue
        text = zlib.decompressobj().decompress(base64.b64decode(row["zlib"], validate=True), n + 1)
        if len(text) != n:
            raise ValueError
        pieces.append(text)
    if room or old[0] - old[1] != new[0] - new[1]:
        raise ValueError
    said = (str(body["made_of"]), tuple(str(line) for line in operations), str(body["version"]))
    return Patch(*said, old[0], new[0], old[1], new[1], old[2], new[2], tuple(pieces))


def _side(row: object) -> tuple[int, int, str]:
    if not isinstance(row, dict):
        raise TypeError
    size = _number(row["size"], 1 << 62)
    return size, _number(row["front"], min(size, HEADER)), str(row["sha256"])


def _number(value: object, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError
    return value
