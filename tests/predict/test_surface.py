"""One function over a model, a source, bytes, or a header that is yet to be written."""

from __future__ import annotations

from gguftool.facts import NUMBER
from gguftool.facts.editions import builds
from gguftool.format.parse import parse
from gguftool.model import from_source, with_header
from gguftool.predict import predict
from gguftool.source import Memory
from tests.build import llama
from tests.predict.recipes import built

DATA = llama(layers=2).bytes()


def test_model_source_and_bytes_are_the_same_question() -> None:
    model = from_source(Memory(DATA, "m.gguf"), strict=False)
    assert predict(model) == predict(Memory(DATA, "m.gguf")) == predict(DATA)
    assert predict(DATA).layers == 2
    assert predict(DATA).tensors == 2 + 2 * 9
    assert predict(DATA).left_aside == ()
    assert predict(DATA).first_error == ""


def test_bytes_that_are_no_gguf() -> None:
    p = predict(b"PK\3\4 and more")
    assert (p.verdict, p.first_error) == (
        "refused",
        "gguf_init_from_reader: invalid magic characters: 'PK??', expected 'GGUF'",
    )


def test_a_prediction_names_the_build_it_is_of() -> None:
    """Of a build whose code is not stored that of an older one speaks; before all of them names alone."""
    assert (predict(DATA).build, predict(DATA, build=NUMBER).build) == (NUMBER, NUMBER)
    assert predict(DATA, build=NUMBER + 1000).build == NUMBER
    stored = predict(DATA, build=9999).build
    assert stored == max(n for n in builds() if n <= 9999)
    old = predict(DATA, build=1100)
    assert (old.verdict, old.build) == ("loads", None)
    assert old.not_evaluated


def test_a_header_yet_to_be_written() -> None:
    """Of the file only the size is needed: the data is never looked at."""
    model = from_source(Memory(DATA, "m.gguf"), strict=False)
    other = llama(layers=2, llama__attention__head_count=0).bytes()
    header = parse(Memory(other), strict=False)
    planned = with_header(model, header, len(other))
    assert predict(planned) == predict(Memory(other, "m.gguf"))
    assert predict(planned).verdict != predict(model).verdict
    short = with_header(model, model.header, len(DATA) - 1)
    assert "not within the file bounds" in predict(short).first_error


def test_what_is_left_aside() -> None:
    """Layers that predict several tokens at once are known to llama.cpp and not used (`llama-model.cpp`, b11434)."""
    p = predict(built({"base": "tiny/glm4moe", "ops": []}))
    assert (p.layers, p.tensors, len(p.left_aside)) == (3, 55, 25)
    assert all(name.startswith("blk.3.") for name in p.left_aside)
    assert len(p.warnings) == 25
