"""``gguftool check-log``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from gguftool.cli.options import Session, command, format_option, option, pass_session

if TYPE_CHECKING:
    from gguftool.run.proof import Expected


@command(
    examples="""
    gguftool check-log server.log
    gguftool check-log server.log --expect plan.json
    journalctl -u llama-server -b | gguftool check-log -
    """
)
@click.argument("log", metavar="LOG", type=click.Path(allow_dash=True))
@option("--expect", metavar="FILE", type=click.Path(), help="JSON of `gguftool plan` or `gguftool launch`.")
@format_option("text", "json")
@pass_session
def check_log(session: Session, /, log: str, expect: str | None) -> int:
    """Judge the LOG of a llama.cpp program (- for stdin): did it start, why not, and is it what was planned?"""
    from gguftool.report import proof as report
    from gguftool.run.diagnose import judge
    from gguftool.run.proof import compare, proven

    wanted = _expected(expect) if expect else None
    judged = judge(_read(log))
    checks = compare(wanted, judged) if wanted else []
    ok = judged.status in ("ready", "finished") and proven(checks)
    if session.format == "json":
        session.write_json(ok=ok, body=report.judgement_json(judged, wanted, checks))
    else:
        session.out("\n".join(report.judgement_lines(judged, checks, session.style)))
    return 0 if ok else 1


def _read(log: str) -> str:
    from gguftool.run.files import log_text

    if log == "-":
        stream = getattr(sys.stdin, "buffer", None)
        return stream.read().decode("utf-8", "replace") if stream else sys.stdin.read()
    return log_text(log)


def _expected(path: str) -> Expected:
    from gguftool.run.files import json_object
    from gguftool.run.proof import from_json

    return from_json(json_object(path))
