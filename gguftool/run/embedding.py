"""What a launch of an embedding model or a reranker needs, chosen where nobody asked for something else."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.memory.settings import BATCH, SERVER_SLOTS, UBATCH
from gguftool.model import Model
from gguftool.model.embedder import DECIDES, Embedder, embedder
from gguftool.records import replace
from gguftool.run.wishes import Wishes

LONGEST = 8192
"""Tokens for which a graph is made by itself; the masks of a longer one grow with its square."""
_CHAT = (("template", "--chat-template-file"), ("draft", "--model-draft"), ("spec_type", "--spec-type"),
         ("smoke", "--smoke"))  # fmt: skip
"""Options about writing: field and name."""
_BEHIND = frozenset(
    "--jinja --chat-template --chat-template-kwargs --reasoning --reasoning-format --reasoning-budget "
    "--prefill-assistant --temp --temperature --top-k --top-p --min-p --repeat-penalty --presence-penalty "
    "--frequency-penalty --samplers --grammar --grammar-file -j --json-schema -n --predict --n-predict "
    "--ignore-eos".split()
)
"""The same behind ``--``."""


def served(model: Model, w: Wishes) -> Embedder | None:
    """How the model gives embeddings or scores when it is served like this; None where it writes."""
    if not (w.embeddings or w.rerank):
        return None
    e = embedder(model, asked=True)
    return None if e is None or e.kind == DECIDES else e


def chosen(model: Model, w: Wishes) -> tuple[Wishes, list[str]]:
    """The wishes with what such a model needs, and notes about it.

    Args:
        model: the model.
        w: what the user asks; ``--embeddings``, ``--rerank`` or ``--pooling`` in it stay as they are.
    """
    e = embedder(model)
    if e is None or e.kind == DECIDES:
        return w, []
    if not e.sure:
        return w, [] if w.embeddings or w.rerank else [f"{e.why} says that it gives embeddings: {_by_hand(e)}"]
    asked = w.embeddings or w.rerank
    if not asked:
        rank = w.pooling == "rank" or (e.ranks and w.pooling is None)
        w = replace(w, rerank=True) if rank else replace(w, embeddings=True)
    slots = w.parallel or 0
    if slots > 1 and w.ctx is None and w.slot_ctx is None and not w.kv_unified and not e.memory and e.longest:
        # Without a cache a context takes no memory: every slot gets a whole one.
        w = replace(w, ctx=slots * e.longest)
    if w.pooling is None and not w.rerank and not e.stated and e.trained and not e.token_by_token:
        w = replace(w, pooling=e.trained)
    return w, list(_notes(e, w, asked))


def graph(e: Embedder | None, w: Wishes) -> tuple[int, int]:
    """Tokens of one graph and of one batch (`-ub`, `-b`) for these wishes.

    A text that may not be cut has to fit into one graph (`server-context.cpp:can_split`, b11434): then it is as long
    as a text may be, up to `LONGEST`. Of both the smaller counts, and with ``--embeddings`` llama-server makes them
    equal (`server.cpp`).
    """
    ubatch, batch = w.ubatch, w.batch
    pooled = w.embeddings or w.rerank
    if ubatch is None and e is not None and pooled and not e.cuts(way(e, w)):
        ubatch = max(UBATCH, min(_slot(e, w), LONGEST))
    if ubatch is None:
        ubatch = UBATCH
    if not pooled:
        return ubatch, BATCH if batch is None else batch
    return ubatch, ubatch if batch is None else min(batch, ubatch)


def way(e: Embedder, w: Wishes) -> str:
    """How llama-server pools for these wishes; what stands in the command counts, else what stands in the file."""
    if w.rerank:
        return "rank"
    return w.pooling or (e.pooling if e.stated else "none")


def _slot(e: Embedder, w: Wishes) -> int:
    """Most tokens of one text: those of a slot, and no more than the model was made for."""
    slots = SERVER_SLOTS if w.parallel is None else w.parallel
    shared = w.parallel is None if w.kv_unified is None else w.kv_unified
    ctx = w.ctx or (w.slot_ctx and w.slot_ctx * slots) or e.longest
    each = ctx if shared else -(-ctx // max(1, slots))
    return min(each, e.longest) if e.longest else each


def _by_hand(e: Embedder) -> str:
    if e.ranks:
        return "--rerank makes the server rank"
    pooling = "" if e.stated else f" --pooling {e.trained or 'mean (or cls, last)'}"
    return f"--embeddings{pooling} makes the server give them"


def _notes(e: Embedder, w: Wishes, asked: bool) -> Iterator[str]:
    pooling = way(e, w)
    if not asked:
        said = "--rerank" if w.rerank else "--embeddings"
        yield f"{'it ranks documents' if w.rerank else 'it gives embeddings'} ({e.why}): {said} is chosen"
    if w.pooling is not None and w.pooling == e.trained and not e.stated and not w.rerank:
        yield f"the file names no way of pooling: {e.family or 'its architecture'} pools {e.trained}"
    if w.embeddings and pooling == "none" and not e.token_by_token and w.pooling is None and not w.rerank:
        yield (
            "the file names no way of pooling, so /v1/embeddings will refuse every request: --pooling mean, cls or "
            "last, as the model was trained"
        )
    if w.rerank and not e.head:
        yield "no ranking head is in the file: --rerank takes the first number of a vector for the score"
    if e.ranks and not w.rerank:
        yield "it ranks documents: --rerank makes the server do that, embeddings of it were never trained"
    ubatch, batch = graph(e, w)
    if not e.cuts(pooling):
        limit, slot = min(ubatch, batch), _slot(e, w)
        if limit < slot:
            yield f"texts over {limit} tokens will be refused, one has to fit into one graph: --ubatch raises it"
        elif limit > UBATCH:
            yield f"-ub {limit}: a text has to fit into one graph"
    idle = [*(name for field, name in _CHAT if getattr(w, field)), *(word for word in w.extra if word in _BEHIND)]
    if idle:
        does = "do" if len(idle) > 1 else "does"
        yield f"{', '.join(idle)} {does} nothing here: it is about writing, and this model does not write"
    if w.cache_type is not None and not e.memory:
        yield "--cache-type does nothing here: this model has no KV cache"
