"""How often the prediction is what the real library did: 4,159 recorded mutations (b11434), 3,000 fresh (b11549), and
873 of the kinds that an earlier prediction got wrong (b11549).

3,200 drawn after it was written (``python -m tests.predict.mutations 20261208 3200``) agree without exception: verdict,
first line, warnings, after the load, words of an abort; 400 of them are kept.

Every disagreement is listed with its cause in `tests/data/load/disagreements.json`; a new one fails here.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.predict.agreement import held_out, measured, table
from tests.predict.recipes import DATA, recipes

pytestmark = pytest.mark.oracle
EXPLAINED = json.loads((DATA / "disagreements.json").read_text())


def _matches(entry: dict[str, Any], which: str, kind: str, record: dict[str, Any]) -> bool:
    last = record["ops"][-1]
    return (
        (entry["records"], entry["kind"], entry["base"]) == (which, kind, record["base"])
        and entry.get("key") == last.get("key")
        and entry.get("name") == last.get("name")
    )


@pytest.mark.parametrize("which", ["recipes", "fresh", "points", "fresh2"])
def test_every_disagreement_is_explained(which: str) -> None:
    wrong = [(kind, record) for kind, record, _ in measured(which)["all"].wrong]
    new = [(k, r["base"], r["ops"]) for k, r in wrong if not any(_matches(e, which, k, r) for e in EXPLAINED)]
    assert new == [], table(measured(which))
    gone = [e for e in EXPLAINED if e["records"] == which and not any(_matches(e, which, k, r) for k, r in wrong)]
    assert gone == [], "explained, but it agrees now"


@pytest.mark.parametrize("which", ["recipes", "fresh", "points", "fresh2"])
def test_agreement_by_class(which: str) -> None:
    rows = measured(which)
    for name, row in rows.items():
        c = row.counts
        assert c["verdict"] >= 0.99 * c["n"], name
        assert c["first error"] >= 0.95 * c["n_first"], name
        assert c["warnings"] >= 0.95 * c["n_warnings"], name
        assert c["after"] >= 0.95 * c["n_after"], name
    assert rows["all"].counts["n"] > 0.98 * len(recipes(which))


def test_held_out_bases_do_as_well_as_the_others() -> None:
    rows = measured("recipes")
    assert len(held_out()) == 59
    assert rows["held out"].counts["n"] == 1287
    assert rows["held out"].counts["verdict"] == 1287
    assert rows["held out"].counts["first error"] == rows["held out"].counts["n_first"] == 763


def test_the_words_of_an_abort_are_llama_cpps() -> None:
    c = measured("recipes")["all"].counts
    assert c["n_words"] > 80
    assert c["words of the abort"] == c["n_words"]


def test_which_of_two_faults_wins() -> None:
    row = measured("recipes")["order"]
    assert row.counts["n"] == 17
    assert row.wrong == []
