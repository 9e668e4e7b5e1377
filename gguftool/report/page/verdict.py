"""What it comes to, in one sentence, and the commands that mend it."""

from __future__ import annotations

from gguftool.api.report import Portrait, Reported
from gguftool.lint.rule import Finding, Severity
from gguftool.report.lint import fix_command, load_line
from gguftool.report.text import Style, safe, shorten
from gguftool.shell import gguftool, path_word

LONG = 300
"""Characters of a sentence."""
MOST = 12
"""Commands that are listed."""


def sentence(p: Portrait) -> str:
    """Whether llama.cpp loads it, whether it is whole, and the worst that was found."""
    parts = []
    if p.overview.faults:
        parts.append(f"It is not whole: {p.overview.faults[0]}")
    if p.lint.load is not None:
        line = load_line(p.lint.load, Style(), p.lint.needs, p.lint.build).removeprefix("load").strip()
        parts.append(line)
    stops = next((m for x in p.beside for m in x.misfits if m.stops), None)
    if stops is not None:
        parts.append(f"what is to stand beside it does not fit: {stops.message}")
    worst = next(iter(p.lint.findings), None)
    counts = [(p.lint.count(s), s.value) for s in Severity]
    found = ", ".join(f"{n} {word}{'s' if n != 1 and word != 'info' else ''}" for n, word in counts if n)
    if worst is None:
        parts.append("nothing is wrong with it that lint knows of")
    else:
        parts.append(f"{found}" + (f", first: {worst.message}" if worst.severity is not Severity.INFO else ""))
    text = "; ".join(shorten(part, LONG) for part in parts)
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def mending(p: Portrait) -> list[dict[str, object]]:
    """The commands that mend it, the worst fault first; each runs as it stands, or says that a value is missing."""
    out: list[dict[str, object]] = []
    safely = [f for f in p.lint.findings if f.fix is not None and f.fix.safe and f.fix.operations]
    if safely:
        line = gguftool("lint", "--fix", path_word(p.overview.path))
        out.append(_row(line, f"mends {len(safely)} of the findings; changes nothing that llama.cpp computes", safely))
    for f in p.lint.findings:
        if f.fix is None or f in safely:
            continue
        out.append(_row(fix_command(f.fix, f.path, f.rule), f.fix.title, [f], complete=f.fix.complete))
    seen: dict[object, dict[str, object]] = {}
    for row in out:
        seen.setdefault(row["command"], row)
    return list(seen.values())[:MOST]


def _row(line: str, what: str, found: list[Finding], *, complete: bool = True) -> dict[str, object]:
    rules = list(dict.fromkeys(f.rule for f in found))
    return {"command": line, "what": safe(what), "rules": rules, "fill_in": not complete}


def several_sentence(r: Reported) -> str:
    """What the models of a fleet come to."""
    rows = r.rows
    whole = sum(bool(row["ok"]) for row in rows)
    bad = sum(1 for row in rows if (row["lint"] or {}).get("error"))
    return f"{len(rows) + r.more:,} models; {whole:,} of the {len(rows):,} shown are whole, {bad:,} have errors."
