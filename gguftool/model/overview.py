"""The facts of the first screen: what a model is, how big, how quantised, which context, whether it is whole.

Pure arithmetic over headers; nothing here prints or estimates memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.brief import short_repr
from gguftool.format.header import NAME
from gguftool.format.types import ARR, STR, file_type_name
from gguftool.model.about import about, kept
from gguftool.model.about.fact import Facts
from gguftool.model.model import Model
from gguftool.model.origin import measured, origin, stored_as
from gguftool.model.part import Part
from gguftool.model.role import role, way_on, what_it_is
from gguftool.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class TypeShare:
    """What one tensor type holds of a model: tensors, elements and bytes; bytes None for an unknown type."""

    type_name: str
    tensors: int
    elements: int
    bytes: int | None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """The vocabulary: size, tokenizer model, pre-tokenizer, and special tokens as (role, id, text or None)."""

    size: int | None
    model: str
    pre: str
    special: tuple[tuple[str, int, str | None], ...]

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class RopeFacts:
    """RoPE as llama.cpp would take it; ``base_given`` tells whether the file says so or the default holds."""

    used: bool
    base: float
    base_given: bool
    scaling: str
    scale: float
    original_context: int | None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Overview:
    """The first screen. Sizes in bytes; ``bits_per_weight`` over all tensors of known type, None without tensors.

    ``label`` is what `general.file_type` claims; ``mix`` is what the tensors are, largest share of bytes first.
    ``faults`` are one-line reasons why the file is not whole; empty when ``complete``.
    ``role`` is a key of `gguftool.model.role.ROLES`, ``what`` its words, ``way`` what to do with a file
    that is no model to be launched, ``about`` what matters of a file in that role, ``kept`` the lines of
    `gguftool.model.about.GENERAL` that are true of it.
    """

    path: str
    name: str
    architecture: str
    size_label: str
    version: int
    big_endian: bool
    alignment: int
    parameters: int
    tensors: int
    fields: int
    file_size: int
    tensor_bytes: int
    bits_per_weight: float | None
    label: str
    mix: tuple[TypeShare, ...]
    context_length: int | None
    block_count: int
    embedding_length: int
    head_count: tuple[int, ...]
    head_count_kv: tuple[int, ...]
    key_length: int
    value_length: int
    sliding_window: int
    experts: int
    experts_used: int
    rope: RopeFacts
    kv_cache_type: str
    vocabulary: TokenFacts
    chat_template: int | None
    shards: int
    faults: tuple[str, ...]
    role: str
    what: str
    way: str
    about: Facts
    kept: tuple[str, ...]

    __repr__ = short_repr

    @property
    def complete(self) -> bool:
        """True when every declared record and every byte of tensor data is there."""
        return not self.faults


def overview(m: Model) -> Overview:
    """Gather the facts of a model; works on a broken file as far as it was read."""
    hp = m.arch
    mix = type_mix(m)
    known_bytes = sum(s.bytes or 0 for s in mix)
    known_elements = sum(s.elements for s in mix if s.bytes is not None)
    ftype = m.get("general.file_type")
    template = m.fields.get("tokenizer.chat_template")
    label = file_type_name(ftype) if isinstance(ftype, int) and not isinstance(ftype, bool) else ""
    elsewhere = origin(m)
    original = hp.raw("rope.scaling.original_context_length")
    return Overview(
        path=m.name,
        name=_text(m, "general.name"),
        architecture=m.architecture,
        size_label=_text(m, "general.size_label"),
        version=m.header.version,
        big_endian=m.header.big_endian,
        alignment=m.header.alignment,
        parameters=sum(s.elements for s in mix),
        tensors=sum(s.tensors for s in mix),
        fields=len(m.header.fields),
        file_size=m.file_size,
        tensor_bytes=known_bytes,
        bits_per_weight=known_bytes * 8 / known_elements if known_elements else None,
        label=(elsewhere.label if elsewhere is not None else "") or label,
        mix=mix,
        context_length=hp.context_length,
        block_count=hp.int("block_count"),
        embedding_length=hp.embedding_length,
        head_count=tuple(hp.head_count),
        head_count_kv=tuple(hp.head_count_kv),
        key_length=hp.key_length,
        value_length=hp.value_length,
        sliding_window=hp.sliding_window,
        experts=hp.int("expert_count"),
        experts_used=hp.int("expert_used_count"),
        rope=RopeFacts(
            used=hp.ropes,
            base=hp.rope_freq_base,
            base_given=hp.raw("rope.freq_base") is not None,
            scaling=hp.rope_scaling_type,
            scale=hp.rope_freq_scale,
            original_context=original if isinstance(original, int) else None,
        ),
        kv_cache_type=_text(m, f"{m.architecture}.kv_cache_type"),
        vocabulary=_vocabulary(m),
        chat_template=None if template is None or template.type != STR else len(template.value_bytes) - 8,
        shards=m.shard_count,
        faults=tuple(faults(m)),
        role=role(m),
        what=what_it_is(m),
        way=way_on(m),
        about=about(m),
        kept=kept(m),
    )


def type_mix(m: Model) -> tuple[TypeShare, ...]:
    """Tensors, elements and bytes by tensor type, largest share of bytes first."""
    sums: dict[str, list[int]] = {}
    unknown: set[str] = set()
    for t in m.all_tensors():
        name, nbytes = stored_as(m, t)
        row = sums.setdefault(name, [0, 0, 0])
        row[0] += 1
        row[1] += t.info.elements
        if nbytes is None:
            unknown.add(name)
        else:
            row[2] += nbytes
    shares = [TypeShare(k, n, e, None if k in unknown else b) for k, (n, e, b) in sums.items()]
    return tuple(sorted(shares, key=lambda s: (-(s.bytes or 0), s.type_name)))


def faults(m: Model) -> list[str]:
    """Why the model is not whole: unread records, data beyond the end of a file, shards that are missing."""
    out: list[str] = []
    for part in m.parts:
        where = f"{part.name}: " if len(m.parts) > 1 else ""
        out += [where + p.message for p in part.header.problems if p.fatal]
        short = missing_data(replace(part, header=measured(m, part.header)))
        if short is not None:
            name, bytes_short = short
            out.append(f"{where}tensor data is incomplete from {name} on, {bytes_short:,} bytes are missing")
    if m.missing_shards:
        from gguftool.model.missing import missing_text

        out.append(missing_text(m.missing_shards, m.shard_count, m.missing_names))
    return out


def missing_data(part: Part) -> tuple[str, int] | None:
    """First tensor of a file whose data passes its end, and how many bytes the file is short; None when none does."""
    first, short = "", 0
    for t in part.header.tensors:
        stop = part.header.where(t)[1]
        if stop is not None and stop > part.size:
            first = first or t.name
            short = max(short, stop - part.size)
    return (first, short) if first else None


def _text(m: Model, key: str) -> str:
    value = m.get(key)
    return value if isinstance(value, str) else ""


_ROLES = ("bos", "eos", "eot", "eom", "unknown", "padding", "seperator", "mask")


def _vocabulary(m: Model) -> TokenFacts:
    tokens = m.fields.get("tokenizer.ggml.tokens")
    size = tokens.count if tokens is not None and tokens.type == ARR else None
    special: list[tuple[str, int, str | None]] = []
    for name in _ROLES:
        value = m.get(f"tokenizer.ggml.{name}_token_id")
        if isinstance(value, int) and not isinstance(value, bool):
            text = None
            if tokens is not None and tokens.element_type == STR and 0 <= value < (size or 0):
                text = str(tokens.head(1, value, most=NAME)[0])
            special.append(("separator" if name == "seperator" else name, value, text))
    model, pre = _text(m, "tokenizer.ggml.model"), _text(m, "tokenizer.ggml.pre")
    return TokenFacts(size, model, pre, tuple(special))


def span_text(values: Sequence[int]) -> str:
    """Per-layer numbers as people read them: ``8`` when all are equal, else ``0–8``."""
    if not values:
        return "?"
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}–{high}"
