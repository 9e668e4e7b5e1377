"""The three shells: how each hands over its line, how it takes an answer, and the script that makes it do so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import click
from click.shell_completion import CompletionItem, ShellComplete, _resolve_context, _resolve_incomplete

from gguftool.cli.complete import sources, table
from gguftool.cli.complete.line import Begun, continued, word, words
from gguftool.cli.complete.offer import FILE, OPEN, Asked, choose, item, showable

VARIABLE = "_GGUFTOOL_COMPLETE"
NAME = "gguftool"
MARK = "\x1f"
_QUOTING = frozenset("'\"\\$`")


class Shell(ShellComplete):
    """click's machinery, asked with words as arguments, answered by `table`.

    Args:
        cli: the group of commands.
        typed: what the script of the shell hands over.
    """

    source_template: ClassVar[str] = ""

    def __init__(self, cli: click.Command, typed: Sequence[str] = ()) -> None:
        super().__init__(cli, {}, NAME, VARIABLE)
        self.typed = typed
        self.behind: list[str] = []

    def source(self) -> str:
        """The script."""
        return (Path(__file__).parent / f"{self.name}.txt").read_text(encoding="utf-8")

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """As click finds them, but that a row of the table comes before a parameter's type."""
        if args[:1] == ["help"] and len(args) == 1:
            return list(choose(sources.commands)(Asked(click.Context(self.cli)), incomplete))
        ctx = _resolve_context(self.cli, self.ctx_args, self.prog_name, args)
        found, begun = _resolve_incomplete(ctx, args, incomplete)
        before = incomplete[: len(incomplete) - len(begun)] if incomplete.endswith(begun) else ""
        asked = Asked(ctx, (*args, *self.behind), tuple(args))
        if isinstance(found, click.Parameter):
            completer = table.of(str(ctx.info_name), found)
            items = completer(asked, begun) if completer else found.shell_complete(ctx, begun)
        else:
            items = found.shell_complete(ctx, begun)
            if ctx.parent is None:
                items = [*items, *_words_of_group(asked, begun, bool(items))]
        return [item(before + str(i.value), i.type, _line(i.help)) for i in items if showable(str(i.value))]

    def complete(self) -> str:
        """All lines of the answer."""
        args, incomplete = self.get_completion_args()
        return "".join(f"{self.format_completion(i)}\n" for i in self.get_completions(args, incomplete))


def _words_of_group(asked: Asked, begun: str, some: bool) -> Iterable[CompletionItem]:
    """In the place of a command: ``help``, or a model, which is looked at."""
    if begun and "help".startswith(begun):
        yield item("help", about="Help of a command.")
    elif not some and not begun.startswith("-"):
        yield from table.MODELS(asked, begun)


def _line(text: str | None) -> str:
    """One line about an offer: its first sentence."""
    plain = " ".join((text or "").split()).partition(". ")[0]
    return plain.rstrip(".") if showable(plain) else ""


class Bash(Shell):
    """The line before the cursor, what is behind it, and where bash breaks words; the answer is text to insert."""

    name = "bash"
    begun = Begun()

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor but the program's name, and the value of the one that is begun."""
        line, behind, breaks = (*self.typed, "", "", "")[:3]
        whole, self.begun = words(line, breaks)
        # Of what is behind the cursor the first piece belongs to the word that the cursor is in.
        rest = words(f"{behind} ")[0]
        self.behind = rest if behind[:1].isspace() else rest[1:]
        return whole[1:], self.begun.value

    def format_completion(self, item: CompletionItem) -> str:
        """A letter (whole, open, file), and the text that takes the place of what was begun."""
        text = continued(self.begun, str(item.value))
        if item.type == FILE and not self.begun.quote and not _QUOTING & set(text):
            # Bash itself shows names without their folder, if it need not be told how to quote them.
            return f"f{text.removesuffix('/')}"
        goes_on = item.type == OPEN or (item.type == FILE and text.endswith("/"))
        return f"{'o' if goes_on else 'w'}{text}"


class Zsh(Shell):
    """Words as typed: those behind the cursor, a mark, those before it, the one begun.

    zsh quotes what it is told by itself. Files are told without their folder.
    """

    name = "zsh"
    incomplete = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor but the program's name, and the value of the one that is begun."""
        self.behind, before = _apart([word(typed) for typed in self.typed])
        self.incomplete = before.pop() if before else ""
        return before, self.incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """A letter (whole, open, file, directory), the word, a tab, and what there is to say about it."""
        value = str(item.value)
        if item.type == FILE:
            folder = self.incomplete.rfind("/") + 1
            return f"{'d' if value.endswith('/') else 'f'}{value[folder:]}\t"
        return f"{'o' if item.type == OPEN else 'w'}{value}\t{item.help or ''}"


class Fish(Shell):
    """Words as they are meant: all, a mark, those before the cursor, the one begun as typed.

    fish quotes by itself, and knows that a word goes on behind ``=`` or ``/``.
    """

    name = "fish"

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor but the program's name, and the value of the one that is begun."""
        self.behind, before = _apart(self.typed)
        begun = word(before.pop()) if before else ""
        return before, begun

    def format_completion(self, item: CompletionItem) -> str:
        """The word, a tab, and what there is to say about it."""
        return f"{item.value}\t{item.help or ''}"


def _apart(typed: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before and behind the mark."""
    at = list(typed).index(MARK) if MARK in typed else -1
    return list(typed[: max(at, 0)]), list(typed[at + 1 :])


SHELLS: dict[str, type[Shell]] = {shell.name: shell for shell in (Bash, Zsh, Fish)}


def answer(cli: click.Command, asked: str, typed: Sequence[str]) -> str:
    """What a script asks for; "" where nothing can be said: a shell that completes is no place for errors.

    Args:
        cli: the group of commands.
        asked: ``bash_complete`` and the like.
        typed: what the script hands over.
    """
    shell = SHELLS.get(asked.partition("_")[0])
    try:
        return shell(cli, typed).complete() if shell else ""
    except Exception:
        return ""
