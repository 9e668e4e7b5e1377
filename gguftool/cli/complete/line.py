"""A command line that is being typed, read as bash, zsh and fish read words; and words that bash reads back.

Nothing is expanded and nothing is run: ``$(touch x)`` is its ten characters.
"""

from __future__ import annotations

from gguftool.records import dataclass

_SAFE = frozenset("_./:=@%+,-")
"""What no shell acts on inside a word, besides letters and digits."""
_IN_DOUBLE = frozenset('"\\$`')


@dataclass(frozen=True, slots=True)
class Begun:
    """The word at the cursor, up to the cursor.

    Attributes:
        raw: as typed.
        value: what it stands for so far.
        quote: the quote that is open at its end; "" when none is.
        start: where in ``raw`` the text begins that bash takes away for what is offered: behind the open quote, or
            behind the last character at which it begins a new word to complete.
    """

    raw: str = ""
    value: str = ""
    quote: str = ""
    start: int = 0


def words(line: str, breaks: str = "") -> tuple[list[str], Begun]:
    """The whole words of a line, and the one that its end is in.

    Args:
        line: the command line up to the cursor.
        breaks: characters at which bash begins a new word to complete (``COMP_WORDBREAKS``).
    """
    out: list[str] = []
    raw: list[str] = []
    value: list[str] = []
    quote, start, escaped = "", 0, False
    for c in line:
        if c in " \t\n" and not (quote or escaped):
            if raw:
                out.append("".join(value))
            raw, value, start = [], [], 0
            continue
        raw.append(c)
        if escaped:
            escaped = False
            value.append(c if quote != '"' or c in _IN_DOUBLE else f"\\{c}")
        elif c == "\\" and quote != "'":
            escaped = True
        elif c == quote[-1:]:
            quote, start = "", _last_break("".join(raw), breaks)
        elif not quote and c in "'\"":
            ansi = c == "'" and value[-1:] == ["$"] == raw[-2:-1]
            quote, start = c, len(raw)
            if ansi:
                value.pop()
                quote = "$'"
        else:
            value.append(c)
            if not quote and c in breaks:
                start = len(raw)
    if escaped:
        raw.pop()
    return out, Begun("".join(raw), "".join(value), quote, start)


def word(raw: str) -> str:
    """What one word stands for, as far as it was typed."""
    whole, begun = words(raw)
    return " ".join([*whole, begun.value])


def _last_break(raw: str, breaks: str) -> int:
    """Behind the last character of ``breaks`` that stands in no quotes; all quotes of ``raw`` are closed."""
    found, quote, escaped = 0, "", False
    for i, c in enumerate(raw):
        if escaped:
            escaped = False
        elif c == "\\" and quote != "'":
            escaped = True
        elif c == quote:
            quote = ""
        elif not quote and c in "'\"":
            quote = c
        elif not quote and c in breaks:
            found = i + 1
    return found


def continued(begun: Begun, wanted: str) -> str:
    """What bash is to put in place of ``begun`` from its ``start`` on, so that the word is ``wanted``.

    What was typed stays as it was typed, with its variables and quotes, where ``wanted`` only goes on from it.
    """
    if wanted.startswith(begun.value):
        return begun.raw[begun.start :] + _quoted(wanted[len(begun.value) :], begun.quote)
    before = word(begun.raw[: begun.start - len(begun.quote)])
    return _quoted(wanted[len(before) :], begun.quote)


def _quoted(text: str, quote: str) -> str:
    """``text`` as it is typed inside the open ``quote``."""
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote == "$'":
        return "".join(f"\\{c}" if c in "\\'" else c for c in text)
    if quote:
        return "".join('"\\!"' if c == "!" else f"\\{c}" if c in _IN_DOUBLE else c for c in text)
    return "".join(c if c.isalnum() or c in _SAFE else f"\\{c}" for c in text)
