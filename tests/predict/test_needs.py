"""What files ask of builds: the words, and what names alone tell; the timeline is a small one made up for it."""

from __future__ import annotations

from typing import Any

import pytest

from gguftool.facts import timeline
from gguftool.model import Model, from_source
from gguftool.predict import needs as room
from gguftool.predict.byname import by_names, edition
from gguftool.predict.needs import Need, needs, newest_of, sentence
from gguftool.source import Memory
from tests.build import GGUF

TIMES = {
    ("loaded_architecture", "llama"): (1000, None, None, None),
    ("loaded_architecture", "fresh"): (9000, 8000, None, None),
    ("tokenizer_model", "gpt2"): (1000, None, None, None),
    ("pre_tokenizer", "llama-bpe"): (2800, 2700, None, None),
    ("key", "tokenizer.ggml.pre"): (2750, 2700, None, None),
    ("key", "%s.attention.value_length"): (5000, 4000, None, None),
    ("tensor_type", "F32"): (1000, None, None, None),
    ("tensor_type", "MXFP4"): (6100, 5600, None, None),
    ("tensor_type", "Q4_0_4_4"): (3300, 3200, 4300, 4200),
    ("tensor_name", "blk.%d.attn_sinks"): (6100, 5600, None, None),
}


@pytest.fixture(autouse=True)
def times(monkeypatch: pytest.MonkeyPatch) -> None:
    def interval(kind: str, name: str) -> timeline.Interval | None:
        found = TIMES.get((kind, name)) or TIMES.get((kind, "%s" + name[name.find(".") :]))
        return timeline.Interval(*found, "sources") if found else None

    monkeypatch.setattr(room.timeline, "interval", interval)
    monkeypatch.setattr(timeline, "newest", lambda: 11000)
    monkeypatch.setattr(timeline, "oldest", lambda: 1000)


def model(arch: str = "llama", *, pre: str | None = None, kind: Any = "f32", **keys: Any) -> Model:
    g = GGUF().kv("general.architecture", arch).kv("tokenizer.ggml.model", "gpt2")
    for key, value in keys.items():
        g = g.kv(f"{arch}.{key.replace('__', '.')}", value)
    if pre is not None:
        g = g.kv("tokenizer.ggml.pre", pre)
    return from_source(Memory(g.tensor("blk.0.attn_sinks.weight", (32, 32), kind).bytes(), "m.gguf"), strict=False)


def test_what_a_file_asks_for() -> None:
    found = {n.what: (n.since, n.not_in) for n in needs(model("fresh", pre="llama-bpe"))}
    assert found == {
        "architecture fresh": (9000, 8000),
        "tokenizer model gpt2": (1000, None),
        "pre-tokenizer llama-bpe": (2800, 2700),
        "tensor type F32": (1000, None),
    }
    later = {n.what for n in needs(model(attention__value_length=8), ignored=True) if not n.refuses}
    assert later == {"key llama.attention.value_length", "tensor blk.%d.attn_sinks"}


def test_in_words() -> None:
    assert sentence(needs(model())) == ""
    assert newest_of(needs(model())) is None
    fresh = needs(model("fresh", pre="llama-bpe"))
    assert newest_of(fresh) == 9000
    assert sentence(fresh) == "needs llama.cpp b9000 or newer (architecture fresh; pre-tokenizer llama-bpe since b2800)"
    assert sentence(needs(model("nobody"))) == "needs what no llama.cpp up to b11000 has: architecture nobody"


def test_what_went_again() -> None:
    old = Need("tensor_type", "Q4_0_4_4", 3300, 3200, 4300, 4200)
    assert sentence([old]) == "needs llama.cpp b3300 to b4200 (tensor type Q4_0_4_4 since b3300 until b4200)"
    assert [old.there(n) for n in (3200, 3250, 3300, 4200, 4250, 4300)] == [False, None, True, True, None, False]


@pytest.mark.parametrize(
    ("build", "verdict", "line"),
    [
        (7000, "refused", "llama_model_load: error loading model: error loading model architecture: "
                          "unknown model architecture: 'fresh'"),
        (1500, "refused", "error loading model: unknown model architecture: 'fresh'"),
        (8500, "unknown", ""),
        (9000, "loads", ""),
    ],
)  # fmt: skip
def test_an_architecture_by_its_name(build: int, verdict: str, line: str) -> None:
    found = by_names(model("fresh"), build)
    assert (found.verdict, found.first_error, found.build) == (verdict, line, None)
    assert bool(found.not_evaluated) == (verdict != "refused")


def test_a_pre_tokenizer_that_no_build_read_yet_is_no_fault() -> None:
    """b2249 has no key for it: it cuts text as ever, and loads the file."""
    assert by_names(model(pre="llama-bpe"), 2249).loads
    assert by_names(model(pre="other"), 2800).first_error.endswith("unknown pre-tokenizer type: 'other'")


def test_which_code_speaks_for_a_build() -> None:
    """The nearest older; the next newer one where the build knows what the older does not know yet."""
    stored = (11000, 9500, 7000)
    assert edition(model(), 9400, stored) == (7000, "")
    assert edition(model("fresh"), 9400, stored) == (9500, "")
    assert edition(model("fresh"), 7500, stored) == (7000, "")
    assert edition(model("fresh"), 8500, stored)[1].startswith("whether llama.cpp b8500 knows architecture fresh")
    assert edition(model(), 2000, stored) == (None, "")
    assert edition(model("fresh"), 8500, (11000, 8500)) == (8500, "")
