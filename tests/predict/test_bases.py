"""Healthy files: every header the real llama.cpp made loads and decodes, and the tensor rules have nothing to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.facts.data import load
from gguftool.lint.rule import Severity
from gguftool.lint.run import lint
from gguftool.model import from_source, open_model
from gguftool.predict import predict, survey
from tests.oracle.verdicts import judge
from tests.predict.mutations import judged, mutations
from tests.predict.recipes import bases, built

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(bases())
WITHOUT_VOCABULARY = "GGML_ASSERT(tokenizer"


def test_every_base_loads_and_decodes() -> None:
    for name in NAMES:
        p = predict(built({"base": name, "ops": []}))
        assert p.verdict in ("loads", "warns"), (name, p)
        assert p.messages == ()
        assert p.after_load is not None
        # The shape-only models and plamo2 have no vocabulary: a text prompt ends the process there.
        fine = p.after_load.outcome == "ok" or p.after_load.message.startswith(WITHOUT_VOCABULARY)
        assert fine, (name, p.after_load)


def test_the_tensor_family_is_silent_on_every_base() -> None:
    for name in NAMES:
        report = lint(from_source(built({"base": name, "ops": []}), strict=False), select=["tensors"], load=False)
        loud = [f for f in report.findings if f.severity is not Severity.INFO]
        assert loud == [], name
        assert report.not_evaluated == (), name


def test_every_tensor_of_every_base_is_in_the_map_with_its_shape() -> None:
    seen = set()
    for name in NAMES:
        s = survey(from_source(built({"base": name, "ops": []}), strict=False))
        assert (s.problem, s.missing, s.misshaped, s.extra) == ("", (), (), ()), name
        assert set(s.stored) <= set(s.wanted)
        for tensor, info in s.stored.items():
            want = [n for n in s.wanted[tensor].shape if n != 1]
            assert want == [n for n in info.shape if n != 1], (name, tensor)
        seen.add(s.machine.reader.arch)  # type: ignore[union-attr]
    main = "llama qwen2 qwen3 qwen3moe gemma2 gemma3 phi3 mistral3 deepseek2 gpt-oss granite command-r bert".split()
    assert set(main) <= seen
    assert len(seen) == 133


def test_every_architecture_of_llama_cpp_has_its_rows() -> None:
    known = set(load("architectures.json")["architectures"])
    mapped = set(load("load_maps.json")["arch"])
    assert mapped <= known
    # gptj is a name without a model class; llama.cpp calls it unsupported.
    assert known - mapped == {"gptj"}


@pytest.mark.oracle
def test_fixture_is_judged_as_predicted() -> None:
    _same(ROOT / "fixtures" / "tiny-llama.gguf")


@pytest.mark.oracle
@pytest.mark.real
def test_gemma_is_judged_as_predicted(gemma3: Path) -> None:
    _same(gemma3)


@pytest.mark.oracle
@pytest.mark.real
def test_smollm2_is_judged_as_predicted(smollm2: Path) -> None:
    _same(smollm2)


def _same(path: Path) -> None:
    (answer,) = judge([str(path)])
    with open_model(path, strict=False) as m:
        p = predict(m)
    assert answer.verdict == "loads"
    assert sorted(p.warnings) == sorted(w.rstrip() for w in answer.warnings)
    assert p.verdict == ("warns" if answer.warnings else "loads")
    assert p.after_load is not None
    assert (answer.context, answer.use, p.after_load.outcome) == ("ok", "ok", "ok")


@pytest.mark.oracle
def test_the_recorded_fresh_verdicts_are_what_the_library_says(tmp_path: Path) -> None:
    from tests.predict.recipes import recipes

    stored = recipes("fresh")[:40]
    again = list(judged([{"base": r["base"], "ops": r["ops"]} for r in stored], tmp_path))
    for old, new in zip(stored, again, strict=True):
        assert [old[k] for k in ("verdict", "errors", "after")] == [new[k] for k in ("verdict", "errors", "after")]


@pytest.mark.oracle
@pytest.mark.slow
def test_new_mutations_are_judged_as_predicted(tmp_path: Path) -> None:
    from tests.predict.agreement import compare

    records = list(judged(list(mutations(7, 600)), tmp_path))
    wrong = [(w, r["base"], r["ops"]) for r in records for w in compare(r, relative=False)[1] if w != "after"]
    assert wrong == []
