"""Arguments of filters, methods and tests of llama.cpp's template engine (`common/jinja/value.cpp`, b11434)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gguftool.chat.engine.values import UNDEFINED, Args, EngineError, Keyword, Undefined, is_array, kind
from gguftool.chat.meter import Meter

Builtin = Callable[[Args, Meter], Any]
"""From arguments, the value itself first, to a value."""


def named(args: Args, name: str, place: int = -1, default: Any = UNDEFINED) -> Any:
    """An argument by name, or by its place among all."""
    for arg in args:
        if isinstance(arg, Keyword) and arg.name == name:
            return arg.value
    if 0 <= place < len(args) and not isinstance(args[place], Keyword):
        return args[place]
    return default


def need(args: Args, *types: type | tuple[type, ...], at_least: int | None = None) -> None:
    """Refuse other numbers and types of arguments."""
    if len(args) < (len(types) if at_least is None else at_least):
        raise EngineError(f"expected at least {len(types)} arguments, got {len(args)}")
    for arg, wanted in zip(args, types, strict=False):
        if not isinstance(arg, wanted) or (wanted is int and isinstance(arg, bool)):
            raise EngineError(f"expected another type of argument than {kind(arg)}")


def lacking(what: str) -> Builtin:
    """What llama.cpp says is not implemented."""

    def fails(args: Args, meter: Meter) -> Any:
        raise EngineError(f"NotImplemented: {what}")

    return fails


def attribute(value: Any, name: Any, default: Any) -> Any:
    """``attribute=`` of filters: a key of an object, a place in a list."""
    if is_array(value):
        if isinstance(name, str) and re.fullmatch(r"[0-9]{1,18}", name):
            name = int(name)
        if not isinstance(name, int):
            return default
        return value[name] if -len(value) <= name < len(value) else default
    if isinstance(value, dict):
        if isinstance(name, (list, dict)):
            raise EngineError("Object key of unhashable type")
        return value.get(name, default) if not isinstance(name, Undefined) else default
    return default


def key(value: Any) -> Any:
    """A value as the key of an object."""
    if not (value is None or isinstance(value, (str, bool, int, float))):
        raise EngineError(f"Type: {kind(value)} is not allowed as object key")
    return value


def pair(args: Args) -> Args:
    """Two texts."""
    need(args, str, str)
    return args
