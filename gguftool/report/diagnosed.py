"""What `diagnose` found, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gguftool.api.diagnosed import Cause, Diagnosed, Looked
from gguftool.report.lint import fix_command
from gguftool.report.text import Style, safe, shorten
from gguftool.run.symptoms import Symptom
from gguftool.shell import gguftool


def next_command(c: Cause) -> str:
    """The command that helps, as it is typed: the fix where it is complete, else what explains the cause."""
    f = c.finding
    if f is not None and f.fix is not None and f.fix.complete and (line := fix_command(f.fix, f.path, f.rule)):
        return line
    return gguftool(*c.next)


def lines(d: Diagnosed, style: Style) -> Iterator[str]:
    """Checks, causes, and what else it may be."""
    asked = f" · {d.symptom.title}" if d.symptom else ""
    yield style.bold(f"{safe(d.path)}{asked}")
    mark = {True: style.green("ok"), False: style.red("!!"), None: style.dim("--")}
    for look in d.looked:
        yield f"  {mark[look.ok]} {look.what}: {shorten(look.result, 200)}"
    yield ""
    if not d.causes:
        yield "no cause was found in the file" + ("" if d.common else f"; {_tell}")
    for number, c in enumerate(d.causes, 1):
        yield from _cause(f"{number}. ", c, style)
    if d.common:
        yield "" if d.causes else "no check here shows these, but they are common:"
        if d.causes:
            yield "also common, and not to be seen from here:"
        yield from common_lines(d.common, style)


_tell = "`--symptom TEXT` says what to look for"


def common_lines(causes: Iterable[Cause], style: Style) -> Iterator[str]:
    """Causes that nothing shows."""
    for c in causes:
        yield from _cause("- ", c, style)


def _cause(mark: str, c: Cause, style: Style) -> Iterator[str]:
    space = " " * len(mark)
    source = style.dim(f" ({c.source})") if c.source else ""
    yield f"{mark}{style.bold(c.name)}: {safe(c.says)}{source}"
    if c.evidence:
        yield f"{space}seen: {shorten(c.evidence, 240)}"
    yield f"{space}{style.cyan('next:')} {next_command(c)}"


def json_body(d: Diagnosed) -> dict[str, object]:
    """The fields of a diagnosis."""
    return {
        "path": d.path,
        "symptom": symptom_json(d.symptom),
        "checks": [_look(x) for x in d.looked],
        "causes": [cause_json(c) for c in d.causes],
        "common": [cause_json(c) for c in d.common],
    }


def _look(x: Looked) -> dict[str, object]:
    return {"what": x.what, "result": x.result, "ok": x.ok}


def symptom_json(s: Symptom | None) -> dict[str, object] | None:
    """A symptom."""
    return None if s is None else {"name": s.name, "title": s.title}


def cause_json(c: Cause) -> dict[str, object]:
    """A cause."""
    return {
        "name": c.name, "says": c.says, "evidence": c.evidence or None, "next": next_command(c),
        "weight": round(c.weight, 1), "source": c.source or None,
    }  # fmt: skip
