"""The files of a result: headers as llama-quantize writes them, and where each tensor stands."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gguftool.build.step import Step
from gguftool.errors import Refused
from gguftool.format.header import Field, align
from gguftool.format.render import make_tensor_info, padding, render_parts
from gguftool.format.types import DEFAULT_ALIGNMENT, TENSOR_TYPE_BY_NAME, Layout
from gguftool.format.values import make_field
from gguftool.model import Model
from gguftool.model.shards import NAME, shard_name
from gguftool.records import dataclass

SPLIT = ("split.no", "split.count", "split.tensors.count")
QUANTIZATION_VERSION = 2
"""`ggml.h:GGML_QNT_VERSION`."""


@dataclass(frozen=True, slots=True)
class Output:
    """One file of the result.

    Attributes:
        header: bytes from its start to the data section, padding included.
        size: of the file, in bytes, exact.
    """

    header: bytes
    size: int


def fields(
    model: Model, ftype: int, keys: Sequence[Field], extra: Sequence[Field], block_count: tuple[str, int] | None
) -> tuple[Field, ...]:
    """The metadata of the result.

    The model's own in their order, version, file type, overrides, and last the number of layers where that changes:
    what gets another value goes to the end (`llama-quant.cpp:llama_model_quantize_impl`, `gguf.cpp:gguf_set_val_u32`,
    b11434).

    Args:
        model: the source.
        ftype: file type to write.
        keys: what the user overrides.
        extra: what is written behind that.
        block_count: architecture and layers of the result, where some are left out.
    """
    layout = Layout()
    new = [
        make_field("general.quantization_version", "u32", QUANTIZATION_VERSION, layout),
        make_field("general.file_type", "u32", ftype, layout),
        *keys,
        *extra,
    ]
    if block_count is not None:
        new.append(make_field(f"{block_count[0]}.block_count", "u32", block_count[1], layout))
    last = {f.key: i for i, f in enumerate(new)}
    kept = [f for f in model.header.fields if f.key not in last and f.key not in SPLIT]
    return (*kept, *(f for i, f in enumerate(new) if last[f.key] == i))


def paths_of(output: str, count: int, *, keep_split: bool) -> list[str]:
    """The names of the files of a result; of a set that stays one as llama-quantize makes them of OUT."""
    if not keep_split:
        return [output]
    folder, name = os.path.split(output)
    named = NAME.match(name)
    stem = named["prefix"] if named else name.removesuffix(".gguf")
    return [os.path.join(folder, shard_name(stem, no, count)) for no in range(count)]


def alignment_of(no: int, alignment: int) -> int:
    """By what a file of the result is laid out, in bytes; of a set only the first says so."""
    return alignment if no == 0 else DEFAULT_ALIGNMENT


def outputs(metadata: Sequence[Field], steps: Sequence[Step], alignment: int) -> tuple[Output, ...]:
    """The files that the steps go to, the metadata in the first of them.

    Raises:
        Refused: one of several would hold no tensor, where llama-quantize ends in the middle.
    """
    count = 1 + max(s.output for s in steps)
    out = []
    for no in range(count):
        own = [s for s in steps if s.output == no]
        if no and not own:
            raise Refused(f"--keep-split: nothing would be left in file {no + 1} of {count}", "leave out --keep-split")
        rows = list(metadata) if no == 0 else []
        if count > 1:
            kinds = ("u16", "u16", "i32")
            rows += [make_field(*row) for row in zip(SPLIT, kinds, (no, count, len(steps)), strict=True)]
        out.append(rendered(rows, own, alignment_of(no, alignment)))
    return tuple(out)


def rendered(rows: Sequence[Field], steps: Sequence[Step], alignment: int) -> Output:
    """One file with these fields and tensors."""
    layout = Layout()
    infos, at = [], 0
    for s in steps:
        kind = TENSOR_TYPE_BY_NAME[s.choice.type]
        infos.append(make_tensor_info(s.name, s.tensor.shape, kind.id, at, layout))
        at += align(s.new_bytes, alignment)
    head = render_parts(layout, list(rows), infos)
    header = head + padding(len(head), alignment)
    return Output(header, len(header) + at)
