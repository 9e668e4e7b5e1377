"""Draft: heads for speculative decoding by themselves."""

from __future__ import annotations

from tests.lint.samples import Sample
from tests.speculators import dflash, eagle3, glm

HEAD = glm(trunk=False)
TWO = glm(trunk=False, two=True)
ROWS = tuple(range(259, 291))

SAMPLES = [
    Sample(
        "draft-block-size",
        dflash(markov=True, block=None),
        "field:dflash.block_size",
        "is missing",
        dflash(markov=True),
        severity="error",
    ),
    # a head of dflash takes 16 when it does not say
    Sample("draft-block-size", dflash(markov=True, block=None), silent=dflash(block=None)),
    Sample("draft-heads", TWO, "field:glm4moe.nextn_predict_layers", "2 prediction layers", HEAD, severity="error"),
    Sample(
        "draft-token-map",
        eagle3(rows=(*ROWS[:-1], 291)),
        "tensor:d2t",
        "row 31 is token 291 of 291",
        eagle3(rows=ROWS),
        severity="error",
    ),
    Sample(
        "draft-token-map",
        eagle3(rows=ROWS).retensor("d2t", type="i32", data=bytes(128)),
        "tensor:d2t",
        "is of type I32",
        eagle3(),
    ),
]
