"""What split and merge wrote, or would write."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gguftool.report.text import Style, count, size, table
from gguftool.verify.resplit import OutFile, Written


def plan_text(plans: Sequence[OutFile], style: Style) -> str:
    """A table of the files that would be written."""
    rows = [(os.path.basename(p.path), count(len(p.tensors)), size(p.size)) for p in plans]
    total = sum(p.size for p in plans)
    last = f"{len(plans)} file{'s' if len(plans) > 1 else ''}, {size(total)} in all; nothing was written (--dry-run)"
    return table(rows, ("file", "tensors", "size"), align="lrr", style=style) + "\n" + style.dim(last) + "\n"


def text(done: Sequence[Written], style: Style) -> str:
    """A line for every file written, with its sha256."""
    lines = [
        f"{style.green('wrote')}  {style.bold(w.path)}  {style.dim(f'{size(w.size)}, {count(w.tensors)} tensors')}\n"
        f"    sha256 {w.sha256}"
        for w in done
    ]
    lines.append(style.dim("read back from disk: every tensor is byte for byte that of the source"))
    return "\n".join(lines) + "\n"


def plan_body(plans: Sequence[OutFile]) -> dict[str, object]:
    """JSON fields of a dry run."""
    rows = [{"path": p.path, "size": p.size, "tensors": len(p.tensors), "sha256": None} for p in plans]
    return {"files": rows, "dry_run": True}


def body(done: Sequence[Written]) -> dict[str, object]:
    """JSON fields of what was written."""
    rows = [{"path": w.path, "size": w.size, "tensors": w.tensors, "sha256": w.sha256} for w in done]
    return {"files": rows, "dry_run": False}
