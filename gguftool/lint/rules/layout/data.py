"""Where the tensor data stands: offsets, and the file's size against them."""

from __future__ import annotations

from gguftool.edit.ops import Realign, Repack
from gguftool.format.header import TensorInfo, align
from gguftool.format.types import MAGIC
from gguftool.lint.rule import Context, Drafts, Fix, Scope, Severity, found, not_evaluated, rule
from gguftool.model import Model, Part, Tensor
from gguftool.model.datastart import misplaced_start, misplaced_words
from gguftool.model.origin import stored_as
from gguftool.model.role import role
from gguftool.records import dataclass
from gguftool.shell import FILE, INTO


@dataclass(frozen=True, slots=True)
class _Offset:
    """A stored offset that is not the one llama.cpp computes."""

    part: Part
    tensor: TensorInfo
    expected: int
    kind: str


def _offsets(m: Model) -> tuple[list[_Offset], list[str]]:
    """Wrong offsets of all files by kind, and why the chain could not be followed."""
    wrong: list[_Offset] = []
    blind: list[str] = []
    for part in m.parts:
        expected = 0
        alignment = part.header.alignment
        highest = 0
        for t in part.header.tensors:
            if t.offset != expected:
                signed = t.offset >= 1 << 63
                if t.offset % alignment:
                    kind = "misaligned"
                elif t.offset > expected or signed:
                    kind = "gap"
                else:
                    kind = "overlap" if t.offset < highest else "gap"
                wrong.append(_Offset(part, t, expected, kind))
            name, nbytes = stored_as(m, Tensor(t, part))
            if nbytes is None:
                blind.append(f"the size of {t.name} ({name}) is unknown, so is where the next tensor starts")
                break
            # Behind a wrong offset the chain is taken up where the file has it, so that one fault is one finding.
            start = t.offset if t.offset % alignment == 0 and t.offset < 1 << 63 else expected
            expected = start + align(nbytes, alignment)
            highest = max(highest, expected)
    return wrong, blind


def _chain(m: Model, ctx: Context, kind: str, text: str) -> Drafts:
    wrong, blind = ctx.once("offsets", lambda: _offsets(m))
    for why in blind:
        yield not_evaluated(why)
    hits = [w for w in wrong if w.kind == kind]
    for part in m.parts:
        here = [w for w in hits if w.part is part]
        if not here:
            continue
        w = here[0]
        more = f"; {len(here) - 1:,} more" if len(here) > 1 else ""
        yield found(
            text.format(
                name=w.tensor.name, offset=w.tensor.offset, expected=w.expected, alignment=part.header.alignment
            )
            + more,
            where=f"tensor:{w.tensor.name}",
            span=w.tensor.span,
            path=part.name,
            fix=Fix("lay out the tensor data without gaps", (Repack(),)) if kind == "gap" else None,
            llama_cpp=f"tensor '{w.tensor.name}' has offset {w.tensor.offset}, expected {w.expected}",
            tensors=[x.tensor.name for x in here[:100]],
        )


@rule(Severity.ERROR, role="any", whole=False)
def tensor_offset_gap(m: Model, ctx: Context) -> Drafts:
    """Tensor data must follow without gaps, in the order of the tensor list.

    Why. llama.cpp computes every offset itself (a running sum of padded sizes) and refuses a file whose stored
    offset differs; gguf-py accepts gaps, overlaps and any order. A wrong shape in one record shows here, at the
    next tensor.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "tensor '…' has offset …, expected …".
    Example. tensor b.weight starts at 64 in the data section, expected 32
    Fix. `gguftool fix --repack` lays the data out anew (it moves tensor data, so it is not applied unasked).
    """
    yield from _chain(m, ctx, "gap", "tensor {name} starts at {offset:,} in the data section, expected {expected:,}")


@rule(Severity.ERROR, role="any", whole=False)
def tensor_offset_overlap(m: Model, ctx: Context) -> Drafts:
    """Tensor data must not overlap.

    Why. Two tensors that share bytes mean a broken or hostile file: at least one holds wrong weights.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "tensor '…' has offset …, expected …".
    Example. tensor blk.0.attn_q.weight starts at 256, inside the tensor before it, which ends at 512
    Fix. None: the bytes of one tensor are lost. Convert or download again.
    """
    text = "tensor {name} starts at {offset:,} in the data section, inside the one before, which ends at {expected:,}"
    yield from _chain(m, ctx, "overlap", text)


@rule(Severity.ERROR, role="any", whole=False)
def tensor_offset_misaligned(m: Model, ctx: Context) -> Drafts:
    """Tensor data must start at multiples of the alignment.

    Why. llama.cpp computes aligned offsets and refuses others; kernels read whole vectors.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "tensor '…' has offset …, expected …".
    Example. tensor blk.0.attn_q.weight starts at 516, not a multiple of 32
    Fix. A file packed with another alignment than it states can be read by nobody; convert or download again.
    """
    text = (
        "tensor {name} starts at {offset:,} in the data section, not a multiple of {alignment} (expected {expected:,})"
    )
    yield from _chain(m, ctx, "misaligned", text)


@rule(Severity.ERROR, scope=Scope.FILE, role="any")
def data_start_elsewhere(m: Model, ctx: Context) -> Drafts:
    """The header must be padded to the alignment that its key states.

    Why. Some writers pad the header to 32 whatever the key says (@huggingface/gguf's buildGgufHeader without its
    option `alignment`), some to more. Readers compute the start of the data from the key: llama.cpp refuses a file
    whose data ends too early then, and computes nonsense with one whose data starts later.
    Evidence. The length of the file fits the other start to the byte; files of @huggingface/gguf were loaded.
    Example. nothing is missing: the header was written with an alignment of 32, the key says 4,096
    Fix. `gguftool fix --realign N` takes the data from where it starts and writes the padding.
    """
    for part in m.parts:
        h = part.header
        start = misplaced_start(part.source, h)
        if start is None:
            continue
        cut = [t for t in h.tensors if (h.where(t)[1] or 0) > part.size]
        first = min(cut, key=lambda t: t.offset).name if cut else ""
        said = f"tensor '{first}' data is not within the file bounds, model is corrupted or incomplete" if cut else ""
        # What llama.cpp loads all the same is left to a person: its length alone is the witness.
        mend = Fix("write the padding that the key states", (Realign(h.alignment),), safe=bool(cut))
        yield found(
            misplaced_words(h, start),
            where="header",
            span=(h.end, max(start, h.data_offset)),
            path=part.name,
            llama_cpp=said,
            fix=mend,
            start=start,
            expected=h.data_offset,
        )


@rule(Severity.ERROR, scope=Scope.FILE, role="any")
def data_truncated(m: Model, ctx: Context) -> Drafts:
    """All tensor data must lie inside the file.

    Why. A download that stopped leaves a perfect header and too few bytes behind it. llama.cpp checks every
    tensor before it looks at the architecture, and refuses.
    Evidence. `llama-model-loader.h` (b11434): "tensor '…' data is not within the file bounds, model is corrupted
    or incomplete".
    Example. the file ends 2,000 bytes early (61 % of the tensor data is here); first tensor cut:
    blk.0.attn_q.weight
    Fix. Resume or repeat the download.
    """
    for part in m.parts:
        if misplaced_start(part.source, part.header) is not None:
            continue
        h = part.header
        cut = [(t, *h.where(t)) for t in h.tensors if t.nbytes is not None and t.offset + t.nbytes < 1 << 63]
        cut = [row for row in cut if (row[2] or 0) > part.size]
        if not cut:
            continue
        end = max(row[2] or 0 for row in cut)
        first = min(cut, key=lambda row: row[1])[0]
        have = max(0, part.size - h.data_offset)
        share = 100 * have // max(1, end - h.data_offset)  # rounded down: what is cut off is never 100 %
        rest = f"{share} % of the tensor data is here" if have else "there is no tensor data at all"
        yield found(
            f"the file ends {end - part.size:,} bytes early ({rest}); first tensor cut: {first.name}",
            where=f"tensor:{first.name}",
            span=(part.size, part.size),
            path=part.name,
            llama_cpp=f"tensor '{first.name}' data is not within the file bounds, model is corrupted or incomplete",
            missing=end - part.size,
            expected_size=end,
            size=part.size,
            tensors=len(cut),
        )


@rule(Severity.WARNING, scope=Scope.FILE, role="any")
def trailing_bytes(m: Model, ctx: Context) -> Drafts:
    """Nothing should follow the last tensor.

    Why. llama.cpp ignores what follows, so an interrupted download that was started again at the wrong place
    loads and talks nonsense. Another GGUF in there means that shards were joined with cat: they need a real
    merge.
    Evidence. Measured on b11434: any trailing bytes load silently; llama.cpp issues 12207 (oversize download) and
    9613 (shards joined with cat).
    Example. 100,000 bytes follow the last tensor
    Fix. Check the file's hash; `gguftool fix --repack` writes a file without them.
    """
    for part in m.parts:
        h = part.header
        end = h.data_end()
        if end is None or end > part.size or misplaced_start(part.source, h) is not None:
            continue
        extra = part.size - align(end, h.alignment)
        if extra <= 0:
            continue
        at = align(end, h.alignment)
        joined = part.source.read_at(at, 4) == MAGIC
        if joined:
            text = f"another GGUF file starts at byte {at:,}: shards joined with cat? They need `gguftool merge`"
            fix = Fix(
                "cut it apart again and merge the shards", command=("head", "-c", str(at), FILE, INTO, "part1.gguf")
            )
        else:
            text = f"{extra:,} bytes follow the last tensor: the file is longer than its header says"
            fix = Fix("lay the file out without them", (Repack(),))
        yield found(
            text,
            where="file",
            span=(at, part.size),
            path=part.name,
            severity=Severity.ERROR if joined else None,
            fix=fix,
            bytes=extra,
            joined=joined,
        )


READ_WHOLE = ("control-vector", "imatrix")
"""Roles of files whose data section is read in one piece (`gguf_init_from_file` without ``no_alloc``, b11434)."""


@rule(Severity.INFO, scope=Scope.FILE, role="any")
def final_padding_missing(m: Model, ctx: Context) -> Drafts:
    """The last tensor should be padded like the others.

    Why. Writers pad the last tensor to the alignment; llama.cpp does not need it for models, a reader that maps whole
    blocks may. A control vector or an importance matrix is read in one piece, padding included: without it llama.cpp
    does not take the file.
    Evidence. Measured on b11434: the load of a model needs the data only; `gguf.cpp:gguf_init_from_reader`: "failed to
    read tensor data binary blob". gguf-py pads.
    Example. 14 bytes of padding are missing behind the last tensor
    Fix. `gguftool fix --repack` for a control vector or an importance matrix; else none needed.
    """
    whole = ctx.once("role", lambda: role(m)) in READ_WHOLE
    for part in m.parts:
        end = part.header.data_end()
        if misplaced_start(part.source, part.header) is not None:
            continue
        if end is not None and part.header.tensors and end <= part.size < align(end, part.header.alignment):
            n = align(end, part.header.alignment) - part.size
            meaning = ": llama.cpp reads them, and does not take the file" if whole else " (harmless)"
            yield found(
                f"{n:,} bytes of padding are missing behind the last tensor{meaning}",
                where="file",
                severity=Severity.ERROR if whole else None,
                span=(part.size, part.size),
                path=part.name,
                fix=Fix("lay the tensor data out anew, with padding", (Repack(),), safe=True) if whole else None,
                llama_cpp="failed to read tensor data binary blob" if whole else None,
            )
