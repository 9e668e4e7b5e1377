"""Runs programs that were translated from C++ as they stand (`scripts/facts/cplus_statements.py` lists the rows).

Rows are turned into closures once. A statement gives nothing, or how the block is left: `BREAK`, `CONTINUE`, or a
`Returned` with the value.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from gguftool.facts.machine.ends import Abort, Refusal, Unknown
from gguftool.facts.machine.expressions import Compiled, compiled
from gguftool.facts.machine.library import coerced, std
from gguftool.facts.machine.values import Scope, Thing, Vector, put, store

Row = list[Any]
Step = Callable[[Scope], Any]
MOST_STEPS = 4_000_000
"""Statements of one run; a projector of 64 layers needs some 300,000."""
BREAK, CONTINUE = "break", "continue"


class Returned:
    """A block that ends the function, with its value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Function:
    """A function or a lambda: parameters, body, and the names it stands among."""

    __slots__ = ("body", "machine", "parameters", "up")

    def __init__(self, machine: CPlusMachine, parameters: list[list[str]], body: list[Step], up: Scope) -> None:
        self.machine, self.parameters, self.body, self.up = machine, parameters, body, up

    def __call__(self, *given: Any) -> Any:
        scope = Scope(self.up)
        for i, (name, code, *default) in enumerate(self.parameters):
            value = given[i] if i < len(given) else compiled(default[0])(scope) if default else None
            dict.__setitem__(scope, name, self.machine.kept(code, value) if code else value)
        left = self.machine.run(self.body, scope)
        return left.value if isinstance(left, Returned) else None


class CPlusMachine:
    """All functions and classes of a program, ready to run.

    Attributes:
        top: names that every function sees: constants, enumerators, functions.
        warnings: what the program would have logged as a warning.
    """

    def __init__(self, program: Mapping[str, Any], natives: Mapping[str, Callable[..., Any]]) -> None:
        self.program = program
        self.warnings: list[str] = []
        self.steps = 0
        self.top = Scope()
        self.top.update(program["constants"])
        for name, function in {**std(), **natives}.items():
            dict.__setitem__(self.top, f"{name}()", function)
        own: dict[str, Callable[..., Any]] = {"new": self.new, "make": self.make, "objects": self.objects}
        own["invoke"] = lambda f, *a: f(*a)
        for name, function in own.items():
            dict.__setitem__(self.top, f"{name}()", function)
        for name, (parameters, rows) in program["functions"].items():
            if f"{name}()" not in self.top:
                dict.__setitem__(self.top, f"{name}()", _Late(self, parameters, rows))
        for name, text in program["globals"].items():
            dict.__setitem__(self.top, name, compiled(text)(self.top))
        self._compiled: dict[int, list[Step]] = {}
        self._start: dict[int, list[Step]] = {}

    def run(self, steps: list[Step], scope: Scope) -> Any:
        """A block in a scope that is made already; how it is left."""
        self.steps += len(steps)
        if self.steps > MOST_STEPS:
            raise Unknown(f"the numbers of the file make llama.cpp take more than {MOST_STEPS:,} steps")
        for step in steps:
            left = step(scope)
            if left is not None:
                return left
        return None

    def body(self, rows: list[Row]) -> list[Step]:
        """The closures of some rows."""
        found = self._compiled.get(id(rows))
        if found is None:
            found = self._compiled[id(rows)] = [_BUILD[row[0]](self, row) for row in rows]
        return found

    def kept(self, code: str, value: Any) -> Any:
        """A value as a parameter of that type keeps it; ``=Class`` makes an object of a list in braces."""
        if code[0] == "=":
            return self.make(code[1:], value) if isinstance(value, list) else value
        return coerced(code, value)

    # -- objects

    def new(self, kind: str, *given: Any) -> Any:
        """An object, by its constructor if it has one, else by the values of its members in order."""
        thing = Thing(kind, self.top, self._method)
        self._fields(thing, kind)
        starts = self.program["classes"][kind].get("start")
        if starts is None:
            return self._aggregate(thing, kind, given)
        self._construct(thing, kind, given)
        return thing

    def objects(self, kind: str) -> Vector:
        """An empty vector of objects."""
        return Vector((), lambda: self.new(kind))

    def make(self, kind: str, values: Any) -> Any:
        """``Kind{…}``; an object that is given already stays itself."""
        return values if isinstance(values, Thing) else self.new(kind, *values)

    def _aggregate(self, thing: Thing, kind: str, given: tuple[Any, ...]) -> Thing:
        if len(given) == 1 and isinstance(given[0], Thing):
            return self.copy(given[0])
        for (name, *_), value in zip(self.program["classes"][kind]["fields"], given, strict=False):
            store(thing, name, value, coerced)
        return thing

    @staticmethod
    def copy(thing: Thing) -> Thing:
        """Another object with the same members."""
        made = Thing(thing.kind, thing.up, thing.methods)  # type: ignore[arg-type]
        made.update({k: list(v) if isinstance(v, list) else v for k, v in thing.items() if k != "this"})
        made.codes = thing.codes
        return made

    def _fields(self, thing: Thing, kind: str) -> None:
        about = self.program["classes"].get(kind)
        if about is None:
            raise Unknown(f"no class {kind} here")
        for base in about.get("bases", ()):
            self._fields(thing, base)
        for name, value, *code in about["fields"]:
            dict.__setitem__(thing, name, compiled(value)(thing))
            if code:
                thing.codes[name] = code[0]

    def _construct(self, thing: Thing, kind: str, given: tuple[Any, ...]) -> None:
        parameters, rows = self.program["classes"][kind]["start"]
        inner = Scope(thing)
        for (name, code, *_), value in zip(parameters, given, strict=False):
            dict.__setitem__(inner, name, self.kept(code, value) if code else value)
        for row in rows:
            if row[0] == "super":
                arguments = tuple(compiled(a)(inner) for a in row[2])
                if self.program["classes"][row[1]].get("start"):
                    self._construct(thing, row[1], arguments)
            else:
                self.run(self._start.setdefault(id(row), [_BUILD[row[0]](self, row)]), inner)

    def _method(self, thing: Thing, name: str) -> Any:
        kinds = [thing.kind]
        while kinds:
            about = self.program["classes"][kinds.pop(0)]
            found = {n: about["methods"][n] for n in about["methods"] if n.partition("/")[0] == name}
            if found:
                return self._bound(thing, name, found)
            kinds += about.get("bases", ())
        return None

    def _bound(self, thing: Thing, name: str, found: dict[str, Any]) -> Any:
        if len(found) == 1:
            parameters, rows = found[name]
            return Function(self, parameters, self.body(rows), thing)

        def call(*given: Any) -> Any:
            parameters, rows = found.get(f"{name}/{len(given)}") or found[name]
            return Function(self, parameters, self.body(rows), thing)(*given)

        return call


class _Late:
    """A function of the program; its rows are looked at when it is called."""

    __slots__ = ("function", "machine", "parameters", "rows")

    def __init__(self, machine: CPlusMachine, parameters: list[list[str]], rows: list[Row]) -> None:
        self.machine, self.parameters, self.rows = machine, parameters, rows
        self.function: Function | None = None

    def __call__(self, *given: Any) -> Any:
        if self.function is None:
            self.function = Function(self.machine, self.parameters, self.machine.body(self.rows), self.machine.top)
        return self.function(*given)


# -- statements


def _let(m: CPlusMachine, row: Row) -> Step:
    name, value, code = row[1], compiled(row[2]), row[3] if len(row) > 3 else ""

    def step(scope: Scope) -> None:
        found = value(scope)
        dict.__setitem__(scope, name, coerced(code, found) if code else _own(found))

    return step


def _own(value: Any) -> Any:
    """A literal list is a vector of its own."""
    return Vector(value) if type(value) is list else value


def _lets(m: CPlusMachine, row: Row) -> Step:
    names, value = row[1], compiled(row[2])

    def step(scope: Scope) -> None:
        for name, one in zip(names, value(scope), strict=True):
            dict.__setitem__(scope, name, one)

    return step


def _set(m: CPlusMachine, row: Row) -> Step:
    target, value = ast.parse(row[1], mode="eval").body, compiled(row[2])
    if isinstance(target, ast.Name):
        name = target.id

        def to_name(scope: Scope) -> None:
            found = value(scope)
            old = scope[name] if isinstance(found, (int, float)) else None
            scope.assign(name, int(found) if type(old) is int and isinstance(found, float) else _own(found))

        return to_name
    if isinstance(target, ast.Attribute):
        base, attribute = compiled(ast.unparse(target.value)), target.attr
        return lambda scope: store(base(scope), attribute, _own(value(scope)), coerced)
    if isinstance(target, ast.Subscript):
        items, index = compiled(ast.unparse(target.value)), compiled(ast.unparse(target.slice))
        return lambda scope: put(items(scope), index(scope), value(scope))
    raise ValueError(f"no place to put something: {row[1]}")


def _do(m: CPlusMachine, row: Row) -> Step:
    value = compiled(row[1])

    def step(scope: Scope) -> None:
        value(scope)

    return step


def _if(m: CPlusMachine, row: Row) -> Step:
    test, yes, no = compiled(row[1]), _block(m, row[2]), _block(m, row[3]) if len(row) > 3 else None

    def step(scope: Scope) -> Any:
        if test(scope):
            return yes(scope)
        return no(scope) if no is not None else None

    return step


def _block(m: CPlusMachine, rows: list[Row]) -> Step:
    """Rows in a scope of their own, where they name something."""
    if any(row[0] in ("let", "lets", "lambda") for row in rows):
        return lambda scope: m.run(m.body(rows), Scope(scope))
    return lambda scope: m.run(m.body(rows), scope)


def _for(m: CPlusMachine, row: Row) -> Step:
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


def _foreach(m: CPlusMachine, row: Row) -> Step:
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


def _switch(m: CPlusMachine, row: Row) -> Step:
    value, otherwise = compiled(row[1]), _block(m, row[3])
    cases = [([compiled(label) for label in labels], _block(m, rows)) for labels, rows in row[2]]
    table: dict[Any, Step] = {}

    def step(scope: Scope) -> Any:
        if not table:
            table.update({label(m.top): rows for labels, rows in cases for label in labels})
        return table.get(value(scope), otherwise)(scope)

    return step


def _lambda(m: CPlusMachine, row: Row) -> Step:
    name, parameters, rows = row[1:]

    def step(scope: Scope) -> None:
        dict.__setitem__(scope, name, Function(m, parameters, m.body(rows), scope))

    return step


def _return(m: CPlusMachine, row: Row) -> Step:
    value: Compiled = compiled(row[1])
    return lambda scope: Returned(value(scope))


def _ends(error: type[Refusal] | type[Abort]) -> Callable[[CPlusMachine, Row], Step]:
    def build(m: CPlusMachine, row: Row) -> Step:
        words = compiled(row[1])

        def step(scope: Scope) -> None:
            raise error(str(words(scope)))

        return step

    return build


def _assert(m: CPlusMachine, row: Row) -> Step:
    test, words = compiled(row[1]), row[2]

    def step(scope: Scope) -> None:
        if not test(scope):
            raise Abort(words)

    return step


def _warn(m: CPlusMachine, row: Row) -> Step:
    words = compiled(row[1])
    return lambda scope: m.warnings.append(str(words(scope)).strip("\n"))


def _unknown(m: CPlusMachine, row: Row) -> Step:
    def step(scope: Scope) -> None:
        raise Unknown(f"what llama.cpp does here is not in our map ({row[1]})")

    return step


def _leave(how: str) -> Callable[[CPlusMachine, Row], Step]:
    return lambda m, row: lambda scope: how


def _key(m: CPlusMachine, row: Row) -> Step:
    """``key kind name place required``: a key of the file, into a variable that keeps its value without it."""
    kind, name, required = row[1], compiled(row[2]), compiled(row[4])
    old, put_there = compiled(row[3]), _set(m, ["set", row[3], "_found"])

    def step(scope: Scope) -> None:
        inner = Scope(scope)
        dict.__setitem__(inner, "_found", scope["read_key()"](kind, name(scope), required(scope), old(scope)))
        put_there(inner)

    return step


_BUILD: dict[str, Callable[[CPlusMachine, Row], Step]] = {
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
