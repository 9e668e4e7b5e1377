"""man/*.1: a manual page for gguftool and one for each command, out of the tree of click. ``--check`` only compares."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
from environment import GROUPS
from exits import CODES
from kept import ROOT, keep

FOLDER = ROOT / "man"


def text(value: str) -> str:
    """Running text for roff: backslashes, hyphens that are typed, lines that would be requests."""
    out = value.replace("\\", "\\e").replace("-", "\\-").replace("`", "").replace("'", "\\(aq")
    return "\n".join(f"\\&{line}" if line[:1] in ".'" else line for line in out.split("\n"))


def bold(value: str) -> str:
    return f"\\fB{text(value)}\\fR"


def italic(value: str) -> str:
    return f"\\fI{text(value)}\\fR"


def head(name: str) -> str:
    """The first lines of a page. It has no date: the same version always gives the same bytes."""
    from gguftool.version import __version__

    return f'.TH "{text(name.upper())}" "1" "" "gguftool {__version__}" "gguftool"\n.nh\n.ad l\n'


def paragraphs(value: str) -> str:
    """The help of a command. Paragraphs that click keeps as they stand (``\\b``) are kept here, too."""
    out = []
    for part in re.split(r"\n\s*\n", value.strip().replace("\f", "")):
        if part.lstrip().startswith("\b"):
            lines = part.replace("\b", "").strip("\n").split("\n")
            out.append(".PP\n.nf\n" + "\n".join(text(line.rstrip()) for line in lines) + "\n.fi\n")
        else:
            out.append(".PP\n" + text(" ".join(part.split())) + "\n")
    return "".join(out)


def options(command: click.Command, context: click.Context) -> Iterator[str]:
    """The options that the help shows, with their value and default."""
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if record is None or not isinstance(param, click.Option):
            continue
        names, about = record
        told = re.sub(r"(?<![\w-])(--?[A-Za-z][\w-]*)", lambda m: f"\0{m[1]}\1", names)
        shown = text(told).replace("\0", "\\fB").replace("\1", "\\fR")
        yield f".TP\n{shown}\n{text(' '.join(about.split()))}\n"


def examples(value: str) -> str:
    lines = "\n".join(text(line.rstrip()) for line in value.strip("\n").split("\n"))
    return f".SH EXAMPLES\n.nf\n{lines}\n.fi\n"


def command_page(name: str, about: str, command: click.Command, context: click.Context) -> str:
    pieces = " ".join(command.collect_usage_pieces(context))
    body = [
        head(f"gguftool-{name}"),
        f".SH NAME\n{text(f'gguftool-{name}')} \\- {text(about.rstrip('.'))}\n",
        f".SH SYNOPSIS\n{bold(f'gguftool {name}')} {text(pieces)}\n",
        ".SH DESCRIPTION\n" + paragraphs(command.help or "").removeprefix(".PP\n"),
        ".SH OPTIONS\n" + "".join(options(command, context)),
        examples(getattr(command, "examples", "")),
        f".SH EXIT STATUS\nAs of every command: {bold('gguftool')}(1).\n",
        f".SH SEE ALSO\n{bold('gguftool')}(1), {bold('gguftool-rules')}(1), {bold('gguftool-explain')}(1)\n",
    ]
    return "".join(body)


def root_page(root: click.Group, context: click.Context) -> str:
    from gguftool.cli.group import OTHER_WORDS, TABLE

    sections: dict[str, list[str]] = {}
    for entry in TABLE:
        also = f" Also: {OTHER_WORDS[entry.name].replace(' ', ', ')}." if entry.name in OTHER_WORDS else ""
        row = f".TP\n{bold(f'gguftool-{entry.name}')}(1)\n{text(entry.about + also)}\n"
        sections.setdefault(entry.section, []).append(row)
    commands = "".join(f".SS {title}\n{''.join(rows)}" for title, rows in sections.items())
    codes = "".join(f".TP\n{bold(code)}\n{text(meaning)}\n" for code, meaning in CODES)
    variables = "".join(
        f".SS {text(title)}\n" + "".join(f".TP\n{bold(names)}\n{text(what)}\n" for names, what in rows)
        for title, _, rows in GROUPS
    )
    about = (root.help or "").strip().split("\n")[0].rstrip(".")
    return "".join(
        [
            head("gguftool"),
            f".SH NAME\ngguftool \\- {text(about[0].lower() + about[1:])}\n",
            f".SH SYNOPSIS\n{bold('gguftool')} [OPTIONS] COMMAND [ARGS]...\n",
            ".SH DESCRIPTION\n" + paragraphs((root.help or "").partition("\n\n")[2]).removeprefix(".PP\n"),
            f".SH COMMANDS\n{commands}",
            ".SH OPTIONS\n" + "".join(options(root, context)),
            f".SH EXIT STATUS\n{codes}",
            f".SH ENVIRONMENT\n{variables}",
            ".SH FILES\n",
            f".TP\n{bold('gguftool.toml')}, {bold('pyproject.toml')}\nSettings of lint and scan, looked for from the "
            "working directory upward.\n",
            f".TP\n{italic('MODEL')}{bold('-undo-N')}\nWhat {bold('gguftool undo')} needs to take edit N back.\n",
            f".TP\n{italic('MODEL')}{bold('.gguftool-journal')}\nLies beside a model while it is edited.\n",
        ]
    )


def pages() -> dict[str, str]:
    """Every page by its file name."""
    from gguftool.cli.group import TABLE
    from gguftool.cli.group import gguftool as root

    context = click.Context(root, info_name="gguftool", max_content_width=100)
    out = {"gguftool.1": root_page(root, context)}
    for entry in TABLE:
        command = root.get_command(context, entry.name)
        if command is not None:
            with click.Context(command, info_name=entry.name, parent=context) as inner:
                out[f"gguftool-{entry.name}.1"] = command_page(entry.name, entry.about, command, inner)
    return out


if __name__ == "__main__":
    keep({FOLDER / name: body for name, body in pages().items()}, folder=FOLDER)
