"""What stands around a text, and between a question and a document."""

from __future__ import annotations

from gguftool.edit.ops import Operation, Set
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule
from gguftool.lint.sentence import ends
from gguftool.model import Model
from gguftool.model.embedder import AROUND, EMBEDS, RANKS, RERANK_TEMPLATE, embedder, ends_of
from gguftool.model.vocab import vocabulary

ADD = {"before": "tokenizer.ggml.add_bos_token", "behind": "tokenizer.ggml.add_eos_token"}
SEP = "tokenizer.ggml.add_sep_token"


def put(*keys: str) -> tuple[Operation, ...]:
    """Edits that have these tokens put around every text."""
    return tuple(Set(key, True, "bool") for key in keys)


def stated(m: Model, key: str) -> str:
    """How a switch of the file stands."""
    return f"{key} is {str(m.get(key)).lower()}" if key in m else f"{key} is missing"


def _told(ctx: Context) -> bool:
    """Whether the source says what stands around a text: then the file is held against that (`source-text-ends`)."""
    return ctx.against is not None and (
        ends(ctx.against) is not None or isinstance(ctx.against.tokenizer.get("add_eos_token"), bool)
    )


@rule(Severity.WARNING, known_arch=True)
def pooled_token_missing(m: Model, ctx: Context) -> Drafts:
    """The token that pooling takes must be there.

    Why. Pooling by the last token was learnt on an end token, pooling by the first one on a start token. Without it
    the vector is that of an ordinary word: it looks sound, and searches find the wrong texts.
    Evidence. llama.cpp issues 14234 and 14252; `examples/embedding/embedding.cpp` (b11434) warns where the last
    token is no end token. Run: the first number of an embedding is 0.066 instead of -0.101.
    Example. qwen3.pooling_type is last and tokenizer.ggml.add_eos_token is missing: what is pooled is the last word
    of the text, not an end token
    Fix. `tokenizer.ggml.add_eos_token` = true (last), `add_bos_token` = true (cls). An info where the file says false
    itself and nothing is known of its family.
    """
    e, vocab = embedder(m), vocabulary(m)
    if e is None or e.kind != EMBEDS or not vocab.count or vocab.kind is None or vocab.kind.name == "none":
        return
    how = e.pooling if e.stated else e.trained
    before, behind = ends_of(m)
    side = "behind" if how == "last" and not behind else "before" if how == "cls" and not before else ""
    if not side or _told(ctx):
        return
    key = ADD[side]
    known = e.ends if side == "behind" else m.architecture in AROUND or None
    mild = (key in m and not known) or not e.sure
    word = "the last word of the text, not an end token" if side == "behind" else "the first word, not a start token"
    way = f"{m.architecture}.pooling_type is {how}" if e.stated else f"{e.family or m.architecture} pools {how}"
    yield found(
        f"{way} and {stated(m, key)}: what is pooled is {word}",
        where=f"field:{key}",
        fix=Fix(f"put {'an end token behind' if side == 'behind' else 'a start token before'} every text", put(key)),
        severity=Severity.INFO if mild else None,
        pooling=how,
    )


@rule(Severity.INFO, known_arch=True)
def text_ends_missing(m: Model, ctx: Context) -> Drafts:
    """An encoder was trained with a token before and one behind every text.

    Why. Where one of them is missing every vector differs a little from the source's, also with mean pooling.
    Evidence. RoBERTa and XLM-RoBERTa put <s> and </s> around; llama.cpp's defaults for their vocabulary are those of
    T5, which has no start token. The converter writes both switches (`conversion/bert.py`). Told where a file says
    false, or says nothing with such a vocabulary.
    Example. tokenizer.ggml.add_bos_token is missing: no start token stands before a text, as the model was trained
    Fix. add_bos_token and add_eos_token = true.
    """
    e, vocab = embedder(m), vocabulary(m)
    if e is None or m.architecture not in AROUND or not vocab.count or vocab.kind is None or vocab.kind.name == "none":
        return
    if _told(ctx):
        return
    there = dict(zip(ADD, ends_of(m), strict=True))
    for side, key in ADD.items():
        if there[side] or (side == "before" and e.pooling == "cls"):
            continue
        if key not in m and vocab.kind.name != "UGM":
            continue
        word = "start" if side == "before" else "end"
        yield found(
            f"{stated(m, key)}: no {word} token stands {side} a text, as the model was trained",
            where=f"field:{key}",
            fix=Fix(f"put it {side} every text", put(key)),
        )


@rule(Severity.WARNING, known_arch=True)
def rerank_separator_missing(m: Model, ctx: Context) -> Drafts:
    """Something must part the question from the document.

    Why. llama-server joins the two, with an end or a separator token between them where the switches say so. Without
    any, question and document are one text, and the score says nothing.
    Evidence. `server-common.cpp:format_prompt_rerank` (b11434): add_eos and add_sep decide. Files with a template
    named rerank go another way.
    Example. neither tokenizer.ggml.add_eos_token nor add_sep_token is true: question and document run together
    Fix. add_eos_token (RoBERTa: add_sep_token, too) = true.
    """
    e, vocab = embedder(m), vocabulary(m)
    if e is None or e.kind != RANKS or RERANK_TEMPLATE in m or not vocab.count or vocab.kind is None:
        return
    parted = vocab.add_eos or m.get(SEP) is True or (vocab.kind.name == "WPM" and m.get(SEP) is not False)
    if vocab.kind.name == "none" or e.family == "Qwen3-Reranker":
        return
    if not parted:
        yield found(
            f"neither {ADD['behind']} nor {SEP.rpartition('.')[2]} is true: question and document run together",
            where=f"field:{ADD['behind']}",
            fix=Fix("put an end token behind each", put(ADD["behind"])),
        )


@rule(Severity.WARNING, known_arch=True)
def rerank_tokens_missing(m: Model, ctx: Context) -> Drafts:
    """A reranker needs the tokens that llama-server puts around question and document.

    Why. llama-server says that "reranking will not work", goes on, and drops adapters and what else comes later.
    Evidence. `common.cpp:common_init_from_params` (b11434).
    Example. the vocabulary has no BOS token: llama-server warns that reranking will not work
    Fix. `gguftool fix --special bos=TEXT`, with the token of the source.
    """
    e, vocab = embedder(m), vocabulary(m)
    if e is None or e.kind != RANKS or not vocab.count or vocab.kind is None or vocab.kind.name == "none":
        return
    if vocab.special("bos") is None:
        yield found(
            "the vocabulary has no BOS token: llama-server warns that reranking will not work",
            where="field:tokenizer.ggml.bos_token_id",
            llama_cpp="vocab does not have a  BOS token, reranking will not work",
        )
    if vocab.special("eos") is None and vocab.special("sep") is None and RERANK_TEMPLATE not in m:
        yield found(
            "the vocabulary has no EOS and no SEP token: llama-server warns that reranking will not work",
            where="field:tokenizer.ggml.eos_token_id",
            llama_cpp="vocab does not have an EOS token, SEP token, or rerank prompt. Reranking will not work",
        )
