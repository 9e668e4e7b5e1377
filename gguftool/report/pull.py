"""What `gguftool pull` got, as text and as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby

from gguftool.api.pulled import ELSEWHERE, HERE, MISSING, Got, Pulled
from gguftool.lint.rule import Severity
from gguftool.report.load import load_json, load_line
from gguftool.report.text import Style, count, safe, size
from gguftool.report.verify import file_json
from gguftool.shell import gguftool, path_word, shell


def text(p: Pulled, style: Style) -> Iterator[str]:
    """The screen: which, where it lies, proven or not, lint, plan, and the line that starts it where it is ready."""
    total = sum(x.record.size for x in (*p.files, *p.beside))
    yield f"{style.bold(safe(p.spec))}   {size(total)}" + (style.dim(f"   {safe(p.chosen)}") if p.chosen else "")
    for how, group in groupby((*p.files, *p.beside), key=_place):
        yield f"  {how}"
        yield from (f"    {safe(os.path.basename(x.path) or x.record.path)}" for x in group)
    if not p.path:
        yield f"{size(p.needed)} to download; nothing was (--dry-run)"
        return
    yield _proof(p, style)
    for check in p.checks:
        for fault in (f for report in check.files for f in report.faults):
            yield f"  {style.red(fault.kind)}: {safe(fault.message)}"
    if p.report is not None:
        yield f"lint     {_counts(p, style)}"
        if p.report.load is not None:
            yield f"{load_line(p.report.load, style, p.report.needs, p.report.build)}"
    if p.planned is not None:
        plan = p.planned.memory
        fits = style.green("fits") if plan.fits else style.red("does not fit") if plan.fits is False else "takes"
        c, s = plan.cache.context, plan.settings
        yield f"memory   {fits}: {size(plan.total)} in all, context {count(c.requested)}, cache {s.type_k}/{s.type_v}"
    yield ""
    if p.not_ready:
        yield style.red("not ready to be launched") if p.launch else style.red("not sound")
        yield from (f"  {safe(why)}" for why in p.not_ready)
    elif p.launch:
        yield style.bold("launch")
        yield f"  {shell(p.launch)}"


def _place(x: Got) -> str:
    folder = safe(os.path.dirname(x.path))
    said = {
        HERE: f"here already, in {folder}",
        ELSEWHERE: f"here already, in {folder} ({x.store})",
        MISSING: "not here",
    }
    return said.get(x.how, f"downloaded to {folder}")


def _proof(p: Pulled, style: Style) -> str:
    files = [report for check in p.checks for report in check.files]
    if p.proven is False:
        return style.red("verify   not what was published")
    if p.proven is None:
        return style.yellow(f"verify   not proven: nobody publishes a sha256 of {safe((*p.unproven, p.path)[0])}")
    what = "its sha256 is" if len(files) == 1 else f"the sha256 of all {len(files)} files are"
    return style.green(f"verify   proven: {what} as published")


def _counts(p: Pulled, style: Style) -> str:
    if p.report is None:
        return ""
    found = {s: p.report.count(s) for s in (Severity.ERROR, Severity.WARNING) if p.report.count(s)}
    if not found:
        return style.green("nothing found")
    said = ", ".join(f"{n} {s.value}{'s' if n > 1 else ''}" for s, n in found.items())
    paint = style.red if Severity.ERROR in found else style.yellow
    return f"{paint(said)}: {gguftool('lint', path_word(p.called))}"


# -- JSON


def json_body(p: Pulled) -> dict[str, object]:
    """The command's own fields of the envelope."""
    report, plan = p.report, p.planned.memory if p.planned is not None else None
    return {
        "address": p.spec,
        "path": p.path or None,
        "files": [_got_json(x) for x in p.files],
        "beside": [_got_json(x) for x in p.beside],
        "chosen": p.chosen or None,
        "to_download": p.needed,
        "proven": p.proven if p.checks else None,
        "verify": [file_json(r) for check in p.checks for r in check.files],
        "lint": {str(s): report.count(s) for s in Severity} if report is not None else None,
        "load": load_json(report.load) if report is not None and report.load is not None else None,
        "plan": None
        if plan is None
        else {
            "fits": plan.fits,
            "context": plan.cache.context.requested,
            "type_k": plan.settings.type_k,
            "type_v": plan.settings.type_v,
            "total": plan.total,
        },
        "launch": list(p.launch) if p.launch and not p.not_ready else None,
        "not_ready": list(p.not_ready),
    }


def _got_json(x: Got) -> dict[str, object]:
    return {
        "name": x.record.path,
        "size": x.record.size,
        "sha256": x.record.sha256,
        "path": x.path or None,
        "how": x.how,
        "store": x.store or None,
    }
