"""Rows of a scan as a table, Markdown and JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from gguftool.facts import llama_cpp
from gguftool.fleet.rows import refuses
from gguftool.model.role import ROLES
from gguftool.predict.stages import OTHERS
from gguftool.report.envelope import dumps
from gguftool.report.text import Style, markdown_table, safe, shorten, size, table

Row = Mapping[str, Any]
HEADERS = ("model", "role", "arch", "params", "quant", "bpw", "context", "size", "whole", "loads", "lint")


def text(rows: Sequence[Row], style: Style) -> str:
    """A table, the reasons of what is wrong, and a line that counts."""
    if not rows:
        return "no models found\n"
    folder = _folder(rows)
    cells = [_cells(row, style, folder) for row in rows]
    lines: list[str] = [style.dim(folder)] if folder else []
    lines += [table(cells, HEADERS, align="lllrlrrrlll", style=style)]
    for row in rows:
        reason = _reason(row)
        if reason:
            lines.append(f"{style.red('FAULT')}  {safe(_short(row, folder))}: {safe(reason)}")
        if refuses(row):
            lines.append(f"{style.red('REFUSED')}  {safe(_short(row, folder))}: {safe(row['said'] or '')}")
    bad = sum(not row["ok"] for row in rows)
    total = f"{len(rows)} model{'s' if len(rows) != 1 else ''}, {len(rows) - bad} whole, {bad} not"
    asked = next((row["build"] for row in rows if row["build"] is not None), None)
    if asked is not None:
        total += f"; {llama_cpp(asked)} does not load {sum(map(refuses, rows))} of them"
    lines.append(style.red(total) if bad or any(map(refuses, rows)) else style.green(total))
    return "\n".join(lines) + "\n"


def _folder(rows: Sequence[Row]) -> str:
    """The folder that all of them lie in, with a slash; "" when there is none worth naming."""
    paths = [str(row["path"]) for row in rows]
    if len(paths) < 2 or any("://" in path for path in paths) or len({os.path.isabs(path) for path in paths}) > 1:
        return ""
    front = os.path.commonpath([os.path.dirname(path) for path in paths])
    return front + "/" if len(front) > 1 else ""


def _short(row: Row, folder: str) -> str:
    return str(row["path"]).removeprefix(folder)


def _cells(row: Row, style: Style, folder: str) -> list[object]:
    whole = style.green("yes") if row["ok"] else style.red("no")
    return [shorten(_short(row, folder), 60), *_facts(row), whole, _load(row), _lint(row)]


def _facts(row: Row) -> list[object]:
    facts = row["facts"]
    if facts is None:
        return ["", "", "", "", "", "", ""]
    bits = facts["bits_per_weight"]
    context = facts["context_length"]
    return [
        facts["role"],
        facts["architecture"],
        _millions(facts["parameters"]),
        facts["quantisation"],
        f"{bits:.2f}" if bits is not None else "",
        f"{context:,}" if context is not None else "",
        size(facts["size"]),
    ]


def _load(row: Row) -> object:
    """What llama.cpp does with it in its role; nothing of a file that it is not known to load in that role."""
    role = row["facts"]["role"] if row["facts"] else "model"
    return (row["load"] or "") if ROLES[role].loads or role in OTHERS else ""


def _millions(parameters: int) -> str:
    if parameters >= 1_000_000_000:
        return f"{parameters / 1e9:.1f}B"
    return f"{parameters / 1e6:.1f}M" if parameters >= 1_000_000 else f"{parameters:,}"


def _lint(row: Row) -> str:
    counts = row["lint"]
    if counts is None:
        return ""
    return (
        ", ".join(f"{n} {level}{'s' if n > 1 else ''}" for level, n in counts.items() if n and level != "info")
        or "clean"
    )


def _reason(row: Row) -> str:
    if row["error"]:
        return str(row["error"]["message"]).removeprefix(f"{row['path']}: ")
    problems = row["problems"]
    if not problems:
        return ""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0]['message']}{more}"


def markdown(rows: Sequence[Row]) -> str:
    """A Markdown table."""
    cells = [[row["path"], *_facts(row), _whole(row), _load(row), _lint(row)] for row in rows]
    return markdown_table(cells, HEADERS) + "\n"


def _whole(row: Row) -> str:
    reason = _reason(row)
    return f"no: {reason}" if not row["ok"] else f"yes; {reason}" if row["error"] else "yes"


def line(row: Row) -> str:
    """One row as a line of JSON."""
    return dumps({"format": "gguftool.scan-row/1", **row}, compact=True)


def body(rows: Sequence[Row]) -> dict[str, object]:
    """The fields of the JSON object."""
    whole = sum(bool(row["ok"]) for row in rows)
    return {"models": list(rows), "counts": {"models": len(rows), "whole": whole, "broken": len(rows) - whole}}
