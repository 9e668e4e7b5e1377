"""What each layer brings to the device it goes to, so that a placement is a sum: weights, caches, states.

The same bytes as `Weights.place` and `Planner.plan` give, taken apart by layer for those who place anew without them.
"""

from __future__ import annotations

from collections.abc import Callable

from gguftool.brief import short_repr
from gguftool.memory.devices import HOST, Device
from gguftool.memory.kv import CachePlan
from gguftool.memory.plan import Planner
from gguftool.memory.weights import INPUT, Group, Placement
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class WeightShares:
    """Weights by layer, in bytes; the output layer is the last.

    Attributes:
        host, device: of each layer without its experts, where it lies there.
        host_experts, device_experts: experts of each layer.
        fixed: what lies where it does under every placement, by device name: the input, patterns.
        tied_host, tied_device: the second copy of a tied output matrix, where the output layer lies.
        frequencies: the table that every further device with layers has.
    """

    host: tuple[int, ...]
    device: tuple[int, ...]
    host_experts: tuple[int, ...]
    device_experts: tuple[int, ...]
    fixed: dict[str, int]
    tied_host: int
    tied_device: int
    frequencies: int

    __repr__ = short_repr

    def on(self, at: tuple[str, ...], experts: int) -> dict[str, int]:
        """Bytes by device.

        Args:
            at: device of each layer, the output layer's last.
            experts: the experts of so many layers, from the first on, stay on the host.
        """
        out = dict(self.fixed)

        def book(name: str, size: int) -> None:
            out[name] = out.get(name, 0) + size

        for i, name in enumerate(at):
            book(name, self.host[i] if name == HOST else self.device[i])
            on_host = name == HOST or i < experts
            book(HOST if on_host else name, self.host_experts[i] if on_host else self.device_experts[i])
        book(at[-1], self.tied_host if at[-1] == HOST else self.tied_device)
        for name in set(at[:-1]) - {at[0]}:
            book(name, self.frequencies)
        return {name: size for name, size in out.items() if size}


def weight_shares(planner: Planner, p: Placement) -> WeightShares:
    """The weights of a model by layer.

    Args:
        planner: the model on its machine; its devices are of one kind.
        p: placement, whose layers and experts do not matter.
    """
    w, devices = planner.weights, planner.machine.devices
    count = w.layer_count
    host, device, host_experts, device_experts = ([0] * (count + 1) for _ in range(4))
    on_device = _sized(devices[0]) if devices else _plain
    fixed: dict[str, int] = {}
    for group in w.groups.values():
        if group.target is not None or group.layer == INPUT:
            name = group.target or HOST
            fixed[name] = fixed.get(name, 0) + (_plain(group) if name == HOST else on_device(group))
            continue
        at = min(group.layer, count)
        a, b = (host_experts, device_experts) if group.experts else (host, device)
        a[at] += _plain(group)
        b[at] += on_device(group)
    pinned = p.host_buffers and any(d.backend.pinned_host for d in devices)
    again = p.repack != "none" and not pinned and w.tied_copy.repacked > 0
    return WeightShares(
        tuple(host), tuple(device), tuple(host_experts), tuple(device_experts), fixed,
        _plain(w.tied_copy) if again else 0, on_device(w.tied_copy), on_device(w.frequencies),
    )  # fmt: skip


def _plain(group: Group) -> int:
    return group.plain


def _sized(d: Device) -> Callable[[Group], int]:
    key = (d.rules.alignment, d.backend.pads_rows)
    return lambda group: group.aligned.get(key, 0)


@dataclass(frozen=True, slots=True)
class LayerCache:
    """Caches and state of one layer, in bytes."""

    k: int
    v: int
    state: int

    __repr__ = short_repr


def layer_caches(cache: CachePlan, layers: int, alignment: int) -> tuple[LayerCache, ...]:
    """Caches and states of every layer, in buffers of this alignment; the output layer has none."""
    k, v, state = ([0] * (layers + 1) for _ in range(3))
    for c in cache.caches:
        for x in c.layers:
            one, other = c.parts(x, alignment)
            k[x.index] += one
            v[x.index] += other
    for st in cache.state:
        state[st.index] += st.bytes(alignment)
    return tuple(map(LayerCache, k, v, state))
