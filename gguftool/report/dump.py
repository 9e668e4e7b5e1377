"""What `gguftool dump` shows: tables of metadata and tensors, as text, Markdown or JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from gguftool.format.header import LONG, Field
from gguftool.format.types import ARR, STR
from gguftool.model import Model, Tensor
from gguftool.report.text import Style, count, markdown_table, safe, shorten, table

if TYPE_CHECKING:
    from gguftool.model.overview import Overview

HEAD = 8
"""Elements of an array shown when not everything is asked for."""
MOST = 1 << 20
"""Elements of an array shown when everything is asked for."""
MOST_HEAD = 1 << 12
"""Bytes of a string in the head of an array in JSON."""
TOGETHER = LONG
"""Bytes of long texts that are shown whole, of all fields together; real files have one chat template, or a few."""
SHORT = 4 << 10
"""Bytes of a text that are shown all the same, and of an element of an array."""
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
    from fnmatch import translate

    pattern = re.compile("|".join(translate(g) for g in globs))
    return lambda text: pattern.match(text) is not None


# -- values


class Room:
    """How much of long texts is still shown whole."""

    def __init__(self) -> None:
        self.left = TOGETHER

    def told(self, f: Field) -> tuple[object, int]:
        """The value of a field that is no array, and how many bytes of it are left out."""
        size = len(f.value_bytes) - f.layout.length_size if f.type == STR else 0
        if size <= SHORT:
            return f.told, 0
        if min(size, LONG) > self.left:
            return f.beginning(SHORT), size - SHORT
        self.left -= min(size, LONG)
        return f.told, f.untold

    def head(self, f: Field, n: int) -> list[object]:
        """The first elements of an array, and of each as much as there is room for."""
        size = len(f.value_bytes)
        if f.element_type != STR or size <= SHORT:
            return f.head(n)
        most = SHORT if size > self.left else LONG
        self.left -= min(size, self.left)
        return f.head(n, most=most)


def value_text(f: Field, *, full: bool, limit: int, room: Room | None = None) -> str:
    """A value on one line, escaped; arrays by their first elements unless ``full``."""
    room = room or Room()
    if f.type != ARR:
        value, more_bytes = room.told(f) if full else (f.beginning(4 * limit), 0)
        text = (
            str(value).lower()
            if isinstance(value, bool)
            else f"{value:.9g}"
            if isinstance(value, float)
            else str(value)
        )
        if not full:
            return shorten(text, limit)
        return safe(text) + (f"… {count(more_bytes)} more bytes, see --raw" if more_bytes else "")
    shown = room.head(f, min(f.count or 0, MOST)) if full else f.head(HEAD, most=4 * limit)
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
    room = Room()
    return [
        (
            shorten(f.key, 120),
            f.type_name.replace("]", f" × {count(f.count)}]", 1) if f.count is not None else f.type_name,
            value_text(f, full=full, limit=limit, room=room),
        )
        for f in fields
    ]


def tensor_rows(m: Model, tensors: Iterable[Tensor]) -> list[tuple[object, ...]]:
    """Rows name, type, shape, offset, bytes; types as the program has them that the file was made for."""
    from gguftool.model.origin import stored_as

    rows: list[tuple[object, ...]] = []
    for t in tensors:
        name, nbytes = stored_as(m, t)
        rows.append((shorten(t.name, 120), name, shape_text(t.shape), t.offset, "?" if nbytes is None else nbytes))
    return rows


def shape_text(shape: Sequence[int]) -> str:
    """``640 × 262144`` in GGML order, fastest running dimension first."""
    return " × ".join(map(str, shape)) or "scalar"


METADATA_HEADERS = ("key", "type", "value")
TENSOR_HEADERS = ("tensor", "type", "shape (fastest first)", "offset in file", "bytes")


def metadata_text(fields: Sequence[Field], *, full: bool, limit: int, style: Style, markdown: bool) -> str:
    """The metadata table."""
    rows = metadata_rows(fields, full=full, limit=limit)
    return markdown_table(rows, METADATA_HEADERS) if markdown else table(rows, METADATA_HEADERS, style=style)


def tensor_text(m: Model, tensors: Sequence[Tensor], *, style: Style, markdown: bool) -> str:
    """The tensor table, shards named when there are several."""
    rows = tensor_rows(m, tensors)
    return markdown_table(rows, TENSOR_HEADERS) if markdown else table(rows, TENSOR_HEADERS, style=style, align="lllrr")


def layout_text(m: Model, style: Style) -> str:
    """The byte map of every file of the model."""
    from gguftool.model.bytemap import regions

    out: list[str] = []
    for part in m.parts:
        if len(m.parts) > 1:
            out.append(style.bold(os.path.basename(part.name)))
        rows = [(r.start, r.end, r.size, r.kind, shorten(r.name, 100)) for r in regions(part)]
        out.append(table(rows, ("start", "end", "bytes", "kind", "what"), style=style))
    return "\n".join(out)


def _token_facts(m: Model, start: int, stop: int) -> Iterator[tuple[int, str, str, float | None]]:
    tokens = m.fields["tokenizer.ggml.tokens"].head(stop - start, start, most=SHORT)
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


TOKENS_AT_ONCE = 1 << 12
"""Rows of the table whose columns are of one width."""
MOST_TOKENS = 1 << 19
"""Tokens that one call shows; the largest vocabularies of models have half as many."""
TOKEN_HEADERS = ("id", "token", "type", "score")


def tokens_text(m: Model, start: int, stop: int, style: Style) -> Iterator[str]:
    """A stretch of the vocabulary as a table, in pieces: a vocabulary of any length takes the memory of a piece."""
    facts = _token_facts(m, start, stop)
    while some := list(islice(facts, TOKENS_AT_ONCE)):
        rows = [(i, f'"{token}"', kind, "" if score is None else f"{score:g}") for i, token, kind, score in some]
        yield table(rows, TOKEN_HEADERS if some[0][0] == start else (), style=style, align="rllr")


class TokensJson(list[dict[str, object]]):
    """A stretch of the vocabulary as objects, each made when it is written."""

    def __init__(self, m: Model, start: int, stop: int) -> None:
        super().__init__()
        self._facts = (m, start, stop)

    def __len__(self) -> int:
        return self._facts[2] - self._facts[1]

    def __iter__(self) -> Iterator[dict[str, object]]:
        for i, token, kind, score in _token_facts(*self._facts):
            yield {"id": i, "token": token, "type": kind or None, "score": score}


def layout_json(m: Model) -> list[dict[str, object]]:
    """The byte map as objects, file by file."""
    from gguftool.model.bytemap import regions

    return [
        {"file": part.name, "start": r.start, "end": r.end, "kind": r.kind, "name": r.name}
        for part in m.parts
        for r in regions(part)
    ]


def raw_value(f: Field) -> bytes | memoryview:
    """The value alone: a string's own bytes, an array one element a line, a scalar as text."""
    if f.type == STR:
        return f.value_bytes[f.layout.length_size :]
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
    from gguftool.memory.points import kv_points
    from gguftool.report.overview import summary_json

    body: dict[str, object] = {"path": o.path, "summary": summary_json(o, kv_points(m))}
    if fields is not None:
        room = Room()
        body["metadata"] = [_field_json(f, full, room) for f in fields]
    if tensors is not None:
        many = len(m.parts) > 1
        body["tensors"] = [_tensor_json(m, t, many) for t in tensors]
    if len(m.parts) > 1 or m.missing_shards:
        body["shards"] = [
            {"path": p.name, "no": p.no, "size": p.size, "tensors": len(p.header.tensors)} for p in m.parts
        ]
    body["problems"] = [
        {"kind": p.kind, "message": p.message, "offset": p.offset, "key": p.key, "fatal": p.fatal} for p in m.problems
    ]
    return body


def _field_json(f: Field, full: bool, room: Room) -> Mapping[str, object]:
    out: dict[str, object] = {"key": f.key, "type": f.type_name, "offset": f.span[0]}
    if f.type != ARR:
        # Of a text that nobody reads the beginning, and how long it is.
        value, more = room.told(f)
        size = {"bytes": len(f.value_bytes) - f.layout.length_size} if more else {}
        return {**out, "value": value, **size}
    n = f.count or 0
    out["count"] = n
    out["head"] = f.head(HEAD, most=MOST_HEAD)
    # Few arrays can hold many numbers: of what is longer than a long text the beginning is shown.
    deep = f.element_type == ARR and len(f.value_bytes) > LONG
    if ((full and n <= MOST) or n <= WHOLE) and not deep:
        out["value"] = room.head(f, n)
    return out


def _tensor_json(m: Model, t: Tensor, many: bool) -> Mapping[str, object]:
    from gguftool.model.origin import stored_as

    kind, nbytes = stored_as(m, t)
    out: dict[str, object] = {
        "name": t.name,
        "type": kind,
        "type_id": t.info.type_id,
        "shape": list(t.shape),
        "offset": t.offset,
        "bytes": nbytes,
    }
    return {**out, "file": t.part.name} if many else out
