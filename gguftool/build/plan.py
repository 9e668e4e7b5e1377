"""What quantising a model would give, before a byte is written: types, fallbacks, exact size, what is against it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from gguftool.build.changes import Changes, Override, pruned
from gguftool.build.ftypes import Target, guessed
from gguftool.build.layout import Output, alignment_of, fields, outputs
from gguftool.build.mixture import Choice, Facts, Overrides, Shape, choose
from gguftool.build.objections import refusals, warnings
from gguftool.build.step import Step
from gguftool.errors import FormatError, Refused
from gguftool.files.attributes import Readers, readers_of
from gguftool.format.header import Field, align
from gguftool.format.types import TENSOR_TYPE_BY_NAME, Layout
from gguftool.model import Model, Tensor, with_header
from gguftool.model.role import role, way_on, what_it_is
from gguftool.records import dataclass, replace
from gguftool.regex import regex
from gguftool.shell import gguftool, path_word

_LAYER = regex(r"blk\.\s*([+-]?\d{1,18})")


@dataclass(frozen=True, slots=True)
class QuantizePlan:
    """The result of quantising, known beforehand.

    Attributes:
        target: what was asked for.
        steps: tensors in the order they are written.
        metadata: fields of the result.
        outputs: files of the result, one but for a set that stays one.
        source_size: bytes of the source's tensor data.
        refusals: why it cannot be done as asked; empty when it can.
        warnings: what the user should know.
    """

    target: Target
    steps: tuple[Step, ...]
    metadata: tuple[Field, ...]
    outputs: tuple[Output, ...]
    source_size: int
    refusals: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def file_size(self) -> int:
        """Of the result, all files of it, in bytes, exact."""
        return sum(output.size for output in self.outputs)

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
    changes: Changes | None = None,
    negative: Container[str] = (),
) -> QuantizePlan:
    """Work out what quantising ``model`` gives.

    Args:
        model: the source; only its header is read.
        target: what to quantise to.
        overrides: types the user wants different.
        imatrix: elements of each entry of the importance matrix by tensor name; None when there is none.
        allow_requantize: whether already quantised tensors may be quantised again.
        extra_fields: metadata to write behind the model's own.
        changes: keys, layers and files that are to be others.
        negative: entries of the importance matrix with values below zero.

    Raises:
        FormatError: a tensor of the source has no known size.
        UsageError: a layer to be left out is not there.
        Refused: the source has duplicate keys or tensors, llama.cpp cannot use it, or no mixture can be chosen.
    """
    if role(model) in ("old", "foreign"):
        said = f"{model.name} is {what_it_is(model)}; what came out of it would not load, either"
        raise Refused(said, way_on(model))
    _check_source(model)
    change = Changes() if changes is None else changes
    seen = overridden(model, change.keys)
    rows, block_count = _rows(model, change)
    choices = choose(
        target,
        [Shape(name, t.shape or (1,), t.type_name) for t, name, _ in rows],
        facts(seen),
        overrides,
        has_imatrix=imatrix is not None,
    )
    steps = _steps(model, rows, choices)
    metadata = fields(
        model,
        _copied_type(seen) if target.copies else target.ftype,
        [o.field(Layout()) for o in change.keys],
        extra_fields,
        (seen.architecture, block_count) if change.prune else None,
    )
    return QuantizePlan(
        target=target,
        steps=steps,
        metadata=metadata,
        outputs=outputs(metadata, steps, model.header.alignment),
        source_size=sum(s.old_bytes for s in steps),
        refusals=tuple(refusals(steps, imatrix, allow_requantize, negative)),
        warnings=tuple(warnings(model, steps, target, imatrix, negative)),
    )


def overridden(model: Model, keys: Sequence[Override]) -> Model:
    """The model as llama.cpp reads it when keys are overridden."""
    if not keys:
        return model
    new = {o.key: o.field(model.header.layout) for o in keys}
    kept = [new.pop(f.key, f) for f in model.header.fields]
    return with_header(model, replace(model.header, fields=(*kept, *new.values())))


def _rows(model: Model, change: Changes) -> tuple[list[tuple[Tensor, str, int]], int]:
    """Tensors in the order they are written, with their new names and the file each goes to; layers that are left."""
    tensors = in_order(model.all_tensors())
    names: Sequence[str | None] = [t.name for t in tensors]
    count = 0
    if change.prune:
        left = pruned([t.name for t in tensors], change.prune)
        names, count = left.names, left.count
    # A part is told by what it is: its hash is that of a whole header.
    numbers = {id(part): i if change.keep_split else 0 for i, part in enumerate(model.parts)}
    rows = [(t, name, numbers[id(t.part)]) for t, name in zip(tensors, names, strict=True) if name is not None]
    if change.keep_split:
        rows.sort(key=lambda row: (row[2], row[0].offset))
    return rows, count


def _steps(model: Model, rows: Sequence[tuple[Tensor, str, int]], choices: Sequence[Choice]) -> tuple[Step, ...]:
    steps: list[Step] = []
    offsets: dict[int, int] = {}
    for (tensor, name, no), choice in zip(rows, choices, strict=True):
        kind = TENSOR_TYPE_BY_NAME[choice.type]
        old = tensor.nbytes or 0
        new = tensor.info.elements // kind.block_size * kind.block_bytes if choice.type != tensor.type_name else old
        at = offsets.get(no, 0)
        steps.append(Step(tensor, choice, old, new, at, tensor.type_name, name, no))
        offsets[no] = at + align(new, alignment_of(no, model.header.alignment))
    return tuple(steps)


def _copied_type(seen: Model) -> int:
    """The file type of a copy: that of the source, or what llama.cpp takes it for."""
    key = "general.file_type"
    if key not in seen.fields:
        return guessed(t.type_name for t in seen.all_tensors())
    value = seen.get(key)
    if seen.fields[key].type_name != "u32" or not isinstance(value, int):
        fix = gguftool("fix", path_word(seen.name), "--delete", key)
        raise Refused(f"{key} is no u32, which llama.cpp wants", fix)
    return value


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
