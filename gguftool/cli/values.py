"""The types of option values: sizes, token counts, cache types, models.

Each takes what people write (``16GiB``, ``32k``, ``q8_0/q4_0``) and hands the command a plain value; a usage error
says what to write instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from gguftool.errors import UsageError
from gguftool.quantity import count, size

if TYPE_CHECKING:
    ModelParam = click.ParamType[str]
    SizeParam = click.ParamType[int]
    CacheTypesParam = click.ParamType[tuple[str, str]]
else:
    # Generic only since click 8.4.
    ModelParam = SizeParam = CacheTypesParam = click.ParamType


class ModelType(ModelParam):
    """A model as the user names it; kept as text, opened by the library."""

    name = "model"


MODEL = ModelType()


class PathType(ModelParam):
    """As click's own, which is made where a path is given: for its name click loads a catalogue of translations."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path as it is."""
        return value if os.access(value, os.R_OK) else click.Path().convert(value, param, ctx)


PATH = PathType()


def _told(
    kind: SizeParam,
    read: Callable[[str], int],
    text: str,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> int:
    """What a reader makes of a text; its refusal as click's."""
    try:
        return read(text)
    except UsageError as error:
        kind.fail(str(error), param, ctx)


class CountType(SizeParam):
    """A number of tokens: ``32768``, ``32_768``, ``32,768``, ``32k`` (1024 each, in either case), ``1M``.

    Args:
        least: the smallest number that makes sense.
        most: the largest, if there is one.
    """

    name = "count"

    def __init__(self, least: int = 1, most: int | None = None) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        number = value if isinstance(value, int) else _told(self, count, str(value), param, ctx)
        if number < self.least:
            self.fail(f"{value} is too small; the least is {self.least}.", param, ctx)
        if self.most is not None and number > self.most:
            self.fail(f"{value} is too large; the most is {self.most:,}.", param, ctx)
        return number


COUNT = CountType()


class SizeType(SizeParam):
    """A number of bytes: ``16GiB`` (binary), ``4GB`` (decimal), ``512M``.

    Args:
        bare_base: what a letter alone stands for, 1024 (``G`` is GiB) or 1000 (as llama-gguf-split has it).
        small: take a small number without a unit as bytes; else it is refused, but for 0.
    """

    name = "size"

    def __init__(self, bare_base: int = 1024, *, small: bool = False) -> None:
        self.bare_base = bare_base
        self.small = small

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes, as an int."""
        if isinstance(value, int):
            return value
        return _told(self, lambda text: size(text, self.bare_base, small=self.small), str(value), param, ctx)


SIZE = SizeType()


class SizesType(ModelParam):
    """Memory of each device as `gguftool plan` takes it, kept as text for it; wrong text is refused at once."""

    name = "SIZE[,SIZE…]|auto|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, when it can be read."""
        from gguftool.run.options.kinds import sizes

        try:
            sizes(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)
        return str(value)


SIZES = SizesType()


class CacheTypesType(CacheTypesParam):
    """KV cache types ``K`` or ``K/V``; one name stands for both. Which names exist is the library's business."""

    name = "K[/V]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The pair (type of K, type of V), in lower case."""
        if isinstance(value, tuple):
            return (str(value[0]), str(value[1]))
        parts = [part.strip().lower() for part in str(value).split("/")]
        if len(parts) > 2 or not all(parts):
            self.fail(f"{value!r} is not K or K/V; write for example q8_0 or q8_0/q4_0.", param, ctx)
        return (parts[0], parts[-1])


CACHE_TYPES = CacheTypesType()
