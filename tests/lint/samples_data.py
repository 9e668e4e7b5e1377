"""Data: weights that are no numbers, broken scales, zeros."""

from __future__ import annotations

import struct

from gguftool.lint.rule import Context
from tests.build import GGUF
from tests.lint.samples import Sample

READ = Context(data=True)
F32 = struct.pack("<64f", *(i / 64 + 0.5 for i in range(64)))
# q8_0: a half-precision scale and 32 signed bytes a block
Q8 = (struct.pack("<e", 0.01) + bytes(range(32))) * 4


def one(data: bytes, type: str = "f32", shape: tuple[int, ...] = (16, 4)) -> GGUF:
    return GGUF("llama").tensor("blk.0.attn_q.weight", shape, type, data)


def q8(scale: float) -> GGUF:
    return one(Q8[:34] + struct.pack("<e", scale) + Q8[36:], "q8_0", (32, 4))


W = "tensor:blk.0.attn_q.weight"
SAMPLES = [
    # case 78: the last float is NaN
    Sample("data-not-finite", one(F32[:-4] + struct.pack("<f", float("nan"))), W, "1 NaN of 64 elements", one(F32),
           severity="error", fix="", context=READ),
    Sample("data-not-finite", one(struct.pack("<f", float("inf")) + F32[4:]), W, "1 infinite of 64", one(F32),
           context=READ),
    Sample("data-bad-scale", q8(float("nan")), W, "1 of 4 blocks; first at block 1", q8(0.02), severity="error",
           context=READ),
    Sample("data-bad-scale", q8(float("inf")), W, "infinite", q8(0.02), context=READ),
    Sample("data-type-not-for-files", GGUF("llama").tensor("w", (32, 1), 9, bytes(range(36))), "tensor:w",
           "of type Q8_1", one(F32), context=READ),
    Sample("data-all-zero", one(bytes(256)), W, "all 64 elements", one(F32), severity="warning", context=READ),
    Sample("data-all-zero", GGUF("llama").tensor("b.bias", (16,), "f32", bytes(64)), "tensor:b.bias", severity="info",
           silent=one(F32), context=READ),
    # A row, but what it was made for.
    Sample("data-all-zero", GGUF("controlvector").tensor("direction.1", (16,), "f32", bytes(64)), "tensor:direction.1",
           severity="warning", silent=GGUF("controlvector").tensor("direction.1", (64,), "f32", F32), context=READ),
    Sample("data-constant-rows", one(struct.pack("<16f", *[0.5] * 16) + F32[64:]), W, "1 of 4 rows", one(F32),
           severity="info", context=READ),
]  # fmt: skip
