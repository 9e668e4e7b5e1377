"""What may be edited in place: one table, one function, and for every refusal the way on."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from gguftool.brief import short_repr
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.steps import refuse_unfinished
from gguftool.errors import MissingFile, Refused, Unreadable
from gguftool.files.attributes import APPEND_ONLY, IMMUTABLE
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.shell import path_word, shell

# A path that matches is a blob of a content-addressed store: its name says what is in it, and other snapshots, models
# or repositories may share it. Rewritten in place it would serve other bytes under the same name to all of them.
_STORES = (
    ("the Hugging Face cache", "s--", regex(r"/(models|datasets|spaces)--[^/]+/(blobs|snapshots)/")),
    ("the Ollama or Docker store", "/blobs/", regex(r"/blobs/sha256[-/:][0-9a-f]{64}$")),
    ("the Git LFS store", "/.git/", regex(r"/\.git/lfs/objects/")),
    ("the DVC cache", "/.dvc/", regex(r"/\.dvc/cache/")),
    ("a content-addressed store", "/blobs/", regex(r"/blobs/([0-9a-f]{2}/)?([0-9a-f]{40}|[0-9a-f]{64})$")),
)
"""What it is called, what stands in every such path, and what such a path looks like."""


COPY = "edit a copy: --output NEW.gguf"


@dataclass(frozen=True, slots=True)
class Target:
    """A file that may be edited.

    Attributes:
        named: the path as it was given.
        real: the file itself, links resolved; journal and undo records lie beside it.
        stat: of the file.
        sparse: it has holes.
        links: number of names it has (hard links).
    """

    named: str
    real: str
    stat: os.stat_result
    sparse: bool
    links: int

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class _Look:
    """What the checks see."""

    named: str
    real: str
    stat: os.stat_result
    flags: int
    hole: int
    hard_links: str
    force: bool


def look(path: str, layer: OsLayer) -> Target:
    """The file behind a path, nothing refused: for reading it.

    Raises:
        MissingFile, Unreadable: no such file, no regular file, no permission.
    """
    target, _ = _look(path, layer, "refuse", False)
    return target


def check_replaceable(path: str, layer: OsLayer) -> Target:
    """The file behind a path, when it may be replaced by a mended one: what `check` refuses, but for two things.

    In a store, mending brings the content back that the name of the file promises; a hole is what is to be mended.

    Raises:
        Refused: not safe; the hint says the way on.
        InterruptedEdit: an unfinished edit stands in the way.
        MissingFile, Unreadable: no such file, no regular file, no permission.
    """
    target, seen = _look(path, layer, "refuse", True)
    for refuse in (_read_only, _folder, _linked):
        problem = refuse(seen)
        if problem is not None:
            hint = problem.hint
            if refuse is _linked:
                copy = shell(("cp", "-p", path_word(target.real), path_word(f"{target.real}.own")))
                hint = f"make a file of its own, then verify that one: {copy}"
            elif hint == COPY:
                hint = "mend a copy of it in another folder"
            raise Refused(str(problem), hint)
    refuse_unfinished(layer, target.real, path)
    return target


def check(path: str, layer: OsLayer, *, hard_links: str = "refuse", force: bool = False) -> Target:
    """The file behind a path, when it may be edited in place.

    Args:
        path: as given by the user.
        layer: the operating system.
        hard_links: ``refuse``, ``follow`` (all names see the edit) or ``break`` (this name gets a file of its own).
        force: take a sparse file.

    Raises:
        Refused: not safe; the hint says the way on.
        MissingFile, Unreadable: no such file, no regular file, no permission.
    """
    target, seen = _look(path, layer, hard_links, force)
    for refuse in _CHECKS:
        problem = refuse(seen)
        if problem is not None:
            raise problem
    return target


def _look(path: str, layer: OsLayer, hard_links: str, force: bool) -> tuple[Target, _Look]:
    real = os.path.realpath(path)
    s = layer.stat(real)
    if s is None:
        from gguftool.elsewhere import meant

        raise MissingFile(f"{path}: no such file", meant(path))
    if not stat.S_ISREG(s.st_mode):
        raise Unreadable(f"{path}: not a regular file", "name a .gguf file")
    try:
        fd = layer.open(real, write=False)
    except OSError as e:
        raise Unreadable(f"{path}: {(e.strerror or str(e)).lower()}") from None
    try:
        hole, flags = layer.hole(fd, 0)[0], layer.flags(fd)
    finally:
        layer.close(fd)
    target = Target(path, real, s, hole < s.st_size, s.st_nlink)
    return target, _Look(path, real, s, flags, hole, hard_links, force)


def _in_store(t: _Look) -> Refused | None:
    paths = [path.replace(os.sep, "/") for path in (t.real, os.path.abspath(t.named))]
    for name, part, pattern in _STORES:
        for path in paths:
            if part in path and pattern.search(path):
                return Refused(
                    f"{t.named}: lies in {name}, where files are named by their content and shared; "
                    "an edit in place would give every user of the store other bytes under the same name",
                    COPY,
                )
    return None


def _read_only(t: _Look) -> Refused | None:
    if not t.stat.st_mode & 0o222:
        return Refused(
            f"{t.named}: is read-only (mode {stat.S_IMODE(t.stat.st_mode):04o})",
            shell(("chmod", "u+w", path_word(t.real))),
        )
    if t.flags & (IMMUTABLE | APPEND_ONLY):
        return Refused(
            f"{t.named}: is marked immutable or append-only", shell(("chattr", "-i", "-a", path_word(t.real)))
        )
    if hasattr(os, "statvfs") and os.statvfs(t.real).f_flag & getattr(os, "ST_RDONLY", 1):
        return Refused(f"{t.named}: its file system is mounted read-only", COPY)
    if not os.access(t.real, os.W_OK):
        return Refused(f"{t.named}: no permission to write it", COPY)
    return None


def _folder(t: _Look) -> Refused | None:
    folder = os.path.dirname(t.real)
    if not os.access(folder, os.W_OK | os.X_OK):
        return Refused(
            f"{t.named}: no permission to write into its folder, where the journal would lie",
            COPY,
        )
    return None


def _linked(t: _Look) -> Refused | None:
    if t.stat.st_nlink > 1 and t.hard_links == "refuse":
        return Refused(
            f"{t.named}: has {t.stat.st_nlink} names (hard links); an edit in place would show under all of them",
            "--hard-links follow edits all, --hard-links break gives this name a file of its own",
        )
    return None


def _sparse(t: _Look) -> Refused | None:
    if t.hole < t.stat.st_size and not t.force:
        return Refused(
            f"{t.named}: has a hole at offset {t.hole:,}; usually a download that was not finished",
            "check it with `gguftool verify`; --force edits it all the same",
        )
    return None


_CHECKS: tuple[Callable[[_Look], Refused | None], ...] = (_in_store, _read_only, _folder, _linked, _sparse)
