"""Hostile files: damaged headers, odd types, shapes and lengths never trip a rule, and cost no time."""

from __future__ import annotations

import json
import random
import time

import pytest

from tests.lint.samples import ready, report_of


@pytest.fixture(autouse=True)
def _no_swallowed_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGUFTOOL_DEBUG", "1")


@pytest.mark.parametrize("seed", range(20))
def test_damaged_headers_never_trip_a_rule(seed: int) -> None:
    """Bytes flipped, cut and repeated: findings or a format error, never an exception of a rule."""
    rng = random.Random(seed)
    base = ready().kv("tokenizer.chat_template", "{{ messages[0].content }}").bytes()
    header = len(ready().header())
    for _ in range(12):
        raw = bytearray(base)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(8, header)
            raw[at] = rng.choice((0, 1, 255, 128, rng.randrange(256)))
        if rng.random() < 0.2:
            raw = raw[: rng.randrange(24, len(raw))]
        report = report_of(bytes(raw))
        assert [n for n in report.not_evaluated if "the rule itself failed" in n.why] == []
        json.dumps([f.data.get("llama_cpp") for f in report])


def test_retyped_values_never_trip_a_rule() -> None:
    """Every key with every other type: a rule may find fault, not fall over."""
    values = {
        "u8": 1, "i32": -1, "u64": 1 << 63, "f32": float("nan"), "f64": 1e300, "bool": True, "str": "\udcff x",
        "[str]": ["a"], "[u32]": [], "[f32]": [float("inf")], "[bool]": [True, False],
    }  # fmt: skip
    keys = [e[0] for e in ready()._kv if isinstance(e, tuple)]
    extra = """
        llama.expert_count llama.expert_used_count llama.rope.scaling.type llama.rope.scaling.factor split.no
        llama.attention.sliding_window llama.attention.sliding_window_pattern split.count general.type
        split.tensors.count
        tokenizer.chat_template general.sampling.temp tokenizer.ggml.merges llama.attention.key_length gguftool.pad
        general.quantization_version tokenizer.ggml.pre
    """.split()
    for key in (*keys, *extra):
        for type_name, value in values.items():
            report_of(ready().replace(key, value, type_name))


@pytest.mark.parametrize("shape", [(), (0,), (0, 0), (1,) * 1000], ids=str)
@pytest.mark.parametrize("name", ["token_embd.weight", "blk.0.attn_q.weight", "output_norm.weight"])
def test_odd_shapes_never_trip_a_rule(name: str, shape: tuple[int, ...]) -> None:
    report_of(ready().retensor(name, shape=shape, data=b""), load=True)


def test_hostile_lengths_cost_no_time() -> None:
    """Names and texts of a megabyte, a tensor with a hundred thousand dimensions: told, not pondered."""
    text = "llama.context_lenght" * 50_000
    started = time.process_time()
    for g in (
        ready().kv(text, 1),
        ready().tensor(text, (32, 4)),
        ready().replace("general.architecture", text),
        ready().replace("tokenizer.ggml.model", text).kv("tokenizer.ggml.pre", text),
        ready().kv("general.author", "\u202e" + text),
        ready().retensor("blk.0.attn_q.weight", shape=(2,) * 100_000, data=b""),
    ):
        report = report_of(g, load=True)
        assert len(report) > 0
    assert time.process_time() - started < 5
