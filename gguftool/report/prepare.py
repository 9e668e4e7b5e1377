"""The final report of prepare: steps, sizes, times, findings, the launch command."""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.build.pipeline import Done
from gguftool.build.prepare import Request
from gguftool.report.text import Style, safe, table
from gguftool.shell import gguftool, path_word, shell


def prepared_text(request: Request, done: Sequence[Done], ok: bool, style: Style) -> str:
    """One line a step, then what to do next."""
    rows = []
    for d in done:
        mark = style.red("stopped") if not d.ok else style.dim("earlier") if d.skipped else style.green("done")
        rows.append([d.name, mark, f"{d.seconds:.1f} s", safe(d.summary)])
    lines = [table(rows, ["step", "", "time", "result"], align="llrl", style=style)]
    for d in done:
        said = d.data.get("notes") or d.data.get("warnings")
        if isinstance(said, list) and d.name in ("convert", "quantize"):
            lines += [f"  {style.yellow('note')}  {d.name}: {safe(str(text))}" for text in said]
        left = d.data.get("left")
        for one in left if isinstance(left, list) else ():
            rest = f" and {one['count'] - 1:,} more" if one["count"] > 1 else ""
            said = f"{one['what']} ({one['names'][0]}{rest}): {one['why']}" + (f"; {one['way']}" if one["way"] else "")
            lines.append(f"  {style.yellow('left out')}  {safe(said)}")
    lines += [line for d in done if d.name == "convert" for line in _checks(d, style)]
    lint = next((d for d in done if d.name == "lint"), None)
    findings = lint.data.get("findings") if lint else None
    if isinstance(findings, list):
        for f in findings[:10]:
            word = style.red if f["severity"] == "error" else style.yellow
            lines.append(f"  {word(str(f['severity']))}  {safe(str(f['rule']))}: {safe(str(f['message']))}")
    command = _command(done)
    if not ok:
        last = done[-1]
        lines += ["", f"{style.red('stopped')} at {last.name}; its log: {safe(last.log)}"]
        kept = str(last.data.get("path")) if last.name == "convert" else request.draft
        lines.append(f"the draft is kept: {safe(kept)}")
        if last.name == "lint":
            if not last.data.get("failed_rules"):
                lines.append("the same command with --fail-on error goes on with warnings")
            if isinstance(findings, list) and findings:
                lines.append(f"what a finding means: {gguftool('rules', str(findings[0]['rule']))}")
    elif command:
        lines += ["", f"{style.bold(request.output)} is ready. Start it:", f"  {shell(command)}"]
        lines.append(f"or let it be checked on the way: {gguftool('launch', path_word(request.output))}")
    elif why := _not_ready(done):
        lines += ["", f"{style.bold(request.output)} is made, but {safe('; '.join(why))}"]
        lines.append(f"what fits: {gguftool('plan', path_word(request.output))}")
    return "\n".join(lines)


def _checks(done: Done, style: Style) -> list[str]:
    """What was found in the converted file, and what could not be looked at."""
    rows = done.data.get("checks")
    lines = []
    for c in rows if isinstance(rows, list) else []:
        if c["verdict"] == "unjudged":
            lines.append(f"  {style.dim('not checked')}  {c['name']}: {safe(str(c['summary']))}")
        for fault in c["faults"]:
            lines.append(f"  {style.red('fault')}  {safe(str(fault['kind']))}: {safe(str(fault['message']))}")
            if fault["hint"]:
                lines.append(f"         {safe(str(fault['hint']))}")
    return lines


def prepared_json(request: Request, done: Sequence[Done]) -> dict[str, object]:
    """The same as data."""
    return {
        "source": request.source,
        "output": request.output,
        "work_folder": request.folder,
        "seconds": round(sum(d.seconds for d in done if not d.skipped), 3),
        "steps": [
            {
                "name": d.name,
                "ok": d.ok,
                "skipped": d.skipped,
                "seconds": round(d.seconds, 3),
                "summary": d.summary,
                "log": d.log,
                "data": dict(d.data),
            }
            for d in done
        ],
        "command": _command(done),
    }


def _command(done: Sequence[Done]) -> list[str] | None:
    return _planned(done, "command") or None


def _not_ready(done: Sequence[Done]) -> list[str]:
    return _planned(done, "not_ready")


def _planned(done: Sequence[Done], what: str) -> list[str]:
    plan = next((d for d in done if d.name == "plan"), None)
    found = plan.data.get(what) if plan else None
    return [str(word) for word in found] if isinstance(found, list) else []
