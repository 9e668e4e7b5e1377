"""``gguftool explain``: what a metadata key means."""

from __future__ import annotations

import click

from gguftool.cli.options import Session, command, format_option, pass_session


@command(
    examples="""
    gguftool explain general.alignment
    gguftool explain context_length            the architecture prefix may be left out
    gguftool explain qwen2.rope.freq_base
    gguftool explain kv_cache_type             who reads it, and who does not
    """
)
@click.argument("key", metavar="KEY")
@format_option("text", "json")
@pass_session
def explain(session: Session, key: str) -> int:
    """Say what a metadata key means, its type, and who reads it: llama.cpp, gguftool, or nobody."""
    from gguftool.lint.explain import explain as look_up
    from gguftool.report import rules as report

    found = look_up(key)
    if session.format == "json":
        session.write_json(ok=True, body=report.explanation_json(found))
    else:
        session.out("\n".join(report.explanation_lines(found, session.style)))
    return 0
