"""``lint MODEL --with FILE``, and folders with a model and its projector."""

from __future__ import annotations

from pathlib import Path

import pytest

import gguftool
from gguftool.errors import UsageError
from tests.beside import control_vector, imatrix, measured, projector, sighted
from tests.build import GGUF, llama
from tests.hub.server import Site, serve
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "with eyes"
    path.mkdir()
    put(path, "model.gguf", sighted().kv("llama.rope.freq_scale", 1.0).kv("llama.kv_cache_type", "f16"))
    put(path, "mmproj-a.gguf", projector())
    return path


def test_a_folder_of_a_model_and_its_projector(cli, folder, monkeypatch):
    monkeypatch.setattr("gguftool.programs.find", lambda *args, **kwargs: None)
    sizes = ("--ctx", "512", "--ram", "4GiB", "--vram", "none")
    command = f"gguftool launch '{folder}/model.gguf' --mmproj '{folder}/mmproj-a.gguf'"
    for words in (["lint", "--no-config"], ["plan", *sizes], ["launch", "--print", *sizes], ["dump"]):
        done = cli(words[0], folder, *words[1:])
        assert done.code == 0, done.out + done.err
        assert f"without --mmproj it takes text alone: {command}" in done.err, words
    done = cli("launch", f"{folder}/model.gguf", "--mmproj", f"{folder}/mmproj-a.gguf", "--print")
    assert done.code == 0, done.err
    assert "text alone" not in done.err
    assert "text alone" not in cli("launch", folder, "--print", "--", "-mm", folder / "mmproj-a.gguf").err


def test_a_folder_says_which_projector_fits(cli, folder):
    put(folder, "mmproj-b.gguf", projector(width=96))
    done = cli("lint", folder, "--no-config", "--format", "json")
    assert found(done, "model.gguf") == [("pair-width", "error")]
    assert "mmproj-a.gguf lies beside it; without" in done.err
    assert "mmproj-b.gguf lies beside it, but hardly for it: it is of another model" in done.err


def test_a_projector_of_another_model_in_the_same_folder_is_none_of_ours(cli, folder):
    put(folder, "mmproj-b.gguf", projector(width=96))
    put(folder, "other.gguf", llama())
    done = cli("lint", folder / "model.gguf", folder, "--no-config", "--format", "json")
    assert found(done, "model.gguf") == []
    assert "mmproj-b" not in done.err


def test_an_address(cli, folder, tmp_path):
    files = {"/m.gguf": (folder / "model.gguf").read_bytes(), "/p.gguf": projector(width=96).bytes()}
    with serve(Site(files)) as site:
        done = cli("lint", f"{site.url}/m.gguf", "--with", f"{site.url}/p.gguf", "--no-config", "--format", "json")
    assert [f["rule"] for row in done.json["files"] for f in row["findings"] if f["family"] == "pair"] == ["pair-width"]


def test_a_scan_holds_a_projector_against_the_one_model_beside_it(cli, folder):
    assert cli("scan", folder, "--fail-on", "warning").code == 0
    put(folder, "mmproj-b.gguf", projector(width=96))
    done = cli("scan", folder, "--fail-on", "error", "--format", "json")
    rows = {Path(m["path"]).name: m["lint"]["error"] for m in done.json["models"]}
    assert (done.code, rows["model.gguf"]) == (1, 1)
