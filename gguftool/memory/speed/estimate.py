"""Bounds of speed, and what is likely within them.

A device can be no faster than its bandwidth and its compute allow; layers on several devices run one after another, so
their times add up. What is likely comes from measurements: how much of the bandwidth and of the compute llama.cpp
reached, and what a layer costs whatever its size (`docs/speed.md`, with the figures and their sources).
"""

from __future__ import annotations

from collections.abc import Mapping

from gguftool.brief import short_repr
from gguftool.memory.devices import HOST
from gguftool.memory.speed.rates import Rate
from gguftool.memory.speed.touched import Touched, Usage
from gguftool.records import dataclass

LINK = 63e9
"""Bytes a second over PCI Express 5.0 x16; what is likely is `LIKELY_LINK` of it (4.0 x16, three quarters used)."""
LIKELY_LINK = (0.2, 0.45)
LENT = 32
"""Tokens of a batch from which on a device computes what lies on the host (`ggml-cuda.cu:offload_op`)."""
PROMPT = 512


@dataclass(frozen=True, slots=True)
class Reached:
    """What llama.cpp reached of a kind of device, from the lowest to the highest.

    Attributes:
        memory: part of the bandwidth, dense weights.
        experts: the same of weights of experts.
        compute: part of the 16-bit rate.
        expert_compute: the same where experts choose their tokens.
        layer: seconds of a layer, whatever its size.
    """

    memory: tuple[float, float]
    experts: tuple[float, float]
    compute: tuple[float, float]
    expert_compute: tuple[float, float]
    layer: tuple[float, float]

    __repr__ = short_repr


REACHED: dict[str, Reached] = {
    "cuda": Reached((0.62, 0.9), (0.3, 0.6), (0.3, 0.65), (0.08, 0.25), (30e-6, 8e-6)),
    "rocm": Reached((0.45, 0.75), (0.25, 0.5), (0.2, 0.5), (0.08, 0.25), (50e-6, 15e-6)),
    "vulkan": Reached((0.6, 0.9), (0.3, 0.6), (0.25, 0.6), (0.08, 0.25), (40e-6, 10e-6)),
    "metal": Reached((0.5, 0.9), (0.3, 0.7), (0.5, 0.9), (0.2, 0.5), (120e-6, 20e-6)),
    "cpu": Reached((0.4, 0.9), (0.35, 0.85), (0.2, 1.0), (0.15, 0.8), (60e-6, 5e-6)),
}
OTHER = Reached((0.35, 0.9), (0.2, 0.6), (0.15, 0.65), (0.05, 0.3), (150e-6, 10e-6))
"""Of kinds nobody measured."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens a second.

    Attributes:
        most: no more than this.
        low, high: what is likely.
        by: what bounds it: ``bandwidth``, ``compute`` or ``link``.
        device: the device that takes the most of the time.
    """

    most: float
    low: float
    high: float
    by: str
    device: str

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Estimate:
    """How fast a plan can be.

    Attributes:
        usage: what its devices do.
        rates: how fast they are.
        start: tokens written a second while the context is empty; None: unknown, or the model does not write.
        full: the same with a full slot.
        prompt: tokens read a second, of `PROMPT` tokens in an empty context; None: no compute is known.
        depth: tokens of the full slot.
        reads: bytes a token reads in an empty context, by device.
        unknown: devices that are used and whose bandwidth is not known.
    """

    usage: Usage
    rates: Mapping[str, Rate]
    start: Speed | None
    full: Speed | None
    prompt: Speed | None
    depth: int
    reads: tuple[tuple[str, int], ...]
    unknown: tuple[str, ...]

    __repr__ = short_repr


def estimate(u: Usage, rates: Mapping[str, Rate], depth: int) -> Estimate:
    """Everything about the speed of a plan.

    Args:
        u: what its devices do for a token.
        rates: how fast they are.
        depth: tokens of a full slot.
    """
    reads = tuple((x.device, int(_bytes(u, x, 1, 0)[2])) for x in u.parts)
    unknown = tuple(
        x.device for x, (_, n) in zip(u.parts, reads, strict=True) if (n or _used(x)) and x.device not in rates
    )
    start = full = None
    if u.writes and not unknown:
        start, full = written(u, rates, 0), written(u, rates, depth)
    prompt = None if unknown else read(u, rates, min(PROMPT, depth))
    return Estimate(u, rates, start, full, prompt, depth, reads, unknown)


def written(u: Usage, rates: Mapping[str, Rate], depth: int) -> Speed | None:
    """Tokens a second of one sequence that looks back at ``depth`` tokens; None for a file that costs no time."""
    times = [_time(u, x, rates[x.device], 1, depth, output=True) for x in u.parts if _used(x)]
    return _speed(times, 1)


def read(u: Usage, rates: Mapping[str, Rate], tokens: int, depth: int = 0) -> Speed | None:
    """Prompt tokens a second, in batches of ``-ub``, after ``depth`` tokens; None: no compute is known."""
    busy = [x for x in u.parts if _used(x)]
    lender = next((x for x in u.parts if x.device != HOST), None) if u.lends else None
    who = [lender if lender and x.device == HOST else x for x in busy]
    if any(x.device not in rates or not rates[x.device].compute for x in who):
        return None
    times, left, at = [], tokens, depth
    while left > 0:
        n = min(u.ubatch, left)
        left -= n
        for x in busy:
            to = lender if lender and n >= LENT and x.device == HOST else x
            moved = to is not x
            times.append(_time(u, x, rates[to.device], n, at + n / 2, output=left == 0, kind=to.kind, moved=moved))
        at += n
    return _speed(times, tokens)


@dataclass(frozen=True, slots=True)
class _Time:
    device: str
    least: float
    low: float
    high: float
    by: str


def _used(x: Touched) -> bool:
    return bool(x.dense or x.experts or x.output or x.cells or x.state)


def _bytes(u: Usage, x: Touched, tokens: int, depth: float) -> tuple[float, float, float]:
    """Bytes of experts, of everything else, and of all, that a batch reads once."""
    experts = x.experts * u.share(tokens)
    other = x.dense + x.output + x.cache(depth)[0] + 2 * x.state
    return experts, other, experts + other


def _time(
    u: Usage, x: Touched, rate: Rate, tokens: int, depth: float, *, output: bool, kind: str = "", moved: bool = False
) -> _Time:
    r = REACHED.get(kind or x.kind, OTHER)
    experts, other, _ = _bytes(u, x, tokens, depth)
    other -= 0 if output else x.output
    share = u.used / u.experts if u.experts else 1.0
    attention = x.cache(depth)[1]
    dense = 2 * x.work * tokens + attention * tokens + (2 * x.output_work if output else 0)
    chosen = 2 * x.expert_work * share * tokens
    fastest = rate.compute if u.plain else rate.fastest
    compute = (dense + chosen) / fastest if fastest else 0.0
    # Weights of the host go over the link once a batch; the device then works as if they were its own.
    link = (experts + other) / LINK if moved else 0.0
    memory = (experts + other) / rate.bandwidth
    least = max(memory, compute, link)
    low, high = (
        max(
            other / (rate.bandwidth * r.memory[i]) + experts / (rate.bandwidth * r.experts[i]),
            (dense / r.compute[i] + chosen / r.expert_compute[i]) / rate.compute if rate.compute else 0.0,
        )
        + x.layers * r.layer[i]
        + (experts + other) / (LINK * LIKELY_LINK[i]) * moved
        for i in (0, 1)
    )
    by = "link" if least == link and moved else "bandwidth" if least == memory else "compute"
    return _Time(x.device, least, low, high, by)


def _speed(times: list[_Time], tokens: int) -> Speed | None:
    sums = [sum(getattr(t, name) for t in times) for name in ("least", "low", "high")]
    if not all(sums):
        return None  # a part of a model, without its weights
    most = max(times, key=lambda t: t.least)
    least, low, high = (tokens / x for x in sums)
    return Speed(least, min(low, least), min(high, least), most.by, most.device)
