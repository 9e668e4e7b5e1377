"""A process that dies before each operation, or in the middle of it - and recovery that dies at each of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gguftool.edit.recover import recover
from gguftool.files.holes import data_in, hole_at
from tests.edit.oslayers import CountingOs, Crashed
from tests.edit.scenarios import NAME, SCENARIOS, Prepared, Scenario, prepare, write_sparse

COUNTS: dict[str, int] = {}


@pytest.fixture(scope="module", autouse=True)
def report():
    yield
    if COUNTS:
        print(f"\ncrash scenarios on the real disk: {sum(COUNTS.values()):,} {COUNTS}")


class Disk:
    """A folder put into the state before a scenario, again and again."""

    def __init__(self, folder: Path, prepared: Prepared) -> None:
        self.folder, self.prepared = folder, prepared
        self.path = str(folder / NAME)

    def reset(self) -> None:
        for entry in os.listdir(self.folder):
            os.unlink(self.folder / entry)
        for name, data in self.prepared.files.items():
            if name == NAME and self.prepared.sparse:
                write_sparse(self.path, data)
            else:
                (self.folder / name).write_bytes(data)

    def check(self) -> bytes:
        data = Path(self.path).read_bytes()
        if data[:4] == b"GGUF":
            assert data in (self.prepared.old, self.prepared.new), "loadable, but neither old nor new"
        return data

    def settle(self) -> None:
        recover(self.path)
        data = Path(self.path).read_bytes()
        assert data in (self.prepared.old, self.prepared.new)
        assert not [n for n in os.listdir(self.folder) if n.endswith(("-journal", ".gguftool-part"))]


def crash_everywhere(scenario: Scenario, folder: Path, step: int) -> int:
    """Crash at every operation; at every ``step``-th of these also recovery at every one of its operations."""
    disk = Disk(folder, prepare(scenario))
    disk.reset()
    whole = CountingOs()
    disk.prepared.run(disk.path, whole)
    assert disk.check() == disk.prepared.new
    done = 0
    for torn in (False, True):
        for at in range(whole.count):
            disk.reset()
            layer = CountingOs(at, torn)
            layer.watch = lambda: disk.check() and None
            with pytest.raises(Crashed):
                disk.prepared.run(disk.path, layer)
            disk.check()
            frozen = {n: (folder / n).read_bytes() for n in os.listdir(folder)} if at % step == 0 else None
            written = _written(disk.path)
            if frozen is None:
                disk.settle()
                done += 1
                continue
            again = 0
            while True:
                second = CountingOs(again, torn)
                second.watch = lambda: disk.check() and None
                try:
                    recover(disk.path, second)
                except Crashed:
                    disk.check()
                    disk.settle()
                    done += 1
                else:
                    disk.settle()
                    done += 1
                    break
                again += 1
                _thaw(folder, frozen, written)
    COUNTS[scenario.name] = done
    return done


def _written(path: str) -> list[tuple[int, int]]:
    """(start, length) of what is no hole of the file; a plain copy would fill them."""
    fd = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        return list(data_in(lambda at: hole_at(fd, at, size), 0, size))
    finally:
        os.close(fd)


def _thaw(folder: Path, frozen: dict[str, bytes], written: list[tuple[int, int]]) -> None:
    for entry in os.listdir(folder):
        os.unlink(folder / entry)
    for name, data in frozen.items():
        with open(folder / name, "wb") as f:
            if name.endswith(".gguftool-part"):
                # The number of its inode is in its name.
                os.rename(folder / name, folder / f".{NAME}.{os.fstat(f.fileno()).st_ino}.gguftool-part")
            f.truncate(len(data))
            for start, n in written if name == NAME else [(0, len(data))]:
                f.seek(start)
                f.write(data[start : start + n])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_crash_at_every_operation(scenario: Scenario, tmp_path: Path):
    assert crash_everywhere(scenario, tmp_path, 6) > 20


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_crash_at_every_operation_of_edit_and_recovery(scenario: Scenario, tmp_path: Path):
    assert crash_everywhere(scenario, tmp_path, 1) > 40
