"""Text for terminals: escaping, numbers, tables and colours.

Names and values in a model file are somebody else's bytes. Everything that comes out of a file and goes to a
terminal passes through `safe`, so that no file can move the cursor, change colours or hide characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gguftool.quantity import human
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.report.lines import columns as room
from gguftool.report.lines import lay_table, line_of
from gguftool.report.lines import width as width

# Besides the control characters: soft hyphen, the Arabic letter mark, Mongolian vowel separator, zero-width and
# bidirectional marks, line and paragraph separators, invisible operators, the byte order mark, interlinear
# annotations, tag characters, and lone surrogates (bytes that were not UTF-8, as os.fsdecode keeps them).
# A run of one of them at a time: a text can be a hundred million zero bytes.
_UNSAFE = regex(
    "([\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f])\\1*"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def safe(text: str) -> str:
    r"""``text`` with everything a terminal might act on, or not show, written as an escape.

    A newline becomes ``\n``, other control characters and bytes that are not UTF-8 ``\xNN``, hidden Unicode
    ``\uNNNN``. Backslashes stay as they are, so calling it twice changes nothing.

    Args:
        text: anything, also with lone surrogates.
    """
    if text.isprintable():
        return text
    return _UNSAFE.sub(lambda match: _escape(match[1]) * len(match[0]), text)


def safe_lines(text: str) -> str:
    """As `safe`, for text of several lines: newlines stay, and tabs."""
    return "\n".join("\t".join(map(safe, line.split("\t"))) for line in text.split("\n"))


def _escape(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


size = human
"""Bytes for people, see `gguftool.quantity.human`."""


def count(number: int) -> str:
    """A whole number with thousands separators: ``262,144``."""
    return f"{number:,}"


def shorten(text: str, limit: int) -> str:
    """``text`` made safe and cut to ``limit`` columns, an ellipsis at its end if something is missing."""
    # What cannot be shown is not looked at: a text may be 100 MB long.
    cut = len(text) > 4 * limit
    text = safe(text[: 4 * limit] if cut else text)
    if not cut and width(text) <= limit:
        return text
    kept, used = [], 0
    for char in text:
        used += width(char)
        if used > limit - 1:
            break
        kept.append(char)
    return "".join(kept) + "…"


class Styled(str):
    """Text that is already safe and may hold colours; only `Style` makes it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Style:
    """Colours, or none. Every method makes its text safe first."""

    enabled: bool = False

    def _paint(self, code: str, text: str) -> Styled:
        clean = text if isinstance(text, Styled) else safe(text)
        return Styled(f"\x1b[{code}m{clean}\x1b[0m" if self.enabled else clean)

    def bold(self, text: str) -> Styled:
        """Bold."""
        return self._paint("1", text)

    def dim(self, text: str) -> Styled:
        """Faint."""
        return self._paint("2", text)

    def red(self, text: str) -> Styled:
        """Red, for errors."""
        return self._paint("31", text)

    def green(self, text: str) -> Styled:
        """Green, for what is well."""
        return self._paint("32", text)

    def yellow(self, text: str) -> Styled:
        """Yellow, for warnings."""
        return self._paint("33", text)

    def cyan(self, text: str) -> Styled:
        """Cyan, for hints and names."""
        return self._paint("36", text)


def table(
    rows: Iterable[Sequence[object]],
    headers: Sequence[str] = (),
    *,
    align: str = "",
    indent: str = "",
    style: Style | None = None,
) -> str:
    """Columns side by side, two blanks apart, without lines.

    Cells are made safe, except `Styled` ones. Numbers stand to the right, all else to the left. Written here
    because importing ``tabulate`` takes longer than importing click; `markdown_table` uses it.

    Args:
        rows: cells of any type; ``None`` is an empty cell, an ``int`` gets thousands separators.
        headers: titles of the columns; none for a table without them.
        align: one letter a column, ``l`` or ``r``; what is left out follows the cells.
        indent: put before every line.
        style: colours for the headers.
    """
    values = [list(row) for row in rows]
    grid = [[_cell(value) for value in row] for row in values]
    paint = style or Style()
    columns = max([len(headers), *(len(row) for row in grid)], default=0)
    sides = [
        align[i] if i < len(align) else "r" if _numeric(row[i] for row in values if i < len(row)) else "l"
        for i in range(columns)
    ]
    titles = [paint.bold(title) for title in headers]
    lines = ([titles] if titles else []) + grid
    taken = [[width(cell) for cell in line] for line in lines]
    widths = [max((sizes[i] for sizes in taken if i < len(sizes)), default=0) for i in range(columns)]
    most = room()
    if most is not None and len(indent) + sum(widths) + 2 * (columns - 1) > most:
        return "\n".join(lay_table(grid, titles, sides, indent, most))
    return "\n".join(indent + line_of(line, widths, sides, sizes) for line, sizes in zip(lines, taken, strict=True))


def _cell(value: object) -> str:
    if isinstance(value, Styled):
        return value
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return count(value)
    return safe(str(value))


def _numeric(values: Iterable[object]) -> bool:
    found = [value for value in values if value is not None]
    return bool(found) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in found)


def markdown_table(rows: Iterable[Sequence[object]], headers: Sequence[str]) -> str:
    """A table for Markdown, its cells made safe and their pipes escaped."""
    from tabulate import tabulate

    grid = [[_cell(value).replace("|", "\\|") for value in row] for row in rows]
    return str(tabulate(grid, headers=list(headers), tablefmt="github", disable_numparse=True))


def bar(fraction: float, columns: int = 20) -> str:
    """A horizontal bar; ``fraction`` is held between 0 and 1, and anything above 0 shows at least one cell."""
    held = min(max(fraction, 0.0), 1.0)
    full = round(held * columns)
    if held > 0 and full == 0:
        full = 1
    return "█" * full + "░" * (columns - full)
