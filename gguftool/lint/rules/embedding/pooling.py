"""How the vectors of a text's tokens become one, and whether they see the whole text."""

from __future__ import annotations

from gguftool.edit.ops import Set
from gguftool.facts.arch import facts
from gguftool.facts.enums import numbers, words
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule, to_choose
from gguftool.lint.sentence import pooled
from gguftool.model import Model
from gguftool.model.embedder import EMBEDS, embedder

WAYS = {name: n for name, n in numbers("pooling_type").items() if n >= 0}
"""Ways of pooling and their numbers."""


def written(name: str, key: str) -> Fix:
    """The fix that writes a way of pooling."""
    return Fix(f"write {name}", (Set(key, WAYS[name], "u32"),))


@rule(Severity.ERROR, known_arch=True)
def pooling_type_unknown(m: Model, ctx: Context) -> Drafts:
    """The way of pooling must be one that llama.cpp knows.

    Why. Nothing looks at the number before a program asks for embeddings; then the process aborts, at once for
    `llama-server --embedding`. Without that option nothing meets it.
    Evidence. `llama-graph.cpp:build_pooling` (b11434): GGML_ABORT("unknown pooling type").
    Example. llama.pooling_type is 9, which is no way of pooling: llama-server --embedding aborts, without it the
    model runs
    Fix. The number of the way the model was trained with: none 0, mean 1, cls 2, last 3, rank 4.
    """
    known = numbers("pooling_type")
    ways = ", ".join(f"{name} {n}" for name, n in known.items() if n >= 0)
    for name in ("pooling_type", "classifier.pooling_type"):
        key = f"{m.architecture}.{name}"
        value = m.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        # The largest number is -1, which says that nothing is said.
        if value in known.values() or value == (1 << 32) - 1:
            continue
        fix = to_choose(f"write the way the model was trained with ({ways})", "--set", key)
        if name == "pooling_type":
            yield found(
                f"{key} is {value:,}, which is no way of pooling ({ways}): "
                "llama-server --embedding aborts, without it the model runs",
                where=f"field:{key}",
                fix=fix,
                mode="embedding",
                llama_cpp="unknown pooling type",
            )
        else:
            text = f"{key} is {value:,}, which is no way of pooling ({ways}): llama.cpp takes cls when it ranks"
            yield found(text, where=f"field:{key}", fix=fix, severity=Severity.WARNING, mode="reranking")


@rule(Severity.WARNING, known_arch=True)
def pooling_type_missing(m: Model, ctx: Context) -> Drafts:
    """An embedding model should say how its vectors are pooled.

    Why. llama.cpp takes none, so a text has one vector a token: `/v1/embeddings` refuses every request, and who
    reads the first vector of `/embedding` gets something else than the model was trained for.
    Evidence. `llama-context.cpp` (b11434) takes none; `server-context.cpp:handle_embeddings_impl`: "Pooling type
    'none' is not OAI compatible". The converter writes the key where the source has a modules.json.
    Example. bert.pooling_type is missing: llama.cpp takes none, and /v1/embeddings refuses every request
    Fix. The way of the source's 1_Pooling/config.json, or of the model's family where it is known; an info where
    only the name says that it is an embedding model.
    """
    e = embedder(m)
    key = f"{m.architecture}.pooling_type"
    # Of a value that is no number another rule speaks.
    odd = key in m and not isinstance(m.get(key), int)
    if e is None or e.kind != EMBEDS or e.stated or e.token_by_token or odd:
        return
    if ctx.against is not None and pooled(ctx.against):
        # Compared with the source, which knows it (`source-pooling`).
        return
    ways = ", ".join(f"{name} {n}" for name, n in WAYS.items() if name not in ("none", "rank"))
    choose = to_choose(f"write the way it was trained with ({ways})", "--set", key)
    fix = written(e.trained, key) if e.trained else choose
    of_keys = e.why == "general.architecture"
    yield found(
        f"{key} {'says nothing' if key in m else 'is missing'}: llama.cpp takes none, and /v1/embeddings refuses every"
        " request"
        + (f"; {e.family or m.architecture} pools {e.trained}" if e.trained else "")
        + ("" if of_keys else f" (an embedding model by {e.why})"),
        where=f"field:{key}",
        fix=fix,
        severity=None if of_keys else Severity.INFO,
        llama_cpp="Pooling type 'none' is not OAI compatible. Please use a different pooling type",
        trained=e.trained or None,
    )


@rule(Severity.WARNING, known_arch=True)
def pooling_sees_one_token(m: Model, ctx: Context) -> Drafts:
    """The token that pooling takes must have seen the text.

    Why. With causal attention the first token sees itself alone. Pooled by it, every text that begins with the same
    token has the same vector.
    Evidence. `llama-graph.cpp:llm_graph_input_cls::set_input` (b11434) takes the first token for cls. Run: a model
    with pooling cls and causal attention gives one vector for all texts.
    Example. qwen3.pooling_type is cls, but attention is causal: every text that begins with the same token has the
    same embedding
    Fix. `pooling_type` = 3 (last).
    """
    e = embedder(m)
    # Of an encoder the attention is at fault (`encoder-causal`).
    if e is None or e.pooling != "cls" or not e.causal or not e.memory:
        return
    key = f"{m.architecture}.pooling_type"
    yield found(
        f"{key} is cls, but attention is causal: every text that begins with the same token has the same embedding",
        where=f"field:{key}",
        fix=written("last", key),
    )


@rule(Severity.WARNING, known_arch=True)
def encoder_causal(m: Model, ctx: Context) -> Drafts:
    """An encoder must see both ways.

    Why. llama.cpp takes every model without the key for causal: each token then sees only those before it, and the
    vectors are others than the model was trained for, in silence.
    Evidence. `llama-hparams.h` (b11434): causal_attn is true where nothing is said; every conversion of these
    architectures writes attention.causal = false (`conversion/bert.py`).
    Example. bert.attention.causal is missing: llama.cpp lets each token see only those before it
    Fix. `attention.causal` = false.
    """
    e, known = embedder(m), facts(m.architecture)
    if e is None or known is None or (known.memory != "none" and m.architecture != "llama-embed") or not e.causal:
        return
    key = f"{m.architecture}.attention.causal"
    if key in m and not isinstance(m.get(key), bool):
        return
    stated = "is missing" if key not in m else f"is {str(m.get(key)).lower()}"
    yield found(
        f"{key} {stated}: llama.cpp lets each token see only those before it, encoders are trained to see both ways",
        where=f"field:{key}",
        fix=Fix("let it see both ways", (Set(key, False, "bool"),)),
    )


@rule(Severity.WARNING, known_arch=True)
def decision_type_unknown(m: Model, ctx: Context) -> Drafts:
    """The kind of a decision model must be one that llama-server has.

    Why. llama-server looks at it after the load, and ends: "unsupported decision model type".
    Evidence. `server-decision.cpp:server_decision_context::init` (b11434).
    Example. qwen35.decision.type is "kevin", which llama-server does not have (openjev, lev, kev, nimble, laya, clef)
    Fix. One of those names.
    """
    key = f"{m.architecture}.decision.type"
    value, known = m.get(key), words("decision.type")
    if isinstance(value, str) and value not in known:
        yield found(
            f'{key} is "{value[:40]}", which llama-server does not have ({", ".join(known)})',
            where=f"field:{key}",
            fix=to_choose("write the kind it was made as", "--set", key),
            severity=Severity.ERROR,
            llama_cpp=f"unsupported decision model type: {value[:40]}",
            mode="server",
        )
