"""Lines that fit a terminal: how wide a text is, and text and tables folded to so many columns.

Nothing is folded but for a terminal (`room`), so that a pipe gets each line whole. Words are never torn: a path, a hash
or a name that is wider than the terminal stays as it is, and a command stays on one line, to be copied.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

from gguftool.regex import regex

_COLOUR = "\x1b\\[[0-9;]*m"
_SGR = regex(_COLOUR)
_COLUMNS: ContextVar[int | None] = ContextVar("columns", default=None)
LEAST = 24
"""A narrower terminal is written to as if it had so many columns."""
READABLE = 100
"""Columns of running text on a terminal that has more, and in a pipe."""
_NARROWEST = 12
"""Columns of a table's text that is wrapped; where it would be narrower, each row becomes lines of its own."""
_NAMES = r"gguftool|hf|pip|ollama|mv|cp|rm|chmod|mkdir|truncate|git|head|tail|llama-[a-z-]+(?=.* -)"
_OFTEN = "█░✓✗…→"
"""What bars and tables of ours are drawn with: one column each, known without the tables of all characters."""
_COMMAND = regex(
    rf"(?:(?<=: )|(?<=; )|(?<=-> )|(?<=\$ )|(?<=  )|^ *)(?:{_COLOUR})*(?:{_NAMES})(?: (?! )[^ ]+)+"
    r"|(?<= )gguftool [a-z-]+(?: (?! )[^ ]+)* --?[a-z](?:(?! {2}).)*|`[^`]*`"
)
_TALL = 3
"""Lines of a row; where more than half are as tall, each row becomes lines of its own, too."""
_WIDE_SPACE = regex(" {2,}")
_WHOLE = regex(r"[ /]|\.gguf")
"""What a word has that is a path or a command."""
_JOIN = "\x00"
"""Stands for a blank that no line is broken at."""


@contextmanager
def room(columns: int | None) -> Iterator[None]:
    """Within the block tables and running text are made for so many columns; None: as for a pipe."""
    token = _COLUMNS.set(None if columns is None else max(columns, LEAST))
    try:
        yield
    finally:
        _COLUMNS.reset(token)


_STANDING: list[Callable[[], None]] = []


def standing(take_away: Callable[[], None]) -> None:
    """A line stands on the terminal that is to be taken away before anything else is written there."""
    _STANDING.append(take_away)


def cleared() -> None:
    """Take away what stands on the terminal."""
    while _STANDING:
        _STANDING.pop()()


def terminal_columns(stream: TextIO) -> int | None:
    """Columns of the terminal that ``stream`` goes to; None where it goes to none."""
    if not stream.isatty():
        return None
    asked = os.environ.get("COLUMNS", "")
    if asked.isascii() and asked.isdecimal() and int(asked):
        return int(asked)
    try:
        # 0 is a terminal that does not know. shutil's way costs 6 ms of imports.
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def columns() -> int | None:
    """Columns there are to write in; None where a line may have any length."""
    return _COLUMNS.get()


def width(text: str) -> int:
    """Columns that ``text`` takes on a terminal: wide characters count two, combining ones and colours none."""
    if text.isascii():
        return len(_SGR.sub("", text)) if "\x1b" in text else len(text)
    try:
        # Of the first 256 characters those that print take one column; "640 × 262144" is asked for each tensor. What
        # was shortened ends in one of the two others that are often there; an arrow stands before what becomes of it.
        text.replace("…", "").replace("→", "").encode("latin-1")
        if text.isprintable():
            return len(text)
    except UnicodeEncodeError:
        pass
    return sum(map(_columns_of, _SGR.sub("", text)))


def _columns_of(char: str) -> int:
    if char.isascii() or char in _OFTEN:
        return 1
    import unicodedata

    # The vowels and final consonants of Hangul are drawn into the consonant before them.
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def paragraph(label: str, text: str, indent: int) -> str:
    """Running text behind a label, folded at `READABLE` columns or what the terminal has.

    Args:
        label: what stands in front of the first line, its indentation included.
        text: one paragraph.
        indent: columns in front of the further lines.
    """
    most = min(columns() or READABLE, READABLE)
    return "\n".join(_laid(label + text, most, indent if indent <= most // 2 else 4))


def fold(text: str, most: int | None = None) -> str:
    """Every line of ``text`` that is too wide, on several.

    Args:
        text: lines, which may hold colours.
        most: columns; what the terminal has when left out, and nothing is done where there is none.
    """
    most = most if most is not None else columns()
    if most is None:
        return text
    out, above = [], False
    for line in text.split("\n"):
        fits = (len(line) <= most and line.isascii()) or width(line) <= most
        if above and line.startswith(" " * (most // 2)):
            # It stood under something that now stands elsewhere.
            out.extend(_folded(" " * 4 + line.lstrip(" "), most))
            continue
        above = not fits
        out.extend([line] if fits else _folded(line, most))
    return "\n".join(out)


def _folded(line: str, most: int) -> list[str]:
    """One line on several; further ones stand under the text behind a label, if there is one."""
    plain = _SGR.sub("", line)
    start = len(plain) - len(plain.lstrip(" "))
    if start > most // 2:
        # It stood under something that now stands elsewhere.
        line, plain, start = " " * 4 + line.lstrip(" "), " " * 4 + plain.lstrip(" "), 4
    gap = _WIDE_SPACE.search(plain, start)
    if gap is not None and _COMMAND.match(plain) and (below := line.partition(gap[0])[2].strip(" ")):
        # What is said about a command stands below it.
        return [line.partition(gap[0])[0], *_laid(" " * 4 + below, most, 4)]
    hang = start + 2
    if gap is not None and width(plain[: gap.end()]) <= most // 3 and not _COMMAND.match(plain):
        hang = width(plain[: gap.end()])
    return _laid(line.rstrip(" "), most, hang)


def _laid(line: str, most: int, hang: int) -> list[str]:
    """Words of a line laid out anew."""
    out, now, used, active = [], "", 0, ""
    for gap, word in _words(line):
        size = width(word)
        if now and used + gap + size > most and _SGR.sub("", now).strip():
            out.append(now.rstrip(" ") + ("\x1b[0m" if active else ""))
            # A command that fits between the margins, but not under the text, stands further to the left.
            at = hang if hang + size <= most else min(hang, 4)
            now, used = " " * at + active, at
        else:
            now, used = now + " " * gap, used + gap
        for piece in _torn(word, most, used, hang):
            if piece is None:
                out.append(now.rstrip(" ") + ("\x1b[0m" if active else ""))
                now, used = " " * hang + active, hang
                continue
            now, used = now + piece, used + width(piece)
            for code in _SGR.findall(piece):
                active = "" if code in ("\x1b[0m", "\x1b[m") else active + code
    return [*out, now]


def _words(line: str) -> Iterator[tuple[int, str]]:
    """Blanks and the word behind them; a command is one word."""
    kept = _COMMAND.sub(_joined, line)
    at = 0
    for found in re.finditer(r"[^ ]+", kept):
        yield found.start() - at, found[0].replace(_JOIN, " ")
        at = found.end()


def _joined(found: re.Match[str]) -> str:
    bare = found[0].lstrip(" ")
    return " " * (len(found[0]) - len(bare)) + bare.replace(" ", _JOIN)


def _torn(word: str, most: int, used: int, hang: int) -> Iterator[str | None]:
    """A word, with None where a line ends inside it: only choices, and text of a wide script, are broken."""
    choices = word.startswith("[") and word.count("|") > 1
    if used + width(word) <= most or (not choices and (word.isascii() or _WHOLE.search(word))):
        yield word
        return
    for char in re.findall(r"[^|]+\|?" if choices else f"{_COLOUR}|.", word):
        size = width(char)
        if size > 1 and used + size > most and used > hang:
            yield None
            used = hang
        used += size
        yield char


# -- tables


def lay_table(
    grid: Sequence[Sequence[str]], titles: Sequence[str], sides: Sequence[str], indent: str, most: int
) -> list[str]:
    """Rows of a table that is too wide: with cells on several lines, or each row as lines of its own.

    Args:
        grid: cells, safe and perhaps coloured.
        titles: headers, painted; none for a table without.
        sides: l or r for each column.
        indent: in front of every line.
        most: columns with the indent.
    """
    lines = ([list(titles)] if titles else []) + [list(row) for row in grid]
    widths = _narrowed(lines, sides, most - len(indent))
    if widths is None:
        return [line for row in grid for line in row_lines(row, titles, indent, most)]
    blocks = [[_laid(cell.strip(" "), size, 0) for cell, size in zip(row, widths, strict=False)] for row in lines]
    heights = [max(map(len, cells), default=0) for cells in blocks]
    if 2 * sum(height >= _TALL for height in heights) > len(heights):
        return [line for row in grid for line in row_lines(row, titles, indent, most)]
    return [
        indent + line_of([cell[i] if i < len(cell) else "" for cell in cells], widths, sides)
        for cells, height in zip(blocks, heights, strict=True)
        for i in range(height)
    ]


def line_of(cells: Sequence[str], widths: Sequence[int], sides: Sequence[str], own: Iterable[int] | None = None) -> str:
    """Cells side by side, two blanks apart; ``own``: the widths of the cells themselves, where they are known."""
    parts = []
    for cell, size, side, taken in zip(cells, widths, sides, own or map(width, cells), strict=False):
        filler = " " * (size - taken)
        parts.append(filler + cell if side == "r" else cell + filler)
    return "  ".join(parts).rstrip(" ")


def _narrowed(lines: Sequence[Sequence[str]], sides: Sequence[str], most: int) -> list[int] | None:
    """Widths with which all cells fit; None where a column would be too narrow to read."""
    widths, least = [], []
    for i in range(len(sides)):
        cells = [row[i].strip(" ") for row in lines if i < len(row)]
        natural = max(map(width, cells), default=0)
        longest = max((width(word) for cell in cells for _, word in _words(cell)), default=0)
        widths.append(natural)
        least.append(min(natural, max(longest, _NARROWEST)))
    if sum(least) + 2 * (len(sides) - 1) > most:
        return None
    while sum(widths) + 2 * (len(sides) - 1) > most:
        i = max((i for i in range(len(sides)) if widths[i] > least[i]), key=lambda i: widths[i])
        widths[i] -= 1
    return widths


def row_lines(row: Sequence[str], titles: Sequence[str], indent: str, most: int) -> Iterator[str]:
    """A row without columns: its first cell, the others with their titles behind it or below."""
    first, *rest = [cell.strip(" ") for cell in row] or [""]
    named = zip(rest, titles[1:] or [""] * len(rest), strict=False)
    told = [f"{title} {cell}" if title else cell for cell, title in named if cell]
    # What belongs together stays so where it can.
    kept = "  ".join(part.replace(" ", _JOIN) if width(part) <= most - len(indent) - 4 else part for part in told)
    line = f"{indent}{first}" + (f"  {kept}" if kept else "")
    yield from (one.replace(_JOIN, " ") for one in _laid(line, most, len(indent) + 4))
