"""Lists of hashes: our manifest, llama-gguf-hash output, a Git LFS pointer, and what others write (`dialects`).

Our manifest is a SHA256SUMS file, so that ``sha256sum -c`` takes it, with one JSON object behind ``#:`` for every file
and every tensor. A tensor's offset counts from the start of the data section: a manifest stays true for the data when
the metadata in front of it changes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence

from gguftool.errors import FormatError, MissingFile, Unreadable
from gguftool.files.attributes import readers_of
from gguftool.files.small import check_mine, write_file
from gguftool.model import is_gguf
from gguftool.quantity import whole
from gguftool.reading import from_json
from gguftool.records import dataclass, field
from gguftool.regex import regex
from gguftool.shell import ELLIPSIS, blank, gguftool, path_word
from gguftool.verify import dialects
from gguftool.verify.dialects import decode
from gguftool.verify.hashes import FileHashes

LIMIT = 256 << 20
"""Largest list that is read, in bytes."""
TITLE = "# gguftool manifest 1; `gguftool verify --against THIS MODEL` checks all of it, `sha256sum -c THIS` the files"
_BEGIN = b"# gguftool manifest "


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a file: its place (tensors: from the start of the data section), length and hashes by name."""

    start: int | None
    nbytes: int | None
    digests: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """What a list says of one file; None and empty where it says nothing.

    Attributes:
        name: the file's name in the list, "" for a list about one file without a name.
        sha256: of the whole file.
        size: in bytes.
        header, data: the front of the file with its padding, and the data section.
        model: hashes of all tensors as one stream, by name.
        tensors: by tensor name.
    """

    name: str
    sha256: str | None = None
    size: int | None = None
    header: Section | None = None
    data: Section | None = None
    model: Mapping[str, str] = field(default_factory=dict)
    tensors: Mapping[str, Section] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HashList:
    """What one list says.

    Attributes:
        source: where it came from.
        entries: files with a sha256, or with hashes of what is in them.
        others: files with a hash of another kind alone: algorithm -> names.
        unread: lines that look like hashes and that nobody understands.
    """

    source: str
    entries: tuple[Entry, ...]
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    def find(self, path: str) -> Entry | None:
        """The entry for a file: the longest name that its path ends with, else the only one with its last part.

        A single nameless entry fits any file.
        """
        best: Entry | None = None
        for entry in self.entries:
            fits = _ends(path, entry.name) if _parts(entry.name) else len(self.entries) == 1
            if fits and (best is None or len(entry.name) > len(best.name)):
                best = entry
        same = [entry for entry in self.entries if _parts(entry.name)[-1:] == [os.path.basename(path)]]
        return best or (same[0] if len(same) == 1 else None)

    def other(self, path: str) -> str | None:
        """The algorithm of a hash that the list has of a file, where it is none that is compared."""
        rows = [(kind, name) for kind, names in self.others.items() for name in names]
        for kind, name in rows:
            if _ends(path, name) if _parts(name) else len(rows) == 1 and not self.entries:
                return kind
        return next((kind for kind, name in rows if _parts(name)[-1:] == [os.path.basename(path)]), None)


def _parts(name: str) -> list[str]:
    return [p for p in name.replace("\\", "/").split("/") if p not in ("", ".")]


def _ends(path: str, name: str) -> bool:
    names = _parts(name)
    return os.path.abspath(path).replace(os.sep, "/").split("/")[-len(names) :] == names


_GGUF_HASH = regex(r"^(xxh64|sha1|sha256)\s+([0-9a-f]{16,64})\s+(.+?)$")
_LFS = regex(r"^oid sha256:([0-9a-f]{64})$", re.M)
_LFS_SIZE = regex(r"^size (\d+)$", re.M)


def read(path: str) -> HashList:
    """Read a list of hashes, whatever its dialect.

    Raises:
        MissingFile, Unreadable: it cannot be read.
        FormatError: there is no hash in it, or it is a model.
    """
    try:
        if is_gguf(path):
            message = f"{path}: is a model, not a list of hashes"
            way = gguftool("diff", "--data", blank(), path_word(path))
            raise FormatError(message, f"to compare it with another model in place of {ELLIPSIS}: {way}", kind="gguf")
        if os.path.getsize(path) > LIMIT:
            raise FormatError(f"{path}: too large for a list of hashes", kind="not-a-manifest")
        with open(path, "rb") as f:
            text = decode(f.read())
    except FileNotFoundError:
        raise MissingFile(f"{path}: no such file") from None
    except OSError as e:
        raise Unreadable(f"{path}: {(e.strerror or str(e)).lower()}") from None
    return parse(text, path)


def parse(text: str, source: str) -> HashList:
    """As `read`, for text that is here already."""
    if text.startswith("version https://git-lfs"):
        oid, size = _LFS.search(text), _LFS_SIZE.search(text)
        if oid:
            return HashList(source, (Entry("", oid[1], whole(size[1]) if size else None),))
    files: dict[str, dict[str, object]] = {}
    hashed: dict[str, dict[str, dict[str, str]]] = {}
    current, rest = "", []
    # Names may hold what Python takes for the end of a line.
    for line in (row.removesuffix("\r") for row in text.split("\n")):
        if line.startswith("#:"):
            current = _take(files, line[2:], current, source)
        elif m := _GGUF_HASH.match(line):
            name, _, tensor = m[3].partition(".gguf:")
            hashed.setdefault(name + ".gguf" if tensor else m[3], {}).setdefault(tensor, {})[m[1]] = m[2]
        else:
            rest.append(line)
    found = dialects.read("\n".join(rest))
    others = _taken(found, files)
    entries = [Entry(name, **fields) for name, fields in files.items()]  # type: ignore[arg-type]
    for name, rows in hashed.items():
        tensors = {t: Section(None, None, digests) for t, digests in rows.items() if t}
        entries.append(Entry(name, model=rows.get("", {}), tensors=tensors))
    if not entries:
        raise _nothing(source, others, found.unread)
    return HashList(source, tuple(entries), others, tuple(found.unread))


def _taken(found: dialects.Found, files: dict[str, dict[str, object]]) -> dict[str, tuple[str, ...]]:
    """Put what a text says to the files; what it says with other hashes comes back, by algorithm."""
    others: dict[str, list[str]] = {}
    for said in found.said:
        if said.algorithm != "sha256":
            others.setdefault(said.algorithm, []).append(said.name)
            continue
        if not said.name and files.get("", {}).get("sha256", said.digest) != said.digest:
            found.unread.append(f"{said.digest} of a file without a name")
            continue
        entry = files.setdefault(said.name, {})
        entry["sha256"] = said.digest
        if said.size is not None:
            entry["size"] = said.size
    return {kind: tuple(names) for kind, names in others.items()}


def _nothing(source: str, others: Mapping[str, tuple[str, ...]], unread: Sequence[str]) -> FormatError:
    way = "a SHA256SUMS file, a manifest or an LFS pointer"
    if others:
        return FormatError(f"{source}: its hashes are {', '.join(others)}, not sha256", way, kind="other-hash")
    if unread:
        return FormatError(f"{source}: none of its hashes can be read: {unread[0][:80]!r}", way, kind="not-a-manifest")
    return FormatError(f"{source}: no sha256 in it", way, kind="not-a-manifest")


def _take(files: dict[str, dict[str, object]], text: str, current: str, source: str) -> str:
    """One ``#:`` line; returns the file that the following tensors belong to."""
    try:
        row = from_json(text, halves=True)
        if "file" in row:
            current = str(row["file"])
            entry = files.setdefault(current, {})
            entry["size"] = _whole(row["size"])
            for part in ("header", "data"):
                if row.get(part):
                    p = row[part]
                    entry[part] = Section(_whole(p["start"]), _whole(p["bytes"]), {"sha256": str(p["sha256"])})
        elif "tensor" in row:
            tensors = files.setdefault(current, {}).setdefault("tensors", {})
            digests = {k: str(row[k]) for k in ("sha256", "xxh64", "sha1") if k in row}
            tensors[str(row["tensor"])] = Section(_whole(row["start"]), _whole(row["bytes"]), digests)  # type: ignore[index]
    except (ValueError, KeyError, TypeError):
        raise FormatError(f"{source}: damaged manifest line: {text[:60]}", kind="not-a-manifest") from None
    return current


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ValueError("no number of bytes")
    return value


def check_name(path: str) -> None:
    """Refuse a name that anything but a manifest has: a model, say, after its option and its argument were swapped.

    Raises:
        Refused: what is there is no manifest of ours.
    """
    check_mine(path, _is_manifest, "manifest")


def _is_manifest(begin: bytes) -> bool:
    return begin.startswith(_BEGIN)


def write(path: str, found: Iterable[FileHashes]) -> None:
    """Write the manifest of hashed files; an older one under that name is replaced in one step.

    Raises:
        Refused: something else has that name, or the folder may not be written.
        NoRoom: the disk is full.
    """
    hashed = list(found)
    text = render(hashed, os.path.dirname(os.path.abspath(path)))
    readers = readers_of(h.path for h in hashed)
    write_file(path, text, mine=_is_manifest, what="manifest", readers=readers)


def render(found: Iterable[FileHashes], base: str) -> str:
    """The manifest of hashed files.

    Args:
        found: hashes with tensors and data section.
        base: folder that names in the manifest are relative to.
    """
    lines = [TITLE]
    for h in found:
        name = h.path.rpartition("/")[2] if "://" in h.path else os.path.relpath(h.path, base)
        lines.append(sum_line(h.file, name))
        row: dict[str, object] = {"file": name, "size": h.size}
        if h.header is not None:
            row["header"] = {"start": 0, "bytes": h.data_offset, "sha256": h.header}
        if h.data is not None:
            row["data"] = {"start": h.data_offset, "bytes": h.data_end - h.data_offset, "sha256": h.data}
        lines.append(_note(row))
        lines += [
            _note(
                {
                    "tensor": t.name,
                    "type": t.type_name,
                    "shape": list(t.shape),
                    "start": t.start - h.data_offset,
                    "bytes": t.nbytes,
                    **t.digests,
                }
            )
            for t in h.tensors
            if t.digests
        ]
    return "\n".join(lines) + "\n"


def _note(row: Mapping[str, object]) -> str:
    return "#: " + json.dumps(row, separators=(",", ":"))


def sum_line(digest: str, name: str) -> str:
    """One line as sha256sum writes it, names with a newline or backslash escaped as it does."""
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"{chr(92) if escaped != name else ''}{digest}  {escaped}"
