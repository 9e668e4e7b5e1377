"""Writes docs/cli.md: the help of every command, as the program prints it. ``--check`` only compares."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
HEAD = """# The command line

Made from `gguftool COMMAND --help` by `./dev docs`; a test keeps it in step.

## Names and numbers

One meaning has one name in every command, and that is what the help shows. Other spellings (llama.cpp's, those of
kindred programs, former ones) are taken wherever a command has the option; `_` may stand for `-`, `-m MODEL` for MODEL.

| option | also taken |
|---|---|
{spellings}

| command | also called by |
|---|---|
{words}

`--json` is `--format json`, `gguftool help COMMAND` is `gguftool COMMAND --help`, `gguftool version` is
`gguftool --version`, `gguftool MODEL` is `gguftool dump --overview MODEL`, `gguftool set MODEL KEY VALUE` is
`gguftool fix MODEL --set KEY=VALUE`.

Token counts: `32768`, `32_768`, `32,768`, `32k`, `1M`; `k` and `K` are both 1024, `M` is 1024 k. Sizes: `16GiB` and
`16G` are binary, `16GB` is decimal, `4096B` is bytes (`split --max-size` reads a letter alone as decimal, as
llama-gguf-split does). A bare number below a mebibyte is refused, because `--vram 16` means 16 GiB and not 16 bytes.

"""


def reference() -> str:
    """The page as it should be."""
    # Help is wrapped to the terminal; the page must not depend on whose terminal it was.
    os.environ.update(COLUMNS="100", NO_COLOR="1", TERM="dumb")
    import click

    from gguftool.cli.group import OTHER_WORDS
    from gguftool.cli.group import gguftool as root
    from gguftool.cli.names import HALVES, SPELLINGS

    context = click.Context(root, info_name="gguftool", max_content_width=100)
    taken = {name: [word for word in words if word not in SHOWN] for name, words in SPELLINGS.items()}
    taken["--cache-type"] += [f"{names[0]} {half.upper()}" for half, names in HALVES.items()]
    head = HEAD.format(spellings=_rows(taken), words=_rows({k: v.split() for k, v in OTHER_WORDS.items()}))
    parts = [head, _block("gguftool", root.get_help(context))]
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        if command is not None:
            with click.Context(command, info_name=name, parent=context, max_content_width=100) as inner:
                parts.append(_block(f"gguftool {name}", command.get_help(inner)))
    return "".join(parts)


SHOWN = ("-n", "-y", "-o")


def _rows(table: dict[str, list[str]]) -> str:
    return "\n".join(f"| `{name}` | {', '.join(f'`{word}`' for word in words)} |" for name, words in table.items())


def _block(title: str, text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.strip().split("\n"))
    return f"## {title}\n\n```text\n{lines}\n```\n\n"


def main() -> None:
    """Write the page, or with ``--check`` exit 1 when it is out of step."""
    text = reference()
    if "--check" in sys.argv[1:]:
        sys.exit(0 if PAGE.read_text() == text else f"{PAGE.name} is out of step: ./dev docs")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
