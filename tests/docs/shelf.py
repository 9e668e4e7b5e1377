"""Copies of the real model that pages lend: one that comes back as it was is lent again, for a copy costs a second."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import lru_cache
from itertools import count
from pathlib import Path

from tests.real_models import SMOLLM2, ensure

_FRONT = 4 << 20
"""Longer than the header: what an edit changes."""
_spare: list[Path] = []
_lent: dict[Path, os.stat_result] = {}
_numbers = count()


@lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Gone with this process."""
    return tempfile.TemporaryDirectory(prefix="shelf")


@lru_cache(maxsize=1)
def _front() -> bytes:
    with open(ensure(SMOLLM2), "rb") as file:
        return file.read(_FRONT)


def lend(path: Path) -> None:
    """Put a copy there; `give_back` takes it home."""
    if _spare:
        os.rename(_spare.pop(), path)
    else:
        shutil.copyfile(ensure(SMOLLM2), path)
    _lent[path] = path.stat()


def give_back() -> None:
    """Keep of what was lent the copies that nobody wrote to, before their folder goes."""
    for path, before in _lent.items():
        if path.is_file() and _as_it_was(path, before):
            place = Path(_folder().name) / str(next(_numbers))
            try:
                os.rename(path, place)
            except OSError:
                # Another file system: the next one is copied again.
                continue
            _spare.append(place)
    _lent.clear()


def _as_it_was(path: Path, before: os.stat_result) -> bool:
    now = path.lstat()
    same = (now.st_ino, now.st_size, now.st_mtime_ns, now.st_mode, now.st_nlink)
    if same != (before.st_ino, before.st_size, before.st_mtime_ns, before.st_mode, 1):
        return False
    with open(path, "rb") as file:
        return file.read(_FRONT) == _front()
