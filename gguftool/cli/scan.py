"""``gguftool scan``: many models at once, one row each."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import IO

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

    A set of shards is one row, written when it is done; JSON is one object, sorted. Headers are read, tensor data is
    not. A model that cannot be read is a row that says so.
    With a llama.cpp named (--build and the like) a model that it refuses makes the exit code 1, too.
    """
    from gguftool.errors import Bug
    from gguftool.files.small import scratch_file
    from gguftool.fleet.rows import fails, internal
    from gguftool.fleet.rows import scan as look
    from gguftool.report import scan as report
    from gguftool.report.envelope import dumps, envelope, write_with

    target = asked(session, named["build"], named["llama_cpp"], named["llama_cpp_python"])
    build = target.build if target is not None else None
    counts, failed, bugs, places = report.Counts(), False, [], list[tuple[str, int]]()
    top = report.folder(paths)
    with scratch_file() if session.format == "json" else nullcontext() as spool:
        for row in look(paths, jobs=jobs, lint=not no_lint, resume=resume, build=build):
            if not counts.models and session.format in ("text", "markdown"):
                session.out(report.head(paths, session.style, markdown=session.format == "markdown"))
            if spool is not None:
                # One object, sorted: its rows wait on the disk.
                places.append((row["path"], spool.tell()))
                spool.write(f"{dumps(row, compact=True)}\n".encode())
            elif session.format == "jsonl":
                session.out(report.line(row))
            elif session.format == "markdown":
                session.out(report.markdown(row))
            else:
                session.out(report.text(row, session.style, top))
            sys.stdout.flush()
            counts.add(row)
            failed = failed or fails(row, fail_on)
            if row["error"] is not None and internal(row):
                bugs.append(row["error"])
        if spool is not None:
            whole = envelope(session.command, not failed and not bugs, report.body(counts), bugs)
            write_with(whole, "models", (_at(spool, place) for _, place in sorted(places)), sys.stdout)
    if session.format == "text":
        session.out(report.total(counts, session.style) if counts.models else "no models found")
    return Bug.exit_code if bugs else 1 if failed else 0


def _at(spool: IO[bytes], place: int) -> str:
    spool.seek(place)
    return spool.readline().decode()
