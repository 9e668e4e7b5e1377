"""Commands inside commands: what stands behind ``bash -c``, ``cmd /c``, ``powershell -Command``, ``Start-Process``."""

from __future__ import annotations

import re
from collections.abc import Callable

from gguftool.records import replace
from gguftool.regex import regex
from gguftool.run.translation.words import Command, Read
from gguftool.shell import Expands

_SHELLS = {
    **dict.fromkeys(("bash", "sh", "zsh", "dash", "ksh", "ash"), regex(r"-[a-z]*c")),
    "cmd": regex(r"/[ck]", re.I),
    **dict.fromkeys(("powershell", "pwsh"), regex(r"-c(?:ommand)?", re.I)),
}
"""Shells, and the word behind which they take a text."""
_QUIET = regex(r"-(?:NoNewWindow|Wait|PassThru|NoProfile|NoLogo|NonInteractive)", re.I)
_TAKES = regex(r"-(?:WindowStyle|WorkingDirectory|Verb|RedirectStandard\w+|ExecutionPolicy|Environment)", re.I)
_OWN = regex(rf"-FilePath|{_QUIET.pattern}|{_TAKES.pattern}", re.I)
DEEPEST = 3


def opened(found: Read, read: Callable[[str], Read], depth: int = DEEPEST) -> Read:
    """The same with the commands that shells are given in place of those shells; another dialect is that of the text.

    Args:
        found: what was read.
        read: reads a text.
        depth: how many shells within shells are opened.
    """
    out = Read(notes=found.notes, dialect=found.dialect)
    for command in found.commands:
        if (started := _started(command)) is not None:
            out.commands.append(started)
            out.notes.append("Start-Process is left out: the program stands for itself")
            continue
        text = _text(command)
        if text is None or not depth:
            out.commands.append(command)
            continue
        inner = opened(read(text), read, depth - 1)
        if not inner.commands:
            out.commands.append(command)
            continue
        out.notes += [f"what {command.words[0]} is given was read as commands", *inner.notes]
        out.commands += [*inner.commands[:-1], replace(inner.commands[-1], then=command.then)]
        if len(found.commands) == 1:
            out.dialect = inner.dialect
    return out


def _text(command: Command) -> str | None:
    """The text that a shell is given to run; None where it is no shell, or sends its output somewhere."""
    words = list(command.words)
    if not words or command.sends or any(isinstance(word, Expands) for word in words):
        return None
    name = re.split(r"[\\/]", words[0])[-1].lower().removesuffix(".exe")
    opens = _SHELLS.get(name)
    if opens is None:
        return None
    rest = words[1:]
    while rest and not opens.fullmatch(rest[0]):
        word = rest.pop(0)
        if _TAKES.fullmatch(word) and rest:
            rest.pop(0)
        elif not _QUIET.fullmatch(word) and not re.fullmatch(r"-[a-z]|-l", word):
            return None
    if len(rest) < 2:
        return None
    return rest[1] if opens is _SHELLS["bash"] else " ".join(rest[1:])


def _started(command: Command) -> Command | None:
    """``Start-Process -FilePath X -ArgumentList …``: the program and its arguments."""
    if not command.words or command.words[0].lower() not in ("start-process", "saps"):
        return None
    program, rest = "", list(command.words[1:])
    listed: list[str] = []
    while rest:
        word = rest.pop(0)
        if word.lower() == "-filepath" and rest:
            program = rest.pop(0)
        elif word.lower() in ("-argumentlist", "-args"):
            while rest and not _OWN.fullmatch(rest[0]):
                listed.append(rest.pop(0))
        elif _TAKES.fullmatch(word):
            rest[:1] = []
        elif not _QUIET.fullmatch(word):
            program, listed = (program or word), [*listed, *([word] if program else [])]
    text = re.sub(r",\s+", ",", " ".join(listed))
    given = [x.strip() for x in text.split(",")] if "," in text else text.split()
    return replace(command, words=(program, *filter(None, given))) if program else None
