"""The biases of keys: read where they are few, and left alone where they are not."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from gguftool.lint.run import lint
from gguftool.model import Model, from_source, with_header
from gguftool.model.biases import MOST_BYTES, largest_k_bias
from gguftool.source import Memory
from tests.build import GGUF, llama

NAME = "blk.0.attn_k.bias"


def model(g: GGUF) -> Model:
    return from_source(Memory(g.bytes(), "m.gguf"), strict=False)


@pytest.mark.parametrize(("kind", "code"), [("f32", "f"), ("f16", "e")])
def test_sizes(kind: str, code: str) -> None:
    data = struct.pack(f"<8{code}", 1, -70, 3, 4, 5, 6, 7, 8)
    assert largest_k_bias(model(llama().tensor(NAME, (8,), kind, data))) == 70.0


def test_bf16_is_the_upper_half_of_a_float() -> None:
    halves = [struct.unpack("<I", struct.pack("<f", x))[0] >> 16 for x in (1.5, -130.0)]
    assert largest_k_bias(model(llama().tensor(NAME, (2,), "bf16", struct.pack("<2H", *halves)))) == 130.0


def test_none_and_too_many() -> None:
    assert largest_k_bias(model(llama())) == 0.0
    assert largest_k_bias(model(llama().tensor(NAME, (MOST_BYTES,), "f32", bytes(4 * MOST_BYTES)))) is None
    assert largest_k_bias(model(llama().tensor(NAME, (32,), "q8_0"))) is None


class Far:
    """Bytes that are not here."""

    def __init__(self, data: bytes) -> None:
        self.data, self.name, self.size = data, "https://example.org/m.gguf", len(data)

    def read_at(self, offset: int, n: int) -> bytes:
        return self.data[offset : offset + n]

    def close(self) -> None:
        pass


def test_the_rule_says_nothing_of_what_it_has_not_read() -> None:
    def rule(m: Any) -> tuple[int, list[str]]:
        report = lint(m, select=["kv-cache-type-weak-k"], load=False)
        return len(report), [n.why for n in report.not_evaluated]

    large = struct.pack("<8f", *[60.0] * 8)
    g = llama(arch="qwen2").kv("qwen2.kv_cache_type", "q4_0").tensor(NAME, (8,), "f32", large)
    near = model(g)
    assert rule(near) == (1, [])
    assert rule(model(g.copy().retensor(NAME, data=bytes(32)))) == (0, [])
    for elsewhere in (from_source(Far(g.bytes()), strict=False), with_header(near, near.header)):
        n, why = rule(elsewhere)
        assert n == 0
        assert "not read from afar" in why[0]
    short = from_source(Memory(g.bytes()[:-64], "m.gguf"), strict=False)
    n, why = rule(short)
    assert (n, "cannot be read" in why[0]) == (0, True)
