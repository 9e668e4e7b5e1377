"""What a file has besides its bytes: owner, group, mode, ACLs, extended attributes, inode flags.

Two wishes, two functions. A file that takes the place of another is that file for everybody: `copy_attributes`. A new
file made out of a model is as private as the model: `Readers`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
from collections.abc import Iterable

from gguftool.brief import short_repr
from gguftool.files.able import linux_calls
from gguftool.records import dataclass

IMMUTABLE, APPEND_ONLY = 0x10, 0x20
# linux/fs.h. C: no copy on write (btrfs; has to be set while the file is empty), c: compressed, d: not dumped,
# A: no access times, S: written at once, m: never compressed.
_KEPT_FLAGS = 0x00800000 | 0x4 | 0x40 | 0x80 | 0x8 | 0x400
_GETFLAGS, _SETFLAGS = 0x80086601, 0x40086602
_ACL = "system.posix_acl_access"
_NO_ACL = (errno.ENODATA, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)


def flags(fd: int) -> int:
    """Inode flags (`IMMUTABLE`, `APPEND_ONLY`, …); 0 where there are none."""
    fcntl = linux_calls()
    if fcntl is None:
        return 0
    buf = bytearray(8)
    try:
        fcntl.ioctl(fd, _GETFLAGS, buf)
    except OSError:
        return 0
    return int(struct.unpack_from("=I", buf)[0])


def copy_flags(src: int, dst: int) -> None:
    """Give an empty new file the flags of another that say how it is stored, as far as the file system lets us."""
    wanted = flags(src) & _KEPT_FLAGS
    fcntl = linux_calls()
    if not wanted or fcntl is None:
        return

    has = flags(dst)
    # One by one: a file system refuses all of them for one that it does not know.
    for bit in range(32):
        one = wanted & (1 << bit)
        if one and not has & one:
            with contextlib.suppress(OSError):
                fcntl.ioctl(dst, _SETFLAGS, struct.pack("=Q", has | one))
                has |= one


def copy_attributes(src: int, dst: int) -> None:
    """Owner, group, ACL, extended attributes and mode of one open file to another, as far as allowed.

    Like ``cp -p``: who may not give a file away gives it at least its group. An ACL that the new file inherited from
    its folder, and the old one has not, is taken off.
    """
    s = os.fstat(src)
    give(dst, s)
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            names = os.listxattr(src)
            for name in names:
                with contextlib.suppress(OSError):
                    os.setxattr(dst, name, os.getxattr(src, name))
        if acl(src) is None:
            _drop_acl(dst)
    if hasattr(os, "fchmod"):
        # Last: a change of owner takes set-id bits off, an ACL brings group bits.
        os.fchmod(dst, stat.S_IMODE(s.st_mode))


def give(fd: int, like: os.stat_result) -> None:
    """Owner and group of another file to an open one; who may not give it away gives it at least the group."""
    uid, gid = like.st_uid, like.st_gid
    if not hasattr(os, "fchown"):
        return
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) == (uid, gid):
        return
    try:
        os.fchown(fd, uid, gid)
    except OSError:
        with contextlib.suppress(OSError):
            os.fchown(fd, -1, gid)


def acl(file: int | str) -> bytes | None:
    """The access ACL of a file as the kernel has it; None without one."""
    if not hasattr(os, "getxattr"):
        return None
    try:
        return os.getxattr(file, _ACL)
    except OSError:
        return None


def _drop_acl(fd: int) -> None:
    if acl(fd) is not None:
        with contextlib.suppress(OSError):
            os.removexattr(fd, _ACL)


@dataclass(frozen=True, slots=True)
class Readers:
    """Who may read a new file: the permission bits, the group they are for, and an ACL.

    ``gid`` is None when the bits of the group are for whatever group the new file gets.
    """

    mode: int
    gid: int | None = None
    acl: bytes | None = None

    __repr__ = short_repr

    @property
    def private(self) -> bool:
        """Whether not everybody may read it."""
        return not self.mode & stat.S_IROTH

    def apply(self, fd: int) -> None:
        """Let exactly these read an open file of ours, less what the umask takes away."""
        mode = self.mode & ~_umask()
        if self.private:
            if self.gid is not None:
                with contextlib.suppress(OSError):
                    os.fchown(fd, -1, self.gid)
            kept = self.gid is None or os.fstat(fd).st_gid == self.gid
            _drop_acl(fd)
            if self.acl is not None:
                try:
                    os.setxattr(fd, _ACL, self.acl)
                except OSError:
                    # The bits of the group were the mask of an ACL that cannot be had here.
                    kept = False
            if not kept:
                mode &= ~stat.S_IRWXG
        # Where that cannot be done the file stays as it was made: for its owner alone.
        with contextlib.suppress(OSError):
            os.fchmod(fd, mode | stat.S_IRUSR | stat.S_IWUSR)


ANYBODY = Readers(0o666)
"""As any new file: what the umask and the folder's default ACL say."""


def readers_of(paths: Iterable[str]) -> Readers:
    """Who may read what is made out of these files: those who may read all of them.

    Args:
        paths: files; what is not on this machine (an address) is left out, and a folder stands for its files.
    """
    found: list[tuple[os.stat_result, bytes | None]] = []
    for path in paths:
        for one in _inside(path):
            try:
                found.append((os.stat(one), acl(one)))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                return Readers(stat.S_IRUSR | stat.S_IWUSR)
    if not found:
        return ANYBODY
    mode = 0o666
    for s, _ in found:
        mode &= s.st_mode
    groups, lists = {s.st_gid for s, _ in found}, {a for _, a in found}
    if len(lists) > 1 or (len(groups) > 1 and not mode & stat.S_IROTH):
        return Readers(mode & ~stat.S_IRWXG if not mode & stat.S_IROTH else mode)
    return Readers(mode, groups.pop() if len(groups) == 1 else None, lists.pop())


def _inside(path: str) -> list[str]:
    if os.path.isdir(path):
        with contextlib.suppress(OSError):
            return [e.path for e in os.scandir(path) if e.is_file() and not e.name.startswith(".")]
    return [path]


def _umask() -> int:
    """What is taken off the mode of new files; reading it means setting it, so not while threads make files."""
    try:
        with open("/proc/self/status", "rb") as f:
            for line in f:
                if line.startswith(b"Umask:"):
                    return int(line.split()[1], 8)
    except (OSError, ValueError):
        pass
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
