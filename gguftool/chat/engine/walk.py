"""The template, walked as llama.cpp's engine walks it (`common/jinja/runtime.cpp`, b11434).

Every statement gives a text. One that ``break`` or ``continue`` leaves gives nothing; what stands in front of it
in the same round stays. Names are copied into loops and macros, and stay from round to round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import nodes

from gguftool.chat.engine.expressions import Expressions, Names
from gguftool.chat.engine.values import (
    UNDEFINED,
    Args,
    EngineError,
    Function,
    Keyword,
    Plain,
    Undefined,
    is_array,
    kind,
    shown,
    truth,
)


class Break(Exception):
    """``{% break %}``."""


class Continue(Exception):
    """``{% continue %}``."""


class Walk(Expressions):
    """One rendering."""

    def run(self, tree: nodes.Template, variables: Mapping[str, Any]) -> str:
        """The prompt; raises `EngineError` or `LimitReached`."""
        return self._block(tree.body, dict(variables))

    # -- statements

    def _block(self, body: list[nodes.Node], names: Names) -> str:
        out: list[Any] = []
        for node in body:
            out += self._statement(node, names)
        return self._gathered(out)

    def _gathered(self, parts: list[Any]) -> str:
        """Parts become text at the end of their block: a list that was changed meanwhile is written as it is then."""
        return "".join([part if isinstance(part, str) else shown(part, self.meter) for part in parts])

    def _statement(self, node: nodes.Node, names: Names) -> list[Any]:
        self.meter.tick()
        if isinstance(node, nodes.Output):
            return self._output(node, names)
        method = _STATEMENTS.get(type(node))
        if method is None:
            raise EngineError(f"Unknown statement: {type(node).__name__.lower()}")
        out: str = method(self, node, names)
        self.meter.tick(0, len(out))
        return [out]

    def _output(self, node: nodes.Output, names: Names) -> list[Any]:
        parts: list[Any] = []
        for part in node.nodes:
            value = part.data if isinstance(part, nodes.TemplateData) else self.value(part, names)
            parts.append(value if is_array(value) else shown(value, self.meter))
        return parts

    def _if(self, node: nodes.If, names: Names) -> str:
        if truth(self.value(node.test, names)):
            return self._block(node.body, names)
        for other in node.elif_:
            if truth(self.value(other.test, names)):
                return self._block(other.body, names)
        return self._block(node.else_, names)

    def _for(self, node: nodes.For, names: Names) -> str:
        self.meter.tick(1 + len(names) // 16)
        scope = dict(names)
        items = self._items(node, self.value(node.iter, scope), scope)
        out: list[Any] = []
        none = True
        for i, item in enumerate(items):
            self.meter.tick()
            scope["loop"] = _loop(items, i)
            self._bind(node.target, item, scope)
            try:
                for statement in node.body:
                    out += self._statement(statement, scope)
            except Continue:
                continue
            except Break:
                break
            none = False
        if none:
            for statement in node.else_:
                out += self._statement(statement, names)
        return self._gathered(out)

    def _items(self, node: nodes.For, found: Any, scope: Names) -> list[Any]:
        self._mark(found, "array_access")
        if isinstance(found, Undefined):
            found = []
        if isinstance(found, dict):
            self._mark(found, "object_access")
            items: list[Any] = list(found if isinstance(node.target, nodes.Name) else found.items())
        elif is_array(found):
            items = list(found)
        else:
            raise EngineError(f"Expected iterable or object type in for loop: got {kind(found)}")
        self.meter.tick(1 + len(items) // 16)
        if node.test is None:
            return items
        kept = []
        for item in items:
            self.meter.tick()
            inner = dict(scope)
            self._bind(node.target, item, inner)
            if truth(self.value(node.test, inner)):
                kept.append(item)
        return kept

    def _bind(self, target: nodes.Node, value: Any, names: Names) -> None:
        if isinstance(target, nodes.Name):
            names[target.name] = value
        elif isinstance(target, nodes.Tuple):
            if not is_array(value) or len(value) != len(target.items):
                raise EngineError(f"Cannot unpack {kind(value)} into {len(target.items)} names")
            for inner, item in zip(target.items, value, strict=True):
                if not isinstance(inner, nodes.Name):
                    raise EngineError("Cannot unpack to something that is no name")
                names[inner.name] = item
        elif isinstance(target, nodes.NSRef):
            holder = self._name(target.name, names)
            if not isinstance(holder, dict):
                raise EngineError("Cannot assign to member of non-object")
            holder[target.attr] = value
        else:
            raise EngineError("Invalid LHS inside assignment expression")

    def _set(self, node: nodes.Assign, names: Names) -> str:
        self._bind(node.target, self.value(node.node, names), names)
        return ""

    def _set_block(self, node: nodes.AssignBlock, names: Names) -> str:
        if node.filter is not None:
            raise EngineError("Invalid LHS inside assignment expression")
        self._bind(node.target, self._block(node.body, names), names)
        return ""

    def _macro(self, node: nodes.Macro, names: Names) -> str:
        def call(args: Args, around: Names) -> str:
            inner = dict(around)
            self._parameters(node, args, inner, around)
            return self._block(node.body, inner)

        names[node.name] = Function(node.name, call)
        return ""

    def _parameters(self, node: nodes.Macro | nodes.CallBlock, args: Args, inner: Names, around: Names) -> None:
        without = len(node.args) - len(node.defaults)
        for i, parameter in enumerate(node.args):
            if i < len(args):
                value: Any = UNDEFINED
                for arg in args:
                    if isinstance(arg, Keyword) and arg.name == parameter.name:
                        value = arg.value
                        break
                else:
                    value = UNDEFINED if isinstance(args[i], Keyword) else args[i]
                inner[parameter.name] = value
            elif i >= without:
                inner[parameter.name] = self.value(node.defaults[i - without], around)
            else:
                raise EngineError("Not enough arguments provided to a macro")

    def _call_block(self, node: nodes.CallBlock, names: Names) -> str:
        function = self.value(node.call.node, names)
        if not isinstance(function, Function):
            raise EngineError(f"Callee is not a function: got {kind(function)}")
        around = dict(names)

        def caller(args: Args, _: Names) -> str:
            inner = dict(around)
            self._parameters(node, args, inner, around)
            return self._block(node.body, inner)

        args = self._arguments(node.call, names)
        return shown(self._invoke(function, args, {**names, "caller": Function("caller", caller)}), self.meter)

    def _filter_block(self, node: nodes.FilterBlock, names: Names) -> str:
        if not isinstance(node.filter, nodes.Filter) or node.filter.node is not None:
            raise EngineError("Invalid filter expression")
        return shown(self._filtered(node.filter, self._block(node.body, names), names), self.meter)

    def _break(self, node: nodes.Node, names: Names) -> str:
        raise Break

    def _continue(self, node: nodes.Node, names: Names) -> str:
        raise Continue


def _loop(items: list[Any], i: int) -> Plain:
    return Plain(
        index=i + 1,
        index0=i,
        revindex=len(items) - i,
        revindex0=len(items) - i - 1,
        first=i == 0,
        last=i == len(items) - 1,
        length=len(items),
        previtem=items[i - 1] if i else UNDEFINED,
        nextitem=items[i + 1] if i + 1 < len(items) else UNDEFINED,
    )


_STATEMENTS: dict[type[nodes.Node], Any] = {
    nodes.If: Walk._if,
    nodes.For: Walk._for,
    nodes.Assign: Walk._set,
    nodes.AssignBlock: Walk._set_block,
    nodes.Macro: Walk._macro,
    nodes.CallBlock: Walk._call_block,
    nodes.FilterBlock: Walk._filter_block,
    nodes.Break: Walk._break,
    nodes.Continue: Walk._continue,
}
