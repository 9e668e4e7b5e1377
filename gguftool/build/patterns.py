r"""Patterns for names of tensors, with the meaning they have for llama-quantize.

It makes the pattern lower case and gives it to ``std::regex`` (`quantize.cpp:parse_tensor_type`,
`llama-quant.cpp:quantize_state_impl`, b11434). That is ECMAScript as the C++ library reads it, which Python's is not:
there are no ``(?i)`` and no lookbehind, ``{`` is always a count, ``\D`` has become ``\d``. So a pattern is parsed here
after ``bits/regex_scanner.tcc`` and ``regex_compiler.tcc`` of GCC 12, and written anew for Python; bytes stand for
characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

_CLASSES = {
    "d": "0-9",
    "w": "a-zA-Z0-9_",
    "s": r" \t-\r",
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t-\r",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_ESCAPES = {"0": "\0", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CLASS = "class"
_MOST = 10_000
"""Repetitions; the C++ library gives up at 100,000 states."""


class BadPattern(ValueError):
    """What std::regex does not take."""


def _bytes(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


@lru_cache(256)
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern for `found`; capital letters in it are small ones.

    Raises:
        BadPattern: llama-quantize would not take it.
    """
    reader = _Reader(_bytes(pattern).encode("latin-1").lower().decode("latin-1"))
    made = reader.either()
    if not reader.at_end:
        raise BadPattern(f"{reader.rest[0]!r} has nothing that it belongs to")
    try:
        return re.compile(made, re.ASCII)
    except (re.error, OverflowError, RecursionError) as e:
        raise BadPattern(str(e)) from None


def first(patterns: Iterable[tuple[re.Pattern[str], T]], name: str) -> T | None:
    """What belongs to the first of the compiled patterns that matches somewhere in the name of a tensor."""
    text = _bytes(name)
    return next((what for pattern, what in patterns if pattern.search(text)), None)


class _Reader:
    """A pattern that is read from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.groups = 0
        self.open: list[int] = []

    @property
    def at_end(self) -> bool:
        return self.at >= len(self.text)

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    def take(self, what: str) -> bool:
        """Go past ``what``, if it stands here."""
        if not self.text.startswith(what, self.at):
            return False
        self.at += len(what)
        return True

    def next(self, lacking: str) -> str:
        """The next character."""
        if self.at_end:
            raise BadPattern(lacking)
        self.at += 1
        return self.text[self.at - 1]

    def either(self) -> str:
        """Alternatives."""
        parts = [self.row()]
        while self.take("|"):
            parts.append(self.row())
        return "|".join(parts)

    def row(self) -> str:
        """Terms one behind the other."""
        out = ""
        while (term := self.assertion() or self.repeated()) is not None:
            out += term
        return out

    def assertion(self) -> str | None:
        """What matches no character; it cannot be repeated."""
        for mark, made in (("^", r"\A"), ("$", r"\Z"), (r"\b", r"\b")):
            if self.take(mark):
                return made
        for mark in ("(?=", "(?!"):
            if self.take(mark):
                return f"{mark}{self.group()})"
        return None

    def group(self) -> str:
        """What stands before a closing parenthesis, and that."""
        inside = self.either()
        if not self.take(")"):
            raise BadPattern("a parenthesis is not closed")
        return inside

    def repeated(self) -> str | None:
        """An atom with what says how often."""
        made = self.atom()
        while made is not None and (often := self.often()):
            made = f"(?:{made}){often}"
        return made

    def often(self) -> str:
        """How often; "" where nothing says it."""
        if self.at_end or self.text[self.at] not in "*+?{":
            return ""
        mark = self.next("")
        if mark == "{":
            least = self.number()
            if least is None:
                raise BadPattern("'{' begins a count, as in {2} or {2,}")
            most: int | None = least
            if self.take(","):
                most = self.number()
            if not self.take("}"):
                raise BadPattern("a count {…} holds numbers and one comma only, and ends with '}'")
            if most is not None and most < least:
                raise BadPattern(f"{{{least},{most}}} counts down")
            mark = f"{{{least},{'' if most is None else most}}}"
        return mark + ("?" if self.take("?") else "")

    def number(self) -> int | None:
        """Digits."""
        digits = re.match("[0-9]*", self.rest)
        text = digits[0] if digits else ""
        self.at += len(text)
        if len(text) > 5 or int(text or 0) > _MOST:
            raise BadPattern(f"{text[:12]} repetitions are too many")
        return int(text) if text else None

    def atom(self) -> str | None:
        """One thing to match."""
        if self.at_end or self.text[self.at] in "*+?{|)":
            return None
        c = self.next("")
        if c == ".":
            return r"[^\n\r]"
        if c == "[":
            return self.bracket()
        if c == "(":
            return self.parenthesis()
        if c != "\\":
            return re.escape(c)
        return self.escaped(inside=False)

    def parenthesis(self) -> str:
        """Behind an opening parenthesis that is no lookahead."""
        if self.take("?:"):
            return f"(?:{self.group()})"
        if self.take("?"):
            raise BadPattern("of (?…) there are (?:…), (?=…) and (?!…) only")
        self.groups += 1
        self.open.append(self.groups)
        inside = self.group()
        self.open.pop()
        return f"({inside})"

    def escaped(self, *, inside: bool) -> str:
        r"""Behind a backslash: an escaped character, or ``\d`` and the like as ``\`` and its name."""
        c = self.next(r"a '\' at the end")
        if c in _ESCAPES and (c != "b" or inside):
            return _plain(_ESCAPES[c])
        if c in "dsw":
            return f"[{_CLASSES[c]}]"
        if c == "c":
            return _plain(self.next(r"\c wants a letter"))
        if c in "xu":
            digits = self.text[self.at : self.at + (2 if c == "x" else 4)]
            if not re.fullmatch("[0-9a-f]{2}" if c == "x" else "[0-9a-f]{4}", digits):
                raise BadPattern(f"\\{c} wants {2 if c == 'x' else 4} digits")
            self.at += len(digits)
            return _plain(chr(int(digits, 16) & 0xFF))
        if "1" <= c <= "9":
            return self.again(c, inside)
        return _plain(c)

    def again(self, digit: str, inside: bool) -> str:
        """What a group has matched."""
        more = re.match("[0-9]*", self.rest)
        digits = digit + (more[0] if more else "")
        self.at += len(digits) - 1
        number = int(digits) if len(digits) < 6 else _MOST
        if inside or number > self.groups or number in self.open:
            raise BadPattern(f"\\{digits[:12]}: there is no such group before it")
        return f"(?:\\{number})"

    def bracket(self) -> str:
        """A set of characters, behind its opening bracket."""
        negated = self.take("^")
        # A character may become the begin of a range; behind a class there is none.
        out, last, first = "", "", True
        while not self.take("]"):
            c = self.next("a bracket is not closed")
            if c == "-" and not first:
                out, last = self.dash(out, last)
            else:
                made = self.named() if c == "[" and self.rest[:1] in (":", ".", "=") else ""
                made = made or (self.escaped(inside=True) if c == "\\" else _plain(c))
                out += "" if last == _CLASS else last
                last = made
                if made.startswith("["):
                    out, last = out + made[1:-1], _CLASS
            first = False
        out += "" if last == _CLASS else last
        if not out:
            return r"[\s\S]" if negated else "(?!)"
        return f"[{'^' if negated else ''}{out}]"

    def named(self) -> str:
        """``[:alpha:]``, behind its first bracket."""
        mark = self.next("")
        end = self.text.find(mark, self.at)
        if mark != ":" or not self.text.startswith(":]", end):
            raise BadPattern(f"[{mark}…{mark}] is none that is known here")
        name, self.at = self.text[self.at : end], end + 2
        if name not in _CLASSES:
            raise BadPattern(f"[:{name[:20]}:] is no class of characters")
        return f"[{_CLASSES[name]}]"

    def dash(self, out: str, last: str) -> tuple[str, str]:
        """A dash that is not the first in a bracket."""
        if self.text.startswith("]", self.at):
            return out + ("" if last == _CLASS else last), _plain("-")
        if last == _CLASS:
            raise BadPattern("a range begins with one character")
        if not last:
            return out, _plain("-")
        c = self.next("a bracket is not closed")
        end = self.escaped(inside=True) if c == "\\" else _plain(c)
        if end.startswith("[") or (c == "[" and self.rest[:1] in (":", ".", "=")):
            raise BadPattern("a range ends with one character")
        if _value(end) < _value(last):
            raise BadPattern("a range ends before it begins")
        return f"{out}{last}-{end}", ""


def _plain(c: str) -> str:
    return f"\\x{ord(c):02x}"


def _value(escaped: str) -> int:
    return int(escaped[2:], 16)
