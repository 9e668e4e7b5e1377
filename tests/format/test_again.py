"""Vocabularies that many files share are compared, not walked again: with the same result, and only so many of them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

import gguftool
from gguftool.format import again
from gguftool.format.parse import parse
from gguftool.source import LocalFile
from tests.build import GGUF, llama

ROOM = 4 << 20


@pytest.fixture
def remembered() -> Iterator[None]:
    again.remember(ROOM)
    yield
    again.remember(0)


def model(word: str, count: int = 6000) -> GGUF:
    made = llama()
    made.replace("tokenizer.ggml.tokens", [f"<0x{i:02X}>" if i < 256 else f"{word}{i}" for i in range(count)])
    made.replace("tokenizer.ggml.scores", [0.0] * count)
    made.replace("tokenizer.ggml.token_type", [6 if i < 256 else 1 for i in range(count)])
    return made


def told(path: Path) -> tuple:
    with gguftool.open(path, strict=False) as m:
        report = gguftool.lint(m)
        return [(f.rule, f.where, f.message) for f in report], report.load.verdict, parse(LocalFile(path)).end


def test_the_same_is_said(tmp_path: Path, remembered: None):
    paths = [model(word).write(tmp_path / f"{i}.gguf") for i, word in enumerate(("a", "b", "a", "a", "b"))]
    again.remember(0)
    fresh = [told(path) for path in paths]
    again.remember(ROOM)
    assert [told(path) for path in paths] == fresh
    assert [told(path) for path in paths] == fresh
    assert len(again._KNOWN) == 2


def test_one_that_differs_in_its_last_byte_is_another(tmp_path: Path, remembered: None):
    first = model("a").write(tmp_path / "a.gguf")
    data = bytearray(first.read_bytes())
    data[data.index(b"a5999")] = ord("c")
    (tmp_path / "c.gguf").write_bytes(data)
    for path, last in ((first, "a5999"), (tmp_path / "c.gguf", "c5999")):
        with gguftool.open(path) as m:
            assert m["tokenizer.ggml.tokens"][-1] == last
            from gguftool.model.vocab import vocabulary

            assert vocabulary(m).id_of(last) == 5999
            assert vocabulary(m).text(5999) == last


def test_only_so_many_and_no_model(tmp_path: Path, remembered: None):
    for i in range(12):
        path = model(f"{i:040d}").write(tmp_path / "m.gguf")
        with gguftool.open(path) as m:
            gguftool.lint(m)
            dead = weakref.ref(m)
        del m
        assert dead() is None
        assert sum(len(one.data) for one in again._KNOWN) <= ROOM
    assert again._KNOWN


def test_nothing_is_remembered_unless_asked(tmp_path: Path):
    told(model("a").write(tmp_path / "a.gguf"))
    assert not again._KNOWN
    list(gguftool.scan(tmp_path, jobs=1))
    assert not again._KNOWN
