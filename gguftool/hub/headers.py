"""Headers of files on servers, kept in the user's cache folder: this one place reads and writes them.

What is kept is the beginning of a file with the entity tag that the server gave it. An address that names a commit is
for ever the same, so nothing is asked; of any other the server says in one answer, with the header unsent, whether the
file is still that. What a file of the cache says is taken only when it was written by this user, is whole and belongs
to the address; from there it is parsed as what it is: bytes of a stranger.

``GGUFTOOL_CACHE`` names another folder, or is ``off``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import zlib

from gguftool.errors import GgufToolError
from gguftool.files.attributes import Readers
from gguftool.files.cache import user_cache
from gguftool.files.names import make_folder
from gguftool.files.small import replace_own
from gguftool.reading import Malformed, from_json
from gguftool.records import dataclass

VARIABLE = "GGUFTOOL_CACHE"
OFF = ("off", "0", "no", "none")
LARGEST = 32 << 20
"""Bytes of a header that is kept; there is none that long."""
ROOM = 32 << 20
"""Bytes of each of the 16 folders; what was not used for the longest time goes."""
_MARK = b"gguftool header 1\n"
_LINE = 8 << 10
_MINE = Readers(0o600)


@dataclass(frozen=True, slots=True)
class Front:
    """The beginning of a file on a server.

    Attributes:
        url: where it is, without credentials.
        size: bytes of the whole file.
        etag: what the server that has the bytes calls this version, or "".
        linked: what the Hub calls it, or "".
        front: its first bytes, the header among them.
    """

    url: str
    size: int
    etag: str
    linked: str
    front: bytes


def folder() -> str | None:
    """Where headers are kept; None when they are not."""
    named = os.environ.get(VARIABLE, "")
    if named.lower() in OFF:
        return None
    return os.path.expanduser(named) if named else user_cache("gguftool", "headers")


def find(url: str) -> Front | None:
    """What is kept of a file, None when nothing is that can be trusted to be whole."""
    path = _path(url)
    if path is None:
        return None
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
        with open(fd, "rb") as f:
            s = os.fstat(fd)
            if not stat.S_ISREG(s.st_mode) or s.st_size > LARGEST + _LINE or s.st_uid != getattr(os, "geteuid", int)():
                return None
            mark, line, front = f.readline(len(_MARK)), f.readline(_LINE), f.read()
        found = _read(url, mark, line, front)
        if found is None:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
    except OSError:
        return None
    return found


def _read(url: str, mark: bytes, line: bytes, front: bytes) -> Front | None:
    try:
        said = from_json(line) if mark == _MARK else None
    except Malformed:
        return None
    if not isinstance(said, dict):
        return None
    size, etag, linked = (said.get(name) for name in ("size", "etag", "linked"))
    if not (isinstance(size, int) and isinstance(etag, str) and isinstance(linked, str)):
        return None
    if said.get("of") != _name(url) or said.get("crc32") != zlib.crc32(front) or len(front) > size:
        return None
    return Front(url, size, etag, linked, front)


def keep(known: Front) -> None:
    """Keep the beginning of a file. A cache that cannot be written is none; that is no error."""
    path = _path(known.url)
    if path is None or len(known.front) > LARGEST:
        return
    facts = {
        # Not the address: it may be signed.
        "of": _name(known.url),
        "size": known.size,
        "etag": known.etag,
        "linked": known.linked,
        "crc32": zlib.crc32(known.front),
    }
    line = json.dumps(facts).encode() + b"\n"
    if len(line) >= _LINE:
        return
    with contextlib.suppress(OSError, GgufToolError):
        make_folder(os.path.dirname(path))
        _make_room(os.path.dirname(path), len(known.front))
        replace_own(path, _MARK + line + known.front, _MINE)


def _path(url: str) -> str | None:
    place, name = folder(), _name(url)
    return os.path.join(place, name[0], name) if place else None


def _name(url: str) -> str:
    return hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()


def _make_room(place: str, n: int) -> None:
    """Take away what was not used for the longest time, until there is room for ``n`` bytes more."""
    rows = []
    with os.scandir(place) as entries:
        for entry in entries:
            if len(entry.name) == 64 and entry.is_file(follow_symlinks=False):
                s = entry.stat(follow_symlinks=False)
                rows.append((s.st_mtime_ns, s.st_size, entry.path))
    over = sum(size for _, size, _ in rows) + n - ROOM
    for _, size, path in sorted(rows):
        if over <= 0:
            return
        os.unlink(path)
        over -= size
