"""What becomes of a command."""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.records import dataclass, field
from gguftool.run.capabilities import Capabilities
from gguftool.run.translation.words import POSIX, POWERSHELL
from gguftool.shell import shell, windows


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was changed.

    Attributes:
        was: words of the command as given, "" for something added.
        became: words that took their place, "" for nothing.
        why: the reason.
        lost: it asked for something that the new command does not do.
    """

    was: str
    became: str
    why: str
    lost: bool = False

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Translation:
    """A command as it should be.

    Attributes:
        environment: variables set before it.
        argv: program and arguments.
        changes: what differs from the command given, in order.
        notes: what is worth knowing.
        prefix: what starts the program, for example ``sudo nohup``.
        before, after: what a shell does around it, as it was given: pipes, redirections.
        then: what joins it to the next command.
        dialect: the shell it is written for, as that which was given.
        program: its name; "" for one in an image.
        args: its arguments.
        stops: why it would not start; then there is no command.
    """

    environment: tuple[str, ...]
    argv: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    then: str = ""
    dialect: str = POSIX
    program: str = ""
    args: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()

    __repr__ = short_repr

    @property
    def lost(self) -> bool:
        """Something that was asked for is not done."""
        return bool(self.stops) or any(c.lost for c in self.changes)

    @property
    def line(self) -> str:
        """The command for the shell it was given for, what stands around it included; "" when it would not start."""
        if self.stops:
            return ""
        words = (*self.prefix, *self.argv)
        if self.dialect == POSIX:
            return self.before + shell(words, environment=self.environment) + self.after
        return self.before + windows(words, self.environment, power=self.dialect == POWERSHELL) + self.after


@dataclass(slots=True)
class Work:
    """A command that is being translated."""

    build: Capabilities
    words: list[str]
    program: str = ""
    asked: str = ""
    args: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def change(self, was: str, became: str, why: str, *, lost: bool = False) -> None:
        """Remember what was changed."""
        self.changes.append(Change(was, became, why, lost))

    def value(self, *names: str) -> str | None:
        """The value of an option among the arguments so far."""
        return next((self.args[i + 1] for i, a in enumerate(self.args[:-1]) if a in names), None)


@dataclass(frozen=True, slots=True)
class Answer:
    """What there is for a command of another program.

    Attributes:
        name: its program.
        given: the command.
        argv: gguftool's command for the same; empty: there is none.
        why: what it is, or why there is none.
        way: what helps.
        lost: it does not do all that was asked for.
        then: what joins it to the next command.
    """

    name: str
    given: str
    argv: tuple[str, ...]
    why: str
    way: str = ""
    lost: bool = False
    then: str = ""

    __repr__ = short_repr

    @property
    def line(self) -> str:
        """The command as text; "" for none."""
        return shell(self.argv) if self.argv else ""


@dataclass(frozen=True, slots=True)
class Kept:
    """A command that stays as it is, because a shell needs it for the next: ``cd``, ``export``."""

    line: str
    then: str = ""
    lost: bool = False

    __repr__ = short_repr


Part = Translation | Answer | Kept


@dataclass(frozen=True, slots=True)
class Script:
    """What becomes of a text with one command or several.

    Attributes:
        parts: of each command, in order.
        notes: how the text was read, where that is not how a shell would.
    """

    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    __repr__ = short_repr

    @property
    def lost(self) -> bool:
        """Something that was asked for is not done."""
        return any(part.lost for part in self.parts)

    @property
    def text(self) -> str:
        """The new commands, for the shell they were given for."""
        out = ""
        for part in self.parts:
            if part.line:
                joined = {"": "\n", "\n": "\n", ";": "\n", "&": " &\n"}.get(part.then, f" {part.then} ")
                out += part.line + joined
        return out.rstrip("\n").rstrip("&|; ") + (" &" if out.endswith(" &\n") else "")
