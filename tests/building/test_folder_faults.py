"""Each fault of a folder is told, and alone; the folder that differs in nothing else is silent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gguftool.build.folder.look import look
from tests.building import broken
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
