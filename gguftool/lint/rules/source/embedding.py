"""The file against what the source says for sentence-transformers: `modules.json`, its folders, `tokenizer.json`."""

from __future__ import annotations

from gguftool.edit.ops import Set
from gguftool.facts.machine.rows import dense_tensors
from gguftool.lint.rule import Context, Drafts, Fix, Scope, Severity, edit, found, not_evaluated, rule
from gguftool.lint.rules.embedding.pooling import WAYS, written
from gguftool.lint.rules.embedding.tokens import ADD, stated
from gguftool.lint.rules.source.numbers import same_model, source
from gguftool.lint.sentence import ends, modules, pooled, prompts
from gguftool.model import Model
from gguftool.model.embedder import RANKS, embedder, ends_of
from gguftool.model.vocab import vocabulary

DONE = frozenset({"Transformer", "Pooling", "Normalize", "Dense", "Router", "Asym", "Dropout"})
"""Modules that llama.cpp has, does without harm, or that choose among others."""
BOTH_WAYS = ("use_bidirectional_attention", "is_bidirectional", "bidirectional")


@rule(Severity.WARNING, scope=Scope.SOURCE, known_arch=True)
def source_pooling(m: Model, ctx: Context) -> Drafts:
    """The way of pooling should be the one of the source.

    Why. Pooled in another way a model gives vectors that look sound and find the wrong texts.
    Evidence. `modules.json` names the folder of the Pooling module, its config.json the way; the converter writes
    mean, cls and last (`conversion/base.py:_try_set_pooling_type`, b11434).
    Example. bert.pooling_type is mean, 1_Pooling/config.json has cls
    Fix. Writes the way of the source, where llama.cpp has it.
    """
    folder = source(ctx)
    there, e = pooled(folder), embedder(m)
    if not there:
        return
    if not same_model(m, ctx):
        yield not_evaluated("config.json is of another model")
        return
    key = f"{m.architecture}.pooling_type"
    here = (e.pooling if e.stated else "") if e is not None else ""
    way = there[0] if len(there) == 1 else ""
    if way and here == way:
        return
    shown = " and ".join(there)
    has = f"{key} is {here or m.arch.raw('pooling_type')}" if e is not None and e.stated else f"{key} is missing"
    where = next(x.path for x in modules(folder) if x.kind == "Pooling")
    if way not in WAYS:
        yield found(
            f"{has}, {where}/config.json has {shown}, which llama.cpp does not have: its embeddings are others",
            where=f"field:{key}",
            source=shown,
        )
        return
    if e is not None and e.kind == RANKS:
        # A reranker is asked in another way than the module that it was saved with.
        return
    yield found(f"{has}, {where}/config.json has {way}", where=f"field:{key}", fix=written(way, key), source=way)


@rule(Severity.WARNING, scope=Scope.SOURCE, known_arch=True)
def source_modules(m: Model, ctx: Context) -> Drafts:
    """What stands behind pooling in the source must be in the file.

    Why. A Dense module projects the pooled vector. Left out, the embedding is another one, often of another size.
    Evidence. llama.cpp has projections for Gemma 3 (`--sentence-transformers-dense-modules` of the converter) and
    LFM2; of other models it reads none (`llama-graph.cpp:build_dense_out`, b11434).
    Example. modules.json has 2 Dense modules, the file has no dense_2.weight: embeddings are not projected
    Fix. Convert with `--sentence-transformers-dense-modules` where llama.cpp has them; else none.
    """
    folder = source(ctx)
    steps = modules(folder)
    if not steps or not same_model(m, ctx):
        return
    dense = [x for x in steps if x.kind == "Dense"]
    known = dense_tensors(m.architecture)
    if dense and not any(name in m.tensors for name in known):
        several = f"{len(dense)} Dense modules" if len(dense) > 1 else "a Dense module"
        size = dense[-1].config.get("out_features")
        sized = f" to {size:,} numbers" if isinstance(size, int) else ""
        lack = f"the file has no {known[0]}" if known else f"llama.cpp has none for {m.architecture}"
        yield found(
            f"modules.json has {several}, {lack}: embeddings are not projected{sized}",
            where=f"tensor:{known[0]}" if known else "header",
        )
    for odd in [x for x in steps if x.kind not in DONE]:
        yield found(
            f"modules.json has a module {odd.kind[:40]}, which llama.cpp does not have: embeddings are others",
            where="header",
            module=odd.kind,
        )


@rule(Severity.INFO, scope=Scope.SOURCE, known_arch=True)
def source_normalize(m: Model, ctx: Context) -> Drafts:
    """Know when the source does not normalise its embeddings.

    Why. llama-server divides every pooled vector by its length. Where the source does not, dot products differ;
    cosines are the same.
    Evidence. `server-context.cpp:send_embedding` (b11434); `--embd-normalize` is 2, the Euclidean length.
    Example. modules.json has no Normalize: llama-server gives vectors of length 1, the source does not
    Fix. None in the file: `--embd-normalize -1` gives them as they are.
    """
    steps = modules(source(ctx))
    if steps and any(x.kind == "Pooling" for x in steps) and not any(x.kind == "Normalize" for x in steps):
        yield found(
            "modules.json has no Normalize: llama-server gives vectors of length 1, the source does not "
            "(--embd-normalize -1 gives them as they are)",
            where="header",
        )


@rule(Severity.INFO, scope=Scope.SOURCE, known_arch=True)
def source_prompts(m: Model, ctx: Context) -> Drafts:
    """Know what the source puts before a text.

    Why. Many embedding models were trained with a prefix for questions and another for documents. A GGUF file has no
    place for it and llama-server adds none: who asks has to.
    Evidence. config_sentence_transformers.json, prompts.
    Example. the source puts 'query: ' before a text of the use query; llama-server puts nothing before it
    Fix. None: it belongs into the request.
    """
    for use, text in list(prompts(source(ctx)).items())[:8]:
        yield found(
            f"the source puts {text[:120]!r} before a text of the use {use[:40]}; llama-server puts nothing before it",
            where="header",
            use=use,
            prompt=text,
        )


@rule(Severity.WARNING, scope=Scope.SOURCE, known_arch=True)
def source_text_ends(m: Model, ctx: Context) -> Drafts:
    """What stands around a text should be what the source puts there.

    Why. The vectors of a model are those of its texts with the tokens around them; with pooling by the first or the
    last token they are all there is.
    Evidence. post_processor of tokenizer.json, which outranks tokenizer_config.json (`gguf-py/gguf/vocab.py`, b11434).
    Example. tokenizer.ggml.add_eos_token is missing, tokenizer.json puts '<|endoftext|>' behind a text
    Fix. Writes what tokenizer.json does; the token itself where it is another one.
    """
    folder, vocab = source(ctx), vocabulary(m)
    if embedder(m) is None or not vocab.count or vocab.kind is None or vocab.kind.name == "none":
        return
    around = ends(folder)
    if around is None:
        return
    for side, role, here, there in zip(ADD, ("bos", "eos"), ends_of(m), around, strict=True):
        key = ADD[side]
        if here is not (there is not None):
            says = f"puts {there!r} {side} a text" if there is not None else f"puts nothing {side} a text"
            fixable = vocab.kind.name != "WPM"
            fix = Fix("do what tokenizer.json does", (Set(key, there is not None, "bool"),)) if fixable else None
            yield found(f"{stated(m, key)}, tokenizer.json {says}", where=f"field:{key}", fix=fix)
        elif there is not None:
            name = "sep" if vocab.kind.name == "WPM" and role == "eos" else role
            own = vocab.special(name)
            if own is not None and vocab.text(own) != there and not vocab.text(own).endswith(there):
                yield found(
                    f"llama.cpp puts {vocab.show(own)} {side} a text, tokenizer.json {there!r}",
                    where=f"field:tokenizer.ggml.{name}_token_id",
                    fix=Fix("name the token of the source", command=edit("--special", f"{name}={there}"))
                    if name != "sep" and vocab.id_of(there) is not None
                    else None,
                )


@rule(Severity.WARNING, scope=Scope.SOURCE, known_arch=True)
def source_attention(m: Model, ctx: Context) -> Drafts:
    """A model trained to see both ways must not be run causal, and the other way round.

    Why. Several embedding models are language models with the mask taken off (gte-Qwen2). llama.cpp keeps the mask
    unless the file says otherwise.
    Evidence. `conversion/base.py` (b11434) writes attention.causal = false where config.json has is_causal false;
    older files lack it.
    Example. config.json has is_causal false, but llama.cpp runs the file with causal attention
    Fix. `attention.causal`, as config.json says.
    """
    folder, e = source(ctx), embedder(m)
    if e is None or not same_model(m, ctx):
        return
    name = next((n for n in ("is_causal", *BOTH_WAYS) if isinstance(folder.text.get(n), bool)), None)
    if name is None:
        return
    causal = folder.text[name] is (name == "is_causal")
    if causal is e.causal:
        return
    key = f"{m.architecture}.attention.causal"
    runs = "with causal attention" if e.causal else "without a causal mask"
    yield found(
        f"config.json has {name} {str(folder.text[name]).lower()}, but llama.cpp runs the file {runs}",
        where=f"field:{key}",
        fix=Fix(f"write {str(causal).lower()}", (Set(key, causal, "bool"),)),
    )
