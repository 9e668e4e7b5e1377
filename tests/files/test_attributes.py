"""Owner, group, mode, ACLs: a copy is as private as its source, and a file that is replaced stays the same for all."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gguftool.files.attributes import readers_of
from tests.files.writers import NAMES, digest, model, writer

root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="gives files away")
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
NEW = [name for name in NAMES if name != "repair"]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def acl(user: int, owner: int, named: int, group: int, mask: int, other: int = 0) -> bytes:
    """As the kernel has it (linux/posix_acl_xattr.h): version 2, then (tag, permissions, id)."""
    no = 0xFFFFFFFF
    rows = [(1, owner, no), (2, named, user), (4, group, no), (16, mask, no), (32, other, no)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


def set_acl(path: Path, value: bytes, name: str = ACCESS) -> None:
    try:
        os.setxattr(path, name, value)
    except (OSError, AttributeError):
        pytest.skip("no ACLs here")


def get_acl(path: Path) -> bytes | None:
    try:
        return os.getxattr(path, ACCESS)
    except OSError:
        return None


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize("name", NEW)
class TestNewFiles:
    def test_a_private_model_stays_private(self, name: str, tmp_path: Path, cli, umask):
        made = writer(name, tmp_path)
        for source in made.sources:
            source.chmod(0o600)
        assert cli(*made.argv).code == 0
        assert made.made()
        assert {mode(p) for p in made.made()} == {0o600}

    def test_the_most_private_source_counts(self, name: str, tmp_path: Path, cli, umask):
        made = writer(name, tmp_path)
        made.sources[-1].chmod(0o600)
        assert cli(*made.argv).code == 0
        assert {mode(p) for p in made.made()} == {0o600}

    def test_a_public_one_follows_the_umask(self, name: str, tmp_path: Path, cli, umask):
        made = writer(name, tmp_path)
        for source in made.sources:
            source.chmod(0o444)
        umask(0o027)
        assert cli(*made.argv).code == 0
        assert {mode(p) for p in made.made()} == {0o640}

    @root
    def test_the_group_goes_with_its_rights(self, name: str, tmp_path: Path, cli, umask):
        made = writer(name, tmp_path)
        for source in made.sources:
            os.chown(source, 1000, 3000)
            source.chmod(0o640)
        assert cli(*made.argv).code == 0
        assert {(mode(p), p.stat().st_gid, p.stat().st_uid) for p in made.made()} == {(0o640, 3000, 0)}

    def test_who_could_not_read_the_source_cannot_read_the_copy(self, name: str, tmp_path: Path, cli, umask):
        """The folder gives new files to user 4242; the model was not his."""
        made = writer(name, tmp_path)
        for source in made.sources:
            source.chmod(0o640)
        set_acl(tmp_path, acl(4242, 7, 7, 5, 7), DEFAULT)
        assert cli(*made.argv).code == 0
        for path in made.made():
            assert get_acl(path) is None
            assert mode(path) == 0o640

    def test_who_could_read_the_source_can_read_the_copy(self, name: str, tmp_path: Path, cli, umask):
        made = writer(name, tmp_path)
        wanted = acl(1234, 6, 4, 0, 4)
        for source in made.sources:
            set_acl(source, wanted)
        assert cli(*made.argv).code == 0
        assert {get_acl(p) for p in made.made()} == {wanted}


@root
def test_a_group_that_cannot_be_had_gets_nothing(tmp_path: Path):
    """The bits of the group of the source are not for the group of who copies."""
    path = tmp_path / "m"
    path.touch()
    os.chown(path, 0, 3000)
    path.chmod(0o640)
    fd = os.open(tmp_path / "new", os.O_RDWR | os.O_CREAT, 0o600)
    readers = readers_of([str(path)])
    assert as_user(2001, [], lambda: readers.apply(fd), tmp_path / "new", fd) == 0
    assert mode(tmp_path / "new") == 0o600
    os.close(fd)


def as_user(uid: int, groups: list[int], do: Callable[[], object], *own: object) -> int:
    """Run something in a child of another user; ``own`` are given to him first. Its exit code."""
    for thing in own:
        os.chown(thing, uid, uid)
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 99
    try:
        os.setgroups(groups)
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        found = do()
        code = found if isinstance(found, int) else 0
    finally:
        os._exit(code)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users reach, unlike pytest's."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o777)
    yield place
    shutil.rmtree(place)


@root
@pytest.mark.parametrize("how", ["rewrite", "repair"])
def test_who_may_not_give_a_file_away_keeps_its_group(how: str, shared: Path, cli, umask):
    """As cp -p does: user 2001 of group 3000 edits a file of user 2000; the team keeps its access."""
    path, good = shared / "m.gguf", shared / "good.gguf"

    def prepare() -> list[object]:
        model(shared)
        shutil.copy(path, good)
        if how == "rewrite":
            argv = ["fix", path, "--set", "general.name=x", "--strategy", "rewrite"]
        else:
            data = bytearray(path.read_bytes())
            data[-100] ^= 1
            path.write_bytes(data)
            argv = ["verify", path, "--repair-from", good, "--sha256", digest(good)]
        os.chown(path, 2000, 3000)
        path.chmod(0o664)
        return argv

    # Once as root: the child of another user may not read the modules.
    assert cli(*prepare()).code == 0
    argv = prepare()

    def run() -> int:
        done = cli(*argv)
        return done.code or 50 * (how == "rewrite" and "belongs to you" not in done.err)

    assert as_user(2001, [3000], run) == 0
    s = path.stat()
    assert (s.st_uid, s.st_gid, stat.S_IMODE(s.st_mode)) == (2001, 3000, 0o664)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    path = model(tmp_path)
    shutil.copy(path, tmp_path / "good.gguf")
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    return path


def mend(cli, path: Path):
    good = path.with_name("good.gguf")
    return cli("verify", path, "--repair-from", good, "--sha256", digest(good))


class TestRepair:
    @root
    def test_it_is_the_same_file_for_everybody(self, damaged: Path, cli, umask):
        os.chown(damaged, 1000, 1001)
        damaged.chmod(0o640)
        os.setxattr(damaged, "user.note", b"mine")
        set_acl(damaged, acl(1234, 6, 4, 4, 4))
        before = damaged.stat()
        assert mend(cli, damaged).code == 0
        after = damaged.stat()
        assert (after.st_uid, after.st_gid, after.st_mode) == (1000, 1001, before.st_mode)
        assert os.getxattr(damaged, "user.note") == b"mine"
        assert get_acl(damaged) == acl(1234, 6, 4, 4, 4)

    def test_it_does_not_inherit_what_it_had_not(self, damaged: Path, cli, umask):
        damaged.chmod(0o640)
        set_acl(damaged.parent, acl(4242, 7, 7, 5, 7), DEFAULT)
        assert mend(cli, damaged).code == 0
        assert get_acl(damaged) is None
        assert mode(damaged) == 0o640

    def refused(self, damaged: Path, cli, code: int = 4) -> str:
        before, names = damaged.read_bytes(), sorted(os.listdir(damaged.parent))
        result = mend(cli, damaged)
        assert result.code == code, result.err
        assert "hint: " in result.err
        assert damaged.read_bytes() == before
        assert sorted(os.listdir(damaged.parent)) == names
        return result.err

    def same_words(self, damaged: Path, cli) -> None:
        """Up to where `fix` says what editing would do."""
        said = self.refused(damaged, cli)
        other = cli("fix", damaged, "--set", "general.name=x")
        assert other.code == 4
        assert said.splitlines()[0].partition(";")[0] == other.err.splitlines()[0].partition(";")[0]

    def test_read_only(self, damaged: Path, cli):
        damaged.chmod(0o444)
        self.same_words(damaged, cli)

    def test_hard_links(self, damaged: Path, cli):
        os.link(damaged, damaged.with_name("other"))
        self.same_words(damaged, cli)

    @root
    def test_immutable(self, damaged: Path, cli):
        flags(damaged, 0x10)
        try:
            self.same_words(damaged, cli)
            assert "chattr -i" in self.refused(damaged, cli)
        finally:
            flags(damaged, 0)

    def test_an_unfinished_edit(self, damaged: Path, cli):
        """Already the look at it says so; nothing is replaced under a journal."""
        damaged.with_name("m.gguf-journal").write_bytes(b"")
        before = damaged.read_bytes()
        result = mend(cli, damaged)
        assert result.code == 7
        assert damaged.read_bytes() == before

    def test_in_a_store_it_is_mended_where_it_lies(self, damaged: Path, cli):
        blob = damaged.parent / "blobs" / f"sha256-{digest(damaged.with_name('good.gguf'))}"
        blob.parent.mkdir()
        damaged.rename(blob)
        good = damaged.with_name("good.gguf")
        assert cli("verify", blob, "--hash", "--repair-from", good).code == 0
        assert digest(blob) == digest(good)


def flags(path: Path, value: int) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        has = struct.unpack_from("=I", fcntl.ioctl(fd, 0x80086601, bytes(8)))[0]
        fcntl.ioctl(fd, 0x40086602, struct.pack("=Q", (has & ~0x10) | value))
    except OSError:
        pytest.skip("no inode flags here")
    finally:
        os.close(fd)


class TestRewrite:
    @pytest.mark.parametrize("torn", [False, True])
    def test_recovery_spares_a_file_of_that_name(self, torn: bool, tmp_path: Path, cli):
        """``MODEL-new`` of the user's own: a patch never makes one, and an empty journal is older than any."""
        path, mine = model(tmp_path), tmp_path / "m.gguf-new"
        mine.write_text("precious")
        if torn:
            (tmp_path / "m.gguf-journal").touch()
        else:
            script = (
                "import os; from gguftool.edit import commit; from gguftool.cli.main import main\n"
                "commit.poison = lambda *args: os._exit(9)\n"
                f"main(['fix', {str(path)!r}, '--set', 'general.name=tinx', '--strategy', 'patch'])"
            )
            assert subprocess.run([sys.executable, "-c", script]).returncode == 9
        assert (tmp_path / "m.gguf-journal").exists()
        assert cli("recover", path).code == 0
        assert mine.read_text() == "precious"
        done = cli("fix", path, "--set", "general.name=x", "--strategy", "rewrite")
        assert done.code == 0, done.err
        assert mine.read_text() == "precious"

    def test_it_does_not_inherit_what_it_had_not(self, tmp_path: Path, cli, umask):
        path = model(tmp_path)
        path.chmod(0o640)
        set_acl(tmp_path, acl(4242, 7, 7, 5, 7), DEFAULT)
        assert cli("fix", path, "--set", "general.name=x", "--strategy", "rewrite").code == 0
        assert get_acl(path) is None
        assert mode(path) == 0o640

    @root
    def test_the_owner_can_undo_what_root_did(self, shared: Path, cli, umask):
        path = model(shared)
        before = path.read_bytes()
        path.chmod(0o600)
        os.chown(path, 2000, 2000)
        for _ in range(2):
            assert cli("fix", path, "--set", "general.name=x").code == 0
            assert cli("undo", path).code == 0
        assert cli("fix", path, "--set", "general.name=x").code == 0
        record = shared / "m.gguf-undo-1"
        assert (record.stat().st_uid, mode(record)) == (2000, 0o600)
        shared.chmod(0o777)
        assert as_user(2000, [], lambda: cli("undo", path).code) == 0
        assert path.read_bytes() == before

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mounts a disk")
    def test_no_copy_on_write_stays(self, tmp_path: Path, cli):
        """chattr +C of btrfs."""
        if not shutil.which("mkfs.btrfs"):
            pytest.skip("no btrfs-progs")
        image, place = tmp_path / "image", tmp_path / "disk"
        place.mkdir()
        image.touch()
        os.truncate(image, 512 << 20)
        subprocess.run(["mkfs.btrfs", "-q", image], check=True)
        if subprocess.run(["mount", "-o", "loop", image, place], capture_output=True).returncode:
            pytest.skip("no loop devices")
        try:
            (place / "m.gguf").touch()
            subprocess.run(["chattr", "+C", place / "m.gguf"], check=True)
            model(place)
            assert cli("fix", place / "m.gguf", "--set", "general.name=x", "--strategy", "rewrite").code == 0
            said = subprocess.run(["lsattr", place / "m.gguf"], capture_output=True, text=True).stdout
            assert "C" in said.split()[0]
        finally:
            subprocess.run(["umount", place], check=True)
