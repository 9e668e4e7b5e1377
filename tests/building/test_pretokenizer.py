"""Before the converter runs: whether it will know how a tokenizer cuts texts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import gguftool
from gguftool.api.pretokenizer import unrecognised
from gguftool.build import converter
from gguftool.build.folder.look import look
from gguftool.facts.converters import fingerprints
from tests.building import hf
from tests.chat.test_server import corpus as vocabularies
from tests.hf_tokenizers import FAMILIES, write

pytestmark = pytest.mark.oracle


@pytest.fixture
def tool(converter_cache: Path, monkeypatch: pytest.MonkeyPatch) -> converter.Converter:
    monkeypatch.setenv("XDG_CACHE_HOME", str(converter_cache))
    monkeypatch.delenv("LLAMA_CPP_DIR", raising=False)
    return converter.require()


def folder(path: Path, vocabulary: str, cuts: str) -> Path:
    with gguftool.open(vocabularies() / f"ggml-vocab-{vocabulary}.gguf") as m:
        path.mkdir()
        write(m, path, *FAMILIES[cuts])
    (path / "config.json").write_text(json.dumps({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}))
    return path


@pytest.mark.parametrize("name", ["qwen2", "starcoder", "gpt-2"])
def test_what_the_converter_knows_is_silent(name: str, tmp_path: Path, tool: converter.Converter) -> None:
    found = look(str(folder(tmp_path / "m", name, name)))
    assert unrecognised(found, tool, None) is None


def test_what_it_does_not_know_is_told(tmp_path: Path, tool: converter.Converter, cli) -> None:
    source = folder(tmp_path / "m", "gpt-2", "qwen2")
    found = look(str(source))
    said = unrecognised(found, tool, None)
    assert said is not None
    assert (said.kind, said.fatal) == ("pre-tokenizer", False)
    assert "--pre NAME" in str(said.hint)
    assert unrecognised(found, tool, "qwen2") is None
    whole = hf.folder(tmp_path / "whole", "qwen2")
    said_of_all = cli("convert", whole, "--dry-run")
    assert (said_of_all.code, "does not know how tokenizer.json cuts texts" in said_of_all.out) == (0, True)
    assert "nothing speaks against" in cli("convert", whole, "--dry-run", "--pre", "qwen2").out
    # The converter's own function is of the same mind.
    ask = (
        "import sys; from transformers import AutoTokenizer; from conversion.base import TextModel\n"
        "TextModel.get_vocab_base_pre(None, AutoTokenizer.from_pretrained(sys.argv[1]))"
    )
    done = subprocess.run([tool.python, "-c", ask, source], capture_output=True, text=True, timeout=300, check=False)
    assert "BPE pre-tokenizer was not recognized" in done.stderr


def test_the_text_and_the_hashes_are_those_of_its_source(tool: converter.Converter) -> None:
    found = fingerprints(tool.root)
    assert found is not None
    text, hashes = found
    assert text.startswith("\n \n\n \n\n\n \t")
    assert text.endswith("We'Ve a'lL")
    assert len(hashes) > 90
