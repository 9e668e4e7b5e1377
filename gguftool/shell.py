"""Commands as text that a shell reads back: the one place that quotes.

A command is words, never text; `shell` makes the line that is printed, and a shell that reads the line finds exactly
the words that were meant, whatever stands in them. All characters of the line are printable, so that it needs no
further escaping on a terminal.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from enum import Enum

from gguftool.regex import regex


class Mark(Enum):
    """A word that no text of a file can be: the file a command is about, and what a shell does between commands."""

    FILE = "file"
    AND = "&&"
    INTO = ">"
    PIPE = "|"


FILE, AND, INTO, PIPE = Mark

ELLIPSIS = "…"
"""What stands where a person must put a value; no option of gguftool takes it for one."""


class Expands(str):
    """Source of a word that a shell is to expand, out of a command that was given: printed as it stands."""

    __slots__ = ()


class Blank(str):
    """A word whose end is for a person to fill in; `blank` makes it."""

    __slots__ = ()


Word = str | Mark
Words = tuple[Word, ...]

_NAME = regex(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = regex(r"[\w\\/.:=+~-]+")
"""What neither cmd.exe nor PowerShell acts on; a comma makes a list for the latter."""


_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")
"""What `shlex.quote` leaves as it is; most words are made of it, and the module takes half a millisecond."""


def blank(before: str = "") -> Blank:
    """A value that a person must choose, behind ``before``: ``context_length=…``."""
    return Blank(before + ELLIPSIS)


def shell(argv: Sequence[Word], file: str = "", environment: Iterable[str] = ()) -> str:
    """One line for a POSIX shell.

    Args:
        argv: the words; `AND`, `INTO` and `PIPE` are left to the shell.
        file: what `FILE` stands for.
        environment: ``NAME=VALUE`` words that go in front of the command.
    """
    words: list[str] = []
    for entry in environment:
        name, equals, value = entry.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise ValueError(f"not NAME=VALUE: {entry!r}")
        words.append(entry if isinstance(entry, Expands) else f"{name}={quote(value) if value else ''}")
    words += [_word(word, file) for word in argv]
    return " ".join(words)


def gguftool(*words: str) -> str:
    """The line of one of our own commands, for hints: ``gguftool recover 'my model.gguf'``."""
    return shell(("gguftool", *words))


def path_word(path: str | os.PathLike[str]) -> str:
    """A path as a word that is not taken for an option."""
    text = os.fspath(path)
    return f"./{text}" if text.startswith("-") else text


def quote(word: str) -> str:
    r"""One word.

    What a terminal would act on or not show is written as ``"$(printf '\033')"``, which every POSIX shell reads
    (``$'\x1b'`` is not known to dash). Zero bytes, which no argument can hold, are left out.
    """
    word = word.replace("\0", "")
    if word.isprintable():
        return split_word(word)
    # A shell takes the newlines off the end of what a command prints; the third of its own separators is one.
    head = word.rstrip("\n")
    printed = f"$(printf '{_format(head)}')" if head else ""
    return f'"{printed}{"${IFS#??}" * (len(word) - len(head))}"'


def windows(argv: Sequence[str], environment: Iterable[str] = (), *, power: bool = False) -> str:
    """One line for cmd.exe, or for PowerShell.

    Args:
        argv: the words.
        environment: ``NAME=VALUE`` words, set in a command of their own before it.
        power: for PowerShell, where a program in quotes needs ``&``.
    """
    out = []
    for entry in environment:
        name, _, value = entry.partition("=")
        if not _NAME.fullmatch(name):
            raise ValueError(f"not NAME=VALUE: {entry!r}")
        bare = value.strip('"') if isinstance(entry, Expands) else value
        out.append(f"$env:{name} = {windows_quote(bare, always=True)}; " if power else f'set "{name}={bare}" && ')
    line = " ".join(windows_quote(word) for word in argv)
    return "".join(out) + ("& " if power and line.startswith(('"', "'")) else "") + line


def windows_quote(word: str, *, always: bool = False) -> str:
    """One word, in double quotes where cmd.exe or PowerShell would act on it; one that holds them in single quotes."""
    if isinstance(word, Expands):
        return str(word)
    word = "".join(c for c in word if c.isprintable())
    if _PLAIN.fullmatch(word) and not always:
        return word
    return "'" + word.replace("'", "''") + "'" if '"' in word else f'"{word}"'


def split_word(word: str) -> str:
    """One word for a program that takes a line apart as a shell does, but runs nothing: control characters stay."""
    if word and _BARE.issuperset(word):
        return word
    import shlex

    return shlex.quote(word)


def _word(word: Word, file: str) -> str:
    if word is FILE:
        return quote(path_word(file))
    return word.value if isinstance(word, Mark) else str(word) if isinstance(word, Expands) else quote(word)


def _format(text: str) -> str:
    """``text`` as a format of printf inside single quotes; one that begins with a dash would be an option."""
    if text.startswith("-"):
        return r"\055" + _format(text[1:])
    return "".join(_CHARACTERS.get(c) or (c if c.isprintable() else _octal(c)) for c in text)


_CHARACTERS = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\\": r"\\", "'": r"\047", "%": "%%", "!": r"\041"}


def _octal(c: str) -> str:
    errors = "surrogateescape" if "\udc80" <= c <= "\udcff" else "surrogatepass"
    return "".join(f"\\{byte:03o}" for byte in c.encode("utf-8", errors))
