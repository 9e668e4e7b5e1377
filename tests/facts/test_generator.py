"""The parser behind `scripts/facts`: C++ as model families write it becomes rows the evaluator runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from gguftool.facts.machine.ends import Refusal
from gguftool.facts.machine.hparams import DEFAULTS
from gguftool.facts.machine.program import Machine
from gguftool.facts.machine.reader import Reader
from gguftool.model import from_source
from gguftool.source import Memory
from tests.build import GGUF

FOLDER = Path(__file__).resolve().parents[2] / "scripts" / "facts"
KEYS = {"LLM_KV_WIDTH": "%s.width", "LLM_KV_WHOLE": "general.whole", "LLM_KV_PER_LAYER": "%s.per_layer"}
TENSORS = {"LLM_TENSOR_A": "blk.%d.a", "LLM_TENSOR_B": "b"}
HPARAMS = """
    ml.get_key(LLM_KV_WIDTH, hparams.n_ff_shexp);
    if (!ml.get_key(LLM_KV_WHOLE, hparams.use_par_res, false) && hparams.n_ff_shexp > 4) {
        throw std::runtime_error(format("width %u without whole", hparams.n_ff_shexp));
    }
    ml.get_key_or_arr(LLM_KV_PER_LAYER, hparams.n_ff_arr, 2, false);
    switch (hparams.n_layer()) {
        case 1: type = LLM_TYPE_1B; break;
        default: type = LLM_TYPE_UNKNOWN;
    }
"""
TENSOR_ROWS = """
    LLAMA_LOAD_LOCALS;
    const int64_t twice = hparams.n_ff_shexp * 2;
    output = create_tensor(tn(LLM_TENSOR_B, "weight"), {n_embd, twice}, TENSOR_NOT_REQUIRED);
    if (output == NULL) {
        output = create_tensor(tn(LLM_TENSOR_B, "bias"), {n_embd}, 0);
    }
    for (int i = 0; i < n_layer; ++i) {
        auto & layer = layers[i];
        int flags = i % 2 ? TENSOR_NOT_REQUIRED : 0;
        layer.wq = create_tensor(tn(LLM_TENSOR_A, "weight", i), {n_embd / 2, hparams.n_ff(i)},
                                 flags | TENSOR_DUPLICATED);
    }
    something.unreadable<int>(1);
"""


@pytest.fixture
def translated(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], list[Any], list[str]]:
    monkeypatch.syspath_prepend(str(FOLDER))
    mine = {"source", "statements", "rows", "expressions", "cpp_operators", "cpp_ends", "words"}
    for name in mine:
        monkeypatch.delitem(sys.modules, name, raising=False)
    from rows import compact, used_names
    from source import Tables
    from statements import Statements

    types = {"n_ff_shexp": "uint32_t", "use_par_res": "bool", "n_ff_arr": "std::array<uint32_t, LLAMA_MAX_LAYERS>"}
    tables = Tables(Path(), keys=KEYS, tensors=TENSORS, types=types)
    parts = {}
    skipped: list[str] = []
    for part, text in (("hparams", HPARAMS), ("tensors", TENSOR_ROWS)):
        parser = Statements(text, tables)
        parts["x", part] = parser.rows()
        skipped += parser.skipped
    used = used_names(parts)
    return (*(compact(rows, part, used, False) for (_, part), rows in parts.items()), skipped)  # type: ignore[return-value]


def test_rows(translated: tuple[list[Any], list[Any], list[str]]) -> None:
    hparams, tensors, skipped = translated
    assert hparams[0] == ["key", "width", "u32", "h.n_ff_shexp", 1]
    assert hparams[1][0] == "if"
    assert hparams[1][1] == "not key('=general.whole', 'bool', 'h.use_par_res', False) and h.n_ff_shexp > 4"
    assert hparams[2] == ["do", "each('per_layer', 'u32', 2, 512, 'h.n_ff_arr', False)"]
    assert len(hparams) == 3  # the size label decides nothing
    assert tensors[1] == ["tensor", "b.weight", "", ["n_embd", "twice"], "optional", "output"]
    loop = tensors[3]
    assert loop[:4] == ["for", "i", "0", "n_layer"]
    assert loop[4][1] == ["tensor", "blk.%d.a.weight", "i", ["n_embd // 2", "n_ff(i)"], "flags | DUPLICATED", "wq"]
    assert [row[0] for row in tensors].count("unknown") == 1
    assert len(skipped) == 1


def test_the_evaluator_runs_them(translated: tuple[list[Any], list[Any], list[str]]) -> None:
    hparams, tensors, _ = translated

    def machine(g: GGUF) -> Machine:
        fields = from_source(Memory(g.bytes(), "m"), strict=False).fields
        h = {**DEFAULTS, "n_layer_all": 2, "n_layer_nextn": 0, "n_embd": 8, "n_ff_arr": [0] * 512}
        return Machine(Reader(fields, "x"), h)

    with pytest.raises(Refusal, match="width 6 without whole"):
        machine(GGUF("x").kv("x.width", 6)).run(hparams)
    m = machine(GGUF("x").kv("x.width", 3).kv("x.per_layer", [5, 7], "[u32]"))
    m.run(hparams)
    asked = []
    m.ask = lambda name, index, shape, flags, *rest: bool(asked.append((name, shape, flags)))
    m.names |= {"n_embd": 8, "n_layer": 2}
    m.run(tensors[:4])
    assert asked == [
        ("b.weight", [8, 6], 1),
        ("b.bias", [8], 0),
        ("blk.0.a.weight", [4, 5], 2),
        ("blk.1.a.weight", [4, 7], 3),
    ]
