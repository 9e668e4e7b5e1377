"""What quantising a model would give, before a byte is written: types, fallbacks, exact size, what is against it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gguftool.build.ftypes import TARGETS, Target
from gguftool.build.mixture import Choice, Facts, Overrides, Shape, choose
from gguftool.errors import FormatError, Refused
from gguftool.facts import llama_cpp
from gguftool.files.attributes import Readers, readers_of
from gguftool.format.header import Field, TensorInfo, align
from gguftool.format.render import make_tensor_info, padding, render_parts
from gguftool.format.types import TENSOR_TYPE_BY_NAME, Layout
from gguftool.format.values import make_field
from gguftool.model import Model, Tensor
from gguftool.model.role import role, way_on, what_it_is
from gguftool.predict.pairs.imatrix import lacking, wrong_sizes
from gguftool.shell import gguftool, path_word

FLOATS = ("F32", "F16", "BF16")
UNREADABLE = frozenset("I8 I16 I32 I64 F64 Q8_1 Q8_K".split())
"""Tensor types that ggml cannot turn into f32."""
NO_WAY_WITHOUT = frozenset("IQ2_XXS IQ2_XS IQ1_S".split())
"""Types whose kernels stop the process without importances (`ggml.c:ggml_quantize_requires_imatrix`)."""
_LAYER = re.compile(r"blk\.\s*([+-]?\d{1,18})")
_REPLACED = ("general.quantization_version", "general.file_type", "split.no", "split.count", "split.tensors.count")
QUANTIZATION_VERSION = 2
"""`ggml.h:GGML_QNT_VERSION`."""


@dataclass(frozen=True, slots=True)
class Step:
    """One tensor of the result, in the order it is written.

    Attributes:
        tensor: the source.
        choice: type it gets, and the one it was meant to get.
        old_bytes, new_bytes: of its data, without padding.
        offset: of the new data from the start of the data section, in bytes.
        source_type: tensor type name of the source.
    """

    tensor: Tensor
    choice: Choice
    old_bytes: int
    new_bytes: int
    offset: int
    source_type: str

    @property
    def name(self) -> str:
        """Tensor name."""
        return self.tensor.name

    @property
    def changes(self) -> bool:
        """False when the data is copied as it is."""
        return self.choice.type != self.source_type

    @property
    def requantizes(self) -> bool:
        """Whether data that has already lost precision loses more."""
        return self.changes and self.source_type not in FLOATS


@dataclass(frozen=True, slots=True)
class QuantizePlan:
    """The result of quantising, known beforehand.

    Attributes:
        target: what was asked for.
        steps: tensors in the order they are written.
        header: bytes from the start of the file to the data section, padding included.
        data_offset: where the data section starts, in bytes.
        file_size: of the result, in bytes, exact.
        source_size: bytes of the source's tensor data.
        refusals: why it cannot be done as asked; empty when it can.
        warnings: what the user should know.
    """

    target: Target
    steps: tuple[Step, ...]
    header: bytes
    data_offset: int
    alignment: int
    file_size: int
    source_size: int
    refusals: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def fallbacks(self) -> tuple[Step, ...]:
        """Tensors whose rows do not divide into blocks of the wanted type."""
        return tuple(s for s in self.steps if s.choice.fell_back)

    @property
    def source(self) -> str:
        """The first file of the model."""
        return self.steps[0].tensor.part.name

    @property
    def readers(self) -> Readers:
        """Who may read the result: who may read the source."""
        return readers_of(sorted({path for s in self.steps if (path := s.tensor.part.path) is not None}))

    @property
    def data_size(self) -> int:
        """Bytes of tensor data without padding: llama-quantize's `quant size`."""
        return sum(s.new_bytes for s in self.steps)

    @property
    def bits_per_weight(self) -> float:
        """Of all tensors together."""
        return 8 * self.data_size / max(1, sum(s.tensor.info.elements for s in self.steps))

    @property
    def mix(self) -> dict[str, int]:
        """Bytes of data by tensor type, largest first."""
        out: dict[str, int] = {}
        for s in self.steps:
            out[s.choice.type] = out.get(s.choice.type, 0) + s.new_bytes
        return dict(sorted(out.items(), key=lambda item: -item[1]))


def in_order(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Tensors as llama.cpp walks them: by layer, then by name (`llama-model-loader.h:weight_name_comparer`)."""

    def key(t: Tensor) -> tuple[int, bytes]:
        match = _LAYER.match(t.name)
        return (int(match[1]) if match else -1, t.name.encode("utf-8", "surrogateescape"))

    return sorted(tensors, key=key)


def facts(model: Model) -> Facts:
    """What the mixture needs to know of ``model``."""
    hp = model.arch
    return Facts(
        arch=model.architecture,
        heads=next(iter(hp.head_count), 0),
        kv_heads=next(iter(hp.head_count_kv), 0),
        experts=hp.int("expert_count"),
        blocks=hp.block_count,
    )


def plan_quantize(
    model: Model,
    target: Target,
    overrides: Overrides | None = None,
    *,
    imatrix: dict[str, int] | None = None,
    allow_requantize: bool = False,
    extra_fields: Sequence[Field] = (),
) -> QuantizePlan:
    """Work out what quantising ``model`` gives.

    Args:
        model: the source; only its header is read.
        target: what to quantise to.
        overrides: types the user wants different.
        imatrix: elements of each entry of the importance matrix by tensor name; None when there is none.
        allow_requantize: whether already quantised tensors may be quantised again.
        extra_fields: metadata to write behind the model's own.

    Raises:
        FormatError: a tensor of the source has no known size.
        Refused: the source has duplicate keys or tensors, llama.cpp cannot use it, or no mixture can be chosen.
    """
    if role(model) in ("old", "foreign"):
        said = f"{model.name} is {what_it_is(model)}; what came out of it would not load, either"
        raise Refused(said, way_on(model))
    _check_source(model)
    tensors = in_order(model.all_tensors())
    shapes = [Shape(t.name, t.shape or (1,), t.type_name) for t in tensors]
    choices = choose(target, shapes, facts(model), overrides, has_imatrix=imatrix is not None)
    alignment = model.header.alignment
    steps, offset = [], 0
    for tensor, choice in zip(tensors, choices, strict=True):
        kind = TENSOR_TYPE_BY_NAME[choice.type]
        old = tensor.nbytes or 0
        new = tensor.info.elements // kind.block_size * kind.block_bytes if choice.type != tensor.type_name else old
        steps.append(Step(tensor, choice, old, new, offset, tensor.type_name))
        offset += align(new, alignment)
    header = render_header(model, target, steps, extra_fields)
    return QuantizePlan(
        target=target,
        steps=tuple(steps),
        header=header,
        data_offset=len(header),
        alignment=alignment,
        file_size=len(header) + offset,
        source_size=sum(s.old_bytes for s in steps),
        refusals=tuple(_refusals(steps, imatrix, allow_requantize)),
        warnings=tuple(_warnings(model, steps, target, imatrix)),
    )


def _check_source(model: Model) -> None:
    for part in model.parts:
        key = next(part.header.duplicates(), None)
        if key is not None:
            raise Refused(
                f"{part.name}: the key {key.key} stands there twice", gguftool("fix", path_word(part.name), "--dedupe")
            )
    seen: set[str] = set()
    for t in model.all_tensors():
        if t.name in seen:
            raise Refused(f"{model.name}: the tensor {t.name} is there twice", gguftool("lint", path_word(model.name)))
        seen.add(t.name)
        if t.nbytes is None:
            raise FormatError(f"{t.name}: tensor type {t.type_name} is unknown, so is its size", key=t.name)
        if t.offset + t.nbytes > t.part.size:
            raise FormatError(
                f"{t.part.name}: the data of {t.name} passes the end of the file",
                gguftool("verify", path_word(t.part.name)),
                offset=t.offset,
                key=t.name,
                kind="truncated",
            )
    if not seen:
        raise Refused(f"{model.name}: has no tensors to quantise")


def render_header(model: Model, target: Target, steps: Sequence[Step], extra: Sequence[Field]) -> bytes:
    """The new header with padding: the model's fields in their order, then version, file type and ``extra``.

    This is the order llama-quantize writes them in (`llama-quant.cpp:llama_model_quantize_impl`, b11434).
    """
    layout = Layout()
    replaced = {*_REPLACED, *(f.key for f in extra)}
    fields = [f for f in model.header.fields if f.key not in replaced]
    fields.append(make_field("general.quantization_version", "u32", QUANTIZATION_VERSION, layout))
    fields.append(make_field("general.file_type", "u32", target.ftype, layout))
    fields.extend(extra)
    infos: list[TensorInfo] = [
        make_tensor_info(s.name, s.tensor.shape, TENSOR_TYPE_BY_NAME[s.choice.type].id, s.offset, layout)
        if s.choice.type in TENSOR_TYPE_BY_NAME
        else s.tensor.info
        for s in steps
    ]
    head = render_parts(layout, fields, infos)
    return head + padding(len(head), model.header.alignment)


def _refusals(steps: Sequence[Step], imatrix: dict[str, int] | None, allow_requantize: bool) -> Iterable[str]:
    again = [s for s in steps if s.requantizes]
    if again and not allow_requantize:
        types = ", ".join(sorted({s.source_type for s in again}))
        yield f"{len(again)} tensors are quantised already ({types}); quantising them again loses quality twice"
    bare = [
        s
        for s in steps
        if s.changes
        and (s.choice.needs_imatrix or s.choice.type in NO_WAY_WITHOUT)
        and (imatrix is None or s.name not in imatrix)
    ]
    if bare:
        lack = "no importance matrix is given" if imatrix is None else "the importance matrix has no entry for them"
        yield f"{len(bare)} tensors need an importance matrix and {lack}: {_some(s.name for s in bare)}"
    wrong = wrong_sizes({s.name: s.tensor.shape for s in steps}, imatrix or {})
    for s in steps:
        if not s.changes:
            continue
        block = TENSOR_TYPE_BY_NAME[s.choice.type].block_size
        if s.tensor.shape[0] % block:
            yield f"{s.name}: rows of {s.tensor.shape[0]} do not divide into blocks of {block} ({s.choice.type})"
        if s.source_type in UNREADABLE:
            yield f"{s.name}: is {s.source_type}, which cannot be converted"
        if s.name in wrong:
            have, need = wrong[s.name]
            yield f"{s.name}: the importance matrix has {have} values, the tensor needs {need}"


def _warnings(model: Model, steps: Sequence[Step], target: Target, imatrix: dict[str, int] | None) -> Iterable[str]:
    fallen = [s for s in steps if s.choice.fell_back]
    if fallen:
        pairs = sorted({f"{s.choice.wanted} -> {s.choice.type}" for s in fallen})
        yield (
            f"{len(fallen)} of {len(steps)} tensors have rows that do not divide into blocks of the wanted type "
            f"({', '.join(pairs)})"
        )
    if imatrix is not None:
        changed = [s for s in steps if s.changes and s.choice.type not in FLOATS]
        bare = lacking((s.name for s in changed if not s.choice.needs_imatrix), imatrix)
        if bare:
            yield f"the importance matrix has no entry for {len(bare)} of {len(changed)} tensors: {_some(bare)}"
    if any(s.source_type == "F16" for s in steps) and target.name == "BF16":
        yield "from F16 to BF16: three bits of precision are lost"
    if role(model) in ("image", "audio"):
        yield f"the file is {what_it_is(model)}: which tensors that program wants unquantised is not known here"
    elif model.arch.facts is None:
        yield f"{llama_cpp()} does not know the architecture {model.architecture!r}: the mixture is a guess"
    if model.missing_shards:
        yield f"shards are missing: {', '.join(map(str, model.missing_shards))}"


def _some(names: Iterable[str], limit: int = 3) -> str:
    found = list(names)
    return ", ".join(found[:limit]) + (f" and {len(found) - limit} more" if len(found) > limit else "")


@dataclass(frozen=True, slots=True)
class Size:
    """What one target gives for a model: bytes of the file, bits per weight, tensors that fall back."""

    target: Target
    file_size: int
    bits_per_weight: float
    fallbacks: int
    tensors: int
    needs_imatrix: bool


def sizes(
    model: Model,
    overrides: Overrides | None = None,
    *,
    imatrix: dict[str, int] | None = None,
    extra_fields: Callable[[Target], Sequence[Field]] = lambda _: (),
) -> list[Size]:
    """The table of targets for ``model``, largest file first; targets llama.cpp cannot give are left out."""
    out = []
    for target in TARGETS.values():
        try:
            plan = plan_quantize(
                model, target, overrides, imatrix=imatrix, allow_requantize=True, extra_fields=extra_fields(target)
            )
        except Refused:
            continue
        needs = any(s.choice.needs_imatrix and (imatrix is None or s.name not in imatrix) for s in plan.steps)
        out.append(Size(target, plan.file_size, plan.bits_per_weight, len(plan.fallbacks), len(plan.steps), needs))
    return sorted(out, key=lambda s: -s.file_size)
