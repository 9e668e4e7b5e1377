"""``gguftool explain``: what a metadata key means, or an option of llama.cpp."""

from __future__ import annotations

import click

from gguftool.cli.options import Session, command, format_option, option, pass_session


@command(
    examples="""
    gguftool explain general.alignment
    gguftool explain context_length            the architecture prefix may be left out
    gguftool explain qwen2.rope.freq_base
    gguftool explain kv_cache_type             who reads it, and who does not
    gguftool explain --flag=-fa                an option of llama-server
    gguftool explain --flag=--kv-cache-block-size
                                               one from an article: what was it meant to be?
    """
)
@click.argument("key", metavar="KEY", required=False)
@option("--flag", metavar="OPTION", help="Explain an option, build switch or variable instead, llama.cpp's or not.")
@option("--llama-cpp", metavar="PATH", help="The llama.cpp to ask: its folder, or a program of it.")
@format_option("text", "json")
@pass_session
def explain(session: Session, /, key: str | None, flag: str | None, llama_cpp: str | None) -> int:
    """Say what a metadata key means, its type, and who reads it: llama.cpp, gguftool, or nobody."""
    if flag is not None:
        return _flag(session, flag, llama_cpp)
    if key is None:
        raise click.UsageError("Missing argument 'KEY'.")
    from gguftool.lint.explain import explain as look_up
    from gguftool.report import rules as report

    found = look_up(key)
    if session.format == "json":
        session.write_json(ok=True, body=report.explanation_json(found))
    else:
        session.out("\n".join(report.explanation_lines(found, session.style)))
    return 0


def _flag(session: Session, flag: str, llama_cpp: str | None) -> int:
    from gguftool.errors import ToolFailed
    from gguftool.programs import SERVER, find
    from gguftool.report import translate as report
    from gguftool.run.capabilities import capabilities
    from gguftool.run.explained import explain_flag

    tool = find(SERVER, llama_cpp)
    try:
        answer = explain_flag(flag, capabilities(tool) if tool else None)
    except ToolFailed:
        answer = explain_flag(flag)
    if session.format == "json":
        session.write_json(ok=True, body=report.flag_json(answer))
    else:
        session.out("\n".join(report.flag_lines(answer, session.style)))
    return 0
