"""Files beside a model where one is made: what is not quantised, whose importance matrix, what must fit the result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.beside import control_vector, imatrix, lora, measured
from tests.lint.samples import ready

SIDES = {"vector.gguf": control_vector(), "lora.gguf": lora(), "imatrix.gguf": imatrix(measured())}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ready(layers=3).write(tmp_path / "model.gguf")
    for name, g in SIDES.items():
        g.write(tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("name", SIDES)
@pytest.mark.parametrize("how", [["Q8_0", "--dry-run"], ["out.gguf", "Q8_0"], ["--list"], ["--fits", "1GiB"]])
def test_what_stands_beside_a_model_is_not_quantised(cli, here: Path, name: str, how: list[str]) -> None:
    done = cli("quantize", "--engine", "builtin", name, *how)
    assert done.code == 2
    assert "not a model to be quantised" in done.err
    assert not (here / "out.gguf").exists()


@pytest.mark.parametrize("name", ["vector.gguf", "lora.gguf", "model.gguf"])
def test_what_is_no_importance_matrix_is_named(cli, here: Path, name: str) -> None:
    done = cli("quantize", "--engine", "builtin", "model.gguf", "Q8_0", "--dry-run", "--imatrix", name)
    assert done.code == 3
    what = {"vector.gguf": "a control vector", "lora.gguf": "a LoRA adapter", "model.gguf": "a language model"}[name]
    assert f"it is no importance matrix: it is {what}" in done.err


def test_a_fitting_importance_matrix(cli, here: Path) -> None:
    done = cli("quantize", "--engine", "builtin", "model.gguf", "Q8_0", "--dry-run", "--imatrix", "imatrix.gguf")
    assert done.code == 0, done.err


def test_prepare_holds_what_is_to_be_used_against_the_result(cli, here: Path) -> None:
    lora(("blk.0.attn_q.weight", 96, 96)).write(here / "wide.gguf")
    words = ("prepare", "model.gguf", "-o", "out.gguf", "--ctx", "512", "--cache-type", "f16")
    refused = cli(*words, "--with", "lora.gguf", "--with", "wide.gguf")
    assert refused.code == 4
    assert "--with wide.gguf: its pair for blk.0.attn_q.weight" in refused.err
    assert not (here / "out.gguf").exists()
    done = cli(*words, "--with", "lora.gguf")
    assert done.code == 0, done.out + done.err
    assert (here / "out.gguf").exists()
