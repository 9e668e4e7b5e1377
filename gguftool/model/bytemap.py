"""Which bytes of a file are what: header, filler, padding, tensors, gaps, overlaps and what trails behind."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.format.filler import is_filler
from gguftool.format.header import align
from gguftool.model.part import Part
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Region:
    """One stretch of a file: ``kind`` is prelude, field, filler, infos, padding, tensor, gap, overlap or trailing."""

    start: int
    end: int
    kind: str
    name: str = ""

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self.end - self.start


def regions(part: Part) -> Iterator[Region]:
    """The file from its first byte to its last; a tensor that passes the end is listed as the header states it."""
    h = part.header
    at = h.fields[0].span[0] if h.fields else h.tensors[0].span[0] if h.tensors else h.end
    yield Region(0, at, "prelude", f"GGUF v{h.version}, {h.declared_fields} fields, {h.declared_tensors} tensors")
    for f in h.fields:
        yield Region(*f.span, "filler" if is_filler(f.key) else "field", f.key)
    if h.tensors:
        yield Region(h.tensors[0].span[0], h.tensors[-1].span[1], "infos", f"{len(h.tensors)} tensor infos")
    at = h.end
    if not h.complete:
        if at < part.size:
            yield Region(at, part.size, "trailing", "not read: the header breaks off here")
        return
    if h.tensors and h.data_offset > at:
        yield Region(at, h.data_offset, "padding")
        at = h.data_offset
    for t in sorted(h.tensors, key=lambda t: t.offset):
        start, stop = h.where(t)
        if start > at:
            padded = align(at, h.alignment)
            if at < min(padded, start):
                yield Region(at, min(padded, start), "padding")
            if start > padded:
                yield Region(padded, start, "gap", "bytes that belong to no tensor")
        elif start < at:
            yield Region(start, at, "overlap", f"{t.name} starts before the tensor in front of it ends")
        end = start if stop is None else stop
        yield Region(start, end, "tensor", t.name)
        at = max(at, end)
    if at < part.size:
        padded = min(align(at, h.alignment), part.size) if h.tensors else at
        if padded > at:
            yield Region(at, padded, "padding")
        if part.size > padded:
            yield Region(padded, part.size, "trailing", "behind the last tensor")
