"""``gguftool push-check``: what the Hub and people will look for, before an upload."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from gguftool.cli.options import Session, command, format_option, models_argument, option, pass_session
from gguftool.report.gates import GATES

if TYPE_CHECKING:
    from gguftool.api.push import Pushed


@command(
    examples="""
    gguftool push-check ./Foo-7B-GGUF                     the folder as the repository it becomes
    gguftool push-check --repo me/Foo-7B-GGUF ./Foo-7B-GGUF
    gguftool push-check --write --repo me/Foo-7B-GGUF ./Foo-7B-GGUF
                                                          write README.md and SHA256SUMS, or what they lack
    gguftool push-check --no-hash Foo-7B-Q4_K_M.gguf      names, keys, card; read no tensor data
    gguftool push-check --format github --fail-on error ./Foo-7B-GGUF
    """
)
@models_argument
@option("--repo", metavar="OWNER/NAME", help="Repository it will be published as.  [default: general.repo_url]")
@option("--no-hash", is_flag=True, help="Do not hash the files: card and list are not compared with them.")
@option("--write", is_flag=True, help="Write README.md and SHA256SUMS, or what is missing in them.")
@option("--overwrite", is_flag=True, help="With --write: also over what is there and is wrong.")
@option("--select", multiple=True, metavar="RULE|FAMILY", help="Only these; comma separated or given again.")
@option("--ignore", multiple=True, metavar="RULE|FAMILY", help="All but these.")
@option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    default="warning",
    show_default=True,
    help="Exit with 1 from this severity on.",
)
@option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
@option("--no-load", is_flag=True, help="Do not predict what llama.cpp does with the files.")
@format_option("text", "json", "jsonl", *GATES)
@pass_session
def push_check(session: Session, /, models: tuple[str, ...], **options: Any) -> int:
    """Check models as a publisher must before an upload; each finding says what mends it.

    Names against contents, licence, base model, who quantised it, chat template, room for edits, shards, sizes; the
    card (README.md) with its metadata, commands and hashes; SHA256SUMS. The rules of lint run, too.

    --write writes a card with the commands that were planned, and hashes. Of a card that is there everything stays: the
    metadata that it lacks is added, and a part between two marks is written anew.

    Exit code 1 from a warning on (see --fail-on), 3 for a file that cannot be read as GGUF to the end of its header.
    """
    from gguftool.api.push import push_check as check
    from gguftool.cli.lint_shown import write_checks
    from gguftool.cli.prepare_shown import shown
    from gguftool.lint.rule import Severity
    from gguftool.report.text import safe

    o = options
    if o["overwrite"] and not o["write"]:
        raise click.UsageError("--overwrite says how --write writes; it does nothing alone.")
    with shown(session) as told:
        done = check(
            models,
            repo=o["repo"],
            hashes=not o["no_hash"],
            write=o["write"],
            overwrite=o["overwrite"],
            select=_names(o["select"]),
            ignore=_names(o["ignore"]),
            load=not o["no_load"],
            tell=told,
        )
    fail_on = None if o["fail_on"] == "never" else Severity(o["fail_on"])
    code = 0 if o["exit_zero"] else max(0, *(c.exit_code(fail_on) for c in done.checks))
    if done.written:
        session.did(f"wrote {', '.join(done.written)}", code)
        session.note(f"wrote {safe(', '.join(done.written))}")
    session.done_code = code
    for note in done.notes:
        session.note(f"note: {safe(note)}")
    if session.format == "jsonl":
        for one in done.checks:
            write_checks([one], session, fail_on)
    else:
        write_checks(list(done.checks), session, fail_on, more=_more(done))
    return code


def _more(done: Pushed) -> dict[str, object]:
    folders = [
        {
            "folder": p.folder or os.curdir,
            "repo": p.repo or None,
            "models": list(p.models),
            "sha256": dict(p.hashes),
            "card": p.card is not None,
            "sums": p.sums is not None,
        }
        for p in done.folders
    ]
    return {"folders": folders, "written": list(done.written), "notes": list(done.notes)}


def _names(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for item in given for name in item.split(",") if name.strip())
