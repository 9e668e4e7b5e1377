"""Speculative decoding foretold: what becomes of a draft beside its target, held against the real server (b11434)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gguftool.model import Model, from_source
from gguftool.model.drafting import KINDS, drafting, drafts_itself
from gguftool.predict import predict
from gguftool.predict.pairs import misfits
from gguftool.predict.pairs.draft import NOTHING, by_itself, misfits_as
from gguftool.predict.pairs.misfit import ABORTS, HARM, IGNORED, OUTCOMES, REFUSED, Misfit
from gguftool.source import Memory
from tests.build import GGUF, llama
from tests.draft_cases import PAIRS
from tests.speculators import dflash, eagle3, gemma4_assistant, glm, glm4

RECORD = Path(__file__).resolve().parents[1] / "data" / "llamacpp" / "drafts.jsonl"
RECORDED: dict[str, dict[str, Any]] = {r["pair"]: r for r in map(json.loads, RECORD.read_text().splitlines())}


def opened(g: GGUF, name: str = "model.gguf") -> Model:
    return from_source(Memory(g.bytes(), name), strict=False)


def foretold(pair: str) -> list[Misfit]:
    """What is said of a pair, for all kinds that are asked for; of none, that nothing is drafted."""
    make_target, make_draft, kind = PAIRS[pair]
    target = opened(make_target())
    if make_draft is None:
        return [m for k in kind.split(",") if k in KINDS for m in by_itself(target, k)]
    draft = opened(make_draft(), "draft.gguf")
    load = predict(draft)
    if load.verdict not in ("loads", "warns"):
        return list(misfits(target, draft))
    made = drafting(draft)
    if not kind and not made.told:
        return [Misfit("spec-type", IGNORED, "", (NOTHING,))]
    return [m for k in (kind or made.kind).split(",") if k in KINDS for m in misfits_as(target, draft, k)]


def happened(pair: str) -> str:
    """In the same words: what the server did; "" when it drafted."""
    r = RECORDED[pair]
    if r["code"] is not None:
        return ABORTS if r["code"] < 0 else REFUSED
    return "" if r["drafted"] else IGNORED


def test_the_record_is_of_these_pairs():
    assert list(RECORDED) == list(PAIRS)
    assert len(PAIRS) > 80


# Byte pairs without a token for a letter: nothing to ask, so nothing is drafted although they fit.
UNASKED = {"both byte pairs", "byte pairs, other pre"}


@pytest.mark.parametrize("pair", [p for p in PAIRS if p not in UNASKED and p != "ngram"])
def test_what_is_foretold_is_what_the_server_does(pair: str):
    said = foretold(pair)
    worst = min((m.outcome for m in said), key=OUTCOMES.index, default="")
    assert (worst if worst != HARM else "") == happened(pair)
    lines = RECORDED[pair]["said"]
    for m in said:
        if m.outcome == worst and m.stops:
            for line in m.said:
                assert any(" ".join(line.split()) in x for x in lines), (line, lines)


@pytest.mark.parametrize("pair", sorted(UNASKED))
def test_a_vocabulary_of_the_same_kind_fits_whatever_its_pre_tokenizer(pair: str):
    assert foretold(pair) == []
    assert not any("not compatible" in line for line in RECORDED[pair]["said"])


def test_the_kind_of_each_file():
    assert [drafting(opened(g)).kind for g in (llama(), eagle3(), dflash(), dflash(markov=True), glm())] == [
        "draft-simple", "draft-eagle3", "draft-dflash", "draft-dspark", "draft-mtp",
    ]  # fmt: skip
    assert drafting(opened(gemma4_assistant())).kind == "draft-mtp"
    assert [drafts_itself(opened(g)) for g in (glm(), glm(heads=False), glm4(), glm(two=True), llama())] == [
        1,
        0,
        0,
        0,
        0,
    ]


def test_a_head_says_what_it_needs():
    d = drafting(opened(eagle3(own=False)))
    assert (d.width, d.layers, d.borrows) == (64, (0, 1, 1), ("token_embd.weight", "output.weight"))
    d = drafting(opened(dflash()))
    assert (d.width, d.layers, d.block, d.borrows) == (64, (0, 1), 4, ())


@pytest.mark.parametrize("pair", ["token 5 differs", "129 tokens more", "other bos", "add_eos on"])
def test_what_differs_is_named(pair: str):
    (m,) = foretold(pair)
    assert m.rule == "pair-vocabulary"
    told = RECORDED[pair]["said"][0]
    assert str(m.data["line"]) in told
