"""Layers like one that is built are not built anew: the room that a graph takes is the same, step by step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gguftool.memory import layout
from gguftool.memory.again import Repeats
from gguftool.memory.graph import Graph, Node
from gguftool.memory.plan import Planner, weights_of
from gguftool.memory.settings import Settings
from tests.memory.giants import giant

MODELS = "llama-3.1-8b gemma-3-27b gpt-oss-20b qwen3-30b-a3b deepseek-v3 qwen3-next-80b mamba-2.8b".split()
RECURRENT = {"qwen3-next-80b", "mamba-2.8b"}
SETTINGS = (
    Settings(4096),
    Settings(4096, "q8_0", "q4_0", parallel=4),
    Settings(4096, "f32", "f32", parallel=None),
    Settings(4096, flash_attn="off", swa_full=True),
    Settings(300, ubatch=64, outputs=64),
)


class All(Repeats):
    """Every layer is built."""

    def layer(self, i: int, x: Node, build: Callable[[Node], Node]) -> Node:
        return build(x)


@pytest.mark.parametrize("layers", [2, 30])
@pytest.mark.parametrize("name", MODELS)
def test_steps_are_those_of_all_layers(name: str, layers: int, monkeypatch: pytest.MonkeyPatch):
    again = []
    once_more = Graph.once_more
    monkeypatch.setattr(Graph, "once_more", lambda self, *a: again.append(a) or once_more(self, *a))
    monkeypatch.setattr("gguftool.memory.again.ALIKE", layers)
    m = giant(name)
    for s in SETTINGS:
        found = []
        for way in (Repeats, All):
            monkeypatch.setattr(layout, "Repeats", way)
            planner = Planner(m.arch, weights_of(m))
            planner.taken(s)
            found.append([x for x, _ in planner._reserves.values()])
        assert found[0] == found[1] != [None]
    assert bool(again) == (name not in RECURRENT)
