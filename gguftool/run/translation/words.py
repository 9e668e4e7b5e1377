"""Text as a POSIX shell reads it: words, what ends a command, what goes where (`windows.py` reads the other two).

Nothing is expanded: a word that a shell would expand is kept as source that expands to the same (`shell.Expands`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.records import dataclass, field, replace
from gguftool.regex import regex
from gguftool.shell import Expands, quote

POSIX, CMD, POWERSHELL = "sh", "cmd", "PowerShell"
LONGEST = 20_000
_NAME = regex(r"[A-Za-z_]\w*", re.ASCII)
_VARIABLE = regex(r"[A-Za-z_]\w*|[0-9*@#?$!-]", re.ASCII)
_REDIRECT = regex(r"[0-9]*(?:>>|>\||>&|<&|<>|>|<)|&>>?")
_TILDE = regex(r"~[A-Za-z0-9_.+-]*(?:/|(?=[\s;&|<>()]|$))")
_BRACES = regex(r"\{[\w./=+-]*(?:(?:,[\w./=+-]*)+|\.\.[\w-]+)\}", re.ASCII)
_BROKEN_END = regex(r"\\[ \t]+(?:#[^\n]*)?(?:\n|$)")
_HERE = regex(r"<<(-?)[ \t]*(['\"]?)(\w+)\2")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\033", "E": "\033", "f": "\f", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command.

    Attributes:
        words: what it is made of; `Expands` where a shell would expand.
        sends: redirections, as source.
        then: what stands behind it: ``|``, ``&&``, ``||``, ``;``, ``&``, a newline, or "".
    """

    words: tuple[str, ...]
    sends: tuple[str, ...] = ()
    then: str = ""

    __repr__ = short_repr


@dataclass(slots=True)
class Read:
    """What came of a text.

    Attributes:
        commands: in order.
        notes: what was read in another way than a shell would, because it was clearly meant.
        dialect: `POSIX`, `CMD` or `POWERSHELL`.
    """

    commands: list[Command] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    dialect: str = POSIX


@dataclass(slots=True)
class Word:
    """A word that is being read: pieces of text, and of source that a shell expands."""

    pieces: list[tuple[str, bool]] = field(default_factory=list)
    begun: bool = False

    def text(self, s: str) -> None:
        """Text that stands for itself."""
        self.begun = True
        if self.pieces and not self.pieces[-1][1]:
            s = self.pieces.pop()[0] + s
        self.pieces.append((s, False))

    def source(self, s: str) -> None:
        """Source that is to be expanded."""
        self.begun = True
        self.pieces.append((s, True))

    def done(self, quoted: Callable[[str], str] = quote) -> str:
        """The word; source that makes the same word, where there is something to expand."""
        if not any(source for _, source in self.pieces):
            return "".join(s for s, _ in self.pieces)
        out = ""
        for s, source in self.pieces:
            if source and not s.isprintable():
                raise UsageError("the command cannot be read: there are control characters where a shell expands")
            # Letters right behind a name would become a part of it.
            apart = not out or not (out[-1].isalnum() or out[-1] == "_") or not (s[:1].isalnum() or s[:1] == "_")
            plain = source or not s or (apart and re.fullmatch(r"[\w./:=,+%@-]+", s, re.ASCII))
            out += s if plain else quoted(s) if quoted(s) != s else f"'{s}'"
        return Expands(out)


class Posix:
    """A cursor over the text."""

    def __init__(self, text: str) -> None:
        self.s = text
        self.at = 0
        self.out = Read()
        self.words: list[str] = []
        self.sends: list[str] = []
        self.here: list[tuple[str, str]] = []

    def read(self) -> Read:
        """Everything.

        Raises:
            UsageError: quotes or parentheses are open at the end.
        """
        while self.at < len(self.s):
            c = self.s[self.at]
            if c == "\n":
                self._newline()
            elif c in " \t\r":
                self.at += 1
            elif c == "#":
                self._comment()
            elif (end := _continued(self.s, self.at)) is not None:
                self._note_end(end)
                self.at = end
            elif c in ";&|<>()" or _REDIRECT.match(self.s, self.at):
                self._operator()
            else:
                self.words.append(self.word())
        self._end("")
        return self.out

    def _note_end(self, end: int) -> None:
        if self.s[self.at + 1 : self.at + 2] not in ("", "\r", "\n"):
            self.note("what stands behind a backslash at the end of a line was taken for a comment: a shell would not")

    def note(self, text: str) -> None:
        """Remember a sentence, once."""
        if text not in self.out.notes:
            self.out.notes.append(text)

    def _comment(self) -> None:
        end = self.s.find("\n", self.at)
        self.at = len(self.s) if end < 0 else end

    def _newline(self) -> None:
        self.at += 1
        for which, marker in self.here:
            self._skip_document(which, marker)
        self.here.clear()
        if not self.words:
            return
        ahead = re.compile(r"(?:[ \t\r\n]|#[^\n]*\n)*").match(self.s, self.at)
        rest = self.s[ahead.end() :] if ahead else ""
        if re.match(r"--?[A-Za-z]", rest) and not self.here:
            self.note("a line that begins with an option was joined to the command before it")
            self.at = ahead.end() if ahead else self.at
            return
        self._end("\n")

    def _skip_document(self, which: str, marker: str) -> None:
        """The lines of a here-document go with its command as they are."""
        end = re.compile(rf"^{which and chr(92) + 't*'}{re.escape(marker)}[ \t]*$", re.M).search(self.s, self.at)
        if end is None:
            raise UsageError(f"the command cannot be read: the here-document has no end {marker}")
        body = self.s[self.at : end.end()]
        if not body.replace("\n", "").replace("\t", "").isprintable():
            raise UsageError("the command cannot be read: there are control characters in a here-document")
        self.sends.append("\n" + body)
        self.at = end.end()

    def _operator(self) -> None:
        if (m := _HERE.match(self.s, self.at)) is not None:
            self.here.append((m[1], m[3]))
            self.sends.append(m[0])
            self.at = m.end()
            return
        if self.s.startswith("<<<", self.at):
            self.at += 3
            self._into("<<<")
            return
        if self.s[self.at : self.at + 2] in ("<(", ">("):
            self.words.append(self.word())
            return
        if m := _REDIRECT.match(self.s, self.at):
            self.at = m.end()
            self._into(m[0])
            return
        for sign in ("&&", "||", ";;", "|&", ";", "&", "|"):
            if self.s.startswith(sign, self.at):
                self.at += len(sign)
                self._end(sign)
                return
        raise UsageError("a group in parentheses is not translated", "give each command in it for itself")

    def _into(self, sign: str) -> None:
        while self.s[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        if self.at >= len(self.s) or self.s[self.at] in "\n;|":
            raise UsageError(f"the command cannot be read: nothing stands behind {sign}")
        target = self.word()
        self.sends.append(sign + (target if isinstance(target, Expands) else quote(target)))

    def _end(self, then: str) -> None:
        if self.words or self.sends:
            self.out.commands.append(Command(tuple(self.words), tuple(self.sends), then))
        elif then not in ("", "\n") and not (then == ";" and self.out.commands):
            raise UsageError(f"the command cannot be read: nothing stands before {then}")
        self.words, self.sends = [], []

    def word(self) -> str:
        """The word at the cursor."""
        w = Word()
        while self.at < len(self.s):
            c = self.s[self.at]
            if c in " \t\r\n;&|" or (c in "<>()" and not (c in "<>" and self.s[self.at + 1 : self.at + 2] == "(")):
                break
            if c in "<>":
                w.source(self._taken(self._closing(self.at + 1)))
            elif c == "\\":
                if _continued(self.s, self.at) is not None:
                    if self.s[self.at + 1 : self.at + 2] != "\n":
                        break
                    self.at += 2
                    continue
                w.text(self.s[self.at + 1 : self.at + 2] or "\\")
                self.at += 2
            elif c == "'":
                w.text(self._until("'"))
            elif c == '"':
                self._double(w)
            elif c in "$`":
                self._dollar(w, "")
            elif c == "~" and self._home(w):
                w.source(self._taken(_TILDE.match(self.s, self.at).end()))  # type: ignore[union-attr]
            elif c == "{" and (m := _BRACES.match(self.s, self.at)):
                w.source(self._taken(m.end()))
            elif c in "*?" and self._path():
                w.source(self._taken(self.at + 1))
            else:
                w.text(c)
                self.at += 1
        if not w.begun and self.at < len(self.s) and self.s[self.at] in "()":
            self._operator()
        return w.done()

    def _taken(self, end: int) -> str:
        piece = self.s[self.at : end]
        self.at = end
        return piece

    def _home(self, w: Word) -> bool:
        """Whether a tilde stands where a shell, or who wrote an option with ``=``, means a home."""
        before = "".join(s for s, _ in w.pieces)
        starts = not w.begun or re.fullmatch(r"(?:--[\w-]+|[A-Za-z_]\w*)=(?:.*:)?", before, re.ASCII) is not None
        return starts and _TILDE.match(self.s, self.at) is not None

    def _path(self) -> bool:
        """Whether the word around the cursor looks like a path: patterns of tensors look like globs, and are none."""
        start = max(self.s.rfind(b, 0, self.at) for b in " \t\n'\"=") + 1
        whole = re.compile(r"[^\s;&|<>()]*").match(self.s, start)
        word = whole[0] if whole else ""
        return word.endswith((".gguf", ".bin", ".txt", "/*")) and "=" not in word and "\\" not in word

    def _until(self, sign: str) -> str:
        end = self.s.find(sign, self.at + 1)
        if end < 0:
            raise UsageError("the command cannot be read: no closing quotation", "check its quotes")
        piece = self.s[self.at + 1 : end]
        self.at = end + 1
        return piece

    def _double(self, w: Word) -> None:
        self.at += 1
        w.text("")
        while self.at < len(self.s):
            c = self.s[self.at]
            if c == '"':
                self.at += 1
                return
            if c == "\\":
                following = self.s[self.at + 1 : self.at + 2]
                w.text("" if following == "\n" else following if following in '$`"\\' else "\\" + following)
                self.at += 2
            elif c in "$`":
                self._dollar(w, '"')
            else:
                w.text(c)
                self.at += 1
        raise UsageError("the command cannot be read: no closing quotation", "check its quotes")

    def _dollar(self, w: Word, around: str) -> None:
        start = self.at
        following = self.s[start + 1 : start + 2]
        if self.s[start] == "`":
            end = self._backquote(start)
        elif following == "(":
            end = self._closing(start + 1)
        elif following == "{":
            end = self._closing(start + 1, "{", "}")
        elif following == "'" and not around:
            w.text(self._ansi())
            return
        elif following == '"' and not around:
            self.at += 1
            return
        elif m := _VARIABLE.match(self.s, start + 1):
            end = m.end()
        else:
            w.text("$")
            self.at += 1
            return
        w.source(around + self._taken(end) + around)

    def _backquote(self, start: int) -> int:
        at = start + 1
        while at < len(self.s) and self.s[at] != "`":
            at += 2 if self.s[at] == "\\" else 1
        if at >= len(self.s):
            raise UsageError("the command cannot be read: a backquote is open at the end", "check its quotes")
        return at + 1

    def _closing(self, start: int, opens: str = "(", closes: str = ")") -> int:
        """Place behind the partner of the parenthesis at that place, quotes skipped."""
        depth, at = 0, start
        while at < len(self.s):
            c = self.s[at]
            if c == "\\":
                at += 1
            elif c == "'":
                at = self.s.find("'", at + 1)
                if at < 0:
                    break
            elif c == '"':
                at = self._quoted_end(at)
            elif c == opens:
                depth += 1
            elif c == closes:
                depth -= 1
                if depth == 0:
                    return at + 1
            at += 1
        raise UsageError(f"the command cannot be read: {opens} is open at the end", "check its parentheses")

    def _quoted_end(self, at: int) -> int:
        at += 1
        while at < len(self.s) and self.s[at] != '"':
            if self.s.startswith("$(", at):
                at = self._closing(at + 1) - 1
            at += 2 if self.s[at] == "\\" else 1
        return at

    def _ansi(self) -> str:
        r"""``$'\x1b'``."""
        at, out = self.at + 2, b""
        while at < len(self.s) and self.s[at] != "'":
            if self.s[at] != "\\":
                out += self.s[at].encode("utf-8", "surrogateescape")
                at += 1
                continue
            m = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{1,4})|(.))", re.S).match(self.s, at)
            if m is None:
                break
            if m[1] or m[2]:
                out += bytes([int(m[1], 16) if m[1] else int(m[2], 8) & 255])
            elif m[3]:
                out += chr(int(m[3], 16)).encode("utf-8", "surrogatepass")
            else:
                out += _ESCAPES.get(m[4], m[4] if m[4] in "\\'\"?" else "\\" + m[4]).encode()
            at = m.end()
        if at >= len(self.s):
            raise UsageError("the command cannot be read: no closing quotation", "check its quotes")
        self.at = at + 1
        return out.decode("utf-8", "surrogateescape")


def _continued(s: str, at: int) -> int | None:
    """Place behind a backslash that ends its line; None when there is none here."""
    if s[at] != "\\":
        return None
    if s.startswith(("\\\n", "\\\r\n"), at):
        return at + (2 if s[at + 1] == "\n" else 3)
    m = _BROKEN_END.match(s, at)
    return m.end() if m else len(s) if at + 1 == len(s) else None


def assignment(word: str) -> bool:
    """Whether a word at the start of a command sets a variable."""
    name, equals, _ = word.partition("=")
    return bool(equals) and _NAME.fullmatch(name) is not None


def ended(command: Command, then: str) -> Command:
    """The same with something else behind it."""
    return replace(command, then=then)
