"""From the fields wanted to the bytes in front of the data, and where every byte of the data goes.

The data section starts where the header ends, rounded up to the alignment; nothing in the file says where. So a header
that grows moves the data, unless there is room. Room is kept by a filler, a string key `gguftool.pad`. Its name has 12
characters on purpose: the smallest record then takes 32 bytes, the default alignment, so that every gap can be met.
It is a string because readers skip strings at once and read arrays element by element. Some readers refuse long
strings, and scanners call one of more than 8,192 characters hidden data; so more room than that is kept in a few keys,
`gguftool.pad` and `gguftool.pad.1` to `.7`.
"""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.edit.far import too_far
from gguftool.edit.fitted import Fit, Segment
from gguftool.edit.ops import Front, Operation, Realign, Repack, Reserve, Strip
from gguftool.edit.oslayer import BLOCK
from gguftool.errors import FormatError, Refused, UsageError
from gguftool.format.filler import FILLER_KEY, is_filler
from gguftool.format.header import Field, Header, align
from gguftool.format.limits import HEADER
from gguftool.format.render import length, pieces
from gguftool.format.types import ARR, MAGIC, Layout
from gguftool.format.values import make_field

SLACK = 64 << 10
"""Room kept when the data has to move anyway, in bytes of the whole filler records."""
SMALL_SLACK, SMALL = 8 << 10, 1 << 30
"""Room kept in a file of less than 1 GiB, where one rewrite more costs little."""
LONGEST, MOST_KEYS = 8 << 10, 8
"""Bytes of one filler record, while the room needs no more than so many; more room makes longer ones."""
MAX_FILLER = 8 << 20
"""A filler longer than this is not written: some readers refuse long strings. The data moves up instead."""

_SENTENCE = "room for later edits, kept by gguftool; `gguftool fix --strip-padding` removes it"


def fit(old: Header, new: Header, ops: Sequence[Operation], old_front: bytes, size: int) -> Fit:
    """Lay out the new file.

    Args:
        old: the header as it is.
        new: the header wanted (`gguftool.edit.ops.apply`).
        ops: for the room asked for (`Reserve`, `Strip`) and whether the data is laid out anew (`Repack`, `Realign`).
        old_front: the bytes of the old file up to its data; more may stand behind them.
        size: length of the old file in bytes.
    """
    ready = next((op for op in ops if isinstance(op, Front)), None)
    d = min(len(old_front), old.data_offset)
    rest = size - d
    if ready is not None:
        n = len(ready.front)
        segments = (Segment(d, n, rest),) if rest else ()
        return Fit(ready.front, d, segments, n + rest, True, room(new))
    if _laid_out_anew(old, new, ops):
        return _anew(old, new, size, d)
    if not new.tensors:
        # Nothing depends on where the header ends, so no room is kept.
        end = length(new.layout, new.fields, new.tensors)
        behind = bytes(align(end, new.alignment) - end if d == old.data_offset else 0)
        front = _front(new, new.fields, old_front[old.end : d] if end == old.end else behind)
        return Fit(front, d, (Segment(d, len(front), rest),) if rest else (), len(front) + rest, True, 0)
    fields, place = _without_filler(new.fields)
    strip = any(isinstance(op, Strip) for op in ops)
    wanted = max((op.size for op in ops if isinstance(op, Reserve)), default=None)
    if wanted is not None and wanted > HEADER - d:
        raise UsageError(f"--reserve {wanted:,} bytes: a header has {HEADER >> 20} MiB at most")
    content = length(new.layout, fields, new.tensors)
    target = _data_start(content, d, new, strip, wanted, SMALL_SLACK if size < SMALL else SLACK)
    _refuse_far(target, new.alignment)
    tail = old_front[old.end : d]
    filler = target - content if align(content, new.alignment) != target else 0
    if filler >= filler_overhead(new.layout) + len(tail):
        # The padding stays as it was, so that what stands behind the filler moves exactly as far as the data does.
        filler -= len(tail)
    elif filler or target - content != len(tail):
        tail = b""
    if filler:
        # Room that was asked for is in one key, as it always was.
        whole = wanted is not None or any(is_filler(f.key) and len(f.buffer) > LONGEST for f in old.fields)
        pads = filler_fields(filler, new.layout, filler if whole else LONGEST)
        fields = (*fields[:place], *pads, *fields[place:])
    front = _front(new, fields, tail or bytes(target - length(new.layout, fields, new.tensors)))
    return Fit(front, d, (Segment(d, target, rest),), target + rest, True, filler)


def _front(new: Header, fields: Sequence[Field], behind: bytes) -> bytes:
    """The header as bytes, with what stands behind it; they may be many MB, and are copied once."""
    return b"".join((*pieces(new.layout, fields, new.tensors), behind))


def filler_fields(room: int, layout: Layout, longest: int) -> tuple[Field, ...]:
    """Fillers whose records take ``room`` bytes together, at least `filler_overhead`; the first says what it is for."""
    least = filler_overhead(layout)
    piece = max(longest, align(-(-room // MOST_KEYS), 32))
    # The first takes what the others, which are all of one length, leave over.
    others = max(0, room - least) // piece
    first = room - others * piece - least
    text = _SENTENCE if first > len(_SENTENCE) else ""
    rest = (f"{FILLER_KEY}.{i}" for i in range(1, others + 1))
    return (
        make_field(FILLER_KEY, "str", text.ljust(first), layout),
        *(make_field(key, "str", " " * (piece - least + len(FILLER_KEY) - len(key)), layout) for key in rest),
    )


def filler_overhead(layout: Layout) -> int:
    """Bytes of an empty filler record: two lengths, the key and the type."""
    return 2 * layout.length_size + len(FILLER_KEY) + 4


def room(header: Header) -> int:
    """Bytes of the filler records of a header, 0 when it has none."""
    return sum(len(f.buffer) for f in header.fields if is_filler(f.key))


def _without_filler(fields: tuple[Field, ...]) -> tuple[tuple[Field, ...], int]:
    """The fields without the filler, and where it stands or should stand: in front of the token arrays."""
    for i, f in enumerate(fields):
        if is_filler(f.key):
            return tuple(f for f in fields if not is_filler(f.key)), i
    place = next((i for i, f in enumerate(fields) if f.key.startswith("tokenizer.") and f.type == ARR), len(fields))
    return fields, place


def _data_start(content: int, d: int, new: Header, strip: bool, wanted: int | None, slack: int) -> int:
    """Where the data starts in the new file, as near to ``d`` as the header and the room asked for allow."""
    a, least = new.alignment, filler_overhead(new.layout)
    tight = align(content, a)
    if strip:
        return tight
    unit = max(BLOCK, a)
    if wanted is None:
        if tight == d or content + least <= d <= content + MAX_FILLER:
            return d
    else:
        slack = max(wanted, least)
        if content + slack <= d:
            return d
    # The distance from ``d`` is a multiple of the unit: that is what file systems can insert and clone.
    k = -(-(content + slack - d) // unit)
    if wanted is None and (k - 1) * unit + d >= content + least:
        k -= 1
    return d + k * unit


def _refuse_far(start: int, alignment: int) -> None:
    if why := too_far(start, alignment):
        raise Refused(why)


def _laid_out_anew(old: Header, new: Header, ops: Sequence[Operation]) -> bool:
    if any(isinstance(op, (Repack, Realign)) for op in ops):
        return True
    return old.alignment != new.alignment


def _anew(old: Header, new: Header, size: int, old_front: int) -> Fit:
    """Every tensor at its new offset, zeros between; what no tensor covers is left out."""
    if len(old.tensors) != len(new.tensors):
        raise FormatError("the tensor list changed while the data is laid out anew")
    end = length(new.layout, new.fields, new.tensors)
    _refuse_far(align(end, new.alignment), new.alignment)
    front = _front(new, new.fields, bytes(align(end, new.alignment) - end))
    segments, end = [], len(front)
    for was, now in zip(old.tensors, new.tensors, strict=True):
        n = was.nbytes
        start = old.data_offset + was.offset
        if n is None:
            raise FormatError(f"the size of tensor {was.name} ({was.type_name}) is unknown, so it cannot be moved")
        if start + n > size:
            raise FormatError(
                f"the data of tensor {was.name} passes the end of the file", offset=start, kind="truncated"
            )
        at = len(front) + now.offset
        if n:
            segments.append(Segment(start, at, n))
        end = max(end, at + align(n, new.alignment))
    return Fit(front, old_front, _joined(segments), end, False, room(new))


def _joined(segments: list[Segment]) -> tuple[Segment, ...]:
    """Neighbours that moved by the same distance as one."""
    out: list[Segment] = []
    for s in segments:
        last = out[-1] if out else None
        if last and last.old + last.n == s.old and last.new + last.n == s.new:
            out[-1] = Segment(last.old, last.new, last.n + s.n)
        else:
            out.append(s)
    return tuple(out)


def looks_whole(laid_out: Fit) -> bool:
    """Whether the file would start with the magic when recovery takes the inserted room out of the new header again."""
    return laid_out.front[laid_out.shift : laid_out.shift + 4] == MAGIC
