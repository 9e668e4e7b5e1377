"""Patterns mean what they mean to std::regex (recorded, see tests/data/README.md)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gguftool.build.patterns import BadPattern, compiled, first

RECORDED = json.loads((Path(__file__).parent.parent / "data" / "building" / "patterns.json").read_text())


def test_they_match_what_std_regex_matches():
    wrong = []
    for pattern, wanted in RECORDED["patterns"].items():
        try:
            rules = [(compiled(pattern), "1")]
            got = "".join(first(rules, name) or "0" for name in RECORDED["names"])
        except BadPattern:
            got = None
        if got != wanted:
            wrong.append((pattern, wanted, got))
    assert wrong == []
    refused = sum(wanted is None for wanted in RECORDED["patterns"].values())
    assert len(RECORDED["patterns"]) > 450
    assert 100 < refused < 400


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(?i)a", r"\(\?:…\)"),
        ("a{", "a count"),
        ("a{99999}", "too many"),
        ("[a", "not closed"),
        ("(a", "not closed"),
        ("a)", "belongs to"),
        ("*a", "belongs to"),
        (r"\2", "no such group"),
        ("[[:nope:]]", "no class"),
        ("[z-a]", "before it begins"),
        ("a\\", "at the end"),
    ],
)
def test_what_is_wrong_is_named(pattern: str, words: str):
    with pytest.raises(BadPattern, match=words):
        compiled(pattern)
