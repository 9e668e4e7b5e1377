"""Limits for rendering a hostile template, counted in work and in characters.

A sandbox keeps a template away from Python's insides, not from the processor and the memory: ``{% for %}`` in
``{% for %}``, ``"x" * 10 ** 9``, lists that hold themselves twice forty times over. No signal, thread or child process
is needed to stop those, when every construct that can repeat work or enlarge a value pays first:

- loop bodies, macro bodies and calls start with a tick that also pays for the template text they emit;
- operators, filters, tests and methods are refused when what they will make of their arguments is too large
  (`gguftool.chat.bounds`), and pay for what they read and for what they made;
- a value is only made a text when its text fits: `Meter.size` bounds ``str``, ``repr`` and JSON of any value;
- lists, tuples and dicts pay for everything they reach, counted as a tree, so that printing, comparing or serialising
  one never costs more than was paid.

What is left between two payments is one operation of Python on at most `Meter.WEIGHT` elements and `Meter.CHARS`
characters. Time is that of the processor in this thread: what the neighbours do changes no verdict.
"""

from __future__ import annotations

import time
from collections.abc import Collection, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any


class LimitReached(Exception):
    """The template wants more than a chat template may: work, output or time."""


class Meter:
    """Counts one rendering.

    Args:
        seconds: of processor time that are left to it; None: `SECONDS`.

    Attributes:
        STEPS: ticks of work; the hungriest of 71 real templates uses 900 for a conversation with a tool call.
        CHARS: characters produced, intermediate ones included; the same templates stay below 26,000.
        TEXT: characters of one text.
        SLACK: how many times as long a bound may be, where it is no exact length; what was made is then measured. The
            text of a value is never shorter than a sixteenth of its bound.
        SECONDS: of the processor, in case the machine is slower than the counts foresee.
        WEIGHT: elements one container may reach.
        WIDTH: largest width, indentation or count that a method or filter may be given.
        EVERY: steps from one look at the clock to the next.
    """

    STEPS = 100_000
    CHARS = 1 << 20
    TEXT = 1 << 16
    SLACK = 16
    SECONDS = 1.0
    WEIGHT = 50_000
    WIDTH = 1_000
    EVERY = 50

    def __init__(self, seconds: float | None = None) -> None:
        self.steps = 0
        self.chars = 0
        self._begun = time.thread_time()
        self._seconds = self.SECONDS if seconds is None else min(seconds, self.SECONDS)
        self._look = 0

    @property
    def spent(self) -> float:
        """Seconds of the processor since it was made."""
        return time.thread_time() - self._begun

    def tick(self, steps: int = 1, chars: int = 0) -> bool:
        """Pay for work and for text about to be emitted; always True, so that it can stand in a condition."""
        self.steps += steps
        self.chars += chars
        if self.steps > self.STEPS:
            raise LimitReached(f"more than {self.STEPS:,} steps")
        if self.chars > self.CHARS:
            raise LimitReached(f"more than {self.CHARS:,} characters")
        if self.steps >= self._look:
            self._look = self.steps + self.EVERY
            if self.spent > self._seconds:
                raise LimitReached(f"more than {self.SECONDS:g} seconds of the processor")
        return True

    def weigh(self, value: Any) -> Any:
        """Pay for a value that was just made and give it back; iterators pay item by item."""
        if isinstance(value, (str, bytes)):
            self.room(len(value))
            self.tick(1, len(value))
        elif (inside := children(value)) is not None:
            self.tick(1 + self._weight(inside) // 8)
        elif isinstance(value, int):
            self.bits(value.bit_length())
            self.tick(1, value.bit_length() // 8)
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

    def _weight(self, inside: Collection[Any]) -> int:
        """Elements reachable from a container, counted as a tree (shared parts count each time)."""
        total, text, stack = 0, 0, [inside]
        while stack:
            some = stack.pop()
            total += len(some)
            if total > self.WEIGHT:
                raise LimitReached(f"a value of more than {self.WEIGHT:,} elements")
            for one in some:
                if isinstance(one, str):
                    text += len(one)
                elif (within := children(one)) is not None:
                    stack.append(within)
                elif type(one).__name__ == "Namespace":
                    raise LimitReached("a namespace inside a container")
            if text > self.CHARS:
                raise LimitReached(f"a value of more than {self.CHARS:,} characters")
        return total + text // 256

    def size(self, value: Any, *, glue: int = 4, indent: int = 0, opened: bool = False) -> int:
        """Most characters of a value as a text, by ``str``, ``repr`` or as JSON; refused when that is too many.

        Args:
            value: anything.
            glue: characters between two elements, or a key and its value.
            indent: characters that a line is indented by, for every level.
            opened: attributes are read, so only values are taken that have none.
        """
        if isinstance(value, str):
            return len(value)
        most, total, seen = self.TEXT * self.SLACK, 0, 0
        stack = [(value, 1)]
        while stack:
            one, level = stack.pop()
            if isinstance(one, str):
                # An astral character is twelve in JSON, a control character four in a representation, six in JSON.
                total += 2 + len(one) * (6 if one.isascii() else 12)
            elif (inside := children(one)) is not None:
                seen += len(inside)
                total += 16 + (len(inside) + 1) * (glue + indent * level)
                if total <= most:
                    stack.extend((item, level + 1) for item in inside)
            else:
                if opened and not isinstance(one, (int, float, type(None))):
                    raise LimitReached(f"attributes of a {type(one).__name__} as text")
                total += _plain(one)
            if total > most:
                raise LimitReached(f"a text of more than {self.TEXT:,} characters")
        self.tick(1 + seen // 8)
        return total

    def listed(self, items: Iterable[Any]) -> list[Any]:
        """What is walked, as a list; paid item by item where its length is not known."""
        if not isinstance(items, (str, list, tuple, dict, range)):
            items = self.weigh(iter(items))
        else:
            self.reads(items)
        return list(items)

    def room(self, chars: int, slack: int = 1) -> None:
        """Refuse a text of so many characters; ``slack`` times as many where that is only a bound."""
        if chars > self.TEXT * slack:
            raise LimitReached(f"a text of more than {self.TEXT:,} characters")

    def bits(self, bits: int) -> None:
        """Refuse a number of so many bits."""
        if bits > 1 << 16:
            raise LimitReached("a number of more than 65,536 bits")

    def width(self, *values: Any) -> None:
        """Refuse a large width or count, and a long indentation or fill character."""
        for value in values:
            if isinstance(value, int) and abs(value) > self.WIDTH:
                raise LimitReached(f"a width or count of more than {self.WIDTH:,}")
            if isinstance(value, str) and len(value) > self.WIDTH:
                raise LimitReached(f"a filling of more than {self.WIDTH:,} characters")

    def product(self, text: str, other: object) -> None:
        """Pay for looking at a text once for every character of another."""
        self.tick(1 + len(text) // 256 + len(text) * (len(other) if isinstance(other, str) else 1) // 4096)

    def ordered(self, items: Collection[Any]) -> None:
        """Pay for putting items in order."""
        self.tick(1 + len(items) * len(items).bit_length() // 2)

    def times(self, many: Any, times: int) -> None:
        """Refuse too long a repetition of a text or a list."""
        self.room(len(many) * max(times, 0))

    def replaced(self, text: str, old: str, new: str, most: object = -1) -> None:
        """Refuse ``text.replace(old, new, most)`` when the result is too long."""
        found = text.count(old)
        if isinstance(most, int) and most >= 0:
            found = min(found, most)
        self.room(len(text) + found * max(len(new) - len(old), 0))

    def joined(self, glue: str, texts: Collection[str]) -> None:
        """Refuse ``glue.join(texts)`` when the result is too long."""
        self.room(len(glue) * max(len(texts) - 1, 0) + sum(map(len, texts)))


def children(value: Any) -> Collection[Any] | None:
    """What a container holds, keys and values alike; None for what is none."""
    if isinstance(value, (list, tuple)):
        return value
    if value is None or isinstance(value, (str, int, float)):
        return None  # most values are of these types, and the questions below are slow
    if isinstance(value, (dict, Mapping)):
        return (*value.keys(), *value.values()) if value else ()
    if isinstance(value, (set, frozenset, KeysView, ValuesView)):
        return value
    if isinstance(value, ItemsView):
        return [part for pair in value for part in pair]
    return None


def _plain(value: Any) -> int:
    """Most characters of what holds nothing."""
    if isinstance(value, int):
        return value.bit_length() // 3 + 5
    if isinstance(value, float) or value is None:
        return 26
    if type(value).__name__ == "Namespace":  # what it holds may change, and hold itself
        raise LimitReached("a namespace as text")
    # A representation: of a macro with its name, which the template chose.
    return 120 + (len(str(value.name)) if type(value).__name__ == "Macro" else 0)
