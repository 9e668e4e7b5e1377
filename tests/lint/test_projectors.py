"""Rules for projectors, over the records of what llama.cpp did with broken ones."""

from __future__ import annotations

import pytest

from gguftool.edit.ops import apply
from gguftool.lint.run import Report, lint
from gguftool.model import Model, from_source, with_header
from gguftool.predict import predict
from gguftool.source import Memory
from tests.predict.projector_mutations import applied
from tests.predict.test_projector import records
from tests.projectors import SOUND


def opened(data: bytes) -> Model:
    return from_source(Memory(data, "F"), strict=False)


def errors(report: Report) -> list[str]:
    return [f.rule for f in report.findings if f.severity.value == "error"]


@pytest.mark.parametrize("kind", SOUND)
def test_nothing_is_said_of_a_sound_one(kind: str) -> None:
    found = [f for f in lint(opened(SOUND[kind]().gguf().bytes())).findings if f.severity.value != "info"]
    assert not found


def test_a_rule_explains_what_llama_cpp_refuses_and_says_nothing_of_what_it_loads() -> None:
    silent, false, crashed = [], [], []
    for record in records()[::15]:
        report = lint(opened(applied(record["kind"], record["ops"])))
        said = [rule for rule in errors(report) if not rule.startswith("load-")]
        crashed += [n for n in report.not_evaluated if "itself failed" in n.why]
        if record["verdict"] != "loads" and not said:
            silent.append(record)
        # Data that is missing at the very end, and positions for another size of image, go unnoticed at the load.
        if record["verdict"] == "loads" and set(said) - {"data-truncated", "projector-positions"}:
            false.append((record, said))
    assert not silent
    assert not false
    assert not crashed


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e300, 0.5])
def test_a_count_that_is_no_whole_number_gets_no_value(value: float) -> None:
    made = SOUND["gemma3"]()
    made.key("clip.vision.block_count", value, "f64")
    report = lint(opened(made.gguf().bytes()))
    assert not report.not_evaluated
    (one,) = [f for f in report.findings if f.where == "field:clip.vision.block_count"]
    assert one.fix is not None
    assert not one.fix.operations


def test_a_safe_fix_makes_it_load() -> None:
    mended = 0
    for record in records()[::15]:
        m = opened(applied(record["kind"], record["ops"]))
        report = lint(m)
        fixes = [f.fix for f in report.findings if f.fix is not None and f.fix.safe and f.fix.operations]
        if len(errors(report)) != 1 or not fixes or record["verdict"] == "loads":
            continue
        after = with_header(m, apply(fixes[0].operations, m.header), m.parts[0].size + 4096)
        assert predict(after).loads, (record, fixes[0])
        mended += 1
    assert mended >= 8


def test_keys_that_the_tensors_tell_are_safe_together() -> None:
    made = SOUND["gemma3"]()
    for key in ("clip.vision.patch_size", "clip.vision.block_count"):
        del made.keys[key]
    found = [f for f in lint(opened(made.gguf().bytes())).findings if f.rule == "projector-key-missing"]
    assert len(found) == 2
    assert all(f.fix is not None and f.fix.safe for f in found)
