"""``gguftool check-log``."""

from __future__ import annotations

import click

from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.streams import stdin_bytes
from gguftool.cli.values import PATH


@command(
    examples="""
    gguftool check-log server.log
    gguftool check-log server.log --expect plan.json
    journalctl -u llama-server -b | gguftool check-log -
    """
)
@click.argument("log", metavar="LOG", type=PATH)
@option("--expect", metavar="FILE", type=PATH, help="JSON of `gguftool plan` or `gguftool launch`.")
@format_option("text", "json")
@pass_session
def check_log(session: Session, /, log: str, expect: str | None) -> int:
    """Judge the LOG of a llama.cpp program (- for stdin): did it start, why not, and is it what was planned?"""
    from gguftool.api.logs import check_log as judge
    from gguftool.report import proof as report
    from gguftool.run.files import LOG_LIMIT

    found = judge(stdin_bytes(LOG_LIMIT) if log == "-" else log, expect)
    if session.format == "json":
        body = report.judgement_json(found.judgement, found.expected, list(found.checks))
        session.write_json(ok=found.ok, body=body)
    else:
        session.out("\n".join(report.judgement_lines(found.judgement, list(found.checks), session.style)))
    return 0 if found.ok else 1
