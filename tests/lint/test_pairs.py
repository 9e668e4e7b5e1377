"""``lint MODEL --with FILE``, and folders with a model and its projector."""

from __future__ import annotations

from pathlib import Path

import pytest

import gguftool
from gguftool.errors import UsageError
from tests.beside import control_vector, imatrix, measured
from tests.build import GGUF, llama
from tests.lint.samples import ready


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(ready(layers=3).bytes())
    return path


def put(folder: Path, name: str, g: GGUF) -> Path:
    path = folder / name
    path.write_bytes(g.bytes())
    return path


def found(done, of: str) -> list[tuple[str, str]]:  # type: ignore[no-untyped-def]
    [row] = [f for f in done.json["files"] if Path(f["path"]).name == of]
    return [(f["rule"], f["severity"]) for f in row["findings"] if f["family"] == "pair"]


def test_what_fits(cli, model, tmp_path):
    sides = [put(tmp_path, "c.gguf", control_vector()), put(tmp_path, "i.gguf", imatrix(measured()))]
    done = cli("lint", model, *(w for s in sides for w in ("--with", s)), "--no-config", "--format", "json")
    assert [Path(f["path"]).name for f in done.json["files"]] == ["model.gguf", "c.gguf", "i.gguf"]
    assert found(done, "model.gguf") == []
    assert done.code == 0


def test_what_does_not_fit(cli, model, tmp_path):
    side = put(tmp_path, "c.gguf", control_vector(width=96))
    done = cli("lint", model, "--with", side, "--format", "json")
    assert found(done, "model.gguf") == [("pair-width", "error")]
    finding = next(f for f in done.json["files"][0]["findings"] if f["family"] == "pair")
    assert finding["path"] == str(side)
    assert finding["data"]["llama_cpp"] == "apply: control vector n_embd does not match model"
    assert done.code == 1


def test_the_rules_of_pairs_can_be_selected_and_left_out(cli, model, tmp_path):
    side = put(tmp_path, "c.gguf", control_vector(width=96))
    assert cli("lint", model, "--with", side, "--ignore", "pair").code == 0
    assert found(cli("lint", model, "--with", side, "--select", "pair", "--format", "json"), "model.gguf")


def test_a_side_file_alone_is_checked_too(cli, model, tmp_path):
    broken = put(tmp_path, "d.gguf", llama().drop_tensor("blk.0.attn_norm.weight"))
    done = cli("lint", model, "--with", broken, "--format", "json")
    assert found(done, "model.gguf") == [("pair-load", "error")]
    assert any(f["rule"] == "tensor-missing" for f in done.json["files"][1]["findings"])


def test_with_a_file_that_is_not_there(cli, model, tmp_path):
    done = cli("lint", model, "--with", tmp_path / "no.gguf", "--format", "json")
    assert done.code == 2
    assert found(done, "model.gguf") == []


def test_with_and_no_model(cli, model, tmp_path):
    side = put(tmp_path, "c.gguf", control_vector())
    done = cli("lint", side, "--with", model)
    assert done.code == 2
    assert "name the model first" in done.err


def test_the_library(model, tmp_path):
    side = put(tmp_path, "c.gguf", control_vector(width=96))
    report = gguftool.lint(model, beside=[side])
    assert [f.rule for f in report if f.family == "pair"] == ["pair-width"]


def test_misfits_of_the_library(model, tmp_path):
    side = put(tmp_path, "c.gguf", control_vector(width=96))
    (one,) = gguftool.misfits(model, side)
    assert (one.rule, one.outcome, one.stops) == ("pair-width", "ignored", True)
    assert gguftool.misfits(model, side, given_as="adapter")[0].rule == "pair-role"
    with pytest.raises(UsageError):
        gguftool.misfits(model, side, given_as="lora")
