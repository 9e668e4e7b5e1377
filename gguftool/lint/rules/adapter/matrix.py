"""Importance matrices: what llama-quantize asks of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gguftool.errors import GgufToolError
from gguftool.facts.machine.ends import Abort
from gguftool.facts.machine.taken import taken
from gguftool.lint.rule import Context, Draft, Drafts, Scope, Severity, found, rule, to_choose
from gguftool.lint.rules.tensors.groups import limited
from gguftool.model import Model
from gguftool.model.imatrix import CHUNK, CHUNKS, COUNTS, DATASETS, NEXTN, SQUARES, Entry, entries

_F32 = 0


def read(m: Model, ctx: Context) -> tuple[Entry, ...]:
    """The entries, paired once a run."""
    return ctx.once("imatrix", lambda: entries(m))


@rule(Severity.ERROR, role="imatrix")
def imatrix_pair(m: Model, ctx: Context) -> Drafts:
    """Every entry of an importance matrix must have its squares and its counts.

    Why. llama-quantize divides one by the other, and ends at an entry that has only one of them, or plain sums of
    another size.
    Evidence. `imatrix-loader.cpp:common_imatrix_load` (b11434): "mismatched sums and counts for …".
    Example. blk.0.attn_q.weight has in_sum2 and no counts
    Fix. Measure it again with `gguftool imatrix`.
    """
    yield from limited(_pairs(read(m, ctx)))


def _pairs(found_in: tuple[Entry, ...]) -> Iterator[Draft]:
    for one in found_in:
        if one.paired:
            continue
        have = [end[1:] for end, info in ((SQUARES, one.squares), (COUNTS, one.counts)) if info is not None]
        lost = [end[1:] for end, info in ((SQUARES, one.squares), (COUNTS, one.counts)) if info is None]
        if lost:
            text = f"{one.name} has {have[0] if have else 'in_sum'} and no {' and no '.join(lost)}"
        else:
            sizes = [info.elements for info in (one.sums, one.squares) if info is not None]
            text = f"{one.name} has {sizes[0]:,} plain sums and {sizes[-1]:,} squares"
        said = f"mismatched sums and counts for {one.name}"
        yield found(text, where=f"tensor:{one.first}", llama_cpp=said)


@rule(Severity.ERROR, role="imatrix")
def imatrix_type(m: Model, ctx: Context) -> Drafts:
    """Squares and counts must be F32.

    Why. llama-quantize ends at any other type.
    Evidence. `imatrix-loader.cpp:common_imatrix_load` (b11434): "sums and counts for … must be F32".
    Example. blk.0.attn_q.weight.in_sum2 is F16, must be F32
    Fix. Measure it again with `gguftool imatrix`.
    """
    yield from limited(_types(read(m, ctx)))


def _types(found_in: tuple[Entry, ...]) -> Iterator[Draft]:
    for one in found_in:
        for info in (one.squares, one.counts):
            if info is not None and info.type_id != _F32:
                said = f"sums and counts for {one.name} must be F32"
                yield found(
                    f"{info.name} is {info.type_name}, must be F32", where=f"tensor:{info.name}", llama_cpp=said
                )


@rule(Severity.ERROR, role="imatrix")
def imatrix_keys(m: Model, ctx: Context) -> Drafts:
    """An importance matrix must say what it was measured on: data sets, chunks, tokens a chunk.

    Why. llama-quantize ends without these three keys, and dies of a number that is not u32.
    Evidence. `quantize.cpp:load_imatrix` (b11434): "missing imatrix metadata in file …".
    Example. imatrix.chunk_count is missing: llama-quantize does not take the file
    Fix. Measure it again with `gguftool imatrix`; or `gguftool fix --set` with what is known.
    """
    for key in (DATASETS, CHUNKS, CHUNK, NEXTN):
        fix = to_choose("say what it was measured on", "--set", key)
        if key not in m.fields and key != NEXTN:
            text = f"{key} is missing: llama-quantize does not take the file"
            yield found(text, where=f"field:{key}", fix=fix, llama_cpp="missing imatrix metadata in file")
        elif key != DATASETS:
            try:
                taken(m.fields, key, "u32")
            except Abort as end:
                text = f"{key} is {m.fields[key].type_name}, must be u32: llama-quantize aborts"
                yield found(text, where=f"field:{key}", fix=fix, llama_cpp=end.text)


@rule(Severity.ERROR, role="imatrix")
def imatrix_counts(m: Model, ctx: Context) -> Drafts:
    """An entry must have a count for each expert, and as many squares for each.

    Why. llama-quantize divides the squares into as many parts as there are counts: by none it dies, and where they do
    not divide evenly every importance is that of another column.
    Evidence. `quantize.cpp:load_imatrix` (b11434); measured: a division by zero ends llama-quantize.
    Example. blk.0.ffn_up_exps.weight has 100 squares and 8 counts, which do not divide evenly
    Fix. Measure it again with `gguftool imatrix`.
    """
    yield from limited(_counts(read(m, ctx)))


def _counts(found_in: tuple[Entry, ...]) -> Iterator[Draft]:
    for one in found_in:
        if one.squares is None or one.counts is None:
            continue
        squares, counts = one.squares.elements, one.counts.elements
        if not counts:
            text = f"{one.name} has an empty tensor of counts: llama-quantize dies of a division by zero"
            yield found(text, where=f"tensor:{one.name}{COUNTS}", aborts=True)
        elif squares % counts:
            text = f"{one.name} has {squares:,} squares and {counts:,} counts, which do not divide evenly"
            yield found(text, where=f"tensor:{one.name}{COUNTS}")
        elif not squares:
            yield found(f"{one.name} has no squares", where=f"tensor:{one.name}{SQUARES}", severity=Severity.WARNING)


@rule(Severity.ERROR, role="imatrix")
def imatrix_empty(m: Model, ctx: Context) -> Drafts:
    """An importance matrix must have entries.

    Why. llama-quantize ends at a file without tensors. With tensors of other names only it goes on, and quantises as if
    there were no matrix.
    Evidence. `imatrix-loader.cpp:common_imatrix_load` (b11434): "no data in file …".
    Example. the file has no tensors: llama-quantize does not take it
    Fix. Measure it again with `gguftool imatrix`.
    """
    if not m.header.tensors:
        text = "the file has no tensors: llama-quantize does not take it"
        yield found(text, where="file", llama_cpp="no data in file")
    elif not read(m, ctx):
        text = f"no tensor is an entry ({m.header.tensors[0].name} …): llama-quantize goes on without a matrix"
        yield found(text, where="file", severity=Severity.WARNING)


@rule(Severity.WARNING, scope=Scope.DATA, role="imatrix")
def imatrix_never_reached(m: Model, ctx: Context) -> Drafts:
    """Every weight should have been reached by the text that was measured.

    Why. For a weight without a token, and for an expert without one, llama-quantize takes all columns as equal: there
    the matrix is worth nothing. A longer or more varied text reaches more experts.
    Evidence. `quantize.cpp:load_imatrix` (b11434): importances of 1 where the count is 0.
    Example. no token reached blk.1.ffn_up.weight
    Fix. Measure it again on more text.
    """
    zero: list[str] = []
    experts = of = 0
    for one in read(m, ctx):
        tensor = m.tensors.get(one.name + COUNTS)
        if tensor is None or one.counts is None or one.counts.type_id != _F32:
            continue
        try:
            counts = struct.unpack(f"{tensor.part.header.layout.order}{one.counts.elements}f", tensor.read())
        except (GgufToolError, struct.error):
            continue
        idle = sum(n == 0 for n in counts)
        if counts and idle == len(counts):
            zero.append(one.name)
        elif len(counts) > 1:
            experts, of = experts + idle, of + len(counts)
    if zero:
        more = f" and {len(zero) - 1:,} more" if len(zero) > 1 else ""
        yield found(f"no token reached {zero[0]}{more}", where=f"tensor:{zero[0]}{COUNTS}", tensors=zero[:64])
    if experts:
        yield found(f"no token reached {experts:,} of {of:,} experts", where="file", experts=experts)
