"""The tensors as witness of wrong number keys: what is put right is what the model was made with, or nothing is."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from gguftool.edit.ops import Set, apply
from gguftool.lint.fixes import collect
from gguftool.lint.rule import Finding, Severity
from gguftool.lint.run import lint
from gguftool.model import Model, from_source, with_header
from gguftool.predict import predict, solve
from tests.build import GGUF, llama
from tests.pace import within
from tests.predict.recipes import Hole, bases, built

ROOT = Path(__file__).resolve().parents[2]


def _sweep() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sweep", ROOT / "scripts" / "sweep.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["sweep"] = module
    spec.loader.exec_module(module)
    return module


SWEEP = _sweep()
HEADERS = [b for b in sorted(bases()) if b.startswith("archs/")]


def model(g: GGUF) -> Model:
    data = g.bytes()
    return from_source(Hole(data, "m.gguf", len(data)), strict=False)


def wrong(base: str, **keys: int) -> Model:
    ops = [{"op": "set", "key": k.replace("__", "."), "type": "u32", "value": v} for k, v in keys.items()]
    return from_source(built({"base": base, "ops": ops}), strict=False)


def fixes(m: Model) -> dict[str, object]:
    """What the fixes of the errors write."""
    found = [f for f in lint(m).findings if f.severity is Severity.ERROR and f.fix is not None]
    return {op.key: op.value for f in found for op in f.fix.operations}  # type: ignore[union-attr]


def errors(m: Model) -> list[Finding]:
    return [f for f in lint(m).findings if f.severity is Severity.ERROR]


def test_a_sound_model_asks_no_question():
    for base in HEADERS[::6]:
        assert solve(wrong(base)).fault == "", base


def test_one_wrong_key_in_real_headers():
    """Some headers of the sweep that scripts/sweep.py does whole: no fix writes a wrong value into a right key."""
    counts: dict[str, int] = {}
    for one in SWEEP.singles(HEADERS[3::12]):
        assert one.wrong == (), one
        counts[one.verdict] = counts.get(one.verdict, 0) + 1
        # Only what no tensor depends on stays unfound, and only a number of experts used cannot be told.
        if one.verdict == "none":
            assert one.keys[0].endswith("expert_used_count"), one
    assert counts["safe"] > 0.8 * (sum(counts.values()) - counts.get("silent", 0))


def test_two_wrong_keys_never_load_with_wrong_numbers():
    """After --fix and --fix-unsafe the file either does not load or has the numbers it was made with."""
    import random

    rnd = random.Random(7)
    for _ in range(20):
        base = rnd.choice(HEADERS)
        ways = dict(rnd.sample(list(SWEEP.steps(SWEEP.header(base))), k=2))
        sound, m = SWEEP.header(base), SWEEP.header(base, ways)
        if predict(m).ok:
            continue  # nothing in the file speaks against these numbers
        for unsafe in (False, True):
            done = collect(m, unsafe=unsafe)
            for op in done.operations:
                if not isinstance(op, Set):
                    continue
                key, value = op.key, op.value
                if key in ways or (key in sound and key.startswith(f"{sound.architecture}.")):
                    assert sound[key] == value, (base, ways, op)


def test_more_kv_heads_than_the_keys_are_wide():
    """head_count_kv 4 where attn_k has 32 rows: two heads of 16, as attn_q, head_count and the rotation say."""
    m = model(
        llama(llama__attention__head_count_kv=4)
        .drop("llama.attention.head_count_kv")
        .kv("llama.attention.head_count_kv", 4)
    )
    assert fixes(m) == {"llama.attention.head_count_kv": 2}
    (finding,) = errors(m)
    assert "llama.attention.head_count 8" in finding.message  # the other reading, with another rotation
    assert finding.fix is not None
    assert not finding.fix.safe
    assert collect(m, unsafe=True).operations == tuple(collect(m).operations)


def test_kv_heads_that_fit_no_other_way_are_safe():
    """SmolLM2: 9 heads of 64, attn_k with 192 rows: 3 KV heads, whatever else is believed."""
    g = llama().replace("llama.attention.head_count", 9).replace("llama.attention.head_count_kv", 9)
    g = g.replace("llama.embedding_length", 576).replace("llama.rope.dimension_count", 64)
    wide = {64: 576, 32: 192}
    for t in g._tensors:
        t["shape"] = tuple(wide.get(n, n) for n in t["shape"])
    m = model(g)
    (finding,) = errors(m)
    assert fixes(m) == {"llama.attention.head_count_kv": 3}
    assert finding.fix is not None
    assert finding.fix.safe


def test_a_rotation_against_the_heads_is_left_to_people():
    """18 heads for 9, 6 KV heads for 3: only the rotation tells, and it is not overwritten."""
    g = llama().replace("llama.attention.head_count", 8).replace("llama.attention.head_count_kv", 4)
    m = model(g)
    (finding,) = errors(m)
    assert finding.fix is None or not finding.fix.operations
    assert "llama.rope.dimension_count 8" in finding.message
    assert "llama.attention.head_count 4 and llama.attention.head_count_kv 2" in finding.message
    readings = finding.data["readings"]
    assert isinstance(readings, list)
    assert any("--set llama.attention.head_count=4 --set llama.attention.head_count_kv=2" in line for line in readings)
    assert not any(getattr(op, "key", "").startswith("llama.attention.") for op in collect(m, unsafe=True).operations)


def test_a_head_size_is_put_right_and_the_rotation_left_alone():
    m = wrong("archs/glm4-dense", glm4__attention__key_length=64)
    assert fixes(m) == {"glm4.attention.key_length": 128}
    (finding,) = errors(m)
    assert finding.rule == "head-size-mismatch"


def glm4moe(block_count: int, nextn: int) -> Model:
    """Two ordinary layers and no layer that predicts further tokens (a merge that did not save it)."""
    ops: list[dict[str, object]] = [
        {"op": "set", "key": "glm4moe.block_count", "type": "u32", "value": block_count},
        {"op": "set", "key": "glm4moe.nextn_predict_layers", "type": "u32", "value": nextn},
    ]
    names = [t.name for t in wrong("tiny/glm4moe").all_tensors()]
    ops += [{"op": "del_tensor", "name": n} for n in names if n.startswith(("blk.2.", "blk.3."))]
    return from_source(built({"base": "tiny/glm4moe", "ops": ops}), strict=False)


def test_a_prediction_layer_that_was_not_saved():
    m = glm4moe(3, 1)
    assert fixes(m) == {"glm4moe.block_count": 2, "glm4moe.nextn_predict_layers": 0}
    header = apply(next(f for f in errors(m) if f.fix).fix.operations, m.header)  # type: ignore[union-attr]
    after = predict(with_header(m, header))
    assert after.loads
    assert after.layers == 2
    assert not after.left_aside


def test_an_ordinary_last_layer_counted_as_a_prediction_layer_is_an_error():
    m = glm4moe(2, 1)
    before = predict(m)
    assert before.loads
    assert before.layers == 1
    (finding,) = errors(m)
    assert finding.rule == "nextn-layers"
    assert "a layer is left out" in finding.message
    assert fixes(m) == {"glm4moe.nextn_predict_layers": 0}


def test_a_prediction_layer_that_is_not_counted():
    m = wrong("tiny/glm4moe", glm4moe__nextn_predict_layers=0, glm4moe__block_count=3)
    assert fixes(m) == {"glm4moe.block_count": 4, "glm4moe.nextn_predict_layers": 1}


@pytest.mark.parametrize("base", [b for b in sorted(bases()) if b.startswith("giants/")])
def test_the_search_is_bounded(base: str):
    m = wrong(base)
    key = f"{m.architecture}.attention.head_count"
    value = m.get(key)
    if not isinstance(value, int):
        pytest.skip("one number a layer")
    m = wrong(base, **{key.replace(".", "__"): value * 2})
    with within(4):
        solve(m)  # about 1 s
