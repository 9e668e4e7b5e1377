"""What a killed run left beside its target, and taking it away: only what nobody holds and is proved to be ours."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Sequence

from gguftool.digest import sha256
from gguftool.files.able import must_write
from gguftool.files.disk import O_BINARY, O_CLOEXEC, lock, read_at
from gguftool.reading import from_json
from gguftool.regex import regex

MARK = ".gguftool-part"
"""Ending of files and folders that are being written."""
LOCK = "lock"
"""The file that is locked in a folder."""
_LONGEST = 160
"""Bytes of the target's name in the name of its draft; a file name has 255 at most."""
_NEW = regex(r"[0-9a-f]{8}")
_INTENT = b"gguftool publishes 1\n"
_LIMIT = 16 << 20


def hidden(path: str, tag: str) -> str:
    """The hidden name of a draft of ``path``."""
    folder, name = os.path.split(path)
    whole = os.fsencode(name)
    if len(whole) > _LONGEST:
        name = whole[:_LONGEST].decode("utf-8", "ignore") + sha256(whole).hexdigest()[:8]
    return os.path.join(folder, f".{name}.{tag}{MARK}")


def sweep(*paths: str) -> None:
    """Take away what killed runs left of these: drafts that nobody holds, and sets that were published in part."""
    must_write()
    wanted: dict[str, set[str]] = {}
    for path in paths:
        folder, name = os.path.split(hidden(path, ""))
        wanted.setdefault(folder, set()).add(name[: -len(MARK)])
    for folder, begins in wanted.items():
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            begin, dot, tag = name.removesuffix(MARK).rpartition(".")
            if name.endswith(MARK) and begin + dot in begins:
                with contextlib.suppress(OSError):
                    _sweep_one(os.path.join(folder, name), tag)


def _sweep_one(place: str, tag: str) -> None:
    s = os.lstat(place)
    if stat.S_ISDIR(s.st_mode):
        if tag == str(s.st_ino):
            _sweep_folder(place)
        elif _NEW.fullmatch(tag):
            # Killed before it had its second name: nothing is in it. rmdir takes empty folders only.
            os.rmdir(place)
        return
    if not stat.S_ISREG(s.st_mode) or not (tag == str(s.st_ino) or (_NEW.fullmatch(tag) and not s.st_size)):
        return
    fd = os.open(place, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | O_CLOEXEC | O_BINARY)
    try:
        now = os.fstat(fd)
        if (now.st_dev, now.st_ino) != (s.st_dev, s.st_ino) or not lock(fd, without=False):
            return
        if read_at(fd, 0, len(_INTENT)) == _INTENT:
            _take_back(os.path.dirname(place), read_at(fd, len(_INTENT), _LIMIT))
        os.unlink(place)
    finally:
        os.close(fd)


def _sweep_folder(place: str) -> None:
    import shutil

    try:
        fd = os.open(os.path.join(place, LOCK), os.O_RDWR | os.O_NOFOLLOW | O_CLOEXEC)
    except FileNotFoundError:
        os.rmdir(place)
        return
    try:
        if lock(fd, without=False):
            shutil.rmtree(place)
    finally:
        os.close(fd)


def intent(rows: Sequence[tuple[str, os.stat_result]]) -> bytes:
    """What is written down before several files get their names: each name, and what the file will be known by."""
    return _INTENT + json.dumps([[os.fsencode(name).hex(), *_known_by(s)] for name, s in rows]).encode()


def _known_by(s: os.stat_result) -> list[int]:
    """An inode number alone is used again as soon as its file is gone."""
    return [s.st_ino, s.st_size, s.st_mtime_ns]


def _take_back(folder: str, text: bytes) -> None:
    """A set of which some have their names, and others do not: away with those. A whole one stays."""
    try:
        rows = [(os.fsdecode(bytes.fromhex(name)), mark) for name, *mark in from_json(text)]
    except (ValueError, TypeError):
        # Killed while it was written: no name was given yet.
        return
    there = []
    for name, mark in rows:
        path = os.path.join(folder, os.path.basename(name))
        with contextlib.suppress(OSError):
            if _known_by(os.lstat(path)) == mark:
                there.append(path)
    if len(there) < len(rows):
        for path in there:
            os.unlink(path)
