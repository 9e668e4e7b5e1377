"""What `gguftool verify` found, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gguftool.report.text import Style, count, safe, size

if TYPE_CHECKING:
    from gguftool.verify.names import Renaming
    from gguftool.verify.repair import Repaired
    from gguftool.verify.result import Fault, FileReport, SetReport, Verification


def text(results: Sequence[Verification], style: Style) -> str:
    """A paragraph for every file and set, and a last line that counts them."""
    lines: list[str] = []
    for result in results:
        for report in result.files:
            lines += _file(report, style)
        if result.set is not None:
            lines += _set(result.set, style)
    files = sum(len(result.files) for result in results)
    if files > 1:
        bad = sum(not report.ok for result in results for report in result.files)
        sets = sum(result.set is not None and not result.set.ok for result in results)
        total = f"{files} files: {files - bad} ok, {bad} with faults" + (
            f"; {sets} set{'s' if sets > 1 else ''} with faults" if sets else ""
        )
        lines.append(style.green(total) if not bad and not sets else style.red(total))
    return "\n".join(lines) + "\n"


def _file(report: FileReport, style: Style) -> list[str]:
    what = (
        f"GGUF v{report.version}, {count(report.tensors)} tensor{'s' if report.tensors != 1 else ''}"
        if report.version
        else ""
    )
    mark = style.green("ok") if report.ok else style.red("FAULT")
    facts = ", ".join(part for part in (size(report.size), what, "checked " + " and ".join(report.checked)) if part)
    lines = [f"{mark}  {style.bold(report.path)}  {style.dim(facts)}"]
    if report.sha256:
        lines.append(f"    sha256 {report.sha256}")
    return lines + _faults(report.faults, report.notes, style)


def _set(found: SetReport, style: Style) -> list[str]:
    mark = style.green("ok") if found.ok else style.red("FAULT")
    line = f"{mark}  set of {found.count} shards, {found.present} present"
    return [line, *_faults(found.faults, found.notes, style)]


def _faults(faults: Iterable[Fault], notes: Iterable[Fault], style: Style) -> list[str]:
    lines = []
    for paint, group in ((style.red, faults), (style.yellow, notes)):
        for fault in group:
            where = "" if fault.where in ("file", "set") else f" [{safe(fault.where)}]"
            colour = style.green if fault.kind.endswith("-ok") else paint
            lines.append(f"    {colour(fault.kind)}{where}: {safe(fault.message)}")
            if fault.hint:
                lines.append(f"      {style.cyan('->')} {safe(fault.hint)}")
    return lines


def body(results: Sequence[Verification]) -> dict[str, object]:
    """The fields of the JSON object; ``set`` is that of the first set, ``sets`` has all."""
    sets = [_set_json(result.set) for result in results if result.set is not None]
    return {
        "files": [file_json(report) for result in results for report in result.files],
        "set": sets[0] if sets else None,
        "sets": sets,
    }


def renames_text(renamings: Iterable[Renaming], done: bool, style: Style) -> str:
    """A line for every file with its new name."""
    lines = []
    for renaming in renamings:
        verb = ("linked" if done else "would link") if renaming.link else ("renamed" if done else "would rename")
        lines += [f"{style.cyan(verb)}  {safe(old)}  ->  {safe(new)}\n" for old, new in renaming.pairs]
    return "".join(lines)


def repairs_text(done: Iterable[Repaired], style: Style) -> str:
    """A line for every repaired file."""
    lines = []
    for r in done:
        names = ", ".join(d.name or f"bytes {d.start:,} to {d.end:,}" for d in r.ranges[:4])
        more = f" and {len(r.ranges) - 4} more" if len(r.ranges) > 4 else ""
        proof = "proven by its hash" if r.proven else "no hash was there to prove it"
        what = f"{count(r.fetched)} bytes fetched ({names}{more})" if r.ranges else "cut to its length"
        lines.append(f"{style.green('repaired')}  {safe(r.path)}: {safe(what)}; {proof}\n")
    return "".join(lines)


def repairs_body(done: Iterable[Repaired]) -> dict[str, object]:
    """JSON fields of ``--repair-from``."""
    return {
        "repaired": [
            {
                "path": r.path,
                "ranges": [{"start": d.start, "end": d.end, "name": d.name} for d in r.ranges],
                "fetched": r.fetched,
                "sha256": r.sha256,
                "proven": r.proven,
            }
            for r in done
        ]
    }


def renames_body(renamings: Iterable[Renaming], done: bool) -> dict[str, object]:
    """JSON fields of ``--repair-names``."""
    pairs = [(r.link, old, new) for r in renamings for old, new in r.pairs]
    return {"renames": [{"old": old, "new": new, "link": link, "done": done} for link, old, new in pairs]}


def file_json(report: FileReport) -> dict[str, object]:
    """One file."""
    return {
        "path": report.path,
        "ok": report.ok,
        "size": report.size,
        "expected_size": report.expected,
        "version": report.version,
        "tensors": report.tensors,
        "checked": list(report.checked),
        "sha256": report.sha256,
        "problems": [fault_json(fault) for fault in report.faults],
        "notes": [fault_json(note) for note in report.notes],
        "damage": [{"start": d.start, "end": d.end, "name": d.name} for d in report.damage],
    }


def _set_json(found: SetReport) -> dict[str, object]:
    return {
        "count": found.count,
        "present": found.present,
        "missing": list(found.missing),
        "ok": found.ok,
        "paths": list(found.paths),
        "problems": [fault_json(fault) for fault in found.faults],
        "notes": [fault_json(note) for note in found.notes],
    }


def fault_json(fault: Fault) -> dict[str, object]:
    """One problem or note."""
    return {
        "kind": fault.kind,
        "message": fault.message,
        "where": fault.where,
        "hint": fault.hint,
        "span": list(fault.span) if fault.span else None,
    }


def errors(results: Sequence[Verification]) -> list[dict[str, object]]:
    """Errors of the envelope: files that are not readable as GGUF."""
    found = [report.error for result in results for report in result.files if report.error is not None]
    return [{"code": e.code, "message": str(e), "hint": e.hint} for e in found]
