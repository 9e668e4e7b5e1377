"""Split and merge: lossless, checked, never overwriting; understood by the real loader and by gguf-py's writer."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gguftool.files import disk
from gguftool.format.parse import parse_bytes
from gguftool.verify import resplit
from tests.build import GGUF, llama
from tests.oracle.llama import load
from tests.verify.sets import pieces, tensors, three, typed, write


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return typed("q4_0").write(tmp_path / "m.gguf")


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize(
    "limit", [("--max-tensors", 10), ("--max-tensors", 1), ("--max-size", "64K"), ("--max-size", "20000B")]
)
def test_there_and_back_is_byte_for_byte(cli, model: Path, tmp_path: Path, limit: tuple[str, object]):
    result = cli("split", model, *limit, "-o", tmp_path / "s", "--format", "json")
    assert result.code == 0
    shards = [Path(f["path"]) for f in result.json["files"]]
    assert [p.name for p in shards] == [f"s-{i + 1:05d}-of-{len(shards):05d}.gguf" for i in range(len(shards))]
    assert tensors(*shards) == tensors(model)
    assert [f["sha256"] for f in result.json["files"]] == [hashlib.sha256(p.read_bytes()).hexdigest() for p in shards]
    if limit[0] == "--max-tensors":
        assert {f["tensors"] for f in result.json["files"][:-1]} == {limit[1]}
    assert cli("merge", shards[-1], "-o", tmp_path / "back.gguf").code == 0
    assert (tmp_path / "back.gguf").read_bytes() == model.read_bytes()


def test_max_size_holds_for_the_whole_file(cli, model: Path, tmp_path: Path):
    result = cli("split", model, "--max-size", "30K", "-o", tmp_path / "s", "--format", "json")
    for file in result.json["files"]:
        assert file["size"] == os.path.getsize(file["path"])
        assert file["size"] <= 30_000 or file["tensors"] == 1


def test_a_file_above_the_limit_is_told(cli, model: Path, tmp_path: Path):
    """A tensor is never cut; nobody shall find that out at the file system's limit."""
    result = cli("split", model, "--max-size", "1K", "-o", tmp_path / "s", "--dry-run", "--format", "json")
    above = sum(file["size"] > 1000 for file in result.json["files"])
    assert above
    assert f"{above} of {len(result.json['files'])} files are larger than the limit" in result.err
    assert "larger than" not in cli("split", model, "--max-size", "300K", "-o", tmp_path / "s", "--dry-run").err


def test_merge_takes_the_folder_of_a_set(cli, model: Path, tmp_path: Path):
    (tmp_path / "parts").mkdir()
    assert cli("split", model, "--max-tensors", 20, "-o", tmp_path / "parts" / "s").code == 0
    assert cli("merge", tmp_path / "parts", "-o", tmp_path / "back.gguf").code == 0
    assert (tmp_path / "back.gguf").read_bytes() == model.read_bytes()


def test_layout_is_that_of_llama_gguf_split(cli, model: Path, tmp_path: Path):
    """The first shard has all metadata, the others three keys, in the order the official tool writes them."""
    cli("split", model, "--max-tensors", 20, "-o", tmp_path / "s")
    expected = pieces(typed("q4_0"), [20, 40])
    for no, shard in enumerate(expected):
        written = (tmp_path / f"s-{no + 1:05d}-of-00003.gguf").read_bytes()
        assert written == shard.bytes()


@pytest.mark.oracle
@pytest.mark.parametrize(
    "options", [["--max-tensors", 20], ["--max-size", "64K"], ["--max-tensors", 30, "--metadata-first"]]
)
def test_the_real_loader_takes_the_shards(cli, tmp_path: Path, options: list[object]):
    model = llama(layers=6).write(tmp_path / "m.gguf")
    assert load(model).ok
    result = cli("split", model, *options, "-o", tmp_path / "s", "--format", "json")
    first = result.json["files"][0]["path"]
    answer = load(first)
    assert answer.ok, answer.log
    count = len(result.json["files"])
    assert any(f"additional {count - 1} GGUFs metadata loaded" in text for _, text in answer.log)
    (tmp_path / "b").mkdir()
    cli("merge", first, "-o", tmp_path / "b" / "back.gguf")
    assert load(tmp_path / "b" / "back.gguf").ok


def test_shards_of_gguf_py_merge(cli, tmp_path: Path):
    """The other writer of shards there is."""
    import numpy as np
    from gguf import GGUFWriter

    writer = GGUFWriter(tmp_path / "w.gguf", "llama", split_max_tensors=3)
    writer.add_uint32("llama.block_count", 1)
    writer.add_array("foo.bar", [1, 2, 3])
    data = {f"t{i}": np.arange(96 + i, dtype=np.float32) for i in range(8)}
    for name, values in data.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    [first, *_] = sorted(tmp_path.glob("w-00001-*.gguf"))
    assert cli("verify", first).code == 0
    assert cli("merge", first, "-o", tmp_path / "out.gguf").code == 0
    assert tensors(tmp_path / "out.gguf") == {name: values.tobytes() for name, values in data.items()}
    keys = [f.key for f in parse_bytes((tmp_path / "out.gguf").read_bytes()).fields]
    assert keys == ["general.architecture", "llama.block_count", "foo.bar"]


def test_unknown_keys_survive_and_split_keys_do_not(cli, tmp_path: Path):
    """Case 68, and the three keys that the official merge leaves behind."""
    model = typed("q4_0").kv("foo.bar", "x").kv("foo.list", [1.5, 2.5])
    paths = write(pieces(model, [20, 38]), tmp_path)
    assert cli("merge", paths[0], "-o", tmp_path / "out.gguf").code == 0
    assert (tmp_path / "out.gguf").read_bytes() == model.bytes()


def test_renamed_permuted_and_old_shards_merge(cli, tmp_path: Path):
    original = typed("q4_0").bytes()
    paths = three(tmp_path)
    renamed = [p.rename(tmp_path / f"part{n}.gguf") for p, n in zip(paths, (2, 3, 1), strict=True)]
    assert cli("merge", *renamed, "-o", tmp_path / "a.gguf").code == 0
    assert (tmp_path / "a.gguf").read_bytes() == original
    (tmp_path / "old").mkdir()
    shards = pieces(typed("q4_0"), [20, 38])
    for no, shard in enumerate(shards):
        shard.drop("split.no", "split.count", "split.tensors.count")
        shard.kv("general.split", no, "u16").kv("general.split_count", 3, "u16")
    old = write(shards, tmp_path / "old")
    assert cli("merge", old[0], "-o", tmp_path / "b.gguf").code == 0
    assert (tmp_path / "b.gguf").read_bytes() == original


def test_shards_from_different_folders(cli, tmp_path: Path):
    paths = three(tmp_path)
    (tmp_path / "x").mkdir()
    moved = paths[1].rename(tmp_path / "x" / "second")
    assert cli("merge", paths[0], moved, paths[2], "-o", tmp_path / "a.gguf").code == 0
    assert (tmp_path / "a.gguf").read_bytes() == typed("q4_0").bytes()


class TestRefused:
    """Nothing is written, and nothing of before is touched."""

    def failed(self, cli, tmp_path: Path, *args: object, code: int) -> str:
        before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
        result = cli(*args)
        assert result.code == code, result.err
        assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
        return result.err

    def test_shell_glob_without_output(self, cli, tmp_path: Path):
        """Case 57: with the official tool of that time the second shard was taken as the output."""
        paths = three(tmp_path)
        self.failed(cli, tmp_path, "merge", *paths, code=2)

    def test_existing_output(self, cli, tmp_path: Path):
        paths = three(tmp_path)
        assert "exists already" in self.failed(cli, tmp_path, "merge", paths[0], "-o", paths[1], code=4)
        model = llama().write(tmp_path / "o.gguf")
        (tmp_path / "s-00002-of-00003.gguf").write_bytes(b"mine")
        self.failed(cli, tmp_path, "split", model, "--max-tensors", 4, "-o", tmp_path / "s", code=4)

    def test_missing_shard(self, cli, tmp_path: Path):
        paths = three(tmp_path)
        paths[1].unlink()
        assert "shard 2 of 3 is missing" in self.failed(cli, tmp_path, "merge", paths[0], "-o", tmp_path / "o", code=3)

    def test_truncated_shard(self, cli, tmp_path: Path):
        """The official merge writes a right-sized wrong file here and exits 0."""
        paths = three(tmp_path)
        os.truncate(paths[1], paths[1].stat().st_size - 100)
        err = self.failed(cli, tmp_path, "merge", paths[0], "-o", tmp_path / "o", code=3)
        assert "cut off" in err
        assert "gguftool verify" in err

    def test_foreign_shard(self, cli, tmp_path: Path):
        paths = three(tmp_path)
        (tmp_path / "x").mkdir()
        shutil.copy(three(tmp_path / "x", "q8_0", 7)[1], paths[1])
        err = self.failed(cli, tmp_path, "merge", paths[0], "-o", tmp_path / "o", code=4)
        assert "--allow-foreign" in err
        assert cli("merge", paths[0], "-o", tmp_path / "o", "--allow-foreign").code == 0

    def test_whole_model(self, cli, model: Path, tmp_path: Path):
        self.failed(cli, tmp_path, "merge", model, "-o", tmp_path / "o", code=2)

    def test_shards_of_two_sets(self, cli, tmp_path: Path):
        a = three(tmp_path, prefix="a")
        (tmp_path / "x").mkdir()
        b = write(pieces(llama(layers=4), [20]), tmp_path / "x", "b")
        self.failed(cli, tmp_path, "merge", a[0], b[0], "-o", tmp_path / "o", code=2)

    def test_nothing_to_split(self, cli, model: Path, tmp_path: Path):
        self.failed(cli, tmp_path, "split", model, "--max-size", "4G", code=2)
        self.failed(cli, tmp_path, "split", model, code=2)
        self.failed(cli, tmp_path, "split", model, "--max-size", "0", code=2)

    def test_truncated_model(self, cli, model: Path, tmp_path: Path):
        os.truncate(model, model.stat().st_size - 1000)
        self.failed(cli, tmp_path, "split", model, "--max-tensors", 10, code=3)

    def test_tensor_of_unknown_size(self, cli, tmp_path: Path):
        model = llama().tensor("new", (32,), 99, data=bytes(32)).write(tmp_path / "m.gguf")
        self.failed(cli, tmp_path, "split", model, "--max-tensors", 4, code=3)

    def test_no_room(self, cli, model: Path, tmp_path: Path, monkeypatch):
        monkeypatch.setattr(disk, "free_bytes", lambda _: 1000)
        assert "are needed" in self.failed(cli, tmp_path, "split", model, "--max-tensors", 10, code=5)

    def test_disk_full_in_the_middle(self, cli, model: Path, tmp_path: Path):
        """Case 81: nothing half-written stays. A limit on the size of files stands for the full disk."""
        limit = ["--max-tensors", "12"]
        plan = cli("split", model, *limit, "--dry-run", "--format", "json").json["files"]
        most = max(f["size"] for f in plan[1:])
        assert plan[0]["size"] > most
        code = (
            f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({most - 1}, {most - 1})); "
            "from gguftool.cli.main import main; sys.exit(main(sys.argv[1:]))"
        )
        command = [sys.executable, "-c", code, "split", str(model), *limit]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 5, done.stderr
        assert "File too large" in done.stderr
        assert names(tmp_path) == ["m.gguf"]

    def test_shards_of_different_splits(self, cli, tmp_path: Path):
        """Case 67: the total must be what split.tensors.count says."""
        paths = write(pieces(typed("q4_0"), [20, 38]), tmp_path)
        short = pieces(typed("q4_0"), [20, 38])[2]
        short._tensors.pop()
        short.write(paths[2])
        err = self.failed(cli, tmp_path, "merge", paths[0], "-o", tmp_path / "o", code=4)
        assert "the shards hold 55 tensors, split.tensors.count says 56" in err

    def test_source_that_gets_shorter_meanwhile(self, cli, tmp_path: Path, monkeypatch):
        model = typed("q4_0").write(tmp_path / "m.gguf")
        real = resplit._fill
        monkeypatch.setattr(resplit, "_fill", lambda *a: (os.truncate(model, 40_000), real(*a))[1])
        assert cli("split", model, "--max-tensors", 30, "-o", tmp_path / "s").code == 4
        assert names(tmp_path) == ["m.gguf"]

    @pytest.mark.parametrize("place", ["first", "header", "data", "padding", "last"])
    def test_disk_that_gives_back_something_else(self, cli, tmp_path: Path, monkeypatch, place: str):
        model = GGUF("llama").tensor("a", (1027,)).tensor("b", (9,)).tensor("c", (301,)).write(tmp_path / "m.gguf")
        start = parse_bytes(model.read_bytes()).data_offset
        at, what = {
            "first": (0, "the header"),
            "header": (start - 90, "the header"),
            "data": (start + 999, "a"),
            "padding": (start + 4 * 1027 + 3, "a"),
            "last": (-1, "b"),
        }[place]
        real = resplit._read_back

        def flipped(draft, *rest):
            byte = os.pread(draft.fd, 1, at % os.fstat(draft.fd).st_size)
            os.pwrite(draft.fd, bytes([byte[0] ^ 1]), at % os.fstat(draft.fd).st_size)
            return real(draft, *rest)

        monkeypatch.setattr(resplit, "_read_back", flipped)
        err = self.failed(cli, tmp_path, "split", model, "--max-tensors", 2, "-o", tmp_path / "s", code=3)
        assert f"{what} reads back differently" in err
        assert "suspect RAM or disk" in err

    @pytest.mark.parametrize("how", ["other bytes", "other bytes and time"])
    def test_source_that_changes_meanwhile(self, cli, model: Path, tmp_path: Path, monkeypatch, how: str):
        """What is read back is held against the source as it is then."""
        real = resplit._read_back
        before, start = model.stat(), parse_bytes(model.read_bytes()).data_offset

        def change(*a):
            with open(model, "r+b") as f:
                f.seek(start)
                f.write(b"!" * 100)
            if how == "other bytes":
                os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
            return real(*a)

        monkeypatch.setattr(resplit, "_read_back", change)
        result = cli("split", model, "--max-tensors", 30, "-o", tmp_path / "s")
        assert result.code == (3 if how == "other bytes" else 4)
        assert names(tmp_path) == ["m.gguf"]

    def test_source_that_is_touched_after_it_was_compared(self, cli, model: Path, tmp_path: Path, monkeypatch):
        real = resplit._read_back
        monkeypatch.setattr(resplit, "_read_back", lambda *a: (real(*a), os.utime(model))[0])
        assert "changed while it was read" in cli("split", model, "--max-tensors", 30, "-o", tmp_path / "s").err
        assert names(tmp_path) == ["m.gguf"]

    @pytest.mark.parametrize("side", ["source", "target"])
    def test_which_of_the_two_failed(self, cli, model: Path, tmp_path: Path, monkeypatch, side: str):
        """The kernel's own copy does not say that: it is tried by hand."""

        def no(*a: object) -> int:
            raise OSError(errno.EIO, "Input/output error")

        source, out = model.stat().st_ino, tmp_path / "s"
        name, real = ("preadv", os.preadv) if side == "source" else ("pwrite", os.pwrite)

        def failing(fd: int, *rest: object) -> int:
            mine = os.fstat(fd).st_ino == source
            return no() if mine == (side == "source") and fails[0] else real(fd, *rest)  # type: ignore[operator]

        fails = [False]
        fill = resplit._fill
        monkeypatch.setattr(resplit, "_fill", lambda *a: (fails.insert(0, True), fill(*a))[1])
        monkeypatch.setattr(os, "copy_file_range", no, raising=False)
        monkeypatch.setattr(os, name, failing)
        result = cli("split", model, "--max-tensors", 30, "-o", out)
        fails[0] = False
        assert result.code == 3
        assert (str(model) if side == "source" else f"{out}-00001") in result.err
        assert names(tmp_path) == ["m.gguf"]

    def test_name_taken_while_writing(self, cli, model: Path, tmp_path: Path, monkeypatch):
        real = resplit._read_back
        taken = tmp_path / "s-00002-of-00002.gguf"
        monkeypatch.setattr(resplit, "_read_back", lambda *a: (taken.write_bytes(b"mine"), real(*a))[1])
        assert cli("split", model, "--max-tensors", 40, "-o", tmp_path / "s").code == 4
        assert taken.read_bytes() == b"mine"
        assert names(tmp_path) == ["m.gguf", taken.name]


def test_dry_run_writes_nothing(cli, model: Path, tmp_path: Path):
    result = cli("split", model, "--max-tensors", 30, "--dry-run", "--format", "json")
    assert (result.code, result.json["dry_run"], len(result.json["files"])) == (0, True, 2)
    assert "nothing was written" in cli("split", model, "--max-tensors", 30, "--dry-run").out
    assert names(tmp_path) == ["m.gguf"]
    sizes = [f["size"] for f in result.json["files"]]
    cli("split", model, "--max-tensors", 30)
    assert sizes == [p.stat().st_size for p in sorted(tmp_path.glob("m-*.gguf"))]
    assert cli("merge", next(iter(sorted(tmp_path.glob("m-*")))), "-o", tmp_path / "x", "--dry-run").code == 0
    assert not (tmp_path / "x").exists()


def test_a_set_is_split_anew(cli, tmp_path: Path):
    paths = three(tmp_path)
    assert cli("split", paths[1], "--max-tensors", 30).code == 0
    assert tensors(*sorted(tmp_path.glob("m-*-of-00002.gguf"))) == tensors(*paths)
    (tmp_path / "n").mkdir()
    assert cli("merge", tmp_path / "m-00001-of-00002.gguf", "-o", tmp_path / "n" / "x.gguf").code == 0
    assert (tmp_path / "n" / "x.gguf").read_bytes() == typed("q4_0").bytes()


@pytest.mark.parametrize("alignment", [16, 64, 256])
def test_other_alignments(cli, tmp_path: Path, alignment: int):
    model = GGUF("llama").align(alignment)
    for i in range(9):
        model.tensor(f"t{i}", (5 + i,))
    path = model.write(tmp_path / "m.gguf")
    cli("split", path, "--max-tensors", 2, "-o", tmp_path / "s")
    shards = sorted(tmp_path.glob("s-*"))
    assert tensors(*shards) == tensors(path)
    assert cli("merge", shards[0], "-o", tmp_path / "back.gguf").code == 0
    assert (tmp_path / "back.gguf").read_bytes() == path.read_bytes()


def test_big_endian_and_version_2(cli, tmp_path: Path):
    for name, model in (("be", typed("q4_0").big_endian()), ("v2", typed("q4_0").version(2))):
        path = model.write(tmp_path / f"{name}.gguf")
        assert cli("split", path, "--max-tensors", 30).code == 0
        [first, *_] = sorted(tmp_path.glob(f"{name}-*"))
        assert cli("merge", first, "-o", tmp_path / f"{name}.back.gguf").code == 0
        assert (tmp_path / f"{name}.back.gguf").read_bytes() == path.read_bytes()


@pytest.mark.real
def test_real_model(cli, gemma3: Path, tmp_path: Path):
    """As llama-gguf-split --split-max-size 100M split this file: 1, 1 and 234 tensors."""
    result = cli("split", gemma3, "--max-size", "100M", "-o", tmp_path / "g", "--format", "json")
    assert [f["tensors"] for f in result.json["files"]] == [1, 1, 234]
    merged = cli("merge", tmp_path / "g-00002-of-00003.gguf", "-o", tmp_path / "whole.gguf", "--format", "json")
    assert merged.json["files"][0]["sha256"] == "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
