"""The head of a reranker: what makes a score of a vector."""

from __future__ import annotations

from gguftool.edit.ops import Set
from gguftool.facts.machine.rows import head_tensors
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule, to_choose
from gguftool.model import Model
from gguftool.model.embedder import LABELS, RANKS, RERANK_TEMPLATE, embedder

HEAD = "cls.output.weight"
COUNTED = frozenset({"bert", "modern-bert", "neo-bert", "qwen3", "qwen3vl"})
"""Architectures whose head has an output for each label (`n_cls_out` in `src/models`, b11434)."""
TEMPLATED = frozenset({"qwen3", "qwen3vl"})
"""Architectures whose rerankers are asked in a chat template named rerank, and answer yes or no."""


@rule(Severity.WARNING, known_arch=True)
def rerank_head_missing(m: Model, ctx: Context) -> Drafts:
    """A reranker needs the head that makes a score.

    Why. Without it llama-server takes the first number of a vector for the score and says nothing: /v1/rerank
    answers, in an order without meaning. Files made before llama.cpp knew the model's head look like that.
    Evidence. llama.cpp issues 25447, 16407, 13820 (scores like 1e-20). `llama-graph.cpp:build_pooling` (b11434) goes
    on without cls and cls_out.
    Example. no cls.output.weight: llama-server takes the first number of a vector for the score
    Fix. Convert the original model again, with a llama.cpp that knows its head.
    """
    e = embedder(m)
    if e is None or e.kind != RANKS or not m.tensors or m.missing_shards:
        return
    wanted = head_tensors(m.architecture)
    last = next((n for n in (HEAD, "cls.weight") if n in wanted), "")
    if last in e.head:
        return
    names = [last] if e.head else [n for n in (HEAD, "cls.weight") if n in wanted]
    what = f"a reranker by {e.why}"
    if names:
        text = f"no {' and no '.join(names)} ({what}): llama-server takes the first number of a vector for the score"
    else:
        text = (
            f"llama.cpp reads no ranking head for {m.architecture} ({what}): it takes the first number of a vector for "
            "the score"
        )
    yield found(
        text + ("; made before llama.cpp knew the head, convert the original model again" if names else ""),
        where=f"tensor:{names[0]}" if names else f"field:{m.architecture}.pooling_type",
        wanted=names or None,
    )


@rule(Severity.ERROR, known_arch=True)
def rerank_labels_missing(m: Model, ctx: Context) -> Drafts:
    """The labels must name every output of the head.

    Why. llama.cpp counts the outputs by the labels, one where there are none, and refuses a head of another width.
    Evidence. `llama-model.cpp:load_hparams` (b11434): n_cls_out is the number of labels.
    Example. cls.output.weight has 2 outputs, qwen3.classifier.output_labels names none: llama.cpp refuses the file
    Fix. The labels of the source in the order of the head's rows; yes and no for Qwen3's rerankers.
    """
    tensor = m.tensors.get(HEAD)
    e = embedder(m)
    if e is None or tensor is None or len(tensor.shape) != 2 or HEAD not in head_tensors(m.architecture):
        return
    if m.architecture not in COUNTED or tensor.shape[1] == max(1, len(e.labels)):
        return
    key, count = f"{m.architecture}.{LABELS}", len(e.labels)
    names = {2: ["yes", "no"]}.get(tensor.shape[1]) if m.architecture in TEMPLATED else None
    yield found(
        f"{HEAD} has {tensor.shape[1]:,} outputs, {key} names {count or 'none'}: llama.cpp refuses the file",
        where=f"field:{key}",
        fix=Fix("name them", (Set(key, names, "[str]"),)) if names else to_choose("name them", "--set", key),
    )


@rule(Severity.WARNING, known_arch=True)
def rerank_template_missing(m: Model, ctx: Context) -> Drafts:
    """A reranker that answers yes or no must be asked as it was trained.

    Why. Without a template named rerank llama-server joins question and document as for BERT: the model never reads
    what it is to judge, and its yes and no are a guess.
    Evidence. `server-common.cpp:format_prompt_rerank` (b11434); `conversion/qwen.py` writes the template.
    Example. no tokenizer.chat_template.rerank: question and document are joined without the question to answer
    Fix. Convert the original model again, or `gguftool fix --set-file tokenizer.chat_template.rerank=FILE`.
    """
    e = embedder(m)
    if e is None or e.kind != RANKS or m.architecture not in TEMPLATED or not e.head:
        return
    value = m.get(RERANK_TEMPLATE)
    if not isinstance(value, str):
        yield found(
            f"no {RERANK_TEMPLATE}: question and document are joined without the question to answer",
            where=f"field:{RERANK_TEMPLATE}",
        )
        return
    lacks = [word for word in ("{query}", "{document}") if word not in value]
    if lacks:
        yield found(
            f"{RERANK_TEMPLATE} has no {' and no '.join(lacks)}: every prompt is the same there",
            where=f"field:{RERANK_TEMPLATE}",
        )


@rule(Severity.WARNING, known_arch=True)
def rerank_labels_turned(m: Model, ctx: Context) -> Drafts:
    """The first label is the score.

    Why. llama-server takes the first output of the head. Where that is the one for no, the worst document comes
    first.
    Evidence. `server-context.cpp:send_rerank` (b11434): the score is the first number; `conversion/qwen.py` puts yes
    first.
    Example. qwen3.classifier.output_labels begins with no: the worst document comes first
    Fix. Convert the original model again: the rows of the head go with the labels.
    """
    e = embedder(m)
    if e is None or e.kind != RANKS or len(e.labels) < 2:
        return
    key = f"{m.architecture}.{LABELS}"
    names = [label.lower() for label in e.labels]
    if names[0] in ("no", "false", "irrelevant", "not relevant") and len(names) == 2:
        yield found(
            f"{key} begins with {e.labels[0]}: llama-server takes its score, and the worst document comes first",
            where=f"field:{key}",
            labels=list(e.labels),
        )
