"""Text as cmd.exe and PowerShell read it, and which shell a text was written for."""

from __future__ import annotations

import re

from gguftool.errors import UsageError
from gguftool.regex import regex
from gguftool.run.translation.inner import opened
from gguftool.run.translation.words import CMD, LONGEST, POSIX, POWERSHELL, Command, Posix, Read
from gguftool.shell import Expands, windows_quote

_DRIVE = regex(r"""(?:^|[\s"'=])(?:[A-Za-z]:\\|\\\\\w|\.{1,2}\\)""", re.M)
_EXE = regex(r"""(?:^|[\s"'\\/&])[\w.-]+\.exe\b["']?(?=\s|$)""", re.M | re.I)
_POWER = regex(r"`[ \t]*\r?\n|\$env:\w+|^[ \t]*&[ \t]+[\"'.]|^PS [^\n>]*>", re.M | re.I)
_CMD = regex(r"\^[ \t]*\r?\n|%\w+%|^[ \t]*(?:set \w+=|rem |::)", re.M | re.I)
_PROMPTS = regex(r"^[ \t]*(?:\$|❯|➜|PS [^\n>]*>|[\w.-]+@[\w.-]+:[^\n$#]*[$#]|>(?=[ \t]+[\w./]))[ \t]+", re.M)
_DRIVE_PROMPT = regex(r"^[ \t]*[A-Za-z]:\\[^\n>]*>[ \t]*", re.M)
_TYPED = str.maketrans({"\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u00a0": " ", "\u200b": None})
_DASHES = regex(r"(?<!\S)[\u2013\u2014\u2212]-?(?=[A-Za-z])")
_FENCE = regex(r"^```[\w+-]*[ \t]*$", re.M)
_PIECE = regex(r"%\w+%|\$env:\w+|\$\w+|\$\([^)]*\)|\$\{[^}]*\}", re.I)
_SETS = regex(r"""\$env:\w+[ \t]*=[ \t]*(?:"[^"\n]*"|'[^'\n]*'|[^\s;]+)""")
_UNIT = regex(r"^[ \t]*(?:ExecStart|ExecStartPre)=[-@:+!]*", re.M)


def read(text: str) -> Read:
    """The commands in a text.

    Raises:
        UsageError: it is too long, or no shell could read it.
    """
    if len(text) > LONGEST:
        raise UsageError(f"the command is longer than {LONGEST} characters")
    clean = _DRIVE_PROMPT.sub("", _PROMPTS.sub("", _FENCE.sub("", text.replace("\r\n", "\n"))))
    typed = _DASHES.sub(lambda m: "--", clean.translate(_TYPED))
    notes = ["quotes and dashes of a word processor were read as those of a shell"] if typed != clean else []
    unit = _UNIT.sub("", typed)
    kind = dialect(unit)
    found = opened(_read(unit, kind), lambda inner: _read(inner, dialect(inner)))
    found.notes[:0] = notes
    return found


def _read(text: str, kind: str) -> Read:
    return Posix(text).read() if kind == POSIX else _Windows(text, kind).read()


def dialect(text: str) -> str:
    """The shell that a text was written for."""
    if _POWER.search(text):
        return POWERSHELL
    if _CMD.search(text) or _DRIVE.search(text) or _EXE.search(text):
        return CMD
    return POSIX


class _Windows:
    def __init__(self, text: str, kind: str) -> None:
        # A backslash that ends a line, with a blank before it, is one of an article for another shell.
        sign = r"[`\\]" if kind == POWERSHELL else r"[\^\\`]"
        self.s = re.sub(rf"(?<=\s){sign}[ \t]*(?:#[^\n]*)?\n", " ", text)
        self.s = re.sub(r"\^\n", "", self.s) if kind == CMD else self.s
        self.s = re.sub(r"\n[ \t]*(?=--?[A-Za-z])", " ", self.s)
        self.kind = kind
        self.at = 0
        self.out = Read(dialect=kind)
        self.words: list[str] = []
        self.sends: list[str] = []

    def read(self) -> Read:
        """Everything."""
        comments = r"^[ \t]*(?:#[^\n]*|rem\b[^\n]*|::[^\n]*|@echo [^\n]*)$"
        self.s = re.sub(comments, "", self.s, flags=re.M | re.I)
        while self.at < len(self.s):
            c = self.s[self.at]
            if m := re.compile(r"[0-9*]?>>?(?:&[0-9])?|<").match(self.s, self.at):
                self.at = m.end()
                self.sends.append(m[0] + ("" if "&" in m[0] else self._target()))
            elif c == "&" and self.kind == POWERSHELL and not self.words and not self.s.startswith("&&", self.at):
                self.at += 1
            elif m := re.compile(r"&&|\|\||[|&\n]" if self.kind == CMD else r"&&|\|\||[|&;\n]").match(self.s, self.at):
                self.at = m.end()
                self._end(m[0])
            elif c.isspace():
                self.at += 1
            elif self.kind == POWERSHELL and not self.words and (m := _SETS.match(self.s, self.at)):
                self.at = m.end()
                self.words.append(Expands(m[0]))
            elif c == "#" and self.kind == POWERSHELL:
                end = self.s.find("\n", self.at)
                self.at = len(self.s) if end < 0 else end
            else:
                self.words.append(self._word())
        self._end("")
        return self.out

    def _target(self) -> str:
        while self.s[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        return windows_quote(self._word())

    def _end(self, then: str) -> None:
        if self.words:
            self.out.commands.append(Command(tuple(self.words), tuple(self.sends), then))
        self.words, self.sends = [], []

    def _word(self) -> str:
        text, expands = "", False
        stops = " \t\n&|<>" + (";" if self.kind == POWERSHELL else "")
        while self.at < len(self.s) and self.s[self.at] not in stops:
            c = self.s[self.at]
            if c == '"' or (c == "'" and (self.kind == POWERSHELL or not text)):
                piece = self._quoted(c)
                expands |= c == '"' and _PIECE.search(piece) is not None
                text += piece
            elif c in ("^" if self.kind == CMD else "`") and self.at + 1 < len(self.s):
                text += self.s[self.at + 1]
                self.at += 2
            elif (m := _PIECE.match(self.s, self.at)) and (m[0][0] == "%") == (self.kind == CMD):
                text, expands, self.at = text + m[0], True, m.end()
            else:
                text += c
                self.at += 1
        if not expands:
            return text
        if not text.isprintable() or '"' in text:
            raise UsageError("the command cannot be read: there are control characters where a shell expands")
        return Expands(f'"{text}"' if re.search(r"\s", text) else text)

    def _quoted(self, sign: str) -> str:
        self.at += 1
        out = ""
        while self.at < len(self.s):
            c = self.s[self.at]
            if (c == "\\" and self.s[self.at + 1 : self.at + 2] == sign == '"' and self._inside()) or (
                self.s.startswith(sign * 2, self.at) and self.kind == POWERSHELL
            ):
                out += sign
                self.at += 2
            elif c == "`" and sign == '"' and self.kind == POWERSHELL:
                out += self.s[self.at + 1 : self.at + 2]
                self.at += 2
            elif c == sign:
                self.at += 1
                return out
            else:
                out += c
                self.at += 1
        raise UsageError("the command cannot be read: no closing quotation", "check its quotes")

    def _inside(self) -> bool:
        r"""Whether a quote behind a backslash is one of the text (``\"a\"``), not the end of a folder (``C:\a\"``)."""
        following = self.s[self.at + 2 : self.at + 3]
        return following not in ("", " ", "\n") or '"' in self.s[self.at + 2 :].split("\n")[0]
