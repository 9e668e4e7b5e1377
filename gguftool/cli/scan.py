"""``gguftool scan``: many models at once, one row each."""

from __future__ import annotations

import click

from gguftool.cli.builds import asked, build_options
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
@format_option("text", "json", "jsonl", "markdown")
@pass_session
def scan(
    session: Session,
    /,
    paths: tuple[str, ...],
    jobs: int | None,
    no_lint: bool,
    resume: str | None,
    fail_on: str,
    **named: str | None,
) -> int:
    """Facts, integrity and lint of all models in files and folders (their subfolders too), in a repository of the Hub,
    or in all repositories of an owner.

    A set of shards is one row. Headers are read, tensor data is not. A model that cannot be read is a row that says so.
    With a llama.cpp named (--build and the like) a model that it refuses makes the exit code 1, too.
    """
    from gguftool.errors import Bug
    from gguftool.fleet.rows import fails, internal
    from gguftool.fleet.rows import scan as look
    from gguftool.report import scan as report

    target = asked(session, named["build"], named["llama_cpp"], named["llama_cpp_python"])
    build = target.build if target is not None else None
    rows = []
    for row in look(paths, jobs=jobs, lint=not no_lint, resume=resume, build=build):
        if session.format == "jsonl":
            session.out(report.line(row))
        rows.append(row)
    rows.sort(key=lambda row: str(row["path"]))
    failed = [row for row in rows if fails(row, fail_on)]
    bugs = [row["error"] for row in rows if row["error"] is not None and internal(row)]
    if session.format == "json":
        session.write_json(ok=not failed and not bugs, body=report.body(rows), errors=bugs)
    elif session.format == "markdown":
        session.out(report.markdown(rows))
    elif session.format == "text":
        session.out(report.text(rows, session.style))
    return Bug.exit_code if bugs else 1 if failed else 0
