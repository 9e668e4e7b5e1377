"""Whether a prompt depends on words of the user's message: the same conversation, said otherwise.

A template that waits for a word behaves in every standard conversation. The words it can wait for are texts of the
template itself, so each of them is said once by the user; what the prompt holds beside that must stay the same.

This module imports jinja2; import it only when there is a template.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from itertools import groupby

from jinja2 import nodes

from gguftool.chat.fold import Constants
from gguftool.chat.scan import Hit, walk
from gguftool.near import same_beginning
from gguftool.regex import regex

MOST_WORDS = 30
"""Words that are tried; no template has that many for an honest purpose."""
MOST_REFUSED = 6
"""Messages that a template does not take, or never comes to an end with, before the others are left."""
MOST_PAIRS = 100_000
"""Pairs of equal words up to which two prompts are compared in the order of their words; longer ones by counts."""
NEUTRAL = "Hello there, said xuserx."
_TRIGGER = regex(r"[^\W\d_]{2}")
_SYNTAX = regex(r"[<>\[\]{}|/\\`]")
_WORD = regex(r"[^\W\d_]+|\d+|[^\w\s]")
_NATURAL = regex(r"[^\W\d_]{2,}")
_DENSE = regex("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
LONGEST = 3
"""Words of a text that is given a name, to be taken for one that messages are looked through for."""
ENOUGH = 2
"""Words in a row that make a text of the template's own; of scripts without blanks twice as many letters."""
_ROLES = frozenset({"role", "type", "name", "tools", "tool_calls"})

Render = Callable[[str], str | None]
"""The prompt when the user says that; None when the template refuses it."""


def triggers(tree: nodes.Node) -> dict[str, int]:
    """Texts of a template that a message may be compared with, and the lines they stand in."""
    constants, out = Constants(tree), dict[str, int]()
    for node in walk(tree):
        for text in _compared(node, constants):
            if 2 <= len(text) <= 100 and _TRIGGER.search(text) and not _SYNTAX.search(text):
                out.setdefault(text, node.lineno)
    return dict(list(out.items())[:MOST_WORDS])


def _compared(node: nodes.Node, constants: Constants) -> Iterator[str]:
    """Constants in comparisons, in tests, in calls of text methods, and in lists that are walked."""
    if isinstance(node, nodes.Compare):
        sides = [node.expr, *(o.expr for o in node.ops)]
        if not any(_is_role(s) for s in sides):
            for side in sides:
                yield from _texts(side, constants)
    elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        for arg in node.args:
            yield from _texts(arg, constants)
    elif isinstance(node, (nodes.Test, nodes.Filter)):
        for arg in node.args or ():
            yield from _texts(arg, constants)
    elif isinstance(node, nodes.Dict):
        for pair in node.items:
            yield from _texts(pair.key, constants)
    elif isinstance(node, nodes.For):
        yield from _texts(node.iter, constants)
    elif isinstance(node, nodes.Assign):
        yield from _texts(node.node, constants, short=True)


def _texts(node: nodes.Node, constants: Constants, *, short: bool = False) -> Iterator[str]:
    parts = node.items if isinstance(node, (nodes.List, nodes.Tuple)) else [node]
    if isinstance(node, nodes.Dict):
        parts = [side for pair in node.items for side in (pair.key, pair.value)]
    for part in parts:
        text = constants.text(part)
        if text is not None and (not short or len(text.split()) <= LONGEST):
            yield text


def _is_role(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Getattr):
        return node.attr in _ROLES
    return isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and node.arg.value in _ROLES


def content_dependence(tree: nodes.Node, renders: list[Render]) -> list[Hit]:
    """Words that change what the template itself says.

    Args:
        tree: the template.
        renders: conversations with a place for what the user says.
    """
    words = triggers(tree)
    if not words:
        return []
    out: list[Hit] = []
    refused = 0
    # One by one for words that a message must be or begin with, all at once for those that must come together.
    tries: list[tuple[str, tuple[str, ...]]] = [(word, (word,)) for word in words]
    if len(words) > 1:
        tries += [(text, tuple(words)) for text in (" ".join(words), " ".join(words).lower(), ", ".join(words))]
    for render in renders:
        plain = render(NEUTRAL)
        for text, said in tries if plain is not None else ():
            for message in (text, f"{text} {NEUTRAL}"):
                prompt = render(message)
                refused += prompt is None
                change = None if prompt is None or plain is None else _change(plain, prompt, message)
                if change is None:
                    continue
                what = repr(said[0]) if len(said) == 1 else f"several words together: {change}"
                if (len(said) == 1 or not out) and all(hit.what != what for hit in out):
                    out.append(Hit("content", words[said[0]], what))
                break
            if refused > MOST_REFUSED:
                return out
    return out


def _change(base: str, other: str, said: str) -> str | None:
    """A text that is in one of two prompts only; None when there is none worth the name."""
    if base == other:
        return None
    a, b = _WORD.findall(base), _WORD.findall(other)
    start = same_beginning(a, b)
    a, b = a[start:], b[start:]
    same = same_beginning(a[::-1], b[::-1])
    a, b = a[: len(a) - same], b[: len(b) - same]
    spoken = set(_NATURAL.findall(f"{said} {NEUTRAL}"))
    for run in _apart(a, b):
        natural = [w for w in run if _NATURAL.fullmatch(w) and w not in spoken]
        if len(natural) >= ENOUGH or sum(len(_DENSE.findall(w)) for w in natural) >= 2 * ENOUGH:
            return " ".join(run)[:60]
    return None


def _apart(a: list[str], b: list[str]) -> Iterator[list[str]]:
    """Runs of words that only one of two texts has."""
    in_a, in_b = Counter(a), Counter(b)
    # What the comparison costs for every block that both have: pairs of places with the same word.
    if sum(n * in_b[word] for word, n in in_a.items()) <= MOST_PAIRS and len(a) + len(b) <= MOST_PAIRS // 20:
        for kind, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
            if kind != "equal":
                yield from (a[i1:i2], b[j1:j2])
        return
    for words, here, there in ((a, in_a, in_b), (b, in_b, in_a)):
        for more, run in groupby(words, lambda w, here=here, there=there: here[w] > there[w]):  # type: ignore[misc]
            if more:
                yield list(run)
