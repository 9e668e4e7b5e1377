"""The fields of ``gguftool report --format json``, which are also all that the page is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gguftool.api.report import BesideIt, Portrait, Reported
from gguftool.api.reported.keys import KeyRow
from gguftool.api.reported.mixed import Mixture
from gguftool.api.reported.previews import Preview, Templates
from gguftool.api.reported.tokens import Tokens
from gguftool.api.reported.weights import Share, TensorRow, shares
from gguftool.model.overview import TypeShare
from gguftool.records import asdict
from gguftool.report import compat, glance, hash, lint
from gguftool.report.dump import TOKEN_TYPES
from gguftool.report.load import load_json
from gguftool.report.overview import summary_json
from gguftool.report.page.verdict import verdict
from gguftool.report.plan_json import plan_json
from gguftool.report.turned import turning_json

Body = dict[str, Any]


def body(r: Reported) -> Body:
    """The command's own fields of the envelope."""
    return {
        "path": r.spec,
        "kind": "model" if r.model is not None else "repository" if r.glance is not None else "fleet",
        "verdict": verdict(r),
        "model": None if r.model is None else _model(r.model),
        "repository": None if r.glance is None else glance.json_body(r.glance),
        "fleet": None if r.model is not None or r.glance is not None else _fleet(r),
    }


def _fleet(r: Reported) -> Body:
    return {"models": [dict(row) for row in r.rows], "left_out": r.more}


def _model(p: Portrait) -> Body:
    return {
        "identity": summary_json(p.overview, p.kv_points),
        "load": None if p.lint.load is None else load_json(p.lint.load),
        "counts": {s: sum(f.severity == s for f in p.lint.findings) for s in ("error", "warning", "info")},
        "findings": [lint.finding_json(f) for f in p.lint.findings],
        "not_evaluated": [{"rule": s.rule, "why": s.why} for s in p.lint.not_evaluated],
        "bytes": {
            "by_block": _shares(shares(p.tensors, "block")),
            "by_kind": _shares(shares(p.tensors, "kind")),
            "by_type": _shares(shares(p.tensors, "type")),
            "by_region": [{"kind": s.name, "count": s.tensors, "bytes": s.bytes} for s in p.stretches],
        },
        "tensors": [_tensor(t) for t in p.tensors],
        "quantisation": {
            "label": p.overview.label,
            "bits_per_weight": p.overview.bits_per_weight,
            "measured": _mix(p.overview.mix),
            "mixture": None if p.mixture is None else _mixture(p.mixture),
            "no_mixture": p.no_mixture or None,
        },
        "layers": [{**asdict(x), "caches": list(x.caches)} for x in p.layers],
        "keys": [_key(k) for k in p.keys],
        "tokenizer": None if p.tokens is None else _tokens(p.tokens),
        "templates": _templates(p.templates),
        "builds": None if p.compat is None else compat.json_body(p.compat),
        "plan": None if p.plan is None else _plan(p),
        "unplanned": p.unplanned or None,
        "memory": None if p.memory is None else turning_json(p.memory),
        "beside": [_beside(x) for x in p.beside],
        "hashes": [hash.file_json(h) for h in p.hashes],
        "edits": [{**asdict(e), "operations": list(e.operations)} for e in p.edits],
        "failed": [{"section": name, "why": str(why)} for name, why in p.failed.items()],
    }


def _shares(found: Iterable[Share]) -> list[Body]:
    return [{"name": s.name, "tensors": s.tensors, "elements": s.elements, "bytes": s.bytes} for s in found]


def _tensor(t: TensorRow) -> Body:
    return {
        "name": t.name,
        "block": t.block,
        "kind": t.kind,
        "type": t.type,
        "shape": list(t.shape),
        "file": t.file,
        "offset": t.offset,
        "bytes": t.bytes,
        "sha256": t.sha256 or None,
        "values": None if t.values is None else asdict(t.values),
    }


def _mix(found: Sequence[TypeShare]) -> list[Body]:
    return [{"type": s.type_name, "tensors": s.tensors, "elements": s.elements, "bytes": s.bytes} for s in found]


def _mixture(x: Mixture) -> Body:
    return {
        "target": x.target,
        "types": _mix(x.mix),
        "bytes": x.bytes,
        "bits_per_weight": x.bits_per_weight,
        "otherwise": [asdict(o) for o in x.otherwise],
    }


def _key(k: KeyRow) -> Body:
    a = k.about
    return {
        "key": k.key,
        "type": k.type,
        "count": k.count,
        "value": k.value,
        "meaning": a.meaning if a is not None else None,
        "read_by": [x for x in ((a.llama_cpp, *a.others) if a is not None else ()) if x],
    }


def _tokens(t: Tokens) -> Body:
    types = [{"type": TOKEN_TYPES.get(kind, f"type {kind}"), "tokens": n} for kind, n in t.types]
    ends = [{"id": i, "text": text} for i, text in t.ends]
    return {**asdict(t), "types": types, "special": [asdict(x) for x in t.special], "ends": ends}


def _templates(t: Templates) -> Body:
    return {"names": list(t.names), "why": t.why or None, "previews": [_preview(p) for p in t.previews]}


def _preview(p: Preview) -> Body:
    return {
        "name": p.name,
        "title": p.title,
        "error": p.error or None,
        "kind": p.kind or None,
        "left": p.left,
        "segments": [{"text": s.text, "token": s.token, "kind": s.kind} for s in p.segments],
    }


def _plan(p: Portrait) -> Body:
    x = p.plan
    if x is None:
        return {}
    unfit = x.deployment.unfit
    return plan_json(x.advice, list(x.command), x.expected, unfit, x.speed, x.ways, x.not_ready, x.not_loaded)


def _beside(x: BesideIt) -> Body:
    return {
        "option": x.option,
        "path": x.path,
        "identity": summary_json(x.overview, ()),
        "misfits": [
            {
                "rule": m.rule or None,
                "outcome": m.outcome,
                "message": m.message,
                "llama_cpp": list(m.said),
                "hint": m.hint or None,
                "where": m.where,
            }
            for m in x.misfits
        ],
    }
