"""Every rule fires where it should, is silent where it should, and is documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.facts.keys import LOADER, reading
from gguftool.lint.rule import Severity
from gguftool.lint.rules import FAMILIES, catalogue
from gguftool.report.lint import fix_command
from tests.lint.samples import Sample, all_samples, ready, report_of

SAMPLES = all_samples()


@pytest.fixture(autouse=True)
def _no_hidden_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGUFTOOL_DEBUG", "1")


def _ids(samples: list[Sample]) -> list[str]:
    return [f"{s.rule}-{i}" for i, s in enumerate(samples)]


@pytest.mark.parametrize("sample", SAMPLES, ids=_ids(SAMPLES))
def test_fires(sample: Sample, tmp_path: Path) -> None:
    report = report_of(sample.fires, tmp_path, sample.context, load=sample.rule.startswith("load-"))
    hits = [f for f in report if f.rule == sample.rule]
    skipped = [n.why for n in report.not_evaluated if n.rule == sample.rule]
    assert hits, f"{sample.rule} is silent; found {[f.rule for f in report]}, skipped {skipped}"
    match = [
        f
        for f in hits
        if sample.message in f.message
        and (not sample.where or f.where == sample.where)
        and (sample.severity is None or f.severity.value == sample.severity)
    ]
    assert match, [(f.severity.value, f.where, f.message) for f in hits]
    found = match[0]
    if sample.fix == "":
        assert found.fix is None
    elif sample.fix is not None:
        assert found.fix is not None
        assert sample.fix in fix_command(found.fix, found.path)
    if sample.safe is not None:
        assert found.fix is not None
        assert found.fix.safe is sample.safe


@pytest.mark.parametrize("sample", SAMPLES, ids=_ids(SAMPLES))
def test_silent(sample: Sample, tmp_path: Path) -> None:
    context = sample.context if sample.silent_context is None else sample.silent_context
    report = report_of(sample.silent, tmp_path, context, load=sample.rule.startswith("load-"))
    assert [f for f in report if f.rule == sample.rule] == []
    # Silent because it looked and found nothing, not because it could not look.
    assert [n for n in report.not_evaluated if n.rule == sample.rule] == []


def test_every_rule_has_a_sample() -> None:
    shown = {s.rule for s in SAMPLES}
    assert sorted(r.id for r in catalogue() if r.id not in shown) == []
    assert sorted(shown - {r.id for r in catalogue()}) == []


@pytest.mark.parametrize("rule", catalogue(), ids=lambda r: r.id)
def test_documented(rule) -> None:  # type: ignore[no-untyped-def]
    assert rule.family in FAMILIES
    assert rule.title
    assert not rule.title.endswith(".")
    assert set(rule.sections) == {"why", "evidence", "example", "fix"}, rule.id
    assert all(len(body) > 3 for body in rule.sections.values())


def test_ids_are_unique() -> None:
    ids = [r.id for r in catalogue()]
    assert len(ids) == len(set(ids))
    assert not set(ids) & set(FAMILIES)


def test_healthy_model_has_nothing(tmp_path: Path) -> None:
    report = report_of(ready(), tmp_path)
    assert [(f.severity.value, f.rule, f.message) for f in report if f.severity != "info"] == []


IDLE = {
    "kv-cache-type-missing", "kv-cache-type-differs", "rope-freq-scale-missing", "rope-factor-double", "key-too-long",
    "spec-type-odd", "file-type-mismatch", "hidden-characters", "text-oversized", "shard-metadata", "shards-many",
    "lmstudio-name", "lmstudio-place",
}  # fmt: skip
"""Rules whose findings no run notices; of ``foreign-prefix`` each finding says so itself."""
PAPERS = {
    "filler-present",
    "source-licence",
    "name-of-model",
    *(r.id for r in catalogue() if r.family in ("publish", "licence")),
}
"""Those about what is published with a model, our own padding among them: no run notices them either."""


def test_which_findings_change_no_run() -> None:
    assert {r.id for r in catalogue() if not r.changes_run} == IDLE | PAPERS
    assert all(r.severity is Severity.WARNING for r in catalogue() if r.id in IDLE)


@pytest.mark.parametrize(
    "sample", [s for s in SAMPLES if s.rule in {*IDLE, *PAPERS, "foreign-prefix"}], ids=lambda s: s.rule
)
def test_what_changes_no_run_is_read_by_no_loader(sample: Sample, tmp_path: Path) -> None:
    """A launch goes on in spite of such a finding: llama.cpp must load the file, and read no key that it is about."""
    report = report_of(sample.fires, tmp_path, sample.context)
    for f in report:
        key = f.where.removeprefix("field:")
        if f.rule == sample.rule and not f.changes_run and key != f.where and f.rule not in READ_BUT:
            found = reading(key, "" if f.rule == "foreign-prefix" else key.partition(".")[0])
            assert found is None or LOADER not in found.programs, f"{f.rule}: the loader reads {key}"


READ_BUT = {
    "rope-factor-double": "the old key is read only where the new one is not there",
    "file-type-mismatch": "shown in the log, and nothing else",
    "hidden-characters": "whatever key holds them is read with them",
    "text-oversized": "whatever key holds it",
    "shards-many": "what it counts is right",
    "name-of-model": "kept to be shown, and nothing else",
}
