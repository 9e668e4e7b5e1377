"""Family C of the public fault cases: shards are judged by what is in them, not by their names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.build import GGUF, llama
from tests.verify.sets import pieces, three, typed, write


def look(cli, path: Path):
    """Exit code, the set, and the kinds of its problems."""
    result = cli("verify", path, "--format", "json")
    found = result.json["set"]
    return result.code, found, [p["kind"] for p in found["problems"]]


@pytest.mark.parametrize("entry", [0, 1, 2])
def test_whole_set_from_any_shard(cli, tmp_path: Path, entry: int):
    paths = three(tmp_path)
    code, found, kinds = look(cli, paths[entry])
    assert (code, kinds) == (0, [])
    assert (found["count"], found["present"], found["ok"]) == (3, 3, True)
    assert found["paths"] == [str(p) for p in paths]


def test_folder_checks_a_set_once(cli, tmp_path: Path):
    three(tmp_path)
    llama().write(tmp_path / "other.gguf")
    result = cli("verify", tmp_path, "--format", "json")
    assert result.code == 0
    assert len(result.json["files"]) == 4
    assert len(result.json["sets"]) == 1


@pytest.mark.parametrize("names", ["part{}.gguf", "m.gguf-0000{}-of-00003", "sha256-" + "{}" * 64])
def test_folder_of_shards_of_any_names_holds_one_model(cli, tmp_path: Path, names: str):
    """Cases 59, 60 and 63: wherever a model is asked for, not only in verify."""
    for no, path in enumerate(three(tmp_path), 1):
        path.rename(tmp_path / names.replace("{}", str(no)))
    summary = cli("dump", tmp_path, "--format", "json").json["summary"]
    assert summary["shards"] == 3
    code, found, kinds = look(cli, tmp_path)
    assert (code, kinds, found["present"]) == (1, ["shard-names"], 3)


def test_folder_without_the_first_shard(cli, tmp_path: Path):
    three(tmp_path)[0].unlink()
    result = cli("lint", tmp_path, "--format", "json", "--no-config")
    assert result.code == 1
    assert "shard-missing" in [f["rule"] for f in result.json["files"][0]["findings"]]


def test_folder_of_two_models_asks_which(cli, tmp_path: Path):
    three(tmp_path, prefix="part")
    llama().write(tmp_path / "other.gguf")
    result = cli("dump", tmp_path)
    assert result.code == 2
    assert "holds 2 models" in result.err


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_missing_shard(cli, tmp_path: Path, gone: int):
    """Case 61; its exit code is not that of damage."""
    paths = three(tmp_path)
    paths[gone].unlink()
    code, found, kinds = look(cli, paths[(gone + 1) % 3])
    assert (code, kinds) == (3, ["shard-missing"])
    assert (found["present"], found["missing"], found["ok"]) == (2, [gone + 1], False)
    assert paths[gone].name in found["problems"][0]["message"]


def test_truncated_shard_is_damage(cli, tmp_path: Path):
    paths = three(tmp_path)
    paths[1].write_bytes(paths[1].read_bytes()[:-100])
    result = cli("verify", paths[0], "--format", "json")
    assert result.code == 1
    assert [f["ok"] for f in result.json["files"]] == [True, False, True]
    paths[2].unlink()
    assert cli("verify", paths[0]).code == 1


def test_swapped_names(cli, tmp_path: Path):
    """llama.cpp: invalid split file idx."""
    paths = three(tmp_path)
    hold = tmp_path / "hold"
    paths[1].rename(hold)
    paths[2].rename(paths[1])
    hold.rename(paths[2])
    code, found, kinds = look(cli, paths[0])
    assert (code, kinds) == (1, ["shards-permuted"])
    assert found["paths"] == [str(paths[0]), str(paths[2]), str(paths[1])]
    assert "m-00002-of-00003.gguf holds shard 3" in found["problems"][0]["message"]


@pytest.mark.parametrize(
    "names",
    [
        ["part1.gguf", "part2.gguf", "part3.gguf"],
        ["m-0001-of-0003.gguf", "m-0002-of-0003.gguf", "m-0003-of-0003.gguf"],
        ["m.gguf-00001-of-00003", "m.gguf-00002-of-00003", "m.gguf-00003-of-00003"],
        ["sha256-" + c * 64 for c in "abc"],
        [c * 64 for c in "f0e"],
        ["model-1.gguf", "zz.gguf", "A.GGUF"],
    ],
)
@pytest.mark.parametrize("entry", [0, 2])
def test_renamed_shards_are_found_by_content(cli, tmp_path: Path, names: list[str], entry: int):
    """Cases 59, 60, 63."""
    renamed = [p.rename(tmp_path / name) for p, name in zip(three(tmp_path), names, strict=True)]
    code, found, kinds = look(cli, renamed[entry])
    assert (code, kinds) == (1, ["shard-names"])
    assert found["paths"] == [str(p) for p in renamed]
    assert "--repair-names" in found["problems"][0]["hint"]


def test_shards_in_different_folders(cli, tmp_path: Path):
    paths = three(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    moved = paths[1].rename(other / paths[1].name)
    result = cli("verify", paths[0], moved, paths[2], "--format", "json")
    assert result.json["set"]["present"] == 3
    assert [p["kind"] for p in result.json["set"]["problems"]] == ["shard-names"]
    assert len(result.json["files"]) == 3


def test_duplicate_shard(cli, tmp_path: Path):
    paths = three(tmp_path)
    shutil.copy(paths[1], tmp_path / "copy of shard 2.gguf")
    result = cli("verify", paths[0], "--format", "json")
    assert result.code == 0
    assert [n["kind"] for n in result.json["set"]["notes"]] == ["duplicate-shard"]
    paths[1].rename(tmp_path / "another copy.gguf")
    code, _, kinds = look(cli, paths[0])
    assert code == 1
    assert "duplicate-shard" in kinds


def test_two_sets_of_one_size_in_a_folder(cli, tmp_path: Path):
    a, b = three(tmp_path, prefix="a"), three(tmp_path, "q8_0", 7, prefix="b")
    for first in (a[0], b[1]):
        code, found, kinds = look(cli, first)
        assert (code, kinds) == (0, [])
        assert all(Path(p).name.startswith(first.name[0]) for p in found["paths"])
    b[1].unlink()
    assert look(cli, b[0])[2] == ["shard-missing"]


def test_old_key_names(cli, tmp_path: Path):
    """The first gguf-split (March 2024) wrote general.split; llama.cpp reads these keys no more."""
    shards = pieces(typed("q4_0"), [20, 38])
    for no, shard in enumerate(shards):
        shard.drop("split.no", "split.count", "split.tensors.count")
        shard.kv("general.split", no, "u16").kv("general.split_count", 3, "u16")
    paths = write(shards, tmp_path)
    code, found, kinds = look(cli, paths[1])
    assert (code, found["present"], kinds) == (1, 3, ["old-split-keys"])


def test_first_shard_without_tensors(cli, tmp_path: Path):
    paths = write(pieces(typed("q4_0"), [0, 30]), tmp_path)
    code, found, kinds = look(cli, paths[0])
    assert (code, kinds) == (0, [])
    assert [n["kind"] for n in found["notes"]] == ["no-tensors-first"]


def test_split_keys_left_by_the_official_merge_are_harmless(cli, tmp_path: Path):
    model = llama().kv("split.no", 0, "u16").kv("split.tensors.count", 11, "i32").kv("split.count", 0, "u16")
    result = cli("verify", model.write(tmp_path / "m.gguf"), "--format", "json")
    assert (result.code, result.json["set"]) == (0, None)
    assert [n["kind"] for n in result.json["files"][0]["notes"]] == ["split-keys-left"]


def test_split_keys_left_with_a_count_stop_llama_cpp(cli, tmp_path: Path):
    model = llama().shard(0, 3, 11)
    code, found, kinds = look(cli, model.write(tmp_path / "m.gguf"))
    assert (code, kinds) == (1, ["split-keys-left"])
    assert "--delete split.count" in found["problems"][0]["hint"]


def test_more_than_64_shards(cli, tmp_path: Path):
    model = llama(layers=8)
    paths = write(pieces(model, list(range(1, 65))), tmp_path)
    assert len(paths) == 65
    code, found, kinds = look(cli, paths[40])
    assert (code, found["present"], kinds) == (0, 65, [])
    assert "many-shards" in [n["kind"] for n in found["notes"]]


def test_joined_with_cat(cli, tmp_path: Path):
    """Case 54, with the cut offsets."""
    paths = three(tmp_path)
    data = [p.read_bytes() for p in paths]
    whole = tmp_path / "sub"
    whole.mkdir()
    path = whole / "cat.gguf"
    path.write_bytes(b"".join(data))
    result = cli("verify", path, "--format", "json")
    assert result.code == 1
    [joined] = [p for p in result.json["files"][0]["problems"] if p["kind"] == "joined-files"]
    first, second = len(data[0]), len(data[0]) + len(data[1])
    assert joined["span"] == [first, sum(map(len, data))]
    assert f"{first:,}, {second:,}" in joined["message"]
    assert result.json["set"] is None
    assert cli("merge", path, "-o", tmp_path / "whole.gguf").code == 0
    assert (tmp_path / "whole.gguf").read_bytes() == typed("q4_0").bytes()
    path.write_bytes(data[0] + data[2])
    missing = cli("merge", path, "-o", tmp_path / "x.gguf")
    assert missing.code == 3
    assert "shard 2 of 3 is not among those joined" in missing.err


class TestForeign:
    """Mixtures that llama.cpp loads without a word."""

    def test_shard_of_another_quantisation(self, cli, tmp_path: Path):
        paths = three(tmp_path)
        (tmp_path / "x").mkdir()
        other = three(tmp_path / "x", "q8_0", 7)
        shutil.copy(other[1], paths[1])
        code, found, kinds = look(cli, paths[0])
        assert (code, kinds) == (1, ["foreign-shard"])
        assert found["problems"][0]["where"] == "shard:2"
        assert "it is Q8_0, the others are Q4_0" in found["problems"][0]["message"]

    def test_the_label_of_the_first_decides_between_two(self, cli, tmp_path: Path):
        (tmp_path / "x").mkdir()
        paths = write(pieces(typed("q4_0"), [29]), tmp_path)
        other = write(pieces(typed("q8_0", file_type=7), [29]), tmp_path / "x")
        shutil.copy(other[1], paths[1])
        code, found, _ = look(cli, paths[0])
        assert code == 1
        assert [p["where"] for p in found["problems"]] == ["shard:2"]
        assert "labelled Q4_0" in found["problems"][0]["message"]

    def test_shard_of_another_model(self, cli, tmp_path: Path):
        paths = three(tmp_path)
        wide = pieces(typed("q4_0"), [20, 38])[1]
        for t in wide._tensors:
            t["shape"] = tuple(2 * d for d in t["shape"])
        wide.write(paths[1])
        code, found, kinds = look(cli, paths[0])
        assert code == 1
        assert kinds == ["foreign-shard"]
        assert "another model" in found["problems"][0]["message"]

    def test_layers_of_one_model_may_all_differ_in_shape(self, cli, tmp_path: Path):
        """As in deci (Nemotron) and OpenELM: other head counts and feed-forward sizes in every layer."""
        model = typed("q4_0")
        for t in model._tensors:
            if t["name"].startswith("blk.") and len(t["shape"]) == 2:
                extra = 32 * (1 + int(t["name"].split(".")[1]))
                t["shape"] = tuple(d if d == 64 else d + extra for d in t["shape"])
        paths = write(pieces(model, [20, 38]), tmp_path)
        assert look(cli, paths[0])[2] == []

    def test_shard_cut_elsewhere(self, cli, tmp_path: Path):
        paths = three(tmp_path)
        (tmp_path / "x").mkdir()
        other = write(pieces(typed("q4_0"), [20, 40]), tmp_path / "x")
        shutil.copy(other[1], paths[1])
        _, _, kinds = look(cli, paths[0])
        assert kinds == ["duplicate-tensor", "tensor-count"]

    def test_shard_of_a_set_with_another_count(self, cli, tmp_path: Path):
        paths = three(tmp_path)
        (tmp_path / "x").mkdir()
        other = write(pieces(typed("q4_0"), [20, 38, 40]), tmp_path / "x")
        shutil.copy(other[1], paths[1])
        code, found, kinds = look(cli, paths[0])
        assert code == 1
        assert kinds == ["foreign-shard", "shard-missing"]
        assert "it says shard 2 of 4" in found["problems"][0]["message"]

    def test_usual_mixture_of_one_quantisation_is_not_foreign(self, cli, tmp_path: Path):
        """Q4_K_M gives attn_v and ffn_down of some layers more bits: the first and last eighth, then every third."""
        model = typed("q4_k", layers=16, file_type=15)
        for t in model._tensors:
            if len(t["shape"]) == 2:
                t["shape"] = (256, 4)
            layer = int(t["name"].split(".")[1]) if t["name"].startswith("blk.") else -1
            more = layer < 2 or layer >= 14 or (layer - 2) % 3 == 2
            if more and ("attn_v" in t["name"] or "ffn_down" in t["name"]):
                t["type"] = "q6_k"
        paths = write(pieces(model, [20, 60, 128]), tmp_path)
        code, found, kinds = look(cli, paths[0])
        assert (code, kinds, found["notes"]) == (0, [], [])


def test_other_whole_models_in_the_folder_do_not_matter(cli, tmp_path: Path):
    paths = three(tmp_path)
    paths[1].rename(tmp_path / "part2.gguf")
    for i in range(5):
        llama().write(tmp_path / f"other{i}.gguf")
    (tmp_path / "junk.gguf").write_bytes(b"GGUF\3\0\0\0" + b"\xff" * 40)
    _, found, kinds = look(cli, paths[0])
    assert found["present"] == 3
    assert kinds == ["shard-names"]


def test_number_beyond_the_count(cli, tmp_path: Path):
    path = GGUF().shard(7, 3, 5).tensor("a", (32,)).write(tmp_path / "m.gguf")
    code, _, kinds = look(cli, path)
    assert code == 1
    assert "shard-number" in kinds
