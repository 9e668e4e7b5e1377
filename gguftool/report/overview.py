"""The first screen of a model: what it is, how big, how quantised, which context, what its KV cache costs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence

from gguftool.model import Model
from gguftool.model.about import GENERAL
from gguftool.model.about.fact import Value
from gguftool.model.overview import Overview, RopeFacts, TypeShare, span_text
from gguftool.report.text import Style, count, safe, shorten, size

MOST = 8
"""Values of a fact that are shown on the first screen; JSON has them all."""
LONGEST = 200
"""Characters of one that are shown."""


def overview_lines(o: Overview, memory: str, style: Style) -> Iterator[str]:
    """The first screen: what it is in the first line, then one fact group a line.

    Args:
        o: the facts.
        memory: the ready line about KV cost, or "".
        style: of the terminal.
    """
    order = "big-endian" if o.big_endian else "little-endian"
    shards = f"   {o.shards} shards" if o.shards > 1 else ""
    title = f"{style.bold(os.path.basename(o.path) or o.path)}   {safe(o.what)}   {size(o.file_size)}{shards}"
    yield f"{title}   GGUF v{o.version}, {order}, alignment {o.alignment}"
    general = {
        "model": _model_line(o),
        "quant": _quant_line(o),
        "attention": _attention_line(o),
        "rope": rope_text(o.rope),
        "vocab": _vocabulary_line(o),
        "memory": memory,
        "deploy": f"kv_cache_type {safe(o.kv_cache_type)} (gguftool's record)" if o.kv_cache_type else "",
    }
    lines = [
        ("use", safe(o.way)),
        *((label, value_text(value)) for label, value in o.about),
        *((label, general[label]) for label in GENERAL if label in o.kept),
        ("check", _check_line(o, style)),
    ]
    shown = [(label, text) for label, text in lines if text]
    width = max(8, *(len(label) for label, _ in shown)) + 2
    for label, text in shown:
        yield f"  {style.dim(label.ljust(width))}{text}"


def value_text(value: Value) -> str:
    """A fact on one line: ``yes``, ``1,024``, ``q, k, v … 4 more``."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        more = f" … {count(len(value) - MOST)} more" if len(value) > MOST else ""
        return ", ".join(value_text(v) for v in value[:MOST]) + more
    if isinstance(value, str):
        return shorten(value, LONGEST)
    return count(value) if isinstance(value, int) else f"{value:g}"


def parameters_text(n: int) -> str:
    """``268.1 M``, ``7.62 B``."""
    for limit, unit in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K")):
        if n >= limit:
            return f"{n / limit:.4g} {unit}"
    return str(n)


def _model_line(o: Overview) -> str:
    context = f"context {count(o.context_length)}" if o.context_length else "context length missing"
    window = f" (sliding window {count(o.sliding_window)})" if o.sliding_window else ""
    parts = [
        shorten(o.name, LONGEST),
        safe(o.architecture) or "no architecture",
        f"{parameters_text(o.parameters)} parameters" if o.parameters else "no tensors",
        f"{o.block_count} layers" if o.block_count else "",
        context + window,
        f"{o.experts} experts, {o.experts_used} used" if o.experts else "",
    ]
    return " · ".join(p for p in parts if p)


def _quant_line(o: Overview) -> str:
    if not o.mix:
        return f"labelled {o.label}; no tensors" if o.label else ""
    total = sum(s.bytes or 0 for s in o.mix) or 1
    shares = [_share(s, total) for s in o.mix[:5]] + ([f"{len(o.mix) - 5} more"] if len(o.mix) > 5 else [])
    measured = f"measured {o.bits_per_weight:.2f} bits per weight: " if o.bits_per_weight else "measured: "
    return f"labelled {o.label or 'nothing'} · {measured}" + ", ".join(shares)


def _share(s: TypeShare, total: int) -> str:
    if s.bytes is None:
        return f"{s.type_name} ({s.tensors} tensors of unknown size)"
    percent = s.bytes * 100 / total
    return f"{s.type_name} {percent:.0f} %" if percent >= 1 else f"{s.type_name} {percent:.1f} %"


def _attention_line(o: Overview) -> str:
    if not o.head_count or not max(o.head_count):
        return ""
    heads_word = "head" if max(o.head_count_kv, default=0) == 1 else "heads"
    heads = f"{span_text(o.head_count)} heads, {span_text(o.head_count_kv)} KV {heads_word}"
    lengths = f"{o.key_length}" if o.key_length == o.value_length else f"{o.key_length} (K) and {o.value_length} (V)"
    return f"{heads} of {lengths} · embedding {count(o.embedding_length)}"


def rope_text(r: RopeFacts) -> str:
    """``base 1,000,000 · no scaling``."""
    if not r.used:
        return "not used by this architecture"
    base = f"base {r.base:,.0f}" if math.isfinite(r.base) and r.base == int(r.base) else f"base {r.base:,}"
    if not r.base_given:
        base += " (not in the file; llama.cpp's default)"
    if r.scale == 1.0:
        return f"{base} · no scaling"
    origin = f" of {count(r.original_context)}" if r.original_context else ""
    return f"{base} · {r.scaling}, factor {1 / r.scale:g}{origin} (freq_scale {r.scale:g})"


def _vocabulary_line(o: Overview) -> str:
    v = o.vocabulary
    if v.size is None and not v.model:
        return "no tokenizer"
    kind = safe(v.model) + (f"/{safe(v.pre)}" if v.pre else "")
    parts = [f"{count(v.size)} tokens ({kind})" if v.size is not None else f"tokens missing ({kind})"]
    parts += [f"{role} {i} {safe(text) if text is not None else '(out of range)'}" for role, i, text in v.special[:3]]
    parts.append(f"chat template {count(o.chat_template)} bytes" if o.chat_template else "no chat template")
    return " · ".join(parts)


def _check_line(o: Overview, style: Style) -> str:
    if o.faults:
        return style.red("incomplete: ") + safe(o.faults[0])
    held = f"{count(o.tensors)} tensors, {count(o.fields)} metadata fields"
    return f"{style.green('complete')}: {held} · gguftool lint for more"


def memory_line(m: Model, o: Overview) -> str:
    """Weights and KV cache in one line; "" when nothing can be said."""
    from gguftool.memory.points import kv_points

    points = kv_points(m)
    if not points:
        return ""
    cache = ", ".join(f"{size(b)} at {count(n)}" for n, b in points)
    return f"weights {size(o.tensor_bytes)} + KV cache {cache} tokens (f16, one slot) · gguftool plan for more"


def summary_json(o: Overview, points: Sequence[tuple[int, int]]) -> dict[str, object]:
    """The ``summary`` of ``gguftool.dump/1``; sizes in bytes. ``points``: see `gguftool.memory.points`."""
    return {
        "name": o.name,
        "architecture": o.architecture,
        "role": o.role,
        "what": o.what,
        "way": o.way or None,
        "about": {label: list(value) if isinstance(value, tuple) else value for label, value in o.about},
        "size_label": o.size_label,
        "parameters": o.parameters,
        "bits_per_weight": o.bits_per_weight,
        "file_type": o.label,
        "types": [{"type": s.type_name, "tensors": s.tensors, "elements": s.elements, "bytes": s.bytes} for s in o.mix],
        "context_length": o.context_length,
        "block_count": o.block_count,
        "embedding_length": o.embedding_length,
        "head_count": list(o.head_count),
        "head_count_kv": list(o.head_count_kv),
        "key_length": o.key_length,
        "value_length": o.value_length,
        "sliding_window": o.sliding_window,
        "expert_count": o.experts,
        "expert_used_count": o.experts_used,
        "rope": {
            "used": o.rope.used,
            "freq_base": o.rope.base,
            "freq_base_given": o.rope.base_given,
            "scaling_type": o.rope.scaling,
            "freq_scale": o.rope.scale,
            "original_context_length": o.rope.original_context,
        },
        "kv_cache_type": o.kv_cache_type or None,
        "vocabulary": {
            "size": o.vocabulary.size,
            "model": o.vocabulary.model,
            "pre": o.vocabulary.pre,
            "special": [{"role": r, "id": i, "text": t} for r, i, t in o.vocabulary.special],
        },
        "chat_template": o.chat_template is not None,
        "gguf_version": o.version,
        "big_endian": o.big_endian,
        "alignment": o.alignment,
        "shards": o.shards,
        "fields": o.fields,
        "tensors": o.tensors,
        "tensor_bytes": o.tensor_bytes,
        "file_size": o.file_size,
        "complete": o.complete,
        "faults": list(o.faults),
        "kv_f16": [{"context": n, "bytes": b} for n, b in points],
    }
