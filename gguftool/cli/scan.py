"""``gguftool scan``: many models at once, one row each."""

from __future__ import annotations

from typing import Any

import click

from gguftool.cli.builds import build_options
from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.values import MODEL


@command(
    examples="""
    gguftool scan ~/models
    gguftool scan --fail-on error --format markdown /srv/models > models.md
    gguftool scan --resume scan.jsonl /mnt/archive
    gguftool scan hf://owner/repo hf://owner
    gguftool scan --build b8179 ~/models                which models will that llama.cpp not load?
    """
)
@click.argument("paths", type=MODEL, metavar="PATH...", nargs=-1, required=True)
@option("--jobs", type=click.IntRange(1), help="Models at a time; the number of processors when left out.")
@build_options
@option("--no-lint", is_flag=True, help="Facts and integrity only.")
@option(
    "--resume",
    type=MODEL,
    metavar="FILE",
    help="Keep rows in this file; models that did not change are taken from it.",
)
@option(
    "--fail-on",
    type=click.Choice(["error", "warning", "broken", "never"]),
    default="broken",
    show_default=True,
    help="What makes the exit code 1: lint findings of that severity, or only models that are not whole.",
)
@option("--include", multiple=True, metavar="GLOB", help="Of folders only files like this, in place of *.gguf.")
@option("--exclude", multiple=True, metavar="GLOB", help="Of folders no file and no folder like this: old, */tmp.")
@format_option("text", "json", "jsonl", "markdown")
@pass_session
def scan(session: Session, /, paths: tuple[str, ...], **options: Any) -> int:
    """Facts, integrity and lint of all models in files and folders (their subfolders too), in a repository of the Hub,
    or in all repositories of an owner.

    A set of shards is one row, written when it is done; JSON is one object, sorted. Headers are read, tensor data is
    not. A model that cannot be read is a row that says so.
    With a llama.cpp named (--build and the like) a model that it refuses makes the exit code 1, too.
    """
    from gguftool.cli.scan_rows import run

    return run(session, paths, options)
