"""Rows that do nothing for a file are left out, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from gguftool.facts.data import load
from gguftool.facts.machine.rows import program
from gguftool.model import from_source
from gguftool.predict.idle_rows import Stored, without_idle
from gguftool.predict.stages import hyperparameters, stored_tensors
from gguftool.predict.state import Run
from gguftool.predict.tensors import Asked, local_names, run
from tests.predict.recipes import bases, built

NAMES: dict[str, Any] = {"hparams": {"n_expert": 0}, "n_embd": 8, "n_layer": 2, "n_expert": 0}
STORED = Stored(["token_embd.weight", "blk.0.attn_norm.weight", "blk.1.attn_norm.weight", "blk.1.attn_q.weight"])


def tensor(name: str, flags: str = "", size: str = "n_embd", place: str = "x", index: str = "") -> list[Any]:
    return ["tensor", name, index, [size], flags, place]


FAIL = ["fail", "'no'"]


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        ([tensor("output.weight", "optional")], []),
        ([tensor("output.weight")], None),
        ([tensor("token_embd.weight", "optional")], None),
        ([tensor("blk.%d.ffn_up.weight", "optional", index="i")], None),
        ([["for", "i", "0", "n_layer", [tensor("blk.%d.ffn_up.weight", "optional", index="i")]]],
         [["for", "i", "0", "n_layer", []]]),
        ([["for", "i", "0", "n_layer", [tensor("blk.%d.attn_norm.weight", "optional", index="i")]]], None),
        # Whether it was asked for counts.
        ([["for", "i", "0", "n_layer", [tensor("blk.%d.attn_v.weight", "optional", index="i")]]], None),
        # Its place is another one's, too.
        ([tensor("output.weight", "optional"), tensor("token_embd.weight", "duplicated")], None),
        ([tensor("output.weight", "optional", place="wq")], None),
        # Its size may end the load.
        ([tensor("output.weight", "optional", "n_embd // n_expert")], None),
        ([tensor("output.weight", "optional", "unheard_of")], None),
        ([["if", "n_expert > 0", [FAIL]]], []),
        ([["if", "n_expert == 0", [FAIL]]], [FAIL]),
        ([["if", "h.n_expert > 0", [FAIL], [tensor("token_embd.weight")]]], [tensor("token_embd.weight")]),
        ([["if", "unheard_of", [FAIL]]], None),
        ([["if", "not has('output', -1)", [FAIL]]], None),
        ([["for", "i", "0", "n_layer", [["if", "i > 0", [FAIL]]]]], None),
        # A name is given a value: nothing can be said of conditions.
        ([["let", "n_expert", "1"], ["if", "n_expert > 0", [FAIL]]], None),
        ([["do", "key('x', 'u32', 'n_expert', False)"], ["if", "n_expert > 0", [FAIL]]], None),
    ],
)  # fmt: skip
def test_what_is_left(rows: list[Any], left: list[Any] | None) -> None:
    assert without_idle(rows, NAMES, STORED) == (rows if left is None else left)


@pytest.mark.parametrize("base", [b for b in bases() if b.startswith("tiny/")])
def test_a_model_is_loaded_as_with_all_rows(base: str) -> None:
    """Of what is in the file the same is asked for, in the same order."""
    m = from_source(built({"base": base, "ops": []}), strict=False)
    if m.architecture not in load("load_maps.json")["arch"] or m.architecture == "clip":
        return
    found = []
    for shorten in (False, True):
        state = Run(m)
        machine, rows = hyperparameters(state)
        stored = stored_tensors(m)
        names = machine.names | local_names(machine, 32, 2)
        asked = Asked(stored, collect=True)
        machine.names |= names
        rows = without_idle(program(m.architecture, "tensors"), names, Stored(stored)) if shorten else rows
        run(machine, rows, asked)
        there = [w for w in asked.wanted.values() if w.name in stored or w.required]
        found.append((there, asked.slots, machine.slots, asked.created, asked.warnings, [str(f) for f in asked.faults]))
        state.close()
    assert found[0] == found[1]
