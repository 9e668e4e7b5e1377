"""An answer is taken again for a build of which all facts are the same that were asked, and for no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gguftool.facts.data import INSTEAD, load
from gguftool.facts.marks import bears
from gguftool.facts.watched import Answers, known_by, told


def facts(**maps: Any) -> dict[str, Any]:
    return {"load_maps.json": {"arch": {"a": "A"}, "marks": ["old"], "ops": {"x": "MUL"}, **maps}}


def asked(question: Callable[[], Any], *builds: dict[str, Any]) -> tuple[list[Any], int]:
    """The answers by builds, and how often the question was worked out."""
    worked = []

    def counted() -> Any:
        worked.append(1)
        return question()

    answers, out = Answers(counted), []
    for build in builds:
        token = INSTEAD.set(build.__getitem__)
        try:
            out.append(answers())
        finally:
            INSTEAD.reset(token)
    return out, len(worked)


def maps() -> Any:
    return load("load_maps.json")


@pytest.mark.parametrize(
    ("question", "other", "answers", "worked"),
    [
        (lambda: maps()["arch"]["a"], {"arch": {"a": "A", "b": "B"}}, ["A", "A"], 1),
        (lambda: maps()["arch"]["a"], {"arch": {"a": "B"}}, ["A", "B"], 2),
        (lambda: maps()["arch"].get("b"), {"arch": {"a": "A", "b": "B"}}, [None, "B"], 2),
        (lambda: maps()["arch"].get("b"), {"arch": {"a": "C"}}, [None, None], 1),
        (lambda: "a" in maps()["arch"], {"arch": {}}, [True, False], 2),
        (lambda: list(maps()["arch"]), {"arch": {"b": "A"}}, [["a"], ["b"]], 2),
        (lambda: bears("new"), {"marks": ["old", "new"]}, [False, True], 2),
        (lambda: bears("old"), {"marks": ["old", "new"]}, [True, True], 1),
        (lambda: [*maps()["marks"]], {"marks": ["old", "new"]}, [["old"], ["old", "new"]], 2),
        (lambda: maps().get("limits"), {"limits": {"n": 1}}, [None, {"n": 1}], 2),
        (lambda: maps()["marks"] is None, {"marks": None}, [False, True], 2),
    ],
)
def test_only_what_was_asked_counts(question: Any, other: dict[str, Any], answers: list[Any], worked: int) -> None:
    assert asked(question, facts(), facts(**other)) == (answers, worked)


def test_an_older_answer_is_found_again() -> None:
    found = asked(lambda: bears("new"), facts(), facts(marks=["new"]), facts(marks=[]), facts(marks=["new", "old"]))
    assert found == ([False, True, False, True], 2)


def test_of_a_part_its_answer_counts() -> None:
    def question() -> int:
        return 1 + told("part", lambda: len(maps()["ops"]["x"]))

    assert asked(question, facts(), facts(ops={"x": "ADD"}), facts(ops={"x": "NONE"})) == ([4, 4, 5], 2)


def test_of_a_part_its_sign_counts() -> None:
    def question() -> str:
        word: str = known_by("part", lambda: maps()["ops"]["x"].lower(), lambda: maps()["ops"]["x"])
        return word

    assert asked(question, facts(), facts(ops={"x": "mul"}), facts(ops={"x": "ADD"})) == (["MUL", "MUL", "ADD"], 2)


def test_without_another_build_nothing_is_kept() -> None:
    answers = Answers(lambda: told("part", object))
    assert answers() is not answers()
