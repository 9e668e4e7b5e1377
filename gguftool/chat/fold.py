"""What expressions of constants amount to: ``'__cl' ~ 'ass__'``, ``'__ssalc__'[::-1]``, ``a ~ b`` with names set once.

Templates that want an attribute nobody sees write its name in pieces. Nothing is evaluated here but a few harmless text
operations on constants; what is not among them stays unknown.

This module imports jinja2; import it only when there is a template.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from jinja2 import nodes

LONGEST = 10_000
"""Characters of a folded text; longer ones count as unknown."""
WIDEST = 1024
"""Bits of a number that is folded: Python writes none of more than 4,300 digits."""
DEEPEST = 100
"""Steps from one expression to the next; what lies deeper counts as unknown."""
_PLAIN = ("lower", "upper", "title", "capitalize", "strip", "lstrip", "rstrip", "swapcase")
_UNCHANGED = ("string", "safe", "trim", "list", "join", "e", "escape", "default", "d")


class Constants:
    """The constant texts of one syntax tree; every node is folded once.

    Args:
        tree: the template.
    """

    def __init__(self, tree: nodes.Node) -> None:
        # By the node itself, which also keeps its identity from being given to another one.
        self._known: dict[int, tuple[nodes.Node, str | None]] = {}
        self._level = 0
        times = Counter(n.name for n in tree.find_all(nodes.Name) if n.ctx in ("store", "param"))
        self._values = {
            a.target.name: a.node
            for a in tree.find_all(nodes.Assign)
            if isinstance(a.target, nodes.Name) and times[a.target.name] == 1
        }

    def text(self, node: nodes.Node | None) -> str | None:
        """The text a node amounts to; None when that is unknown."""
        if node is None:
            return None
        if id(node) not in self._known:
            if self._level > DEEPEST:
                return None
            self._known[id(node)] = (node, None)  # a name that is set by itself ends here
            self._level += 1
            value = self._fold(node)
            self._level -= 1
            self._known[id(node)] = (node, value if value is None or len(value) <= LONGEST else None)
        return self._known[id(node)][1]

    def _fold(self, node: nodes.Node) -> str | None:
        if isinstance(node, nodes.Const):
            short = isinstance(node.value, str) or (isinstance(node.value, int) and node.value.bit_length() <= WIDEST)
            return str(node.value) if short else None
        if isinstance(node, nodes.Name):
            return self.text(self._values.get(node.name))
        if isinstance(node, nodes.Concat):
            return self._joined(node.nodes)
        if isinstance(node, nodes.Add):
            return self._joined([node.left, node.right])
        if isinstance(node, nodes.List):
            return self._joined(node.items)
        if isinstance(node, nodes.Mul):
            return self._repeated(node)
        if isinstance(node, nodes.Mod):
            return self._percent(node.left, node.right.items if isinstance(node.right, nodes.Tuple) else [node.right])
        if isinstance(node, nodes.Getitem):
            return self._sliced(node)
        if isinstance(node, nodes.Filter):
            return self._method(node.name, node.node, node.args)
        if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
            return self._method(node.node.attr, node.node.node, node.args, call=True)
        return None

    def _joined(self, parts: list[Any], glue: str = "") -> str | None:
        texts, length = [], 0
        for part in parts:
            text = self.text(part)
            length += len(text or "") + len(glue)
            if text is None or length > LONGEST + len(glue):
                return None
            texts.append(text)
        return glue.join(texts) if texts else None

    def _repeated(self, node: nodes.Mul) -> str | None:
        for many, times in ((node.left, node.right), (node.right, node.left)):
            if isinstance(times, nodes.Const) and isinstance(times.value, int) and 0 <= times.value <= 100:
                text = self.text(many)
                return text * times.value if text is not None and len(text) * times.value <= LONGEST else None
        return None

    def _percent(self, pattern: nodes.Node | None, args: list[Any]) -> str | None:
        text, values = self.text(pattern), [self.text(a) for a in args]
        return _filled(text, "%s", values)

    def _sliced(self, node: nodes.Getitem) -> str | None:
        text = self.text(node.node)
        if text is None or not isinstance(node.arg, nodes.Slice):
            return None
        bounds = [getattr(b, "value", b) if not isinstance(b, nodes.Neg) else _negative(b) for b in _bounds(node.arg)]
        if not all(b is None or (isinstance(b, int) and b != 0) or b == 0 for b in bounds) or bounds[2] == 0:
            return None
        return text[slice(*bounds)]

    def _method(self, name: str, of: nodes.Node | None, args: list[Any], *, call: bool = False) -> str | None:
        if name == "join" and call and args:  # '-'.join([...]): the text is the glue
            return self._joined(args[0].items, self.text(of) or "") if isinstance(args[0], nodes.List) else None
        if name == "join" and args and isinstance(of, nodes.List):
            return self._joined(of.items, self.text(args[0]) or "")
        text, values = self.text(of), [self.text(a) for a in args]
        if text is None or None in values:
            return None
        if name == "reverse":
            return text[::-1]
        if name == "replace" and len(values) == 2:
            old, new = values[0] or "\0", values[1] or ""
            return text.replace(old, new) if len(text) + text.count(old) * len(new) <= 2 * LONGEST else None
        if name in _PLAIN and not values:
            return str(getattr(text, name)())
        if name == "format":
            return _filled(text, "{}" if call else "%s", values)
        return text if name in _UNCHANGED and not call else None


def _bounds(node: nodes.Slice) -> tuple[Any, Any, Any]:
    return node.start, node.stop, node.step


def _negative(node: nodes.Neg) -> int | None:
    value = getattr(node.node, "value", None)
    return -value if isinstance(value, int) else None


def _filled(text: str | None, mark: str, values: list[str | None]) -> str | None:
    """A text with every mark replaced by the next value; marks in values stay."""
    if text is None or None in values or text.count(mark) != len(values):
        return None
    if len(text) + sum(len(v or "") for v in values) > 2 * LONGEST:
        return None
    first, *rest = text.split(mark)
    return first + "".join(f"{value}{part}" for value, part in zip(values, rest, strict=True))
