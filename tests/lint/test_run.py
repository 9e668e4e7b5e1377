"""Selecting, failing, configuring, baselines, wishes, fixes: how a run of lint behaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import gguftool
from gguftool.errors import UsageError
from gguftool.lint.policy import read_policy
from gguftool.lint.rule import Severity
from gguftool.lint.run import selected
from gguftool.model import open_model
from tests.build import GGUF, llama
from tests.lint.samples import ready
from tests.lint.samples_shards import named, shards


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration of the project itself, and no swallowed errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GGUFTOOL_DEBUG", "1")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Without the two records: two warnings."""
    return llama().write(tmp_path / "m.gguf")


def rules_of(result) -> list[str]:  # type: ignore[no-untyped-def]
    return [f["rule"] for file in result.json["files"] for f in file["findings"]]


# -- selecting


def test_select_and_ignore(cli, model: Path) -> None:  # type: ignore[no-untyped-def]
    both = ["kv-cache-type-missing", "rope-freq-scale-missing"]
    assert rules_of(cli("lint", model, "--format", "json")) == both
    assert rules_of(cli("lint", model, "--format", "json", "--select", both[0])) == both[:1]
    assert rules_of(cli("lint", model, "--format", "json", "--select", "layout,rope")) == []
    assert rules_of(cli("lint", model, "--format", "json", "--ignore", both[0])) == both[1:]
    assert rules_of(cli("lint", model, "--format", "json", "--ignore", "deploy")) == []
    # a rule named itself outweighs its family
    ids = [r.id for r in selected([both[0]], ["deploy"])]
    assert ids == both[:1]


def test_unknown_names(cli, model: Path) -> None:  # type: ignore[no-untyped-def]
    result = cli("lint", model, "--select", "kv-cache-typ-missing")
    assert result.code == 2
    assert "kv-cache-type-missing" in result.err
    assert cli("lint", model, "--ignore", "nonsense-of-all-kinds").code == 2


def test_exit_codes(cli, model: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert cli("lint", model).code == 1
    assert cli("lint", model, "--fail-on", "error").code == 0
    assert cli("lint", model, "--fail-on", "never").code == 0
    assert cli("lint", model, "--exit-zero").code == 0
    info = ready().kv("x.n", [], "[str]").write(tmp_path / "info.gguf")
    assert cli("lint", info).code == 0
    assert cli("lint", info, "--fail-on", "info").code == 1
    assert cli("lint", tmp_path / "none.gguf").code == 2
    assert cli("lint", model, tmp_path / "none.gguf", "--exit-zero").code == 0


def test_one_bad_file_does_not_hide_the_others(cli, model: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    html = tmp_path / "page.gguf"
    html.write_bytes(b"<!DOCTYPE html><html></html>")
    result = cli("lint", html, model, "--format", "json")
    assert result.code == 3
    assert [file["path"] for file in result.json["files"]] == [str(html), str(model)]
    assert [e["code"] for e in result.json["errors"]] == ["not-gguf"]
    assert result.json["files"][1]["counts"]["warning"] == 2


def test_shards_are_one_model(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A hook passes every file of a set; the set is checked once."""
    paths = [g.write(tmp_path / name) for name, g in named(shards()).items()]
    result = cli("lint", *paths, "--format", "json", "--select", "shards")
    assert [file["path"] for file in result.json["files"]] == [str(paths[0])]
    later = cli("lint", paths[1], "--format", "json", "--select", "metadata")
    # asked for the second shard, the metadata of the first is judged
    assert "architecture-missing" not in rules_of(later)
    assert later.json["files"][0]["path"] == str(paths[1])


def test_a_flood_of_double_tensors_is_counted(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A shard of another set doubles hundreds of tensors; the finding that matters must stay in sight."""
    g = ready()
    for i in range(30):
        g.tensor(f"x.{i}", (32,)).tensor(f"x.{i}", (32,))
    path = g.write(tmp_path / "m.gguf")
    (file,) = cli("lint", path, "--format", "json", "--select", "tensor-duplicate").json["files"]
    assert len(file["findings"]) == 9
    assert "stands twice" in file["findings"][0]["message"]
    assert file["findings"][-1]["message"] == "and 22 more tensors that stand twice"


def test_lonely_later_shard_is_not_blamed_for_metadata(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = shards()[1].write(tmp_path / "m-00002-of-00003.gguf")
    result = cli("lint", path, "--format", "json")
    assert rules_of(result) == ["shard-missing"]
    skipped = {n["rule"]: n["why"] for n in result.json["files"][0]["not_evaluated"]}
    assert "shard 1" in skipped["architecture-missing"]


def test_rules_that_cannot_look_are_not_passed(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = ready().truncate(700).write(tmp_path / "m.gguf")
    result = cli("lint", path, "--format", "json")
    assert result.code == 3
    assert rules_of(result) == ["header-breaks-off"]
    skipped = {n["rule"] for n in result.json["files"][0]["not_evaluated"]}
    assert {"data-truncated", "kv-cache-type-missing", "tokens-missing"} <= skipped
    assert "rules: the header breaks off" in cli("lint", path).out


def test_unknown_architecture_is_one_finding(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = llama(arch="minimax-m9").write(tmp_path / "m.gguf")
    result = cli("lint", path, "--format", "json")
    assert rules_of(result) == ["architecture-unknown"]
    assert any("does not know the architecture" in n["why"] for n in result.json["files"][0]["not_evaluated"])


# -- policy


def test_policy_sizes(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    for text, size in (('"80GB"', 80 * 10**9), ('"1.5GiB"', 3 << 29), ("1000", 1000), ('"2G"', 2 << 30)):
        path.write_text(f"max_size = {text}\n")
        assert read_policy(path).max_size == size


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("architecturs = ['a']\n", "did you mean architectures?"),
        ("architectures = 5\n", "must be a list of strings"),
        ("max_size = 'big'\n", "max_size must be"),
        ("min_context = -1\n", "whole number"),
        ("values = 3\n", "must be a table"),
        ("= 3\n", "is no TOML"),
    ],
)
def test_bad_policy(text: str, said: str, cli, model: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "p.toml"
    path.write_text(text)
    result = cli("lint", model, "--policy", path)
    assert result.code == 2
    assert said in result.err


# -- what the deployment wants


def test_wishes(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    wide = ready().kv("llama.attention.key_length", 64).kv("llama.attention.value_length", 64)
    path = (
        wide.replace("llama.kv_cache_type", "q8_0").replace("llama.rope.dimension_count", 64).write(tmp_path / "m.gguf")
    )
    select = ("--select", "deploy", "--format", "json")
    assert cli("lint", path, *select, "--context-length", 2048, "--cache-type", "q8_0").code == 0
    more = cli("lint", path, *select, "--context-length", 2049, "--cache-type", "q4_0")
    assert rules_of(more) == ["context-length-too-small", "kv-cache-type-differs"]
    assert cli("lint", path, "--cache-type", "q9_9").code == 2
    assert cli("lint", path, "--context-length", 0).code == 2


# -- fixes


def test_fix_applies_safe_fixes_only(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = llama().replace("llama.block_count", 2).write(tmp_path / "m.gguf")
    before = path.read_bytes()
    shown = cli("lint", path, "--fix", "--diff")
    assert path.read_bytes() == before
    assert "llama.kv_cache_type" in shown.out
    assert "f16" in shown.out
    result = cli("lint", path, "--fix", "--format", "json")
    assert result.code == 1
    assert rules_of(result)[:1] == ["block-count-tensors"]
    assert "kv-cache-type-missing" not in rules_of(result)
    with open_model(path) as m:
        assert m["llama.kv_cache_type"] == "f16"
        assert m["llama.rope.freq_scale"] == 1.0
        assert m["llama.block_count"] == 2
        assert m.read("blk.0.attn_q.weight") == llama().data_of(llama()._tensors[3])
    assert cli("lint", path, "--fix-unsafe").code == 0
    with open_model(path) as m:
        assert m["llama.block_count"] == 1
    # twice taken back, byte for byte
    assert cli("undo", path).code == 0
    assert cli("undo", path).code == 0
    assert path.read_bytes() == before


def test_fixes_follow_from_fixes(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Renaming a misplaced record uncovers that it contradicts llama.cpp's own keys."""
    g = llama(arch="qwen2").kv("llama.rope.freq_scale", 0.5).kv("llama.kv_cache_type", "Q8_0")
    g.replace("qwen2.attention.head_count", 2).replace("qwen2.attention.head_count_kv", 1)
    path = g.replace("qwen2.rope.dimension_count", 32).write(tmp_path / "m.gguf")
    cli("lint", path, "--fix")
    with open_model(path) as m:
        assert m["qwen2.rope.freq_scale"] == 1.0
        assert m["qwen2.kv_cache_type"] == "q8_0"
        assert not [k for k in m.fields if k.startswith("llama.")]


def test_fix_of_what_cannot_be_fixed(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    broken = ready().truncate(700).write(tmp_path / "m.gguf")
    before = broken.read_bytes()
    result = cli("lint", broken, tmp_path / "none.gguf", "--fix")
    assert result.code == 3
    assert broken.read_bytes() == before
    assert "cannot be fixed" in result.err
    clean = ready().write(tmp_path / "clean.gguf")
    assert "nothing to fix" in cli("lint", clean, "--fix").err


def test_fix_that_is_refused(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A model in a content-addressed store is not touched; the other one is fixed, and both are reported."""
    store = tmp_path / "models--a--b"
    (store / "blobs").mkdir(parents=True)
    snapshot = store / "snapshots" / "c"
    snapshot.mkdir(parents=True)
    blob = llama().write(store / "blobs" / ("0" * 64))
    (snapshot / "m.gguf").symlink_to(blob)
    before = blob.read_bytes()
    mine = llama().write(tmp_path / "mine.gguf")
    result = cli("lint", snapshot / "m.gguf", mine, "--fix", "--format", "json")
    assert result.code == 4
    found = json.loads(result.out)
    assert [(Path(f["path"]).name, f["done"]) for f in found["fixed"]] == [("m.gguf", False), ("mine.gguf", True)]
    assert found["fixed"][1]["changes"] == ["set llama.kv_cache_type to f16", "set llama.rope.freq_scale to 1"]
    assert [e["code"] for e in found["errors"]] == ["refused"]
    assert [len(f["findings"]) > 1 for f in found["files"]] == [True, False]
    assert blob.read_bytes() == before


def every_safe_fix() -> Iterator[GGUF]:
    yield ready().kv("llama.block_count", 1)
    yield ready().replace("llama.context_length", 2048, "i32")
    yield ready().replace("llama.rope.freq_base", 10000.0, "f64")
    yield ready().kv("llama.rope.scaling.type", "YARN").kv("llama.rope.scaling.factor", 1.0)
    yield ready().kv("split.count", 1, "u32")
    heads = ready().kv("llama.attention.key_length", 16).kv("llama.attention.value_length", 16)
    yield heads.replace("llama.rope.dimension_count", 8)


@pytest.mark.parametrize("g", list(every_safe_fix()))
def test_safe_fixes_make_the_file_load(g: GGUF, cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = g.write(tmp_path / "m.gguf")
    assert cli("lint", path, "--format", "json").json["files"][0]["load"]["verdict"] in ("refused", "aborts")
    result = cli("lint", path, "--fix", "--format", "json")
    assert result.code == 0, rules_of(result)
    assert result.json["files"][0]["load"]["verdict"] in ("loads", "warns")


# -- as a library


def test_library(tmp_path: Path, model: Path) -> None:
    report = gguftool.lint(model)
    assert [f.rule for f in report] == ["kv-cache-type-missing", "rope-freq-scale-missing"]
    assert report.count(Severity.WARNING) == report.at_least(Severity.INFO) == len(report) == 2
    assert gguftool.lint(model, context_length=4096, cache_type="bf16", select=["context-length-too-small"])
    with open_model(model) as m:
        assert len(gguftool.lint(m, ignore=["deploy"])) == 0
    with pytest.raises(UsageError):
        gguftool.lint(model, select=["nonsense"])
    assert {r.family for r in gguftool.rules()} >= {"layout", "deploy"}


# -- LM Studio's folders


def test_layout_of_a_models_folder(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    root = tmp_path / "models"
    (root / "me" / "repo").mkdir(parents=True)
    ready().write(root / "lost.gguf")
    ready().write(root / "me" / "repo" / "found.gguf")
    (root / "me" / "repo" / "broken.gguf").symlink_to(tmp_path / "gone.gguf")
    result = cli("lint", "--layout", "lmstudio", root, "--format", "json")
    files = {Path(file["path"]).name: file for file in result.json["files"]}
    assert [f["rule"] for f in files["lost.gguf"]["findings"]] == ["lmstudio-place"]
    assert files["found.gguf"]["findings"] == []
    # a broken link is not readable
    assert [e["code"] for e in result.json["errors"]] == ["missing-file"]
    assert cli("lint", "--layout", "lmstudio", root / "lost.gguf").code == 2
    assert cli("lint", "--layout", "lmstudio", root, root).code == 2
