"""Each fault of a folder is told, and alone; the folder that differs in nothing else is silent."""

from __future__ import annotations

import json
import re
import tracemalloc
from pathlib import Path

import pytest

from gguftool.build.convert import refuse
from gguftool.build.folder.look import look
from gguftool.build.safetensors import read_header
from gguftool.errors import FormatError, Refused
from gguftool.facts.converters import known, packaged
from tests.building import broken, edits, odd, stored
from tests.building.broken import CASES
from tests.building.test_folder import KNOWN

ARCHITECTURES = (*KNOWN, "Qwen3MoeForCausalLM")


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_told_and_nothing_else(tmp_path: Path, name: str):
    case = CASES[name]
    folder = case.base(tmp_path / "m")
    case.fault(folder)
    (problem,) = look(str(folder), ARCHITECTURES).problems
    assert (problem.kind, problem.fatal) == (case.kind, case.fatal), problem.message
    assert all(words in problem.message + str(problem.hint) for words in case.says), problem.message
    assert problem.hint
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", problem.kind)


@pytest.mark.parametrize("name", CASES)
def test_its_healthy_sibling_is_silent(tmp_path: Path, name: str):
    case = CASES[name]
    folder = case.base(tmp_path / "m")
    case.sound(folder)
    assert look(str(folder), ARCHITECTURES).problems == ()


@pytest.mark.parametrize(
    "names",
    [
        ("heads", "intermediate"),
        ("rows-of-one", "fewer-layers"),
        ("half-i8", "untied-no-head"),
        ("lora", "kv-heads"),
        ("zero3", "more-layers"),
        ("pointer-tokenizer", "rows-grown"),
        ("aria2", "peft"),
        ("stale", "hidden"),
    ],
)
def test_two_faults_are_both_told(tmp_path: Path, names: tuple[str, ...]):
    folder = broken.CASES[names[0]].base(tmp_path / "m")
    for name in names:
        CASES[name].fault(folder)
    kinds = {p.kind for p in look(str(folder), ARCHITECTURES).fatal}
    assert {CASES[name].kind for name in names} <= kinds


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":' + b"[" * (1 << 21) + b"]" * (1 << 21) + b"}",
        b"{" + b",".join(b'"%d":{}' % i for i in range((1 << 18) + 1)) + b"}",
        b'{"a":{"dtype":"F32","shape":[' + b"1," * (1 << 17) + b'1],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","shape":[' + b"9223372036854775807," * 16 + b'1],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}',
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551616]}}',
    ],
)
def test_a_hostile_header_is_refused_before_it_costs_anything(tmp_path: Path, text: bytes):
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    tracemalloc.start()
    try:
        with pytest.raises(FormatError) as caught:
            read_header(str(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.kind in ("too-many", "broken-header")
    assert peak < 8 * len(text) + (1 << 20)


@pytest.mark.parametrize("data", [b"[" * (1 << 20), b'{"weight_map":' + b"[[],[]]" * 10_000 + b"}"])
def test_a_hostile_index(tmp_path: Path, data: bytes):
    folder = CASES["shard-gone"].base(tmp_path / "m")
    (folder / "model.safetensors.index.json").write_bytes(data)
    assert "bad-index" in {p.kind for p in look(str(folder), ARCHITECTURES).problems}


@pytest.mark.parametrize("name", odd.made())
def test_models_that_transformers_saved_are_sound(tmp_path: Path, name: str):
    problems = look(str(odd.write_made(tmp_path / "m", name)), known()).problems
    assert [p for p in problems if p.kind in _of_weights()] == []


def test_other_numbers_in_their_config_are_told(tmp_path: Path):
    """Of each architecture; those whose classes count otherwise are named."""
    silent: dict[str, set[str]] = {"vocab_size": set(), "num_hidden_layers": set()}
    for i, (name, model) in enumerate(odd.made().items()):
        for key, change in (("vocab_size", 1), ("num_hidden_layers", 1), ("num_hidden_layers", -1)):
            if type(value := model["config"].get(key)) is int:
                folder = odd.write_made(tmp_path / f"{i}{key}{change}", name, **{key: value + change})
                kinds = {p.kind for p in look(str(folder), known()).fatal}
                if not kinds & {"rows", "layers"}:
                    silent[key].add(name)
    assert silent["num_hidden_layers"] <= {"HrmTextForCausalLM"}
    rows = {"Bamba", "FalconMamba", "Gemma3n", "GraniteMoeHybrid", "Mamba", "MiniMaxM2", "NemotronH"}
    assert {name.removesuffix("ForCausalLM") for name in silent["vocab_size"]} <= rows


def _of_weights() -> set[str]:
    """Kinds that tell of the weights, as the table in the documentation has them."""
    text = (Path(__file__).parents[2] / "docs" / "build.md").read_text()
    rows = text.partition("| **files** | |")[2].partition("\n\n")[0].splitlines()
    return {kind for row in rows for kind in re.findall(r"`([a-z0-9-]+)`", row.split("|")[1] if "|" in row else "")}


def test_files_below_the_folder_are_found_by_newer_converters_alone(tmp_path: Path):
    folder = edits.sharded(tmp_path / "m")
    (folder / "weights").mkdir()
    for part in folder.glob("*.safetensors"):
        part.rename(folder / "weights" / part.name)
    index = folder / "model.safetensors.index.json"
    index.write_text(index.read_text().replace('"model-0', '"weights/model-0'))
    assert [p.kind for p in look(str(folder), packaged()).problems] == ["weights-below"]
    assert look(str(folder), known()).problems == ()


def test_what_the_converter_unpacks_only_at_once_is_taken_when_it_is_told_to(tmp_path: Path):
    *how, _ = stored.REFUSED["bitnet"]
    folder = stored.apply(stored.folder(tmp_path), *how)
    assert [p.hint for p in look(str(folder), ARCHITECTURES).fatal] == [
        f"gguftool convert {folder} --converter-arg=--no-lazy"
    ]
    assert look(str(folder), ARCHITECTURES, arguments=["--no-lazy"]).problems == ()


@pytest.mark.parametrize("name", odd.ODD)
def test_models_unlike_most_are_not_called_faulty_for_their_weights(tmp_path: Path, name: str):
    assert look(str(odd.write(tmp_path / "m", name)), known()).problems == ()


def test_what_modelopt_says_in_a_file_of_its_own_counts(tmp_path: Path):
    folder = stored.apply(stored.folder(tmp_path), stored.modelopt)
    assert [p.kind for p in look(str(folder), ARCHITECTURES).fatal] == ["no-quant-config"]
    said = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}
    (folder / "hf_quant_config.json").write_text(json.dumps(said))
    assert look(str(folder), ARCHITECTURES).problems == ()


def test_a_refusal_names_every_fault(tmp_path: Path):
    folder = CASES["heads"].base(tmp_path / "m")
    for name in ("heads", "intermediate", "lora", "rows-of-one"):
        CASES[name].fault(folder)
    with pytest.raises(Refused) as caught:
        refuse(look(str(folder), ARCHITECTURES))
    said = str(caught.value)
    assert said.count("; also: ") == 2
    assert said.endswith("; and 1 more: convert --dry-run lists them")
    refuse(look(str(folder), ARCHITECTURES), force=True)


def test_every_kind_stands_in_the_documentation():
    root = Path(__file__).parents[2]
    text = (root / "docs" / "build.md").read_text()
    used = {kind for case in CASES.values() for kind in [case.kind]} | {row[2] for row in stored.REFUSED.values()}
    for file in (root / "gguftool" / "build" / "folder").glob("*.py"):
        used |= set(re.findall(r'Problem\(\s*"([a-z0-9-]+)"', file.read_text()))
    assert len(used) > 40
    assert {"heads", "rows", "gaps", "two-sets", "fp8-without-scales", "tied-head"} <= _of_weights()
    assert [kind for kind in sorted(used) if f"`{kind}`" not in text] == []
