"""What a shell completes in place of a value: rules, keys, cache types, quantisation types.

A completion runs at every press of a key: it reads at most the first `MOST_BYTES` of a file that the line names, never
the network, and offers no name that a shell would act on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, split_arg_string

if TYPE_CHECKING:
    TextParam = click.ParamType[str]
else:
    # Generic only since click 8.4.
    TextParam = click.ParamType

Names = Callable[[click.Context], Iterable[str]]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

MOST_BYTES = 32 << 20
"""More than any vocabulary takes; a longer header is completed as far as this."""
MOST_NAMES = 500
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,200}", re.ASCII)


def offer(names: Names, separators: str = "", *, end: str = "", files: bool = False) -> Completer:
    """A completer of ``names``.

    Args:
        names: what there is to choose from.
        separators: characters after which the next name begins: ``,`` for lists.
        end: what follows a name, such as ``=``.
        files: where no name fits, let the shell complete files.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        start = max((incomplete.rfind(mark) + 1 for mark in separators), default=0)
        before, begun = incomplete[:start], incomplete[start:].lower()
        fitting = (name for name in names(ctx) if name.lower().startswith(begun) and _PLAIN.fullmatch(name))
        chosen = sorted(set(fitting))[:MOST_NAMES] if begun or not files else []
        if files and not chosen:
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(f"{before}{name}{end}") for name in chosen]

    return complete


def _rules(ctx: click.Context) -> Iterable[str]:
    from gguftool.lint.rules import FAMILIES, by_id

    return [*by_id(), *FAMILIES]


def _known_keys(ctx: click.Context) -> Iterable[str]:
    from gguftool.lint.explain import known_keys

    return known_keys()


def _keys_of_file(ctx: click.Context) -> Iterable[str]:
    """Keys of the first local model that the line names, before the cursor or behind it."""
    from gguftool.format.parse import parse_bytes

    for path in _words(ctx):
        if not path or not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES)
        if data[:4] == b"GGUF":
            return [field.key for field in parse_bytes(data, strict=False, name=path).fields]
    return ()


def _words(ctx: click.Context) -> list[str]:
    named = (ctx.params.get(name) for name in ("model", "models"))
    flat = [word for value in named for word in (value if isinstance(value, tuple) else (value,)) if value]
    return [os.path.expanduser(word) for word in (*flat, *split_arg_string(os.environ.get("COMP_WORDS", "")))]


def _groups(ctx: click.Context) -> Iterable[str]:
    from gguftool.edit.copied import GROUPS

    return [*GROUPS, *_keys_of_file(ctx)]


def _any_keys(ctx: click.Context) -> Iterable[str]:
    return [*_keys_of_file(ctx), *_known_keys(ctx)]


def _cache_types(ctx: click.Context) -> Iterable[str]:
    from gguftool.facts.cachetypes import CACHE_TYPES

    return CACHE_TYPES


def _quants(ctx: click.Context) -> Iterable[str]:
    from gguftool.build.ftypes import TARGETS

    return TARGETS


class Word(TextParam):
    """A value taken as it is, whose names a shell can complete.

    Args:
        name: what the help calls it.
        complete: offers the names.
    """

    def __init__(self, name: str, complete: Completer) -> None:
        self.name = name
        self._complete = complete

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that fit."""
        return self._complete(ctx, param, incomplete)


CACHE_TYPES = offer(_cache_types, "/,")
CACHE_TYPE_LIST = Word("K[/V],...", CACHE_TYPES)
RULE = Word("RULE|FAMILY", offer(_rules))
RULES = Word("RULE|FAMILY", offer(_rules, ","))
KEY = Word("KEY", offer(_known_keys))
KEY_OF_FILE = Word("KEY", offer(_keys_of_file))
KEY_GLOB = Word("GLOB", offer(_keys_of_file))
SETTING = Word("KEY[:TYPE]=VALUE", offer(_any_keys, end="="))
FILE_SETTING = Word("KEY[:TYPE]=PATH", offer(_any_keys, end="="))
COPYING = Word("KEY|GROUP,...", offer(_groups, ","))
RENAMING = Word("OLD=NEW", offer(_keys_of_file, end="="))
QUANT = Word("TYPE", offer(_quants))
QUANT_OR_FILE = Word("OUT", offer(_quants, files=True))
QUANT_OF_TENSOR = Word("NAME=TYPE", offer(_quants, "="))
