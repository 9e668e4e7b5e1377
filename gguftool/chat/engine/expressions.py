"""Expressions, as llama.cpp's engine evaluates them (`common/jinja/runtime.cpp`, b11434)."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

from jinja2 import nodes

from gguftool.chat.bounds import clock
from gguftool.chat.engine.arguments import Builtin
from gguftool.chat.engine.builtin import ALIASES, BUILTINS, GLOBALS, OF_TEXT
from gguftool.chat.engine.tests import TESTS, is_in
from gguftool.chat.engine.texts import tojson
from gguftool.chat.engine.values import (
    UNDEFINED,
    Args,
    EngineError,
    Function,
    Keyword,
    Undefined,
    by_bytes,
    cut,
    hashable,
    is_array,
    is_int,
    is_number,
    kind,
    same,
    size,
    text,
    truth,
)
from gguftool.chat.meter import Meter

Names = dict[str, Any]


class Expressions:
    """Expressions of one rendering.

    Attributes:
        meter: its limits.
        used: identities of the values that were read; filled only when ``watch`` is set.
        ops: what was done with them: names of filters and tests, ``array_access``, ``object_access``.
    """

    def __init__(self, meter: Meter, now: datetime, *, watch: bool = False) -> None:
        self.meter = meter
        self._watch = watch
        self.used: set[int] = set()
        self.ops: dict[int, set[str]] = {}
        self._now = now

    def _mark(self, value: Any, *ops: str, deep: bool = False) -> None:
        if not self._watch:
            return
        self.used.add(id(value))
        if ops:
            self.ops.setdefault(id(value), set()).update(ops)
        stack, seen = [value] if deep else [], set[int]()
        while stack:
            one = stack.pop()
            self.used.add(id(one))
            if isinstance(one, (list, tuple, dict)) and id(one) not in seen:
                seen.add(id(one))  # parts may be shared, and a list may hold itself
                self.meter.tick(1 + len(one) // 16)
                stack.extend(one.values() if isinstance(one, dict) else one)

    def value(self, node: nodes.Node, names: Names) -> Any:
        """What an expression comes to."""
        self.meter.tick()
        method = _EXPRESSIONS.get(type(node))
        if method is None:
            raise EngineError(f"Unknown expression: {type(node).__name__}")
        return method(self, node, names)

    def _const(self, node: nodes.Const, names: Names) -> Any:
        if is_int(node.value) and not -(1 << 63) <= node.value < 1 << 63:
            raise EngineError("a number out of range")
        return node.value

    def _data(self, node: nodes.TemplateData, names: Names) -> Any:
        return node.data

    def _name_node(self, node: nodes.Name, names: Names) -> Any:
        return self._name(node.name, names)

    def _name(self, name: str, names: Names) -> Any:
        value = names.get(name, UNDEFINED)
        if not isinstance(value, Undefined):
            self._mark(value)
            return value
        if name == "strftime_now":
            return Function(name, lambda args, _: self._time(args))
        if name in GLOBALS:
            return self._function(name, GLOBALS[name])
        if name.startswith("test_is_") and name[8:] in TESTS:
            return self._function(name, TESTS[name[8:]])
        return UNDEFINED

    def _function(self, name: str, builtin: Builtin, *this: Any) -> Function:
        def call(args: Args, _: Names) -> Any:
            self.meter.tick()
            if self._watch and args and (builtin is tojson or (name == "string" and isinstance(args[0], (list, dict)))):
                self._mark(args[0], deep=True)
            try:
                return self._within(builtin(args, self.meter))
            except (IndexError, ValueError, TypeError, AttributeError) as e:
                raise EngineError(f"{name}: {e}") from None

        return Function(name, call, this)

    def _within(self, value: Any) -> Any:
        if is_int(value) and not -(1 << 63) <= value < 1 << 63:
            raise EngineError("a number out of range")
        if isinstance(value, str):
            self.meter.weigh(value)
        return value

    def _time(self, args: Args) -> str:
        if not args or not isinstance(args[0], str):
            raise EngineError("strftime_now needs a format")
        out = self._now.strftime(clock(self.meter, args[0]).replace("\0", ""))
        if not 0 < size(out) < 100:
            raise EngineError("strftime_now: failed to format time")
        return out

    def _list(self, node: nodes.List, names: Names) -> list[Any]:
        return [self.value(item, names) for item in node.items]

    def _tuple(self, node: nodes.Tuple, names: Names) -> tuple[Any, ...]:
        return tuple(self.value(item, names) for item in node.items)

    def _dict(self, node: nodes.Dict, names: Names) -> dict[Any, Any]:
        out = {}
        for pair in node.items:
            key = self.value(pair.key, names)
            if not (key is None or isinstance(key, (str, int, float))):
                raise EngineError(f"Object key of unhashable type: {kind(key)}")
            out[key] = self.value(pair.value, names)
        return out

    def _either(self, node: nodes.CondExpr, names: Names) -> Any:
        if truth(self.value(node.test, names)):
            return self.value(node.expr1, names)
        return UNDEFINED if node.expr2 is None else self.value(node.expr2, names)

    def _and(self, node: nodes.And, names: Names) -> Any:
        left = self.value(node.left, names)
        return self.value(node.right, names) if truth(left) else left

    def _or(self, node: nodes.Or, names: Names) -> Any:
        left = self.value(node.left, names)
        return left if truth(left) else self.value(node.right, names)

    def _not(self, node: nodes.Not, names: Names) -> bool:
        return not truth(self.value(node.node, names))

    def _signed(self, node: nodes.UnaryExpr, names: Names) -> Any:
        value = self.value(node.node, names)
        if not is_number(value):
            raise EngineError("Unary operator requires numeric operand")
        return self._within(-value if isinstance(node, nodes.Neg) else value)

    def _compare(self, node: nodes.Compare, names: Names) -> Any:
        left = self.value(node.expr, names)
        for operand in node.ops:
            left = self.binary(_COMPARISONS[operand.op], left, self.value(operand.expr, names))
        return left

    def _concat(self, node: nodes.Concat, names: Names) -> Any:
        left = self.value(node.nodes[0], names)
        for other in node.nodes[1:]:
            left = self.binary("~", left, self.value(other, names))
        return left

    def _operation(self, node: nodes.BinExpr, names: Names) -> Any:
        if type(node) not in _OPERATORS:
            raise EngineError("Unknown operator")
        return self.binary(_OPERATORS[type(node)], self.value(node.left, names), self.value(node.right, names))

    def binary(self, operator: str, left: Any, right: Any) -> Any:
        """``left operator right``."""
        if operator in ("==", "!="):
            self.meter.reads(left)
            return same(left, right, self.meter) is (operator == "==")
        adds, member = operator in ("+", "~"), operator in ("in", "not in")
        empty = (isinstance(left, Undefined) or left is None, isinstance(right, Undefined) or right is None)
        if isinstance(right, Undefined) and member:
            return operator == "not in"
        if any(empty):
            if left is None and right is not None and not isinstance(right, Undefined) and member:
                return is_in([left, right], self.meter) is (operator == "in")
            if adds and isinstance(right if empty[0] else left, str):
                return right if empty[0] else left
            raise EngineError(f"Cannot perform operation {operator} on undefined or null values")
        if is_number(left) and is_number(right) and (out := _arithmetic(operator, left, right)) is not None:
            return self._within(out)
        if is_array(left) and is_array(right):
            if operator == "+":
                self.meter.room(len(left) + len(right))
                self.meter.tick(1 + (len(left) + len(right)) // 16)
                return [*left, *right]
        elif is_array(right) and member:
            return is_in([left, right], self.meter) is (operator == "in")
        if adds and (isinstance(left, str) or isinstance(right, str)):
            return self._joined(left, right)
        if operator == "*" and {type(left), type(right)} == {str, int}:
            word, times = (left, right) if isinstance(left, str) else (right, left)
            self.meter.times(word, times)
            return self._within(word * times)
        if member and ((isinstance(left, str) and isinstance(right, str)) or isinstance(right, dict)):
            return is_in([left, right], self.meter) is (operator == "in")
        raise EngineError(f'Unknown operator "{operator}" between {kind(left)} and {kind(right)}')

    def _joined(self, left: Any, right: Any) -> str:
        a, b = text(left, self.meter), text(right, self.meter)
        self.meter.room(len(a) + len(b))
        return self._within(a + b)  # type: ignore[no-any-return]

    def _filter(self, node: nodes.Filter, names: Names) -> Any:
        if node.node is None:
            raise EngineError("Invalid filter expression")
        return self._filtered(node, self.value(node.node, names), names)

    def _filtered(self, node: nodes.Filter, value: Any, names: Names) -> Any:
        name = ALIASES.get(node.name, node.name)
        bare = not (node.args or node.kwargs or node.dyn_args)
        if bare and name in OF_TEXT and not isinstance(value, (str, Undefined)):
            value = text(value, self.meter)
        args = self._arguments(node, names)
        function = self._builtin(name, value)
        if function is None:
            raise EngineError(f"Unknown (built-in) filter '{name}' for type {kind(value)}")
        return self._invoke(function, args, names)

    def _builtin(self, name: str, value: Any) -> Function | None:
        if isinstance(value, Function):
            raise EngineError("Function has no builtins")
        self._mark(value, name)
        builtin = BUILTINS[type(value)].get(name)
        return None if builtin is None else self._function(name, builtin, value)

    def _test(self, node: nodes.Test, names: Names) -> bool:
        value = self.value(node.node, names)
        args = [value, *self._arguments(node, names)]
        test = TESTS.get(node.name)
        if test is None:
            raise EngineError(f"Unknown test '{node.name}'")
        self._mark(value, f"test_is_{node.name}")
        return bool(self._function(node.name, test).call(args, names))

    def _arguments(self, node: nodes.Call | nodes.Filter | nodes.Test, names: Names) -> Args:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise EngineError("spread arguments are not evaluated")
        args = [self.value(arg, names) for arg in node.args]
        return args + [Keyword(str(pair.key), self.value(pair.value, names)) for pair in node.kwargs]

    def _call(self, node: nodes.Call, names: Names) -> Any:
        args = self._arguments(node, names)
        function = self.value(node.node, names)
        if not isinstance(function, Function):
            raise EngineError(f"Callee is not a function: got {kind(function)}")
        return self._invoke(function, args, names)

    def _invoke(self, function: Function, args: Args, names: Names) -> Any:
        return function.call([*function.this, *args], names)

    def _attribute(self, node: nodes.Getattr, names: Names) -> Any:
        value = self.value(node.node, names)
        method = self._builtin(node.attr, value)
        return method if method is not None else self._member(value, node.attr)

    def _item(self, node: nodes.Getitem, names: Names) -> Any:
        value = self.value(node.node, names)
        if isinstance(node.arg, nodes.Slice):
            return self._sliced(value, node.arg, names)
        return self._member(value, self.value(node.arg, names))

    def _sliced(self, value: Any, node: nodes.Slice, names: Names) -> Any:
        length = len(value) if is_array(value) else size(value) if isinstance(value, str) else 0
        step = 1 if node.step is None else self.value(node.step, names)
        back = isinstance(step, int) and step < 0
        start = (length - 1 if back else 0) if node.start is None else self.value(node.start, names)
        stop = (-1 if back else length) if node.stop is None else self.value(node.stop, names)
        self._mark(value, "slice")
        if not (is_array(value) or isinstance(value, str)) or not all(is_int(v) for v in (start, stop, step)):
            raise EngineError(f"Unknown (built-in) filter 'slice' for type {kind(value)}")
        self.meter.reads(value)
        return self._within(cut(value, start, stop, step))

    def _member(self, value: Any, key: Any) -> Any:
        out: Any = UNDEFINED
        if isinstance(key, Undefined) or isinstance(value, Undefined):
            return out
        if is_array(key) and hashable(key) and not isinstance(value, dict):
            return out
        if not (key is None or isinstance(key, (str, int, float))):
            raise EngineError(f"Type: {kind(key)} is not allowed as object key")
        if isinstance(value, dict):
            out = value.get(key, UNDEFINED)
            if isinstance(out, Undefined):
                out = self._builtin(text(key, self.meter), value) or UNDEFINED
        elif is_array(value) or isinstance(value, str):
            if isinstance(key, int):
                self.meter.reads(value)
                out = _at(value, int(key))
            elif isinstance(key, str):
                out = self._builtin(key, value) or UNDEFINED
        elif not isinstance(key, str):
            raise EngineError(f"Cannot access property with non-string: got {kind(key)}")
        else:
            out = self._builtin(key, value) or UNDEFINED
        self._mark(out)
        self._mark(value, "array_access" if isinstance(key, int) and not isinstance(value, dict) else "object_access")
        return out


def _at(value: Any, place: int) -> Any:
    if isinstance(value, str):
        return by_bytes(value, lambda b: b[place : place + 1]) if 0 <= place < size(value) else UNDEFINED
    return value[place] if -len(value) <= place < len(value) else UNDEFINED


def _arithmetic(operator: str, a: Any, b: Any) -> Any:
    """Numbers; None when the operator is not for them."""
    whole = is_int(a) and is_int(b)
    if operator in _SUMS:
        try:
            out = _SUMS[operator](float(a), float(b))
        except (OverflowError, ValueError):
            raise EngineError("a number out of range") from None
        if whole and not math.isfinite(out):
            raise EngineError("a number out of range")
        return int(out) if whole and operator != "/" else out
    return _ORDER[operator](a, b) if operator in _ORDER else None


def _divided(a: float, b: float) -> float:
    return a / b if b else math.nan if not a or math.isnan(a) else math.copysign(math.inf, a)


_SUMS: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divided,
    "%": math.fmod,
}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}
_OPERATORS = {nodes.Add: "+", nodes.Sub: "-", nodes.Mul: "*", nodes.Div: "/", nodes.Mod: "%"}
_COMPARISONS = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "gt": ">",
    "lteq": "<=",
    "gteq": ">=",
    "in": "in",
    "notin": "not in",
}
_EXPRESSIONS: dict[type[nodes.Node], Any] = {
    nodes.Const: Expressions._const,
    nodes.TemplateData: Expressions._data,
    nodes.Name: Expressions._name_node,
    nodes.List: Expressions._list,
    nodes.Tuple: Expressions._tuple,
    nodes.Dict: Expressions._dict,
    nodes.CondExpr: Expressions._either,
    nodes.And: Expressions._and,
    nodes.Or: Expressions._or,
    nodes.Not: Expressions._not,
    nodes.Neg: Expressions._signed,
    nodes.Pos: Expressions._signed,
    nodes.Compare: Expressions._compare,
    nodes.Concat: Expressions._concat,
    **dict.fromkeys(_OPERATORS, Expressions._operation),
    nodes.Filter: Expressions._filter,
    nodes.Test: Expressions._test,
    nodes.Call: Expressions._call,
    nodes.Getattr: Expressions._attribute,
    nodes.Getitem: Expressions._item,
}
"""What llama.cpp's engine knows; `**` and `//` are not among it."""
