"""From operations to a patch, for a model of which only the header can be had."""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.brief import short_repr
from gguftool.edit.changes import Change, changes_of
from gguftool.edit.drawn import draw, front_of
from gguftool.edit.forecast import Forecast
from gguftool.edit.ops import Operation
from gguftool.edit.patch import Patch, patch_of
from gguftool.edit.remarks import of_another_program, remarks
from gguftool.errors import UsageError
from gguftool.format.header import Header
from gguftool.model import Model
from gguftool.model.headers import Headers
from gguftool.records import dataclass
from gguftool.version import __version__


@dataclass(frozen=True, slots=True)
class PatchPlan:
    """A patch that can be looked at before its file is written.

    Attributes:
        path: path or address of the file it is for (of a set: the shard that carries the metadata).
        old, new: the headers; `new` without the filler that may be added.
        changes: keys that differ.
        notes: what a reader should know.
        forecast: what llama.cpp does with the file before and after, worked out when first asked for.
        patch: the patch.
    """

    path: str
    old: Header
    new: Header
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    forecast: Forecast
    patch: Patch

    __repr__ = short_repr


def plan_patch(model: Model, ops: Sequence[Operation], *, force: bool = False, harm: str = "refuse") -> PatchPlan:
    """Make a patch; of the model only the header is read, and it may lie on a server.

    Args:
        model: the model, which stays open.
        ops: what to change, see `gguftool.edit.ops`.
        force: take types other than the known ones.
        harm: as for `gguftool.edit.plan.plan_edit`.

    Raises:
        UsageError: an operation that is not possible, or that moves tensor data to other places.
        Refused: llama.cpp would not load or run the file any more.
        FormatError: not readable as GGUF to the end of its header.
    """
    first = model.parts[0]
    size = first.source.size
    old, read = front_of(first.source, first.name, Headers((first,)))
    front = read[: old.data_offset]
    drawn = draw(first.name, old, front, size, ops, force=force, harm=harm, model=model)
    if not drawn.fit.plain:
        raise UsageError(
            "a patch leaves the tensor data as it is, and this lays it out anew", "do that where the file lies"
        )
    did = [op.describe() for op in ops]
    return PatchPlan(
        first.name,
        old,
        drawn.new,
        changes_of(old, drawn.new, ops, drawn.fit.filler),
        (*of_another_program(first.name, drawn.new, size), *remarks(old, drawn.new)),
        drawn.forecast,
        patch_of(first.name, old, front, size, drawn.fit.front, did, __version__),
    )
