"""What llama.cpp does not take of the files beside a model is explained by a rule; what is sound is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from gguftool.lint.run import Report, lint
from gguftool.model import from_source
from tests.predict.recipes import recipes
from tests.predict.sides import BASES, MAKERS, side, weights


def _lint(record: dict[str, Any]) -> Report:
    return lint(from_source(side(record), strict=False))


@pytest.fixture(autouse=True)
def _no_hidden_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGUFTOOL_DEBUG", "1")


def test_every_refusal_is_explained_before_the_net() -> None:
    told = 0
    for record in recipes("sides")[::3]:
        if record["ops"] and record["ops"][-1].get("op") == "cut_header" and record["ops"][-1]["bytes"] < 8:
            continue  # no GGUF at all
        report = _lint(record)
        load = report.load
        assert load is not None
        if load.loads or load.verdict == "unknown":
            continue
        told += 1
        assert [f.rule for f in report if f.severity == "error" and f.family != "load"], record
        assert record["real"]["verdict"] in ("refused", "aborts"), record
    assert told > 250


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_sound_files_have_nothing(kind: str) -> None:
    idle = ("adapter-without-effect",)  # true of DeepSeek's attention
    for base in (base for base in BASES if weights(base)):
        for made in range(3):
            record = {"kind": kind, "base": base, "made": made, "ops": []}
            found = [(f.rule, f.message) for f in _lint(record) if f.severity != "info" and f.rule not in idle]
            assert found == [], record
