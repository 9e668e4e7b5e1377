r"""Text that hides something, in a form that a person can see and change: ``\u202e`` for what no terminal may be given.

Where nothing is hidden a text stands as it is. Otherwise backslashes are doubled, and what `safe` would not show is
written as ``\uNNNN`` (``\xNN`` for a byte that is not UTF-8), and what is read back is to the byte what stood there.
"""

from __future__ import annotations

import re

from gguftool.errors import UsageError
from gguftool.regex import regex
from gguftool.report.text import safe_lines

_NAMED = {"\r": "\\r", "\n": "\\n", "\t": "\\t", "\\": "\\\\"}
_MEANT = {said[1]: char for char, said in _NAMED.items()}
_ESCAPE = regex(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.)|\Z)", re.DOTALL)


def hides(text: str) -> bool:
    """Whether a text has characters that cannot be shown as they are; newlines and tabs can."""
    return safe_lines(text) != text


def escaped(text: str) -> str:
    """A text with what it hides as escapes; newlines and tabs stay."""
    return "".join(_one(char) for char in text)


def _one(char: str) -> str:
    if char in "\n\t" or not (char == "\\" or hides(char)):
        return char
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def unescaped(text: str) -> str:
    r"""The text that `escaped` shows.

    Raises:
        UsageError: a backslash with something else behind it.
    """
    return _ESCAPE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    byte, short, long, word = match.groups()
    if byte is not None:
        # A byte of ASCII is a character; any other one is no UTF-8 by itself, as os.fsdecode keeps it.
        code = int(byte, 16)
        return chr(code if code < 0x80 else 0xDC00 + code)
    if short is not None or long is not None:
        code = int(short or long, 16)
        if code <= 0x10FFFF:
            return chr(code)
    if word in _MEANT:
        return _MEANT[word]
    raise UsageError(f"{match[0]}: no escape; a backslash is written as \\\\")
