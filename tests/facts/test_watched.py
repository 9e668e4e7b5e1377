"""An answer is taken again for a build of which all facts are the same that were asked, and for no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gguftool.facts.data import INSTEAD, load
from gguftool.facts.marks import bears
from gguftool.facts.watched import Answers, known_by, taken, told


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


def test_the_newest_build_is_one_of_them() -> None:
    answers = Answers(lambda: told("part", object))
    assert answers() is answers()


@pytest.mark.parametrize(
    ("second", "worked"),
    [({"used": 1, "idle": 3}, 1), ({"used": 2, "idle": 2}, 2), ({"used": 1, "late": 1}, 2), ({"used": 1}, 1)],
)
def test_entries_of_a_table_count_where_they_are_asked_for(second: dict[str, int], worked: int) -> None:
    def question() -> list[Any]:
        found = taken("numbers", lambda: (dict(maps()["ops"].items()), "rest"))
        assert found is not None
        table = found[0]
        table["own"] = 5
        return [table["used"], table.get("late"), table["own"], table.written()]

    answers, times = asked(question, facts(ops={"used": 1, "idle": 2}), facts(ops=second))
    assert answers[1] == [second["used"], second.get("late"), 5, {"own": 5}]
    assert times == worked


def test_of_a_part_counts_what_is_used_of_it() -> None:
    def question() -> list[str]:
        return told("marks", lambda: [*maps()["marks"]], lambda marks: marks[0])

    answers, worked = asked(question, *(facts(marks=[*marks]) for marks in ("ab", "ac", "bc")))
    assert answers == [["a", "b"], ["a", "b"], ["b", "c"]]
    assert worked == 2
