"""What llama.cpp takes where an optional key is absent: the value a hyperparameter has before the key is read."""

from __future__ import annotations

import ast
import re
from typing import Any

from load_map import common_rows, loading_rows
from source import Tables

Row = list[Any]
READ = re.compile(
    r"(?:key|arr)\('([^']+)', '(\w+)', (?:\d+, )?'([\w.]+)', (True|False)\)"
    r"|each\('([^']+)', '(\w+)', [^']*'([\w.]+)', (True|False)\)"
)
INITIAL = re.compile(r"^\s*(?:uint32_t|int32_t|float|bool)\s+(\w+)\s*=\s*([^;]+);", re.M)
NUMBER = re.compile(r"^-?[\d.]+(?:e[-+]?\d+)?f?$")
EMPTY = {"f32": 0.0, "bool": False, "str": ""}


class Defaults:
    """Defaults by architecture.

    Attributes:
        of: for each architecture the keys with ``[value, chosen]``: None for a value that is computed; ``chosen`` when
            the loading function of the architecture sets it, so that it is the value its models have.
        common: the same for keys that every architecture reads, where it does not say otherwise.
        required: keys without which llama.cpp refuses a file.
    """

    def __init__(self, t: Tables) -> None:
        self.initial = {name: _literal(value) for name, value in INITIAL.findall(t.read("llama-hparams.h"))}
        raw, _ = loading_rows(t)
        common, _ = common_rows(t)
        self.parts = {family: rows for (family, part), rows in raw.items() if part == "hparams"}
        self.of: dict[str, dict[str, list[Any]]] = {}
        self.required: dict[str, set[str]] = {}
        self.common = self._read(self._flat(common), [])
        for arch, family in t.families.items():
            while family not in self.parts and family in t.parents:
                family = t.parents[family]
            own = self._flat(self.parts.get(family, []))
            text = repr([*self._flat(common), *own])
            reads = [(a or e, b or f) for a, _, _, b, e, _, _, f in READ.findall(text.replace("\\'", "'"))]
            self.required[arch] = {key for key, needed in reads if needed == "True"}
            # What every architecture reads may be read once more by one that starts from another value.
            self.of[arch] = {k: [v, False] for k, (v, _) in self._read(self._flat(common), []).items()}
            for key, (value, chosen) in self._read(own, own).items():
                if chosen or key not in self.of[arch]:
                    self.of[arch][key] = [value, chosen]
            self._afterwards(arch, self._flat(common), own)

    def _flat(self, rows: list[Row]) -> list[Row]:
        """All rows in order, without the frames of conditions; those under one are marked."""
        out: list[Row] = []

        def walk(some: list[Row], when: str) -> None:
            for row in some:
                if row[0] == "include":
                    walk(self.parts.get(row[1], []), when)
                elif row[0] == "if":
                    out.append(["do", row[1], when])
                    for branch in row[2:]:
                        walk(branch, f"{when} {row[1]}")
                elif row[0] in ("set", "let", "do"):
                    out.append([*row, when])
                    if row[0] != "do" and READ.search(str(row[2])):
                        out.append(["do", row[2], when])

        walk(rows, "")
        return out

    def _read(self, rows: list[Row], own: list[Row]) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for at, row in enumerate(rows):
            if row[0] != "do":
                continue
            for key, kind, target, _, key2, kind2, target2, _ in READ.findall(row[1]):
                name = key or key2
                if name not in found:
                    found[name] = self._default(rows, at, target or target2, kind or kind2, own)
        return found

    def _afterwards(self, arch: str, common: list[Row], own: list[Row]) -> None:
        """Values of keys that all architectures read, where this one sets them whatever the file says."""
        for row in common:
            for key, _, target, *_ in READ.findall(row[1]) if row[0] == "do" else ():
                for r in own:
                    if key and r[0] == "set" and r[1] == target and not r[3] and "key(" not in str(r[2]):
                        self.of[arch][key] = [_literal(r[2]), True]

    def _default(self, rows: list[Row], at: int, target: str, kind: str, own: list[Row]) -> list[Any]:
        before = [r for r in rows[:at] if r[0] in ("set", "let") and r[1] == target and "key(" not in str(r[2])]
        if before:
            return [_literal(before[-1][2]), True]
        # A value that stands for none is replaced afterwards.
        after = [r for r in own if r[0] == "set" and r[1] == target and target in r[3] and not _read_there(r[3])]
        values = list(dict.fromkeys(repr(_literal(r[2])) for r in after if r[0] == "set" and r[1] == target))
        if values:
            return [ast.literal_eval(values[0]) if len(values) == 1 else None, True]
        value = self.initial.get(target.removeprefix("h."), EMPTY.get(kind, 0))
        return [value, False]


def _read_there(condition: str) -> bool:
    """The condition is that the key was read."""
    return any(r in condition and f"not {r}" not in condition for r in re.findall(r"(?:key|each)\([^)]*", condition))


def _literal(text: Any) -> Any:
    text = str(text).strip()
    if text in ("True", "False", "true", "false"):
        return text.lower() == "true"
    if NUMBER.match(text):
        number = float(text.rstrip("f"))
        return int(number) if re.fullmatch(r"-?\d+", text) else number
    if text.startswith("'") and text.endswith("'"):
        return text[1:-1]
    if text.endswith("_NONE"):
        return 0
    return None
