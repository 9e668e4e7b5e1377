"""What `gguftool diff` shows, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gguftool.format.header import Field
from gguftool.model import Tensor
from gguftool.model.compare import Difference, KeyChange, TensorChange, first_difference, is_text
from gguftool.report.dump import MOST_HEAD, shape_text, value_text
from gguftool.report.text import Style, count, safe, table

if TYPE_CHECKING:
    from gguftool.report import distances

LINES = 40
"""Lines of a text diff shown for one key."""


def diff_text(d: Difference, style: Style) -> str:
    """Keys, tensors, data; the last line says whether anything differs."""
    out: list[str] = []
    for change in d.keys:
        out += list(_key_lines(change, style))
    if d.tensors:
        out.append(table([_tensor_row(c) for c in d.tensors], ("tensor", "old", "new"), style=style))
    if d.data:
        from gguftool.report import distances

        out += distances.lines(d.data, style)
    out.append(summary(d))
    return "\n".join(out)


def summary(d: Difference) -> str:
    """``3 keys and 2 tensors differ.``"""
    data = "" if d.compared is None else f"; data of {count(d.compared)} tensors compared, {count(len(d.data))} differ"
    if not d.keys and not d.tensors:
        room = "; the files differ only in room for edits (gguftool.pad)" if d.room and not d.data else ""
        return f"Metadata and tensor lists are the same{data}{room}."
    keys = "1 key" if len(d.keys) == 1 else f"{count(len(d.keys))} keys"
    tensors = "1 tensor" if len(d.tensors) == 1 else f"{count(len(d.tensors))} tensors"
    return f"{keys} and {tensors} differ{data}."


def _key_lines(c: KeyChange, style: Style) -> Iterator[str]:
    if c.old is not None and c.new is not None and (is_text(c.old) or is_text(c.new)):
        import difflib

        yield style.bold(c.key)
        lines = list(difflib.unified_diff(str(c.old.told).split("\n"), str(c.new.told).split("\n"), "old", "new", n=1))
        for line in lines[2:LINES]:
            yield "  " + (
                style.green(line) if line.startswith("+") else style.red(line) if line[:1] == "-" else safe(line)
            )
        if len(lines) > LINES:
            yield f"  … {count(len(lines) - LINES)} more lines"
        return
    at = first_difference(c.old, c.new) if c.old is not None and c.new is not None else None
    yield style.bold(c.key) + (f"   first difference at element {count(at)}" if at is not None else "")
    for sign, field in (("-", c.old), ("+", c.new)):
        if field is not None:
            line = f"  {sign} {field.type_name} {_value(field, at)}"
            yield style.red(line) if sign == "-" else style.green(line)


def _value(f: Field, at: int | None) -> str:
    if at is None:
        return value_text(f, full=False, limit=100)
    shown = ", ".join(safe(str(v)) for v in f.head(4, at, most=MOST_HEAD))
    return f"({count(f.count or 0)} elements) … {shown} …" if shown else f"({count(f.count or 0)} elements)"


def _tensor_row(c: TensorChange) -> tuple[str, str, str]:
    return c.name, _tensor(c.old), _tensor(c.new)


def _tensor(t: Tensor | None) -> str:
    return "missing" if t is None else f"{t.type_name} {shape_text(t.shape)}"


def diff_json(d: Difference) -> dict[str, object]:
    """The body of ``gguftool.diff/1``."""
    body: dict[str, object] = {
        "same": d.same,
        "room": d.room,
        "keys": [{"key": c.key, "old": _field(c.old), "new": _field(c.new)} for c in d.keys],
        "tensors": [{"name": c.name, "old": _shape(c.old), "new": _shape(c.new)} for c in d.tensors],
    }
    if d.compared is not None:
        from gguftool.report import distances

        body["data"] = {
            "compared": d.compared,
            "differ": [
                {
                    "name": c.name, "old_type": c.old_type, "new_type": c.new_type, "relative": c.relative,
                    "mean": c.mean, "max": c.largest, "cosine": c.cosine, "expected": c.expected, "times": c.times,
                    "suspicious": c.suspicious, "why": c.why or None,
                }
                for c in d.data
            ],
            "kinds": [_group(g) for g in distances.by_kind(d.data)],
            "layers": [_group(g) for g in distances.by_layer(d.data)],
        }  # fmt: skip
    return body


def _group(g: distances.Group) -> dict[str, object]:
    return {"name": g.name, "tensors": g.tensors, "types": list(g.types), "relative": g.relative, "worst": g.worst}


def _field(f: Field | None) -> dict[str, object] | None:
    if f is None:
        return None
    if f.count is None:
        return {"type": f.type_name, "value": f.told}
    return {"type": f.type_name, "count": f.count, "head": f.head(8, most=MOST_HEAD)}


def _shape(t: Tensor | None) -> dict[str, object] | None:
    return None if t is None else {"type": t.type_name, "shape": list(t.shape)}
