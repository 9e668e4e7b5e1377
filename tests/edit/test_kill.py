"""Real processes, really killed; Ctrl-C and termination; a second editor; a reader that maps the file."""

from __future__ import annotations

import hashlib
import mmap
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gguftool.edit.ops import Reserve, Set
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.plan import plan_edit
from gguftool.edit.recover import recover
from gguftool.edit.undo import undo
from gguftool.errors import EditInProgress, InterruptedEdit, Refused
from gguftool.format.parse import parse_bytes
from tests.edit.scenarios import NAME, model

LOOP = """
import sys
from gguftool.edit.ops import Reserve, Set
from gguftool.edit.plan import plan_edit
from gguftool.edit.recover import recover
from gguftool.edit.steps import pending
from gguftool.edit.undo import undo
path, strategy = sys.argv[1], sys.argv[2]
if pending(path): recover(path)
i = 0
print("ready", flush=True)
while True:
    n = 1 + i % 7
    plan_edit(path, [Set("general.description", "d" * 5000 * n), Reserve(64)], keep_undo=True).commit()
    undo(path)
    i += 1
"""


def data_of(path: Path) -> bytes:
    """The tensor data of a file."""
    raw = path.read_bytes()
    return raw[parse_bytes(raw).data_offset :]


def killing(rounds: int, tmp_path: Path, enough: int | None = None) -> int:
    """Kill an editing child again and again; how often that was in the middle of an edit (stops when `enough`)."""
    path = tmp_path / NAME
    model(64).write(path)
    whole, data = path.read_bytes(), data_of(path)
    rng = random.Random(7)
    caught = 0
    for _ in range(rounds):
        if enough is not None and caught >= enough:
            break
        child = subprocess.Popen([sys.executable, "-c", LOOP, str(path), "insert"], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0.0, 0.1))
        child.kill()
        child.wait()
        child.stdout.close()
        raw = path.read_bytes()
        if raw[:4] == b"GGUF":
            assert raw[parse_bytes(raw).data_offset :] == data
        caught += (tmp_path / f"{NAME}-journal").exists()
        outcome = recover(path)
        assert outcome.state != "FOREIGN"
        assert data_of(path) == data
        while any(p.name.startswith(f"{NAME}-undo") for p in tmp_path.iterdir()):
            try:
                undo(path)
            except Refused:
                break
        assert path.read_bytes() == whole
        for p in tmp_path.iterdir():
            if p != path:
                p.unlink()
    return caught


def test_killed_at_random(tmp_path: Path):
    assert killing(60, tmp_path, enough=4) > 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_200_times(tmp_path: Path):
    caught = killing(200, tmp_path)
    print(f"\n200 rounds, {caught} of them killed in the middle of an edit")
    assert caught > 50


@pytest.mark.parametrize("start", [b"GGTX", bytes(4), b"\x00\x01\x02\x03"])
def test_a_reader_knows_an_interrupted_edit_by_its_journal(start: bytes, tmp_path: Path, cli):
    """An insertion leaves zeros in front, which without the journal are a download that was never written."""
    path = model().write(tmp_path / NAME)
    path.write_bytes(start + path.read_bytes()[4:])
    link = tmp_path / "link.gguf"
    link.symlink_to(path)
    (tmp_path / f"{NAME}-journal").write_bytes(b"")
    for name in (path, link):
        shown = cli("dump", name)
        assert shown.code == 7
        assert f"gguftool recover {name}" in shown.err
    (tmp_path / f"{NAME}-journal").unlink()
    assert cli("dump", path).code == (7 if start == b"GGTX" else 3)


SLOW = """
import os, sys, time
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.ops import Set
from gguftool.edit.plan import plan_edit
class Slow(OsLayer):
    def pwrite(self, fd, offset, data):
        super().pwrite(fd, offset, data)
        if bytes(data) == b"GGTX":
            print("hot", flush=True)
            time.sleep(1.0)
    def copy_ranges(self, *args):
        print("copying", flush=True)
        time.sleep(1.0)
        super().copy_ranges(*args)
try:
    plan_edit(sys.argv[1], [Set("general.description", "d" * 9000)], strategy=sys.argv[2], layer=Slow()).commit()
    print("done", flush=True)
except KeyboardInterrupt:
    print("cancelled", flush=True)
    sys.exit(130)
"""


def slow_edit(path: Path, strategy: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SLOW, str(path), strategy], stdout=subprocess.PIPE)


def lines(child: subprocess.Popen[bytes]) -> list[str]:
    assert child.stdout is not None
    out = child.stdout.read().decode().split()
    child.stdout.close()
    child.wait(30)
    return out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_waits_until_the_edit_is_done(number: signal.Signals, tmp_path: Path):
    path = model().write(tmp_path / NAME)
    child = slow_edit(path, "insert")
    assert child.stdout is not None
    assert child.stdout.readline() == b"hot\n"
    child.send_signal(number)
    rest = lines(child)
    assert rest in (["done"], ["cancelled"], [])  # the signal takes effect afterwards
    assert parse_bytes(path.read_bytes()).get("general.description") is not None
    assert not (tmp_path / f"{NAME}-journal").exists()
    undo(path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_cancels_a_copy_cleanly(number: signal.Signals, tmp_path: Path):
    path = model().write(tmp_path / NAME)
    before = path.read_bytes()
    child = slow_edit(path, "rewrite")
    assert child.stdout is not None
    assert child.stdout.readline() == b"copying\n"
    child.send_signal(number)
    assert lines(child) == ["cancelled"]
    assert child.returncode == 130
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [NAME]


@pytest.mark.parametrize("strategy", ["patch", "rewrite"])
def test_who_interrupts_a_finished_edit_is_told(strategy: str, tmp_path: Path, cli, monkeypatch: pytest.MonkeyPatch):
    path = model().write(tmp_path / NAME)
    rename = OsLayer.rename

    def interrupted(self: OsLayer, old: str, new: str) -> None:
        rename(self, old, new)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(OsLayer, "rename", interrupted)
    result = cli("fix", path, "--set", "general.name=tiny", "--strategy", strategy)
    assert result.code == 130
    assert "the change is done" in result.err
    monkeypatch.undo()
    assert parse_bytes(path.read_bytes()).get("general.name").value == "tiny"
    assert undo(path).path == str(path)


def test_killed_in_the_middle_the_file_says_what_to_do(tmp_path: Path, cli, monkeypatch: pytest.MonkeyPatch):
    path = model().write(tmp_path / NAME)
    before = path.read_bytes()
    child = slow_edit(path, "insert")
    assert child.stdout is not None
    assert child.stdout.readline() == b"hot\n"
    # While it runs, nobody else may edit or recover it; a reader is told.
    monkeypatch.setattr("gguftool.source.PATIENCE", 0.1)
    with pytest.raises(EditInProgress, match="is being edited"):
        recover(path)
    with pytest.raises(EditInProgress, match="is being edited"):
        plan_edit(path, [Set("general.name", "x")])
    child.kill()
    lines(child)
    shown = cli("dump", path)
    assert shown.code == 7
    assert f"gguftool recover {path}" in shown.err
    with pytest.raises(InterruptedEdit):
        plan_edit(path, [Set("general.name", "x")])
    result = cli("recover", path)
    assert result.code == 0, result.err
    assert "exactly as it was" in result.out
    assert path.read_bytes() == before
    # A write command recovers by itself.
    child = slow_edit(path, "insert")
    assert child.stdout is not None
    assert child.stdout.readline() == b"hot\n"
    child.kill()
    lines(child)
    assert cli("fix", path, "--set", "general.name=after the crash").code == 0
    assert parse_bytes(path.read_bytes()).get("general.name").value == "after the crash"


HOLDER = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
m = mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ)
os.close(fd)
page = m[5 * 4096 : 6 * 4096]
print("mapped", flush=True)
sys.stdin.readline()
print("same" if m[5 * 4096 : 6 * 4096] == page else "CHANGED", flush=True)
"""


def test_a_reader_that_maps_the_file_keeps_its_weights(tmp_path: Path, cli):
    """llama.cpp maps the file and closes the descriptor: an insertion would move the weights under it."""
    path = model(16).write(tmp_path / NAME)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    child = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"mapped\n"
    refused = cli("fix", path, "--set", "general.author=me")
    assert refused.code == 4
    assert f"(pid {child.pid})" in refused.err
    assert "--in-use rewrite" in refused.err
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    moved = cli("fix", path, "--set", "general.author=me", "--in-use", "patch")
    assert moved.code == 4  # this edit moves data
    done = cli("fix", path, "--set", "general.author=me", "--in-use", "rewrite")
    assert done.code == 0, done.err
    assert lines_after(child, b"\n") == "same"
    assert cli("undo", path).code == 0
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


def test_a_mapped_file_may_be_patched_when_asked(tmp_path: Path, cli):
    path = model(16).write(tmp_path / NAME)
    child = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"mapped\n"
    done = cli("fix", path, "--context-length", "1024", "--in-use", "patch")
    assert done.code == 0, done.err
    assert "patch" in done.out
    assert lines_after(child, b"\n") == "same"


def lines_after(child: subprocess.Popen[bytes], text: bytes) -> str:
    out, _ = child.communicate(text, timeout=30)
    return out.decode().strip()


def test_the_lease_keeps_others_out_while_we_write(tmp_path: Path):
    """Another open() waits until the edit is over; none ever sees the middle of it."""
    if OsLayer().insert_unit(str(tmp_path)) == 0:
        pytest.skip("no insertion on this file system")
    path = model().write(tmp_path / NAME)
    child = slow_edit(path, "insert")
    assert child.stdout is not None
    assert child.stdout.readline() == b"hot\n"
    with open(path, "rb") as f:
        assert f.read(4) == b"GGUF"
    assert lines(child) == ["done"]


def test_our_own_readers_wait_for_an_edit(tmp_path: Path, cli, monkeypatch: pytest.MonkeyPatch):
    path = model().write(tmp_path / NAME)
    child = slow_edit(path, "insert")
    assert child.stdout is not None
    assert child.stdout.readline() == b"hot\n"
    monkeypatch.setattr("gguftool.source.PATIENCE", 0.1)
    if OsLayer().lease(os.open(str(tmp_path / "probe"), os.O_RDWR | os.O_CREAT)) is None:
        pytest.skip("no leases here")
    busy = cli("dump", path)
    assert busy.code == 7
    assert "being edited" in busy.err
    monkeypatch.setattr("gguftool.source.PATIENCE", 20.0)
    assert cli("dump", path).code == 0
    assert lines(child) == ["done"]


def test_mapping_after_the_edit_sees_the_new_file(tmp_path: Path):
    path = model().write(tmp_path / NAME)
    data = data_of(path)
    plan_edit(path, [Set("general.author", "me"), Reserve(64)]).commit()
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
        assert m[parse_bytes(bytes(m)).data_offset :] == data


def test_recover_takes_what_fix_takes(tmp_path: Path, cli):
    """A folder, and any shard of a set: the journal lies beside the first one."""
    folder = tmp_path / "one"
    folder.mkdir()
    path = model().write(folder / NAME)
    nothing = cli("recover", folder)
    assert nothing.code == 0
    assert "no edit was interrupted" in nothing.out
    Path(f"{path}-journal").write_bytes(b"torn")
    assert cli("recover", folder).code == 0
    assert not Path(f"{path}-journal").exists()

    parts = tmp_path / "parts"
    parts.mkdir()
    first = model().shard(0, 2).write(parts / "m-00001-of-00002.gguf")
    second = model().shard(1, 2).write(parts / "m-00002-of-00002.gguf")
    journal = Path(f"{first}-journal")
    journal.write_bytes(b"torn")
    result = cli("recover", second)
    assert result.code == 0, result.err
    assert "m-00001-of-00002.gguf" in result.out
    assert not journal.exists()
