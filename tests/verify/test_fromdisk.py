"""What was written is read from the disk: the right bytes, however the disk can be asked, and never trusted unasked."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path

import pytest

from gguftool.errors import ChangedMeanwhile
from gguftool.verify.fromdisk import FromDisk
from gguftool.verify.stream import CHUNK, run

SIZES = (0, 1, 4095, 4096, CHUNK, CHUNK + 1, 3 * CHUNK + 777)


class Taken:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.data = bytearray()

    def feed(self, data: memoryview, offset: int) -> None:
        assert offset == len(self.data)
        self.data += data


def written(path: Path, data: bytes) -> Path:
    with open(path, "wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    return path


def read(source: FromDisk) -> bytes:
    taken = Taken()
    run(source, [taken])
    return bytes(taken.data)


@pytest.mark.parametrize("size", SIZES)
def test_every_byte_to_the_end(size: int, tmp_path: Path):
    data = random.Random(size).randbytes(size)
    source = FromDisk(written(tmp_path / "f", data))
    assert read(source) == data
    assert source.read_at(3, 50) == data[3:53]
    before = len(os.listdir("/proc/self/fd"))
    source.close()
    assert len(os.listdir("/proc/self/fd")) < before


@pytest.mark.parametrize("size", SIZES[1:])
def test_what_nobody_fetched_is_not_taken_for_the_disk(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A file system that answers out of its memory: the kernel counts nothing, and the memory is dropped first."""
    data = random.Random(size).randbytes(size)
    path = written(tmp_path / "f", data)
    dropped = []
    monkeypatch.setattr(FromDisk, "_fetched", lambda self: 7)
    monkeypatch.setattr(os, "posix_fadvise", lambda *words: dropped.append(words[3]))
    assert read(FromDisk(path)) == data
    assert dropped == [os.POSIX_FADV_DONTNEED]


@pytest.mark.parametrize("lacking", ["/proc", "O_DIRECT", "the flag on this disk"])
def test_where_the_system_cannot_the_file_is_read_as_any_other(
    lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    data = random.Random(1).randbytes(2 * CHUNK + 5)
    path = written(tmp_path / "f", data)
    if lacking == "O_DIRECT":
        monkeypatch.delattr(os, "O_DIRECT")
    else:
        real = os.open

        def refused(name: str, *words: int) -> int:
            if str(name).startswith("/proc/") and (lacking == "/proc" or words[0] & os.O_DIRECT):
                raise OSError(22, "Invalid argument")
            return real(name, *words)

        monkeypatch.setattr(os, "open", refused)
    assert read(FromDisk(path)) == data


def test_a_hole_is_zeros(tmp_path: Path):
    """The disk fetches nothing for it."""
    path = tmp_path / "f"
    with open(path, "wb") as handle:
        handle.write(b"x" * 5000)
        handle.truncate(2 * CHUNK)
        os.fsync(handle.fileno())
    assert (
        hashlib.sha256(read(FromDisk(path))).digest() == hashlib.sha256(b"x" * 5000 + bytes(2 * CHUNK - 5000)).digest()
    )


def test_a_file_cut_short_meanwhile_is_told(tmp_path: Path):
    path = written(tmp_path / "f", bytes(3 * CHUNK))
    source = FromDisk(path)
    os.truncate(path, CHUNK + 10)
    with pytest.raises(ChangedMeanwhile):
        read(source)
