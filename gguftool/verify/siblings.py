"""Signs of an unfinished download or edit beside a file."""

from __future__ import annotations

import os

from gguftool.regex import regex
from gguftool.shell import gguftool, path_word
from gguftool.source import LocalFile, journal_path
from gguftool.verify.result import Fault

# Ending behind the name of the file -> who leaves it.
ENDINGS = {
    ".aria2": "aria2 (its control file)",
    ".incomplete": "huggingface-hub",
    ".downloadInProgress": "llama.cpp",
    ".part": "a browser or download tool",
    ".partial": "a download tool",
    ".crdownload": "a browser",
    ".download": "a browser",
    ".opdownload": "a browser",
    ".!qB": "qBittorrent",
    ".tmp": "a download tool",
    "-partial": "Ollama",
}
# The file has its full length from the start while these are there.
_REST = regex(r"(\.[\w=-]+)?\.incomplete")
PREALLOCATED = (".aria2", ".!qB")


def partial_name(path: str) -> str | None:
    """Who leaves files with the ending that ``path`` itself has; None when it is an ordinary name."""
    return next((who for ending, who in ENDINGS.items() if path.endswith(ending)), None)


def beside(path: str) -> list[str]:
    """Partial downloads that belong to ``path``, also when ``path`` itself does not exist."""
    folder, name = os.path.split(path)
    found = [path + ending for ending in ENDINGS if os.path.isfile(path + ending)]
    # `hf download --local-dir` keeps them two folders down: NAME.ETAG.incomplete
    cache = os.path.join(folder, ".cache", "huggingface", "download")
    try:
        names = [n for n in sorted(os.listdir(cache)) if n.startswith(name) and _REST.fullmatch(n, len(name))]
        found += [os.path.join(cache, n) for n in names]
    except OSError:
        pass
    return found


def signs(path: str) -> tuple[tuple[Fault, ...], tuple[Fault, ...]]:
    """Faults and notes that the neighbours of a file give."""
    faults: list[Fault] = []
    notes: list[Fault] = []
    who = partial_name(path)
    if who:
        notes.append(Fault("partial-download", f"the name is that of an unfinished download by {who}"))
    for other in beside(path):
        ending = next((e for e in ENDINGS if other.endswith(e)), "")
        message = f"{os.path.basename(other)} lies beside it: {ENDINGS.get(ending, 'a download tool')} has not finished"
        if ending in PREALLOCATED:
            faults.append(Fault("partial-download", message, hint="let the download finish, then verify again"))
        else:
            notes.append(Fault("partial-download", message, hint="let the download finish, or remove it"))
    journal = journal_path(os.path.realpath(path))
    if os.path.lexists(journal):
        message = f"{os.path.basename(journal)} lies beside it: an edit is unfinished, or under way now"
        faults.append(Fault("interrupted-edit", message, hint=gguftool("recover", path_word(path))))
    return tuple(faults), tuple(notes)


def holes(source: LocalFile, start: int, end: int) -> tuple[int, int] | None:
    """Bytes between two offsets that were never written: how many, and where the first are; None when there are none.

    Download tools reserve the whole length first, and what is still missing reads as zeros.
    """
    total, first, at = 0, -1, start
    end = min(end, source.size)
    for _ in range(10_000):
        hole, behind = source.hole(at)
        if hole >= end:
            break
        at = min(behind, end)
        total += at - hole
        first = hole if first < 0 else first
    return (total, first) if total else None
