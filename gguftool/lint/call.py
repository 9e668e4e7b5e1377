"""Lint as one call of the library."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from gguftool.hub import opened
from gguftool.lint.rule import Context, Wish
from gguftool.lint.run import Report
from gguftool.lint.run import lint as run
from gguftool.records import replace

if TYPE_CHECKING:
    from gguftool.lint.tokenized import Compared
    from gguftool.model import Model


def lint(
    model: Model | str | os.PathLike[str],
    *,
    context_length: int | None = None,
    cache_type: str | tuple[str, str] | None = None,
    against: str | os.PathLike[str] | None = None,
    policy: str | os.PathLike[str] | None = None,
    data: bool = False,
    tokenized: Callable[[Model], Compared] | None = None,
    beside: Sequence[Model | str | os.PathLike[str]] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    load: bool = True,
    build: int | None = None,
) -> Report:
    """Check one model; the report iterates over its findings, worst first.

    Args:
        model: a path, an address, or a `Model` opened with ``strict=False`` (a strict one raises before lint can tell).
        context_length: context wanted, in tokens.
        cache_type: KV cache types wanted, ``q8_0`` or ``q8_0/q4_0`` or the pair.
        against: Hugging Face folder to compare with.
        policy: policy file, TOML.
        data: read the tensor data too.
        tokenized: compares the tokenizer with the source's: `lambda m: gguftool.compare_tokenizers(m, folder)`.
        beside: files to be used with it, by path, by address or open: a projector, an adapter, a draft model …
        select: rule ids and families to run; all when empty.
        ignore: rule ids and families to leave out.
        load: also predict what llama.cpp does with the file.
        build: number of the build of llama.cpp to judge by; None: the newest that is known.

    Raises:
        MissingFile, Unreadable, NotGguf: the file cannot be opened as GGUF at all.
        UsageError: an unknown rule or cache type, a bad policy.
    """
    from gguftool.facts.cachetypes import parse
    from gguftool.lint.policy import read_policy

    pair = parse(cache_type if isinstance(cache_type, str) else "/".join(cache_type)) if cache_type else None
    folder = None
    if against is not None:
        from gguftool.lint.against import read_folder

        folder = read_folder(against)
    context = Context(
        wish=Wish(context_length, pair),
        against=folder,
        policy=read_policy(policy) if policy is not None else None,
        data=data,
        tokenized=tokenized,
        build=build,
    )
    with ExitStack() as stack:
        sides = tuple(stack.enter_context(opened(side)) for side in beside)
        m = stack.enter_context(opened(model))
        return run(m, replace(context, beside=sides), select=select, ignore=ignore, load=load)
