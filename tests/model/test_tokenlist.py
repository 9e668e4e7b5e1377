"""Tokens are found in the bytes of their list as a walk over all of them finds them, whatever stands in them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gguftool.facts.editions import builds, edition
from gguftool.facts.tokens import ids
from gguftool.format.header import Field
from gguftool.format.parse import parse, parse_bytes
from gguftool.format.strings import STEP
from gguftool.format.vocabularies import KNOWN, digest
from gguftool.model import open_model, stringlist
from gguftool.model.tokenlist import TokenList, sound, split_strings, token_list
from gguftool.model.vocab import MERGES, TOKENS, vocabulary
from gguftool.predict import predict
from gguftool.records import replace
from gguftool.source import LocalFile
from tests.build import GGUF
from tests.chat.test_server import corpus
from tests.real_models import GEMMA3, SMOLLM2, ensure


def words(kind: str, count: int) -> list[bytes]:
    rng = random.Random(kind)
    letters = {"plain": b"abc<[|>\xe2\x96\x81", "zeros": b"a<\0\0\0\0\0\0\0\0\x01\x02", "long": b"ab<"}[kind]
    found = [bytes(rng.choices(letters, k=rng.randrange(12))) for _ in range(count)]
    if kind != "plain":
        found[count // 2] = bytes(rng.choices(letters, k=70_000))
        found[count // 3] = bytes(7) + b"<" * 300 + bytes(9)
    found[5 % count] = found[-1]
    return found


@pytest.mark.parametrize("kind", ["plain", "zeros", "long"])
@pytest.mark.parametrize("count", [1, 70, STEP, STEP + 1, 3 * STEP + 7])
@pytest.mark.parametrize(("order", "version"), [("little", 3), ("little", 1), ("big", 3)])
def test_every_question_is_answered_as_by_a_walk(kind: str, count: int, order: str, version: int):
    texts = words(kind, count)
    g = GGUF("llama").kv(TOKENS, texts).version(version)
    f = parse_bytes((g.big_endian() if order == "big" else g).bytes()).get(TOKENS)
    assert f is not None
    last = {text: i for i, text in enumerate(texts)}
    rng = random.Random(count)
    some = [*rng.sample(texts, min(count, 40)), texts[-1], b"", b"<", b"\0", b"<absent>", b"a" * 300]
    for counted_first in (False, True):
        tokens = token_list(f)
        if counted_first:
            assert tokens.distinct == len(last)
        for text in some:
            asked = text.decode("utf-8", "surrogateescape")
            assert (tokens.find(asked), tokens.has(asked)) == (last.get(text), text in last)
        assert [tokens.raw(i) for i in range(count)] == texts
        order_ = rng.sample(range(count), min(count, 60))
        assert [tokens.raw(i, 3) for i in order_] == [texts[i][:3] for i in order_]
        assert (tokens.raw(-1), tokens.raw(count)) == (b"", b"")
        assert tokens.longer(255) == [i for i, text in enumerate(texts) if len(text) > 255]
        size = f.layout.length_size
        assert [r[size:] for r in tokens.records] == [r[size:] for r in split_strings(f)] == texts


def test_what_was_learnt_of_an_array_is_not_said_of_another():
    f = parse_bytes(GGUF("llama").kv(TOKENS, ["a"] * 3000).bytes()).get(TOKENS)
    assert f is not None
    assert f.strings is not None
    assert replace(f, buffer=memoryview(f.raw)).strings is None


VOCABULARIES = "baichuan bert-bge deepseek-coder falcon gpt-2 llama-bpe llama-spm qwen2 refact starcoder".split()


@pytest.mark.parametrize("name", VOCABULARIES)
def test_what_has_a_digest_is_sound(name: str):
    # The larger ones take seconds; all of them are parsed below.
    _known(corpus() / f"ggml-vocab-{name}.gguf", sound_too=name not in ("llama-bpe", "qwen2", "falcon"))


@pytest.mark.real
@pytest.mark.parametrize("model", [SMOLLM2, GEMMA3])
def test_and_that_of_real_models(model):
    _known(ensure(model), sound_too=model is SMOLLM2)


def _known(path: Path, sound_too: bool) -> None:
    header = parse(LocalFile(path))
    for at, key in enumerate((TOKENS, MERGES)):
        f = header.get(key)
        if f is None:
            continue
        assert f.strings is not None
        known = KNOWN[f.strings.name]
        assert digest(f.count or 0, f.value_bytes) == known.digests[at]
        assert not sound_too or sound(f)
    _looked_up(header.get(TOKENS))


def _looked_up(f: Field | None) -> None:
    """What the table says of each text is what a search finds in the bytes."""
    assert f is not None
    assert f.strings is not None
    told, data = ids(f.strings.name), bytes(f.value_bytes)
    prefix = [len(text.encode()).to_bytes(8, "little") + text.encode() for text in told]
    places = {record: data.find(record) for record in prefix}
    numbers = {place: i for i, place in enumerate(_places(data, f.count or 0))}
    assert list(told.values()) == [numbers[places[record]] if places[record] >= 0 else None for record in prefix]
    assert all((token_list(f).find(text), token_list(f).has(text)) == (i, i is not None) for text, i in told.items())


def _places(data: bytes, count: int) -> Iterator[int]:
    at = 0
    for _ in range(count):
        yield at
        at += 8 + int.from_bytes(data[at : at + 8], "little")


def test_all_that_llama_cpp_looks_up_is_answered_of_every_known_vocabulary():
    names = {text for build in (*builds()[:2], builds()[-1]) for text in _of(edition(build)("vocabulary.json"))}
    known = [name for name, vocabulary_ in KNOWN.items() if vocabulary_.digests[0]]
    assert all(names <= set(ids(name)) for name in known)
    assert ids(0) == ids(KNOWN_WITHOUT) == {}


KNOWN_WITHOUT = next(name for name, vocabulary_ in KNOWN.items() if not vocabulary_.digests[0])
"""One of which the tokens have no digest."""


def _of(lists: Mapping[str, object]) -> Iterator[str]:
    for group, texts in lists.items():
        if isinstance(texts, list) and group != "pre":
            yield from texts


@pytest.mark.real
@pytest.mark.parametrize("model", [SMOLLM2, GEMMA3])
def test_the_load_of_a_known_vocabulary_is_foretold_without_a_search(model, monkeypatch: pytest.MonkeyPatch):
    searched = []
    monkeypatch.setattr(TokenList, "_find", lambda self, text: searched.append(text))
    with open_model(ensure(model), strict=False) as m:
        assert predict(m).ok
    # Of the empty text it is known without one.
    assert set(searched) <= {""}


@pytest.mark.real
def test_a_known_list_is_one_to_its_last_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with ensure(SMOLLM2).open("rb") as whole:
        data = bytearray(whole.read(4 << 20))
    at = data.index(b"tokenizer.ggml.token_type") - 9
    made = []
    real = stringlist.StringList.chunks
    monkeypatch.setattr(stringlist.StringList, "chunks", lambda self: made.append(self.count) or real(self))
    for changed in (False, True):
        if changed:
            data[at] ^= 1
        (tmp_path / "m.gguf").write_bytes(data)
        with open_model(tmp_path / "m.gguf", strict=False) as m:
            f = m.fields[TOKENS]
            v = vocabulary(m)
            tokens = f.value
            assert f.strings is not None
            assert (f.strings.name != 0) is not changed
            assert [v.raw(i).decode() for i in (0, 1, 2, 700, 30_000, 49_151)] == [
                tokens[i]
                for i in (0, 1, 2, 700, 30_000, 49_151)  # type: ignore[index]
            ]
            for i in (0, 17, 5000, 49_151):
                assert v.id_of(tokens[i]) == i  # type: ignore[index]
            assert v.id_of("<absent>") is v.id_of("absent from it") is v.id_of("") is None
            assert v.distinct == 49_152
            assert bool(made) is changed
