"""Facts of older builds: differences lead back to their values, and the rows are those of each build's sources."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from gguftool.facts import NUMBER, editions
from gguftool.facts.data import load
from gguftool.facts.difference import applied

ROOT = Path(__file__).resolve().parents[2]

sys.path[:0] = [str(ROOT / "scripts" / "facts")]
from builds.differences import difference  # noqa: E402


def _value(random: random.Random, depth: int = 0) -> Any:
    kind = random.randrange(6 if depth < 3 else 3)
    if kind < 3:
        return random.choice([None, True, 0, 1, "a", "b", -1])
    if kind == 3:
        return {random.choice("abcd"): _value(random, depth + 1) for _ in range(random.randrange(4))}
    return [_value(random, depth + 1) for _ in range(random.randrange(6))]


def test_a_difference_leads_to_its_value() -> None:
    dice = random.Random(15)
    for _ in range(2000):
        old, new = _value(dice), _value(dice)
        assert applied(old, difference(old, new)) == new
        assert difference(old, old) == ["="]


def test_the_nearest_older_build_is_taken() -> None:
    series = editions.builds()
    assert series[0] == NUMBER
    assert list(series) == sorted(series, reverse=True)
    assert editions.nearest(series[1] + 1) == series[1]
    assert editions.nearest(NUMBER + 100) == NUMBER
    assert editions.nearest(1) is None


@pytest.mark.parametrize("build", editions.builds()[1:])
def test_every_class_of_every_build_can_be_read(build: int) -> None:
    with editions.reading(build):
        maps = load("load_maps.json")
        for names in maps["arch"].values():
            for name in [names] if isinstance(names, str) else names:
                assert maps["classes"][name] is not None
        assert set(maps["arch"]) <= set(load("architectures.json")["architectures"])
        # A type that is known is not looked at for its number (`predict/words.py:type_fault`).
        assert max(maps["types"]["known"]) < maps["types"]["count"]
    assert load("load_maps.json").get("program") is None, "outside, the newest build's facts are read"
