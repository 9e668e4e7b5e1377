"""A judged log and its comparison with a plan, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gguftool.programs import RPC_SERVER
from gguftool.report.text import Style, count, safe, shorten, table
from gguftool.run.proof import Check, Expected, to_json

if TYPE_CHECKING:
    from gguftool.run.diagnose import Diagnosis, Judgement
    from gguftool.run.log import LogFacts

CELL = 40
"""Columns of a cell."""


def check_table(checks: Sequence[Check], style: Style) -> str:
    """Planned, observed, verdict."""
    verdict = {True: style.green("ok"), False: style.red("differs"), None: style.yellow("not seen")}
    rows = [(c.what, _cell(c.expected), _cell(c.observed), verdict[c.ok]) for c in checks]
    return table(rows, ("what", "planned", "observed", ""), align="lrrl", style=style)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    text = str(value)
    # Of a long path the end tells more than the beginning.
    return text if len(text) <= CELL else "…" + text[1 - CELL :]


def diagnosis_lines(d: Diagnosis, style: Style, *, notice: bool = False) -> Iterator[str]:
    """Cause and remedy of one line; ``notice``: it was said, and the server runs all the same."""
    label = style.yellow("notice:") if notice else style.red("error:")
    # The lines of llama.cpp's option parser begin with the same word.
    yield f"{label} {shorten(d.line.removeprefix('error: '), 300)}" + (style.dim(f"  (line {d.number}, {d.kind})"))
    yield f"  {safe(d.cause)}"
    yield f"  {style.cyan('try:')} {safe(d.remedy)}"


def notice_lines(j: Judgement, style: Style) -> Iterator[str]:
    """What is worth knowing although it runs."""
    for path in j.facts.config_files:
        yield f"{style.yellow('notice:')} settings of {safe(path)} were applied"
    for notice in j.notices:
        yield from diagnosis_lines(notice, style, notice=True)


def judgement_lines(j: Judgement, checks: Sequence[Check], style: Style) -> Iterator[str]:
    """The whole report: status, error, notices, observations or the table."""
    paint = {"ready": style.green, "finished": style.green, "failed": style.red}.get(j.status, style.yellow)
    yield f"{safe(j.facts.program) or 'log'}: {paint(_STATUS[j.status])}" + (
        f" at {safe(j.facts.address)}" if j.facts.address else ""
    )
    if j.error is not None:
        yield from diagnosis_lines(j.error, style)
    yield from notice_lines(j, style)
    if checks:
        yield ""
        yield check_table(checks, style)
    else:
        yield from _facts_lines(j.facts)
    if j.status == "ready" and not j.facts.caches and not j.facts.context and j.facts.program != RPC_SERVER:
        yield (
            f"{style.yellow('notice:')} the log shows no sizes and no cache types, so it proves nothing about them; "
            "start llama-server with -lv 4"
        )


_STATUS = {
    "ready": "ready to serve",
    "failed": "failed",
    "starting": "not ready yet: the log ends while the model loads",
    "finished": "ran to its end",
    "broke-off": "broke off: the line that proves its end is missing",
    "unknown": "nothing in it is known to come from llama.cpp",
}


def _facts_lines(f: LogFacts) -> Iterator[str]:
    rows = [
        ("model", f.model or None),
        ("architecture", f.hparams.get("arch")),
        ("weights", f.hparams.get("file size")),
        ("context", f.context.get("n_ctx")),
        ("slots", f.slots),
        ("context of a slot", f.slot_context),
        ("flash attention", f.flash_attn or None),
        ("state", f"{f.state_mib:.2f} MiB" if f.state_mib else None),
    ]
    for c in f.caches:
        sizes = f"K {c.type_k} {c.k_mib:.2f}, V {c.type_v} {c.v_mib:.2f}"
        rows.append(("KV cache", f"{c.mib:.2f} MiB: {c.cells} cells, {c.layers} layers, {sizes}"))
    rows += [(f"{b.kind} on {b.device}", f"{b.mib:.2f} MiB") for b in f.buffers if b.kind != "output" and b.mib]
    if f.speculating:
        share = f": {f.accepted} of {f.drafted} drafted tokens accepted" if f.drafted is not None else ""
        rows.append(("speculation", ", ".join(f.speculating) + share))
    for d in f.drafts:
        rows += [
            (f"draft: {b.kind} on {b.device}", f"{b.mib:.2f} MiB") for b in d.buffers if b.kind != "output" and b.mib
        ]
    shown = [(what, str(value)) for what, value in rows if value is not None]
    if shown:
        yield table(shown, align="ll", indent="  ")


def judgement_json(j: Judgement, expected: Expected | None, checks: Sequence[Check]) -> dict[str, object]:
    """The fields that ``launch`` and ``check-log`` have in common."""
    return {
        "status": j.status,
        "expected": to_json(expected) if expected else None,
        "observed": observed_json(j.facts),
        "checks": [{"what": c.what, "expected": c.expected, "observed": c.observed, "ok": c.ok} for c in checks],
        "error": _error(j.error) if j.error else None,
        "notices": [_error(d) for d in j.notices],
    }


def _error(d: Diagnosis) -> dict[str, object]:
    return {"kind": d.kind, "line": d.line, "number": d.number, "cause": d.cause, "remedy": d.remedy}


def observed_json(f: LogFacts) -> dict[str, object]:
    """What the log says."""
    return {
        "program": f.program or None,
        "build": f.build,
        "commit": f.commit or None,
        "verbosity": f.verbosity,
        "model": f.model or None,
        "architecture": f.hparams.get("arch"),
        "tensors": f.tensors,
        "context": dict(f.context),
        "slots": f.slots,
        "slot_context": f.slot_context,
        "unified": f.slots_unified,
        "flash_attn": f.flash_attn or None,
        "caches": [
            {
                "cells": c.cells, "layers": c.layers, "sequences": c.sequences, "streams": c.streams,
                "type_k": c.type_k, "k_mib": c.k_mib, "type_v": c.type_v, "v_mib": c.v_mib, "mib": c.mib,
            }
            for c in f.caches
        ],
        "state_mib": f.state_mib or 0.0,
        "buffers": [{"kind": b.kind, "device": b.device, "mib": b.mib} for b in f.buffers],
        "devices": [{"name": name, "free_mib": mib} for name, mib in f.devices],
        "speculating": list(f.speculating),
        "drafted": f.drafted,
        "accepted": f.accepted,
        "drafts": [
            {
                "model": d.model or None,
                "kv_mib": sum(c.mib for c in d.caches),
                "state_mib": d.state_mib or 0.0,
                "buffers": [{"kind": b.kind, "device": b.device, "mib": b.mib} for b in d.buffers],
            }
            for d in f.drafts
        ],
        "config_files": list(f.config_files),
        "fit": f.fit or None,
        "address": f.address or None,
    }  # fmt: skip
