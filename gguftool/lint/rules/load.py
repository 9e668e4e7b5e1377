"""Load: what llama.cpp would stop at, where no other rule found an error.

These rules are the net below the others: they turn the predicted load (`gguftool.predict`) into findings, and run
only when nothing else explains why the file cannot be used.
"""

from __future__ import annotations

from gguftool.lint.rule import Context, Drafts, Scope, Severity, found, not_evaluated, rule
from gguftool.lint.rules.metadata.keys import NO_TOKENIZER
from gguftool.model import Model
from gguftool.predict import Prediction, predict

_PREFIXES = ("llama_model_load: error loading model: ", "gguf_init_from_reader: ")


def prediction(m: Model, ctx: Context) -> Prediction:
    """The predicted load, worked out once a run."""
    predicted: Prediction = ctx.once("load", lambda: predict(m))
    return predicted


def _words(load: Prediction) -> str:
    text = load.messages[0] if load.messages else "no message"
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    return text


def _where(where: str) -> str:
    return where if where.startswith(("field:", "tensor:", "shard:")) or where in ("file", "header") else "file"


@rule(Severity.ERROR, scope=Scope.FILE)
def load_refused(m: Model, ctx: Context) -> Drafts:
    """llama.cpp must load the file.

    Why. The checks of llama.cpp b11434 are predicted from the header in its own order; this is the first that
    fails. The rule speaks only where no other rule found an error.
    Evidence. 76,646 mutated files judged by the real library (b11434).
    Example. llama.cpp refuses the file: check_tensor_dims: tensor 'blk.0.attn_norm.weight' not found
    Fix. Depends on the message; `gguftool doctor` explains messages of llama.cpp.
    """
    load = prediction(m, ctx)
    if load.verdict == "refused":
        yield found(
            f"llama.cpp refuses the file: {_words(load)}",
            where=_where(load.where),
            llama_cpp=_words(load),
            stage=load.stage,
        )
    elif load.verdict == "unknown":
        yield not_evaluated(
            "; ".join(load.not_evaluated) or "the header does not tell whether llama.cpp loads the file"
        )


@rule(Severity.ERROR, scope=Scope.FILE)
def load_aborts(m: Model, ctx: Context) -> Drafts:
    """llama.cpp must not abort on the file.

    Why. A failed assertion or a crash ends the whole process, a server with all its other models too. The rule
    speaks only where no other rule found an error.
    Evidence. 1,533 of 76,646 mutated files end the real library like that (b11434).
    Example. llama.cpp aborts while it loads the file: GGML_ASSERT(n_expert_used_max > 0) failed
    Fix. Depends on the message; `gguftool doctor` explains messages of llama.cpp.
    """
    load = prediction(m, ctx)
    if load.verdict == "aborts":
        yield found(
            f"llama.cpp aborts while it loads the file: {_words(load)}",
            where=_where(load.where),
            llama_cpp=_words(load),
            aborts=True,
        )


@rule(Severity.ERROR, scope=Scope.FILE)
def load_then_fails(m: Model, ctx: Context) -> Drafts:
    """A file that loads must also run.

    Why. llama.cpp does not check everything at load: some files abort when the context is made, at the first
    token, or hang there. A health check that only waits for the load does not see it. The rule speaks only where
    no other rule found an error.
    Evidence. 9 % of the mutated files that the real library loads fail right after (b11434).
    Example. llama.cpp loads the file, then aborts at the first tokens: norm weights must be F32
    Fix. Depends on the message; quantise or convert again where tensor types are at fault.
    """
    load = prediction(m, ctx)
    after = load.after_load
    if load.verdict not in ("loads", "warns") or after is None or after.outcome not in ("refused", "aborts", "hangs"):
        return
    # A model without a vocabulary is used with token ids; only tokenizing text fails.
    if after.stage == "decode" and m.get("tokenizer.ggml.model") in NO_TOKENIZER and "okenizer" in after.message:
        return
    stage = "the context" if after.stage == "context" else "the first tokens"
    verb = {"refused": "refuses", "aborts": "aborts at", "hangs": "hangs at"}[after.outcome]
    detail = f": {after.message}" if after.message else ""
    yield found(
        f"llama.cpp loads the file, then {verb} {stage}{detail}",
        where=_where(after.where or "file"),
        stage=after.stage,
        outcome=after.outcome,
    )
