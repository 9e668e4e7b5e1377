"""The writer itself: names that are taken, sets that are whole or not there, and file systems that have less."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gguftool.errors import ChangedMeanwhile, MissingFile, NoRoom, Refused, UsageError
from gguftool.files import draft as drafts
from gguftool.files import names, unnamed
from gguftool.files.draft import Draft, clear_way, publish_all, whole_file
from gguftool.files.faults import plain
from gguftool.files.leftovers import MARK, sweep
from tests.files.writers import NAMES, writer

NEW = [name for name in NAMES if name not in ("repair", "split")]
TAKEN = {
    "a file": (lambda p: p.write_text("precious"), "a file of 8 bytes"),
    "an empty file": (lambda p: p.touch(), "an empty file"),
    "a folder": (lambda p: p.mkdir(), "a folder"),
    "a link": (lambda p: p.symlink_to("elsewhere"), "a link to elsewhere, which does not exist"),
    "a link far off": (lambda p: p.symlink_to("no/where"), "a link to no/where, which does not exist"),
    "a pipe": (lambda p: os.mkfifo(p), "a pipe"),
}


# An empty manifest is filled, a pipe is written to.
PAIRS = [(n, k) for n in NEW for k in TAKEN if n != "manifest" or k not in ("an empty file", "a pipe")]


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_what_has_the_name_is_named_and_stays(name: str, kind: str, tmp_path: Path, cli):
    made = writer(name, tmp_path)
    out = tmp_path / "out.gguf"
    make, said = TAKEN[kind]
    make(out)
    before = os.lstat(out)
    result = cli(*made.argv)
    assert result.code == 4, result.err
    assert str(out) in result.err
    assert (said in result.err) or name == "manifest"
    assert "hint: " in result.err
    after = os.lstat(out)
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    assert not list(tmp_path.rglob(f"*{MARK}"))


@pytest.mark.parametrize("name", [*NEW, "split"])
def test_a_folder_that_is_not_there(name: str, tmp_path: Path, cli):
    made = writer(name, tmp_path)
    argv = [str(arg).replace(str(tmp_path / "out"), str(tmp_path / "no such" / "out")) for arg in made.argv]
    result = cli(*argv)
    assert result.code == 2, result.err
    assert "folder" in result.err


@pytest.mark.parametrize("name", [*NEW, "split"])
def test_a_name_that_is_too_long(name: str, tmp_path: Path, cli):
    """That a file cannot be named so is no fault of a GGUF file: exit code 2, as for a folder that is not there."""
    made = writer(name, tmp_path)
    argv = [str(arg).replace(str(tmp_path / "out"), str(tmp_path / ("o" * 300))) for arg in made.argv]
    result = cli(*argv)
    assert result.code == 2, result.err
    assert "file name too long" in result.err.lower()
    assert not list(tmp_path.rglob(f"*{MARK}"))


@pytest.mark.parametrize("name", ["o" * 300, "m.gguf/x.gguf"])
def test_a_model_that_cannot_be_there(name: str, tmp_path: Path, cli):
    writer("fix --output", tmp_path)
    for command in (["lint"], ["dump"], ["fix", "--auto"], ["verify"]):
        assert cli(*command, tmp_path / name).code == 2, command


@pytest.fixture(params=["without a name", "hidden", "cannot be linked"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a draft comes to be: O_TMPFILE, a hidden name, O_TMPFILE where links are refused."""
    if request.param == "hidden":
        monkeypatch.setattr(drafts, "nameless", lambda path: -1)
    if request.param == "cannot be linked":

        def refused(fd: int, path: str) -> None:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(unnamed, "link", refused)
        monkeypatch.setattr(unnamed, "file_system", lambda folder: 0)
    return request.param


@pytest.fixture(params=["renameat2", "links", "neither"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the file system has: a rename that does not replace, hard links, neither (FAT)."""

    def no(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    if request.param != "renameat2":
        monkeypatch.setattr(names, "_rename_noreplace", no)
    if request.param == "neither":
        monkeypatch.setattr(os, "link", no)
        monkeypatch.setattr(unnamed, "file_system", lambda folder: 0)
    return request.param


class TestDraft:
    def test_it_appears_whole(self, tmp_path: Path, way: str, system: str):
        path = tmp_path / "x"
        with Draft(str(path)) as draft:
            draft.write(b"one")
            assert Path(draft.reading).read_bytes() == b"one"
            assert not path.exists()
            draft.publish()
        assert path.read_bytes() == b"one"
        assert os.listdir(tmp_path) == ["x"]

    def test_it_vanishes(self, tmp_path: Path, way: str):
        with pytest.raises(ZeroDivisionError), Draft(str(tmp_path / "x")) as draft:
            draft.write(b"one")
            raise ZeroDivisionError
        assert not os.listdir(tmp_path)

    def test_who_came_meanwhile_stays(self, tmp_path: Path, way: str, system: str):
        path = tmp_path / "x"
        with Draft(str(path)) as draft:
            draft.write(b"ours")
            path.write_bytes(b"theirs")
            with pytest.raises(Refused, match="appeared while"):
                draft.publish()
        assert path.read_bytes() == b"theirs"
        assert os.listdir(tmp_path) == ["x"]

    def test_overwriting_replaces_what_was_looked_at(self, tmp_path: Path, way: str, system: str):
        path = tmp_path / "x"
        path.write_bytes(b"old")
        with Draft(str(path), overwrite=True) as draft:
            draft.write(b"new")
            draft.publish()
        assert path.read_bytes() == b"new"
        assert os.listdir(tmp_path) == ["x"]

    def test_overwriting_never_replaces_another_one(self, tmp_path: Path, way: str, system: str):
        path = tmp_path / "x"
        path.write_bytes(b"old")
        with Draft(str(path), overwrite=True) as draft:
            draft.write(b"new")
            path.rename(tmp_path / "moved")
            path.write_bytes(b"theirs")
            with pytest.raises(ChangedMeanwhile):
                draft.publish()
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"x": b"theirs", "moved": b"old"}

    def test_withdrawing_takes_only_our_own(self, tmp_path: Path, way: str):
        path = tmp_path / "x"
        with Draft(str(path)) as draft:
            draft.publish()
            path.unlink()
            path.write_bytes(b"theirs")
            draft.withdraw()
        assert path.read_bytes() == b"theirs"

    def test_a_device_is_never_replaced(self, tmp_path: Path, cli):
        """Neither is a link to one: /dev/null, /dev/stdout."""
        made = writer("quantize", tmp_path)
        link, pipe = tmp_path / "link", tmp_path / "pipe"
        link.symlink_to(os.devnull)
        os.mkfifo(pipe)
        for path in (link, pipe):
            result = cli("quantize", made.sources[0], path, "Q8_0", "--engine", "builtin", "--overwrite")
            assert result.code == 4, result.err
        assert os.readlink(link) == os.devnull
        assert stat.S_ISFIFO(os.lstat(pipe).st_mode)

    def test_a_folder_is_never_replaced(self, tmp_path: Path):
        (tmp_path / "x").mkdir()
        with pytest.raises(Refused, match="a folder"):
            Draft(str(tmp_path / "x"), overwrite=True)

    def test_a_program_may_make_the_file_anew(self, tmp_path: Path):
        with Draft(str(tmp_path / "x"), named=True) as draft:
            os.unlink(draft.reading)
            Path(draft.reading).write_bytes(b"anew")
            draft.publish()
        assert (tmp_path / "x").read_bytes() == b"anew"

    def test_relative_and_odd_names(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str):
        monkeypatch.chdir(tmp_path)
        odd = ("x", "./y", " a\nb", "-n", os.fsdecode(b"\xff\xfe"), "." + "z" * 250, "n.12345.gguftool-part")
        for name in odd:
            with Draft(name) as draft:
                draft.write(b"1")
                draft.publish()
        assert sorted(os.listdir()) == sorted(os.path.basename(name) for name in odd)


class TestSets:
    def make(self, folder: Path, n: int = 3) -> list[Draft]:
        made = [Draft(str(folder / f"s-{i}")) for i in range(n)]
        for draft in made:
            draft.write(b"x")
        return made

    def test_all_of_them(self, tmp_path: Path, way: str, system: str):
        publish_all(self.make(tmp_path))
        assert sorted(os.listdir(tmp_path)) == ["s-0", "s-1", "s-2"]

    def test_or_none(self, tmp_path: Path, way: str, system: str):
        made = self.make(tmp_path)
        (tmp_path / "s-2").write_bytes(b"theirs")
        with pytest.raises(Refused):
            publish_all(made)
        for draft in made:
            draft.close()
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"s-2": b"theirs"}

    def test_a_signal_waits_until_all_have_their_names(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        give = Draft.give_name

        def interrupted(self: Draft) -> None:
            give(self)
            signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(Draft, "give_name", interrupted)
        with pytest.raises(KeyboardInterrupt, match="is done"):
            publish_all(self.make(tmp_path))
        assert sorted(os.listdir(tmp_path)) == ["s-0", "s-1", "s-2"]

    def test_more_files_than_may_be_open(self, tmp_path: Path):
        script = (
            "import resource, sys; from gguftool.cli.main import main\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (24, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
            "sys.exit(main(sys.argv[1:]))"
        )
        made = writer("split", tmp_path)
        argv = [sys.executable, "-c", script, "split", str(made.sources[0]), "--max-tensors", "1"]
        done = subprocess.run(argv, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert len(list(tmp_path.glob("m-*.gguf"))) > 24

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    @pytest.mark.parametrize("after", [0, 1, 2, 3])
    def test_also_when_it_is_killed_in_between(self, tmp_path: Path, way: str, after: int):
        pid = os.fork()
        if not pid:
            try:
                count = 0
                give = Draft.give_name

                def dying(self: Draft) -> None:
                    nonlocal count
                    if count == after:
                        os.kill(os.getpid(), signal.SIGKILL)
                    give(self)
                    count += 1
                    if count == after == 3:
                        os.kill(os.getpid(), signal.SIGKILL)

                Draft.give_name = dying
                publish_all(self.make(tmp_path))
            finally:
                os._exit(1)
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
        wanted = [str(tmp_path / f"s-{i}") for i in range(3)]
        if after == 3:
            # All had their names: they stay, and nothing else does.
            with pytest.raises(Refused):
                clear_way(wanted)
            assert sorted(os.listdir(tmp_path)) == ["s-0", "s-1", "s-2"]
        else:
            clear_way(wanted)
            assert not os.listdir(tmp_path)

    def test_taking_back_spares_what_is_not_of_the_set(self, tmp_path: Path):
        made = self.make(tmp_path)
        with pytest.raises(ZeroDivisionError), drafts._intent(made):
            record = next(tmp_path.glob(f".s-0.*{MARK}"))
            kept = record.read_bytes()
            raise ZeroDivisionError
        for draft in made:
            draft.close()
        fd, _ = unnamed.hidden_file(str(tmp_path / "s-0"))
        os.write(fd, kept)
        os.close(fd)
        (tmp_path / "s-1").write_bytes(b"another inode, so not ours")
        sweep(str(tmp_path / "s-0"))
        assert os.listdir(tmp_path) == ["s-1"]


def test_no_room_beforehand(tmp_path: Path):
    with pytest.raises(NoRoom, match="are needed"), whole_file(str(tmp_path / "x"), 1 << 60):
        pass
    assert not os.listdir(tmp_path)


CODES = {
    errno.EEXIST: (Refused, 4), errno.EPERM: (Refused, 4), errno.EACCES: (Refused, 4), errno.EROFS: (Refused, 4),
    errno.ETXTBSY: (Refused, 4), errno.ENOSPC: (NoRoom, 5), errno.EDQUOT: (NoRoom, 5), errno.EFBIG: (NoRoom, 5),
    errno.ENOENT: (MissingFile, 2), errno.ENOTDIR: (UsageError, 2), errno.ENAMETOOLONG: (UsageError, 2),
}  # fmt: skip


@pytest.mark.parametrize("number", CODES, ids=lambda n: errno.errorcode[n])
def test_every_fault_has_its_code_and_a_way_on(number: int):
    kind, code = CODES[number]
    error = plain(OSError(number, os.strerror(number)), "x.gguf")
    assert type(error) is kind
    assert error.exit_code == code
    assert error.hint
    assert "x.gguf" in str(error)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="needs inode flags")
@pytest.mark.parametrize("name", [*NEW, "split"])
def test_an_immutable_folder(name: str, tmp_path: Path, cli):
    from tests.files.test_attributes import flags

    made = writer(name, tmp_path)
    place = tmp_path / "fixed"
    place.mkdir()
    flags(place, 0x10)
    try:
        argv = [str(arg).replace(str(tmp_path / "out"), str(place / "out")) for arg in made.argv]
        result = cli(*argv)
        assert result.code == 4, result.err
        assert "chattr -i" in result.err
    finally:
        flags(place, 0)
    assert not os.listdir(place)


@pytest.mark.skipif(not hasattr(os, "fork") or os.geteuid() != 0, reason="becomes another user")
@pytest.mark.parametrize("name", [*NEW, "split", "picture"])
def test_a_folder_of_somebody_else(name: str, cli):
    """Exit 4, and before the work: nothing was hashed or converted for nothing."""
    import shutil
    import tempfile

    from tests.files.test_attributes import as_user

    folder = Path(tempfile.mkdtemp())
    try:
        made = writer("quantize" if name == "picture" else name, folder)
        place = folder / "theirs"
        place.mkdir(mode=0o755)
        folder.chmod(0o755)
        argv = [str(arg).replace(str(folder / "out"), str(place / "out")) for arg in made.argv]
        if name == "picture":
            argv = ["plan", str(made.sources[0]), "--plot", str(place / "p.svg")]
        assert cli(*argv).code == 0, "as root, so that all modules are there"
        shutil.rmtree(place)
        place.mkdir(mode=0o755)

        def run() -> int:
            done = cli(*argv)
            return done.code if "hint: " in done.err else 50

        assert as_user(2001, [], run) == 4
        assert not os.listdir(place)
    finally:
        shutil.rmtree(folder)
