"""Magic, version, byte order, counts, keys and alignment."""

from __future__ import annotations

from gguftool.edit.ops import Dedupe, Delete, Realign, Strip
from gguftool.edit.texts import LONGEST_KEY
from gguftool.facts.readers import STUMBLE_OVER_ALIGNMENT
from gguftool.format.filler import FILLER_KEY, is_filler
from gguftool.format.header import Field, Problem
from gguftool.format.types import ARR
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule
from gguftool.model import Model, Part
from gguftool.model.role import role
from gguftool.shell import FILE

HUGE_ALIGNMENT = 1 << 20


def _problems(m: Model, *kinds: str) -> list[tuple[Part, Problem]]:
    return [(part, p) for part in m.parts for p in part.header.problems if p.kind in kinds]


def _not_read_on(m: Model, kind: str) -> Drafts:
    """What llama.cpp refuses ended the walk, for there is more of it than anybody mends by hand."""
    for part, p in _problems(m, kind):
        where = f"field:{p.key}" if p.key else "header"
        yield found(f"the header is not read to its end: {p.message}", where=where, path=part.name, offset=p.offset)


@rule(Severity.ERROR, role="any", whole=False)
def version_unsupported(m: Model, ctx: Context) -> Drafts:
    """The GGUF version must be 2 or 3.

    Why. llama.cpp reads versions 2 and 3 and refuses all others. Version 1 (32-bit lengths, August 2023) was
    written for a few days only; a number above 3 comes from a newer writer or from a damaged first block.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "bad GGUF version", "GGUFv1 is no longer supported",
    "this GGUF file is version … but this software only supports up to version 3".
    Example. GGUF version 4 is newer than this program (1 to 3)
    Fix. Convert the original model again, or download a current file.
    """
    for part in m.parts:
        for p in part.header.problems:
            if p.kind == "bad-version":
                number = int.from_bytes(part.source.read_at(4, 4), "little")
                said = (
                    "bad GGUF version: 0"
                    if number == 0
                    else f"this GGUF file is version {number} but this software only supports up to version 3"
                )
                yield found(p.message, where="header", span=(4, 8), path=part.name, llama_cpp=said)
        if part.header.version == 1:
            yield found(
                "GGUF version 1 (32-bit lengths, 2023): gguftool reads it, llama.cpp does not",
                where="header",
                span=(4, 8),
                path=part.name,
                llama_cpp="GGUFv1 is no longer supported, please use a more up-to-date version",
            )


@rule(Severity.INFO, role="any", whole=False)
def version_old(m: Model, ctx: Context) -> Drafts:
    """GGUF version 2 is older than needed, and fine.

    Why. Versions 2 and 3 differ in the version number and in big-endian support only; llama.cpp loads both. The
    number tells that the file was made before October 2023, so newer metadata (pre-tokenizer, chat template) may
    be missing.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434) accepts 2 and 3.
    Example. GGUF version 2 (before October 2023)
    Fix. None needed; a newer conversion of the same model is usually better.
    """
    if m.header.version == 2:
        yield found(
            "GGUF version 2 (before October 2023): loads, but its metadata may be dated", where="header", span=(4, 8)
        )


@rule(Severity.ERROR, role="any", whole=False)
def byte_order(m: Model, ctx: Context) -> Drafts:
    """The file must be written in the byte order of the machine that loads it.

    Why. Both byte orders carry the same magic; only the version field tells them apart. llama.cpp reads numbers
    in the machine's own order and refuses a big-endian file on x86 and ARM.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "this GGUF file version 50331648 is extremely large, is
    there a mismatch between the host and model endianness?".
    Example. big-endian file: x86 and ARM machines cannot load it
    Fix. Download the little-endian file, or swap it with gguf-py's `gguf-convert-endian FILE little`.
    """
    for part in m.parts:
        if part.header.big_endian:
            number = part.header.version << 24
            yield found(
                "big-endian file: x86 and ARM machines cannot load it",
                where="header",
                span=(4, 8),
                path=part.name,
                fix=Fix("swap the byte order (writes into the file)", command=("gguf-convert-endian", FILE, "little")),
                llama_cpp=f"failed to load model: this GGUF file version {number} is extremely large, "
                "is there a mismatch between the host and model endianness?",
            )


@rule(Severity.ERROR, role="any", whole=False)
def header_breaks_off(m: Model, ctx: Context) -> Drafts:
    """The header must be complete.

    Why. Every length and count in a header must fit into the bytes behind it. One that does not means that the
    file was cut short, that the download filled it with something else, or that it was made to attack a careless
    reader.
    Evidence. `gguf.cpp:gguf_reader::read` (b11434): "string length … exceeds remaining file size", "failed to
    read header", "failed to read key-value pairs", "failed to read tensor info".
    Example. value of type str needs 1,099,511,627,776 bytes at offset 57, 104 left
    Fix. Download the file again; `gguftool verify --hash` tells whether it is then whole. A header beyond the limits of
    gguftool (`gguftool/format/limits.py`: 128 MiB, 65,536 keys, 131,072 tensors …) is no model's.
    """
    for part, p in _problems(m, "truncated", "too-large", "too-many"):
        h = part.header
        stage = "key-value pairs" if len(h.fields) < h.declared_fields or not h.declared_tensors else "tensor info"
        if not h.declared_fields and not h.declared_tensors:
            stage = "header"
        read = f"{len(h.fields):,} of {h.declared_fields:,} keys"
        read += f" and {len(h.tensors):,} of {h.declared_tensors:,} tensors read"
        about = f" (in {p.key!r})" if p.key else ""
        how = "breaks off" if p.kind == "truncated" else "is not read to its end"
        yield found(
            f"the header {how}: {p.message}{about}; {read}",
            where="header",
            span=(p.offset, part.size),
            path=part.name,
            llama_cpp=f"failed to read {stage}" if p.kind == "truncated" else None,
            offset=p.offset,
        )


@rule(Severity.ERROR, role="any", whole=False)
def count_impossible(m: Model, ctx: Context) -> Drafts:
    """The counts of keys and tensors must fit into the file.

    Why. The smallest metadata record has 13 bytes and the smallest tensor record 24; a count above what the rest
    of the file can hold is damage or an attack on a reader that allocates before it looks (CVE-2024-23605,
    CVE-2024-21836).
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "number of tensors is … but must be in"; "failed to read
    header".
    Example. 1,152,921,504,606,846,976 metadata fields cannot fit into the 5,096 bytes left
    Fix. Download the file again.
    """
    for part, p in _problems(m, "bad-count"):
        value = int.from_bytes(part.source.read_at(p.offset, 8), "little")
        what = {8: "tensors", 16: "key value pairs"}.get(p.offset)
        # A count that is positive as a signed number is believed, and the walk fails at some record behind the end.
        negative = value >= 1 << 63 and what is not None
        yield found(
            p.message,
            where="header",
            span=(p.offset, p.offset + 8),
            path=part.name,
            llama_cpp=f"number of {what} is {value - (1 << 64)} but must be in" if negative else None,
        )


@rule(Severity.ERROR, role="any", whole=False)
def value_type_unknown(m: Model, ctx: Context) -> Drafts:
    """Metadata values must have one of the 13 GGUF types.

    Why. The length of a value of an unknown type is unknown too, so nothing behind it can be read.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "key '…' has invalid GGUF type …".
    Example. key 'general.name' has value type 13, unknown to GGUF
    Fix. Convert again; a file from a newer writer needs a newer llama.cpp.
    """
    for part, p in _problems(m, "unknown-value-type"):
        yield found(
            p.message,
            where=f"field:{p.key}" if p.key else "header",
            span=(p.offset, p.offset + 4),
            path=part.name,
            llama_cpp="failed to read key-value pairs",
        )


@rule(Severity.ERROR, role="any", whole=False)
def nested_array(m: Model, ctx: Context) -> Drafts:
    """Arrays must not hold arrays.

    Why. The format allows it on paper; llama.cpp refuses the whole file, and gguf-py silently flattens such
    arrays.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "key '…' has invalid GGUF type 9". No build ever
    took one: "invalid array type 9" until b4435, an abort until b3993.
    Example. x.nested is an array of arrays
    Fix. Delete the key: `gguftool fix --delete KEY`.
    """
    for part, p in _problems(m, "nested-too-deep"):
        yield found(
            p.message, where=f"field:{p.key}", path=part.name, llama_cpp=f"key '{p.key}' has invalid GGUF type 9"
        )
    yield from _not_read_on(m, "nested-array")
    for f in m.header.fields:
        if f.type == ARR and f.element_type == ARR:
            yield found(
                f"{f.key} is an array of arrays, which llama.cpp refuses",
                where=f"field:{f.key}",
                llama_cpp=f"key '{f.key}' has invalid GGUF type 9",
            )


@rule(Severity.ERROR, role="any", whole=False)
def key_empty(m: Model, ctx: Context) -> Drafts:
    """A metadata key must not be empty.

    Why. llama.cpp refuses the file.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "key … is empty". Since b9975; from b4436 on an assertion ends
    the program, older builds take it.
    Example. key 3 is empty
    Fix. Write the file anew with its writer; the key has no name to be deleted by.
    """
    yield from _not_read_on(m, "key-empty")
    for part in m.parts:
        for i, f in enumerate(part.header.fields):
            if f.key == "":
                yield found(
                    f"key {i} is empty", where="header", span=f.span, path=part.name, llama_cpp=f"key {i} is empty"
                )


@rule(Severity.ERROR, role="any", whole=False)
def key_duplicate(m: Model, ctx: Context) -> Drafts:
    """A metadata key must stand in the file once.

    Why. llama.cpp refuses the file, gguf-py stops with a KeyError. `gguftool dump` shows all of them with
    offsets.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "duplicate key '…' for KV pair …". Since b4436; older
    builds take the first.
    Example. llama.block_count stands twice, with different values: 1, 2
    Fix. `gguftool fix --dedupe` keeps the first, which is the one that readers find. Safe when the values are
    equal.
    """
    yield from _not_read_on(m, "key-duplicate")
    for part in m.parts:
        first: dict[str, Field] = {}
        for i, f in enumerate(part.header.fields):
            other = first.setdefault(f.key, f)
            if other is f:
                continue
            same = bytes(other.buffer) == bytes(f.buffer)
            values = "the same value" if same else f"other values: {_short(other)} first, then {_short(f)}"
            yield found(
                f"{f.key} stands more than once, with {values}",
                where=f"field:{f.key}",
                span=f.span,
                path=part.name,
                fix=Fix("keep the first of each duplicate key", (Dedupe(),), safe=same),
                llama_cpp=f"duplicate key '{f.key}' for KV pair {i}",
                equal=same,
            )


def _short(f: Field) -> str:
    text = f"{f.type_name} of {f.count:,}" if f.count is not None else repr(f.told)
    return text if len(text) <= 40 else text[:39] + "…"


@rule(Severity.WARNING, role="any", whole=False, changes_run=False)
def key_too_long(m: Model, ctx: Context) -> Drafts:
    """A metadata key should have at most 65,535 bytes.

    Why. The GGUF specification sets that limit; llama.cpp accepts longer keys, other readers do not.
    Evidence. GGUF specification; llama.cpp b11434 loads keys of 70,000 bytes (measured).
    Example. a key of 70,000 bytes
    Fix. Write the file anew without it.
    """
    for part in m.parts:
        for f in part.header.fields:
            n = len(f.key.encode("utf-8", "surrogateescape"))
            if n > LONGEST_KEY:
                yield found(f"a key of {n:,} bytes (limit {LONGEST_KEY:,}): {f.key[:40]}…", where="header", span=f.span)


@rule(Severity.ERROR, role="any", whole=False)
def alignment_invalid(m: Model, ctx: Context) -> Drafts:
    """general.alignment must be a u32 that is a power of two.

    Why. Where the tensor data starts is computed with it; readers that do not check it divide by zero or shift
    all tensors.
    Evidence. `gguf.cpp:gguf_init_from_reader` (b11434): "key 'general.alignment' must be of type u32 but is …",
    "alignment … is not a power of 2".
    Example. general.alignment is 48, not a power of 2
    Fix. When the file was laid out with 32 all the same, `gguftool fix --delete general.alignment`; else convert
    again.
    """
    for part, p in _problems(m, "alignment-type", "bad-alignment"):
        f = part.header.get("general.alignment")
        said = (
            f"alignment {f.value if f else '?'} is not a power of 2"
            if p.kind == "bad-alignment"
            else f"key 'general.alignment' must be of type u32 but is {f.type_name if f else '?'}"
        )
        fits = _laid_out_for(part, 32)
        fix = Fix(
            "take the key away: the data is laid out with 32, the default", (Delete("general.alignment"),), safe=fits
        )
        yield found(
            p.message, where="field:general.alignment", path=part.name, fix=fix if fits else None, llama_cpp=said
        )


def _laid_out_for(part: Part, alignment: int) -> bool:
    """The stored offsets are those llama.cpp computes with that alignment."""
    offset = 0
    for t in part.header.tensors:
        if t.offset != offset or t.nbytes is None:
            return False
        offset += -(-t.nbytes // alignment) * alignment
    return bool(part.header.tensors)


_READ = ("mmproj", "adapter", "control-vector", "imatrix")
"""Roles of files that are read into memory of their own, not mapped (`clip.cpp`, `llama-adapter.cpp`, b11434)."""


@rule(Severity.ERROR, role="any")
def data_start_misaligned(m: Model, ctx: Context) -> Drafts:
    """The tensor data must start at a multiple of 32 bytes.

    Why. llama.cpp hands the mapped file to its CPU backend, which demands 32. With general.alignment below 32 the
    start falls right or wrong by the length of the header, so adding one key can break a file that worked.
    Evidence. Measured on b11434: of 148 files the load aborts exactly when the data section does not start at a
    multiple of 32 (`ggml-backend.cpp:ggml_backend_buffer_init`).
    Example. tensor data starts at byte 4,104 (alignment 8): llama.cpp aborts
    Fix. `gguftool fix --realign 32` lays the data out anew.
    """
    mapped = ctx.once("role", lambda: role(m)) not in _READ
    for part in m.parts:
        h = part.header
        if mapped and h.tensors and h.data_offset % 32 and not h.big_endian:
            yield found(
                f"the tensor data starts at byte {h.data_offset:,}, not a multiple of 32 (alignment {h.alignment}): "
                "llama.cpp aborts",
                where="field:general.alignment",
                path=part.name,
                fix=Fix("lay the tensor data out with alignment 32", (Realign(32),)),
                aborts=True,
            )


@rule(Severity.INFO, role="any")
def alignment_unusual(m: Model, ctx: Context) -> Drafts:
    """An alignment other than 32 is a risk for later tools, and 32 need not be written down.

    Why. llama-quantize and llama-gguf-split lay data out with 32 but copy the key, so their output contradicts
    itself. Below 32 the file loads or aborts by the length of its header (warning); above 1 MiB it is hardly
    meant (warning). A few readers stumble over the key itself, also where it says 32, the default.
    Evidence. `llama-quant.cpp:llama_model_quantize_impl`, `gguf-split.cpp` (b11434) use GGUF_DEFAULT_ALIGNMENT.
    modelaudit 0.2.54, gguf-py 0.6.0 and Ollama's fs/gguf were run.
    Example. general.alignment is 64: llama-quantize and llama-gguf-split would write a broken file
    Fix. `gguftool fix --realign 32`; where it says 32, `gguftool fix --delete general.alignment`.
    """
    f = m.fields.get("general.alignment")
    if f is None or any(p.key == "general.alignment" for p in m.header.problems):
        return
    n = m.header.alignment
    if n == 32:
        yield found(
            f"general.alignment is 32, the default, and need not be written down: {STUMBLE_OVER_ALIGNMENT}",
            where="field:general.alignment",
            fix=Fix("take the key away", (Delete("general.alignment"),)),
        )
        return
    fix = Fix("lay the tensor data out with alignment 32", (Realign(32),))
    where = "field:general.alignment"
    if n > HUGE_ALIGNMENT:
        yield found(f"general.alignment is {n:,}: more than 1 MiB", where=where, severity=Severity.WARNING, fix=fix)
    elif n < 32:
        text = f"general.alignment is {n}: below 32 the file loads or aborts by the length of its header"
        yield found(text, where=where, severity=Severity.WARNING, fix=fix)
    else:
        text = f"general.alignment is {n}: llama-quantize and llama-gguf-split would write a broken file from it"
        yield found(text, where=where, fix=fix)


@rule(Severity.INFO, role="any", whole=False, changes_run=False)
def filler_present(m: Model, ctx: Context) -> Drafts:
    """The header holds room that gguftool reserved for later edits.

    Why. With the filler key the next edits need not move the tensor data. llama.cpp loads it and prints one line
    about it; whoever publishes the file may not want it.
    Evidence. `docs/editing-safety.md`; the key is `gguftool.pad`, a string of blanks (more room: `gguftool.pad.1` …).
    Example. 8,160 bytes of room for later edits (gguftool.pad)
    Fix. `gguftool fix --strip-padding` before publishing.
    """
    n = sum(f.span[1] - f.span[0] for f in m.fields.values() if is_filler(f.key))
    if n:
        yield found(
            f"{n:,} bytes of room for later edits ({FILLER_KEY})",
            where=f"field:{FILLER_KEY}",
            severity=Severity.INFO if ctx.publishing is None else Severity.WARNING,
            fix=Fix("remove the room before publishing", (Strip(),)),
            bytes=n,
        )
