"""Edits for people and for JSON: plans, and what was done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gguftool.edit.schema import architecture, brief, read_by
from gguftool.facts.arch import Hparams, facts
from gguftool.report.text import Style, Styled, safe, size, table
from gguftool.shell import gguftool, path_word, shell

if TYPE_CHECKING:
    from gguftool.edit.changes import Change
    from gguftool.edit.patched import PatchPlan
    from gguftool.edit.plan import EditPlan, Result
    from gguftool.hub.address import HubAddress

SHOWN = 8
"""Elements of a long array that JSON shows."""
_LONG = 256

_HOW = {
    "patch": "patch: only the changed blocks of the header are written",
    "insert": "insert: the file system makes room at the front; no tensor byte is copied",
    "rewrite": "rewrite: a new file is written beside and takes the name when it is whole",
    "none": "nothing to change: the file is like that already",
}


def changes_text(plan: EditPlan | PatchPlan, style: Style) -> str:
    """The changes as a table, under the name of the file."""
    arch = architecture(plan.new)
    title = style.bold(plan.path)
    if not plan.changes:
        return title
    rows = [
        (
            style.cyan(c.key),
            _type(c),
            _side(c.old, style, "(absent)"),
            Styled("→"),
            _side(c.new, style, "(removed)"),
            style.dim(f"read by {who}" if (who := read_by(c.key.partition("[")[0], arch)) != "-" else ""),
        )
        for c in plan.changes
    ]
    return title + "\n" + table(rows, align="llllll", indent="  ")


def plan_text(plan: EditPlan, style: Style) -> str:
    """The changes, what llama.cpp makes of them, and how they get onto the disk."""
    return "\n".join([changes_text(plan, style), *how_lines(plan)])


def how_lines(plan: EditPlan) -> list[str]:
    """What llama.cpp makes of the changes, and how they get onto the disk."""
    if plan.strategy == "none":
        return [_HOW["none"]]
    lines = _seen(plan, architecture(plan.new))
    if plan.output is None:
        lines.append(_HOW[plan.strategy])
    else:
        lines.append(f"writes {safe(plan.output)} and leaves {safe(plan.path)} as it is")
    lines.append(f"writes {size(plan.bytes_written)}, needs {size(plan.space_needed)} of free disk")
    return lines


def _seen(plan: EditPlan | PatchPlan, arch: str) -> list[str]:
    """What llama.cpp will make of the context and RoPE keys, when one of them changes."""
    keys = tuple(f"{arch}.{word}" for word in ("context_length", "rope."))
    asked = any(c.key.startswith(keys) for c in plan.changes)
    if facts(arch) is None or not asked:
        return []
    from gguftool.edit.deploy import CONTEXTLESS
    from gguftool.model.role import STRANGE

    if plan.forecast.role in CONTEXTLESS | set(STRANGE):
        return []

    def get(key: str) -> object:
        field = plan.new.get(key)
        return None if field is None else field.told

    hp = Hparams(arch, get)
    context = f"{hp.context_length:,} tokens" if hp.context_length else "no context length (it refuses the file)"
    rope = f"RoPE base {hp.rope_freq_base:.7g}, scale {hp.rope_freq_scale:.7g} ({safe(hp.rope_scaling_type)})"
    return [f"llama.cpp will see: {context}" + (f", {rope}" if hp.ropes else ", no RoPE")]


def _type(change: Change) -> str:
    return f"{change.old_type} → {change.type}" if change.old_type else change.type


def _side(value: object, style: Style, absent: str) -> Styled:
    return style.dim(absent) if value is None else Styled(safe(brief(value, 48)))


def done_text(plan: EditPlan, result: Result, style: Style) -> str:
    """What was done and how to take it back."""
    if result.strategy == "none":
        return f"{safe(plan.path)}: nothing to change, it is like that already"
    n = len(plan.changes)
    what = f"{n} change" + ("" if n == 1 else "s")
    if plan.output is not None:
        return f"{style.green('wrote')} {safe(result.path)} with {what}; {safe(plan.path)} is as it was"
    how = f"{result.strategy}, {size(result.bytes_written)} written, file is {size(plan.fit.new_size)}"
    undo = f"undo: {gguftool('undo', path_word(plan.path))}" if result.undo else "no undo record was kept (--no-undo)"
    return f"{style.green('done')}: {what} in {safe(plan.path)} ({how})\n{undo}"


def plan_body(plan: EditPlan, result: Result | None, extra_notes: Sequence[str] = ()) -> dict[str, object]:
    """The fields of ``gguftool fix --format json``."""
    arch = architecture(plan.new)
    return {
        "path": plan.path,
        "output": plan.output,
        "done": result is not None,
        "strategy": result.strategy if result is not None else plan.strategy,
        "changes": _changes(plan.changes, arch),
        "bytes_written": result.bytes_written if result is not None else plan.bytes_written,
        "space_needed": plan.space_needed,
        "new_size": plan.fit.new_size,
        "undo": result.undo if result is not None else None,
        "notes": [*extra_notes, *plan.notes],
    }


def _changes(changes: Sequence[Change], arch: str) -> list[dict[str, object]]:
    return [
        {
            "key": c.key,
            "old": json_value(c.old),
            "new": json_value(c.new),
            "type": c.type,
            "old_type": c.old_type or (c.type if c.old is not None else None),
            "read_by": read_by(c.key.partition("[")[0], arch),
        }
        for c in changes
    ]


def patch_text(plan: PatchPlan, place: str, length: int, there: HubAddress | None, style: Style) -> str:
    """What a patch does, where it was written, how it is applied, and what an upload of the result sends.

    Args:
        plan: the patch.
        place: its file; "" when none was written.
        length: bytes of its file.
        there: what the model is on the Hub; None where it is not of the Hub.
        style: of the terminal.
    """
    patch = plan.patch
    lines = [changes_text(plan, style), *_seen(plan, architecture(plan.new))]
    sizes = f"for a file of {patch.old_size:,} bytes with that very header; it becomes {patch.new_size:,}"
    lines.append(
        f"{style.green('wrote')} {safe(place)}: {size(length)}, {sizes}" if place else f"{size(length)}, {sizes}"
    )
    name = plan.path.rpartition("/")[2]
    lines.append(f"where the file lies: {gguftool('fix', path_word(name), '--patch', path_word(place or 'FILE'))}")
    if there is not None:
        at = [] if there.revision == "main" else ["--revision", there.revision]
        upload = shell(["hf", "upload", there.repo, path_word(name), there.path, *at])
        lines.append(f"then upload it:      {upload}")
        lines.append(
            f"an upload through Xet sends the chunks that the Hub has not: at most {size(patch.news)} of "
            f"{size(patch.new_size)}"
        )
    return "\n".join(lines)


def patch_body(plan: PatchPlan, place: str, notes: Sequence[str]) -> dict[str, object]:
    """The fields of ``gguftool fix --patch-out --format json``."""
    return {
        "path": plan.path,
        "patch": place or None,
        "changes": _changes(plan.changes, architecture(plan.new)),
        "size": plan.patch.old_size,
        "new_size": plan.patch.new_size,
        "new_to_the_hub": plan.patch.news,
        "notes": [*notes, *plan.notes],
    }


def json_value(value: object) -> object:
    """A value for JSON; long arrays as their length and first elements."""
    if isinstance(value, str) or not hasattr(value, "__len__"):
        return value
    items = list(value)  # type: ignore[call-overload]
    return items if len(items) <= _LONG else {"count": len(items), "head": items[:SHOWN]}
