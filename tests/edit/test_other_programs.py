"""Other programs at the same file: waited for, asked about, told apart from an edit that was interrupted."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import gguftool
from gguftool.edit import inuse
from gguftool.edit.ops import Reserve, Set
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.plan import plan_edit
from gguftool.edit.recover import recover
from gguftool.edit.undo import undo
from gguftool.errors import EditInProgress, InterruptedEdit, Refused
from gguftool.format.parse import parse_bytes
from tests.edit.scenarios import NAME, model
from tests.edit.test_kill import lines, slow_edit

CONTEXT = [Set("llama.context_length", 1024)]

HOLD = """
import sys, time
f = open(sys.argv[1], "rb")
f.read(4)
print("open", flush=True)
time.sleep(float(sys.argv[2]))
"""


def holder(path: Path, seconds: float) -> subprocess.Popen[bytes]:
    """A program that reads the file for so long."""
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(path), str(seconds)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"open\n"
    return child


def end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.communicate()


class NoLease(OsLayer):
    """Somebody else's file, or a disk without leases."""

    def lease(self, fd: int) -> bool | None:
        return None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return model().write(tmp_path / NAME)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gguftool.source.PATIENCE", 0.1)


ACTS = {
    "plan": lambda path: plan_edit(path, CONTEXT),
    "undo": undo,
    "recover": recover,
    "edit": lambda path: gguftool.edit(path).__enter__(),
}


@pytest.mark.parametrize("act", ACTS)
def test_an_edit_that_runs_is_not_called_interrupted(act: str, path: Path, impatient: None):
    child = slow_edit(path, "insert")
    assert child.stdout is not None
    assert child.stdout.readline() == b"hot\n"
    try:
        with pytest.raises(EditInProgress, match="is being edited by another process"):
            ACTS[act](path)
    finally:
        assert lines(child) == ["done"]


@pytest.mark.parametrize("act", ["plan", "undo", "recover", "fix"])
def test_a_writer_waits_for_another_one(act: str, path: Path, cli):
    plan_edit(path, [Set("general.name", "before")]).commit()
    child = slow_edit(path, "insert")
    assert child.stdout is not None
    assert child.stdout.readline() == b"hot\n"
    if act == "fix":
        result = cli("fix", path, "--context-length", "1024")
        assert result.code == 0, result.err
        assert "interrupted" not in result.err
    else:
        ACTS[act](path)
    assert lines(child) == ["done"]


def test_two_scripts_at_a_time(path: Path):
    """Every edit of both gets in, and none is told that something was interrupted."""
    failed: list[BaseException] = []

    def script(key: str) -> None:
        for i in range(6):
            try:
                plan = plan_edit(path, [Set(key, f"{key} {i}", "str")])
                plan.commit()
            except (InterruptedEdit, EditInProgress) as error:
                failed.append(error)
            except Refused:
                pass  # changed since it was planned

    threads = [threading.Thread(target=script, args=(key,)) for key in ("general.author", "general.url")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_program_that_reads_for_a_moment_is_waited_for(path: Path, cli):
    child = holder(path, 0.6)
    start = time.monotonic()
    result = cli("fix", path, "--context-length", "1024")
    assert result.code == 0, result.err
    assert time.monotonic() - start > 0.2
    end(child)


def test_undo_waits_too(path: Path):
    before = path.read_bytes()
    plan_edit(path, [Set("general.description", "d" * 900), Reserve(64)]).commit()
    child = holder(path, 0.6)
    undo(path)
    assert path.read_bytes() == before
    end(child)


def test_who_has_it_open_is_asked_where_there_is_no_lease(path: Path, impatient: None):
    before = path.read_bytes()
    child = holder(path, 60)
    try:
        with pytest.raises(Refused, match=rf"in use by .* \(pid {child.pid}\)"):
            plan_edit(path, CONTEXT, layer=NoLease())
        # Opened after the edit was planned.
        end(child)
        plan = plan_edit(path, CONTEXT, layer=NoLease())
        child = holder(path, 60)
        with pytest.raises(Refused, match="in use by"):
            plan.commit()
        assert path.read_bytes() == before
        assert os.listdir(path.parent) == [NAME]
        plan_edit(path, CONTEXT, layer=NoLease(), in_use="patch").commit()
        assert parse_bytes(path.read_bytes()).get("llama.context_length").value == 1024  # type: ignore[union-attr]
    finally:
        end(child)


def test_the_plan_says_when_it_cannot_be_known(path: Path):
    assert any("cannot be known" in note for note in plan_edit(path, CONTEXT, layer=NoLease()).notes)
    rewrite = plan_edit(path, CONTEXT, layer=NoLease(), strategy="rewrite")
    assert not any("cannot be known" in note for note in rewrite.notes)
    if inuse.alone(OsLayer(), str(path)):
        assert not any("cannot be known" in note for note in plan_edit(path, CONTEXT).notes)


def test_the_last_sync_of_the_folder_fails(path: Path):
    """The new file is on the disk: that its journal may come back after a power failure is no failure of the edit."""

    class Failing(OsLayer):
        renamed = False

        def rename(self, old: str, new: str) -> None:
            super().rename(old, new)
            Failing.renamed = True

        def syncdir(self, folder: str) -> None:
            if Failing.renamed:
                raise OSError(5, "I/O error")
            super().syncdir(folder)

    result = plan_edit(path, CONTEXT, layer=Failing(), strategy="patch").commit()
    assert Failing.renamed
    assert result.undo is not None
    assert os.path.exists(result.undo)
    undo(path)


# -- room


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting needs root")
def test_a_small_edit_on_a_full_disk_is_a_small_edit(tmp_path: Path):
    """Asking what the file system can do needs no room; what is said to be needed is what the edit needs."""
    from tests.edit.test_failing import loop_mount

    mount = loop_mount(tmp_path, 24)
    if mount is None:
        pytest.skip("this system does not let us mount a file")
    try:
        model(64).write(mount / NAME)
        unit = OsLayer().insert_unit(str(mount))
        with open(mount / "ballast", "wb") as f:
            try:
                while True:
                    f.write(b"\0" * 4096)
                    f.flush()
            except OSError:
                pass
        assert OsLayer().insert_unit(str(mount)) == unit > 0
    finally:
        subprocess.run(["umount", str(mount)], check=False, timeout=60)


def test_what_must_stay_free_is_in_proportion(path: Path):
    plan = plan_edit(path, CONTEXT, strategy="rewrite", layer=NoClone())
    size = path.stat().st_size
    assert size < plan.space_needed < 2 * size + 40_000


class NoClone(OsLayer):
    """A file system that cannot share extents."""

    def can_clone(self, folder: str) -> bool:
        return False


# -- lists out of files


@pytest.mark.parametrize(
    ("content", "want"),
    [
        ("aaa\nb\u2028b\nc\x85c\nd\x0cd\ne\x1ce\nf\x0bf\ng\u2029g\n", 7),
        ("one\r\ntwo\r\n", ["one", "two"]),
        ("one\r\r\ntwo", ["one\r", "two"]),
        ("[PAD]\n[UNK]\n[CLS]\nthe\n##s\n", ["[PAD]", "[UNK]", "[CLS]", "the", "##s"]),
        ("[PAD]", ["[PAD]"]),
        ('["a", "b\\n"]\n', ["a", "b\n"]),
        ("a\n\nb\n", ["a", "", "b"]),
        ("", []),
    ],
)
def test_lines_of_a_file(content: str, want: list[str] | int, path: Path, tmp_path: Path, cli):
    listed = tmp_path / "list.txt"
    listed.write_bytes(content.encode())
    result = cli("fix", path, "--set-file", f"my.list:[str]={listed}")
    assert result.code == 0, result.err
    field = parse_bytes(path.read_bytes()).get("my.list")
    assert field is not None
    assert field.value == want if isinstance(want, list) else len(field.value) == want
    if isinstance(want, int):
        assert field.value == content.split("\n")[:-1]


@pytest.mark.parametrize(
    ("text", "want"),
    [("[UNK],[CLS]", ["[UNK]", "[CLS]"]), ("[UNK]", ["[UNK]"]), ('["a,b","c"]', ["a,b", "c"]), ("a,b", ["a", "b"])],
)
def test_strings_that_begin_like_a_list(text: str, want: list[str], path: Path, cli):
    result = cli("fix", path, "--set", f"my.list:[str]={text}")
    assert result.code == 0, result.err
    assert parse_bytes(path.read_bytes()).get("my.list").value == want  # type: ignore[union-attr]


def test_a_list_of_numbers_must_be_one(path: Path, cli):
    assert cli("fix", path, "--set", "my.list:[u32]=[1,2").code == 2
