"""From translated statements to the rows that ship: dead assignments dropped, tensors and keys as rows of their own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from words import KEEP

Row = list[Any]
KEY = re.compile(r"key\('([^']*)', '(\w+)', '([\w.]+)', (True|False)\)")
READS = re.compile(r"key\(|arr\(|each\(|scalar\(")
FLAGS = {"0": "", "OPTIONAL": "optional", "DUPLICATED": "duplicated"}


def tidy(expression: str) -> str:
    """The same expression without needless brackets."""
    return ast.unparse(ast.parse(expression, mode="eval"))


def texts(rows: list[Row]) -> Iterator[tuple[Row, str]]:
    """Every text of every row, with its row."""
    for row in rows:
        for part in row[1:]:
            if isinstance(part, str):
                yield row, part
            elif isinstance(part, list) and part and isinstance(part[0], list):
                yield from texts(part)
            elif isinstance(part, list):
                yield from ((row, p) for p in part if isinstance(p, str))


def used_names(parts: dict[tuple[str, str], list[Row]]) -> frozenset[str]:
    """Hyperparameters that some row looks at, and those the evaluator needs."""
    used = set(KEEP)
    for rows in parts.values():
        for row, text in texts(rows):
            target = row[0] in ("set", "item") and text == row[1] and text.startswith("h.")
            if target or (row[0] == "set" and row[1].startswith("h.f_")):
                continue
            used.update(re.findall(r"h\.\w+", re.sub(r"'h\.\w+'", "", text)))
    return frozenset(u for u in used if not u.startswith("h.f_") or u in KEEP)


def uses_type(rows: list[Row]) -> bool:
    """True when something depends on the size label of the model."""
    return any(
        re.search(r"(?<![\w.])type (==|!=) ", text)
        for row, text in texts(rows)
        if not (row[0] == "set" and row[1].startswith("h.f_"))
    )


def compact(rows: list[Row], part: str, used: frozenset[str], keep_type: bool) -> list[Row]:
    """The rows that ship."""

    def inner(some: list[Row]) -> list[Row]:
        return compact(some, part, used, keep_type)

    out: list[Row] = []
    for row in rows:
        kind = row[0]
        if kind in ("set", "let"):
            out += _value(row, used, keep_type)
        elif kind == "do":
            out.append(_call(row[1], used))
        elif kind == "if":
            out += _choice(tidy(row[1]), inner(row[2]), inner(row[3]))
        elif kind == "for":
            body = inner(row[4])
            out += [["for", row[1], tidy(row[2]), tidy(row[3]), body]] if body else []
        elif kind == "foreach":
            out.append(["foreach", row[1], tidy(row[2]), inner(row[3])])
        elif kind == "proc":
            out.append([*row[:3], inner(row[3])])
        elif kind == "call":
            out.append(["call", row[1], [tidy(x) for x in row[2]]])
        elif kind == "assert":
            out.append(["assert", tidy(row[1]), row[2]])
        elif kind in ("fail", "alias"):
            out.append([kind, *(tidy(x) for x in row[1:])])
        elif kind in ("item", "slot"):
            if not (kind == "item" and row[1].startswith("h.") and row[1] not in used):
                out.append([kind, row[1], tidy(row[2]), tidy(row[3])])
        elif kind == "try":
            out.append(["try", inner(row[1]), inner(row[2])])
        elif kind == "warn":
            words = row[1].replace("%s", "load_arch_" + part, 1)
            out.append(["warn", words.replace("%s", row[2][1].strip('"')) if len(row[2]) > 1 else words])
        else:
            out.append(row)
    return out


def _value(row: Row, used: frozenset[str], keep_type: bool) -> list[Row]:
    kind, name, value = row
    if name == "type" and not keep_type:
        return []
    if name.startswith("h.") and name not in used and not value.startswith("key("):
        return []
    if name.startswith("h.") and re.search(r"sqrt\(|\bh\.f_| / ", value):
        return []
    return [] if value.startswith("sqrt(") else [[kind, name, tidy(value)]]


def _choice(condition: str, yes: list[Row], no: list[Row]) -> list[Row]:
    if condition == "not False":
        return yes
    if yes or no or READS.search(condition):
        return [["if", condition, yes, *([no] if no else [])]]
    return []


def _call(text: str, used: frozenset[str]) -> Row:
    m = KEY.fullmatch(text)
    if m:
        target = m[3] if not m[3].startswith("h.") or m[3] in used else ""
        return ["key", m[1], m[2], target, int(m[4] == "True")]
    if not text.startswith("tensor("):
        return ["do", tidy(text)]
    name, index, shape, flags, slot = ast.parse(text, mode="eval").body.args  # type: ignore[attr-defined]
    numbers = ", ".join(ast.unparse(x) for x in index.elts)
    kind = ast.unparse(flags).replace(" | 0", "")
    place, _, layer = slot.value.rpartition("@")
    row = ["tensor", name.value, numbers, [ast.unparse(x) for x in shape.elts], FLAGS.get(kind, kind), place]
    return [*row, layer] if place and layer != (numbers or "-1") else row
