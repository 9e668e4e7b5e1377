"""What the hash of a file should be, as far as its surroundings say: its name in a content store, lists beside it."""

from __future__ import annotations

import os
import re

from gguftool.errors import GgufToolError, UsageError
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.verify.dialects import LENGTHS
from gguftool.verify.manifest import Entry, read
from gguftool.verify.result import Fault

_BLOB = regex(r"^(?:sha256[-:])?([0-9a-f]{64})$")
LISTS = frozenset(
    f"{name}{ending}"
    for name in (
        "sha256sums",
        "sha256sum",
        "sha256",
        "checksums",
        "checksum",
        "hashes",
        "md5sums",
        "md5sum",
        "sha1sums",
    )
    for ending in ("", ".txt", ".csv", ".json", ".sha256", ".asc")
) | {"checklist.chk"}
"""Names of lists that are looked for beside a file, in small letters."""
SUMS = ("SHA256SUMS", "sha256sums.txt", "SHA256SUMS.txt", "sha256sum.txt", "checksums.txt", "CHECKSUMS")
"""Those of them that are lists as ``sha256sum`` writes them, the usual one first."""
_OWN = (".manifest", ".sha256", ".sha256sum", ".sha256.txt", ".sha256sum.txt", ".md5", ".sha1", ".sha512")
"""What the name of a list about one file ends with, behind the file's own."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One statement about a file.

    Attributes:
        source: who says it.
        entry: what it says.
        problem: why it says nothing although it is there; None where it says something.
    """

    source: str
    entry: Entry
    problem: Fault | None = None


def of_hex(text: str) -> Expectation:
    """From a hash on the command line, with or without ``sha256:`` in front.

    Raises:
        UsageError: it is not a sha256.
    """
    m = _BLOB.match(text.strip().lower())
    if m is None:
        digits = text.strip()
        kind = LENGTHS.get(len(digits)) if re.fullmatch("[0-9a-fA-F]+", digits) else None
        what = f"it has as many digits as an {kind}, which is not compared" if kind else "64 hexadecimal digits"
        raise UsageError(f"{text[:140]!r} is not a sha256: {what}")
    return Expectation("--sha256", Entry("", m[1]))


def of_list(list_path: str, path: str, *, only: bool = False) -> Expectation | None:
    """What a list says of a file; None when the file is not in it.

    Args:
        list_path: the list.
        path: the file.
        only: the list was given for this one file, so a single entry is about it, whatever name it has.

    Raises:
        MissingFile, Unreadable, FormatError: as `gguftool.verify.manifest.read`.
    """
    found = read(list_path)
    source = os.path.basename(list_path)
    entry = found.find(path)
    if entry is not None:
        return Expectation(source, entry)
    if (kind := found.other(path)) is not None:
        return Expectation(source, Entry(""), _other(source, kind))
    if only and len(found.entries) == 1:
        entry = found.entries[0]
        return Expectation(f"{source} (for {entry.name})", entry)
    if found.unread:
        message = f"{source} has lines that cannot be read, and this file may be in one: {found.unread[0][:80]!r}"
        return Expectation(source, Entry(""), Fault("list-unread", message, "file", _WAY))
    return None


_WAY = "name a list that can be read: --sums LIST, or the hash itself: --sha256 HEX"


def _other(source: str, kind: str) -> Fault:
    return Fault("other-hash", f"{source} has its {kind}, which is not compared: only sha256 is", "file", _WAY)


def around(path: str) -> list[Expectation]:
    """What the surroundings of a file say: a content store's name for it, download notes, lists beside it.

    A list that is there and cannot be read is a statement, too: it may hold the hash that the file has not.
    """
    found = [*_stored(path), *_downloaded(path)]
    for name in _lists(path):
        source = os.path.basename(name)
        try:
            statement = of_list(name, path)
        except GgufToolError as e:
            other = getattr(e, "kind", None) == "other-hash"
            statement = Expectation(
                source, Entry(""), Fault("other-hash" if other else "list-unread", str(e), "file", _WAY)
            )
        if statement is not None:
            found.append(statement)
    return found


def _lists(path: str) -> list[str]:
    """Lists beside a file: its own first, then those of the folder, by name."""
    folder, own = os.path.split(path)
    beside = {own + ending for ending in _OWN}
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return []
    hits = sorted((n for n in names if n in beside or n.lower() in LISTS), key=lambda n: (n not in beside, n))
    return [at for n in hits if os.path.isfile(at := os.path.join(folder, n))]


def _stored(path: str) -> list[Expectation]:
    """Blobs of the Hugging Face cache and of Ollama are named by their sha256."""
    real = os.path.realpath(path)
    m = _BLOB.match(os.path.basename(real))
    if m is None:
        return []
    folder = os.path.basename(os.path.dirname(real))
    ollama = os.path.basename(real).startswith("sha256")
    store = ("Ollama blob name" if ollama else "Hugging Face cache blob name") if folder == "blobs" else "file name"
    return [Expectation(store, Entry("", m[1]))]


def _downloaded(path: str) -> list[Expectation]:
    """``hf download --local-dir`` notes commit, entity tag (the sha256 of large files) and time of each file."""
    folder, name = os.path.split(os.path.abspath(path))
    # The notes lie at the top of the download, files in subfolders keep their path below it.
    place, tail = folder, name
    for _ in range(8):
        note = os.path.join(place, ".cache", "huggingface", "download", tail + ".metadata")
        if os.path.isfile(note):
            try:
                with open(note, encoding="ascii", errors="replace") as f:
                    lines = f.read(1024).split("\n")
            except OSError:
                return []
            m = _BLOB.match(lines[1].strip()) if len(lines) > 1 else None
            return [Expectation("download note of huggingface-hub", Entry("", m[1]))] if m else []
        place, last = os.path.split(place)
        if not last:
            break
        tail = os.path.join(last, tail)
    return []
