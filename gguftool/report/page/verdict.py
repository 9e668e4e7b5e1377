"""What it comes to: a level, one sentence, and the commands that mend it or lead on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gguftool.api.glance import FAILED, OVER, REFUSED, UNKNOWN, Glance
from gguftool.api.report import Portrait, Reported
from gguftool.facts import llama_cpp
from gguftool.hub import is_remote
from gguftool.hub.place import fetching
from gguftool.lint.rule import Finding, Severity
from gguftool.predict.needs import sentence
from gguftool.report.glance import commands
from gguftool.report.lint import fix_command
from gguftool.report.load import judged_by, load_said
from gguftool.report.text import count, safe, shorten, size
from gguftool.shell import gguftool, path_word, shell

GOOD, WARNING, ERROR = "good", "warning", "error"
LONG = 300
"""Characters of one part of a sentence."""
MOST = 12
"""Commands that are listed."""
Row = dict[str, Any]


def verdict(r: Reported) -> Row:
    """Level, sentence, what there is to add to it, commands."""
    if r.model is not None:
        return _row(_level(r.model), _model(r.model), mending(r.model), _details(r.model))
    return _of_glance(r.glance) if r.glance is not None else _of_fleet(r)


def _row(level: str, parts: Iterable[str], lines: Iterable[Row], details: Iterable[str] = ()) -> Row:
    said = _sentence("; ".join(shorten(part, LONG) for part in parts if part))
    return {
        "level": level,
        "sentence": said,
        "details": [_sentence(shorten(one, LONG)) for one in details if one],
        "commands": list(lines),
    }


def _sentence(text: str) -> str:
    first = text if text.startswith(("llama.cpp", "--")) else f"{text[:1].upper()}{text[1:]}"
    return f"{first.rstrip('.')}."


def command(line: str, why: str, *, rules: Iterable[str] = (), fill_in: bool = False) -> Row:
    """One command; with ``fill_in`` a person must put in a value first."""
    return {"command": line, "why": safe(why), "rules": list(rules), "fill_in": fill_in}


# -- one model


def _level(p: Portrait) -> str:
    load = p.lint.load
    after = load.after_load if load is not None else None
    ends = load is not None and (load.ends or (after is not None and after.outcome not in ("ok", "unknown")))
    stops = any(m.stops for x in p.beside for m in x.misfits)
    if p.overview.faults or ends or stops or p.lint.count(Severity.ERROR):
        return ERROR
    doubts = any(x.misfits for x in p.beside)
    return WARNING if p.lint.count(Severity.WARNING) or doubts else GOOD


def _model(p: Portrait) -> Iterator[str]:
    if p.overview.faults:
        yield "it is not whole"
    if p.lint.load is not None:
        yield load_said(p.lint.load, llama_cpp(p.lint.build))[1]
    for x in p.beside:
        stops = any(m.stops for m in x.misfits)
        yield f"{x.option} {'does not fit' if stops else 'fits badly' if x.misfits else 'fits'}"
    counts = [(p.lint.count(s), _WORD[s]) for s in Severity]
    found = [f"{n} {word}{'s' if n != 1 else ''}" for n, word in counts if n]
    yield f"lint finds {', '.join(found) or 'nothing'}"


_WORD = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def _details(p: Portrait) -> Iterator[str]:
    """What stands behind the sentence, a line each."""
    yield from p.overview.faults[:1]
    if p.lint.load is not None:
        more, by = load_said(p.lint.load, "")[2], judged_by(p.lint.load, p.lint.build)
        yield f"llama.cpp says: {more}{by}" if more and p.lint.load.verdict != "loads" else more or by.strip(" ()")
        yield sentence(p.lint.needs)
    for x in p.beside:
        yield from (f"{x.option}: {m.message}" for m in x.misfits[:1])
        if not x.misfits:
            yield f"{x.option}: it fits, as far as the headers tell"


def mending(p: Portrait) -> list[Row]:
    """The commands that mend it, the worst fault first; each runs as it stands, or says that a value is missing."""
    out: list[Row] = []
    if is_remote(p.overview.path):
        # What mends a file is done where it lies.
        fixable = sum(f.fix is not None for f in p.lint.findings)
        why = f"fetches it: {fixable} of the findings can be mended where it lies" if fixable else "fetches it"
        return [command(fetching(p.overview.path), why)]
    safely = [f for f in p.lint.findings if f.fix is not None and f.fix.safe and f.fix.operations]
    if safely:
        line = gguftool("lint", "--fix", path_word(p.overview.path))
        n = f"mends {len(safely)} finding{'s' if len(safely) != 1 else ''}"
        out.append(command(line, f"{n}, and changes nothing that llama.cpp computes", rules=_rules(safely)))
    for f in p.lint.findings:
        if f.fix is not None and f not in safely:
            line = fix_command(f.fix, f.path, f.rule)
            out.append(command(line, f.fix.title, rules=[f.rule], fill_in=not f.fix.complete))
    if p.overview.faults:
        line = gguftool("verify", path_word(p.overview.path))
        out.insert(0, command(line, "tells what is missing, and how to get it"))
    seen: dict[object, Row] = {}
    for row in out:
        seen.setdefault(row["command"], row)
    return list(seen.values())[:MOST]


def _rules(found: Iterable[Finding]) -> list[str]:
    return list(dict.fromkeys(f.rule for f in found))


# -- several


def _of_glance(g: Glance) -> Row:
    best = g.best()
    standings = {x.standing for x in g.models}
    if best is not None:
        lines = [command(shell(words), f"gets or starts {best.listed.name}") for words in commands(g, best)]
        return _row(GOOD, [f"the best of {len(g.models)} quantisations that fits is {best.listed.name}"], lines)
    some = f"{len(g.models)} quantisations of {len(g.groups)} models" if len(g.groups) > 1 else f"{len(g.models)} files"
    if UNKNOWN in standings or len(g.groups) > 1:
        return _row(GOOD, [some, "name --vram and --ram to see which fits" if UNKNOWN in standings else ""], ())
    over = next((x for x in g.models if x.standing == OVER), None)
    if over is not None:
        offers = [command(shell(x.words), f"with {x.what}") for x in g.offers.get(over.kin, ())]
        least = f"none of {some} fits: the least over is {over.listed.name}, by {size(over.over)}"
        return _row(WARNING, [least], offers)
    bad = sum(x.standing in (REFUSED, FAILED) for x in g.models)
    return _row(ERROR, [f"{some}, of which {bad} cannot be used"], ())


def _of_fleet(r: Reported) -> Row:
    rows = r.rows
    whole, loads = sum(bool(row["ok"]) for row in rows), sum(row["load"] in ("loads", "warns") for row in rows)
    bad = [row for row in rows if not row["ok"] or (row["lint"] or {}).get("error")]
    parts = [f"{count(len(rows) + r.more)} models", f"{count(whole)} are whole", f"{llama_cpp()} loads {count(loads)}"]
    if r.more:
        parts.insert(1, f"of the {count(len(rows))} that are shown")
    level = ERROR if bad else WARNING if any((row["lint"] or {}).get("warning") for row in rows) else GOOD
    lines = [command(gguftool("report", path_word(str(row["path"]))), "a page on this one") for row in bad[:MOST]]
    return _row(level, [*parts, f"{count(len(bad))} broken or with errors"] if bad else parts, lines)
