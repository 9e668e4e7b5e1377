"""Tiny models that say something, and quantisations of them: the same bytes on every machine.

``python -m tests.run.divergent FOLDER`` writes them; what the real llama-perplexity makes of them is recorded in
``tests/data/llamacpp/divergence.json``, which says how.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.build import GGUF, llama
from tests.building.models import packed

KINDS = ("f32", "q8_0", "q4_0")


def sized(kind: str) -> GGUF:
    """A model whose matrices are of that type; the weights are large enough that it prefers some tokens by far."""
    import numpy as np

    g = llama(layers=2)
    for number, t in enumerate(g.copy()._tensors):
        shape = tuple(t["shape"])
        random = np.random.RandomState(number)
        if len(shape) == 1:
            g.retensor(t["name"], data=np.ones(shape, "<f4").tobytes())
            continue
        rows = (random.standard_normal(shape[::-1]) * (0.3 if "embd" in t["name"] else 0.25)).astype("<f4")
        g.retensor(t["name"], type=kind, data=packed(rows, kind))
    return g


def main(folder: Path) -> None:
    """Write all."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        sized(kind).write(folder / f"{kind}.gguf")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
