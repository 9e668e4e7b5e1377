"""What the hash of a file should be, as far as its surroundings say: its name in a content store, lists beside it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from gguftool.errors import GgufToolError, UsageError
from gguftool.verify.manifest import Entry, read

_BLOB = re.compile(r"^(?:sha256[-:])?([0-9a-f]{64})$")
LISTS = ("SHA256SUMS", "sha256sums.txt", "SHA256SUMS.txt", "sha256sum.txt", "checksums.txt", "CHECKSUMS")
"""Names of lists that are looked for beside a file."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One statement about a file: what it says, and who says it."""

    source: str
    entry: Entry


def of_hex(text: str) -> Expectation:
    """From a hash on the command line, with or without ``sha256:`` in front.

    Raises:
        UsageError: it is not a sha256.
    """
    m = _BLOB.match(text.strip().lower())
    if m is None:
        raise UsageError(f"{text!r} is not a sha256: 64 hexadecimal digits")
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
    entry = found.find(path)
    if entry is None and only and len(found.entries) == 1:
        entry = found.entries[0]
        return Expectation(f"{os.path.basename(list_path)} (for {entry.name})", entry)
    return Expectation(os.path.basename(list_path), entry) if entry else None


def around(path: str) -> list[Expectation]:
    """What the surroundings of a file say: a content store's name for it, download notes, lists beside it."""
    found = [*_stored(path), *_downloaded(path)]
    folder = os.path.dirname(path)
    lists = [path + ending for ending in (".manifest", ".sha256", ".sha256sum")]
    for name in (*lists, *(os.path.join(folder, n) for n in LISTS)):
        if os.path.isfile(name):
            try:
                statement = of_list(name, path)
            except GgufToolError:
                continue
            if statement is not None:
                found.append(statement)
    return found


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
