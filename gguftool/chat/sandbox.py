"""Parse and render chat templates the way the engines do, in a sandbox that also limits work and size.

The environment is the one Hugging Face tokenizers use: jinja2 with ``trim_blocks`` and ``lstrip_blocks``, loop
controls, ``{% generation %}``, ``raise_exception``, ``strftime_now`` and a ``tojson`` that leaves text as it is. On top
of jinja2's immutable sandbox stands `gguftool.chat.meter`. Nothing of the file system or of the network can be reached:
there is no loader, and templates that import, include or extend are not rendered.

This module imports jinja2; import it only when there is a template.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, cast

import jinja2
import jinja2.tests
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gguftool.chat import bounds
from gguftool.chat.meter import LimitReached, Meter, children
from gguftool.chat.payments import Payments
from gguftool.chat.syntax import parsed
from gguftool.records import dataclass

MAX_SOURCE = 128 << 10
"""Templates beyond this many characters are not rendered; the largest of 71 real ones has 18,096."""
MAX_NODES = 12_000
"""Nodes of the syntax tree; the largest real one has 1,287."""
MAX_DEPTH = 150
"""Levels of the syntax tree; the deepest real one has 29."""
MAX_ERROR = 2_000
"""Characters that are kept of what a template says when it fails."""
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


Test = Callable[..., bool]
"""One of jinja2's tests."""


class TemplateRaised(jinja2.TemplateError):
    """The template itself called ``raise_exception``."""


class _Generation(Extension):
    """``{% generation %}``: marks what an assistant said, for training; emits its body."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Environment(ImmutableSandboxedEnvironment):
    """The environment of one rendering: its meter is its own."""

    intercepted_binops = frozenset({"+", "-", "*", "**", "%", "/", "//"})
    intercepted_unops = frozenset({"-"})

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
        self.tests |= {k: _tested(self, k, cast("Test", self.tests[k])) for k in bounds.TESTS}
        self.globals = {k: v for k, v in self.globals.items() if k != "lipsum"}
        self.globals["raise_exception"] = self._raise
        self.globals["strftime_now"] = self._time

    def _raise(self, message: object = "") -> None:
        raise TemplateRaised(bounds.text(self.meter, message))

    def _time(self, pattern: object) -> str:
        return TODAY.strftime(bounds.clock(self.meter, pattern))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """jinja2's judgement, and for plain types only what chat templates need."""
        allowed = METHODS.get(str if isinstance(obj, str) else type(obj))
        return (allowed is None or attr in allowed) and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Any:
        """``"…".format``: what it would make is looked at when it is called."""
        made = super().wrap_str_format(value)
        if made is None:
            return None
        pattern, mapped = value.__self__, value.__name__ == "format_map"

        def bounded(*args: Any, **kwargs: Any) -> Any:
            if mapped and len(args) == 1 and not kwargs:
                bounds.braces(self.meter, pattern, (), args[0])
            else:
                bounds.braces(self.meter, pattern, args, kwargs)
            return made(*args, **kwargs)

        return bounded

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

    def metered_cut(self, value: Any) -> Any:
        """Pay for what a slice is taken of."""
        self.meter.reads(value)
        self.meter.tick(0, len(value) // 4 if isinstance(value, str) else 0)
        return value

    def metered_concat(self, *parts: Any) -> Any:
        """The ``~`` operator."""
        texts = [self._text(p) for p in parts]
        self.meter.joined("", texts)
        return self.meter.weigh("".join(texts))

    def _text(self, value: Any) -> str:
        self.meter.reads(value)
        return str(bounds.text(self.meter, value))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Binary operators that can enlarge their operands."""
        bounds.operator(self.meter, operator, left, right)
        return self.meter.weigh(super().call_binop(context, operator, left, right))

    def call_unop(self, context: Any, operator: str, arg: Any) -> Any:
        """Signs: a number of their own."""
        return self.meter.weigh(super().call_unop(context, operator, arg))

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Every call of the template: functions, macros, methods."""
        owner = getattr(__obj, "__self__", None)
        if owner is __self and getattr(__obj, "__name__", "").startswith("metered_"):
            return __obj(*args)  # a payment put in by `Payments`
        __self.meter.tick()
        if owner is not None:
            args = bounds.method(__self.meter, getattr(__obj, "__name__", ""), owner, args, kwargs)
        else:
            # A macro keeps what it does not name as a tuple and an object; other functions keep what they are given.
            known = __obj.arguments if isinstance(__obj, Macro) else ()
            named = (v for k, v in kwargs.items() if k not in ("_loop_vars", "_block_vars", *known))
            for more in (*args[len(known) :], *named):
                if children(more) is not None:
                    __self.meter.weigh(more)
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
    def paid(context: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        env = context.environment
        env.used.add(name)
        meter: Meter = env.meter
        value = bounds.filtered(meter, name, value, args, kwargs)
        if name == "sum" and (attribute := args[0] if args else kwargs.get("attribute")) is not None:
            # The values first: only numbers are added.
            value = list(map(make_attrgetter(env, attribute), value or ()))
            args, kwargs = (None, *args[1:]), {k: v for k, v in kwargs.items() if k != "attribute"}
            value = bounds.filtered(meter, name, value, args, kwargs)
        first = {"context": context, "eval_context": context.eval_ctx, "environment": env}.get(
            wants.name if wants is not None else ""
        )
        made = function(value, *args, **kwargs) if wants is None else function(first, value, *args, **kwargs)
        return map(meter.weigh, made) if name in ("batch", "slice") else meter.weigh(made)

    return paid


def _tested(env: Environment, name: str, function: Test) -> Callable[..., Any]:
    """A test that pays."""

    def paid(*args: Any, **kwargs: Any) -> Any:
        bounds.tested(env.meter, name, args)
        return function(*args, **kwargs)

    return paid


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
            self.tree = parsed(self._env, source)
        except RecursionError:
            raise LimitReached("nested too deep to be parsed") from None
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

    def render(self, variables: Mapping[str, Any], seconds: float | None = None) -> Rendered:
        """Render with these variables; whatever the template does comes back as a `Rendered`.

        Args:
            variables: what it is given.
            seconds: of the processor that it may take; None: `Meter.SECONDS`.
        """
        self._env.meter = Meter(seconds)
        self._env.used = set()
        try:
            if self._code is None:
                tree = Payments().visit(self._env.parse(self.source))
                self._code = self._env.compile(tree)
                self._env.meter = Meter(seconds)
            template = self._env.template_class.from_code(self._env, self._code, self._env.globals)
            return Rendered("".join(template.generate(**variables)), filters=frozenset(self._env.used))
        except TemplateRaised as e:
            return Rendered("", _short(e), "raised")
        except LimitReached as e:
            return Rendered("", str(e), "limit")
        except (RecursionError, MemoryError, OverflowError) as e:
            return Rendered("", _short(f"{type(e).__name__}: {e}"), "limit")
        except jinja2.UndefinedError as e:
            return Rendered("", _short(e), "undefined")
        except Exception as e:  # a template can raise anything Python can
            return Rendered("", _short(f"{type(e).__name__}: {e}"), "error")


def _short(message: object) -> str:
    """What a template says of its own failure, which is no place for a megabyte."""
    text = str(message)
    return text if len(text) <= MAX_ERROR else text[:MAX_ERROR] + "…"


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
