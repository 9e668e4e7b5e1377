"""Parse and render chat templates the way the engines do, in a sandbox that also limits work and size.

The environment is the one Hugging Face tokenizers use: jinja2 with ``trim_blocks`` and ``lstrip_blocks``, loop
controls, ``{% generation %}``, ``raise_exception``, ``strftime_now`` and a ``tojson`` that leaves text as it is. On top
of jinja2's immutable sandbox stands `gguftool.chat.meter`. Nothing of the file system or of the network can be reached:
there is no loader, and templates that import, include or extend are not rendered.

This module imports jinja2; import it only when there is a template.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import jinja2
import jinja2.tests
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from gguftool.chat.meter import LimitReached, Meter

MAX_SOURCE = 128 << 10
"""Templates beyond this many characters are not rendered; the largest of 71 real ones has 18,096."""
MAX_NODES = 30_000
"""Nodes of the syntax tree; the largest real one has 1,287."""
MAX_DEPTH = 150
"""Levels of the syntax tree; the deepest real one has 29."""
TODAY = datetime(2026, 3, 17, 12, 0, 0)
"""What ``strftime_now`` says: a fixed day, so that the same file always gets the same verdict."""

FILTERS = frozenset(
    "abs batch capitalize center count d default dictsort e escape first float format groupby indent int "
    "items join last length list lower map max min reject rejectattr replace reverse round safe select "
    "selectattr slice sort string sum title tojson trim truncate unique upper wordcount".split()
)
"""Filters of jinja2 that chat templates may use here; the others have no place in one."""
METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        "capitalize casefold center count endswith find format index isalnum isalpha isdecimal isdigit "
        "islower isnumeric isspace istitle isupper join ljust lower lstrip partition removeprefix "
        "removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip "
        "swapcase title upper zfill".split()
    ),
    dict: frozenset("copy get items keys values".split()),
    list: frozenset("copy count index".split()),
    tuple: frozenset("count index".split()),
    int: frozenset(),
    bool: frozenset(),
    float: frozenset({"is_integer"}),
    bytes: frozenset(),
    type(None): frozenset(),
}
"""Attributes that values of plain types have here."""


class TemplateRaised(jinja2.TemplateError):
    """The template itself called ``raise_exception``."""


class _Generation(Extension):
    """``{% generation %}``: marks what an assistant said, for training; emits its body."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise(message: object = "") -> None:
    raise TemplateRaised(str(message))


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Environment(ImmutableSandboxedEnvironment):
    """The environment of one rendering: its meter is its own."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols, _Generation],
            # The optimizer would compute constant filters while compiling, where no meter runs.
            optimized=False,
            cache_size=0,
            finalize=_finalize,
        )
        self.meter = Meter()
        self.used: set[str] = set()
        self.filters = {k: _metered(k, f) for k, f in self.filters.items() if k in FILTERS} | {
            "tojson": _metered("tojson", _tojson)
        }
        self.globals = {k: v for k, v in self.globals.items() if k != "lipsum"}
        self.globals["raise_exception"] = _raise
        self.globals["strftime_now"] = TODAY.strftime

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """jinja2's judgement, and for plain types only what chat templates need."""
        allowed = METHODS.get(type(obj))
        return (allowed is None or attr in allowed) and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Any:
        """``"…".format``: its pattern is looked at before it is called."""
        text = getattr(value, "__self__", None)
        if isinstance(text, str) and getattr(value, "__name__", "") in ("format", "format_map"):
            self.meter.format(text)
        return super().wrap_str_format(value)

    def metered_tick(self, steps: int, chars: int) -> bool:
        """Pay for one pass through a body."""
        return self.meter.tick(steps, chars)

    def metered_weigh(self, value: Any) -> Any:
        """Pay for a container."""
        return self.meter.weigh(value)

    def metered_reads(self, value: Any) -> Any:
        """Pay for an operand."""
        self.meter.reads(value)
        return value

    def metered_concat(self, *parts: Any) -> Any:
        """The ``~`` operator."""
        texts = [self._text(p) for p in parts]
        return self.meter.weigh("".join(texts))

    def _text(self, value: Any) -> str:
        self.meter.reads(value)
        if type(value).__name__ == "Namespace":
            raise LimitReached("a namespace printed as text")
        return str(value)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Binary operators that can enlarge their operands."""
        self.meter.binary(operator, left, right)
        return self.meter.weigh(super().call_binop(context, operator, left, right))

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Every call of the template: functions, macros, methods."""
        owner = getattr(__obj, "__self__", None)
        if owner is __self:  # a payment put in by `_Instrument`; loop and block variables are jinja2's own business
            return __obj(*args)
        __self.meter.tick()
        if isinstance(owner, str):
            __self.meter.method(getattr(__obj, "__name__", ""), owner, args, kwargs)
        return __self.meter.weigh(super().call(__context, __obj, *args, **kwargs))


@jinja2.pass_context
def _finalize(context: Any, value: Any) -> Any:
    """What ``{{ … }}`` emits is paid before it becomes text."""
    env = context.environment
    text = value if isinstance(value, str) else env._text(value)
    env.meter.tick(1, len(text))
    return text


def _metered(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that pays; it takes the context, so that jinja2 never computes it while compiling."""
    wants = getattr(function, "jinja_pass_arg", None)

    @jinja2.pass_context
    def paid(context: Any, *args: Any, **kwargs: Any) -> Any:
        env = context.environment
        env.used.add(name)
        env.meter.filter(name, args, kwargs)
        first = {"context": context, "eval_context": context.eval_ctx, "environment": env}.get(
            wants.name if wants is not None else ""
        )
        return env.meter.weigh(function(*args, **kwargs) if wants is None else function(first, *args, **kwargs))

    return paid


class _Instrument(NodeTransformer):
    """Puts the payments of `gguftool.chat.meter` into a syntax tree."""

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
            node.node = _reads(node.node)
        return node

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


@dataclass(frozen=True, slots=True)
class Rendered:
    """What came of rendering one conversation.

    Attributes:
        text: the prompt; "" when it failed.
        error: what went wrong, "" when nothing did.
        kind: "", ``raised`` (the template refuses on purpose), ``undefined``, ``limit`` or ``error``.
        filters: names of the filters that were applied.
    """

    text: str
    error: str = ""
    kind: str = ""
    filters: frozenset[str] = frozenset()


class Template:
    """A parsed chat template.

    Attributes:
        source: the text.
        tree: its syntax tree, as parsed.

    Raises:
        jinja2.TemplateSyntaxError: it does not parse.
        LimitReached: too long or nested too deep to be looked at.
    """

    def __init__(self, source: str) -> None:
        if len(source) > MAX_SOURCE:
            raise LimitReached(f"the template has {len(source):,} characters, more than {MAX_SOURCE:,}")
        self.source = source
        self._env = Environment()
        try:
            self.tree = self._env.parse(source)
        except RecursionError:
            raise LimitReached("nested too deep to be parsed") from None
        except ValueError as e:  # a number of more digits than Python reads
            raise jinja2.TemplateSyntaxError(str(e).partition(";")[0], 1) from None
        many, deep = extent(self.tree)
        if many > MAX_NODES:
            raise LimitReached(f"{many:,} nodes of syntax, more than {MAX_NODES:,}")
        if deep > MAX_DEPTH:
            raise LimitReached(f"{deep} levels of nesting, more than {MAX_DEPTH}")
        self._code: Any = None

    def strings(self) -> Iterator[tuple[int, str]]:
        """The string literals as they are written, quotes included, with their lines."""
        for line, kind, text in self._env.lex(self.source):
            if kind == "string":
                yield line, text

    def render(self, variables: Mapping[str, Any]) -> Rendered:
        """Render with these variables; whatever the template does comes back as a `Rendered`."""
        self._env.meter = Meter()
        self._env.used = set()
        try:
            if self._code is None:
                tree = _Instrument().visit(self._env.parse(self.source))
                self._code = self._env.compile(tree)
            template = self._env.template_class.from_code(self._env, self._code, self._env.globals)
            return Rendered("".join(template.generate(**variables)), filters=frozenset(self._env.used))
        except TemplateRaised as e:
            return Rendered("", str(e), "raised")
        except LimitReached as e:
            return Rendered("", str(e), "limit")
        except (RecursionError, MemoryError, OverflowError) as e:
            return Rendered("", f"{type(e).__name__}: {e}", "limit")
        except jinja2.UndefinedError as e:
            return Rendered("", str(e), "undefined")
        except Exception as e:  # a template can raise anything Python can
            return Rendered("", f"{type(e).__name__}: {e}", "error")


def tests() -> frozenset[str]:
    """Names of jinja2's tests."""
    return frozenset(jinja2.tests.TESTS)


def extent(tree: nodes.Node) -> tuple[int, int]:
    """Nodes and levels of a syntax tree, counted without recursion."""
    many, deepest, stack = 0, 0, [(tree, 1)]
    while stack:
        node, level = stack.pop()
        many += 1
        deepest = max(deepest, level)
        stack.extend((child, level + 1) for child in node.iter_child_nodes())
    return many, deepest
