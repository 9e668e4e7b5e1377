"""The statements of programs that were translated from C++, as closures (`cplus.py` runs them).

A statement gives nothing, or how the block is left: `BREAK`, `CONTINUE`, or a `Returned` with the value.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

from gguftool.facts.machine.cnumbers import coerced
from gguftool.facts.machine.ends import Abort, Refusal, Unknown
from gguftool.facts.machine.expressions import Compiled, compiled
from gguftool.facts.machine.values import Scope, Vector, put, store

Row = list[Any]
Step = Callable[[Scope], Any]
BREAK, CONTINUE = "break", "continue"


class Returned:
    """A block that ends the function, with its value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Runs(Protocol):
    """What a statement needs of the machine it runs on."""

    top: Scope
    warnings: list[str]
    steps: int

    def run(self, steps: list[Step], scope: Scope) -> Any:
        """A block in a scope; how it is left."""

    def body(self, rows: list[Row]) -> list[Step]:
        """The closures of some rows."""

    def function(self, parameters: list[list[str]], rows: list[Row], up: Scope) -> Callable[..., Any]:
        """A function that stands among those names."""


def _let(m: Runs, row: Row) -> Step:
    name, value, code = row[1], compiled(row[2]), row[3] if len(row) > 3 else ""

    def step(scope: Scope) -> None:
        found = value(scope)
        dict.__setitem__(scope, name, coerced(code, found) if code else _own(found))

    return step


def _own(value: Any) -> Any:
    """A literal list is a vector of its own."""
    return Vector(value) if type(value) is list else value


def _lets(m: Runs, row: Row) -> Step:
    names, value = row[1], compiled(row[2])

    def step(scope: Scope) -> None:
        for name, one in zip(names, value(scope), strict=True):
            dict.__setitem__(scope, name, one)

    return step


def _set(m: Runs, row: Row) -> Step:
    (kind, parts), value = _place(row[1]), compiled(row[2])
    if kind is ast.Name:
        name = parts[0]

        def to_name(scope: Scope) -> None:
            found = value(scope)
            old = scope.known(name) if isinstance(found, float) else None
            scope.assign(name, int(found) if type(old) is int and isinstance(found, float) else _own(found))

        return to_name
    first, second = parts
    if kind is ast.Attribute:
        return lambda scope: store(first(scope), second, _own(value(scope)))
    return lambda scope: put(first(scope), second(scope), value(scope))


@cache
def _place(text: str) -> tuple[type[ast.expr], tuple[Any, ...]]:
    """Where a value is put: a variable, a member of an object, an item of a list."""
    target = ast.parse(text, mode="eval").body
    if isinstance(target, ast.Name):
        return ast.Name, (target.id,)
    if isinstance(target, ast.Attribute):
        return ast.Attribute, (compiled(ast.unparse(target.value)), target.attr)
    if isinstance(target, ast.Subscript):
        return ast.Subscript, (compiled(ast.unparse(target.value)), compiled(ast.unparse(target.slice)))
    raise ValueError(f"no place to put something: {text}")


def _do(m: Runs, row: Row) -> Step:
    value = compiled(row[1])

    def step(scope: Scope) -> None:
        value(scope)

    return step


def _if(m: Runs, row: Row) -> Step:
    test, yes, no = compiled(row[1]), _block(m, row[2]), _block(m, row[3]) if len(row) > 3 else None

    def step(scope: Scope) -> Any:
        if test(scope):
            return yes(scope)
        return no(scope) if no is not None else None

    return step


def _block(m: Runs, rows: list[Row]) -> Step:
    """Rows in a scope of their own, where they name something."""
    if any(row[0] in ("let", "lets", "lambda") for row in rows):
        return lambda scope: m.run(m.body(rows), Scope(scope))
    return lambda scope: m.run(m.body(rows), scope)


def _for(m: Runs, row: Row) -> Step:
    first, test, after, body = row[1], compiled(row[2]), row[3], _block(m, row[4])

    def step(scope: Scope) -> Any:
        inner = Scope(scope)
        m.run(m.body(first), inner)
        while test(inner):
            m.steps += 1
            left = body(inner)
            if left is BREAK:
                break
            if isinstance(left, Returned):
                return left
            m.run(m.body(after), inner)
        return None

    return step


def _foreach(m: Runs, row: Row) -> Step:
    name, values, rows = row[1], compiled(row[2]), row[3]

    def step(scope: Scope) -> Any:
        for value in list(values(scope)):
            inner = Scope(scope)
            dict.__setitem__(inner, name, value)
            left = m.run(m.body(rows), inner)
            if left is BREAK:
                break
            if isinstance(left, Returned):
                return left
        return None

    return step


def _switch(m: Runs, row: Row) -> Step:
    value, otherwise = compiled(row[1]), _block(m, row[3])
    cases = [([compiled(label) for label in labels], _block(m, rows)) for labels, rows in row[2]]
    table: dict[Any, Step] = {}

    def step(scope: Scope) -> Any:
        if not table:
            table.update({label(m.top): rows for labels, rows in cases for label in labels})
        return table.get(value(scope), otherwise)(scope)

    return step


def _lambda(m: Runs, row: Row) -> Step:
    name, parameters, rows = row[1:]

    def step(scope: Scope) -> None:
        dict.__setitem__(scope, name, m.function(parameters, rows, scope))

    return step


def _return(m: Runs, row: Row) -> Step:
    value: Compiled = compiled(row[1])
    return lambda scope: Returned(value(scope))


def _ends(error: type[Refusal] | type[Abort]) -> Callable[[Runs, Row], Step]:
    def build(m: Runs, row: Row) -> Step:
        words = compiled(row[1])

        def step(scope: Scope) -> None:
            raise error(str(words(scope)))

        return step

    return build


def _assert(m: Runs, row: Row) -> Step:
    test, words = compiled(row[1]), row[2]

    def step(scope: Scope) -> None:
        if not test(scope):
            raise Abort(words)

    return step


def _warn(m: Runs, row: Row) -> Step:
    words = compiled(row[1])
    return lambda scope: m.warnings.append(str(words(scope)).strip("\n"))


def _unknown(m: Runs, row: Row) -> Step:
    def step(scope: Scope) -> None:
        raise Unknown(f"what llama.cpp does here is not in our map ({row[1]})")

    return step


def _leave(how: str) -> Callable[[Runs, Row], Step]:
    return lambda m, row: lambda scope: how


def _key(m: Runs, row: Row) -> Step:
    """``key kind name place required``: a key of the file, into a variable that keeps its value without it."""
    kind, name, required = row[1], compiled(row[2]), compiled(row[4])
    old, put_there = compiled(row[3]), _set(m, ["set", row[3], "_found"])

    def step(scope: Scope) -> None:
        inner = Scope(scope)
        there = scope["read_key()"](kind, name(scope), required(scope), old(scope), row[3])
        dict.__setitem__(inner, "_found", there)
        put_there(inner)

    return step


BUILD: dict[str, Callable[[Runs, Row], Step]] = {
    "let": _let,
    "lets": _lets,
    "set": _set,
    "do": _do,
    "if": _if,
    "block": lambda m, row: _block(m, row[1]),
    "for": _for,
    "foreach": _foreach,
    "switch": _switch,
    "lambda": _lambda,
    "return": _return,
    "break": _leave(BREAK),
    "continue": _leave(CONTINUE),
    "fail": _ends(Refusal),
    "abort": _ends(Abort),
    "assert": _assert,
    "warn": _warn,
    "unknown": _unknown,
    "key": _key,
}
"""Kind of a row -> what makes a closure of it."""
