"""Look through the syntax tree of a chat template for what does not belong in one. Nothing is rendered.

Three groups of hits: code (ways out of the sandbox, loading of files), hidden content (invisible characters, text that
depends on what the user wrote or on the day, encoded blobs, addresses) and dialect (tags, filters and functions that
some engine lacks).

This module imports jinja2; import it only when there is a template.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import islice

import jinja2
from jinja2 import nodes

from gguftool.chat.fold import Constants
from gguftool.chat.markers import MARKER
from gguftool.records import dataclass
from gguftool.regex import regex


@dataclass(frozen=True, slots=True)
class Hit:
    """One place in a template.

    Attributes:
        kind: ``code``, ``loads``, ``invisible``, ``padding``, ``url``, ``content``, ``date``, ``blob``, ``phrase``,
            ``lookalike``, ``filter``, ``test`` or ``function``.
        line: line in the template, from 1.
        what: the thing itself, short.
    """

    kind: str
    line: int
    what: str


INSIDES = frozenset(
    "mro gi_frame gi_code gi_yieldfrom cr_frame cr_code ag_frame ag_code f_globals f_locals f_builtins f_back tb_frame "
    "tb_next func_globals func_code func_closure im_func im_self im_class".split()
)
"""Attributes that lead into Python; no value of a conversation has one."""
CALLS = frozenset(
    "popen Popen system exec eval execfile spawn check_output check_call import_module getattr setattr delattr vars "
    "globals locals read_text write_text unsafe_load".split()
)
"""Functions by which templates have run programs; as plain keys (``ns.system``) the names are harmless."""
MODULES = frozenset("os sys subprocess builtins importlib socket shutil pty ctypes pickle marshal posix nt".split())
"""Python modules; a template that uses such a name wants the module."""
HELPERS = frozenset("lipsum get_flashed_messages url_for".split())
"""Globals of jinja2 and of web frameworks that serve as first step to Python's insides."""

_DUNDER = regex(r"__[a-zA-Z]\w*?__")
_ENGINE_FUNCTIONS = frozenset(
    "range dict namespace raise_exception strftime_now cycler joiner caller super loop".split()
)

LLAMA_FILTERS = frozenset(
    "abs append capitalize count d default dictsort first float format get indent int items join keys "
    "last length list lower lstrip map max min pop reject rejectattr replace reverse rsplit rstrip safe "
    "select selectattr slice sort split startswith endswith string strip title tojson trim upper values".split()
)
"""Filters of llama.cpp's own engine (`common/jinja/value.cpp`, b11434)."""
LLAMA_TESTS = frozenset(
    "boolean callable odd even false true divisibleby string integer float number iterable sequence "
    "mapping lower upper none defined undefined eq equalto ge gt greaterthan lt lessthan ne in test "
    "sameas == != < <= > >=".split()
)
"""Tests of llama.cpp's own engine."""


def tags(source: str) -> dict[str, int]:
    """Names of the statements of a template with the line of the first; {} when it cannot be split into tokens."""
    out: dict[str, int] = {}
    try:
        opened = False
        for line, kind, value in jinja2.Environment().lex(source):
            if kind == "block_begin":
                opened = True
            elif kind == "name" and opened:
                out.setdefault(value, line)
                opened = False
    except (jinja2.TemplateSyntaxError, RecursionError):
        pass
    return out


def walk(tree: nodes.Node) -> Iterator[nodes.Node]:
    """All nodes, without recursion, in the order of the source."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(list(node.iter_child_nodes())))


def code(tree: nodes.Node) -> list[Hit]:
    """Ways out of the sandbox, and files it would load."""
    out = []
    assigned, constants = assigned_names(tree), Constants(tree)
    called = {id(n.node) for n in tree.find_all(nodes.Call)}
    for node in walk(tree):
        if isinstance(node, (nodes.Import, nodes.FromImport, nodes.Include, nodes.Extends)):
            out.append(Hit("loads", node.lineno, type(node).__name__.lower().replace("fromimport", "from … import")))
        elif what := _gadget(node, assigned, constants, id(node) in called):
            out.append(Hit("code", node.lineno, what))
    return list(dict.fromkeys(out))


def _gadget(node: nodes.Node, assigned: set[str], constants: Constants, called: bool) -> str:
    """What a node reaches for that no chat template needs, or ""."""
    if isinstance(node, nodes.Getattr):
        return f".{node.attr}" if _forbidden(node.attr, called) or node.attr.startswith("_") else ""
    if isinstance(node, nodes.Getitem):
        name = constants.text(node.arg)
        if name is not None and (_forbidden(name, called) or _DUNDER.search(name)):
            return f"[{name!r}]"
        return ""
    if isinstance(node, nodes.Filter) and node.name == "attr":
        return "|attr"
    if isinstance(node, nodes.Name) and node.ctx == "load" and node.name not in assigned:
        return node.name if node.name in MODULES or node.name in HELPERS or node.name.startswith("__") else ""
    if isinstance(node, (nodes.Const, nodes.Concat, nodes.BinExpr, nodes.Filter, nodes.Call)):
        text = constants.text(node)
        if text is not None and (found := _DUNDER.search(text)) and found[0].lower() in _INTERNALS:
            return repr(found[0])
    return ""


_INTERNALS = frozenset(
    f"__{n}__"
    for n in (
        "class globals builtins init mro subclasses base bases import getattribute getattr getitem code dict module "
        "reduce reduce_ex closure self func wrapped loader spec call new annotations"
        " kwdefaults defaults traceback context"
    ).split()
)


def _forbidden(name: str, called: bool) -> bool:
    return name in INSIDES or (called and name in CALLS) or bool(_DUNDER.fullmatch(name))


def assigned_names(tree: nodes.Node) -> set[str]:
    """Names a template gives a value itself: set, for, macro and its arguments."""
    out = {n.name for n in tree.find_all(nodes.Name) if n.ctx in ("store", "param")}
    return out | {m.name for m in tree.find_all(nodes.Macro)}


def dialect(tree: nodes.Node) -> list[Hit]:
    """Filters, tests and functions by name with their first line; the caller knows which engine lacks which."""
    out: dict[tuple[str, str], Hit] = {}
    assigned = assigned_names(tree)
    for node in walk(tree):
        if isinstance(node, nodes.Filter):
            out.setdefault(("filter", node.name), Hit("filter", node.lineno, node.name))
        elif isinstance(node, nodes.Test):
            out.setdefault(("test", node.name), Hit("test", node.lineno, node.name))
        elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name):
            name = node.node.name
            if name not in assigned and name not in _ENGINE_FUNCTIONS:
                out.setdefault(("function", name), Hit("function", node.lineno, name))
    return list(out.values())


_INVISIBLE = regex(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Runs are only begun where they begin: otherwise one that is too short is looked at from each of its characters.
_PADDING = regex(r"(?<![ \t])[ \t]{200,}|(?<![ \t\n])(?:[ \t]*\n){60,}")
_URL = regex(r"(?:https?|ftp|wss?|file|data)://?[\w.:\[\]-]+[^\s\"'<>{}|\\)]*")
_BLOB = regex(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{160,}={0,2}|(?:[0-9a-fA-F]{2}[ :,]?){80,}")
_PHRASE = regex(
    r"(?:ignore|disregard|forget|override)\s+(?:\w+\s+){0,3}(?:previous|prior|earlier|above|preceding|system)\s+"
    r"(?:\w+\s+)?(?:instruction|prompt|message|rule|direction)s?"
    r"|without\s+(?:telling|informing|alerting)\s+the\s+(?:user|human)",
    re.I,
)


MANY = 100
"""Places of one kind that are reported."""
SHOWN = 200
"""Nodes of one place that are looked at for its description, and characters of a text in it."""


def hidden(source: str, tree: nodes.Node) -> list[Hit]:
    """Content that a reader of the template would not see, or would not expect."""
    out: list[Hit] = []
    for kind, pattern in (
        ("invisible", _INVISIBLE),
        ("padding", _PADDING),
        ("url", _URL),
        ("blob", _BLOB),
        ("phrase", _PHRASE),
    ):
        for found in islice(pattern.finditer(source), MANY):
            out.append(Hit(kind, source.count("\n", 0, found.start()) + 1, _short(kind, found[0])))
    mixed = (m for m in MARKER.finditer(source) if _mixed(m[0]))
    out += [Hit("lookalike", source.count("\n", 0, m.start()) + 1, m[0]) for m in islice(mixed, MANY)]
    out += content_conditions(tree)
    out += date_conditions(tree)
    return list(dict.fromkeys(out))


def _short(kind: str, text: str) -> str:
    if kind == "invisible":
        return f"U+{ord(text):04X} {unicodedata.name(text, 'control character')}"
    if kind == "padding":
        return f"{len(text)} blanks in a row"
    return text if len(text) <= 60 else text[:57] + "..."


def _mixed(text: str) -> bool:
    """Letters of Latin and of a script that looks like it in one marker."""
    scripts = {unicodedata.name(c, "?").split()[0] for c in text if c.isalpha()}
    return "LATIN" in scripts and bool(
        scripts & {"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "FULLWIDTH", "MATHEMATICAL"}
    )


_WORDS = regex(r"[^\W\d_]{4,}")
_RUN = regex(r"(?:[^\W\d_]{1,40}[,;:]?[ \n]{1,20}){4}[^\W\d_]")
_SYNTAX = regex(r"[<>\[\]{}|/\\#`=:*]")


def content_conditions(tree: nodes.Node) -> list[Hit]:
    """Branches that say something of their own depending on words in what was said."""
    constants = Constants(tree)
    out: list[Hit] = []
    # `'blocks' in message.content` asks for the shape of the content when the template also reads `content.blocks`.
    keys = {n.attr for n in tree.find_all(nodes.Getattr)} | {
        constants.text(n.arg) for n in tree.find_all(nodes.Getitem)
    }
    sentences = holding(tree, _sentence)
    for branch in walk(tree):
        if len(out) >= MANY:
            break
        if not isinstance(branch, (nodes.If, nodes.CondExpr)):
            continue
        says: list[nodes.Node] = branch.body if isinstance(branch, nodes.If) else [branch.expr1]
        for text, line in _compared_with_content(branch.test, constants):
            if (
                text not in keys
                and _WORDS.search(text)
                and not _SYNTAX.search(text)
                and any(id(s) in sentences for s in says)
            ):
                out.append(Hit("content", line, repr(text)))
    return out


def _sentence(node: nodes.Node) -> bool:
    """True for a constant with a run of at least five words."""
    text = node.data if isinstance(node, nodes.TemplateData) else getattr(node, "value", None)
    return isinstance(text, str) and bool(_RUN.search(text))


def holding(tree: nodes.Node, wanted: Callable[[nodes.Node], bool]) -> set[int]:
    """Identities of the nodes that are wanted, or hold one that is."""
    out: set[int] = set()
    # The order of `walk`, backwards: what a node holds comes before it.
    for node in reversed(list(walk(tree))):
        if wanted(node) or any(id(child) in out for child in node.iter_child_nodes()):
            out.add(id(node))
    return out


def _compared_with_content(test: nodes.Node, constants: Constants) -> Iterator[tuple[str, int]]:
    for node in walk(test):
        if isinstance(node, nodes.Compare):
            sides = [node.expr, *(o.expr for o in node.ops)]
            if any(_is_content(s) for s in sides):
                yield from ((t, node.lineno) for s in sides if (t := constants.text(s)) is not None)
        elif (
            isinstance(node, nodes.Call)
            and isinstance(node.node, nodes.Getattr)
            and _is_content(node.node.node)
            and node.node.attr in ("startswith", "endswith", "find", "index", "count")
        ):
            yield from ((t, node.lineno) for a in node.args if (t := constants.text(a)) is not None)


def _is_content(node: nodes.Node) -> bool:
    """An expression that reads what somebody said: ``message.content``, ``content|lower``."""
    while isinstance(node, nodes.Filter) and node.node is not None:
        node = node.node
    if isinstance(node, nodes.Call):
        return isinstance(node.node, nodes.Getattr) and _is_content(node.node.node)
    if isinstance(node, nodes.Getattr):
        return node.attr == "content"
    if isinstance(node, nodes.Getitem):
        return isinstance(node.arg, nodes.Const) and node.arg.value in ("content", "text")
    return isinstance(node, nodes.Name) and "content" in str(node.name).lower()


def date_conditions(tree: nodes.Node) -> list[Hit]:
    """Comparisons with the day or the time."""
    now = holding(tree, _now)
    dated = {
        a.target.name for a in tree.find_all(nodes.Assign) if isinstance(a.target, nodes.Name) and id(a.node) in now
    }
    now |= holding(tree, lambda n: isinstance(n, nodes.Name) and n.name in dated)
    out = []
    for node in islice((n for n in tree.find_all(nodes.Compare) if id(n) in now), MANY):
        inside = (n.value for n in islice(walk(node), SHOWN) if isinstance(n, nodes.Const))
        constants = [_quoted(v) for v in inside if not str(v).startswith("%")]
        out.append(Hit("date", node.lineno, ", ".join(constants) or "the current date"))
    return out


def _quoted(value: object) -> str:
    return repr(value[:SHOWN] if isinstance(value, str) else value)


def _now(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name) and node.node.name == "strftime_now"
