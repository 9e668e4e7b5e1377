"""Wishes out of keywords of Python: ``ctx=4096, cache_type="q8_0", vram="16GiB"``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gguftool.errors import UsageError
from gguftool.near import near_names
from gguftool.records import replace
from gguftool.run.options.row import Option
from gguftool.run.options.table import Spelling, by_field, read
from gguftool.run.wishes import Wishes


def wishes(given: Mapping[str, object], base: Wishes | None = None) -> Wishes:
    """The wishes that keywords say; each is the field of one option.

    Args:
        given: values by field. Text is read as on the command line, so are numbers; lists become tuples.
        base: what was wished before; None: nothing.

    Raises:
        UsageError: no such field, or not a value of it; the message names what would be right.
    """
    known = by_field()
    out: dict[str, Any] = {}
    for name, value in given.items():
        if name == "extra":
            out[name] = tuple(str(word) for word in value)  # type: ignore[attr-defined]
            continue
        if name not in known:
            near = near_names(name, known, 3)
            raise UsageError(f"there is no wish {name!r}", f"did you mean {' or '.join(near)}?" if near else None)
        try:
            out[name] = _value(known[name], value)
        except UsageError as error:
            raise UsageError(f"{name}: {error}", error.hint) from None
    return replace(base or Wishes(), **out)


def _value(o: Option, value: object) -> Any:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and o.kind.metavar:
        value = str(value)
    if isinstance(value, str) and o.kind.metavar:
        return read(Spelling(o, True), value)
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        raise UsageError(f"is a switch: True or False, not {value!r}")
    return tuple(value) if isinstance(value, list) else value
