"""The public fault cases: each names rules that exist and have a sample."""

from __future__ import annotations

import pytest

from gguftool.lint.rules import by_id
from tests.lint.cases import CASES
from tests.lint.samples import all_samples

SHOWN = {s.rule for s in all_samples()}


@pytest.mark.parametrize("number", CASES)
def test_case_is_caught(number: int) -> None:
    what, rules = CASES[number]
    assert rules, what
    assert [r for r in rules if r not in by_id()] == []
    assert [r for r in rules if r not in SHOWN] == []
