"""Limits for rendering a hostile template, counted in work and in characters.

A sandbox keeps a template away from Python's insides, not from the processor and the memory: ``{% for %}`` in
``{% for %}``, ``"x" * 10 ** 9``, lists that hold themselves twice forty times over. No signal, thread or child process
is needed to stop those, when every construct that can repeat work or enlarge a value pays first:

- loop bodies, macro bodies and calls start with a tick that also pays for the template text they emit;
- ``~``, ``+``, ``*``, ``**``, ``%``, filters and methods pay for what they produce, before they produce it where the
  result can be larger than the operands;
- comparisons, slices, filters and methods pay for the length of what they read;
- lists, tuples and dicts pay for everything they reach, counted as a tree, so that printing, comparing or serialising
  one never costs more than was paid.

What is left between two payments is one operation of Python on texts of at most `Meter.TEXT` characters.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any


class LimitReached(Exception):
    """The template wants more than a chat template may: work, output or time."""


class Meter:
    """Counts one rendering.

    Attributes:
        STEPS: ticks of work; the hungriest of 71 real templates uses 900 for a conversation with a tool call.
        CHARS: characters produced, intermediate ones included; the same templates stay below 26,000.
        TEXT: characters of one text.
        SECONDS: wall clock, in case the machine is slower than the counts foresee.
        WEIGHT: elements one container may reach.
        WIDTH: largest width, indentation or count that a method or filter may be given.
    """

    STEPS = 100_000
    CHARS = 1 << 20
    TEXT = 1 << 16
    SECONDS = 3.0
    WEIGHT = 50_000
    WIDTH = 1_000

    def __init__(self) -> None:
        self.steps = 0
        self.chars = 0
        self._deadline = time.monotonic() + self.SECONDS

    def tick(self, steps: int = 1, chars: int = 0) -> bool:
        """Pay for work and for text about to be emitted; always True, so that it can stand in a condition."""
        self.steps += steps
        self.chars += chars
        if self.steps > self.STEPS:
            raise LimitReached(f"more than {self.STEPS:,} steps")
        if self.chars > self.CHARS:
            raise LimitReached(f"more than {self.CHARS:,} characters")
        if time.monotonic() > self._deadline:
            raise LimitReached(f"more than {self.SECONDS:g} seconds")
        return True

    def weigh(self, value: Any) -> Any:
        """Pay for a value that was just made and give it back; iterators pay item by item."""
        if isinstance(value, (str, bytes)):
            self._room(len(value))
            self.tick(1, len(value))
        elif isinstance(value, (list, tuple, dict, set, frozenset)):
            self.tick(1 + self._weight(value) // 16)
        elif isinstance(value, int):
            if value.bit_length() > 1 << 16:
                raise LimitReached("a number of more than 65,536 bits")
        elif hasattr(value, "__next__") and type(value).__module__ == "builtins":
            return self._watch(value)
        return value

    def reads(self, value: Any) -> None:
        """Pay for an operand that is about to be walked."""
        if isinstance(value, str):
            self.tick(1 + len(value) // 256)
        elif isinstance(value, (list, tuple, dict, range)):
            self.tick(1 + len(value) // 16)

    def _watch(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in items:
            self.tick()
            yield item

    def _weight(self, value: Any) -> int:
        """Elements reachable from a container, counted as a tree (shared parts count each time)."""
        total, stack = 0, [value]
        while stack:
            one = stack.pop()
            if isinstance(one, Mapping):
                children: Any = (*one.keys(), *one.values())
            elif isinstance(one, (list, tuple, set, frozenset)):
                children = one
            else:
                if type(one).__name__ == "Namespace":
                    raise LimitReached("a namespace inside a container")
                if isinstance(one, str):
                    total += len(one) // 256
                continue
            total += len(children)
            if total > self.WEIGHT:
                raise LimitReached(f"a value of more than {self.WEIGHT:,} elements")
            stack.extend(children)
        return total

    # -- operations whose result can be larger than their operands

    def binary(self, operator: str, left: Any, right: Any) -> None:
        """Refuse ``left operator right`` when the result would be too large."""
        if operator == "*":
            for many, times in ((left, right), (right, left)):
                if isinstance(many, (str, list, tuple)) and isinstance(times, int):
                    self._room(len(many) * max(times, 0))
            if isinstance(left, int) and isinstance(right, int):
                self._bits(left.bit_length() + right.bit_length())
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            self._bits(left.bit_length() * max(right, 0))
        elif operator == "%" and isinstance(left, str):
            self.format(left)
        elif operator == "+" and isinstance(left, (str, list, tuple)) and isinstance(right, (str, list, tuple)):
            self._room(len(left) + len(right))

    def method(self, name: str, text: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse a string method that would enlarge its text beyond the limits."""
        self.reads(text)
        if name == "replace" and len(args) >= 2 and isinstance(args[0], str) and isinstance(args[1], str):
            self._room(len(text) + text.count(args[0]) * len(args[1]))
        elif name == "join" and args:
            items = args[0]
            if isinstance(items, (list, tuple)):
                self._room(len(text) * len(items) + sum(len(i) for i in items if isinstance(i, str)))
        elif name in ("center", "ljust", "rjust", "zfill"):
            self._width(*args, *kwargs.values())

    def filter(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse a filter that would enlarge its value beyond the limits."""
        value, rest = (args[0], args[1:]) if args else (None, ())
        self.reads(value)
        if isinstance(value, str):
            if name == "format":
                self.format(value)
            elif name == "replace" and len(rest) >= 2:
                self._room(len(value) + value.count(str(rest[0])) * len(str(rest[1])))
            elif name == "indent":
                self._room(len(value) + value.count("\n") * self.WIDTH)
        elif name == "join":
            glue = rest[0] if rest else kwargs.get("d", "")
            if isinstance(value, (list, tuple, dict, range)):
                self._room(len(str(glue)) * len(value) + sum(len(i) for i in value if isinstance(i, str)))
        elif name == "sum" and isinstance(value, (list, tuple)) and not all(isinstance(i, (int, float)) for i in value):
            raise LimitReached("a sum of other things than numbers")
        if name in ("center", "indent", "tojson", "batch", "slice", "round"):
            self._width(*rest, *kwargs.values())

    def format(self, pattern: str) -> None:
        """Refuse a format string with a width taken from outside or of more than three digits."""
        if _WIDE.search(pattern):
            raise LimitReached("a format string with a very large or computed width")

    def _room(self, chars: int) -> None:
        if chars > self.TEXT:
            raise LimitReached(f"a text of more than {self.TEXT:,} characters")

    def _bits(self, bits: int) -> None:
        if bits > 1 << 16:
            raise LimitReached("a number of more than 65,536 bits")

    def _width(self, *values: Any) -> None:
        for value in values:
            if isinstance(value, int) and abs(value) > self.WIDTH:
                raise LimitReached(f"a width or count of more than {self.WIDTH:,}")
            # A string is an indentation or a fill character.
            if isinstance(value, str) and len(value) > self.WIDTH:
                raise LimitReached(f"a filling of more than {self.WIDTH:,} characters")


_WIDE = re.compile(r"\d{4}|[:!][^{}]*\{|%[-+ #0-9.]*\*")
