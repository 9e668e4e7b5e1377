"""Tensor records: names, dimensions, types and sizes."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.facts import llama_cpp
from gguftool.format.header import TensorInfo
from gguftool.format.types import MAX_DIMS, MAX_NAME, REMOVED_TENSOR_TYPES, TENSOR_TYPES, TYPE_COUNT
from gguftool.lint.rule import Context, Drafts, Severity, found, rule
from gguftool.model import Model, Part
from gguftool.model.origin import origin
from gguftool.predict.words import shape_fault, type_fault

MOST_DOUBLES = 8
"""Tensors that stand twice, one finding each; one more counts the rest."""

INT64_MAX = (1 << 63) - 1
SIZE_MAX = (1 << 64) - 1


def _infos(m: Model) -> Iterator[tuple[Part, int, TensorInfo]]:
    """Every tensor record with its file and its number there."""
    for part in m.parts:
        for i, t in enumerate(part.header.tensors):
            yield part, i, t


def _more(n: int) -> str:
    return f" (and {n:,} more tensors)" if n > 1 else " (and one more tensor)" if n else ""


@rule(Severity.ERROR, role="any", whole=False)
def tensor_name_too_long(m: Model, ctx: Context) -> Drafts:
    """A tensor name must be shorter than 64 bytes.

    Why. llama.cpp keeps names in fields of 64 bytes and refuses longer ones; gguf-py writes and reads them.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "tensor name … is too long: … >= 64".
    Example. tensor name of 71 bytes: first_stage_model.decoder.up_blocks…
    Fix. Rename the tensor in the source model and convert again.
    """
    for part, i, t in _infos(m):
        n = len(t.name.encode("utf-8", "surrogateescape"))
        if n >= MAX_NAME:
            yield found(
                f"tensor name of {n} bytes (llama.cpp allows {MAX_NAME - 1}): {t.name[:40]}…",
                where=f"tensor:{t.name}",
                span=t.span,
                path=part.name,
                llama_cpp=f"tensor name {i} is too long: {n} >= {MAX_NAME}",
            )


@rule(Severity.ERROR, role="any", whole=False)
def tensor_duplicate(m: Model, ctx: Context) -> Drafts:
    """A tensor name must stand in the model once.

    Why. llama.cpp refuses the file, in one file and across shards.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "duplicate tensor name '…' for tensor …";
    `llama-model-loader.cpp` across shards: "invalid model: tensor '…' is duplicated".
    Example. tensor token_embd.weight stands twice (records 0 and 17)
    Fix. Convert again; two copies usually mean that the source folder held two sets of weights.
    """
    for part in m.parts:
        for p in (p for p in part.header.problems if p.kind == "tensor-duplicate"):
            text = f"the header is not read to its end: {p.message}"
            yield found(text, where=f"tensor:{p.key}", path=part.name, offset=p.offset)
    seen: dict[str, tuple[Part, int]] = {}
    doubles = 0
    last = ""
    for part, i, t in _infos(m):
        first = seen.setdefault(t.name, (part, i))
        if first == (part, i):
            continue
        doubles, last = doubles + 1, t.name
        if doubles > MOST_DOUBLES:
            continue  # a shard of another set doubles hundreds
        across = first[0] is not part
        other = f"here and in {first[0].name}" if across else f"as records {first[1]} and {i}"
        yield found(
            f"tensor {t.name} stands twice, {other}",
            where=f"tensor:{t.name}",
            span=t.span,
            path=part.name,
            llama_cpp=f"invalid model: tensor '{t.name}' is duplicated"
            if across
            else f"duplicate tensor name '{t.name}' for tensor {i}",
        )
    if doubles > MOST_DOUBLES:
        rest = doubles - MOST_DOUBLES
        yield found(f"and {rest:,} more tensors that stand twice", where=f"tensor:{last}", more=rest)


@rule(Severity.WARNING, role="any", whole=False)
def tensor_name_odd(m: Model, ctx: Context) -> Drafts:
    r"""A tensor name should be plain text.

    Why. llama.cpp accepts any bytes, but control characters act on terminals, path separators on programs that
    unpack tensors into files, and bad UTF-8 stops Python readers.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434) checks the length only; gguf-py decodes names as UTF-8.
    Example. tensor name holds a control character: blk.0.\x1b[31mffn
    Fix. Write the file anew with other names.
    """
    for part, _, t in _infos(m):
        if t.name.isascii() and t.name.isprintable() and t.name and "/" not in t.name and "\\" not in t.name:
            continue
        if not t.name:
            what = "is empty"
        elif any("\udc80" <= c <= "\udcff" for c in t.name):
            what = "is not UTF-8"
        elif any(ord(c) < 32 or ord(c) == 127 for c in t.name):
            what = "holds a control character"
        elif "/" in t.name or "\\" in t.name:
            what = "holds a path separator"
        else:
            continue
        yield found(f"tensor name {what}: {t.name[:60]}", where=f"tensor:{t.name}", span=t.span, path=part.name)


@rule(Severity.ERROR, role="any", whole=False)
def tensor_dims(m: Model, ctx: Context) -> Drafts:
    """A tensor must have at most four dimensions.

    Why. ggml has four. Video models have five-dimensional tensors, which must live in a file beside.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "tensor '…' has invalid number of dimensions: 5 > 4".
    Example. tensor patch_embedding.weight has 5 dimensions
    Fix. Reshape the tensor when converting.
    """
    for part, _, t in _infos(m):
        n = len(t.shape)
        if n > MAX_DIMS:
            yield found(
                f"tensor {t.name} has {n} dimensions, llama.cpp allows {MAX_DIMS}",
                where=f"tensor:{t.name}",
                span=t.span,
                path=part.name,
                llama_cpp=shape_fault(t.name, t.shape),
            )


@rule(Severity.WARNING, role="any", whole=False)
def tensor_dim_zero(m: Model, ctx: Context) -> Drafts:
    """A tensor should have elements.

    Why. llama.cpp's reader accepts a dimension of 0, other programs divide by it (a 96-byte file once crashed the
    loader), and no model needs it.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434) accepts 0; llama.cpp issue 26946.
    Example. tensor x.weight has shape 4 × 0
    Fix. Convert again without the empty tensor.
    """
    for part, _, t in _infos(m):
        if 0 in t.shape:
            shape = " × ".join(map(str, t.shape))
            yield found(
                f"tensor {t.name} is empty: shape {shape}", where=f"tensor:{t.name}", span=t.span, path=part.name
            )


@rule(Severity.ERROR, role="any", whole=False)
def tensor_size_overflow(m: Model, ctx: Context) -> Drafts:
    """A tensor's element count and size must be real numbers.

    Why. Dimensions that are negative as signed numbers, or whose product passes 2^63, are made to overflow a
    reader's multiplication: an exabyte tensor that allocates four megabytes (CVE-2026-33298).
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "dimension … has invalid number of elements", "incorrect
    shape for a tensor '…' may cause overflow errors", "size … overflows after padding".
    Example. tensor token_embd.weight claims 2^66 elements
    Fix. None: the file is damaged or hostile.
    """
    for part, _, t in _infos(m):
        if len(t.shape) > MAX_DIMS:
            continue
        kind = TENSOR_TYPES.get(t.type_id)
        for i, d in enumerate(t.shape):
            if d > INT64_MAX:
                yield found(
                    f"tensor {t.name}: dimension {i} is {d - (1 << 64):,} (negative)",
                    where=f"tensor:{t.name}",
                    span=t.span,
                    path=part.name,
                    llama_cpp=shape_fault(t.name, t.shape),
                )
                break
        else:
            product, alignment = t.elements, part.header.alignment
            size = product // kind.block_size * kind.block_bytes if kind is not None else 0
            if product >= INT64_MAX:
                what = f"claims {product:,} elements"
            elif size > SIZE_MAX - alignment:
                what = f"claims {size:,} bytes"
            else:
                continue
            said = shape_fault(t.name, t.shape) or type_fault(t.name, t.shape, t.type_id)
            said = said or f"tensor '{t.name}' size {size} overflows after padding (alignment {alignment})"
            yield found(
                f"tensor {t.name} {what}", where=f"tensor:{t.name}", span=t.span, path=part.name, llama_cpp=said
            )


@rule(Severity.ERROR, role="any", whole=False)
def tensor_type_unknown(m: Model, ctx: Context) -> Drafts:
    """A tensor's type must be one that llama.cpp knows.

    Why. Ids from 43 on are newer than b11434 or damage; ids 4, 5, 31 to 33 and 36 to 38 once existed and were
    removed: Q4_0_4_4 and its kin became plain Q4_0, repacked at run time.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "has invalid ggml type …. should be in [0, 43)"; removed
    types fail as "not a multiple of block size (0)".
    Forks number types of their own as they like; which fork it is, the sizes and the architecture tell.
    Example. tensor blk.0.attn_q.weight has type 31 (Q4_0_4_4), which llama.cpp removed in December 2024
    Fix. Fetch the Q4_0 instead of the Q4_0_4_4, or run a fork's file with the fork. A type that no table has may be
    newer than the program.
    """
    firsts: dict[int, tuple[Part, TensorInfo]] = {}
    counts: dict[int, int] = {}
    made = origin(m)
    types = made.types if made is not None else {}
    for part, _, t in _infos(m):
        if t.type_id not in TENSOR_TYPES or t.type_id in types:
            firsts.setdefault(t.type_id, (part, t))
            counts[t.type_id] = counts.get(t.type_id, 0) + 1
    for type_id, (part, t) in firsts.items():
        more = _more(counts[type_id] - 1)
        said = f"tensor {t.name} has type {type_id}"
        if made is not None and type_id in types:
            name = types[type_id].name
            if made.role == "old":
                text = f"{said} ({name}), which llama.cpp removed in December 2024{more}"
            else:
                text = f"{said}, which is {name} of {made.program.name}; no llama.cpp reads it{more}"
        elif type_id >= TYPE_COUNT:
            text = f"{said}, which {llama_cpp()} does not know{more}"
        else:
            text = f"{said} ({REMOVED_TENSOR_TYPES.get(type_id, '?')}), which llama.cpp removed: quantise again{more}"
        yield found(
            text,
            where=f"tensor:{t.name}",
            span=t.span,
            path=part.name,
            llama_cpp=type_fault(t.name, t.shape, type_id),
            type=type_id,
            tensors=counts[type_id],
        )


@rule(Severity.ERROR, role="any", whole=False)
def tensor_row_blocks(m: Model, ctx: Context) -> Drafts:
    """A quantised row must be a whole number of blocks.

    Why. Quantised types store 32, 64, 128 or 256 elements in one block; a row whose length is no multiple of it
    cannot be addressed.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "has … elements per row, not a multiple of block size
    (256)".
    Example. tensor blk.0.ffn_down.weight: rows of 192 elements, Q4_K blocks have 256
    Fix. Quantise again: llama-quantize falls back to a 32-element type for such rows.
    """
    for part, _, t in _infos(m):
        kind = TENSOR_TYPES.get(t.type_id)
        row = t.shape[0] if t.shape else 1
        if kind is not None and row % kind.block_size:
            yield found(
                f"tensor {t.name}: rows of {row:,} elements, {kind.name} blocks have {kind.block_size}",
                where=f"tensor:{t.name}",
                span=t.span,
                path=part.name,
                llama_cpp=type_fault(t.name, t.shape, t.type_id),
            )
