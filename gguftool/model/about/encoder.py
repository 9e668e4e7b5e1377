"""An embedding or reranking model: how it pools, how wide its answers are, how long a text may be."""

from __future__ import annotations

from gguftool.model.about.fact import Facts, facts_of
from gguftool.model.embedder import DECIDES, embedder, ends_of
from gguftool.model.model import Model
from gguftool.model.positions import learnt_positions
from gguftool.model.vocab import vocabulary


def about(m: Model) -> Facts:
    """Family, pooling, width, longest text, what stands around a text, head and labels."""
    found = embedder(m)
    if found is None:
        return ()
    decides = found.kind == DECIDES
    before, behind = ends_of(m)
    around = tuple(word for word, there in (("one before", before), ("one behind", behind)) if there)
    projection = m.arch.int("dense_2_feat_out") or None
    return facts_of(
        ("family", found.family),
        ("known by", found.why),
        ("pooling", None if decides else _pooling(found.pooling, found.stated, found.trained)),
        ("sees", "what stands before" if found.causal else "both ways"),
        ("numbers of an embedding", found.width if not found.ranks and not decides else None),
        ("projected through", projection),
        ("scores of a document", found.width if found.ranks else None),
        ("labels", found.labels),
        ("head", found.head or ("none" if found.ranks else None)),
        ("longest text", found.longest or None),
        ("learnt positions", learnt_positions(m)),
        ("special tokens around a text", around or ("none" if vocabulary(m).count else None)),
        ("whole text in one graph", not found.cuts(found.pools())),
    )


def _pooling(pooling: str, stated: bool, trained: str) -> str:
    if stated:
        return pooling or "a number that is no way of pooling"
    return f"not in the file (llama.cpp: none{f'; its family: {trained}' if trained else ''})"
