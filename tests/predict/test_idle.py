"""Which keys an edit changes for a load: the first field of a key is the one that counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gguftool.format.header import Header
from gguftool.format.parse import parse
from gguftool.predict.idle import changed_keys
from gguftool.source import Memory
from tests.build import GGUF


def header(*keys: str) -> Header:
    g = GGUF("llama")
    for key in keys:
        g.kv(key, 1)
    return parse(Memory(g.bytes()))


@pytest.mark.parametrize(
    ("taken", "changed"),
    [
        ((), set()),
        ((1,), {"llama.a"}),
        ((2,), {"llama.b"}),
        ((3,), set()),
        ((1, 3), {"llama.a"}),
        ((4,), {"llama.c"}),
        ((5,), set()),
        ((1, 2, 3, 4, 5), {"llama.a", "llama.b", "llama.c"}),
    ],
)
def test_a_later_one_of_the_same_key_is_no_change(taken: tuple[int, ...], changed: set[str]) -> None:
    old = header("llama.a", "llama.b", "llama.a", "llama.c", "general.url")
    assert [f.key for f in old.fields][1:] == ["llama.a", "llama.b", "llama.a", "llama.c", "general.url"]
    new = replace(old, fields=tuple(f for i, f in enumerate(old.fields) if i not in taken))
    assert changed_keys(old, new) == changed
    assert changed_keys(new, old) == changed


def test_order_and_repetition() -> None:
    old = header("llama.a", "llama.b", "llama.c")
    arch, a, b, c = old.fields
    assert changed_keys(old, replace(old, fields=(arch, c, b, a))) == set()
    assert changed_keys(old, replace(old, fields=(arch, a, b, a, b, c))) == set()
    other = header("llama.b").fields[1]
    assert changed_keys(old, replace(old, fields=(arch, other, a, b, c))) == {"llama.b"}
    assert changed_keys(old, replace(old, fields=(arch, a, b, other, c))) == set()
