"""A translated command and an explained option, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.report.text import Style, safe
from gguftool.run.flags import FlagAnswer
from gguftool.run.translate import Translation
from gguftool.shell import shell


def shell_line(t: Translation) -> str:
    """The command, quoted for a POSIX shell."""
    return shell(t.argv, environment=t.environment)


def translation_lines(t: Translation, style: Style) -> Iterator[str]:
    """What was changed, and why."""
    for c in t.changes:
        was = style.red(c.was) if c.was else style.dim("(nothing)")
        became = style.green(c.became) if c.became else style.dim("(nothing)")
        yield f"{was} -> {became}: {safe(c.why)}"
    for note in t.notes:
        yield f"{style.dim('note:')} {safe(note)}"


def translation_json(t: Translation) -> dict[str, object]:
    """The fields of a translation."""
    return {
        "command": list(t.argv),
        "environment": list(t.environment),
        "shell": shell_line(t),
        "changes": [{"was": c.was or None, "became": c.became or None, "why": c.why} for c in t.changes],
        "notes": list(t.notes),
    }


def flag_lines(a: FlagAnswer, style: Style) -> Iterator[str]:
    """What an option means, or what a wrong one was meant to be."""
    build = f" ({safe(a.build)})" if a.build else ""
    if a.exists:
        yield style.bold(", ".join(a.names)) + (f" {safe(a.value)}" if a.value else "") + build
        yield f"  {safe(a.meaning)}" if a.meaning else "  no note; llama-server --help says more"
    else:
        yield f"{style.bold(a.flag)}: {style.red('no option of llama.cpp')}{build}"
        yield f"  {safe(a.why)}"
        if a.becomes:
            yield f"  write {style.green(a.becomes)}"
        elif not a.near:
            yield "  leave it out"
        if a.becomes and a.meaning:
            yield f"  {safe(a.meaning)}"
        if a.near:
            yield f"  did you mean {safe(' or '.join(a.near))}?"
    if a.exists and (a.env or a.default):
        parts = ([f"default {a.default}"] if a.default else []) + ([f"environment {a.env}"] if a.env else [])
        yield f"  {safe('; '.join(parts))}"


def flag_json(a: FlagAnswer) -> dict[str, object]:
    """The fields of an explained option."""
    return {
        "flag": a.flag,
        "exists": a.exists,
        "names": list(a.names),
        "value": a.value or None,
        "environment": a.env or None,
        "default": a.default or None,
        "meaning": a.meaning or None,
        "instead": a.becomes or None,
        "why": a.why or None,
        "near": list(a.near),
        "build": a.build or None,
    }
