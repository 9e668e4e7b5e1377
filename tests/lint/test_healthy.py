"""No false alarms: healthy files, one by one, get no error and no warning beyond the deploy fields.

The headers are those of 87 small and 128 bare models that the real llama.cpp b11434 loads, of 8 large published models,
and of two real files, whole. What is reported as information is counted too, so that it stays rare.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.lint.run import Report, lint
from gguftool.model import from_source, open_model
from tests.predict.recipes import Hole, bases

# What a file that nobody prepared for a launch lacks: these are not false alarms, these are the point.
DEPLOY = {"kv-cache-type-missing", "rope-freq-scale-missing", "rope-freq-base-missing"}
# What may be said of a healthy file by the way.
INFORMATION = {
    "key-unread",
    "name-of-model",
    "array-empty",
    "file-type-missing",
    "quantization-version-missing",
    "rope-switched-off",
    "head-size-unusual",
    "tensor-ignored",
    "end-of-turn-by-name-only",
    "sliding-window-missing",
    "empty-tokens",
    "fim-tokens-incomplete",
    "chat-template-missing",
    "constant-missing",  # RoPE of hybrid Granite models
    "expert-weights-raw",  # llama.cpp's own writer says false for what a model does not have
    "licence-restricted",  # true of Gemma, Llama …: who hands them on must hand on the terms
    "load-warns",  # llama.cpp itself warns about sound files: no vocabulary, names it does not know, markers it retypes
}


# Headers written by hand without what every conversion of their architecture has; the real library loads them.
LACKS = {
    "tiny/afmoe": ("constant-missing", "field:afmoe.expert_weights_norm"),
    "tiny/dots1": ("constant-missing", "field:dots1.expert_weights_norm"),
    "tiny/deepseek32": ("expert-weights-raw", "field:deepseek32.expert_weights_norm"),
    "tiny/glm-dsa": ("expert-weights-raw", "field:glm-dsa.expert_weights_norm"),
    "giants/gpt-oss-20b": ("constant-missing", "field:gpt-oss.rope.scaling.type"),
    "tiny/deepseek2-nomla": ("mla-unsplit", "tensor:blk.0.attn_kv_b.weight"),  # made as files were before April 2025
}
BASES = bases()


def report(base: str) -> Report:
    header, size = BASES[base]
    return lint(from_source(Hole(header, base + ".gguf", size), strict=False))


def check(found: Report, lacks: tuple[str, str] | None = None) -> None:
    alarms = [f for f in found if f.severity != "info" and f.rule not in DEPLOY]
    expected = [lacks] if lacks else []
    assert [(f.rule, f.where) for f in alarms] == expected, alarms
    assert {f.severity.value for f in found if f.rule in DEPLOY} <= {"warning"}
    assert {f.rule for f in found if f.severity == "info"} <= INFORMATION
    assert found.load is not None
    assert found.load.verdict in ("loads", "warns")


def test_there_are_enough() -> None:
    assert len(BASES) == 87 + 128 + 8


@pytest.mark.parametrize("base", sorted(BASES))
def test_header(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGUFTOOL_DEBUG", "1")
    check(report(base), LACKS.get(base))


@pytest.mark.real
def test_gemma3(gemma3: Path) -> None:
    with open_model(gemma3, strict=False) as m:
        found = lint(m)
    check(found)
    assert {f.rule for f in found if f.severity != "info"} == {"kv-cache-type-missing", "rope-freq-scale-missing"}
    assert found.not_evaluated == ()


@pytest.mark.real
def test_smollm2(smollm2: Path) -> None:
    with open_model(smollm2, strict=False) as m:
        found = lint(m)
    check(found)
    assert {f.rule for f in found if f.severity != "info"} == {"kv-cache-type-missing", "rope-freq-scale-missing"}
    assert found.not_evaluated == ()
