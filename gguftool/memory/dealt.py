"""Layers given to several devices, by shares or by their memory, as llama.cpp rounds."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gguftool.memory.devices import HOST, Device


def dealt(count: int, devices: Sequence[Device], gpu_layers: int | None, split: Sequence[float]) -> tuple[str, ...]:
    """Device of each layer, the output layer's after the last.

    Args:
        count: layers without the output layer.
        devices: the accelerators, at least one.
        gpu_layers: `-ngl`; None: all.
        split: `-ts`; empty: by the devices' memory.
    """
    wanted = count + 1 if gpu_layers is None or gpu_layers < 0 else gpu_layers
    start, used = max(count + 1 - wanted, 0), min(wanted, count + 1)
    points = _split_points(devices, split)
    out = []
    for i in range(count + 1):
        if i < start or i - start >= used:
            out.append(HOST)
            continue
        share = _f32((i - start) / used)
        which = next((k for k, point in enumerate(points) if point > share), len(devices) - 1)
        out.append(devices[which].name)
    return tuple(out)


def _split_points(devices: Sequence[Device], split: Sequence[float]) -> list[float]:
    shares = [float(x) for x in split[: len(devices)]]
    shares += [0.0] * (len(devices) - len(shares))
    if not any(shares):
        shares = [float(d.memory or 1) for d in devices]
    total, points = 0.0, []
    for x in shares:
        total = _f32(total + _f32(x))
        points.append(total)
    return [_f32(x / total) for x in points]


def _f32(x: float) -> float:
    """Rounded to 32 bits: llama.cpp compares shares as floats."""
    return float(struct.unpack("<f", struct.pack("<f", x))[0])
