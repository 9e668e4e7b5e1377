"""Programs in C++ that are run as they stand: what the generator makes of them, and what the machine does with it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gguftool.facts.data import load
from gguftool.facts.machine.clip import Clip
from gguftool.facts.machine.cplus import CPlusMachine
from gguftool.facts.machine.ends import Abort, Refusal, Unknown

FOLDER = Path(__file__).resolve().parents[2] / "scripts" / "facts"
CODE = """
struct part { int n = 3; std::vector<int> list; bool odd() const { return n % 2 == 1; } };
struct base { int side; base(int n) : side(n * 2) {} virtual int area() const { return side * side; } };
struct cube : base { cube(int n) : base(n) {} int area() const override { return 6 * side; }
                     int twice(int k = 2) const { return area() * k; } };
int quotients(int a, float b) { int half = a / 2; const float r = a / b; return half * 1000 + (int) (r * 10); }
int wraps(int a) { return a * a; }
int loops() {
    int sum = 0;
    for (int i = 0; ; ++i) {
        if (i == 3) { continue; }
        if (i > 5) { break; }
        int sum2 = i;
        sum += sum2;
    }
    for (int i : {10, 20}) { sum += i; }
    return sum;
}
const char * named(int k) {
    switch (k) {
        case 1:
        case 2: { return "few"; }
        case 3: break;
        default: { throw std::runtime_error(string_format("%s: %d is too many\\n", __func__, k)); }
    }
    return k == 3 ? "three" : "none";
}
int closes(int n) {
    auto add = [&](int a, int b = 5) { return a + b + n; };
    return add(1) + add(1, 2);
}
void dies(part * p) { GGML_ASSERT(p && "no part"); GGML_ASSERT(p->n  ==  3 || p->odd()); }
int of(part * p) { return p->n; }
int made() {
    part a; a.n = 4; a.list.resize(3);
    part b = { 7, {1, 2} };
    return a.n * 100 + b.list.size() * 10 + b.odd();
}
int shapes() { cube c(2); return c.twice() + c.twice(1); }
"""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> CPlusMachine:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("source", "cpp_operators", "cpp_ends", "cplus", "cplus_statements", "cplus_units", "words"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    from cplus_units import Unit
    from source import Tables

    unit = Unit(CODE, Tables(Path("none")))
    unit.structs = frozenset({"part", "base", "cube"})
    unit.survey()
    functions = {name: unit.body_of(name) for name in unit.places}
    assert unit.skipped == []
    classes = {name: {"fields": c.fields, "methods": c.methods, "bases": c.bases} for name, c in unit.classes.items()}
    for name, c in unit.classes.items():
        if c.start is not None:
            classes[name]["start"] = c.start
    program: dict[str, Any] = {"constants": {}, "globals": {}, "functions": functions, "classes": classes}
    return CPlusMachine(program, {})


def call(m: CPlusMachine, name: str, *given: Any) -> Any:
    return m.top[f"{name}()"](*given)


def test_numbers_are_those_of_c(machine: CPlusMachine) -> None:
    assert call(machine, "quotients", -7, 2.0) == -3 * 1000 - 35
    assert call(machine, "wraps", 65536) == 0
    assert call(machine, "wraps", 46341) == 46341**2 - 2**32


def test_statements(machine: CPlusMachine) -> None:
    assert call(machine, "loops") == 0 + 1 + 2 + 4 + 5 + 30
    assert [call(machine, "named", k) for k in (1, 2, 3)] == ["few", "few", "three"]
    assert call(machine, "closes", 100) == 106 + 103
    with pytest.raises(Refusal, match="named: 9 is too many"):
        call(machine, "named", 9)


def test_objects(machine: CPlusMachine) -> None:
    assert call(machine, "made") == 400 + 20 + 1
    assert call(machine, "shapes") == 6 * 4 * 2 + 6 * 4


def test_ends(machine: CPlusMachine) -> None:
    with pytest.raises(Abort, match=r"GGML_ASSERT\(p && \"no part\"\) failed"):
        call(machine, "dies", None)
    part = machine.new("part")
    part["n"] = 4
    with pytest.raises(Abort, match=r"GGML_ASSERT\(p->n == 3 \|\| p->odd\(\)\) failed"):
        call(machine, "dies", part)
    with pytest.raises(Abort, match="SIGSEGV"):
        call(machine, "of", None)
    with pytest.raises(Unknown):
        machine.new("something else")


def _calls(part: Any) -> Iterator[str]:
    """Functions that expressions call by name."""
    if isinstance(part, list):
        for one in part:
            yield from _calls(one)
    elif isinstance(part, str) and "(" in part:
        try:
            tree = ast.parse(part, mode="eval")
        except SyntaxError:  # the words of an assertion
            return
        yield from (n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))


def _named(part: Any) -> Iterator[str]:
    """Variables, which may hold functions."""
    if isinstance(part, list):
        if part[:1] in (["let"], ["lambda"], ["foreach"]):
            yield part[1]
        for one in part:
            yield from _named(one)


def test_every_function_that_the_program_of_projectors_calls_is_there() -> None:
    program = load("projectors.json")
    bodies = {name: body for name, body in program["functions"].items() if "forward_impl" not in name}
    bodies = {name: body for name, body in bodies.items() if "visit_parents" not in name}
    methods = {m.partition("/")[0] for c in program["classes"].values() for m in c["methods"]}
    for kind, about in program["classes"].items():
        bodies |= {f"{kind}::{name}": body for name, body in about["methods"].items()}
    known = {name.removesuffix("()") for name in Clip({}, {}).machine.top if name.endswith("()")} | methods
    for name, (parameters, rows, *_) in bodies.items():
        local = {p[0] for p in parameters} | set(_named(rows))
        assert not set(_calls(rows)) - known - local, name
