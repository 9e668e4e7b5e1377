"""Ranges of one file in a new one: the same bytes, no more blocks than there were, whatever the system refuses."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gguftool.errors import ChangedMeanwhile
from gguftool.files import copies, disk
from gguftool.files.copies import UNIT, copy_ranges
from gguftool.files.holes import data_in, hole_at, holes_in

SIZE = 3_000_001
DATA = random.Random(1).randbytes(SIZE)
WHOLE = [(0, 0, SIZE)]
PIECES = [(0, 8192, 100_000), (200_001, 150_000, 1_500_000), (1_703_936, 1_654_784 + UNIT, SIZE - 1_703_936)]
"""The second is moved within its pages, the others are not."""


@pytest.fixture
def old(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "old").write_bytes(DATA)
    fd = os.open(tmp_path / "old", os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def new(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "new", os.O_RDWR | os.O_CREAT)
    yield fd
    os.close(fd)


def expected(moves: list[tuple[int, int, int]]) -> bytes:
    out = bytearray(max(to + n for _, to, n in moves))
    for at, to, n in moves:
        out[to : to + n] = DATA[at : at + n]
    return bytes(out)


def brought(old: int, new: int, moves: list[tuple[int, int, int]]) -> None:
    os.ftruncate(new, max(to + n for _, to, n in moves))
    ticks: list[int] = []
    got = copy_ranges(old, new, moves, ticks.append)
    assert sum(ticks) == sum(n for _, _, n in moves)
    assert sum(n for _, _, n in (*got.copied, *got.shared)) == sum(n for _, _, n in moves)
    assert os.pread(new, SIZE * 2, 0) == expected(moves)


@pytest.mark.parametrize("moves", [WHOLE, PIECES])
def test_bytes_are_where_they_shall_be(old: int, new: int, moves: list[tuple[int, int, int]]):
    brought(old, new, moves)


def failing(number: int, after: int = 0) -> Callable[..., int]:
    """A copy_file_range that copies ``after`` bytes in all, and then fails."""
    left = after

    def call(src: int, dst: int, count: int, at: int, to: int = 0) -> int:
        nonlocal left
        if not left:
            raise OSError(number, os.strerror(number))
        n = os.pwrite(dst, os.pread(src, min(count, left), at), to)
        left -= n
        return n

    return call


@pytest.mark.parametrize("after", [0, 70_000, 1_500_000])
@pytest.mark.parametrize(
    "number", [errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EIO, errno.ETXTBSY]
)
def test_a_kernel_that_will_not_copy(old: int, new: int, monkeypatch, number: int, after: int):
    monkeypatch.setattr(os, "copy_file_range", failing(number, after), raising=False)
    brought(old, new, WHOLE)
    os.ftruncate(new, 0)
    brought(old, new, PIECES)


@pytest.mark.parametrize("moves", [WHOLE, PIECES])
def test_a_kernel_that_says_nothing_is_left(old: int, new: int, monkeypatch, moves: list[tuple[int, int, int]]):
    """Some file systems answer 0 for files whose length they do not know (linux/fs/read_write.c)."""
    monkeypatch.setattr(os, "copy_file_range", lambda *a: 0, raising=False)
    brought(old, new, moves)


def test_a_system_without_such_calls(old: int, new: int, monkeypatch):
    for name in ("copy_file_range", "posix_fadvise", "SEEK_HOLE", "SEEK_DATA", "fstatvfs"):
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr(copies, "linux_calls", lambda: None)
    monkeypatch.setattr(disk.sys, "platform", "darwin")
    brought(old, new, PIECES)


def test_a_source_that_became_shorter(old: int, new: int, tmp_path: Path):
    os.ftruncate(new, SIZE)
    os.truncate(tmp_path / "old", 2_000_000)
    with pytest.raises(ChangedMeanwhile, match="shorter"):
        copy_ranges(old, new, WHOLE)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_says_so(old: int, new: int, monkeypatch, number: int):
    def no(*a: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "copy_file_range", no, raising=False)
    monkeypatch.setattr(os, "pwrite", no)
    with pytest.raises(OSError) as caught:
        copy_ranges(old, new, WHOLE)
    assert caught.value.errno == number


def test_a_full_disk_is_known_before_anything_is_copied(old: int, new: int, monkeypatch):
    def full(*a: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(copies, "fallocate", full)
    os.ftruncate(new, SIZE)
    with pytest.raises(OSError, match="No space"):
        copy_ranges(old, new, WHOLE)
    assert not any(os.pread(new, SIZE, 0))


def test_a_file_system_that_takes_no_room_beforehand(old: int, new: int, monkeypatch):
    """Then nothing is written in place of it: glibc's posix_fallocate would touch every block."""
    written: list[int] = []
    real = os.pwrite
    monkeypatch.setattr(copies, "fallocate", failing(errno.EOPNOTSUPP))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: (written.append(len(data)), real(fd, data, at))[1])
    monkeypatch.setattr(os, "copy_file_range", lambda *a: 0, raising=False)
    brought(old, new, PIECES)
    assert sum(written) == sum(n for _, _, n in PIECES)


def test_what_is_shared_is_not_copied(old: int, new: int, monkeypatch):
    """In place of a disk that shares blocks: whole blocks appear in the new file, and nothing else writes them."""
    asked: list[tuple[int, int, int]] = []

    def share(src: int, at: int, dst: int, to: int, n: int) -> bool:
        assert (at % UNIT, to % UNIT, n % UNIT) == (0, 0, 0)
        asked.append((at, to, n))
        os.pwrite(dst, os.pread(src, n, at), to)
        return True

    def by_kernel(src: int, dst: int, count: int, at: int, to: int) -> int:
        assert not any(start - count < to < start + n for _, start, n in asked)
        return os.pwrite(dst, os.pread(src, count, at), to)

    monkeypatch.setattr(copies, "share", share)
    monkeypatch.setattr(os, "copy_file_range", by_kernel, raising=False)
    moves = [(100, 100 + UNIT, 10_000), (20_000, 20_001, 50_000), (UNIT * 30, UNIT * 40, UNIT * 9 + 5)]
    os.ftruncate(new, 400_000)
    got = copy_ranges(old, new, moves)
    assert asked == got.shared == [(UNIT, 2 * UNIT, UNIT), (UNIT * 30, UNIT * 40, UNIT * 9)]
    assert sum(n for _, _, n in got.copied) == sum(n for _, _, n in moves) - 10 * UNIT
    assert os.pread(new, SIZE, 0)[: len(expected(moves))] == expected(moves)


def test_one_that_cannot_share_is_asked_once(old: int, new: int, monkeypatch):
    asked: list[int] = []
    monkeypatch.setattr(copies, "share", lambda *a: bool(asked.append(1)))
    brought(old, new, [(0, 0, 50_000), (60_000, 60_000, 50_000)])
    assert len(asked) == 1


class TestHoles:
    """Stretches that were never written."""

    @pytest.fixture
    def sparse(self, tmp_path: Path) -> Iterator[int]:
        """1 GiB in all, some KiB of it written."""
        with open(tmp_path / "sparse", "wb") as f:
            for at in (0, 500_000, 1 << 29):
                f.seek(at)
                f.write(DATA[:5000])
            f.truncate(1 << 30)
        fd = os.open(tmp_path / "sparse", os.O_RDONLY)
        if hole_at(fd, 0, 1 << 30)[0] == 1 << 30:
            pytest.skip("this file system has no holes")
        yield fd
        os.close(fd)

    @pytest.mark.parametrize("shift", [0, 4096, 100])
    def test_they_stay(self, sparse: int, new: int, shift: int):
        os.ftruncate(new, (1 << 30) + shift)
        ticks: list[int] = []
        got = copy_ranges(sparse, new, [(0, shift, 1 << 30)], ticks.append)
        assert sum(ticks) == 1 << 30
        assert sum(n for _, _, n in got.copied) < 50_000
        assert os.fstat(new).st_blocks * 512 <= os.fstat(sparse).st_blocks * 512 + 4 * UNIT
        for at in (0, 500_000, 1 << 29):
            assert os.pread(new, 6000, at + shift) == DATA[:5000] + bytes(1000)
        assert os.fstat(new).st_size == (1 << 30) + shift

    def test_the_room_is_that_of_the_bytes(self, sparse: int, new: int, monkeypatch):
        taken: list[int] = []
        monkeypatch.setattr(copies, "fallocate", lambda fd, mode, at, n: taken.append(n))
        os.ftruncate(new, 1 << 30)
        copy_ranges(sparse, new, [(0, 0, 1 << 30)])
        assert sum(taken) < 50_000

    def test_where_they_are(self, sparse: int):
        size = 1 << 30
        found = list(data_in(lambda at: hole_at(sparse, at, size), 0, size))
        holes = holes_in(lambda at: hole_at(sparse, at, size), size, 10)
        assert holes is not None
        at = 0
        for start, n in sorted([*found, *holes]):
            assert start == at
            at += n
        assert at == size
        assert holes_in(lambda at: hole_at(sparse, at, size), size, 2) is None
        # Beginning in the middle of a hole, and of bytes.
        assert list(data_in(lambda at: hole_at(sparse, at, size), 100_000, 1000)) == []
        assert list(data_in(lambda at: hole_at(sparse, at, size), 100, 1000)) == [(100, 1000)]


@pytest.mark.parametrize("answer", [(0, 0), (5, 5), (50, 20), (-3, -1)])
def test_a_file_system_that_contradicts_itself_ends(answer: tuple[int, int]):
    """All is taken for bytes, so that none is lost."""
    assert sum(n for _, n in data_in(lambda at: answer, 10, 90)) == 90
