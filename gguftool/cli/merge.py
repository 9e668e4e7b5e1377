"""``gguftool merge``: one file out of shards, without loss."""

from __future__ import annotations

import sys

import click

from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.values import MODEL


@command(
    examples="""
    gguftool merge model-00001-of-00003.gguf -o model.gguf
    gguftool merge part*.gguf -o model.gguf
    gguftool merge model-00001-of-00003.gguf -o model.gguf --dry-run
    """
)
@click.argument("shards", type=MODEL, metavar="SHARD...", nargs=-1, required=True)
@option("-o", "--output", type=MODEL, metavar="FILE", required=True, help="The file to write; it must not exist.")
@option("--allow-foreign", is_flag=True, help="Merge shards of different quantisations or models all the same.")
@option("-n", "--dry-run", is_flag=True, help="Check the set, show the file and write nothing.")
@format_option("text", "json")
@pass_session
def merge(session: Session, shards: tuple[str, ...], output: str, allow_foreign: bool, dry_run: bool) -> None:
    """Join the shards of a set into one file; one shard is enough, the others are found by what is in them.

    The set is checked first: a missing, cut off or foreign shard stops it. Tensors are copied byte for byte, the file
    is read back before it gets its name, and nothing is overwritten. Metadata stays as it is, but for the split keys.
    """
    from gguftool.files.draft import clear_way
    from gguftool.hub import on_this_machine
    from gguftool.report import resplit as report
    from gguftool.report.progress import Progress
    from gguftool.verify.resplit import open_set, plan_merge, write_all

    clear_way([output])
    with open_set([on_this_machine(shard) for shard in shards], allow_foreign=allow_foreign) as opened:
        plan = plan_merge(opened, output)
        if dry_run:
            if session.format == "json":
                session.write_json(ok=True, body=report.plan_body([plan]))
            else:
                session.out(report.plan_text([plan], session.style))
            return
        shown = sys.stderr if sys.stderr.isatty() and not session.quiet else None
        with Progress(2 * plan.size, shown, "merging") as progress:
            done = write_all([plan], progress)
    session.did("wrote " + ", ".join(one.path for one in done[:3]) + (" …" if len(done) > 3 else ""))
    if session.format == "json":
        session.write_json(ok=True, body=report.body(done))
    else:
        session.out(report.text(done, session.style))
