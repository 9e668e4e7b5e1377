"""Operating systems that misbehave on purpose, behind the verbs of `gguftool.edit.oslayer.OsLayer`.

`CountingOs` works on the real disk and dies before operation n, or in the middle of a write.
`FailingOs` works on the real disk and reports an error at operation n.
`tests.edit.powerdisk.PowerOs` is a model of a disk that loses power.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from gguftool.edit.oslayer import OsLayer

SECTOR = 512
WRITES = "create draft rename unlink pwrite truncate insert collapse punch copy_ranges fsync syncdir".split()


class Crashed(BaseException):
    """The process is dead, or the power is gone. Not an Exception: no handler of the product may survive it."""


class CountingOs(OsLayer):
    """The real disk; dies at operation ``at`` (counting those of `WRITES`), half through it when ``torn``.

    fsync does nothing here: a process that dies loses nothing of what it wrote.
    """

    def __init__(self, at: int | None = None, torn: bool = False) -> None:
        self.at, self.torn = at, torn
        self.count = 0
        self.dead = False
        self.trace: list[str] = []
        self.watch: Callable[[], None] | None = None

    def _tick(self, verb: str) -> bool:
        """Counts; raises when the process dies before this operation; True when it dies in the middle."""
        if self.dead:
            raise Crashed
        if self.watch is not None:
            self.watch()
        n, self.count = self.count, self.count + 1
        self.trace.append(verb)
        if n == self.at:
            self.dead = True
            if not self.torn:
                raise Crashed
            return True
        return False

    def lease(self, fd: int) -> bool | None:
        return True

    def fsync(self, fd: int) -> None:
        if self._tick("fsync"):
            raise Crashed

    def syncdir(self, folder: str) -> None:
        if self._tick("syncdir"):
            raise Crashed

    def pwrite(self, fd: int, offset: int, data: bytes | memoryview) -> None:
        if self._tick("pwrite"):
            super().pwrite(fd, offset, memoryview(data)[: len(data) // 2])
            raise Crashed
        super().pwrite(fd, offset, data)


def _dying(verb: str) -> Callable[..., object]:
    def call(self: CountingOs, *args: object, **kwargs: object) -> object:
        half = self._tick(verb)
        result = getattr(OsLayer, verb)(self, *args, **kwargs)
        if half:
            if verb in ("create", "draft"):
                os.close(result[0] if isinstance(result, tuple) else result)  # and with it the lock
            raise Crashed  # after it: the process never saw the answer
        return result

    return call


for _verb in set(WRITES) - {"fsync", "syncdir", "pwrite"}:
    setattr(CountingOs, _verb, _dying(_verb))


class FailingOs(OsLayer):
    """The real disk; operation ``at`` fails with ``error``; a write may have done a part of its work before."""

    def __init__(self, at: int | None = None, error: int = errno.EIO, verbs: tuple[str, ...] = tuple(WRITES)) -> None:
        self.at, self.error, self.verbs = at, error, verbs
        self.count = 0
        self.failed: str | None = None

    def lease(self, fd: int) -> bool | None:
        return True

    def _tick(self, verb: str) -> bool:
        if verb not in self.verbs:
            return False
        n, self.count = self.count, self.count + 1
        if n == self.at:
            self.failed = verb
            return True
        return False

    def pwrite(self, fd: int, offset: int, data: bytes | memoryview) -> None:
        if self._tick("pwrite"):
            super().pwrite(fd, offset, memoryview(data)[: len(data) // 3])
            raise OSError(self.error, os.strerror(self.error))
        super().pwrite(fd, offset, data)


def _failing(verb: str) -> Callable[..., object]:
    def call(self: FailingOs, *args: object, **kwargs: object) -> object:
        if self._tick(verb):
            raise OSError(self.error, os.strerror(self.error))
        return getattr(OsLayer, verb)(self, *args, **kwargs)

    return call


for _verb in set(WRITES) - {"pwrite"}:
    setattr(FailingOs, _verb, _failing(_verb))
