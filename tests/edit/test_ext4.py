"""Power failures on a real ext4: the disk under it is copied before every operation, mounted anew and recovered.

The file system lies in an image file. What the kernel has not written to the image when it is copied is lost, as when
the power fails; the file system's own journal is replayed by the mount. Needs root.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gguftool.edit.oslayer import OsLayer
from gguftool.edit.recover import recover
from tests.conftest import REAL_FSYNC
from tests.edit.oslayers import WRITES
from tests.edit.scenarios import NAME, SCENARIOS, prepare, write_sparse

pytestmark = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting needs root")
MEBIBYTES = 12


@pytest.fixture(autouse=True)
def _a_disk_that_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", REAL_FSYNC)


class WatchedOs(OsLayer):
    """The real system; calls ``before`` in front of every operation that changes something."""

    def __init__(self, before: Callable[[str], None]) -> None:
        self.before = before


def _watched(verb: str) -> Callable[..., object]:
    def call(self: WatchedOs, *args: object, **kwargs: object) -> object:
        self.before(verb)
        return getattr(OsLayer, verb)(self, *args, **kwargs)

    return call


for _verb in WRITES:
    setattr(WatchedOs, _verb, _watched(_verb))


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-o", "loop", str(image), str(folder)], capture_output=True, text=True, timeout=60)
    if done.returncode:
        pytest.skip(f"this system does not let us mount a file: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True, timeout=60)


@contextmanager
def copied(image: Path) -> Iterator[Path]:
    """The disk as it would be after a power failure now, mounted.

    The power fails everywhere at once; reading an image takes a while, in which a busy kernel may write: the front of
    the copy would be older than the file system's journal behind it, which then has nothing to replay. So it is read
    until it reads the same twice.
    """
    snapshot = image.with_name("snapshot.img")
    data = image.read_bytes()
    while data != (again := image.read_bytes()):
        data = again
    snapshot.write_bytes(data)
    with mounted(snapshot, image.with_name("after")) as folder:
        yield folder


def power_fails_everywhere(name: str, tmp_path: Path) -> int:
    scenario = next(s for s in SCENARIOS if s.name == name)
    prepared = prepare(scenario)
    image = tmp_path / "disk.img"
    with open(image, "wb") as f:
        f.truncate(MEBIBYTES << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, timeout=60)
    cases = 0

    def fail(verb: str) -> None:
        nonlocal cases
        with copied(image) as folder:
            path = folder / NAME
            data = path.read_bytes()
            if data[:4] == b"GGUF":
                assert data in (prepared.old, prepared.new), f"before {verb}: loadable, but neither old nor new"
            recover(path)
            assert path.read_bytes() in (prepared.old, prepared.new), f"before {verb}: neither old nor new"
            assert not [n for n in os.listdir(folder) if n.endswith(("-journal", ".gguftool-part"))]
        cases += 1

    with mounted(image, tmp_path / "disk") as folder:
        for file, data in prepared.files.items():
            if prepared.sparse and file == NAME:
                write_sparse(str(folder / file), data)
            else:
                (folder / file).write_bytes(data)
        os.sync()
        prepared.run(str(folder / NAME), WatchedOs(fail))
        assert (folder / NAME).read_bytes() == prepared.new
        # It was reported done, so it must be there after the power failed now.
        with copied(image) as after:
            recover(after / NAME)
            assert (after / NAME).read_bytes() == prepared.new
    return cases


@pytest.mark.parametrize("name", ["insert-one-block", "undo-insert-sparse"])
def test_power_fails_on_ext4(name: str, tmp_path: Path):
    assert power_fails_everywhere(name, tmp_path) > 12


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_power_fails_on_ext4_in_every_edit(scenario, tmp_path: Path):
    cases = power_fails_everywhere(scenario.name, tmp_path)
    print(f"\n{scenario.name}: {cases} power failures on ext4")
    assert cases > 8
