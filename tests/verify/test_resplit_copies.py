"""How split and merge copy: holes stay holes, blocks are shared, whatever the kernel says and whoever kills them."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gguftool.files import copies
from gguftool.source import LocalFile
from tests.build import GGUF
from tests.edit.scenarios import write_sparse
from tests.verify.sets import tensors, three, typed


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return typed("q4_0").write(tmp_path / "m.gguf")


def test_holes_stay_holes(cli, tmp_path: Path):
    """There and back with 64 MiB of which some KiB were written."""
    zeros, full = bytes(32 << 20), bytes(range(256)) * 64
    model = GGUF("llama").kv("general.name", "x" * 5000)
    for i in range(2):
        model.tensor(f"t{i}", ((len(zeros) + len(full)) // 4,), data=zeros[: 16 << 20] + full + zeros[16 << 20 :])
    path = tmp_path / "m.gguf"
    write_sparse(str(path), model.bytes())
    taken = path.stat().st_blocks * 512
    assert taken < 1 << 20
    result = cli("split", path, "--max-tensors", 1, "-o", tmp_path / "s", "--format", "json")
    shards = [Path(f["path"]) for f in result.json["files"]]
    assert sum(p.stat().st_blocks * 512 for p in shards) < taken + 100_000
    assert tensors(*shards) == tensors(path)
    assert [f["sha256"] for f in result.json["files"]] == [hashlib.sha256(p.read_bytes()).hexdigest() for p in shards]
    back = tmp_path / "back.gguf"
    assert cli("merge", shards[0], "-o", back).code == 0
    assert back.stat().st_blocks * 512 < taken + 100_000
    assert back.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("number", [errno.EXDEV, errno.ENOSYS, errno.EINVAL, 0])
def test_a_kernel_that_does_not_copy(cli, model: Path, tmp_path: Path, monkeypatch, number: int):
    asked: list[int] = []

    def no(*a: object) -> int:
        asked.append(number)
        if number:
            raise OSError(number, os.strerror(number))
        return 0

    monkeypatch.setattr(os, "copy_file_range", no, raising=False)
    paths = three(tmp_path)
    assert cli("merge", paths[0], "-o", tmp_path / "a.gguf").code == 0
    assert (tmp_path / "a.gguf").read_bytes() == typed("q4_0").bytes()


def test_blocks_that_the_disk_shares_are_hashed_and_not_compared(cli, tmp_path: Path, monkeypatch):
    """In place of such a disk: whole blocks appear in the new file, and the source is not read for them again."""
    model = GGUF("llama").align(4096).tensor("a", (4096,)).tensor("b", (5000,)).tensor("c", (77,))
    path = model.write(tmp_path / "m.gguf")
    shared: list[tuple[int, int]] = []

    def share(src: int, at: int, dst: int, to: int, n: int) -> bool:
        os.pwrite(dst, os.pread(src, n, at), to)
        shared.append((at, n))
        return True

    monkeypatch.setattr(copies, "share", share)
    read: list[tuple[int, int]] = []
    real = LocalFile.read_into

    def noted(self: LocalFile, buffer: memoryview, offset: int) -> int:
        if os.path.realpath(self.path) == str(path):
            read.append((offset, len(buffer)))
        return real(self, buffer, offset)

    monkeypatch.setattr(LocalFile, "read_into", noted)
    result = cli("split", path, "--max-tensors", 2, "-o", tmp_path / "s", "--format", "json")
    assert result.code == 0
    assert sum(n for _, n in shared) >= 32768
    assert not any(a < at + n and at < a + b for a, b in shared for at, n in read)
    files = [Path(f["path"]) for f in result.json["files"]]
    assert tensors(*files) == tensors(path)
    assert [f["sha256"] for f in result.json["files"]] == [hashlib.sha256(p.read_bytes()).hexdigest() for p in files]


def test_killed_while_writing_leaves_no_final_name(tmp_path: Path):
    """Whenever it is killed, a file under its final name is a whole one."""
    model = typed("q4_0", layers=40)
    path = model.write(tmp_path / "m.gguf")
    code = (
        "import os, sys; from gguftool.verify import resplit\n"
        "real = resplit._read_back\n"
        "resplit._read_back = lambda draft, plan, *r: os._exit(9) if '00002' in plan.path else real(draft, plan, *r)\n"
        "from gguftool.cli.main import main; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, "split", str(path), "--max-tensors", "100"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert done.returncode == 9
    assert [p.name for p in tmp_path.glob("*.gguf")] == ["m.gguf"]
