"""A translated command and an explained option, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.report.text import Style, safe
from gguftool.run.explained import FlagAnswer
from gguftool.run.translation.result import Answer, Kept, Part, Script, Translation
from gguftool.shell import shell


def script_lines(script: Script, style: Style) -> Iterator[str]:
    """What was changed in each command, and why; what stands for one of another program."""
    several = len(script.parts) > 1
    for note in script.notes:
        yield f"{style.dim('note:')} {safe(note)}"
    for part in script.parts:
        if several and not isinstance(part, Kept):
            yield style.bold(safe(part.line or shell(part.argv) if isinstance(part, Translation) else part.given))
        if isinstance(part, Translation):
            yield from translation_lines(part, style)
        elif isinstance(part, Answer):
            yield f"{safe(part.given)}: {safe(part.why)}" if not several else f"  {safe(part.why)}"
            if part.way:
                yield f"  {safe(part.way)}"


def translation_lines(t: Translation, style: Style) -> Iterator[str]:
    """What was changed, and why."""
    for c in t.changes:
        was = style.red(c.was) if c.was else style.dim("(nothing)")
        became = style.green(c.became) if c.became else style.dim("(nothing)")
        lost = f" {style.red('lost:')}" if c.lost else ""
        yield f"{was} -> {became}:{lost} {safe(c.why)}"
    for note in t.notes:
        yield f"{style.dim('note:')} {safe(note)}"
    for why in t.stops:
        yield f"{style.red('no command')}: it would not start here: {safe(why)}"


def script_json(script: Script) -> dict[str, object]:
    """The fields of a text: the one command of llama.cpp on top, where there is one alone, and every command."""
    found = [part for part in script.parts if isinstance(part, Translation)]
    first = translation_json(found[0]) if len(found) == 1 else _NOTHING
    return {
        **first,
        "text": script.text,
        "lost": script.lost,
        "read": list(script.notes),
        "commands": [_part_json(part) for part in script.parts],
    }


_NOTHING: dict[str, object] = {"command": [], "environment": [], "shell": "", "changes": [], "notes": [], "stops": []}


def _part_json(part: Part) -> dict[str, object]:
    if isinstance(part, Translation):
        return {"kind": "translated", "lost": part.lost, **translation_json(part)}
    if isinstance(part, Answer):
        kind = "instead" if part.argv else "refused"
        said = {"given": part.given, "command": list(part.argv), "shell": part.line, "why": part.why}
        return {"kind": kind, "lost": part.lost, **said, "way": part.way or None}
    return {"kind": "kept", "lost": False, "shell": part.line}


def translation_json(t: Translation) -> dict[str, object]:
    """The fields of a translation."""
    return {
        "command": [*t.prefix, *t.argv],
        "environment": list(t.environment),
        "shell": t.line,
        "dialect": t.dialect,
        "changes": [
            {"was": c.was or None, "became": c.became or None, "why": c.why, "lost": c.lost} for c in t.changes
        ],
        "notes": list(t.notes),
        "stops": list(t.stops),
    }


def flag_lines(a: FlagAnswer, style: Style) -> Iterator[str]:
    """What an option means and whose it is, or what a wrong one was meant to be."""
    build = f" ({safe(a.build)})" if a.build else ""
    whose = f"{a.kind or 'option'} of {a.whose}" if a.whose else ""
    if a.exists:
        yield style.bold(safe(", ".join(a.names))) + (f" {safe(a.value)}" if a.value else "") + build
        yield f"  {safe(whose)}"
        yield f"  {safe(a.meaning)}" if a.meaning else "  no note; --help of the program says more"
        if a.becomes:
            yield f"  write {style.green(a.becomes)}"
    elif a.whose and a.why != _REMOVED:
        old = "an old or wrong " if a.whose.startswith("llama.cpp's") else "an " if a.kind == "option" else "a "
        yield f"{style.bold(safe(a.flag))}: {old}{safe(whose)}"
        yield f"  {safe(a.why)}"
        if a.becomes:
            yield f"  here: {style.green(a.becomes)}"
        if a.becomes and a.meaning:
            yield f"  {safe(a.meaning)}"
    else:
        none = (
            "no option of llama.cpp"
            if a.becomes or a.why == _REMOVED or not a.why.startswith(_UNKNOWN)
            else "not known"
        )
        yield f"{style.bold(safe(a.flag))}: {style.red(none)}{build}"
        yield f"  {safe(a.why)}"
        if a.becomes:
            yield f"  write {style.green(a.becomes)}"
        elif not a.near and none != "not known":
            yield "  leave it out"
        if a.becomes and a.meaning:
            yield f"  {safe(a.meaning)}"
        if a.near:
            yield f"  did you mean {safe(' or '.join(a.near))}?"
    if a.exists and (a.env or a.default):
        parts = ([f"default {a.default}"] if a.default else []) + ([f"environment {a.env}"] if a.env else [])
        yield f"  {safe('; '.join(parts))}"


_REMOVED = "It has been removed."
_UNKNOWN = "It is not an option of the programs known here"


def flag_json(a: FlagAnswer) -> dict[str, object]:
    """The fields of an explained option."""
    return {
        "flag": a.flag,
        "exists": a.exists,
        "kind": a.kind or None,
        "whose": a.whose or None,
        "programs": list(a.programs),
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
