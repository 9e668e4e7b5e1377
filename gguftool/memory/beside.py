"""What files beside the model take on each device, and what they grow by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gguftool.memory.devices import HOST
from gguftool.memory.growth import PICTURES, Growth
from gguftool.memory.use import PROJECTOR, Side
from gguftool.memory.weights import Placed


def grown(sides: Sequence[Side], devices: Sequence[str], tokens: int) -> Iterator[Growth]:
    """What comes after the start.

    Args:
        sides: the files.
        devices: names of the accelerators.
        tokens: of all contexts.
    """
    why = "the largest picture, beside the one it warmed up with (--image-max-tokens)"
    for x in sides:
        if x.pictures:
            yield Growth(PICTURES, x.pictures, "estimated", why, _place(x, devices))
    why = "what was written before, of each token of the contexts (--spec-type)"
    for x in sides:
        if x.token:
            yield Growth(x.what, x.token * tokens, "estimated", why)


def projector(sides: Sequence[Side], devices: Sequence[str], device: str) -> int:
    """Bytes of the projector that go to a device: its weights, and its graph."""
    out = 0
    for x in sides:
        if x.what == PROJECTOR:
            place = _place(x, devices)
            out += (x.bytes + x.compute) * (device == place)
            out += x.inputs * (place != HOST and device in (place, HOST))
    return out


def adapter(sides: Sequence[Side], devices: Sequence[str], device: str, placed: Placed) -> int:
    """Bytes of the other files beside the model that go to a device: where the tensors are that they change."""
    at = placed.layer_device

    def where(layer: int) -> str:
        return HOST if layer < 0 else at[min(layer, len(at) - 1)]

    out = 0
    for x in sides:
        if x.what == PROJECTOR:
            continue
        if x.layers:
            out += sum(n for layer, n in x.layers if where(layer) == device)
        else:
            out += x.bytes * (_place(x, devices) == device)
    return out


def _place(x: Side, devices: Sequence[str]) -> str:
    """Where a file beside the model goes."""
    return x.device if x.device in (HOST, *devices) else devices[0] if devices else HOST
