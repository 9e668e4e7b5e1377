"""The little expression language of `load_maps.json`: names, numbers, C arithmetic, comparisons, known functions.

An expression is parsed once by Python's `ast` and turned into nested closures; anything outside the grammar is an
error when the data is read. Values of model files never reach the parser.
"""

from __future__ import annotations

import _ast as ast
import math
from collections.abc import Callable
from functools import cache
from keyword import iskeyword
from typing import Any

from gguftool.facts.machine.ends import Abort, Unknown
from gguftool.facts.machine.values import NULL_POINTER, item, member, method

Names = dict[str, Any]
"""Variables and functions of one evaluation; ``hparams`` holds what ``h.x`` means."""
Compiled = Callable[[Names], Any]
DIVIDED_BY_ZERO = "division by zero (SIGFPE)"


@cache
def compiled(text: str) -> Compiled:
    """The closure of an expression.

    Raises:
        ValueError: the text uses something outside the grammar.
    """
    # Most are a name or a number, which take no parser.
    if text.isidentifier() and not iskeyword(text):
        return _named(text)
    if text.isdecimal() and text.isascii() and not text.startswith("0"):
        return _of(int(text))
    return _node(parsed(text))


@cache
def is_constant(text: str) -> bool:
    """Whether an expression is one number or text, the same for all."""
    return isinstance(parsed(text), ast.Constant)


def parsed(text: str) -> Any:
    """As `ast.parse` does it: Python's parser needs nothing of that module, which takes 1 ms to load."""
    return compile(text, "<load map>", "eval", ast.PyCF_ONLY_AST).body  # type: ignore[attr-defined]


def _written(node: ast.expr) -> str:
    from ast import unparse

    return unparse(node)


def _node(node: ast.expr) -> Compiled:
    build = _BUILDERS.get(type(node))
    if build is None:
        raise ValueError(f"load map: {_written(node)!r} is not an expression this program knows")
    return build(node)


def _constant(node: Any) -> Compiled:
    return _of(node.value)


def _of(value: Any) -> Compiled:
    return lambda names: value


def _name(node: Any) -> Compiled:
    return _named(node.id)


def _named(name: str) -> Compiled:
    def get(names: Names) -> Any:
        try:
            return names[name]
        except KeyError:
            raise Unknown(f"the load map uses {name}, which has no value here") from None

    return get


def _attribute(node: Any) -> Compiled:
    name = node.attr
    if name.startswith("__"):
        raise ValueError(f"load map: {_written(node)!r}")
    if isinstance(node.value, ast.Name) and node.value.id == "h":
        return lambda names: names["hparams"].get(name, 0)
    base = _node(node.value)
    return lambda names: member(base(names), name)


def _subscript(node: Any) -> Compiled:
    base, index = _node(node.value), _node(node.slice)

    def get(names: Names) -> Any:
        return item(base(names), index(names))

    return get


def _list(node: Any) -> Compiled:
    items = [_node(e) for e in node.elts]
    return lambda names: [e(names) for e in items]


def divide(a: Any, b: Any) -> Any:
    """C division of whole numbers: towards zero; by zero the process dies."""
    if b == 0:
        raise Abort(DIVIDED_BY_ZERO)
    return a // b if (a >= 0) == (b > 0) else -(-a // b)


def _quotient(a: Any, b: Any) -> Any:
    """``/`` of C: whole numbers stay whole, and a number that is not whole may be divided by zero."""
    if isinstance(a, int) and isinstance(b, int):
        return divide(a, b)
    if b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a)
    return a / b


def _remainder(a: Any, b: Any) -> Any:
    """``%`` of C: the sign of the first."""
    return a - divide(a, b) * b


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: divide,
    ast.Div: _quotient,
    ast.BitXor: lambda a, b: a ^ b,
    ast.LShift: lambda a, b: a << b,
    ast.RShift: lambda a, b: a >> b,
    ast.Mod: _remainder,
    ast.BitOr: lambda a, b: a | b,
    ast.BitAnd: lambda a, b: a & b,
}
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda a, b: bool(a == b),
    ast.NotEq: lambda a, b: bool(a != b),
    ast.Lt: lambda a, b: bool(a < b),
    ast.LtE: lambda a, b: bool(a <= b),
    ast.Gt: lambda a, b: bool(a > b),
    ast.GtE: lambda a, b: bool(a >= b),
}
"""Comparisons that are the same in C and in Python."""


def _binary(node: Any) -> Compiled:
    left, right, op = _node(node.left), _node(node.right), _BINARY[type(node.op)]
    return lambda names: op(left(names), right(names))


def _unary(node: Any) -> Compiled:
    operand = _node(node.operand)
    if isinstance(node.op, ast.Not):
        return lambda names: not operand(names)
    if isinstance(node.op, ast.USub):
        return lambda names: -operand(names)
    raise ValueError(f"load map: {_written(node)!r}")


def _bool(node: Any) -> Compiled:
    parts = [_node(v) for v in node.values]
    if isinstance(node.op, ast.And):
        return lambda names: all(p(names) for p in parts)
    return lambda names: any(p(names) for p in parts)


def _compare(node: Any) -> Compiled:
    if len(node.ops) != 1:
        raise ValueError(f"load map: {_written(node)!r}")
    left, right, op = _node(node.left), _node(node.comparators[0]), COMPARE[type(node.ops[0])]
    return lambda names: op(left(names), right(names))


def _choice(node: Any) -> Compiled:
    test, yes, no = _node(node.test), _node(node.body), _node(node.orelse)
    return lambda names: yes(names) if test(names) else no(names)


def _call(node: Any) -> Compiled:
    args = [_node(a) for a in node.args]
    if isinstance(node.func, ast.Attribute) and not node.keywords:
        base, called = _node(node.func.value), node.func.attr
        return lambda names: method(base(names), called, [a(names) for a in args])
    if not isinstance(node.func, ast.Name) or node.keywords:
        raise ValueError(f"load map: {_written(node)!r}")
    # Functions live under their own prefix: C++ has a variable n_head beside the method n_head(i).
    name = f"{node.func.id}()"

    def call(names: Names) -> Any:
        try:
            function = names[name]
        except KeyError:
            raise Unknown(f"the load map calls {name}, which is not known here") from None
        if function is None:
            raise Abort(NULL_POINTER)
        return function(*[a(names) for a in args])

    return call


_BUILDERS: dict[type[ast.expr], Callable[[Any], Compiled]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.List: _list,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _bool,
    ast.Compare: _compare,
    ast.IfExp: _choice,
    ast.Call: _call,
}
