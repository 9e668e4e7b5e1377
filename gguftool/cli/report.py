"""``gguftool report``."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import click

from gguftool.cli.options import Session, command, format_option, model_argument, option, pass_session
from gguftool.cli.wishes import wish_options, wished
from gguftool.report.text import safe

STDOUT = "-"


@command(
    examples="""
    gguftool report model.gguf                            writes model.html here
    gguftool report model.gguf -o report.html --ctx 32768 --vram 16GiB
    gguftool report model.gguf --data --hashes            with the range of every tensor, and its hash
    gguftool report model.gguf --mmproj mmproj.gguf       does the projector (draft, adapter) fit it?
    gguftool report hf://owner/repo                       each of its quantisations
    gguftool report ~/models                              every model in a folder
    gguftool report model.gguf --format json | jq .model.verdict
    """
)
@model_argument
@option("-o", "--output", metavar="FILE", type=click.Path(), help="The page; - is stdout.  [default: NAME.html here]")
@option("--overwrite", is_flag=True, help="Replace FILE when it exists.")
@option("--data", is_flag=True, help="Read the tensor data: range, outliers, NaN of every tensor.")
@option("--hashes", is_flag=True, help="With sha256 of the files and of every tensor.")
@option("--build", metavar="BUILD", help="Judge and plan for that build of llama.cpp: b8179.")
@wish_options("report", listed=frozenset({"ctx", "cache_type", "parallel", "vram", "ram", "mmproj", "draft", "lora"}))
@format_option("html", "json")
@pass_session
def report(
    session: Session, /, model: str, output: str | None, overwrite: bool, data: bool, hashes: bool, **options: Any
) -> int:
    """Write all that is known of MODEL as one page: what it is, what is wrong, where its bytes are, what it takes.

    The page needs no network and nothing beside it, so that it can be sent, kept and printed. It holds what lint, plan,
    compat, dump and render say of the model, and of files that are to stand beside it (--mmproj, --model-draft, --lora)
    whether they fit. Of a repository each quantisation is a row, of a folder with several models each model;
    with --ctx, --vram … it is told which of them fits.

    With --format json the very data of the page goes to stdout, and no page is written unless -o names one.
    Exit code 3 when the model cannot be read to the end or lacks a part, and that of the fault when a section could
    not be made; the page is written all the same, and says so.
    """
    from gguftool.api.report import report as gather
    from gguftool.report.envelope import error_row
    from gguftool.report.page.data import body
    from gguftool.report.page.render import report_page
    from gguftool.report.progress import Progress

    path = output if output is not None or session.format == "json" else _name(model)
    if path not in (None, STDOUT):
        from gguftool.files.names import check_free

        check_free(str(path), overwrite=overwrite, can_overwrite=True)
    shown = sys.stderr if sys.stderr.isatty() and not session.quiet else None
    status = session.status()

    def tell(done: int, every: int) -> None:
        status(f"looking: {done} of {every}")

    with Progress(0, shown, "reading") as progress:
        found = gather(model, wished(), data=data, hashes=hashes, build=options["build"], tell=tell, progress=progress)
    code = found.exit_code
    for error in found.errors if session.format != "json" else ():
        session.warn(str(error))
    if path == STDOUT and session.format != "json":
        from gguftool.report.envelope import put

        put(report_page(found), sys.stdout)
        return code
    if path is not None and path != STDOUT:
        _write(path, report_page(found), overwrite=overwrite)
        session.did(f"wrote {path}", code)
    if session.format == "json":
        session.write_json(
            ok=code == 0,
            body={**body(found), "written": None if path == STDOUT else path},
            errors=[error_row(error) for error in found.errors],
        )
    else:
        session.out(f"wrote {safe(str(path))}")
    return code


def _name(model: str) -> str:
    """The page's name when nobody gave one: that of the model, in the folder one is in."""
    last = re.split(r"[/\\]", model.partition("::")[0].partition("?")[0].rstrip("/\\"))[-1].replace(":", "-")
    stem = last[:-5] if last.lower().endswith(".gguf") else last
    return f"{stem.strip('.-') or os.path.basename(os.getcwd()) or 'report'}.html"


def _write(path: str, text: str, *, overwrite: bool) -> None:
    from gguftool.files.draft import Draft

    with Draft(path, overwrite=overwrite, can_overwrite=True) as draft:
        draft.write(text.encode())
        draft.publish()
