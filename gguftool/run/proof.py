"""Does the log prove what was planned? Expectations, and the comparison line by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.quantity import whole
from gguftool.records import dataclass, fields
from gguftool.run.buffers import ExpectedCompute, by_device, last_told, within

if TYPE_CHECKING:
    from gguftool.run.diagnose import Judgement
    from gguftool.run.log import Buffer, LogFacts, LoggedCache

MIB = 1 << 20
ROUNDING = 0.0051
"""Sizes are logged in MiB with two digits."""


@dataclass(frozen=True, slots=True)
class ExpectedCache:
    """One KV cache as planned; bytes of all layers and streams."""

    name: str
    cells: int
    layers: int
    streams: int
    bytes: int
    k_bytes: int | None = None
    v_bytes: int | None = None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Expected:
    """What the log is held against; None is not compared.

    Attributes:
        architecture: of the model.
        tensors: number of tensors in the file.
        weights_bytes: bytes of all tensors.
        context: tokens of all slots together (`n_ctx`).
        slot_context: tokens one slot of the server takes.
        slots: number of slots.
        unified: slots share one context.
        type_k, type_v: cache types.
        flash_attn: ``on``, ``off`` or ``auto``.
        caches: KV caches.
        kv_bytes, state_bytes: totals.
        compute: buffers of the model's own context by device.
        compute_over: share they may be over: the largest error that was measured for plans of its class.
        rope_freq_base, rope_freq_scale: what the file says llama.cpp will use.
        devices: names that must hold weights, as far as they are known.
        rpc: ``host:port`` of servers that must hold weights.
        media: what it must take beside text: ``vision``, ``audio``.
        drafting: kinds of speculative decoding that must be set up.
        features: what was asked for by name, which the log may say is off (`gguftool.run.features`).
        template: mark of the chat template that it must say it uses.
        kv_devices: devices that must hold a part of the KV cache.
        projector_bytes: of the graphs of the projector at the start; an estimate.
        draft_kv_bytes, draft_compute, draft_compute_over, draft_type_k, draft_type_v: of the context that drafts.
    """

    architecture: str | None = None
    tensors: int | None = None
    weights_bytes: int | None = None
    context: int | None = None
    slot_context: int | None = None
    slots: int | None = None
    unified: bool | None = None
    type_k: str | None = None
    type_v: str | None = None
    flash_attn: str | None = None
    caches: tuple[ExpectedCache, ...] = ()
    kv_bytes: int | None = None
    state_bytes: int | None = None
    compute: tuple[ExpectedCompute, ...] = ()
    compute_over: float | None = None
    rope_freq_base: float | None = None
    rope_freq_scale: float | None = None
    devices: tuple[str, ...] = ()
    rpc: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    drafting: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    template: str | None = None
    kv_devices: tuple[str, ...] = ()
    projector_bytes: int | None = None
    draft_kv_bytes: int | None = None
    draft_compute: tuple[ExpectedCompute, ...] = ()
    draft_compute_over: float | None = None
    draft_type_k: str | None = None
    draft_type_v: str | None = None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison.

    Attributes:
        what: what was compared.
        expected, observed: as shown; observed None: the log does not say.
        ok: None when it could not be compared.
        vital: without it the launch is not proven.
    """

    what: str
    expected: object
    observed: object
    ok: bool | None
    vital: bool = False

    __repr__ = short_repr


def proven(checks: Sequence[Check]) -> bool:
    """Nothing differs, and everything vital was seen."""
    return all(c.ok is not False and not (c.vital and c.ok is None) for c in checks)


def compare(expected: Expected, j: Judgement) -> list[Check]:
    """Hold a log against what was planned."""
    f = j.facts
    out = [Check("status", "ready", j.status, j.status == "ready", vital=True)]
    h, c = f.hparams, f.context
    out += _equal("architecture", expected.architecture, h.get("arch"))
    out += _equal("tensors", expected.tensors, f.tensors)
    out += _weights(expected, h.get("file size"))
    out += _equal("context", expected.context, _int(c.get("n_ctx")))
    out += _equal("slots", expected.slots, f.slots if f.slots is not None else _int(c.get("n_seq_max")))
    out += _equal("context of a slot", expected.slot_context, f.slot_context)
    out += _equal("slots share the context", expected.unified, f.slots_unified)
    out += _flash(expected, f)
    out += _types(expected, f)
    out += _caches(expected, f)
    if expected.state_bytes:
        out.append(_size("recurrent state", expected.state_bytes, f.state_mib, vital=True))
    out += _compute("compute buffers", expected.compute, expected.compute_over, f.buffers)
    out += _projector(expected.projector_bytes, f.buffers)
    out += _rope("RoPE base", expected.rope_freq_base, c.get("freq_base"), 0.051)
    out += _rope("RoPE scale", expected.rope_freq_scale, c.get("freq_scale"), 1e-5)
    out += _places(expected, f)
    out += _drafting(expected, f)
    return [*out, *_off(expected, j), *_undone(j)]


def _compute(
    what: str, planned: Sequence[ExpectedCompute], over: float | None, buffers: Sequence[Buffer]
) -> list[Check]:
    """By device where the log names them. More than the plan's error allows differs; less is no harm."""
    rows = by_device(planned, last_told(buffers)) if planned else []
    return [_over(f"{what} on {name}" if name else what, size, mib, over) for name, size, mib in rows]


def _over(what: str, planned: int, seen: float | None, over: float | None = None) -> Check:
    observed = None if seen is None else f"{seen:.2f} MiB"
    return Check(what, f"about {planned / MIB:.2f} MiB", observed, within(planned, seen, over))


def _projector(planned: int | None, buffers: Sequence[Buffer]) -> list[Check]:
    """An encoder has a graph of its own; each buffer is told once."""
    graphs = [b for b in buffers if b.kind == "projector"]
    if not planned:
        return []
    return [_over("projector: compute buffers", planned, sum(b.mib for b in graphs) if graphs else None)]


def _off(expected: Expected, j: Judgement) -> list[Check]:
    """What was asked for by name, and the log says it is off."""
    return [Check(name, "on", f"off: {j.off[name].line}", False) for name in expected.features if name in j.off]


def _undone(j: Judgement) -> list[Check]:
    """Errors on the way to a server that runs all the same, which goes on without something, and of requests."""
    if j.status != "ready":
        return []
    lines = dict.fromkeys(d.line for d in (*j.undone, *j.failures))
    return [Check("errors", "none", line, False) for line in lines]


def _drafting(expected: Expected, f: LogFacts) -> list[Check]:
    """The kinds of speculative decoding, and the cache of the context that drafts."""
    if not expected.drafting:
        return []
    there = [k for k in expected.drafting if k in f.speculating]
    out = [
        Check(
            "speculative decoding", ",".join(expected.drafting), ",".join(f.speculating) or "none",
            len(there) == len(expected.drafting), vital=True,
        )
    ]  # fmt: skip
    if expected.draft_kv_bytes:
        caches = [c for d in f.drafts for c in d.caches]
        total = sum(c.mib for c in caches) if caches else None
        out.append(_size("draft: KV cache", expected.draft_kv_bytes, total, parts=max(1, len(caches))))
        for what, wanted, side in (("K", expected.draft_type_k, "type_k"), ("V", expected.draft_type_v, "type_v")):
            seen = {getattr(c, side) for c in caches}
            out += _equal(f"draft: {what} cache type", wanted, "/".join(sorted(seen)) or None)
    buffers = [b for d in f.drafts for b in d.buffers]
    return [*out, *_compute("draft: compute buffers", expected.draft_compute, expected.draft_compute_over, buffers)]


def _equal(what: str, expected: object, observed: object, *, vital: bool = False) -> list[Check]:
    if expected is None:
        return []
    return [Check(what, expected, observed, None if observed is None else expected == observed, vital)]


def _int(text: str | None) -> int | None:
    return None if text is None else whole(text)


_UNITS = {"MiB": MIB, "GiB": 1 << 30}


def _weights(expected: Expected, logged: str | None) -> list[Check]:
    """``235.16 MiB (7.36 BPW)``: the tensors of the file, whatever device they went to."""
    if expected.weights_bytes is None:
        return []
    parts = (logged or "").split()
    if len(parts) < 2 or parts[1] not in _UNITS:
        return [Check("weights", f"{expected.weights_bytes / MIB:.2f} MiB", None, None)]
    unit = _UNITS[parts[1]]
    wanted = expected.weights_bytes / unit
    return [
        Check("weights", f"{wanted:.2f} {parts[1]}", f"{parts[0]} {parts[1]}", abs(float(parts[0]) - wanted) < ROUNDING)
    ]


def _flash(expected: Expected, f: LogFacts) -> list[Check]:
    if expected.flash_attn is None:
        return []
    wanted = {"on": "enabled", "off": "disabled"}.get(expected.flash_attn)
    if wanted is None:
        return [Check("flash attention", "auto", f.flash_attn or None, True if f.flash_attn else None)]
    return _equal("flash attention", wanted, f.flash_attn or None)


def _types(expected: Expected, f: LogFacts) -> list[Check]:
    if not expected.caches and not expected.kv_bytes:
        return []
    seen_k, seen_v = ({getattr(c, side) for c in f.caches} for side in ("type_k", "type_v"))
    out = []
    for what, wanted, seen in (("K cache type", expected.type_k, seen_k), ("V cache type", expected.type_v, seen_v)):
        out += _equal(what, wanted, "/".join(sorted(seen)) or None, vital=True)
    return out


def _size(what: str, wanted: int, mib: float | None, *, vital: bool = False, parts: int = 1) -> Check:
    ok = None if mib is None else abs(wanted / MIB - mib) < ROUNDING * parts
    return Check(what, f"{wanted / MIB:.2f} MiB", None if mib is None else f"{mib:.2f} MiB", ok, vital)


def _caches(expected: Expected, f: LogFacts) -> list[Check]:
    out: list[Check] = []
    if expected.kv_bytes:
        total = sum(c.mib for c in f.caches) if f.caches else None
        out.append(_size("KV cache", expected.kv_bytes, total, vital=True, parts=max(1, len(f.caches))))
    elif expected.kv_bytes == 0 and f.caches:
        out.append(Check("KV cache", "none", f"{sum(c.mib for c in f.caches):.2f} MiB", False))
    left = list(f.caches)
    for e in expected.caches:
        found = _match(e, left)
        label = f"{e.name} cache: " if len(expected.caches) > 1 else "cache: "
        out += _equal(label + "cells", e.cells, found.cells if found else None)
        if found is None or found.layers:
            out += _equal(label + "layers", e.layers, found.layers if found else None)
        if e.k_bytes is not None:
            out.append(_size(label + "K", e.k_bytes, found.k_mib if found else None))
        if e.v_bytes is not None:
            out.append(_size(label + "V", e.v_bytes, found.v_mib if found else None))
    return out


def _match(e: ExpectedCache, left: list[LoggedCache]) -> LoggedCache | None:
    """The logged cache that belongs to an expected one: same cells and layers, else the next in order."""
    found = next((c for c in left if (c.cells, c.layers) == (e.cells, e.layers)), left[0] if left else None)
    if found is not None:
        left.remove(found)
    return found


def _rope(what: str, expected: float | None, logged: str | None, tolerance: float) -> list[Check]:
    if expected is None:
        return []
    try:
        seen = float(logged) if logged is not None else None
    except ValueError:
        seen = None
    near = None if seen is None else abs(seen - expected) <= tolerance * max(1.0, 0.0 if what == "RoPE base" else 1.0)
    return [Check(what, f"{expected:g}", None if seen is None else f"{seen:g}", near)]


def _places(expected: Expected, f: LogFacts) -> list[Check]:
    """Weights on a device are proven by a buffer there, not by the count of offloaded layers: a CPU prints that too."""
    out = []
    holding = {b.device for b in f.buffers if b.kind == "model" and b.mib > 0}
    for name in expected.devices:
        # Metal's are called MTL0_Mapped, a card's CUDA0 or CUDA0_Split.
        there = any(device == name or device.startswith(name + "_") for device in holding)
        out.append(Check(f"weights on {name}", "yes", _yes(there, f), there if holding else None))
    caching = {b.device for b in f.buffers if b.kind == "KV" and b.mib > 0}
    for name in expected.kv_devices:
        out.append(Check(f"KV cache on {name}", "yes", _yes(name in caching, f), name in caching if caching else None))
    for endpoint in expected.rpc:
        there = any(endpoint in device for device in holding)
        out.append(Check(f"weights on RPC {endpoint}", "yes", _yes(there, f), there if holding else None, vital=True))
    return out


def _yes(there: bool, f: LogFacts) -> str | None:
    return ("yes" if there else "no") if f.buffers else None


def from_json(body: Mapping[str, Any]) -> Expected:
    """The expectations in the JSON of ``gguftool plan`` or ``gguftool launch``.

    Raises:
        UsageError: it is neither.
    """
    try:
        whole = body.get("expected")
        found = _own(whole) if isinstance(whole, Mapping) else _planned(body)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UsageError(f"this is no plan: {error}", _MAKE_ONE) from None
    if not isinstance(found.context, int):
        raise UsageError("this is no plan: it names no context", _MAKE_ONE)
    return found


_MAKE_ONE = "`gguftool plan --format json` makes one"


_COMPUTE = ("compute", "draft_compute")
_LISTS = ("devices", "rpc", "media", "drafting", "features", "kv_devices")


def _own(whole: Mapping[str, Any]) -> Expected:
    known = {f.name for f in fields(Expected)}
    said: dict[str, Any] = {k: v for k, v in whole.items() if k in known}
    said["caches"] = tuple(ExpectedCache(**c) for c in whole.get("caches", ()))
    for name in _COMPUTE:
        said[name] = tuple(ExpectedCompute(**c) for c in whole.get(name, ()))
    for name in _LISTS:
        said[name] = tuple(str(v) for v in whole.get(name, ()))
    return Expected(**said)


def _planned(body: Mapping[str, Any]) -> Expected:
    ctx, kv = body["context"], body.get("kv") or {}
    tensors = (body.get("weights") or {}).get("tensors")
    return Expected(
        weights_bytes=tensors if isinstance(tensors, int) else None,
        flash_attn=_said(body.get("command") or (), "-fa", "--flash-attn"),
        context=ctx.get("total"),
        slot_context=ctx.get("usable", ctx.get("per_slot")),
        slots=ctx.get("slots"),
        unified=ctx.get("unified"),
        type_k=kv.get("type_k"),
        type_v=kv.get("type_v"),
        kv_bytes=None if kv.get("bytes") is None else int(kv["bytes"]),
        state_bytes=(body.get("state") or {}).get("bytes"),
        caches=tuple(
            ExpectedCache(
                str(c["name"]),
                int(c["cells"]),
                int(c["layers"]),
                int(c.get("streams", 1)),
                int(c["bytes"]),
                c.get("k_bytes"),
                c.get("v_bytes"),
            )
            for c in kv.get("caches", ())
        ),
    )


def _said(command: Sequence[Any], *names: str) -> str | None:
    """The value of an option in a command line."""
    value = next((command[i + 1] for i, word in enumerate(command[:-1]) if word in names), None)
    return value if value in ("on", "off", "auto") else None


def to_json(e: Expected) -> dict[str, object]:
    """The expectations as `from_json` reads them back."""
    plain = {
        name: getattr(e, name)
        for name in (f.name for f in fields(Expected))
        if name not in ("caches", *_COMPUTE, *_LISTS) and getattr(e, name) is not None
    }
    caches = [{f.name: getattr(c, f.name) for f in fields(ExpectedCache)} for c in e.caches]
    compute = {k: [{"device": c.device, "bytes": c.bytes} for c in getattr(e, k)] for k in _COMPUTE}
    return {**plain, "caches": caches, **compute, **{name: list(getattr(e, name)) for name in _LISTS}}
