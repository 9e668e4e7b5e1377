"""Which keys the rows of an architecture read, as what, and when: the load maps looked at without a file.

The rows (`data/load_maps.json`) are llama.cpp's own loading functions. Conditions that only ask for the architecture
are decided here; the others depend on the file and are told in words.
"""

from __future__ import annotations

import _ast as ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from gguftool.facts.data import load
from gguftool.facts.howread import ALWAYS as ALWAYS
from gguftool.facts.howread import NEVER as NEVER
from gguftool.facts.howread import SOMETIMES as SOMETIMES
from gguftool.facts.howread import Read as Read
from gguftool.facts.known import by_known, mapped
from gguftool.facts.machine.expressions import parsed
from gguftool.records import replace
from gguftool.regex import regex

Row = list[Any]
_CALLS = frozenset({"key", "arr", "each", "scalar", "arr_n", "swa_pattern"})


@by_known(mapped)
def rows_of(arch: str) -> tuple[Row, ...]:
    """All rows that run for an architecture before its tensors; empty for one without a model class."""
    maps = load("load_maps.json")
    family = maps["arch"].get(arch)
    if family is None or arch == "clip":
        return ()
    return (*maps["common"], ["include", family if isinstance(family, str) else family[0], "hparams"])


@by_known(mapped)
def reads(arch: str) -> Mapping[str, Read]:
    """Keys that llama.cpp reads in a file of that architecture, without the prefix, in its order."""
    out: dict[str, Read] = {}
    for r in _walk(list(rows_of(arch)), arch, (), _targets(arch)):
        old = out.get(r.key)
        out[r.key] = r if old is None else _both(old, r)
    return out


def _both(a: Read, b: Read) -> Read:
    """A key that is read in two places."""
    words = list(dict.fromkeys([*a.kind.split(" or "), *b.kind.split(" or ")]))
    kind = " or ".join(sorted(words, key=lambda w: w == "arr"))
    condition = " or ".join(dict.fromkeys((a.condition, b.condition))) if a.condition and b.condition else ""
    required = ALWAYS if ALWAYS in (a.required, b.required) else a.required or b.required
    return replace(a, kind=kind, element=a.element or b.element, required=required, condition=condition)


def _walk(rows: list[Row], arch: str, when: tuple[str, ...], names: Mapping[str, str]) -> Iterator[Read]:
    for row in rows:
        kind = row[0]
        if kind == "key":
            yield _read(row[1], row[2], "", bool(row[4]), when)
        elif kind == "include":
            yield from _walk(load("load_maps.json")["classes"][row[1]][row[2]], arch, when, names)
        elif kind == "if":
            condition = _node(row[1])
            yield from _calls(condition, arch, when, names, fails=_fails(row[2]))
            known = decided(condition, arch)
            told = _words(condition, names)
            if known is not False:
                yield from _walk(row[2], arch, when if known else (*when, told), names)
            if known is not True and len(row) > 3:
                yield from _walk(row[3], arch, when if known is False else (*when, _not(told)), names)
        elif kind == "try":
            yield from _walk(row[1], arch, when, names)
            yield from _walk(row[2], arch, (*when, "what stands before fails"), names)
        else:
            for part in row[1:]:
                if isinstance(part, list) and part and isinstance(part[0], list):
                    yield from _walk(part, arch, when, names)
                elif isinstance(part, str) and kind in ("do", "set", "let") and "(" in part:
                    yield from _calls(_node(part), arch, when, names)


def _calls(
    node: ast.expr, arch: str, when: tuple[str, ...], names: Mapping[str, str], *, fails: bool = False
) -> Iterator[Read]:
    """Reads inside an expression; what stands behind ``and`` or ``or`` is reached only sometimes."""
    if isinstance(node, ast.BoolOp):
        so_far: tuple[str, ...] = ()
        for value in node.values:
            yield from _calls(value, arch, (*when, *so_far), names)
            if decided(value, arch) is None:
                told = _words(value, names)
                so_far = (*so_far, told if isinstance(node.op, ast.And) else _not(told))
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _calls(node.operand, arch, when, names, fails=fails)
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        yield _called(node.func.id, [_constant(a) for a in node.args], when, fails)
        return
    for name in node._fields:
        value = getattr(node, name)
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, ast.expr):
                yield from _calls(child, arch, when, names)


def _called(name: str, a: list[Any], when: tuple[str, ...], fails: bool) -> Read:
    if name == "swa_pattern":
        return _read("attention.sliding_window_pattern", "u32 or arr", "u32", False, when)
    needed = fails or a[-1] is True
    if name == "key":
        return _read(a[0], a[1], "", needed, when)
    if name == "scalar":
        return _read(a[0], "u32", "", needed, when)
    if name == "arr_n":
        return _read(a[0], "arr", "", needed, when)
    return _read(a[0], "arr" if name == "arr" else f"{a[1]} or arr", a[1], needed, when)


def _read(key: str, kind: str, element: str, required: bool, when: tuple[str, ...]) -> Read:
    how = NEVER if not required else SOMETIMES if when else ALWAYS
    return Read(key, kind, element, how, " and ".join(dict.fromkeys(when)))


def _fails(rows: list[Row]) -> bool:
    return any(row[0] in ("fail", "abort") for row in rows)


@cache
def _node(text: str) -> ast.expr:
    node: ast.expr = parsed(text)
    return node


def _constant(node: ast.expr) -> Any:
    return node.value if isinstance(node, ast.Constant) else None


def decided(node: ast.expr, arch: str) -> bool | None:
    """Value of a condition that the architecture alone decides, else None."""
    if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == "arch":
        same = _constant(node.comparators[0]) == arch
        return same if isinstance(node.ops[0], ast.Eq) else not same
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = decided(node.operand, arch)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        values = [decided(v, arch) for v in node.values]
        ends = isinstance(node.op, ast.Or)  # one of these decides it
        if ends in values:
            return ends
        return None if None in values else not ends
    return None


# -- words

_TARGET = regex(r"\b(?:key|arr|each|scalar|arr_n)\('=?([^']+)'[^)]*?'(?:h\.)?(\w+)', (?:True|False)\)")


@by_known(mapped)
def _targets(arch: str) -> Mapping[str, str]:
    """Names that rows keep values under, with the key they come from."""
    out = {"n_layer()": "block_count", "n_head()": "attention.head_count"}

    def collect(rows: list[Row]) -> None:
        for row in rows:
            if row[0] == "include":
                collect(load("load_maps.json")["classes"][row[1]][row[2]])
            elif row[0] == "key" and row[3]:
                out.setdefault(row[3].removeprefix("h."), row[1])
            for part in row[1:]:
                if isinstance(part, str):
                    for key, name in _TARGET.findall(part):
                        out.setdefault(name, key)
                elif isinstance(part, list) and part and isinstance(part[0], list):
                    collect(part)

    collect(list(rows_of(arch)))
    return out


def _words(node: ast.expr, names: Mapping[str, str]) -> str:
    """A condition with keys in place of llama.cpp's names."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _not(_words(node.operand, names))
    if isinstance(node, ast.BoolOp):
        joined = " and " if isinstance(node.op, ast.And) else " or "
        return joined.join(dict.fromkeys(_words(v, names) for v in node.values))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        return f"{_constant(node.args[0])} is there"
    text = _written(node).replace("h.", "")
    return re.sub(r"[A-Za-z_]\w*(?:\(\))?", lambda m: names.get(m[0], m[0]), text)


def _written(node: ast.expr) -> str:
    """As `ast.unparse` does it, whose module takes a millisecond: most are a name or one comparison."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        sign = _SIGNS.get(type(node.ops[0]))
        left, right = _plain(node.left), _plain(node.comparators[0])
        if sign and left and right:
            return f"{left} {sign} {right}"
    elif plain := _plain(node):
        return plain
    from ast import unparse

    return unparse(node)


_SIGNS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def _plain(node: ast.expr) -> str:
    """A name, a number, a text, a member or a call without arguments as it is written; "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and type(node.value) in (int, str):
        return repr(node.value)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not (node.args or node.keywords):
        return f"{node.func.id}()"
    return ""


def _not(told: str) -> str:
    if " and " in told or " or " in told:
        return f"not ({told})"
    for yes, no in ((" is there", " is absent"), (" == ", " != "), (" > 0", " is 0")):
        if yes in told:
            return told.replace(yes, no)
        if no in told:
            return told.replace(no, yes)
    return f"not {told}"
