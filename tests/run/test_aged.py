"""Slots and FlashAttention in builds of another age.

b6900 opens one slot; b7079 and b7347 make four of ``n_parallel == 1 && !kv_unified`` (`server.cpp:main`), so there one
slot wants ``-kvu``; b7551 and later do so of ``n_parallel < 0`` alone.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gguftool.api.translated import translate
from gguftool.memory.builds import formula
from gguftool.run.args import server_command
from gguftool.run.bybuild import between, of_build
from gguftool.run.target import number_of, older
from gguftool.run.wishes import Wishes


@pytest.mark.parametrize(
    ("build", "parallel", "said"),
    [
        (6900, 1, ["-np", "1"]),
        (6900, None, ["-np", "1"]),
        (7079, 1, ["-np", "1", "-kvu"]),
        (7347, None, ["-np", "4", "-kvu"]),
        (7551, 1, ["-np", "1"]),
        (11434, None, ["-np", "-1"]),
    ],
)
def test_the_number_of_slots_that_is_meant(build: int, parallel: int | None, said: list[str]) -> None:
    args = server_command("m.gguf", Wishes(parallel=parallel), of_build(build)).args
    at = args.index("-np")
    assert [*args[at : at + 2], *(["-kvu"] if "-kvu" in args else [])] == said


@pytest.mark.parametrize(
    ("build", "args"), [(6123, []), (7347, ["-np", "1", "-kvu"]), (8179, ["-np", "1"]), (11434, ["-np", "1"])]
)
def test_a_translation_speaks_of_slots_where_the_build_opens_several(build: int, args: list[str]) -> None:
    made = translate("llama-server -m m.gguf -c 4096", build=build)
    assert [a for a in made.args if a in ("-np", "1", "-kvu")] == args
    assert any("opens 4 slots" in c.why for c in made.changes) is bool(args)


def test_a_server_without_a_number_has_the_formula_of_its_range() -> None:
    """The packaged server says build 1; by its options it is of b10434 to b10540, which one formula covers."""
    unnumbered = replace(of_build(10434), build=None)
    range_ = between(unnumbered)
    assert range_ is not None
    assert range_[0] <= 10434 <= range_[1]
    assert number_of(unnumbered) == older(unnumbered) == range_[0]
    assert formula(range_[0]) == formula(range_[1])
    assert formula(number_of(unnumbered)).before == 11434
