"""How large the biases of the keys are: a few kilobytes that decide whether K bears a small cache type."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gguftool.model.model import Model

LARGE = 16.0
"""Keys with biases above this lose too much below q8_0: one block scale has to span them."""
MOST_BYTES = 1 << 20
"""Data of all these tensors beyond which it is not worth a look; a model of 80 layers has 160 KiB."""
_CODES = {"F32": ("f", 4), "F16": ("e", 2), "BF16": ("H", 2)}


def largest_k_bias(m: Model) -> float | None:
    """The largest absolute bias of any layer's keys; 0.0 without such tensors, None where they cannot be read so.

    Raises:
        FormatError: the data passes the end of the file.
    """
    biases = [t for name, t in m.tensors.items() if name.endswith(".attn_k.bias")]
    if any(t.type_name not in _CODES for t in biases) or sum(t.nbytes or 0 for t in biases) > MOST_BYTES:
        return None
    return max((_largest(m.read(t.name), t.type_name, t.part.header.layout.order) for t in biases), default=0.0)


def _largest(data: bytes, kind: str, order: str) -> float:
    code, size = _CODES[kind]
    values: Iterator[float] = iter(struct.unpack(f"{order}{len(data) // size}{code}", data))
    if kind == "BF16":  # the upper half of a float
        values = (struct.unpack("<f", struct.pack("<I", int(x) << 16))[0] for x in values)
    return max(map(abs, values), default=0.0)
