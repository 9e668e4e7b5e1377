"""Power failures on a real ext4, before every operation: what its disk was told until then, mounted and recovered.

The file system lies on a disk of ours that notes what is written to it, and when it is told to keep that. So what a
power failure leaves is known and not guessed: all of what was kept, and any part of what was written since. The file
system's own journal is replayed by the mount. Needs root and /dev/fuse.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gguftool.edit.oslayer import OsLayer
from gguftool.edit.recover import recover
from tests.conftest import REAL_FSYNC
from tests.edit.faultydisk import ENTRY, FLUSH
from tests.edit.loops import Served, mounted, run
from tests.edit.oslayers import WRITES
from tests.edit.scenarios import NAME, SCENARIOS, prepare, write_sparse

pytestmark = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting needs root")
MEBIBYTES = 12
SECTOR = 4096
"""What a disk writes at once: half a superblock of ext4 has a wrong checksum, and nothing would be mounted."""


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


class Told:
    """What the disk was told: what it has for good, and what it may lose when the power fails."""

    def __init__(self, image: Path, record: Path) -> None:
        self.kept = bytearray(image.read_bytes())
        self.unsure: list[tuple[int, bytes]] = []
        self.record, self.at = record, 0

    def flushes(self) -> Iterator[None]:
        """Take in what was noted since; stops before each time that the disk was told to keep it."""
        with open(self.record, "rb") as f:
            f.seek(self.at)
            news = f.read()
        at = 0
        # The last entry may still be written.
        while (end := at + ENTRY.size) <= len(news):
            offset, n = ENTRY.unpack_from(news, at)
            if news[at:end] == FLUSH:
                if self.unsure:
                    yield
                for start, data in self.unsure:
                    self.kept[start : start + len(data)] = data
                self.unsure = []
            elif end + n <= len(news):
                self.unsure.append((offset, news[end : end + n]))
            else:
                break
            at = end + n
        self.at += at

    def after(self, chance: float, rng: random.Random) -> bytes:
        """The disk after a power failure that this part of what was unsure has survived, a sector here and there."""
        disk = bytearray(self.kept)
        for start, data in self.unsure:
            at = start
            while at < start + len(data):
                end = min(at - at % SECTOR + SECTOR, start + len(data))
                if rng.random() < chance:
                    disk[at:end] = data[at - start : end - start]
                at = end
        return bytes(disk)


def power_fails_everywhere(name: str, tmp_path: Path, seed: int = 0) -> int:
    """Number of power failures that were looked at: before every operation, and before each wait of the disk in it."""
    prepared = prepare(next(s for s in SCENARIOS if s.name == name))
    image, record = tmp_path / "disk.img", tmp_path / "record"
    with open(image, "wb") as f:
        f.truncate(MEBIBYTES << 20)
    run("mkfs.ext4", "-q", "-F", str(image))
    rng = random.Random(f"{name} {seed}")
    told = Told(image, record)
    seen: set[tuple[bytes, ...]] = set()

    def judge(where: str, *allowed: bytes) -> None:
        for disk in [told.after(chance, rng) for chance in (0, 0.5, 1)]:
            if (disk, *allowed) in seen:
                continue
            seen.add((disk, *allowed))
            # Never the name of one before: see `mounted`.
            snapshot = tmp_path / f"snapshot-{len(seen)}.img"
            snapshot.write_bytes(disk)
            with mounted(snapshot, tmp_path / "after", must=True) as folder:
                path = folder / NAME
                data = path.read_bytes()
                if data[:4] == b"GGUF":
                    assert data in allowed, f"{where}: loadable, and not what it must be"
                recover(path)
                assert path.read_bytes() in allowed, f"{where}: not what it must be"
                assert not [n for n in os.listdir(folder) if n.endswith(("-journal", ".gguftool-part"))]
            snapshot.unlink()

    def fail(verb: str) -> None:
        for _ in told.flushes():
            judge(f"in what comes before {verb}", prepared.old, prepared.new)
        judge(f"before {verb}", prepared.old, prepared.new)

    with (
        Served(image, tmp_path / "fuse", tmp_path / "refuse", record) as served,
        mounted(served.disk, tmp_path / "disk") as folder,
    ):
        for file, data in prepared.files.items():
            if prepared.sparse and file == NAME:
                write_sparse(str(folder / file), data)
            else:
                (folder / file).write_bytes(data)
        os.sync()
        for _ in told.flushes():
            pass
        prepared.run(str(folder / NAME), WatchedOs(fail))
        fail("the end")
        # It was reported done, so it must be there when the power fails now, whatever else is lost.
        judge("when it is done", prepared.new)
        assert (folder / NAME).read_bytes() == prepared.new
    return len(seen)


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
