"""The data that the scripts of the page work on: the tensors as columns, names in place of numbers once."""

from __future__ import annotations

from typing import Any

from gguftool.report.page.data import Body
from gguftool.report.page.filters import state, within

PLAIN = ("name", "shape", "file", "offset", "bytes", "sha256", "values")
TABLES = ("block", "kind", "type")


def data_for_scripts(found: Body) -> Body:
    """What the scripts need of the fields of a page; {} where nothing on it is drawn by them."""
    model, fleet = found["model"], found["fleet"]
    if fleet is not None:
        return {"models": [_of_fleet(row, found["path"]) for row in fleet["models"]]}
    if model is None:
        return {}
    out: Body = {"tensors": tensor_columns(model["tensors"])}
    mixture = model["quantisation"]["mixture"]
    if mixture is not None and mixture["otherwise"]:
        would = {x["name"]: x["would"] for x in mixture["otherwise"]}
        out["tensors"]["would"] = [would.get(row["name"]) for row in model["tensors"]]
    if model.get("memory") is not None:
        out["memory"] = model["memory"]
    return out


def _of_fleet(row: Body, folder: str) -> Body:
    facts, found = row["facts"] or {}, row["findings"]
    said = (row["error"] or {}).get("message") or (found[0]["message"] if found else None)
    names = ("size", "parameters", "architecture", "quantisation", "context_length")
    return {
        "name": within(row["path"], folder),
        "state": state(row)[1],
        "said": said,
        "load": row["load"],
        **{name: facts.get(name) for name in names},
    }


def tensor_columns(rows: list[Body]) -> Body:
    """Rows as columns of the same length; of block, kind and type each word once, with a number for each row.

    A column that is empty in every row is left out.
    """
    out: dict[str, Any] = {"count": len(rows)}
    for name in PLAIN:
        column = [row[name] for row in rows]
        if any(x is not None for x in column):
            out[name] = column
    for name in TABLES:
        words = list(dict.fromkeys(row[name] for row in rows))
        at = {word: i for i, word in enumerate(words)}
        out[f"{name}s"] = words
        out[name] = [at[row[name]] for row in rows]
    return out
