"""What may be edited: every row of the table, its exit code, and that the way on works."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from gguftool.edit.ops import Set
from gguftool.edit.plan import plan_edit
from gguftool.edit.recover import recover
from gguftool.errors import ChangedMeanwhile, Refused
from gguftool.format.parse import parse_bytes
from tests.build import GGUF, llama

HEX = "0123456789abcdef" * 4
EDIT = ("--context-length", "1024")


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return llama().write(path)


STORES = {
    "hf blob": f"hub/models--a--b/blobs/{HEX}",
    "hf snapshot without links": "hub/models--a--b/snapshots/abc/m.gguf",
    "hf shared store": f"blobs/01/{HEX}",
    "ollama": f"ollama/models/blobs/sha256-{HEX}",
    "docker": f"docker/blobs/sha256/{HEX}",
    "git lfs": f"repo/.git/lfs/objects/01/23/{HEX}",
    "dvc": f"repo/.dvc/cache/files/md5/01/{HEX}",
}


@pytest.mark.parametrize("name", STORES)
def test_content_addressed_stores_are_never_written(name: str, tmp_path: Path, cli):
    path = put(tmp_path / STORES[name])
    before, when = path.read_bytes(), path.stat().st_mtime_ns
    for extra in ((), ("--dry-run",), ("--force", "--yes"), ("--strategy", "rewrite")):
        result = cli("fix", path, *EDIT, *extra)
        assert result.code == 4, result.err
        assert "--output NEW.gguf" in result.err
    looked = cli("fix", path)
    assert looked.code == 0
    assert "kv_cache_type" in looked.out
    assert "--output NEW.gguf" in looked.err
    out = tmp_path / "copy.gguf"
    assert cli("fix", path, *EDIT, "--output", out).code == 0
    assert parse_bytes(out.read_bytes()).get("llama.context_length").value == 1024
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, when)
    assert list(path.parent.iterdir()) == [path]


def test_hf_cache_through_its_link(tmp_path: Path, cli):
    blob = put(tmp_path / f"hub/models--a--b/blobs/{HEX}")
    link = tmp_path / "hub/models--a--b/snapshots/rev/m.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(os.path.relpath(blob, link.parent))
    outside = tmp_path / "my.gguf"
    outside.symlink_to(link)
    before = blob.read_bytes()
    for path in (link, outside):
        assert cli("fix", path, *EDIT).code == 4
        assert cli("undo", path).code == 4
    assert blob.read_bytes() == before
    assert sorted(p.name for p in link.parent.iterdir()) == ["m.gguf"]


@pytest.mark.parametrize("strategy", ["patch", "rewrite"])
def test_a_plain_link_is_followed_and_kept(strategy: str, tmp_path: Path, cli):
    real = put(tmp_path / "store/m.gguf")
    link = tmp_path / "link.gguf"
    link.symlink_to(real)
    assert cli("fix", link, *EDIT, "--strategy", strategy).code == 0
    assert link.is_symlink()
    assert parse_bytes(real.read_bytes()).get("llama.context_length").value == 1024
    assert (real.parent / "m.gguf-undo-1").exists()
    assert cli("undo", link).code == 0


def test_hard_links(tmp_path: Path, cli):
    path = put(tmp_path / "m.gguf")
    other = tmp_path / "other.gguf"
    os.link(path, other)
    before = path.read_bytes()
    refused = cli("fix", path, *EDIT)
    assert refused.code == 4
    assert "--hard-links" in refused.err
    assert cli("fix", path, *EDIT, "--hard-links", "follow").code == 0
    assert os.path.samefile(path, other)
    assert other.read_bytes() != before
    assert cli("undo", path, "--hard-links", "follow").code == 0
    assert other.read_bytes() == before
    assert cli("fix", path, *EDIT, "--hard-links", "break").code == 0
    assert not os.path.samefile(path, other)
    assert other.read_bytes() == before


def test_hard_links_cannot_be_followed_by_a_new_file(tmp_path: Path, cli):
    path = put(tmp_path / "m.gguf")
    os.link(path, tmp_path / "other.gguf")
    result = cli("fix", path, *EDIT, "--hard-links", "follow", "--strategy", "rewrite")
    assert result.code == 4


def test_read_only_even_as_root(tmp_path: Path, cli):
    path = put(tmp_path / "m.gguf")
    path.chmod(0o444)
    result = cli("fix", path, *EDIT)
    assert result.code == 4
    assert f"chmod u+w {path}" in result.err
    assert cli("fix", path, *EDIT, "-o", tmp_path / "new.gguf").code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


@pytest.mark.skipif(os.geteuid() != 0, reason="chattr needs root")
def test_immutable(tmp_path: Path, cli):
    path = put(tmp_path / "m.gguf")
    if subprocess.run(["chattr", "+i", str(path)], capture_output=True, check=False).returncode:
        pytest.skip("no inode flags here")
    try:
        result = cli("fix", path, *EDIT)
        assert result.code == 4
        assert "chattr -i" in result.err
    finally:
        subprocess.run(["chattr", "-i", str(path)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_read_only_file_system(tmp_path: Path, cli):
    path = put(tmp_path / "ro/m.gguf")
    folder = str(path.parent)
    if subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=False).returncode:
        pytest.skip("no mounts here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True, capture_output=True)
        result = cli("fix", path, *EDIT)
        assert result.code == 4
        assert "read-only" in result.err
        assert cli("fix", path, *EDIT, "-o", tmp_path / "new.gguf").code == 0
    finally:
        subprocess.run(["umount", folder], check=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
def test_folder_that_is_not_ours(tmp_path: Path):
    path = put(tmp_path / "d/m.gguf")
    path.chmod(0o666)
    for folder in (tmp_path, *tmp_path.parents):
        if folder != Path("/") and str(folder) != "/tmp":
            folder.chmod(folder.stat().st_mode | 0o055)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setuid(65534)
            try:
                plan_edit(path, [Set("llama.context_length", 1024)])
            except Refused as e:
                code = 0 if "folder" in str(e) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_sparse(tmp_path: Path, cli):
    path = put(tmp_path / "m.gguf")
    with open(path, "r+b") as f:
        size = path.stat().st_size
        f.truncate(size - 65536)
        f.truncate(size)
    result = cli("fix", path, *EDIT)
    assert result.code == 4
    assert "hole" in result.err
    data = path.read_bytes()
    assert cli("fix", path, "--set", "general.author=me", "--force").code == 0
    assert path.read_bytes()[-65536:] == data[-65536:]
    assert cli("undo", path).code == 0
    assert path.read_bytes() == data


def test_changed_since_it_was_planned(tmp_path: Path):
    path = put(tmp_path / "m.gguf")
    for change in ("content", "replaced", "longer"):
        plan = plan_edit(path, [Set("llama.context_length", 1024)])
        raw = path.read_bytes()
        if change == "content":
            with open(path, "r+b") as f:
                f.seek(-1, 2)
                f.write(b"!")
        elif change == "longer":
            with open(path, "ab") as f:
                f.write(b"more")
        else:
            (tmp_path / "x").write_bytes(raw)
            os.replace(tmp_path / "x", path)
        now = path.read_bytes()
        with pytest.raises(ChangedMeanwhile):
            plan.commit()
        assert path.read_bytes() == now
        assert os.listdir(tmp_path) == ["m.gguf"]


def test_undo_refuses_a_file_that_something_else_changed(tmp_path: Path, cli):
    path = put(tmp_path / "m.gguf")
    assert cli("fix", path, *EDIT).code == 0
    raw = bytearray(path.read_bytes())
    raw[40] ^= 1
    path.write_bytes(raw)
    result = cli("undo", path)
    assert result.code == 4
    assert "changed by something else" in result.err
    assert path.read_bytes() == bytes(raw)


def test_recover_refuses_a_file_that_something_else_changed(tmp_path: Path, cli):
    path = put(tmp_path / "m.gguf")
    assert cli("fix", path, *EDIT).code == 0
    os.rename(tmp_path / "m.gguf-undo-1", tmp_path / "m.gguf-journal")
    llama(tokens=50).write(path)
    raw = path.read_bytes()
    result = cli("recover", path)
    assert result.code == 7
    assert "something else" in result.err
    assert path.read_bytes() == raw
    assert (tmp_path / "m.gguf-journal").exists()


def test_damaged_journal(tmp_path: Path, cli):
    path = put(tmp_path / "m.gguf")
    before = path.read_bytes()
    (tmp_path / "m.gguf-journal").write_bytes(b"rotten")
    # The file is loadable, so it is exactly old or new, and the journal says nothing.
    assert recover(path).state == "TORN"
    assert path.read_bytes() == before
    (tmp_path / "m.gguf-journal").write_bytes(b"rotten")
    path.write_bytes(b"GGTX" + before[4:])
    result = cli("recover", path)
    assert result.code == 7
    assert "nothing was touched" in result.err
    assert (tmp_path / "m.gguf-journal").exists()
    (tmp_path / "m.gguf-journal").unlink()
    assert cli("recover", path).code == 7
    assert cli("fix", path, *EDIT).code == 7
    assert path.read_bytes() == b"GGTX" + before[4:]


def shards(folder: Path) -> list[Path]:
    first = llama().shard(0, 2, 12)
    second = GGUF().shard(1, 2, 12).tensor("extra.weight", (8,))
    return [
        first.write(folder / "m-00001-of-00002.gguf"),
        second.write(folder / "m-00002-of-00002.gguf"),
    ]


def test_any_shard_edits_the_first(tmp_path: Path, cli):
    one, two = shards(tmp_path)
    before = two.read_bytes()
    assert cli("fix", two, *EDIT).code == 0
    assert parse_bytes(one.read_bytes()).get("llama.context_length").value == 1024
    assert two.read_bytes() == before
    assert cli("undo", two).code == 0
    locked = cli("fix", one, "--set", "split.count=3")
    assert locked.code == 4
    assert "split" in locked.err
    assert cli("fix", one, "--delete", "split.no").code == 4
    one.unlink()
    missing = cli("fix", two, *EDIT)
    assert missing.code == 3
    assert "shard 1" in missing.err or "missing" in missing.err


def test_left_over_split_keys_of_a_whole_model_may_go(tmp_path: Path, cli):
    path = llama().kv("split.no", 0, "u16").kv("split.count", 0, "u16").write(tmp_path / "m.gguf")
    result = cli("fix", path, "--delete", "split.no", "--delete", "split.count")
    assert result.code == 0, result.err


def test_a_file_named_like_an_old_draft_of_ours_is_left_alone(tmp_path: Path, cli):
    path = put(tmp_path / "m.gguf")
    (tmp_path / "m.gguf-new").write_bytes(b"mine")
    result = cli("fix", path, *EDIT, "--strategy", "rewrite")
    assert result.code == 0, result.err
    assert (tmp_path / "m.gguf-new").read_bytes() == b"mine"
    assert not (tmp_path / "m.gguf-journal").exists()


def test_rewrite_keeps_mode_and_attributes(tmp_path: Path, cli):
    path = put(tmp_path / "m.gguf")
    path.chmod(0o640)
    try:
        os.setxattr(path, "user.origin", b"here")
    except OSError:
        pytest.skip("no extended attributes here")
    assert cli("fix", path, *EDIT, "--strategy", "rewrite").code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.getxattr(path, "user.origin") == b"here"


def test_nobody_reads_from_the_undo_record_what_he_may_not_read_from_the_file(tmp_path: Path, cli):
    path = put(tmp_path / "m.gguf")
    path.chmod(0o600)
    for strategy in ("patch", "rewrite"):
        assert cli("fix", path, "--set", f"context_length={len(strategy)}", "--strategy", strategy).code == 0
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}


def test_time_of_last_change(tmp_path: Path, cli):
    path = put(tmp_path / "m.gguf")
    os.utime(path, ns=(10**18, 10**18))
    assert cli("fix", path, *EDIT, "--preserve-mtime").code == 0
    assert path.stat().st_mtime_ns == 10**18
    assert cli("fix", path, "--context-length", "512").code == 0
    assert path.stat().st_mtime_ns != 10**18


@pytest.mark.parametrize("what", ["missing", "folder", "fifo", "text"])
def test_what_is_no_model(what: str, tmp_path: Path, cli):
    path = tmp_path / "x.gguf"
    if what == "folder":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "text":
        path.write_text("<html>")
    result = cli("fix", path, *EDIT)
    assert result.code == {"missing": 2, "folder": 2, "fifo": 3, "text": 3}[what]
    assert "Traceback" not in result.err


def test_output_never_overwrites(tmp_path: Path, cli):
    path = put(tmp_path / "m.gguf")
    before = path.read_bytes()
    other = tmp_path / "there.gguf"
    other.write_bytes(b"mine")
    assert cli("fix", path, *EDIT, "-o", other).code == 4
    assert other.read_bytes() == b"mine"
    same = cli("fix", path, *EDIT, "-o", path)
    assert same.code == 4
    assert "input itself" in same.err
    assert path.read_bytes() == before
    assert cli("fix", path, *EDIT, "-o", tmp_path / "no/such/folder.gguf").code == 2
