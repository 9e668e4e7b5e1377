"""Prediction by build against 73,066 real loads of 14 builds (b4798 to b11549), of which a sample is run here.

The whole walk is ``python -m tests.builds.agreement``; two builds and a third of the recipes were held out while the
prediction was written (``--held-out``).
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

import pytest

from gguftool.api.compat import compat
from gguftool.model import from_source
from tests.builds.agreement import PATH, Row, measured, table, verdict_of
from tests.builds.records import HELD_OUT, Record, records
from tests.predict.recipes import built

pytestmark = pytest.mark.oracle
EACH = 60


@cache
def loads() -> tuple[Record, ...]:
    return tuple(records())


@cache
def sampled() -> dict[tuple[str, str], Row]:
    by_build: dict[int, list[Record]] = {}
    for record in loads():
        by_build.setdefault(record.build, []).append(record)
    r = random.Random(20270116)
    return measured(one for found in by_build.values() for one in r.sample(found, EACH))


def test_the_records_are_of_many_builds() -> None:
    counts = Counter(record.build for record in loads())
    assert len(counts) == 14
    assert min(counts) == 4798
    assert set(counts) > HELD_OUT
    assert sum(counts.values()) == 73066
    said = Counter((record.verdict, "unknown model architecture" in record.error) for record in loads())
    assert said["loads", False] > 15000
    assert said["refused", True] > 8000
    assert said["aborts", False] > 1500


def test_verdicts_by_build() -> None:
    rows = sampled()
    for (group, name), row in rows.items():
        if group == "build":
            assert row.counts["verdict"] >= 0.95 * row.counts["n"], (name, table(rows, "build"))
    c = rows["all", ""].counts
    assert c["verdict"] >= 0.99 * c["n"], table(rows, "build")
    assert c["first line"] >= 0.97 * c["of first line"], table(rows, "build")
    assert c["unknown"] == 0


def test_unknown_architectures_are_all_named() -> None:
    c = sampled()["all", ""].counts
    assert c["of unknown architecture"] > 100
    assert c["unknown architecture"] == c["of unknown architecture"]


def test_compat_says_what_the_prediction_says() -> None:
    found = [r for r in loads() if r.kind == "plain" and r.build in (4798, 7551, 9093, 10809)]
    for record in random.Random(5).sample(found, 12):
        with from_source(built(record.recipe, PATH), strict=False) as m:
            load = compat(m, build=record.build).load
        assert load is not None
        assert verdict_of(load) == record.verdict, record
