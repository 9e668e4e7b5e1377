"""``gguftool split``: shards of a model, without loss."""

from __future__ import annotations

import sys

import click

from gguftool.cli.options import Session, command, format_option, model_argument, option, pass_session
from gguftool.cli.values import MODEL, SizeType


@command(
    examples="""
    gguftool split model.gguf --max-size 4G
    gguftool split model.gguf --max-tensors 128 -o parts/model
    gguftool split model.gguf --max-size 4G --dry-run
    """
)
@model_argument
@option("--max-size", type=SizeType(1000), help="Most bytes of a file, header included: 4G is 4,000,000,000.")
@option("--max-tensors", type=click.IntRange(1), help="Most tensors in a file.")
@option(
    "-o", "--output", type=MODEL, metavar="PREFIX", help="What the names start with; the model's name when left out."
)
@option("--metadata-first", is_flag=True, help="No tensors in the first file.")
@option("-n", "--dry-run", is_flag=True, help="Show the files and write nothing.")
@format_option("text", "json")
@pass_session
def split(
    session: Session,
    model: str,
    max_size: int | None,
    max_tensors: int | None,
    output: str | None,
    metadata_first: bool,
    dry_run: bool,
) -> None:
    """Split a model into files named PREFIX-00001-of-00003.gguf, as llama.cpp loads them.

    Tensors are copied byte for byte and every file is read back before it gets its name. Nothing is overwritten, and
    the model itself stays. A set of shards can be split anew.
    """
    from gguftool.cli.opened import open_for
    from gguftool.hub import on_this_machine
    from gguftool.model.shards import NAME
    from gguftool.report import resplit as report
    from gguftool.report.progress import Progress
    from gguftool.verify.resplit import plan_split, write_all

    opened = open_for(session, on_this_machine(model))
    prefix = output or opened.name.removesuffix(".gguf")
    if not output and (named := NAME.match(opened.name)):
        prefix = named["prefix"]
    plans = plan_split(opened, prefix, max_size=max_size, max_tensors=max_tensors, metadata_first=metadata_first)
    above = [plan for plan in plans if max_size is not None and plan.size > max_size]
    if above:
        session.warn(f"{len(above)} of {len(plans)} files are larger than the limit: a tensor is never cut")
    if dry_run:
        if session.format == "json":
            session.write_json(ok=True, body=report.plan_body(plans))
        else:
            session.out(report.plan_text(plans, session.style))
        return
    shown = sys.stderr if sys.stderr.isatty() and not session.quiet else None
    with Progress(2 * sum(plan.size for plan in plans), shown, "splitting") as progress:
        done = write_all(plans, progress)
    session.did("wrote " + ", ".join(one.path for one in done[:3]) + (" …" if len(done) > 3 else ""))
    if session.format == "json":
        session.write_json(ok=True, body=report.body(done))
    else:
        session.out(report.text(done, session.style))
