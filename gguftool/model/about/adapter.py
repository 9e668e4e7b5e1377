"""A LoRA adapter: which base it belongs to, and what it changes there, how strongly."""

from __future__ import annotations

from gguftool.model.about.fact import Facts, facts_of
from gguftool.model.about.imatrix import spans
from gguftool.model.about.strange import text
from gguftool.model.adapter import adapter
from gguftool.model.model import Model


def about(m: Model) -> Facts:
    """Base, rank, alpha, what comes of both, layers and targets."""
    it = adapter(m)
    kind = "activated LoRA" if it.invocation and it.kind == "lora" else {"lora": "LoRA"}.get(it.kind, it.kind)
    whole = [p for p in it.pairs if p.whole]
    scales = sorted({s for p in whole if (s := it.scale(p)) is not None})
    inside = dict.fromkeys(p.target for p in it.pairs if p.layer is not None)
    return facts_of(
        ("name", text(m, "general.name")),
        ("kind", kind or "not named"),
        ("base architecture", it.architecture or "not named"),
        ("base model", it.base),
        ("rank", tuple(sorted(it.ranks)) if len(it.ranks) > 1 else next(iter(it.ranks), None)),
        ("alpha", it.alpha if it.alpha is not None else "not named, so the product counts as it is"),
        ("scale", tuple(f"{s:g}" for s in scales) if len(scales) > 1 else next(iter(scales), None)),
        ("pairs", len(whole)),
        ("layers", spans(list(it.layers))),
        ("targets", tuple(inside)),
        ("beside the layers", tuple(p.name for p in it.pairs if p.layer is None)),
        ("without their other half", tuple(p.name for p in it.pairs if not p.whole)),
        ("norms left aside", len(it.norms) or None),
        ("refused names", it.strangers),
        ("weights", sum(t.info.elements for t in m.all_tensors())),
        ("invocation tokens", it.invocation),
        ("task", it.task),
        ("prompt prefix", it.prefix),
    )
