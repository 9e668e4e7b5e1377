"""Load: what llama.cpp would stop at, where no other rule found an error.

These rules are the net below the others: they turn the predicted load (`gguftool.predict`) into findings. The errors
speak only when nothing else explains why the file cannot be used, the warnings line by line, where no other rule has
found what llama.cpp warns about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gguftool.facts import llama_cpp
from gguftool.lint.predicted import asked
from gguftool.lint.rule import Context, Drafts, Finding, Scope, Severity, found, not_evaluated, rule
from gguftool.lint.rules.metadata.keys import NO_TOKENIZER
from gguftool.model import Model
from gguftool.model.embedder import no_chat
from gguftool.model.role import ROLES, role
from gguftool.predict import Prediction
from gguftool.predict.stages import OTHERS
from gguftool.predict.verdict import LOAD_ERROR
from gguftool.predict.words import APPLY, INITS
from gguftool.records import dataclass
from gguftool.regex import regex

_PREFIXES = (LOAD_ERROR, *INITS, APPLY)


def _who(ctx: Context) -> str:
    """The build is named where one was asked for."""
    return "llama.cpp" if ctx.build is None else llama_cpp(ctx.build)


def _loaded_as_it_is(m: Model, ctx: Context) -> bool:
    """Whether llama.cpp has a loader for a file of this role."""
    own: str = ctx.once("role", lambda: role(m))
    return ROLES[own].loads or own in OTHERS


def _words(load: Prediction) -> str:
    text = (*load.messages, *(load.warnings if load.skipped else ()), "no message")[0]
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    return text


def _where(where: str) -> str:
    return where if where.startswith(("field:", "tensor:", "shard:")) or where in ("file", "header") else "file"


@rule(Severity.ERROR, scope=Scope.FILE, role="any")
def load_refused(m: Model, ctx: Context) -> Drafts:
    """llama.cpp must load the file.

    Why. The checks of llama.cpp b11434 are predicted from the header in its own order; this is the first that
    fails. The rule speaks only where no other rule found an error.
    Evidence. 76,646 mutated files judged by the real library (b11434).
    Example. llama.cpp refuses the file: check_tensor_dims: tensor 'blk.0.attn_norm.weight' not found
    Fix. Depends on the message; `gguftool doctor` explains messages of llama.cpp.
    """
    load = asked(m, ctx)
    if not _loaded_as_it_is(m, ctx):
        return
    if load.verdict == "refused" or load.skipped:
        verb = "skips the file and runs without it" if load.skipped else "refuses the file"
        yield found(
            f"{_who(ctx)} {verb}: {_words(load)}",
            where=_where(load.where),
            llama_cpp=_words(load),
            stage=load.stage,
        )
    elif load.verdict == "unknown":
        yield not_evaluated(
            "; ".join(load.not_evaluated) or "the header does not tell whether llama.cpp loads the file"
        )


@rule(Severity.ERROR, scope=Scope.FILE, role="any")
def load_aborts(m: Model, ctx: Context) -> Drafts:
    """llama.cpp must not abort on the file.

    Why. A failed assertion or a crash ends the whole process, a server with all its other models too. The rule
    speaks only where no other rule found an error.
    Evidence. 1,533 of 76,646 mutated files end the real library like that (b11434).
    Example. llama.cpp aborts while it loads the file: GGML_ASSERT(n_expert_used_max > 0) failed
    Fix. Depends on the message; `gguftool doctor` explains messages of llama.cpp.
    """
    load = asked(m, ctx)
    if load.verdict == "aborts" and _loaded_as_it_is(m, ctx):
        yield found(
            f"{_who(ctx)} aborts while it loads the file: {_words(load)}",
            where=_where(load.where),
            llama_cpp=_words(load),
            aborts=True,
        )


@rule(Severity.ERROR, scope=Scope.FILE, role="any")
def load_then_fails(m: Model, ctx: Context) -> Drafts:
    """A file that loads must also run.

    Why. llama.cpp does not check everything at load: some files abort when the context is made, at the first
    token, or hang there. A health check that only waits for the load does not see it. The rule speaks only where
    no other rule found an error.
    Evidence. 9 % of the mutated files that the real library loads fail right after (b11434).
    Example. llama.cpp loads the file, then aborts at the first tokens: norm weights must be F32
    Fix. Depends on the message; quantise or convert again where tensor types are at fault.
    """
    load = asked(m, ctx)
    after = load.after_load
    if not load.loads or after is None or after.outcome not in ("refused", "aborts", "hangs"):
        return
    # A model without a vocabulary is used with token ids; only tokenizing text fails.
    if after.stage == "decode" and m.get("tokenizer.ggml.model") in NO_TOKENIZER and "okenizer" in after.message:
        return
    stage = "the context" if after.stage == "context" else "the first tokens"
    verb = {"refused": "refuses", "aborts": "aborts at", "hangs": "hangs at"}[after.outcome]
    detail = f": {after.message}" if after.message else ""
    yield found(
        f"{_who(ctx)} loads the file, then {verb} {stage}{detail}",
        where=_where(after.where or "file"),
        stage=after.stage,
        outcome=after.outcome,
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """Warnings of one kind.

    Attributes:
        pattern: of llama.cpp's line; ``where`` may stand in it as a group, the end of a key.
        meaning: what it comes to, as a sentence.
        where: the key that it follows from.
        rules: other rules that tell the same.
        severity: INFO where sound models have it too.
        chat: it is about answers, and says nothing of a model that gives none.
    """

    pattern: re.Pattern[str]
    meaning: str
    where: str
    rules: tuple[str, ...] = ()
    severity: Severity = Severity.INFO
    chat: bool = False


def _line(
    pattern: str, meaning: str, where: str, *rules: str, severity: Severity = Severity.INFO, chat: bool = False
) -> _Line:
    return _Line(regex(pattern), meaning, where, rules, severity, chat)


_TG = "field:tokenizer.ggml."
_WARN = Severity.WARNING
LINES = (
    _line(r"load: missing pre-tokenizer type|load: (?:\s+|\*+\s*|GENERATION QUALITY .*|CONSIDER REGENERATING .*)$",
          "the pre-tokenizer is not named, so text is split as by default", _TG + "pre",
          "pre-tokenizer-missing", severity=_WARN),
    _line("load: empty token at index", "tokens have no text", _TG + "tokens", "empty-tokens"),
    _line("load: SPM vocabulary, but newline token not found", "no token stands for a line feed", _TG + "tokens",
          "byte-tokens-missing", severity=_WARN),
    _line("load: model vocab missing newline token", "no token stands for a line feed, the padding token is taken",
          _TG + "tokens"),
    _line(r"load: default special token 'tokenizer\.ggml\.(?P<where>\w+)' = \d+ out of vocab range",
          "an id that the file does not name has a default outside the vocabulary, so there is none", "",
          "eos-missing", "bos-missing", "special-id-out-of-range"),
    _line(r"load: bad special token: 'tokenizer\.ggml\.(?P<where>\w+)'", "an id is outside the vocabulary", "",
          "special-id-out-of-range", severity=_WARN),
    _line(r"load: override 'tokenizer\.ggml\.(?P<where>add_bos_token)'", "BOS is added whatever the file says", "",
          "add-bos-overridden"),
    _line("load: control-looking token", "tokens that llama.cpp knows as control tokens are typed otherwise; it types "
          "them itself", _TG + "token_type", "control-token-typed-normal"),
    _line("load: setting token '.*' .* attribute to USER_DEFINED", "the markers of gpt-oss are always shown",
          _TG + "token_type"),
    _line(r"load: special_(?P<role>eo[smt])_id is not in special_eog_ids",
          "a token ends answers whose name llama.cpp does not know as one that does", "",
          "eos-not-control", "eos-is-start-marker", chat=True),
    _line("load: special_eog_ids contains both", "<|end|> ends no answer of this model", _TG + "tokens", chat=True),
    _line("load: '</s>' is a normal token here", "</s> ends no answer of this model", _TG + "tokens", chat=True),
    _line("load: Mask token is missing in vocab", "the mask token is not in the vocabulary", _TG + "tokens",
          severity=_WARN),
    _line("load: Mask token missing in vocab", "the mask token is not in the vocabulary", _TG + "tokens"),
    _line(r"load: adding \d+ dummy tokens", "the model has no vocabulary; tokens are numbers", _TG + "model",
          "tokenizer-model-missing"),
    _line("model has unused tensor", "tensors are left aside", "file", "tensor-ignored"),
    _line("llama_model_loader: unknown type", "llama.cpp has no name for a model of this tensor type, and shows "
          "another quantisation", "field:general.file_type"),
    _line("load_arch_hparams: Phi SWA is currently disabled", "llama.cpp runs Phi models without their sliding window",
          "field:phi3.attention.sliding_window"),
)  # fmt: skip
"""What llama.cpp warns about while it loads a file (b11434), in the order of the load."""


@rule(Severity.WARNING, scope=Scope.FILE)
def load_warns(m: Model, ctx: Context) -> Drafts:
    """What llama.cpp warns about should be known.

    Why. It loads the file all the same, and its log is seldom read. The rule tells each kind of line once, and only
    where no other rule has found what is behind it.
    Evidence. The warnings of `llama-vocab.cpp`, `llama-model-loader.cpp` and the models (b11434).
    Example. no token stands for a line feed, the padding token is taken
    Fix. Depends on the line; sound models have some of them too, which are told as info.
    """
    others: Sequence[Finding] = ctx.memo.get("found", ())
    by_kind: dict[_Line | None, list[str]] = {}
    load = asked(m, ctx)
    for text in () if load.skipped else load.warnings:
        kind = next((line for line in LINES if line.pattern.match(text)), None)
        place = _place(kind, text)
        if kind is not None and kind.chat and ctx.once("no chat", lambda: no_chat(m)):
            continue
        if kind is not None and any(f.rule in kind.rules and place in ("file", f.where, *_WIDE) for f in others):
            continue
        by_kind.setdefault(kind, []).append(text)
    for kind, lines in by_kind.items():
        more = f" (and {len(lines) - 1:,} more)" if len(lines) > 1 else ""
        yield found(
            f"{kind.meaning if kind is not None else f'{_who(ctx)} warns while it loads the file'}: {lines[0]}{more}",
            where=_place(kind, lines[0]),
            severity=kind.severity if kind is not None else None,
            lines=lines[:MOST_LINES],
        )


MOST_LINES = 20
"""Lines of one kind that a finding holds."""
_WIDE = (_TG + "tokens", _TG + "token_type", _TG + "pre", _TG + "model")
"""Places that hold many tokens: there a finding of a rule stands for all its lines."""


def _place(kind: _Line | None, text: str) -> str:
    """The key that a line follows from; ids have one each."""
    found = kind.pattern.match(text) if kind is not None else None
    if kind is None or found is None:
        return "file"
    groups = found.groupdict()
    if "role" in groups:
        return f"{_TG}{groups['role']}_token_id"
    return _TG + groups["where"] if "where" in groups else kind.where
