"""Damaged files mended with the bytes of another copy: only what is needed, proven, all or nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gguftool.verify import repair as module
from tests.build import GGUF, llama
from tests.verify.sets import three


@pytest.fixture
def good(tmp_path: Path) -> Path:
    (tmp_path / "good").mkdir()
    return llama(layers=2).write(tmp_path / "good" / "m.gguf")


@pytest.fixture
def manifest(cli, good: Path, tmp_path: Path) -> Path:
    path = tmp_path / "manifest"
    assert cli("verify", "--write-manifest", path, good).code == 0
    return path


@pytest.fixture
def bad(good: Path, tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    path = tmp_path / "here" / "m.gguf"
    path.write_bytes(good.read_bytes())
    return path


def flip(path: Path, *places: int) -> None:
    data = bytearray(path.read_bytes())
    for at in places:
        data[at] ^= 0x10
    path.write_bytes(data)


def tensor(cli, path: Path, name: str) -> tuple[int, int]:
    rows = cli("hash", "--tensors", "--format", "json", path).json["files"][0]["tensors"]
    return next((t["start"], t["end"]) for t in rows if t["name"] == name)


def test_only_the_bad_tensors_are_fetched(cli, good: Path, bad: Path, manifest: Path):
    spans = [tensor(cli, good, name) for name in ("output_norm.weight", "blk.1.ffn_up.weight")]
    flip(bad, spans[0][0] + 3, spans[1][1] - 1)
    bad.chmod(0o640)
    result = cli("verify", "--against", manifest, "--repair-from", good, bad, "--format", "json")
    assert result.code == 0
    [repaired] = result.json["repaired"]
    assert [(r["start"], r["end"]) for r in repaired["ranges"]] == spans
    assert repaired["fetched"] == sum(b - a for a, b in spans)
    assert repaired["proven"]
    assert bad.read_bytes() == good.read_bytes()
    assert stat.S_IMODE(bad.stat().st_mode) == 0o640
    assert os.listdir(bad.parent) == ["m.gguf"]


def test_the_other_copy_may_have_other_metadata(cli, good: Path, bad: Path, manifest: Path, tmp_path: Path):
    """Tensors are found by name, so an edited or split copy will do."""
    start, end = tensor(cli, good, "blk.0.attn_q.weight")
    flip(bad, start, end - 1)
    other = llama(layers=2).kv("general.description", "longer " * 100).write(tmp_path / "other.gguf")
    assert cli("verify", "--against", manifest, "--repair-from", other, bad).code == 0
    assert bad.read_bytes() == good.read_bytes()
    flip(bad, start)
    cli("split", good, "--max-tensors", 8, "-o", tmp_path / "s")
    assert cli("verify", "--against", manifest, "--repair-from", tmp_path / "s-00003-of-00003.gguf", bad).code == 0
    assert bad.read_bytes() == good.read_bytes()


def test_bad_header(cli, good: Path, bad: Path, manifest: Path):
    at = good.read_bytes().index(b"tiny llama")
    flip(bad, at)
    result = cli("verify", "--against", manifest, "--repair-from", good, bad, "--format", "json")
    assert result.code == 0
    assert result.json["repaired"][0]["ranges"][0]["start"] == 0
    assert bad.read_bytes() == good.read_bytes()


def test_edited_metadata_stays_when_a_tensor_is_mended(cli, good: Path, bad: Path, manifest: Path):
    """A header of another length was edited on purpose; its tensors are mended all the same."""
    edited = llama(layers=2).kv("general.description", "mine")
    edited.write(bad)
    whole = bad.read_bytes()
    start, _ = tensor(cli, bad, "blk.0.attn_q.weight")
    flip(bad, start)
    result = cli("verify", "--against", manifest, "--repair-from", good, bad, "--format", "json")
    assert bad.read_bytes() == whole
    assert result.json["repaired"][0]["proven"]
    assert [p["kind"] for p in result.json["files"][0]["problems"]] == ["hash-mismatch", "metadata-changed"]


@pytest.mark.parametrize("cut", [1, 5000, 100_000])
def test_cut_off_file_gets_its_rest(cli, good: Path, bad: Path, manifest: Path, cut: int):
    os.truncate(bad, good.stat().st_size - cut)
    result = cli("verify", "--against", manifest, "--repair-from", good, bad, "--format", "json")
    assert result.code == 0
    assert bad.read_bytes() == good.read_bytes()
    assert result.json["repaired"][0]["fetched"] < good.stat().st_size // 2 + cut + 100_000


def test_cut_off_without_any_list(cli, good: Path, bad: Path):
    """What both have is the same, but no hash proves the whole."""
    os.truncate(bad, good.stat().st_size - 5000)
    result = cli("verify", "--repair-from", good, bad, "--format", "json")
    assert (result.code, result.json["ok"]) == (1, False)
    assert (result.json["repaired"][0]["fetched"], result.json["repaired"][0]["proven"]) == (5000, False)
    assert bad.read_bytes() == good.read_bytes()


@pytest.mark.parametrize("change", ["all", "first", "last"])
@pytest.mark.parametrize("how", ["cut", "long"])
def test_another_file_with_the_same_header_is_refused(cli, good: Path, bad: Path, change: str, how: str):
    """Two checkpoints of one training, or another upload under the same name."""
    whole = good.read_bytes()
    start, _ = tensor(cli, good, "blk.0.attn_q.weight")
    end = len(whole) - 5000
    if how == "cut":
        os.truncate(bad, end)
    else:
        bad.write_bytes(whole + b"x" * 999)
    before = bad.read_bytes()
    flip(good, *{"all": range(start, len(whole)), "first": [start], "last": [end - 1]}[change])
    result = cli("verify", "--repair-from", good, bad)
    assert result.code == 4
    assert "is another file" in result.err
    assert bad.read_bytes() == before


def test_too_long_is_cut(cli, good: Path, bad: Path, manifest: Path):
    with open(bad, "ab") as f:
        f.write(b"x" * 999)
    assert cli("verify", "--against", manifest, "--repair-from", good, bad).code == 0
    assert bad.read_bytes() == good.read_bytes()


def test_with_a_hash_only_and_a_copy_at_hand(cli, good: Path, bad: Path):
    """Without a manifest the copies are compared, and the hash is the proof."""
    import hashlib

    flip(bad, good.stat().st_size - 100)
    sha = hashlib.sha256(good.read_bytes()).hexdigest()
    result = cli("verify", "--sha256", sha, "--repair-from", good, bad, "--format", "json")
    assert (result.code, result.json["repaired"][0]["proven"]) == (0, True)
    assert bad.read_bytes() == good.read_bytes()


def test_set(cli, tmp_path: Path):
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").mkdir()
    good, bad = three(tmp_path / "good"), three(tmp_path / "bad")
    cli("verify", "--write-manifest", tmp_path / "list", good[0])
    flip(bad[1], bad[1].stat().st_size - 9)
    os.truncate(bad[2], bad[2].stat().st_size - 700)
    result = cli("verify", "--against", tmp_path / "list", "--repair-from", good[0], bad[0], "--format", "json")
    assert result.code == 0
    assert len(result.json["repaired"]) == 2
    assert [p.read_bytes() for p in bad] == [p.read_bytes() for p in good]


def test_blob_behind_a_link_is_mended_and_the_link_stays(cli, good: Path, bad: Path, manifest: Path, tmp_path: Path):
    flip(bad, good.stat().st_size - 9)
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "m.gguf"
    link.symlink_to(bad)
    assert cli("verify", "--against", manifest, "--repair-from", good, link).code == 0
    assert link.is_symlink()
    assert bad.read_bytes() == good.read_bytes()


class TestAllOrNothing:
    @pytest.fixture
    def damaged(self, cli, good: Path, bad: Path) -> Path:
        flip(bad, tensor(cli, good, "blk.0.attn_q.weight")[0])
        return bad

    def unchanged(self, path: Path, before: bytes) -> bool:
        return path.read_bytes() == before and os.listdir(path.parent) == [path.name]

    def test_copy_that_is_damaged_too(self, cli, good: Path, damaged: Path, manifest: Path):
        before = damaged.read_bytes()
        flip(good, tensor(cli, good, "blk.0.attn_q.weight")[0] + 1)
        result = cli("verify", "--against", manifest, "--repair-from", good, damaged)
        assert result.code == 6
        assert "is not the listed one either" in result.err
        assert self.unchanged(damaged, before)

    def test_copy_of_another_model(self, cli, damaged: Path, manifest: Path, tmp_path: Path):
        before = damaged.read_bytes()
        other = GGUF("llama").tensor("blk.0.attn_q.weight", (32, 32)).write(tmp_path / "o.gguf")
        assert cli("verify", "--against", manifest, "--repair-from", other, damaged).code == 3
        assert self.unchanged(damaged, before)

    def test_copy_of_another_version_without_a_list(self, cli, good: Path, bad: Path, tmp_path: Path):
        os.truncate(bad, good.stat().st_size - 5000)
        before = bad.read_bytes()
        other = llama(layers=2).replace("general.name", "tiny Llama").write(tmp_path / "o.gguf")
        result = cli("verify", "--repair-from", other, bad)
        assert result.code == 4
        assert self.unchanged(bad, before)

    def test_wrong_hash_at_the_end(self, cli, good: Path, bad: Path):
        flip(bad, good.stat().st_size - 9)
        before = bad.read_bytes()
        result = cli("verify", "--sha256", "ab" * 32, "--repair-from", good, bad)
        assert result.code == 4
        assert "nothing was replaced" in result.err
        assert self.unchanged(bad, before)

    @pytest.mark.parametrize("step", ["_copy", "_apply", "_proof"])
    def test_broken_off(self, cli, good: Path, damaged: Path, manifest: Path, monkeypatch, step: str):
        before = damaged.read_bytes()
        real = getattr(module, step)

        def stop(*args, **kwargs):
            real(*args, **kwargs)
            raise KeyboardInterrupt

        monkeypatch.setattr(module, step, stop)
        assert cli("verify", "--against", manifest, "--repair-from", good, damaged).code == 130
        assert self.unchanged(damaged, before)

    def test_nothing_to_repair(self, cli, good: Path, bad: Path, manifest: Path):
        inode = bad.stat().st_ino
        result = cli("verify", "--against", manifest, "--repair-from", good, bad, "--format", "json")
        assert (result.code, result.json["repaired"]) == (0, [])
        assert bad.stat().st_ino == inode


def test_without_a_hash_nobody_knows_what_is_wrong(cli, good: Path, bad: Path):
    """ "Nothing to repair" would be a promise that only a hash can keep."""
    start, _ = tensor(cli, good, "blk.0.attn_q.weight")
    flip(bad, start)
    result = cli("verify", "--repair-from", good, bad)
    assert "nothing to repair" not in result.err
    assert "only the size was checked" in result.err
    assert "--sums MANIFEST" in result.err


@pytest.mark.parametrize(("at", "told"), [("end", True), ("first", True), ("same", False)])
def test_a_copy_that_is_far_away_is_compared_in_some_places(at: str, told: bool, good: Path, bad: Path):
    """Its last MiB before the cut, and places spread over what is here."""
    from gguftool.errors import Refused
    from gguftool.format.parse import parse
    from gguftool.model import Part
    from gguftool.source import Memory

    data = bytearray(bad.read_bytes())
    start = len(data) // 2
    if at != "same":
        data[start - 1 if at == "end" else 0] ^= 1
    source = Memory(bytes(data), "https://host/m.gguf")
    part = Part("https://host/m.gguf", source, parse(Memory(good.read_bytes())))
    if told:
        with pytest.raises(Refused, match="is another file"):
            module.refuse_stranger(str(bad), part, start)
    else:
        module.refuse_stranger(str(bad), part, start)
