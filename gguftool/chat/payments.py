"""Payments for the meter of `gguftool.chat.meter`, put into the syntax tree of a template before it is compiled.

This module imports jinja2; import it only when there is a template.
"""

from __future__ import annotations

from collections.abc import Iterable

import jinja2
from jinja2 import nodes
from jinja2.visitor import NodeTransformer


class Payments(NodeTransformer):
    """Puts calls of the environment's ``metered_…`` methods into a syntax tree."""

    def _body(self, body: list[nodes.Node], line: int) -> list[nodes.Node]:
        text = sum(len(t.data) for node in body for t in _own_text(node))
        return [nodes.ExprStmt(_call("metered_tick", [nodes.Const(1), nodes.Const(text)], line), lineno=line), *body]

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.body = self._body(node.body, node.lineno)
        if node.test is not None:
            tick = _call("metered_tick", [nodes.Const(1), nodes.Const(0)], node.lineno)
            node.test = nodes.And(tick, node.test, lineno=node.lineno)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        self.generic_visit(node)
        node.body = self._body(node.body, node.lineno)
        return node

    visit_CallBlock = visit_Macro
    visit_Block = visit_Macro

    def visit_Assign(self, node: nodes.Assign) -> nodes.Node:
        self.generic_visit(node)
        if isinstance(node.target, nodes.NSRef):
            node.node = _call("metered_weigh", [nodes.Tuple([node.node], "load")], node.lineno)
            node.node = nodes.Getitem(node.node, nodes.Const(0), "load", lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _call("metered_concat", node.nodes, node.lineno)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        node.expr = _reads(node.expr)
        for operand in node.ops:
            operand.expr = _reads(operand.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _call("metered_cut", [node.node], node.lineno)
        return node

    def visit_ScopedEvalContextModifier(self, node: nodes.ScopedEvalContextModifier) -> nodes.Node:
        raise jinja2.TemplateSyntaxError("escaping for HTML is not rendered", node.lineno)

    def _container(self, node: nodes.Expr) -> nodes.Node:
        self.generic_visit(node)
        if getattr(node, "ctx", "load") != "load":
            return node
        return _call("metered_weigh", [node], node.lineno)

    def visit_List(self, node: nodes.List) -> nodes.Node:
        return self._container(node)

    visit_Dict = visit_List
    visit_Tuple = visit_List


def _reads(node: nodes.Expr) -> nodes.Expr:
    return node if isinstance(node, nodes.Const) else _call("metered_reads", [node], node.lineno)


def _call(name: str, args: Iterable[nodes.Expr], line: int) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(name), list(args), [], None, None, lineno=line)


def _own_text(node: nodes.Node) -> Iterable[nodes.TemplateData]:
    """Template text below a node, without bodies that pay for themselves."""
    if isinstance(node, nodes.TemplateData):
        yield node
    for child in node.iter_child_nodes():
        if not isinstance(child, (nodes.For, nodes.Macro, nodes.CallBlock, nodes.Block)):
            yield from _own_text(child)
