"""What the screen says, as text for a terminal: everything out of a file goes through `gguftool.report.text.safe`.

Nothing here is ever read as markup: a name may be ``[red]x[/]``, and is shown as that.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from gguftool.api.editing import CONSENTS, Consent, Editing
from gguftool.api.outlook import Judged
from gguftool.edit.schema import brief, type_text
from gguftool.edit.spelled import command, spellable
from gguftool.errors import GgufToolError, UsageError
from gguftool.format.header import Field
from gguftool.format.types import ARR, STR, VALUE_TYPES
from gguftool.lint.explain import explain
from gguftool.lint.rule import Finding
from gguftool.report.edit import how_lines
from gguftool.report.lint import fix_command
from gguftool.report.load import load_line
from gguftool.report.rules import explanation_rows
from gguftool.report.text import Style, safe, safe_lines, shorten

if TYPE_CHECKING:
    from gguftool.edit.changes import Change
    from gguftool.edit.plan import EditPlan

STATES = {"same": " ", "changed": "*", "new": "+", "gone": "-", "absent": " "}
SEVERITIES = {"error": "!", "warning": "?", "info": "i"}
COLOURS = {"error": "bold red", "warning": "yellow", "info": "cyan"}
LONGEST = 4000
"""Characters of one value that are shown at once."""
FIRST = 12
"""Elements of an array that are shown beside its key."""
_PLAIN = Style()


def counted(n: int, what: str) -> str:
    """``1 change``, ``2 changes``."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def value_line(field: Field, limit: int) -> str:
    """A value in a few words."""
    if field.type == ARR or field.type not in VALUE_TYPES:
        return shorten(field.shown(), limit)
    return shorten(brief(field.beginning(4 * limit), 4 * limit), limit)


def key_label(e: Editing, judged: Judged | None, key: str, prefix: str = "") -> Text:
    """A key in the tree: what becomes of it, what is found at it, its name and value."""
    state, found = e.state(key), judged.at(key) if judged is not None else ()
    out = Text(no_wrap=True).append(STATES[state], "bold")
    worst = min(found, key=lambda f: f.severity.rank, default=None)
    if worst is None:
        out.append(" ")
    else:
        out.append(SEVERITIES[worst.severity.value], COLOURS[worst.severity.value])
    name = shorten(key.removeprefix(prefix) or key, 48)
    field = e.field(key)
    out.append(f" {name}", "" if field is not None else "dim strike" if state == "gone" else "dim")
    if field is not None:
        out.append(f"  {value_line(field, 32)}", "cyan")
    else:
        out.append("  deleted" if state == "gone" else "  not there", "dim italic")
    return out


MOST = 1000
"""Keys that a search shows."""


def matching(e: Editing, judged: Judged | None, keys: Sequence[str], text: str) -> list[str]:
    """The keys that a search finds: by a part of the key or of its value, ``!`` with findings, ``*`` that change."""
    text = text.strip().lower()
    if not text:
        return list(keys)
    found = []
    for key in keys:
        if text == "!":
            hit = judged is not None and bool(judged.at(key))
        elif text == "*":
            hit = e.state(key) not in ("same", "absent")
        else:
            field = e.field(key)
            hit = text in key.lower() or (field is not None and text in value_line(field, 200).lower())
        if hit:
            found.append(key)
        if len(found) >= MOST:
            break
    return found


def about_key(e: Editing, judged: Judged | None, key: str) -> Text:
    """All that is known of a key: its value, what it means, who reads it, what is found at it."""
    out, was, now = Text(), e.base.fields.get(key), e.field(key)
    out.append(f"{shorten(key, 400)}\n", "bold")
    state = e.state(key)
    if now is not None:
        _value(out, now)
        out.append(_token(e, now), "cyan")
    if state == "changed" and was is not None:
        out.append(f"changed; it was {value_line(was, 120)} ({type_text(was)})\n", "bold")
    elif state == "new":
        out.append("new, not written yet\n", "bold")
    elif state == "gone" and was is not None:
        out.append(f"deleted, not written yet; it was {value_line(was, 120)} ({type_text(was)})\n", "bold")
    elif state == "absent":
        out.append("not in the file; a adds it\n", "bold")
    out.append("\n")
    try:
        known = explain(key[:400])
        out.append(f"{safe(known.meaning)}\n\n")
        for label, text in explanation_rows(known):
            out.append(f"{label or 'also'}  ", "dim")
            out.append(f"{safe(text)}\n")
    except UsageError as unknown:
        out.append(f"{safe(str(unknown))}\n", "dim")
    for finding in judged.at(key) if judged is not None else ():
        out.append("\n")
        out.append(finding_text(finding))
    return out


def _token(e: Editing, field: Field) -> str:
    """The text of the token that an id names; "" where the value is none."""
    tokens = e.field("tokenizer.ggml.tokens")
    if not field.key.endswith("_token_id") or tokens is None or tokens.element_type != STR:
        return ""
    found = tokens.head(1, field.told, most=400) if isinstance(field.told, int) and field.told >= 0 else []
    return f"the token {shorten(str(found[0]), 100)}\n" if found else "no token has that id\n"


def _value(out: Text, field: Field) -> None:
    if field.type == ARR:
        n = field.count or 0
        out.append(f"{type_text(field)} of {n:,}\n", "dim")
        if field.element_type in VALUE_TYPES:
            for i, value in enumerate(field.head(FIRST, most=400)):
                out.append(f"{i:>6}  {shorten(brief(value, 200), 100)}\n", "cyan")
            if n > FIRST:
                out.append(f"     …  {n - FIRST:,} more: enter shows them\n", "dim")
        return
    if field.type not in VALUE_TYPES:
        out.append(f"{type_text(field)}  {field.shown()}\n", "cyan")
        return
    told = field.beginning(LONGEST * 4)
    text = safe_lines(str(told)[:LONGEST]) if isinstance(told, str) else brief(told)
    out.append(f"{type_text(field)}", "dim")
    if field.type != STR or ("\n" not in text and len(text) < 60):
        out.append(f"  {text}\n", "cyan")
        return
    out.append(f" of {len(field.value_bytes) - field.layout.length_size:,} bytes\n", "dim")
    out.append(text + ("…" if isinstance(told, str) and len(told) > LONGEST else "") + "\n", "cyan")


def finding_text(finding: Finding) -> Text:
    """A finding with what mends it."""
    out = Text()
    severity = finding.severity.value
    out.append(f"{SEVERITIES[severity]} {severity}", COLOURS[severity])
    out.append(f"  {finding.rule}\n", "dim")
    out.append(f"{shorten(finding.message, 600)}\n")
    fix = finding.fix
    if fix is not None and fix.operations:
        out.append(f"x: {shorten(fix.title, 300)}{' (safe)' if fix.safe else ''}\n", "green")
    elif fix is not None:
        out.append(
            f"{shorten(fix.title, 300)}: {shorten(fix_command(fix, finding.path, finding.rule), 300)}\n", "green"
        )
    return out


def finding_line(finding: Finding) -> Text:
    """A finding in one line."""
    severity = finding.severity.value
    out = Text(no_wrap=True, overflow="ellipsis").append(f"{SEVERITIES[severity]} ", COLOURS[severity])
    return out.append(shorten(finding.message, 300))


def top_line(e: Editing) -> Text:
    """The model, and how many changes wait."""
    base = e.base
    out = Text(no_wrap=True, overflow="ellipsis")
    out.append(shorten(os.path.basename(base.path) or base.path, 60), "bold")
    out.append(f"  {shorten(e.model.architecture or 'no architecture', 24)}", "dim")
    if base.refusal is not None:
        out.append("  read-only", "bold yellow")
    if e.steps:
        out.append(f"  {counted(len(e.steps), 'change')} not written", "bold")
    if base.undoable:
        out.append(f"  {counted(base.undoable, 'edit')} on record", "dim")
    return out


def load_text(judged: Judged | None) -> Text:
    """What llama.cpp does with the file as it would be."""
    if judged is None:
        return Text("looking …", "dim")
    report = judged.report
    if judged.harm is not None:
        return Text(safe(f"harm: {judged.harm}"), "bold red")
    if report.load is None:
        return Text("")
    said = " ".join(load_line(report.load, _PLAIN, report.needs).split())
    style = "red" if report.load.ends else "yellow" if not report.load.ok else "green"
    return Text(said.removeprefix("load "), style, no_wrap=True, overflow="ellipsis")


# -- what would be written


def plan_text(e: Editing, plan: EditPlan, judged: Judged | None, consents: frozenset[Consent] = frozenset()) -> Text:
    """What ``gguftool fix --dry-run`` says of the changes, value by value."""
    out = Text()
    for change in plan.changes:
        _change(out, change)
    if not plan.changes:
        out.append("no key differs\n", "dim")
    out.append("\n")
    if judged is not None and judged.before.load is not None and judged.report.load is not None:
        for when, report in (("now  ", judged.before), ("after", judged.report)):
            if report.load is not None:
                out.append(f"{when}  {' '.join(load_line(report.load, _PLAIN).split()).removeprefix('load ')}\n")
    for line in how_lines(plan):
        out.append(f"{line}\n")
    for note in plan.notes:
        out.append(f"note: {safe(note)}\n", "yellow")
    if line := as_command(e, consents):
        out.append("\nthe same as a command:\n", "dim")
        out.append(line + "\n", "cyan")
    return out


def as_command(e: Editing, consents: frozenset[Consent] = frozenset()) -> str:
    """The changes as one command; "" where no options say them."""
    if not all(map(spellable, e.operations)):
        return ""
    given = [c.option for c in CONSENTS if c in consents | e.consents]
    line = " ".join([command(e.operations, e.base.path, e.base.header), *given])
    return line if len(line) <= LONGEST else ""


def _change(out: Text, change: Change) -> None:
    kind = f"{change.old_type} → {change.type}" if change.old_type else change.type
    out.append(f"{shorten(change.key, 200)}", "bold")
    out.append(f"  {kind}\n", "dim")
    if isinstance(change.old, str) and isinstance(change.new, str) and "\n" in change.old + change.new:
        for line in _difference(change.old, change.new):
            out.append(f"  {line}\n", "green" if line[:1] == "+" else "red" if line[:1] == "-" else "dim")
        return
    for sign, value, style in (("-", change.old, "red"), ("+", change.new, "green")):
        if value is not None:
            out.append(f"  {sign} {shorten(brief(value, 400), 400)}\n", style)


def _difference(old: str, new: str) -> Iterator[str]:
    lines = difflib.unified_diff(old[: 16 * LONGEST].split("\n"), new[: 16 * LONGEST].split("\n"), n=1, lineterm="")
    for i, line in enumerate(lines):
        if i >= 100:
            yield "…"
            return
        if i > 1:
            yield shorten(line, 200)


def error_text(error: GgufToolError, ways: Sequence[Consent] = ()) -> Text:
    """An error, its hint, and what may be insisted on."""
    out = Text()
    out.append(f"{safe_lines(str(error))}\n", "bold red")
    if error.hint:
        out.append(f"{safe_lines(error.hint)}\n")
    for i, way in enumerate(ways, 1):
        out.append(f"\n{i}", "bold")
        out.append(f"  {way.words} ({way.option})")
    return out
