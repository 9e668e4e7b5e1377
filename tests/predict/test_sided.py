"""Files beside a model under other builds: names by the timeline, the rest by the newest build, and it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.facts import NUMBER
from gguftool.model import Model, from_source
from gguftool.predict import predict
from gguftool.predict.needs import needs, sentence
from gguftool.predict.pairs import misfits
from gguftool.source import Memory
from tests.build import GGUF
from tests.json_schemas import check_schema
from tests.predict.sides import lora
from tests.projectors import SOUND


def _opened(made: GGUF) -> Model:
    return from_source(Memory(made.bytes()), strict=False)


def _eyes(kind: str = "qwen2.5o") -> Model:
    return _opened(SOUND[kind]().gguf())


def test_a_projector_type_that_came_later():
    """qwen2.5o came with b5508 (`clip-impl.h:PROJECTOR_TYPE_QWEN25O`); b5590's words for an unknown one are today's."""
    found = predict(_eyes(), 5507)
    assert found.verdict == "refused"
    assert found.build is None
    assert found.messages[0].endswith("load_hparams: unknown projector type: qwen2.5o")
    assert sentence(needs(_eyes())) == "needs llama.cpp b5508 or newer (projector type qwen2.5o)"


@pytest.mark.parametrize("build", [5508, 6123, 9093])
def test_a_projector_whose_type_is_known_is_judged_by_the_newest_code_and_says_so(build: int):
    found = predict(_eyes(), build)
    assert found.loads
    assert found.build == NUMBER
    assert found.not_evaluated[-1] == f"of llama.cpp b{build} only the type of the projector is known"


def test_a_key_that_names_the_type_later_than_the_build():
    """`clip.vision.projector_type` is read since b6782: what is taken before, this key being all, is not known."""
    made = SOUND["gemma3"]()
    kind = made.keys.pop("clip.projector_type")
    made.keys["clip.vision.projector_type"] = kind
    found = predict(_opened(made.gguf()), 6123)
    assert found.verdict == "unknown"
    assert "does not read clip.vision.projector_type" in found.not_evaluated[0]


def test_files_that_were_no_gguf_in_their_time():
    """LoRA in GGUF: `llama_lora_adapter_init` of b3400; before it the file's magic was `ggla`."""
    adapter = _opened(lora("tiny/llama-gqa", 1))
    assert predict(adapter, 3399).verdict == "refused"
    assert predict(adapter, 3889).loads
    vector = _opened(GGUF("controlvector").kv("general.type", "controlvector").tensor("direction.1", (8,)))
    assert predict(vector, 2440).verdict == "refused"
    assert predict(vector, 4435).build == NUMBER
    assert sentence(needs(vector)) == "needs llama.cpp b2441 or newer (GGUF for control vectors)"


def test_an_adapter_of_an_architecture_that_came_later():
    found = predict(_opened(lora("tiny/gemma3", 1)), 4435)
    assert found.verdict == "refused"
    assert found.messages[0].endswith("model arch and LoRA arch mismatch")


def test_beside_a_model_the_build_speaks_for_the_file():
    model = _opened(GGUF("llama").kv("llama.embedding_length", 64).tensor("token_embd.weight", (64, 8)))
    assert [m.rule for m in misfits(model, _eyes(), build=5507)] == ["pair-load"]
    told = misfits(model, _eyes(), build=4000)[0].message
    assert told == "llama.cpp b4000 does not load it: it needs llama.cpp b5508 or newer (projector type qwen2.5o)"
    assert all(m.rule != "pair-load" for m in misfits(model, _eyes(), build=5508))


def test_json_of_a_side_file_is_what_the_schema_says(cli, tmp_path: Path):
    file = lora("tiny/llama-gqa", 1).write(tmp_path / "adapter.gguf")
    for build in (["--build", "b3399"], ["--build", "b6123"], []):
        for command in ("compat", "lint"):
            check_schema(cli(command, file, *build, "--format", "json").json)
    asked = cli("compat", file, "--build", "b3399", "--format", "json")
    assert asked.code == 1
    assert asked.json["verdict"] == "refused"
    assert asked.json["needs"][0]["what"] == "GGUF for adapters"
