"""Whether a gguftool command line is one: its command, its options and their values, by click's own parser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from tests.docs.terminal import Unknown, pieces

WRAPPERS = frozenset("exec sudo xargs uvx pipx time nohup env docker kubectl sh".split())
"""Programs that start gguftool with the words after its name."""


def commands(line: str) -> Iterator[list[str]]:
    """The words after each ``gguftool`` of a command line that is the program and not an argument."""
    for piece in pieces(line):
        words = list(piece.words)
        while words and re.match(r"[A-Za-z_]\w*=", words[0]):
            words.pop(0)
        if "gguftool" not in words:
            continue
        at = words.index("gguftool")
        if at == 0 or words[0] in WRAPPERS or words[:2] in (["python", "-m"], ["python3", "-m"]):
            yield words[at + 1 :]


def wrong(line: str) -> str:
    """What click says of the gguftool commands of a line; empty when they parse."""
    try:
        found = list(commands(line))
    except Unknown as error:
        return str(error)
    return "; ".join(said for words in found if (said := fault(words)))


def fault(words: list[str]) -> str:
    """What click says of one command line, without running it; empty when it parses."""
    from gguftool.cli.group import gguftool as root

    try:
        with root.make_context("gguftool", list(words)) as above:
            name, command, rest = root.resolve_command(above, [*above._protected_args, *above.args])
            if command is None or name is None:
                return f"no command in: gguftool {' '.join(words)}"
            with command.make_context(name, rest, parent=above):
                return ""
    except click.exceptions.Exit:
        # --help, --version: told and done.
        return ""
    except click.UsageError as error:
        if isinstance(error, click.BadParameter) and "$" in error.message:
            # A value that a variable will have.
            return ""
        return f"gguftool {' '.join(words)}: {error.format_message()}"


def mentioned(text: str) -> Iterator[str]:
    """The gguftool commands that prose names in code, without what stands in fences."""
    prose = re.sub(r"^\s*(```|~~~).*?^\s*\1", "", text, flags=re.S | re.M)
    for span in re.findall(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", prose, re.S):
        words = " ".join(span[1].split())
        if words.startswith("gguftool "):
            yield words


def unknown(mention: str) -> str:
    """A command or an option of a command named in prose that there is not; values there are placeholders."""
    from gguftool.cli.group import called
    from gguftool.cli.group import gguftool as root
    from gguftool.cli.spelled import spellings

    words = re.split(r"\s+", mention)[1:]
    context = click.Context(root, info_name="gguftool")
    name = next((word for word in words if not word.startswith("-")), "")
    command = root.get_command(context, called(name) or name)
    if command is None:
        placeholder = not name or not name[0].islower() or "." in name or name in ("help", "version")
        return "" if placeholder else f"{mention}: no command {name}"
    known = {*spellings(command, click.Context(command, parent=context)), *spellings(root, context), "--help", "--"}
    before = words[: words.index("--")] if "--" in words else words
    options = [word.partition("=")[0].strip("[],.…") for word in before if re.match(r"\[?--?[a-z]", word)]
    # `--emit preset|llama-swap`, `--this/--that`: each of the names.
    said = [one for option in options for one in re.split(r"[|/](?=-)", option)]
    return "; ".join(f"{mention}: no {one}" for one in said if one not in known)
