"""Runs programs that were translated from C++ as they stand (`scripts/facts/cplus_statements.py` lists the rows).

Rows are turned into closures once (`steps.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gguftool.facts.machine.cnumbers import coerced
from gguftool.facts.machine.ends import Unknown
from gguftool.facts.machine.expressions import Compiled, compiled, is_constant
from gguftool.facts.machine.library import std
from gguftool.facts.machine.steps import BUILD, Returned, Row, Step
from gguftool.facts.machine.values import Scope, Thing, Vector, store

MOST_STEPS = 4_000_000
"""Statements of one run; a projector of 64 layers needs some 300,000."""


class Function:
    """A function or a lambda: parameters, body, and the names it stands among."""

    __slots__ = ("body", "code", "machine", "parameters", "up")

    def __init__(
        self, machine: CPlusMachine, parameters: list[list[str]], body: list[Step], up: Scope, code: str = ""
    ) -> None:
        self.machine, self.parameters, self.body, self.up, self.code = machine, parameters, body, up, code

    def __call__(self, *given: Any) -> Any:
        scope = Scope(self.up)
        for i, (name, code, *default) in enumerate(self.parameters):
            value = given[i] if i < len(given) else compiled(default[0])(scope) if default else None
            dict.__setitem__(scope, name, self.machine.kept(code, value) if code else value)
        left = self.machine.run(self.body, scope)
        found = left.value if isinstance(left, Returned) else None
        return coerced(self.code, found) if self.code else found


class CPlusMachine:
    """All functions and classes of a program, ready to run.

    Attributes:
        top: names that every function sees: constants, enumerators, functions.
        warnings: what the program would have logged as a warning.
        last_call: what the last function that is no method was called with.
    """

    def __init__(self, program: Mapping[str, Any], natives: Mapping[str, Callable[..., Any]]) -> None:
        self.program = program
        self.warnings: list[str] = []
        self.steps = 0
        self.last_call: tuple[Any, ...] = ()
        self.top = Scope()
        self.top.update(program["constants"])
        for name, function in {**std(), **natives}.items():
            dict.__setitem__(self.top, f"{name}()", function)
        own: dict[str, Callable[..., Any]] = {"new": self.new, "make": self.make, "objects": self.objects}
        own["invoke"] = lambda f, *a: f(*a)
        for name, function in own.items():
            dict.__setitem__(self.top, f"{name}()", function)
        for name, (parameters, rows, *code) in program["functions"].items():
            if f"{name}()" not in self.top:
                dict.__setitem__(self.top, f"{name}()", _Late(self, parameters, rows, *code))
        for name, text in program["globals"].items():
            dict.__setitem__(self.top, name, compiled(text)(self.top))
        self._members: dict[str, tuple[dict[str, Any], list[tuple[str, Compiled]], dict[str, str]]] = {}
        self._methods: dict[tuple[str, str], dict[str, Any]] = {}
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
            found = self._compiled[id(rows)] = [BUILD[row[0]](self, row) for row in rows]
        return found

    def function(self, parameters: list[list[str]], rows: list[Row], up: Scope) -> Function:
        """A function that stands among those names."""
        return Function(self, parameters, self.body(rows), up)

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
            store(thing, name, value)
        return thing

    @staticmethod
    def copy(thing: Thing) -> Thing:
        """Another object with the same members."""
        made = Thing(thing.kind, thing.up, thing.methods)  # type: ignore[arg-type]
        made.update({k: list(v) if isinstance(v, list) else v for k, v in thing.items() if k != "this"})
        made.codes = thing.codes
        return made

    def _fields(self, thing: Thing, kind: str) -> None:
        """Give an object the members of its class and of the classes below it, as they begin."""
        known = self._members.get(kind)
        if known is None:
            known = self._members[kind] = self._begin(kind)
        constants, others, thing.codes = known
        dict.update(thing, constants)
        for name, value in others:
            dict.__setitem__(thing, name, value(thing))

    def _begin(self, kind: str) -> tuple[dict[str, Any], list[tuple[str, Compiled]], dict[str, str]]:
        """Of a class: members with numbers and texts, members that are worked out for each object, codes of types."""
        about = self.program["classes"].get(kind)
        if about is None:
            raise Unknown(f"no class {kind} here")
        constants: dict[str, Any] = {}
        others: dict[str, Compiled] = {}
        codes: dict[str, str] = {}
        for base in about.get("bases", ()):
            below = self._begin(base)
            constants |= below[0]
            others |= dict(below[1])
            codes |= below[2]
        for name, value, *code in about["fields"]:
            if is_constant(value):
                constants[name] = compiled(value)({})
                others.pop(name, None)
            else:
                others[name] = compiled(value)
            if code:
                codes[name] = code[0]
        return constants, list(others.items()), codes

    def _construct(self, thing: Thing, kind: str, given: tuple[Any, ...]) -> None:
        about = self.program["classes"][kind]
        parameters, rows = about["start"]
        if len(given) == 1 and len(parameters) > 1 and isinstance(given[0], Thing):
            # Made of another object: that constructor takes over what it holds.
            thing.update({name: given[0][name] for name, *_ in about["fields"]})
            return
        inner = Scope(thing)
        for (name, code, *_), value in zip(parameters, given, strict=False):
            dict.__setitem__(inner, name, self.kept(code, value) if code else value)
        for row in rows:
            if row[0] == "super":
                arguments = tuple(compiled(a)(inner) for a in row[2])
                if self.program["classes"][row[1]].get("start"):
                    self._construct(thing, row[1], arguments)
            else:
                self.run(self._start.setdefault(id(row), [BUILD[row[0]](self, row)]), inner)

    def _method(self, thing: Thing, name: str) -> Any:
        found = self._methods.get((thing.kind, name))
        if found is None:
            found = self._methods[thing.kind, name] = self._found(thing.kind, name)
        return self._bound(thing, name, found) if found else None

    def _found(self, kind: str, name: str) -> dict[str, Any]:
        """The methods of that name, of the class or the first one below it that has any."""
        kinds = [kind]
        while kinds:
            about = self.program["classes"][kinds.pop(0)]
            found = {n: about["methods"][n] for n in about["methods"] if n.partition("/")[0] == name}
            if found:
                return found
            kinds += about.get("bases", ())
        return {}

    def _bound(self, thing: Thing, name: str, found: dict[str, Any]) -> Any:
        if len(found) == 1:
            parameters, rows, *code = found[name]
            return Function(self, parameters, self.body(rows), thing, *code)

        def call(*given: Any) -> Any:
            parameters, rows, *code = found.get(f"{name}/{len(given)}") or found[name]
            return Function(self, parameters, self.body(rows), thing, *code)(*given)

        return call


class _Late:
    """A function of the program; its rows are looked at when it is called."""

    __slots__ = ("code", "function", "machine", "parameters", "rows")

    def __init__(self, machine: CPlusMachine, parameters: list[list[str]], rows: list[Row], code: str = "") -> None:
        self.machine, self.parameters, self.rows, self.code = machine, parameters, rows, code
        self.function: Function | None = None

    def __call__(self, *given: Any) -> Any:
        if self.function is None:
            m = self.machine
            self.function = Function(m, self.parameters, m.body(self.rows), m.top, self.code)
        self.machine.last_call = given
        return self.function(*given)
