"""Which fixes may be offered: not one after which llama.cpp would do worse with the model than before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gguftool.edit.ops import Operation, apply
from gguftool.errors import GgufToolError
from gguftool.lint.rule import Finding
from gguftool.model import Model, with_header
from gguftool.predict import harm


def after(model: Model, operations: Sequence[Operation]) -> tuple[Model | None, str]:
    """The model as it would be after the operations; or None and why they are not to be done."""
    try:
        planned = with_header(model, apply(operations, model.header))
    except GgufToolError as e:
        return None, str(e)
    broken = harm(model, planned)
    return (planned, "") if broken is None else (None, str(broken))


def withhold(model: Model, finding: Finding) -> Finding:
    """A finding without its fix, where llama.cpp would not load or run the model after it, or would use less of it."""
    fix = finding.fix
    if fix is None or not fix.operations or finding.path != model.name or not model.header.complete:
        return finding
    planned, why = after(model, fix.operations)
    return finding if planned is not None else replace(finding, fix=None, data={**finding.data, "fix_withheld": why})
