"""What is said about scanners is what they said when they were run."""

from __future__ import annotations

import json

import pytest

from gguftool.lint.publishing import Publishing
from gguftool.lint.rule import Context
from gguftool.lint.run import lint
from gguftool.model import from_source
from gguftool.source import Memory
from tests.lint.scanned import SCANNERS, TRUTH, VARIANTS

ROWS = {row["variant"]: row["objects"] for row in map(json.loads, TRUTH.read_text("utf-8").splitlines())}
RULES = {"scanner-objects", "alignment-unusual"}


def said(name: str, context: Context) -> list[str]:
    model = from_source(Memory(VARIANTS[name]().bytes(), "m.gguf"), strict=False)
    return [f.message for f in lint(model, context).findings if f.rule in RULES]


@pytest.mark.parametrize("name", VARIANTS)
def test_who_objects_is_named_and_nobody_else(name: str) -> None:
    lines = said(name, Context(publishing=Publishing("", "m.gguf", {"m.gguf": 1}, ("m.gguf",), "me/M")))
    # A model that is for no chat needs no template, whatever ends with an error without one.
    objects = {} if name == "no-template" else ROWS[name]
    named = {scanner for scanner in SCANNERS for line in lines if scanner in line}
    assert named == set(objects)
    # c4nary's rules by their numbers.
    for number in objects.get("c4nary", "").split():
        assert any(number in line for line in lines)


def test_nobody_else_is_told() -> None:
    assert not said("url", Context())
