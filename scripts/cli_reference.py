"""Writes docs/cli.md: the help of every command, as the program prints it. ``--check`` only compares."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
HEAD = """# The command line

Made from `gguftool COMMAND --help` by `./dev docs`; a test keeps it in step.

"""


def reference() -> str:
    """The page as it should be."""
    # Help is wrapped to the terminal; the page must not depend on whose terminal it was.
    os.environ.update(COLUMNS="100", NO_COLOR="1", TERM="dumb")
    import click

    from gguftool.cli.group import gguftool as root

    context = click.Context(root, info_name="gguftool", max_content_width=100)
    parts = [HEAD, _block("gguftool", root.get_help(context))]
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        if command is not None:
            with click.Context(command, info_name=name, parent=context, max_content_width=100) as inner:
                parts.append(_block(f"gguftool {name}", command.get_help(inner)))
    return "".join(parts)


def _block(title: str, text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.strip().split("\n"))
    return f"## {title}\n\n```\n{lines}\n```\n\n"


def main() -> None:
    """Write the page, or with ``--check`` exit 1 when it is out of step."""
    text = reference()
    if "--check" in sys.argv[1:]:
        sys.exit(0 if PAGE.read_text() == text else f"{PAGE.name} is out of step: ./dev docs")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
