"""Text and JSON for convert, quantize and prepare."""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.api.converted import Converted
from gguftool.build.folder.look import Folder
from gguftool.build.judged import Check
from gguftool.build.left import Left, rows
from gguftool.build.plan import QuantizePlan
from gguftool.build.quantize import Quantized
from gguftool.build.sizes import Size
from gguftool.lint.rule import Severity
from gguftool.lint.run import Report as LintReport
from gguftool.report.progress import clock
from gguftool.report.text import Style, safe, size, table
from gguftool.shell import gguftool, path_word

MOST_FAULTS = 10
"""Faults of one check that are shown."""


def plan_text(plan: QuantizePlan, path: str, engine: str, style: Style) -> str:
    """What quantising will give: totals, the mix, the tensors that fall back."""
    lines = [
        f"{style.bold(path)} as {plan.target.name} by {safe(engine)}",
        f"  size    {plan.file_size:,} bytes ({size(plan.file_size)}), {plan.bits_per_weight:.2f} bits per weight"
        f" (now {size(plan.source_size)})",
    ]
    if len(plan.outputs) > 1:
        lines.append(f"  files   {len(plan.outputs)}: {', '.join(size(made.size) for made in plan.outputs)}")
    total = max(1, plan.data_size)
    mix = ", ".join(f"{name} {100 * n / total:.0f}%" for name, n in plan.mix.items() if n * 200 >= total)
    lines.append(f"  types   {mix}")
    fallen = plan.fallbacks
    if fallen:
        lines.append(f"  {style.yellow('fallback')}  {len(fallen)} of {len(plan.steps)} tensors:")
        groups: dict[tuple[int, str, str], list[str]] = {}
        for s in fallen:
            groups.setdefault((s.tensor.shape[0], s.choice.wanted, s.choice.type), []).append(s.name)
        for (row, wanted, got), names in groups.items():
            lines.append(f"    {len(names)} with rows of {row}: {wanted} -> {got}, for example {safe(names[0])}")
    lines += [f"  {style.red('refused')}  {safe(text)}" for text in plan.refusals]
    return "\n".join(lines)


def plan_json(plan: QuantizePlan, engine: str, files: Sequence[str], *, tensors: bool) -> dict[str, object]:
    """The plan for these files; with ``tensors`` every one of them."""
    body: dict[str, object] = {
        "type": plan.target.name,
        "engine": engine,
        "files": [{"path": path, "size": made.size} for path, made in zip(files, plan.outputs, strict=True)],
        "file_size": plan.file_size,
        "data_size": plan.data_size,
        "source_size": plan.source_size,
        "bits_per_weight": plan.bits_per_weight,
        "mix": plan.mix,
        "fallbacks": [
            {"name": s.name, "row": s.tensor.shape[0], "wanted": s.choice.wanted, "type": s.choice.type}
            for s in plan.fallbacks
        ],
        "refused": list(plan.refusals),
        "warnings": list(plan.warnings),
    }
    if tensors:
        body["tensors"] = [
            {
                "name": s.name,
                "from": s.source_type,
                "to": s.choice.type,
                "bytes": s.new_bytes,
                **({"was": s.tensor.name} if s.tensor.name != s.name else {}),
            }
            for s in plan.steps
        ]
    return body


def sizes_text(rows: Sequence[Size], limit: int | None, style: Style) -> str:
    """The table of targets, those that fit marked when there is a limit."""
    grid = []
    for r in rows:
        notes = []
        if r.fallbacks:
            notes.append(f"{r.fallbacks} of {r.tensors} tensors fall back")
        if r.needs_imatrix:
            notes.append("needs --imatrix")
        fits = () if limit is None else (style.green("fits") if r.file_size <= limit else style.dim("too big"),)
        grid.append(
            [r.target.name, f"{r.bits_per_weight:.2f}", f"{r.file_size / (1 << 30):.2f}", *fits, ", ".join(notes)]
        )
    heads = ["type", "bits per weight", "GiB", *(() if limit is None else (f"in {size(limit)}",)), ""]
    return table(grid, heads, align="lrr", style=style)


def sizes_json(rows: Sequence[Size], limit: int | None) -> dict[str, object]:
    """The table of targets; ``best`` is the largest that fits and needs no importance matrix."""
    fitting = [r for r in rows if limit is not None and r.file_size <= limit and not r.needs_imatrix]
    return {
        "limit": limit,
        "best": fitting[0].target.name if fitting else None,
        "targets": [
            {
                "type": r.target.name,
                "bits_per_weight": r.bits_per_weight,
                "file_size": r.file_size,
                "fallbacks": r.fallbacks,
                "needs_imatrix": r.needs_imatrix,
                "fits": None if limit is None else r.file_size <= limit,
            }
            for r in rows
        ],
    }


def quantized_text(done: Quantized, style: Style) -> str:
    """One or two lines about a file that was made."""
    rate = done.plan.source_size / done.seconds if done.seconds > 0 else 0
    more = f" and {len(done.paths) - 1} more" if len(done.paths) > 1 else ""
    took = f"{done.seconds:.1f} s" if done.seconds < 60 else clock(done.seconds)
    lines = [
        f"{style.green('wrote')} {safe(done.path)}{more}: {size(done.size)}, {done.plan.target.name}, "
        f"{done.plan.bits_per_weight:.2f} bits per weight",
        f"  by {safe(done.engine)} in {took} ({size(rate)}/s)",
        *checks_text(done.checks, style),
    ]
    return "\n".join(lines)


def quantized_json(done: Quantized) -> dict[str, object]:
    """What was made."""
    return {
        **plan_json(done.plan, done.engine, done.paths, tensors=False),
        "output": done.path,
        "size": done.size,
        "seconds": round(done.seconds, 3),
        "notes": list(done.notes),
        "checks": [check.as_data() for check in done.checks],
    }


def folder_text(found: Folder, style: Style, left: Sequence[Left] = (), projector: str | None = None) -> str:
    """What a Hugging Face folder holds, what speaks against converting it, and what would be left out.

    Args:
        found: the folder.
        style: for the terminal.
        left: what has no place in the result, as far as that is known.
        projector: the file that would be made beside the model.
    """
    lines = [
        f"{style.bold(found.path)}: {safe(found.architecture or 'no architecture')}, {len(found.files)} weight files, "
        f"{size(found.weight_bytes)}" + (f", {found.parameters:,} parameters in {found.dtype}" if found.dtype else "")
    ]
    for p in found.problems:
        word = style.red("error  ") if p.fatal else style.yellow("warning")
        lines.append(f"  {word}  {safe(p.message)}")
        if p.hint:
            lines.append(f"           {safe(p.hint)}")
    if not found.problems:
        lines.append(f"  {style.green('nothing speaks against converting it')}")
    if projector:
        lines.append(f"  beside   {safe(projector)} is made, too (--no-mmproj: not)")
    lines += left_text(left, style)
    return "\n".join(lines)


def left_text(left: Sequence[Left], style: Style) -> list[str]:
    """One line for each thing that is in no file."""
    return [f"  {style.yellow('left out')} {safe(one.line)}" for one in left]


def folder_json(found: Folder, left: Sequence[Left] = (), projector: str | None = None) -> dict[str, object]:
    """The same as data."""
    return {
        "projector": projector,
        "left": rows(left),
        "path": found.path,
        "architecture": found.architecture,
        "files": list(found.files),
        "tensors": len(found.tensors),
        "weight_bytes": found.weight_bytes,
        "parameters": found.parameters,
        "dtype": found.dtype,
        "problems": [{"kind": p.kind, "message": p.message, "hint": p.hint, "fatal": p.fatal} for p in found.problems],
    }


def converted_text(done: Converted, output: str, style: Style) -> str:
    """Lines about a file that was converted: what it is, what was looked at and what not."""
    names = ", ".join(safe(p) for p in done.paths[:3]) + (" …" if len(done.paths) > 3 else "")
    took = f"{size(done.size)}, by {safe(done.converter)} in {done.seconds:.1f} s"
    if done.paths:
        lines = [f"{style.green('wrote')} {names}: {took}"]
    else:
        lines = [f"{style.red('not given its name')}: {safe(output)}, {took}"]
    lines += [f"  repaired: {safe(text)}" for text in done.repaired]
    lines += checks_text(done.checks, style)
    lines += left_text(done.left, style)
    if not done.ok:
        kept = "it has its name all the same (--yes)" if done.paths else "the file is gone; --yes keeps it as it is"
        lines.append(f"  {kept}")
    elif done.report is not None and len(done.report):
        lines.append(f"  what lint says: {gguftool('lint', path_word(done.path))}")
    return "\n".join(lines)


_WORDS = {"ok": "checked", "noted": "note", "fault": "fault", "unjudged": "not checked"}


def checks_text(checks: Sequence[Check], style: Style) -> list[str]:
    """One line for each check, and those of its faults."""
    lines = []
    for check in checks:
        word = _WORDS[check.verdict].ljust(11)
        colour = {"ok": style.green, "fault": style.red, "noted": style.yellow}.get(check.verdict, style.dim)
        where = f"{safe(check.file)}: " if check.file else ""
        lines.append(f"  {colour(word)} {where}{check.name}: {safe(check.said)}")
        # Notes are counted; what can be done about them is said.
        shown = [f for f in check.faults or check.notes if f.message != check.said or f.hint]
        shown = shown if check.faults else [f for f in shown if f.hint and f.hint.startswith("gguftool ")]
        for fault in shown[:MOST_FAULTS]:
            if check.faults and fault.message != check.said:
                lines.append(f"              {safe(fault.kind)}: {safe(fault.message)}")
            if fault.hint:
                lines.append(f"              {safe(fault.hint)}")
        if len(shown) > MOST_FAULTS:
            lines.append(f"              and {len(shown) - MOST_FAULTS:,} more")
    return lines


def converted_json(done: Converted) -> dict[str, object]:
    """The same as data."""
    found = done.report
    return {
        "output": done.path if done.paths else None,
        "files": list(done.paths),
        "projector": done.projector,
        "left": rows(done.left),
        "size": done.size,
        "converter": done.converter,
        "seconds": round(done.seconds, 3),
        "notes": list(done.notes),
        "repaired": list(done.repaired),
        "checks": [check.as_data() for check in done.checks],
        "lint": {"counts": _counts(found), "findings": _findings(found)} if found is not None else None,
    }


def _counts(found: LintReport) -> dict[str, int]:
    return {str(s): found.count(s) for s in Severity}


def _findings(found: LintReport) -> list[dict[str, object]]:
    return [
        {"rule": f.rule, "severity": str(f.severity), "message": f.message, "where": f.where} for f in found.findings
    ]
