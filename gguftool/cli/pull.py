"""``gguftool pull``: get a model from the Hub, prove it, judge it, say how to start it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gguftool.cli.options import Session, command, format_option, model_argument, option, pass_session
from gguftool.cli.wishes import wish_options, wished

if TYPE_CHECKING:
    from gguftool.api.pulled import Pulled
    from gguftool.verify.stream import Progress


@command(
    examples="""
    gguftool pull hf://owner/repo --ctx 32768 --vram 12GiB     the best that fits
    gguftool pull hf://owner/repo:Q4_K_M
    gguftool pull hf://owner/repo/model-Q4_K_M-00001-of-00003.gguf --local-dir models
    gguftool pull hf://owner/repo:Q4_K_M --dry-run             what would be downloaded, and is there room?
    gguftool pull hf://owner/repo:Q4_K_M --no-mmproj --format json
    """
)
@model_argument
@click.argument("extra", nargs=-1, type=click.UNPROCESSED, metavar="[-- LLAMA-SERVER ARGS]")
@option(
    "--local-dir", type=click.Path(), metavar="FOLDER", help="Download to this folder, not to the cache of the Hub."
)
@option("--no-mmproj", is_flag=True, help="Leave out the projector that goes with the model.")
@option("--force", is_flag=True, help="Download it even if it is on this machine already.")
@option("-n", "--dry-run", is_flag=True, help="Say what would be downloaded, and to where; download nothing.")
@option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    default="error",
    show_default=True,
    help="Exit with 1 from findings of this severity on.",
)
@option("--build", metavar="BUILD", help="Judge for that build of llama.cpp, in place of the one at hand: b8179.")
@wish_options("plan")
@format_option("text", "json")
@pass_session
def pull(session: Session, /, model: str, extra: tuple[str, ...], **options: Any) -> int:
    """Download a model from the Hugging Face Hub, prove it by its published hash, lint it, and say how to launch it.

    huggingface-hub downloads, to its own cache or to --local-dir, all shards of a set, and the projector that goes with
    the model as `llama-server -hf` takes it along. hf://owner/repo alone means the best quantisation that fits this
    machine, or the memory named, with its projector: see `gguftool plan hf://owner/repo`. What is on this machine
    already, in whatever store, is not downloaded again. The options of `plan` say how it is to be launched.

    Exit code 0: it is here, proven and ready. 1: it is not what was published, llama.cpp would refuse it, or lint found
    something (--fail-on). 5: it does not fit the memory named, or the disk has no room. 6: the network or the Hub
    failed; the same command goes on where it ended.
    """
    from gguftool.api.pulled import pull as get
    from gguftool.cli.verify_steps import terminal
    from gguftool.report import pull as report
    from gguftool.report.progress import Progress as Bar

    stream = terminal(session)
    bars: list[Bar] = []

    def progress(total: int) -> Progress:
        for bar in bars:
            bar.close()
        bars.append(Bar(total, stream))
        return bars[-1]

    try:
        found = get(
            model,
            wished(extra),
            local_dir=options["local_dir"],
            projector=not options["no_mmproj"],
            force=options["force"],
            dry_run=options["dry_run"],
            build=options["build"],
            shown=stream is not None,
            progress=progress,
            tell=session.note,
        )
    finally:
        for bar in bars:
            bar.close()
    code = exit_code(found, options["fail_on"])
    if found.path and any(x.how == "downloaded" for x in (*found.files, *found.beside)):
        session.did(f"downloaded {found.path}", code)
    if session.format == "json":
        session.write_json(ok=code == 0, body=report.json_body(found))
    else:
        session.out("\n".join(report.text(found, session.style)))
    return code


def exit_code(found: Pulled, fail_on: str) -> int:
    """As `verify` and `lint` have it; 5: it does not fit the memory that was named."""
    from gguftool.cli.verify import exit_code as verified
    from gguftool.lint.rule import Severity

    if code := verified(list(found.checks)):
        return code
    report, planned = found.report, found.planned
    failed = planned is not None and bool(planned.refused or planned.left_out or planned.not_loaded)
    if report is not None:
        failed = failed or (report.load is not None and (report.load.ends or bool(report.load.first_error)))
        failed = failed or (fail_on != "never" and report.at_least(Severity(fail_on)) > 0)
    if failed or (found.not_ready and planned is None):
        return 1
    return 5 if planned is not None and planned.fits is False and found.named else 0
