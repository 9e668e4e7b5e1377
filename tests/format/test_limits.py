"""What is read of a header at most, also where a sparse file has more; the files of `tests/fuzz/costly.py`."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import pytest

from gguftool.errors import FormatError
from gguftool.format import limits
from gguftool.format.header import MANY, NAME, Field
from gguftool.format.parse import parse, parse_bytes
from gguftool.model import from_source
from gguftool.source import LocalFile, Memory
from tests.build import GGUF, llama
from tests.fuzz.costly import CASES
from tests.fuzz.sparse import dense, vocabulary

ENDS = {
    "nested": "nested-array",
    "fields": "too-many",
    "tensors": "too-many",
    "tensors-100000": "tensor-duplicate",
    "tokens-beyond": "too-many",
    "numbers-beyond": "too-many",
    "keys-longer": "too-many",
    "string-beyond": "too-large",
}


@pytest.mark.parametrize("name", ENDS)
def test_a_sparse_file_is_read_to_the_limit(tmp_path: Path, name: str) -> None:
    CASES[name]().write(tmp_path / "m.gguf")
    tracemalloc.start()
    with pytest.raises(FormatError) as e:
        parse(LocalFile(tmp_path / "m.gguf"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert e.value.kind == ENDS[name]
    assert e.value.exit_code == 3
    assert peak < 32 << 20


def zeros(fields: int) -> bytes:
    """Fields of 13 zero bytes: all have the empty key."""
    g = GGUF("llama")
    for _ in range(fields):
        g.raw_kv(bytes(13))
    return g.bytes()


def test_a_few_empty_keys_are_read_and_many_are_not() -> None:
    few = parse_bytes(zeros(limits.FORGIVEN))
    assert len(few.fields) == 1 + limits.FORGIVEN
    with pytest.raises(FormatError) as e:
        parse_bytes(zeros(limits.FORGIVEN + 1))
    assert e.value.kind == "key-empty"


def test_a_few_repeated_keys_are_read_and_many_are_not() -> None:
    g = GGUF("llama")
    for _ in range(limits.FORGIVEN + 1):
        g.kv("a", 1)
    assert len(parse_bytes(g.bytes()).fields) == limits.FORGIVEN + 2
    with pytest.raises(FormatError) as e:
        parse_bytes(g.kv("a", 1).bytes())
    assert e.value.kind == "key-duplicate"
    assert e.value.key == "a"


def test_what_real_models_have_is_read(tmp_path: Path) -> None:
    vocabulary(1 << 20).write(tmp_path / "m.gguf")
    assert parse(LocalFile(tmp_path / "m.gguf")).fields[-1].count == 1 << 20
    out = dense(50_000, tensors=True)
    out.write(tmp_path / "n.gguf")
    assert len(parse(LocalFile(tmp_path / "n.gguf")).tensors) == 50_000
    CASES["string"]().write(tmp_path / "o.gguf")
    assert parse(LocalFile(tmp_path / "o.gguf")).complete


class Counting(LocalFile):
    """How often the file was read."""

    reads = 0

    def read_at(self, offset: int, n: int) -> bytes:
        self.reads += 1
        return super().read_at(offset, n)


def test_no_record_is_walked_again_when_the_buffer_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The lengths of the strings misguide: the first are short, so that the buffer grows again and again in one array.
    tokens = ["a"] * 40_000 + ["b" * 400] * 40_000
    path = llama().replace("tokenizer.ggml.tokens", tokens).write(tmp_path / "m.gguf")
    from gguftool.format import walk as module

    walked = []
    real = module.Walk.string
    monkeypatch.setattr(module.Walk, "string", lambda walk, what: walked.append(what) or real(walk, what))
    counted = limits.Counted.tensor
    monkeypatch.setattr(limits.Counted, "tensor", lambda own, name, n: walked.append("tensor") or counted(own, name, n))
    source = Counting(path)
    h = parse(source)
    assert source.reads > 2
    assert h.get("tokenizer.ggml.tokens").value == tokens  # type: ignore[union-attr]
    assert walked.count("key") == len(h.fields)
    assert walked.count("tensor") == len(h.tensors)


def test_of_a_long_text_only_what_is_shown_is_decoded() -> None:
    text = "é" * (4 << 20)
    f = parse_bytes(GGUF("llama").kv("general.name", text).bytes()).fields[1]
    tracemalloc.start()
    assert f.told == "é" * (1 << 19)
    assert len(f.shown()) < 200
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20
    assert f.value == text


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_text_is_not_cut_inside_a_character(cut: int) -> None:
    from gguftool.format.decode import value
    from gguftool.format.types import STR, Layout

    data = "a€😀é".encode()
    shown = value(STR, memoryview(struct.pack("<Q", len(data)) + data), Layout(), cut)
    assert shown == next(w for n in (4, 3, 2, 1, 0) if len((w := "a€😀é"[:n]).encode()) <= cut)


def test_of_a_long_list_only_the_beginning_is_told_and_all_is_its_value() -> None:
    f = parse_bytes(GGUF("llama").kv("general.tags", ["a"] * (MANY + 9)).bytes()).fields[1]
    assert f.told == ["a"] * MANY
    assert f.value == ["a"] * (MANY + 9)
    n = parse_bytes(GGUF("llama").kv("x.n", [7] * (MANY + 9)).bytes()).fields[1]
    assert len(n.told) == MANY  # type: ignore[arg-type]
    assert len(n.value) == MANY + 9  # type: ignore[arg-type]


def test_an_architecture_of_100_mb_stands_in_no_key_or_sentence() -> None:
    h = parse_bytes(GGUF("😀" * 1000).kv("general.name", "b" * 2000).bytes())
    assert h.fields[0].told == "😀" * (NAME // 4)
    assert h.fields[0].untold == 4000 - NAME
    assert h.fields[1].told == "b" * 2000
    assert h.fields[1].untold == 0


def test_a_list_in_the_place_of_a_word_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    m = from_source(
        Memory(GGUF("llama").kv("general.name", ["a"] * (MANY + 1)).kv("general.tags", list(range(MANY + 1))).bytes())
    )
    decoded = []
    real = Field.value.fget
    monkeypatch.setattr(Field, "value", property(lambda f: decoded.append(f.key) or real(f)))
    for _ in range(3):
        found = m.get("general.name")
        assert found == ["a"] * (MANY + 1)
        found.clear()  # type: ignore[attr-defined]
        assert len(m.get("general.tags")) == MANY + 1  # type: ignore[arg-type]
    assert decoded.count("general.name") == 1
