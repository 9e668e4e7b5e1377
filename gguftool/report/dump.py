"""What `gguftool dump` shows: the first screen, tables of metadata and tensors, as text, Markdown or JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import translate

from gguftool.bytemap import regions
from gguftool.format.header import Field
from gguftool.format.types import ARR, STR
from gguftool.model import Model, Tensor
from gguftool.overview import Overview, RopeFacts, TypeShare, span_text
from gguftool.report.text import Style, count, markdown_table, safe, shorten, size, table

HEAD = 8
"""Elements of an array shown when not everything is asked for."""
WHOLE = 32
"""An array of at most this many elements is shown whole in JSON."""

TOKEN_TYPES = {1: "normal", 2: "unknown", 3: "control", 4: "user-defined", 5: "unused", 6: "byte"}


def matching_fields(m: Model, globs: Sequence[str]) -> list[Field]:
    """Fields whose key matches any of the globs; all without globs."""
    wanted = _matcher(globs)
    return [f for f in m.header.fields if wanted(f.key)]


def matching_tensors(m: Model, globs: Sequence[str]) -> list[Tensor]:
    """Tensors whose name matches any of the globs; all without globs."""
    wanted = _matcher(globs)
    return [t for t in m.all_tensors() if wanted(t.name)]


def _matcher(globs: Sequence[str]) -> Callable[[str], bool]:
    if not globs:
        return lambda text: True
    pattern = re.compile("|".join(translate(g) for g in globs))
    return lambda text: pattern.match(text) is not None


# -- the first screen


def overview_lines(o: Overview, memory: str, style: Style) -> Iterator[str]:
    """The first screen, one fact group a line; ``memory`` is the ready line about KV cost, or ""."""
    order = "big-endian" if o.big_endian else "little-endian"
    shards = f"   {o.shards} shards" if o.shards > 1 else ""
    title = f"{style.bold(os.path.basename(o.path) or o.path)}   {size(o.file_size)}{shards}"
    yield f"{title}   GGUF v{o.version}, {order}, alignment {o.alignment}"
    for label, text in (
        ("model", _model_line(o)),
        ("quant", _quant_line(o)),
        ("attention", _attention_line(o)),
        ("rope", rope_text(o.rope)),
        ("vocab", _vocabulary_line(o)),
        ("memory", memory),
        ("deploy", f"kv_cache_type {safe(o.kv_cache_type)} (gguftool's record)" if o.kv_cache_type else ""),
        ("check", _check_line(o, style)),
    ):
        if text:
            yield f"  {style.dim(label.ljust(10))}{text}"


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
        safe(o.name),
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
    heads = f"{span_text(o.head_count)} heads, {span_text(o.head_count_kv)} KV heads"
    lengths = f"{o.key_length}" if o.key_length == o.value_length else f"{o.key_length} (K) and {o.value_length} (V)"
    return f"{heads} of {lengths} · embedding {count(o.embedding_length)}"


def rope_text(r: RopeFacts) -> str:
    """``base 1,000,000 · no scaling``."""
    if not r.used:
        return "not used by this architecture"
    base = f"base {r.base:,.0f}" if r.base == int(r.base) else f"base {r.base:,}"
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
    more = f"gguftool lint {safe(o.path)}"
    if o.faults:
        return style.red("incomplete: ") + safe(o.faults[0])
    return f"{style.green('complete')}: {count(o.tensors)} tensors, {count(o.fields)} metadata fields · more: {more}"


# -- values


def value_text(f: Field, *, full: bool, limit: int) -> str:
    """A value on one line, escaped; arrays by their first elements unless ``full``."""
    if f.type != ARR:
        value = f.value
        text = (
            str(value).lower()
            if isinstance(value, bool)
            else f"{value:.9g}"
            if isinstance(value, float)
            else str(value)
        )
        return safe(text) if full else shorten(text, limit)
    shown = f.head(f.count or 0 if full else HEAD)
    more = "" if len(shown) == (f.count or 0) else f", … {count((f.count or 0) - len(shown))} more"
    text = "[" + ", ".join(_element(v) for v in shown)
    return safe(text + more + "]") if full else shorten(text, limit - len(more) - 1) + more + "]"


def _element(v: object) -> str:
    if isinstance(v, str):
        return f'"{v}"'
    if isinstance(v, bool):
        return str(v).lower()
    return f"{v:.6g}" if isinstance(v, float) else str(v)


def metadata_rows(fields: Iterable[Field], *, full: bool, limit: int) -> list[tuple[str, str, str]]:
    """Rows key, type (with length), value."""
    return [
        (
            shorten(f.key, 120),
            f.type_name.replace("]", f" × {count(f.count)}]", 1) if f.count is not None else f.type_name,
            value_text(f, full=full, limit=limit),
        )
        for f in fields
    ]


def tensor_rows(tensors: Iterable[Tensor]) -> list[tuple[object, ...]]:
    """Rows name, type, shape, offset, bytes."""
    return [
        (shorten(t.name, 120), t.type_name, shape_text(t.shape), t.offset, t.nbytes if t.nbytes is not None else "?")
        for t in tensors
    ]


def shape_text(shape: Sequence[int]) -> str:
    """``640 × 262144`` in GGML order, fastest running dimension first."""
    return " × ".join(map(str, shape)) or "scalar"


METADATA_HEADERS = ("key", "type", "value")
TENSOR_HEADERS = ("tensor", "type", "shape (fastest first)", "offset in file", "bytes")


def metadata_text(fields: Sequence[Field], *, full: bool, limit: int, style: Style, markdown: bool) -> str:
    """The metadata table."""
    rows = metadata_rows(fields, full=full, limit=limit)
    return markdown_table(rows, METADATA_HEADERS) if markdown else table(rows, METADATA_HEADERS, style=style)


def tensor_text(tensors: Sequence[Tensor], *, style: Style, markdown: bool) -> str:
    """The tensor table, shards named when there are several."""
    rows = tensor_rows(tensors)
    return markdown_table(rows, TENSOR_HEADERS) if markdown else table(rows, TENSOR_HEADERS, style=style, align="lllrr")


def layout_text(m: Model, style: Style) -> str:
    """The byte map of every file of the model."""
    out: list[str] = []
    for part in m.parts:
        if len(m.parts) > 1:
            out.append(style.bold(os.path.basename(part.name)))
        rows = [(r.start, r.end, r.size, r.kind, shorten(r.name, 100)) for r in regions(part)]
        out.append(table(rows, ("start", "end", "bytes", "kind", "what"), style=style))
    return "\n".join(out)


def token_rows(m: Model, start: int, stop: int) -> list[tuple[object, ...]]:
    """Rows id, token, type, score of a stretch of the vocabulary."""
    facts = _token_facts(m, start, stop)
    return [(i, f'"{token}"', kind, "" if score is None else f"{score:g}") for i, token, kind, score in facts]


def _token_facts(m: Model, start: int, stop: int) -> Iterator[tuple[int, str, str, float | None]]:
    tokens = m.fields["tokenizer.ggml.tokens"].head(stop - start, start)
    kinds = _slice(m, "tokenizer.ggml.token_type", start, stop)
    scores = _slice(m, "tokenizer.ggml.scores", start, stop)
    for i, token in enumerate(tokens):
        kind = kinds[i] if i < len(kinds) else None
        score = scores[i] if i < len(scores) else None
        name = TOKEN_TYPES.get(kind, f"type {kind}") if isinstance(kind, int) else ""
        yield start + i, str(token), name, score if isinstance(score, (int, float)) else None


def _slice(m: Model, key: str, start: int, stop: int) -> list[object]:
    f = m.fields.get(key)
    return f.head(stop - start, start) if f is not None and f.type == ARR else []


TOKEN_HEADERS = ("id", "token", "type", "score")


def tokens_text(m: Model, start: int, stop: int, style: Style) -> str:
    """A stretch of the vocabulary as a table."""
    return table(token_rows(m, start, stop), TOKEN_HEADERS, style=style, align="rllr")


def tokens_json(m: Model, start: int, stop: int) -> list[dict[str, object]]:
    """A stretch of the vocabulary as objects."""
    return [{"id": i, "token": t, "type": k or None, "score": s} for i, t, k, s in _token_facts(m, start, stop)]


def layout_json(m: Model) -> list[dict[str, object]]:
    """The byte map as objects, file by file."""
    return [
        {"file": part.name, "start": r.start, "end": r.end, "kind": r.kind, "name": r.name}
        for part in m.parts
        for r in regions(part)
    ]


def raw_value(f: Field) -> bytes:
    """The value alone: a string's own bytes, an array one element a line, a scalar as text."""
    if f.type == STR:
        return bytes(f.value_bytes[f.layout.length_size :])
    if f.type == ARR:
        return b"".join(_raw_line(v) for v in f.head(f.count or 0))
    return _raw_line(f.value)


def _raw_line(v: object) -> bytes:
    text = str(v).lower() if isinstance(v, bool) else str(v)
    return text.encode("utf-8", "surrogateescape") + b"\n"


# -- JSON


def dump_json(
    o: Overview, m: Model, fields: Sequence[Field] | None, tensors: Sequence[Tensor] | None, *, full: bool
) -> dict[str, object]:
    """The body of ``gguftool.dump/1``; metadata or tensors None: left out because the user said so."""
    body: dict[str, object] = {"path": o.path, "summary": _summary_json(o)}
    if fields is not None:
        body["metadata"] = [_field_json(f, full) for f in fields]
    if tensors is not None:
        many = len(m.parts) > 1
        body["tensors"] = [_tensor_json(t, many) for t in tensors]
    if len(m.parts) > 1 or m.missing_shards:
        body["shards"] = [
            {"path": p.name, "no": p.no, "size": p.size, "tensors": len(p.header.tensors)} for p in m.parts
        ]
    body["problems"] = [
        {"kind": p.kind, "message": p.message, "offset": p.offset, "key": p.key, "fatal": p.fatal} for p in m.problems
    ]
    return body


def _summary_json(o: Overview) -> dict[str, object]:
    return {
        "name": o.name,
        "architecture": o.architecture,
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
    }


def _field_json(f: Field, full: bool) -> Mapping[str, object]:
    out: dict[str, object] = {"key": f.key, "type": f.type_name, "offset": f.span[0]}
    if f.type != ARR:
        return {**out, "value": f.value}
    n = f.count or 0
    out["count"] = n
    out["head"] = f.head(HEAD)
    if full or n <= WHOLE:
        out["value"] = f.head(n)
    return out


def _tensor_json(t: Tensor, many: bool) -> Mapping[str, object]:
    out: dict[str, object] = {
        "name": t.name,
        "type": t.type_name,
        "type_id": t.info.type_id,
        "shape": list(t.shape),
        "offset": t.offset,
        "bytes": t.nbytes,
    }
    return {**out, "file": t.part.name} if many else out
