"""A disk that reports errors, a full disk, a disk that takes only a part of a write."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gguftool.edit.ops import Reserve, Set
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.plan import plan_edit
from gguftool.edit.recover import recover
from gguftool.errors import EditPending, GgufToolError, InterruptedEdit, NoRoom
from tests.edit.oslayers import FailingOs
from tests.edit.scenarios import NAME, SCENARIOS, prepare
from tests.edit.test_crash import Disk


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_an_error_at_every_operation(scenario, error: int, tmp_path: Path):
    """The file is old or new, or unloadable with a journal that settles it; the error is one of ours and is true."""
    disk = Disk(tmp_path, prepare(scenario))
    at = 0
    while True:
        disk.reset()
        layer = FailingOs(at, error)
        raised: GgufToolError | None = None
        try:
            disk.prepared.run(disk.path, layer)
        except GgufToolError as e:
            raised = e
        data = disk.check()
        journal = (tmp_path / f"{NAME}-journal").exists()
        if layer.failed is None:
            break
        if raised is None:
            assert data == disk.prepared.new  # such as: an old undo record could not be removed
        elif not isinstance(raised, InterruptedEdit):
            assert data == disk.prepared.old, f"{layer.failed}: {raised}"
            assert "as it was" in str(raised) or isinstance(raised, NoRoom)
            assert raised.exit_code in (3, 4, 5)
        else:
            assert "recover" in str(raised.hint)
        assert journal <= isinstance(raised, InterruptedEdit), f"{layer.failed}: journal left without saying so"
        disk.settle()
        at += 1
    assert at > 8


IN_PLACE = [s for s in SCENARIOS if s.strategy in ("patch", "insert", "collapse")]


@pytest.mark.parametrize("scenario", IN_PLACE, ids=lambda s: s.name)
def test_a_sync_that_fails_is_not_tried_again(scenario, tmp_path: Path):
    disk = Disk(tmp_path, prepare(scenario))
    disk.reset()

    class Once(OsLayer):
        """The third sync fails: the kernel has dropped the pages, so the next one would lie."""

        syncs = 0

        def lease(self, fd: int) -> bool | None:
            return True

        def fsync(self, fd: int) -> None:
            Once.syncs += 1
            if Once.syncs == 3:
                raise OSError(errno.EIO, "I/O error")
            assert Once.syncs < 3, "synced again after a failed sync"

    with pytest.raises(EditPending):
        disk.prepared.run(disk.path, Once())
    assert Once.syncs == 3
    disk.settle()


def test_short_writes_and_interrupted_calls_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    scenario = next(s for s in SCENARIOS if s.name == "insert-more-than-header")
    disk = Disk(tmp_path, prepare(scenario))
    disk.reset()
    real = os.pwrite
    monkeypatch.setattr(
        os, "pwrite", lambda fd, data, offset: real(fd, memoryview(data)[: max(1, len(data) // 3)], offset)
    )
    disk.prepared.run(disk.path, OsLayer())
    assert disk.check() == disk.prepared.new


CHILD = """
import resource, sys
from gguftool.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("strategy", ["patch", "insert", "rewrite"])
def test_file_size_limit(strategy: str, tmp_path: Path):
    """A limit on file sizes is the full disk that needs no root; the error says so, and nothing has changed."""
    scenario = next(s for s in SCENARIOS if s.name.startswith(strategy))
    disk = Disk(tmp_path, prepare(scenario))
    disk.reset()
    value = "x" * 70 if strategy == "patch" else "x" * 30000
    limit = 4096 if strategy == "patch" else os.path.getsize(disk.path) // 2
    args = ["fix", disk.path, "--set", f"general.description={value}"]
    if strategy != "patch":
        args += ["--strategy", strategy]
    done = subprocess.run([sys.executable, "-c", CHILD, str(limit), *args], capture_output=True, text=True, timeout=60)
    assert done.returncode == 5, done.stderr
    assert "nothing was touched" in done.stderr or "as it was" in done.stderr
    assert Path(disk.path).read_bytes() == disk.prepared.old
    assert os.listdir(tmp_path) == [NAME]


def loop_mount(folder: Path, megabytes: int) -> Path | None:
    """A small ext4 of its own, when we are root and the system lets us."""
    image, mount = folder / "disk.img", folder / "mnt"
    mount.mkdir()
    with open(image, "wb") as f:
        f.truncate(megabytes << 20)
    for command in (["mkfs.ext4", "-q", "-F", str(image)], ["mount", "-o", "loop", str(image), str(mount)]):
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=60)
        except (OSError, subprocess.CalledProcessError):
            return None
    return mount


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting needs root")
def test_full_disk(tmp_path: Path, cli):
    mount = loop_mount(tmp_path, 24)
    if mount is None:
        pytest.skip("this system does not let us mount a file")
    try:
        scenario = next(s for s in SCENARIOS if s.name == "insert-one-block")
        prepared = prepare(scenario)
        path = mount / NAME
        path.write_bytes(prepared.old)
        with open(mount / "ballast", "wb") as f, contextlib.suppress(OSError):
            while True:
                f.write(b"\0" * 65536)
        with contextlib.suppress(OSError), open(mount / "ballast2", "wb") as f:
            while True:
                f.write(b"\0" * 512)
        for strategy in ("insert", "rewrite"):
            result = cli("fix", path, "--set", f"general.description={'x' * 9000}", "--strategy", strategy)
            assert result.code == 5, result.err
            assert path.read_bytes() == prepared.old
            assert not [p for p in mount.iterdir() if p.name.startswith(NAME + "-")]
        (mount / "ballast").unlink()
        (mount / "ballast2").unlink(missing_ok=True)
        result = cli("fix", path, "--set", f"general.description={'x' * 9000}")
        assert result.code == 0, result.err
        assert "insert" in result.out or "rewrite" in result.out
        assert cli("undo", path).code == 0
        assert path.read_bytes() == prepared.old
    finally:
        subprocess.run(["umount", str(mount)], check=False, timeout=60)


def test_running_out_of_room_in_the_middle_of_an_insertion(tmp_path: Path):
    scenario = next(s for s in SCENARIOS if s.name == "insert-one-block")
    disk = Disk(tmp_path, prepare(scenario))
    disk.reset()
    layer = FailingOs(0, errno.ENOSPC, verbs=("insert",))
    with pytest.raises(NoRoom, match="as it was"):
        disk.prepared.run(disk.path, layer)
    assert Path(disk.path).read_bytes() == disk.prepared.old
    assert os.listdir(tmp_path) == [NAME]


@pytest.mark.parametrize("error", [errno.EOPNOTSUPP, errno.EINVAL])
def test_where_insertion_is_not_possible_after_all_the_file_is_rewritten(error: int, tmp_path: Path):
    """The probe said yes, the file itself says no (no extents, a cluster size): the plan falls back by itself."""
    scenario = next(s for s in SCENARIOS if s.name == "insert-one-block")
    disk = Disk(tmp_path, prepare(scenario))
    disk.reset()
    layer = FailingOs(0, error, verbs=("insert",))
    layer.insert_unit = lambda folder: 4096  # type: ignore[method-assign]
    result = plan_edit(disk.path, [Set("general.author", "a" * 900), Reserve(64)], layer=layer).commit()
    assert (layer.failed, result.strategy) == ("insert", "rewrite")
    assert Path(disk.path).read_bytes()[:4] == b"GGUF"
    assert recover(disk.path).state == "CLEAN"


def test_an_interrupted_insertion_is_called_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Python repeats its own calls after EINTR; fallocate with a mode is not one of them."""
    import ctypes

    calls: list[int] = []

    def fallocate(*args: int) -> int:
        calls.append(args[1])
        ctypes.set_errno(errno.EINTR)
        return -1 if len(calls) < 3 else 0

    class Libc:
        def __init__(self, name: None, use_errno: bool) -> None:
            self.fallocate = fallocate

    monkeypatch.setattr(ctypes, "CDLL", Libc)
    OsLayer().insert(0, 0, 4096)
    assert calls == [0x20, 0x20, 0x20]


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no tmpfs here")
def test_a_file_system_that_cannot_insert(cli):
    """tmpfs: the edit is a rewrite, the next one a patch, and undo goes the same ways back."""
    import tempfile

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / NAME
        scenario = next(s for s in SCENARIOS if s.name == "insert-one-block")
        path.write_bytes(prepare(scenario).old)
        assert cli("fix", path, "--set", "general.author=me", "--format", "json").json["strategy"] == "rewrite"
        assert cli("fix", path, "--set", "general.author=you", "--format", "json").json["strategy"] == "patch"
        refused = cli("fix", path, "--set", f"general.author={'x' * 90_000}", "--strategy", "insert")
        assert refused.code == 4
        assert "--strategy rewrite" in refused.err
        assert not Path(f"{path}-journal").exists()
        assert cli("undo", path, "--all").code == 0
        assert path.read_bytes() == prepare(scenario).old


def test_an_insertion_that_was_copied_to_another_file_system_is_undone_there():
    """The undo record travels with the file; where nothing can be taken out, the old file is built anew."""
    import tempfile

    if not os.path.isdir("/dev/shm"):
        pytest.skip("no second file system here")
    scenario = next(s for s in SCENARIOS if s.name == "undo-insert")
    prepared = prepare(scenario)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for name, data in prepared.files.items():
            (Path(folder) / name).write_bytes(data)
        from gguftool.edit.undo import undo

        assert undo(Path(folder) / NAME).strategy == "rewrite"
        assert (Path(folder) / NAME).read_bytes() == prepared.new
        assert os.listdir(folder) == [NAME]
