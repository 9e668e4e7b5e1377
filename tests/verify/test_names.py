"""Names of shards put right, and raw pieces put together."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gguftool.errors import Refused
from gguftool.verify import names
from tests.build import llama
from tests.oracle.llama import load
from tests.verify.sets import pieces, three, typed, write


def listing(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


@pytest.mark.parametrize(
    ("given", "prefix"),
    [
        (["part1.gguf", "part2.gguf", "part3.gguf"], "tiny-llama"),
        (["m-part1.gguf", "m-part2.gguf", "m-part3.gguf"], "m"),
        (["m-0001-of-0003.gguf", "m-0002-of-0003.gguf", "m-0003-of-0003.gguf"], "m"),
        (["m.gguf-00001-of-00003", "m.gguf-00002-of-00003", "m.gguf-00003-of-00003"], "m"),
        (["sha256-" + c * 64 for c in "cab"], "tiny-llama"),
        (["m-00002-of-00003.gguf", "m-00003-of-00003.gguf", "m-00001-of-00003.gguf"], "m"),
        (["m-00001-of-00003.gguf", "m-00003-of-00003.gguf", "m-00002-of-00003.gguf"], "m"),
        (["x y.gguf", "m-00001-of-00003.gguf", "m-00002-of-00003.gguf"], "m"),
    ],
)
def test_names_are_put_right(cli, tmp_path: Path, given: list[str], prefix: str):
    original = [p.read_bytes() for p in three(tmp_path)]
    hold = [p.rename(tmp_path / f"hold{i}") for i, p in enumerate(sorted(tmp_path.iterdir()))]
    for p, name in zip(hold, given, strict=True):
        p.rename(tmp_path / name)
    before = listing(tmp_path)
    dry = cli("verify", "--repair-names", tmp_path / given[1], "--format", "json")
    assert dry.code == 1
    assert not any(r["done"] for r in dry.json["renames"])
    assert listing(tmp_path) == before
    done = cli("verify", "--repair-names", "--yes", tmp_path / given[1], "--format", "json")
    assert done.code == 0
    assert done.json["set"]["ok"]
    expected = {f"{prefix}-{i + 1:05d}-of-00003.gguf": data for i, data in enumerate(original)}
    assert listing(tmp_path) == expected


@pytest.mark.parametrize("given", [["part1.gguf", "part2.gguf", "part3.gguf"], "rotated"], ids=["other", "rotated"])
def test_undo_records_are_renamed_with_their_shard(cli, tmp_path: Path, given: list[str] | str):
    """An edit of the first shard, and one of each in a set whose names are rotated: what belongs together stays."""
    usual = [f"m-{i}-of-00003.gguf" for i in ("00002", "00003", "00001")]
    names_given = usual if given == "rotated" else list(given)
    shards = three(tmp_path)
    original = [p.read_bytes() for p in shards]
    assert cli("fix", shards[0], "--set", "general.name=one").code == 0
    assert cli("fix", shards[0], "--set", "general.name=two").code == 0
    for p in [*shards, *tmp_path.glob("*-undo-*")]:
        p.rename(tmp_path / f"hold-{p.name}")
    for shard, name in zip(shards, names_given, strict=True):
        for p in list(tmp_path.glob(f"hold-{shard.name}*")):
            p.rename(tmp_path / (name + p.name.removeprefix(f"hold-{shard.name}")))
    assert cli("verify", "--repair-names", "--yes", tmp_path / names_given[1]).code == 0
    first = next(p for p in tmp_path.glob("*-00001-of-00003.gguf"))
    assert sorted(p.name for p in tmp_path.glob("*-undo-*")) == [f"{first.name}-undo-1", f"{first.name}-undo-2"]
    assert cli("undo", "--all", first).code == 0
    assert sorted(p.read_bytes() for p in tmp_path.iterdir()) == sorted(original)


def test_a_shard_in_the_middle_of_an_edit_is_not_renamed(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gguftool.source.PATIENCE", 0.1)
    paths = [p.rename(tmp_path / f"part{i}.gguf") for i, p in enumerate(three(tmp_path))]
    Path(f"{paths[0]}-journal").write_bytes(b"torn")
    before = listing(tmp_path)
    assert cli("verify", "--repair-names", "--yes", paths[1]).code == 7
    assert listing(tmp_path) == before


def test_names_are_those_that_lm_studio_takes(cli, tmp_path: Path):
    """Case 65: NAME-00001-of-00002.gguf, five digits, counted from one."""
    import re

    paths = write(pieces(typed("q4_0"), [29]), tmp_path)
    renamed = [p.rename(tmp_path / f"My Model ({i}).gguf") for i, p in enumerate(paths)]
    assert cli("verify", "--repair-names", "--yes", "--prefix", "My-Model", renamed[0]).code == 0
    assert all(re.fullmatch(r"My-Model-0000[12]-of-00002\.gguf", name) for name in listing(tmp_path))


def test_right_names_stay(cli, tmp_path: Path):
    paths = three(tmp_path)
    result = cli("verify", "--repair-names", "--yes", paths[0], "--format", "json")
    assert (result.code, result.json["renames"]) == (0, [])


def test_a_file_in_the_way_stops_it_before_anything_is_done(cli, tmp_path: Path):
    paths = three(tmp_path)
    paths[0].rename(tmp_path / "a.gguf")
    llama().write(paths[0])
    before = listing(tmp_path)
    result = cli("verify", "--repair-names", "--yes", paths[1])
    assert result.code == 4
    assert listing(tmp_path) == before


def test_broken_off_in_the_middle_and_run_again(cli, tmp_path: Path, monkeypatch):
    """A cycle of three; the program ends after the second step."""
    paths = three(tmp_path)
    original = [p.read_bytes() for p in paths]
    for p, data in zip(paths, original[1:] + original[:1], strict=True):
        p.write_bytes(data)
    steps: list[str] = []
    real = names._rename

    def rename(old: str, new: str) -> None:
        if len(steps) == 2:
            raise KeyboardInterrupt
        steps.append(old)
        real(old, new)

    monkeypatch.setattr(names, "_rename", rename)
    assert cli("verify", "--repair-names", "--yes", paths[0]).code == 130
    monkeypatch.setattr(names, "_rename", real)
    assert sorted(listing(tmp_path).values()) == sorted(original)
    left = next(iter(sorted(tmp_path.iterdir())))
    assert cli("verify", "--repair-names", "--yes", left).code == 0
    assert [p.read_bytes() for p in paths] == original
    assert len(listing(tmp_path)) == 3


def test_name_that_appears_meanwhile_is_not_replaced(tmp_path: Path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"o")
    new.write_bytes(b"n")
    with pytest.raises(Refused):
        names._rename(str(old), str(new))
    assert new.read_bytes() == b"n"


@pytest.mark.oracle
def test_links_of_a_content_store_load(cli, tmp_path: Path):
    """Case 63: llama.cpp's programs need siblings by name; a folder of links gives them."""
    store = tmp_path / "blobs"
    store.mkdir()
    shards = write(pieces(llama(layers=6), [20, 38]), store)
    blobs = [p.rename(store / f"sha256-{c * 64}") for p, c in zip(shards, "bca", strict=True)]
    before = listing(store)
    links = tmp_path / "links"
    result = cli("verify", "--repair-names", "--link-to", links, "--yes", blobs[2], "--format", "json")
    assert result.code == 0
    assert listing(store) == before
    assert load(links / "tiny-llama-00001-of-00003.gguf").ok


class TestRawPieces:
    """Case 55."""

    @pytest.fixture
    def whole(self) -> bytes:
        return typed("q4_0").bytes()

    def cut(self, folder: Path, data: bytes, endings: list[str]) -> list[Path]:
        step = -(-len(data) // len(endings))
        paths = [folder / f"m.gguf{ending}" for ending in endings]
        for i, path in enumerate(paths):
            path.write_bytes(data[i * step : (i + 1) * step])
        return paths

    @pytest.mark.parametrize(
        "endings",
        [
            [".part1of3", ".part2of3", ".part3of3"],
            ["-split-1of2", "-split-2of2"],
            [".part00", ".part01", ".part02"],
            [".part1", ".part2"],
            ["-split-aa", "-split-ab", "-split-ac"],
            ["-split-a", "-split-b"],
            [".aa", ".ab"],
            [".001", ".002", ".003"],
        ],
    )
    @pytest.mark.parametrize("entry", [0, -1])
    def test_recognised_and_joined(self, cli, tmp_path: Path, whole: bytes, endings: list[str], entry: int):
        paths = self.cut(tmp_path, whole, endings)
        result = cli("verify", paths[entry], "--format", "json")
        assert result.code == 1
        [problem] = result.json["files"][0]["problems"]
        assert problem["kind"] == "byte-split"
        assert f"all are here, {len(whole):,} bytes" in problem["message"]
        joined = cli("verify", "--join", tmp_path / "m.gguf", paths[entry])
        assert joined.code == 0, joined.err
        assert (tmp_path / "m.gguf").read_bytes() == whole
        assert all(p.exists() for p in paths)

    def test_split_of_coreutils(self, cli, tmp_path: Path, whole: bytes):
        (tmp_path / "m.gguf").write_bytes(whole)
        subprocess.run(["split", "-b", "7000", "m.gguf", "m.gguf.part-"], cwd=tmp_path, check=True)
        (tmp_path / "m.gguf").unlink()
        assert len(listing(tmp_path)) > 5
        assert cli("verify", "--join", tmp_path / "out.gguf", tmp_path / "m.gguf.part-aa").code == 0
        assert (tmp_path / "out.gguf").read_bytes() == whole

    def test_missing_piece_of_coreutils_is_called_as_it_would_be(self, cli, tmp_path: Path, whole: bytes):
        paths = self.cut(tmp_path, whole, ["-split-aa", "-split-ab", "-split-ac"])
        paths[1].unlink()
        assert "piece ab is missing" in cli("verify", paths[0]).out

    def test_folder_of_pieces(self, cli, tmp_path: Path, whole: bytes):
        self.cut(tmp_path, whole, [".part1of2", ".part2of2"])
        result = cli("verify", tmp_path, "--format", "json")
        assert result.code == 1
        assert [[p["kind"] for p in f["problems"]] for f in result.json["files"]] == [["byte-split"]]

    def test_header_longer_than_the_first_piece(self, cli, tmp_path: Path, whole: bytes):
        paths = self.cut(tmp_path, whole, [f".part{i:02d}" for i in range(40)])
        assert cli("verify", "--join", tmp_path / "out.gguf", paths[0]).code == 0
        assert (tmp_path / "out.gguf").read_bytes() == whole

    def test_missing_piece(self, cli, tmp_path: Path, whole: bytes):
        paths = self.cut(tmp_path, whole, [".part1of3", ".part2of3", ".part3of3"])
        paths[2].unlink()
        assert "piece 3 is missing" in cli("verify", paths[0]).out
        assert cli("verify", "--join", tmp_path / "m.gguf", paths[0]).code == 3
        paths[0].unlink()
        assert "piece 1, 3 is missing" in cli("verify", paths[1]).out
        assert not (tmp_path / "m.gguf").exists()

    def test_last_piece_lost_or_cut_off(self, cli, tmp_path: Path, whole: bytes):
        """Without a count in the names only the header tells."""
        paths = self.cut(tmp_path, whole, [".part00", ".part01", ".part02"])
        os.truncate(paths[2], paths[2].stat().st_size - 1)
        result = cli("verify", "--join", tmp_path / "m.gguf", paths[0])
        assert result.code == 3
        assert f"the header asks for {len(whole):,}" in result.err
        paths[2].unlink()
        assert cli("verify", "--join", tmp_path / "m.gguf", paths[0]).code == 3
        assert not (tmp_path / "m.gguf").exists()

    def test_never_overwrites(self, cli, tmp_path: Path, whole: bytes):
        paths = self.cut(tmp_path, whole, [".part1", ".part2"])
        (tmp_path / "m.gguf").write_bytes(b"mine")
        assert cli("verify", "--join", tmp_path / "m.gguf", paths[0]).code == 4
        assert (tmp_path / "m.gguf").read_bytes() == b"mine"

    def test_all_pieces_on_one_command_line_are_told_once(self, cli, tmp_path: Path, whole: bytes):
        paths = self.cut(tmp_path, whole, [".part1", ".part2"])
        result = cli("verify", *paths, "--format", "json")
        assert len(result.json["files"]) == 1

    def test_other_endings_are_no_pieces(self, cli, tmp_path: Path, whole: bytes):
        for ending in (".bak", ".old", ".new"):
            (tmp_path / f"m.gguf{ending}").write_bytes(whole[:-100])
        problems = cli("verify", tmp_path / "m.gguf.bak", "--format", "json").json["files"][0]["problems"]
        assert [p["kind"] for p in problems] == ["truncated"]

    def test_shards_are_not_joined_so(self, cli, tmp_path: Path):
        paths = three(tmp_path)
        result = cli("verify", "--join", tmp_path / "o.gguf", *paths)
        assert result.code == 2
        assert "gguftool merge" in result.err
