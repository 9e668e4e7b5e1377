"""Expressions of `data/conversions.json`: what the converter computes from a model's configuration.

Python's own grammar, a small part of it, with Python's meaning. The texts ship with the package; what a configuration
says reaches them only as values, and no expression may grow beyond a bound.
"""

from __future__ import annotations

import _ast as ast
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from gguftool.facts.machine.expressions import COMPARE, parsed

MOST = 4096
"""Items of a list, and the largest power."""
STEPS = 200_000
LAYOUT = ("full_attention", "sliding_attention")
"""Parts of `rope_parameters` that only newer configurations have."""
Compiled = Callable[["Scope"], Any]


class NotTold(Exception):
    """The configuration does not say what the expression asks for."""


class Scope:
    """Values of one evaluation.

    Args:
        names: values by name.

    Attributes:
        told: no value of its own was taken in place of one that the configuration does not have. The converter may see
            another there: the configuration classes of `transformers` fill it up.
    """

    __slots__ = ("left", "names", "told")

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = dict(names)
        self.left = STEPS
        self.told = True

    def step(self) -> None:
        """Count one operation.

        Raises:
            NotTold: too many.
        """
        self.left -= 1
        if self.left < 0:
            raise NotTold("too long")


def evaluate(text: str, scope: Scope) -> Any:
    """Value of an expression.

    Raises:
        NotTold: it depends on something that the configuration does not say, or says in another form.
    """
    try:
        return _compiled(text)(scope)
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as e:
        raise NotTold(str(e)) from None


@cache
def _compiled(text: str) -> Compiled:
    return _node(parsed(text))


def _node(node: Any) -> Compiled:
    made = _BUILDERS[type(node)](node)

    def run(scope: Scope) -> Any:
        scope.step()
        return made(scope)

    return run


def _constant(node: Any) -> Compiled:
    value = node.value
    return lambda scope: value


def _name(node: Any) -> Compiled:
    name = node.id
    return lambda scope: scope.names[name]


def _subscript(node: Any) -> Compiled:
    base = _node(node.value)
    if isinstance(node.slice, ast.Slice):
        ends = [_node(e) if e is not None else None for e in (node.slice.lower, node.slice.upper)]
        return lambda scope: base(scope)[slice(*(e(scope) if e is not None else None for e in ends))]
    index = _node(node.slice)

    def get(scope: Scope) -> Any:
        value = base(scope)[index(scope)]
        if value is None:
            raise NotTold("null")
        return value

    return get


def _list(node: Any) -> Compiled:
    items = [_node(e) for e in node.elts]
    return lambda scope: [e(scope) for e in items]


def _dict(node: Any) -> Compiled:
    return lambda scope: {}


def _power(a: Any, b: Any) -> Any:
    if abs(b) > 64 or abs(a) > 1e12:
        raise NotTold("a number too large")
    return a**b


def _times(a: Any, b: Any) -> Any:
    for items, count in ((a, b), (b, a)):
        if isinstance(items, Sequence) and (not isinstance(count, int) or len(items) * count > MOST):
            raise NotTold("a list too long")
    return a * b


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: _times,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: _power,
}
_COMPARE = COMPARE | {
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
}


def _binary(node: Any) -> Compiled:
    left, right, op = _node(node.left), _node(node.right), _BINARY[type(node.op)]
    return lambda scope: op(_number(left(scope)), _number(right(scope)))


def _number(value: Any) -> Any:
    if isinstance(value, str) or value is None:
        raise NotTold("no number")
    return value


def _unary(node: Any) -> Compiled:
    operand = _node(node.operand)
    if isinstance(node.op, ast.Not):
        return lambda scope: not operand(scope)
    return lambda scope: -operand(scope)


def _bool(node: Any) -> Compiled:
    parts, ends = [_node(v) for v in node.values], isinstance(node.op, ast.Or)

    def join(scope: Scope) -> Any:
        value: Any = None
        unsure: NotTold | None = None
        for part in parts:
            try:
                value = part(scope)
            except (NotTold, KeyError, IndexError, TypeError) as e:
                unsure = NotTold(str(e))
                continue
            if bool(value) is ends and (unsure is None or not ends):
                return value
        if unsure is not None:
            raise unsure
        return value

    return join


def _compare(node: Any) -> Compiled:
    left, right, op = _node(node.left), _node(node.comparators[0]), _COMPARE[type(node.ops[0])]
    return lambda scope: op(left(scope), right(scope))


def _choice(node: Any) -> Compiled:
    test, yes, no = _node(node.test), _node(node.body), _node(node.orelse)
    return lambda scope: yes(scope) if test(scope) else no(scope)


def _items(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple, range, enumerate)):
        raise NotTold("no list")
    return list(value)


def _comprehension(node: Any) -> Compiled:
    one = node.generators[0]
    target, items, item = one.target, _node(one.iter), _node(node.elt)
    tests = [_node(i) for i in one.ifs]
    names = [n.id for n in ([target] if isinstance(target, ast.Name) else target.elts)]

    def build(scope: Scope) -> list[Any]:
        saved, out = dict(scope.names), []
        for value in _items(items(scope)):
            scope.names.update(zip(names, [value] if isinstance(target, ast.Name) else value, strict=True))
            if all(t(scope) for t in tests):
                out.append(item(scope))
        scope.names = saved
        return out

    return build


def _range(*ends: int) -> list[int]:
    made = range(*ends)
    if len(made) > MOST:
        raise NotTold("a list too long")
    return list(made)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "len": len,
    "min": min,
    "max": max,
    "abs": abs,
    "all": all,
    "any": any,
    "round": round,
    "log": math.log,
    "sqrt": math.sqrt,
    "list": _items,
    "range": _range,
    "enumerate": lambda items: list(enumerate(items)),
}


def _call(node: Any) -> Compiled:
    arguments = [_node(a) for a in node.args]
    if isinstance(node.func, ast.Name):
        return _function(node.func.id, arguments)
    base, name = _node(node.func.value), node.func.attr
    if name == "get":
        default = arguments[1] if len(arguments) > 1 else None

        def get(scope: Scope) -> Any:
            items = base(scope)
            key = arguments[0](scope)
            if key in items.keys():  # noqa: SIM118 (only what has keys)
                return items[key]
            scope.told &= key in LAYOUT
            return default(scope) if default is not None else None

        return get
    if name in ("lower", "strip", "split", "keys"):
        return lambda scope: getattr(base(scope), name)(*(a(scope) for a in arguments))
    raise NotTold(name)


def _function(name: str, arguments: list[Compiled]) -> Compiled:
    if name in ("first", "need"):

        def find(scope: Scope) -> Any:
            config = scope.names["config"]
            for argument in arguments:
                key = argument(scope)
                if key in config:
                    return config[key]
            if name == "need":
                raise NotTold(str(arguments[0](scope)))
            scope.told = False
            return None

        return find
    function = _FUNCTIONS.get(name)
    if function is None:
        raise NotTold(name)
    return lambda scope: function(*(a(scope) for a in arguments))


_BUILDERS: dict[type[ast.expr], Callable[[Any], Compiled]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Subscript: _subscript,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Dict: _dict,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _bool,
    ast.Compare: _compare,
    ast.IfExp: _choice,
    ast.ListComp: _comprehension,
    ast.Call: _call,
}
