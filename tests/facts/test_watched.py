"""An answer is taken again for a build of which all facts are the same that were asked, and for no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gguftool.facts.data import INSTEAD, load
from gguftool.facts.marks import bears, told
from gguftool.facts.watched import Answers


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


def test_the_newest_build_is_one_of_them() -> None:
    answers = Answers(lambda: told("part", object))
    assert answers() is answers()


def test_a_mark_that_the_newest_build_has_without_a_list_of_marks() -> None:
    answers = Answers(lambda: [bears("dims-first"), object()])
    newest = answers()
    for marks, same in ((["dims-first"], True), ([], False)):
        token = INSTEAD.set(facts(marks=marks).__getitem__)
        try:
            assert (answers() is newest) is same
        finally:
            INSTEAD.reset(token)


@pytest.mark.parametrize(
    ("second", "worked"),
    [({"used": 1, "idle": 3}, 1), ({"used": 2, "idle": 2}, 2), ({"used": 1, "late": 1}, 2), ({"used": 1}, 1)],
)
def test_entries_of_a_table_count_where_they_are_asked_for(second: dict[str, int], worked: int) -> None:
    times = []

    def question(table: Any, rest: str) -> list[Any]:
        times.append(1)
        table["own"] = 5
        return [table["used"], table.get("late"), "late" in table, table["own"], table.written(), rest]

    answers = Answers(question)
    answers({"used": 1, "idle": 2}, "rest")
    late = second.get("late")
    assert answers(second, "rest") == [second["used"], late, late is not None, 5, {"own": 5}, "rest"]
    assert len(times) == worked
    answers(second, "other")
    assert len(times) == worked + 1
