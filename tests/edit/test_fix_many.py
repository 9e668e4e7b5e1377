"""`gguftool fix` of several models at once, and `undo --preserve-mtime`."""

from __future__ import annotations

import os
from pathlib import Path

import gguftool
from tests.build import GGUF


def _several(tmp_path: Path, *names: str) -> list[Path]:
    made = [tmp_path / f"{name}.gguf" for name in names]
    for path in made:
        path.write_bytes(GGUF("llama").kv("general.name", "old").tensor("output_norm.weight", (32,), "f32").bytes())
    return made


def test_several_models_each_with_its_own_result(cli, tmp_path: Path):
    a, b, c = _several(tmp_path, "a", "b", "c")
    b.write_bytes(b"no model at all, " * 10)
    done = cli("fix", a, b, c, "--set", "general.name=new")
    assert done.code == 3
    assert f"{b}: not edited:" in done.err
    assert done.out.count("done: 1 change") == 2
    for path in (a, c):
        with gguftool.open(path) as m:
            assert m["general.name"] == "new"
    assert cli("undo", a).code == 0
    body = cli("fix", a, b, c, "--set", "general.name=newer", "--format", "json").json
    assert [(f["path"], f["done"]) for f in body["files"]] == [(str(a), True), (str(c), True)]
    assert [e["code"] for e in body["errors"]] == ["not-gguf"]
    assert body["ok"] is False


def test_the_worst_exit_code_of_several(cli, tmp_path: Path):
    a, b = _several(tmp_path, "a", "b")
    done = cli("fix", a, b, tmp_path / "none.gguf", "--set", "general.name=new", "--dry-run")
    assert done.code == 2
    (tmp_path / "c.gguf").write_bytes(b"x" * 99)
    assert cli("fix", a, tmp_path / "none.gguf", tmp_path / "c.gguf", "--set", "general.name=new").code == 3


def test_an_output_takes_one_model(cli, tmp_path: Path):
    a, b = _several(tmp_path, "a", "b")
    done = cli("fix", a, b, "--set", "general.name=new", "--output", tmp_path / "o.gguf")
    assert (done.code, (tmp_path / "o.gguf").exists()) == (2, False)


def test_the_shards_of_a_set_are_one_model(cli, tmp_path: Path):
    (a,) = _several(tmp_path, "a")
    a.write_bytes(
        GGUF("llama")
        .kv("general.name", "old")
        .tensor("x.weight", (32,), "f32")
        .tensor("y.weight", (32,), "f32")
        .bytes()
    )
    assert cli("split", a, "--max-tensors", "1").code == 0
    done = cli("fix", *sorted(tmp_path.glob("a-*.gguf")), "--rename", "general.name=general.title")
    assert done.code == 0, done.err
    assert done.out.count("done:") == 1


def test_undo_can_leave_the_time_as_it_is(cli, tmp_path: Path):
    (a,) = _several(tmp_path, "a")
    os.utime(a, (1e9, 1e9))
    assert cli("fix", a, "--set", "general.name=new", "--preserve-mtime").code == 0
    assert a.stat().st_mtime == 1e9
    assert cli("undo", a, "--preserve-mtime").code == 0
    assert a.stat().st_mtime == 1e9
