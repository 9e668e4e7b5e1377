"""What a store holds: files by their data, and the names that lead to them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

from gguftool.brief import short_repr
from gguftool.errors import GgufToolError
from gguftool.reading import file_bytes
from gguftool.records import dataclass, field

MAX_FILES = 200_000
"""Entries of a store that are looked at; of a larger one the rest is left out, and said so."""
BLOCK = 512
"""Bytes of a unit of `st_blocks`, whatever the file system (stat(2))."""


@dataclass(frozen=True, slots=True)
class File:
    """One file, by its data.

    Attributes:
        path: where its data lies; its last part is no symbolic link.
        size: bytes that a reader gets.
        disk: bytes it takes on the disk; less than ``size`` where it has holes.
        inode: device and number: two paths with the same are one file.
        changed: when it was written last, in seconds since 1970.
        owner: user and group.
        mode: its permissions.
        links: hard links to it.
    """

    path: str
    size: int
    disk: int
    inode: tuple[int, int]
    changed: float
    owner: tuple[int, int]
    mode: int
    links: int

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Name:
    """A name that a store has for a file.

    Attributes:
        text: as its program calls it: ``owner/repo/file.gguf``, ``llama3.2:3b``.
        at: path of what says so: a link, a manifest, the file itself.
        part: what of the model it is where that is not all: ``projector``.
        old: a revision that no branch and no tag names, in a repository where one has the same file.
        revision: commit of the repository; "" elsewhere.
    """

    text: str
    at: str
    part: str = ""
    old: bool = False
    revision: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """One thing in a store.

    Attributes:
        state: ``model``; ``part``: a download that was not finished; ``orphan``: nothing in its store names it;
            ``lost``: names whose data is gone.
        path: where its data is, or should be.
        names: what its store calls it.
        file: the data; None of a lost one.
        sha256: as the store has it in the name of the file; "" when it has not.
        beside: small files that belong to it alone.
        group: what of the store it belongs to: a repository, a model.
        stuck: the program's own command does not touch this group, because it is damaged.
    """

    state: str
    path: str
    names: tuple[Name, ...] = ()
    file: File | None = None
    sha256: str = ""
    beside: tuple[str, ...] = ()
    group: str = ""
    stuck: bool = False

    __repr__ = short_repr

    @property
    def size(self) -> int:
        """Bytes that a reader gets; 0 of what is gone."""
        return self.file.size if self.file else 0

    @property
    def opened(self) -> str:
        """Path to read it by: a name of its store where that has one, so that shards find each other."""
        ways = sorted(self.names, key=lambda n: n.old)
        return next((n.at for n in ways if n.at.lower().endswith(".gguf")), self.path)

    @property
    def called(self) -> str:
        """As its program calls it; its path where nothing names it."""
        return self.names[0].text if self.names else self.path

    @property
    def whole(self) -> bool:
        """It is there, and no download that was not finished."""
        return self.state in ("model", "orphan")


@dataclass(slots=True)
class Contents:
    """What was read of a store.

    Attributes:
        kept: what it holds.
        unread: what could not be read, with the reason: nothing there is known to be without a name then.
        cut: it holds more than was looked at.
    """

    kept: list[Kept] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)
    cut: bool = False


Reader = Callable[[str], Contents]


def looked_at(path: str) -> File | None:
    """The file that a path leads to; None when there is none, or it is no regular file.

    Raises:
        OSError: it cannot be asked, and for another reason than that it is not there.
    """
    try:
        real = os.path.realpath(path, strict=True)
        found = os.stat(real)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    blocks = getattr(found, "st_blocks", None)
    disk = found.st_size if blocks is None else blocks * BLOCK
    return File(
        real, found.st_size, disk, (found.st_dev, found.st_ino), found.st_mtime, (found.st_uid, found.st_gid),
        stat.S_IMODE(found.st_mode), found.st_nlink,
    )  # fmt: skip


class Walk:
    """Goes through the folders of a store: bounded, no folder twice, what cannot be read is noted."""

    def __init__(self, found: Contents, limit: int = MAX_FILES) -> None:
        self.found = found
        self._left = limit

    def entries(self, folder: str) -> list[os.DirEntry[str]]:
        """What lies in a folder, by name; nothing where there is no such folder."""
        try:
            with os.scandir(folder) as scan:
                out = []
                for entry in scan:
                    if self._left <= 0:
                        self.found.cut = True
                        break
                    self._left -= 1
                    out.append(entry)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as e:
            self.note(folder, e)
            return []
        return sorted(out, key=lambda e: e.name)

    def files(self, root: str, *, follow: bool = False) -> Iterator[str]:
        """Paths of all that is no folder below a folder.

        Args:
            root: where to begin.
            follow: go into folders that links lead to, as programs do that look at what a path is.
        """
        waiting, seen = [root], set[tuple[int, int]]()
        while waiting:
            folder = waiting.pop()
            if follow and self._been(folder, seen):
                continue
            below = []
            for entry in self.entries(folder):
                if self._is_folder(entry, follow):
                    below.append(entry.path)
                else:
                    yield entry.path
            waiting += reversed(below)

    def file(self, path: str) -> File | None:
        """As `looked_at`; what cannot be asked is noted."""
        try:
            return looked_at(path)
        except OSError as e:
            self.note(path, e)
            return None

    def small(self, path: str, limit: int) -> bytes | None:
        """A small file whole; None when it cannot be read, which is noted."""
        try:
            return file_bytes(path, limit)
        except GgufToolError as e:
            self.found.unread.append((path, str(e).removeprefix(f"{path}: ")))
            return None

    def note(self, path: str, error: OSError) -> None:
        """Something could not be read."""
        self.found.unread.append((path, (error.strerror or str(error)).lower()))

    def _been(self, folder: str, seen: set[tuple[int, int]]) -> bool:
        try:
            found = os.stat(folder)
        except OSError as e:
            self.note(folder, e)
            return True
        key = (found.st_dev, found.st_ino)
        if key in seen:
            return True
        seen.add(key)
        return False

    def _is_folder(self, entry: os.DirEntry[str], follow: bool) -> bool:
        try:
            return entry.is_dir(follow_symlinks=follow)
        except OSError:
            # A link in a circle: it leads nowhere.
            return False
