"""Disks in files: each mount has a loop device of its own, and a disk that a process of ours serves. Linux, root."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> str:
    """What a program says; a test that has no such program is skipped.

    Raises:
        RuntimeError: it failed.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        pytest.skip(f"there is no {command[0]} here")
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def mounted(image: Path, folder: Path, *, must: bool = False) -> Iterator[Path]:
    """The file system in a file; the test is skipped where it cannot be mounted, unless it ``must``.

    ``mount -o loop`` would take the loop device that this file had before, when that is still there: who looks for a
    free one, in another test, has it open for a moment, and the system lets go of it only then. Such a device has in
    its memory what the file held when it was mounted last, and not what was written into the file since. So the device
    is always a new one.
    """
    folder.mkdir(exist_ok=True)
    try:
        device = run("losetup", "--find", "--show", str(image)).strip()
        try:
            run("mount", device, str(folder))
        except BaseException:
            run("losetup", "--detach", device)
            raise
    except RuntimeError as error:
        if must:
            raise
        pytest.skip(f"this system does not let us mount a file: {error}")
    try:
        yield folder
    finally:
        # When it is in use for a moment, the system lets go of it afterwards.
        taken_off(folder)
        run("losetup", "--detach", device)


def taken_off(place: Path) -> None:
    """Unmount; a child of another test, or the loop device that is let go of in its own time, may still hold it."""
    for pause in (0.1, 0.5, 1, 2, 4, 8):
        with contextlib.suppress(RuntimeError):
            run("umount", str(place))
        if not os.path.ismount(place):
            return
        time.sleep(pause)
    run("umount", "--lazy", str(place))


class Served:
    """A disk in a FUSE file system (`tests.edit.faultydisk`); its file is `disk`."""

    def __init__(self, image: Path, folder: Path, control: Path, record: Path | None = None) -> None:
        self.folder, self.disk = folder, folder / "disk"
        self.words = [str(image), str(folder), str(control), *([str(record)] if record else [])]

    def __enter__(self) -> Served:
        if not os.path.exists("/dev/fuse"):
            pytest.skip("there is no /dev/fuse here")
        self.folder.mkdir()
        self.server = subprocess.Popen(
            [sys.executable, "-m", "tests.edit.faultydisk", *self.words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.server.stdout is not None
        if self.server.stdout.readline() != b"ready\n":
            _, error = self.server.communicate()
            pytest.skip(f"no FUSE file system can be mounted here: {error.decode().splitlines()[-1:]}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        taken_off(self.folder)
        self.server.communicate(timeout=120)
