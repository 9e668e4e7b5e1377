"""Every sync of every edit fails once, on a real ext4 over a device that refuses the writes: what lasts is what counts.

A failed write leaves pages in memory that no later sync writes, so the file that programs read is not the one on the
disk. After the failed sync the disk is good again, `recover` runs in a new process, and then the file system is mounted
anew: what is read now is on the disk. Linux, root, /dev/fuse, a loop device and e2fsprogs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from gguftool.edit.ops import Reserve, Set
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.plan import plan_edit
from gguftool.edit.recover import recover
from gguftool.edit.undo import undo
from tests.edit.loops import Served, mounted, run
from tests.edit.scenarios import NAME, model

Act = Callable[[str, OsLayer], object]


class FaultyDisk:
    """An ext4 whose device can be told to refuse writes."""

    def __init__(self, folder: Path) -> None:
        image, self.mount = folder / "disk.img", folder / "mnt"
        self.control, self.happened = folder / "refuse", folder / "refused"
        with open(image, "wb") as f:
            f.truncate(24 << 20)
        run("mkfs.ext4", "-q", "-F", "-b", "4096", str(image))
        said = run("debugfs", "-R", "stat <8>", str(image))
        extents = re.findall(r"\(\d+(?:-\d+)?\):(\d+)(?:-(\d+))?", said.partition("EXTENTS:")[2])
        self.spared = [[int(a) * 4096, (int(b or a) + 1) * 4096] for a, b in extents]
        assert self.spared, said
        self.served = Served(image, folder / "fuse", self.control)
        self.holding = contextlib.ExitStack()

    def __enter__(self) -> FaultyDisk:
        with contextlib.ExitStack() as all_of_it:
            all_of_it.enter_context(self.served)
            self.holding.enter_context(mounted(self.served.disk, self.mount))
            self.served_until = all_of_it.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.control.unlink(missing_ok=True)
        with self.served_until:
            self.holding.close()

    def mount_anew(self) -> None:
        """Nothing is in memory any more."""
        self.holding.close()
        self.holding.enter_context(mounted(self.served.disk, self.mount))

    @property
    def refused(self) -> bool:
        """Whether writes were refused since this was asked the last time."""
        there = self.happened.exists()
        self.happened.unlink(missing_ok=True)
        return there

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        hidden = self.control.with_suffix(".new")
        hidden.write_text(json.dumps(self.spared))
        hidden.rename(self.control)
        self.happened.touch()
        try:
            yield
        finally:
            self.control.unlink(missing_ok=True)


class FailOnce(OsLayer):
    """Sync number ``at`` of a file fails: the device refuses what it should write."""

    def __init__(self, disk: FaultyDisk, at: int) -> None:
        self.disk, self.at, self.syncs = disk, at, 0

    def fsync(self, fd: int) -> None:
        self.syncs += 1
        if self.syncs == self.at:
            with self.disk.refusing():
                super().fsync(fd)
        else:
            super().fsync(fd)


class DieAfter(OsLayer):
    """The process is killed after sync number ``at``."""

    def __init__(self, at: int) -> None:
        self.at, self.syncs = at, 0

    def fsync(self, fd: int) -> None:
        super().fsync(fd)
        self.syncs += 1
        if self.syncs == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def in_child(act: Callable[[], object]) -> str:
    """What a process of its own says: the result, or the error."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = str(act())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode()[:4000])
        os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    with open(reading, "rb") as f:
        return f.read().decode()


LONG = Set("general.description", "d" * 9000)
PATCH: Act = lambda path, layer: plan_edit(path, [Set("llama.context_length", 1024)], layer=layer).commit()  # noqa: E731
INSERT: Act = lambda path, layer: plan_edit(path, [LONG, Reserve(64)], strategy="insert", layer=layer).commit()  # noqa: E731
REWRITE: Act = lambda path, layer: plan_edit(path, [LONG], strategy="rewrite", layer=layer).commit()  # noqa: E731
UNDO: Act = lambda path, layer: undo(path, layer=layer)  # noqa: E731
RECOVER: Act = lambda path, layer: recover(path, layer)  # noqa: E731

# Name: what is done before and lasts, the edit that is killed after so many syncs, what is done while a sync fails.
CASES: dict[str, tuple[tuple[Act, ...], tuple[Act, int] | None, Act]] = {
    "patch": ((), None, PATCH),
    "insert": ((), None, INSERT),
    "rewrite": ((), None, REWRITE),
    "undo-patch": ((PATCH,), None, UNDO),
    "undo-insert": ((INSERT,), None, UNDO),
    "undo-both": ((INSERT, PATCH), None, UNDO),
    "recover-patch": ((), (PATCH, 4), RECOVER),
    "recover-patch-at-the-end": ((), (PATCH, 5), RECOVER),
    "recover-insert": ((), (INSERT, 6), RECOVER),
    "recover-insert-early": ((), (INSERT, 4), RECOVER),
    "recover-undo": ((INSERT,), (UNDO, 4), RECOVER),
}


def all_syncs(disk: FaultyDisk, name: str) -> int:
    """Let every sync of one case fail in turn; how many there were."""
    before, killed, act = CASES[name]
    path = disk.mount / NAME
    at = 0
    while True:
        at += 1
        for entry in disk.mount.iterdir():
            if entry.name.startswith(NAME) or entry.name.endswith(".gguftool-part"):
                entry.unlink()
        model().write(path)
        states = [path.read_bytes()]
        for each in before:
            each(str(path), OsLayer())
            states.append(path.read_bytes())
        doing = killed[0] if killed else act
        if doing is not UNDO:
            # What it leads to, without trouble.
            doing(str(path), OsLayer())
            states.append(path.read_bytes())
            undo(path)
        if killed:
            in_child(partial(killed[0], str(path), DieAfter(killed[1])))
        disk.mount_anew()
        said = in_child(partial(act, str(path), FailOnce(disk, at)))
        if not disk.refused:
            return at - 1
        recovered = in_child(partial(recover, path))
        seen = path.read_bytes()
        disk.mount_anew()
        lasting = path.read_bytes()
        where = f"{name}, sync {at}: {said} | {recovered}"
        assert lasting == seen, f"{where}: the disk has another file than memory had"
        assert lasting in states, f"{where}: neither old nor new"
        left = [n for n in os.listdir(disk.mount) if n.endswith(("-journal", ".gguftool-part"))]
        assert not left, where


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FaultyDisk]:
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("needs Linux and root: a file system is mounted")
    if not os.path.exists("/dev/fuse"):
        pytest.skip("there is no /dev/fuse here")
    with FaultyDisk(tmp_path) as found:
        yield found


@pytest.mark.parametrize("name", ["patch"])
def test_a_failed_sync_on_a_real_disk(name: str, disk: FaultyDisk):
    assert all_syncs(disk, name) >= 5


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [name for name in CASES if name != "patch"])
def test_every_failed_sync_on_a_real_disk(name: str, disk: FaultyDisk):
    count = all_syncs(disk, name)
    print(f"\n{name}: {count} syncs failed in turn")
    assert count >= 2
