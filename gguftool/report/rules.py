"""The catalogue of rules and the explanation of keys, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gguftool.report.lines import paragraph
from gguftool.report.text import Style, safe, table
from gguftool.shell import gguftool

if TYPE_CHECKING:
    from gguftool.lint.catalogue import Described
    from gguftool.lint.explain import Explanation
    from gguftool.lint.rule import Rule

NOBODY = "no part of llama.cpp"


def rule_list(rules: Sequence[Described], style: Style) -> Iterator[str]:
    """All rules, family by family."""
    families: dict[str, list[Described]] = {}
    for r in rules:
        families.setdefault(r.family, []).append(r)
    left = max((len(r.id) for r in rules), default=0)
    for name, members in families.items():
        yield f"{style.bold(name)}  {style.dim(f'{len(members)} rules')}"
        rows = [(r.id.ljust(left), _severity(r, style), r.title) for r in members]
        yield table(rows, indent="  ")
        yield ""
    one = f". One in full: {gguftool('rules', rules[0].id)}" if rules else ""
    yield style.dim(f"{len(rules)} rules{one}")


def _severity(r: Described, style: Style) -> str:
    paint = {"error": style.red, "warning": style.yellow, "info": style.cyan}[r.severity.value]
    return paint(f"{r.severity.value:<7}")


def rule_text(r: Described, style: Style) -> Iterator[str]:
    """One rule in full."""
    yield f"{style.bold(r.id)}  {_severity(r, style).rstrip()}  {style.dim(f'family {r.family}, since {r.since}')}"
    yield ""
    yield f"  {r.title}."
    for name, body in r.sections.items():
        yield ""
        yield paragraph(f"  {name.capitalize():<10}", body, 12)
    yield ""
    scope = {
        "header": "the header alone, so it works on remote files",
        "file": "the header and the size of the file",
        "data": "the tensor data; runs with --data only",
        "set": "all shards",
        "source": "the source folder; runs with --against only",
    }[r.scope.value]
    yield style.dim(f"  Looks at {scope}.")
    if not r.changes_run:
        yield style.dim("  Changes no run of llama.cpp: launch tells it and starts.")


def rule_json(r: Described | Rule) -> dict[str, object]:
    """One rule as JSON."""
    parts = r.sections
    return {
        "id": r.id,
        "family": r.family,
        "severity": r.severity.value,
        "scope": r.scope.value,
        "since": r.since,
        "changes_run": r.changes_run,
        "title": r.title,
        **{name: parts.get(name, "") for name in ("why", "evidence", "example", "fix")},
    }


def explanation_lines(e: Explanation, style: Style) -> Iterator[str]:
    """A key in words."""
    yield style.bold(e.key)
    yield ""
    yield paragraph("  ", safe(e.meaning), 2)
    yield ""
    for label, text in explanation_rows(e):
        if label == "read by" and not e.llama_cpp:
            yield f"  {label:<13}{style.yellow(text)}"
        else:
            yield paragraph(f"  {label:<13}", text, 15)


def explanation_rows(e: Explanation) -> Iterator[tuple[str, str]]:
    """What there is to say of a key beside its meaning: a label, "" for more of the one before, and the text."""
    yield "type", e.type
    listed = ", ".join(e.architectures[:5]) + (" …" if e.architectures[5:] else "")
    yield "read by", e.llama_cpp or (f"nobody; llama.cpp reads it for {listed}" if listed else NOBODY)
    for other in e.others:
        yield "", other
    if e.condition:
        yield "only when", e.condition
    if e.required:
        yield "required by", e.required


def explanation_json(e: Explanation) -> dict[str, object]:
    """A key as JSON."""
    return {
        "key": e.key,
        "type": e.type,
        "meaning": e.meaning,
        "llama_cpp": bool(e.llama_cpp),
        "readers": [r for r in (e.llama_cpp, *e.others) if r],
        "condition": e.condition or None,
        "architectures": list(e.architectures),
        "required_by": e.required or None,
    }
