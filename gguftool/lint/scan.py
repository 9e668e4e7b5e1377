"""What `gguftool.verify.data` finds in the tensor data, for the rules of the family `data`.

The only place where lint looks into verify: the checks of the data are verify's, the findings lint's.
"""

from __future__ import annotations

from gguftool.lint.rule import Context
from gguftool.model import Model
from gguftool.model.part import Part, Tensor
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Remark:
    """Something in the data of one tensor; ``kind`` as `gguftool verify --data` names it."""

    path: str
    kind: str
    message: str
    where: str
    span: tuple[int, int] | None


def remarks(m: Model, ctx: Context) -> list[Remark]:
    """All remarks on the data of all shards; the data is read once a run."""
    found: list[Remark] = ctx.once("data", lambda: _scan(m))
    return found


def _scan(m: Model) -> list[Remark]:
    from gguftool.verify.data import check_data, judge

    out: list[Remark] = []
    for part in m.parts:
        faults, notes = judge(check_data(part.source, part.header), part.source)
        out.extend(
            Remark(part.name, f.kind, f.message, f.where, f.span or _data(part, f.where)) for f in (*faults, *notes)
        )
    return out


def _data(part: Part, where: str) -> tuple[int, int] | None:
    """Where the data of the tensor stands."""
    kind, _, name = where.partition(":")
    found = next((Tensor(t, part) for t in part.header.tensors if kind == "tensor" and t.name == name), None)
    return None if found is None or found.nbytes is None else (found.offset, found.offset + found.nbytes)
