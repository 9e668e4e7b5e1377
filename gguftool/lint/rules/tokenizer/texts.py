"""Whether llama.cpp cuts text as the tokenizer of the source does; asked with ``--against FOLDER --tokenizer``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gguftool.edit.ops import Set
from gguftool.lint.rule import Context, Drafts, Fix, NotEvaluated, Scope, Severity, found, not_evaluated, rule
from gguftool.lint.rules.tokenizer.pre import KEY, signature
from gguftool.model import Model
from gguftool.model.vocab import TOKENS, vocabulary
from gguftool.near import same_beginning

if TYPE_CHECKING:
    from gguftool.lint.tokenized import Compared, Cut, Differs

PREFIX = "tokenizer.ggml.add_space_prefix"
SHOWN = 2
"""Texts that a finding shows."""
_LONG = 48
_MANY = 8


def _asked(m: Model, ctx: Context) -> tuple[Compared | None, NotEvaluated | None]:
    """The comparison, made once a file; nothing where nobody asked for it."""
    if ctx.tokenized is None or not vocabulary(m).count:
        return None, None
    compare = ctx.tokenized
    made = ctx.once("tokenized", lambda: compare(m))
    return (None, not_evaluated(made.why_not)) if made.why_not else (made, None)


def _cut(cut: Cut) -> str:
    """``[15, 12] '▁Hel' 'lo'``, shortened."""
    ids = ", ".join(map(str, cut.ids[:_MANY])) + (", …" if len(cut.ids) > _MANY else "")
    pieces = " ".join(map(repr, cut.pieces[:_MANY])) + (" …" if len(cut.pieces) > _MANY else "")
    return f"[{ids}] {pieces}".rstrip()


def _text(text: str) -> str:
    return repr(text) if len(text) <= _LONG else f"{text[:_LONG]!r}…"


def _shown(d: Differs) -> str:
    """The tokens from the first on that is not the same."""
    from gguftool.lint.tokenized import Cut

    a, b = d.source.ids, d.file.ids
    at = same_beginning(a, b)
    begin = max(at - 1, 0)
    source, file = (Cut(c.ids[begin:], c.pieces[begin:]) for c in (d.source, d.file))
    where = f" from token {begin + 1} on" if begin else ""
    return f"{_text(d.sample.text)} ({d.sample.kind}){where}: tokenizer.json {_cut(source)}, llama.cpp {_cut(file)}"


def _rows(differs: tuple[Differs, ...]) -> Iterator[dict[str, object]]:
    for d in differs[:20]:
        sides = {"source": d.source, "file": d.file}
        yield {
            "class": d.sample.kind,
            "text": d.sample.text,
            **{name: {"ids": list(c.ids), "pieces": list(c.pieces)} for name, c in sides.items()},
        }


@rule(Severity.ERROR, scope=Scope.SOURCE, role="any")
def tokenizer_texts_differ(m: Model, ctx: Context) -> Drafts:
    """Text must be cut into the same tokens as in training.

    Why. Other tokens than in training make every answer worse, numbers and code first, and nothing says so. About
    3,000 texts (prose, code, numbers, runs of blanks, special tokens, chat turns, emoji, combining marks, writing from
    right to left, long words, control characters, the blocks of Unicode) are cut by Hugging Face's `tokenizers` from
    tokenizer.json and by llama.cpp from the file. Where only rare classes part, it is an info: both libraries have
    their own tables of Unicode, and llama.cpp brings no text into a normal form (NFC) as some tokenizers do.
    Evidence. llama.cpp issues 7056 and 6920: wrong pre-tokenizers. An error only where a key of the file makes all
    texts agree. Only with --against FOLDER --tokenizer.
    Example. 412 of 2,468 texts are cut otherwise than by tokenizer.json (numbers 19, code 40, …); '1234567' (numbers):
    tokenizer.json [4513, 10961, 22] '123' '456' '7', llama.cpp [16, 17, 18] '1' '2' '3'; llama-bpe agrees on all
    Fix. Writes the pre-tokenizer, or the space prefix, with which all texts agree, where there is one.
    """
    made, unable = _asked(m, ctx)
    if unable is not None:
        yield unable
    if made is None or not made.differs:
        return
    vocab = vocabulary(m)
    counts = ", ".join(f"{name} {count:,}" for name, count in made.by_class.items())
    fix, says, where = None, "", f"field:{TOKENS}"
    if made.form:
        says = f"; all agree in {made.form}, into which tokenizer.json brings every text and llama.cpp none"
    elif made.pre:
        family = signature(vocab)
        best = next((name for name in family.pre if name in made.pre), made.pre[0]) if family else made.pre[0]
        also = [name for name in made.pre if name != best]
        more = f" (so do {', '.join(also[:4])}{', …' if len(also) > 4 else ''})" if also else ""
        says = f"; with the pre-tokenizer {best} all texts agree{more}"
        fix, where = Fix(f"name it {best}", (Set(KEY, best, "str"),)), f"field:{KEY}"
    elif made.prefix is not None:
        word = str(made.prefix).lower()
        says = f"; they agree when {PREFIX} is {word}"
        fix, where = Fix(f"write {word}", (Set(PREFIX, made.prefix, "bool"),)), f"field:{PREFIX}"
    elif vocab.kind is not None and vocab.kind.name == "BPE":
        says = "; no pre-tokenizer that llama.cpp knows agrees on all"
    first = "; ".join(_shown(d) for d in made.differs[:SHOWN])
    severity = None if fix is not None else Severity.WARNING if made.everyday and not made.form else Severity.INFO
    yield found(
        f"{len(made.differs):,} of {made.texts:,} texts are cut otherwise than by tokenizer.json ({counts}){says}; "
        f"first: {first}",
        where=where,
        severity=severity,
        fix=fix,
        texts=made.texts,
        classes=dict(made.by_class),
        agrees=list(made.pre) or None,
        form=made.form or None,
        first=list(_rows(made.differs)),
    )


@rule(Severity.INFO, scope=Scope.SOURCE, role="any")
def tokenizer_ends_differ(m: Model, ctx: Context) -> Drafts:
    """Know when other tokens are put around a text than by tokenizer.json.

    Why. It is no fault of the text's tokens: some families leave the beginning to the chat template, some classes of
    transformers add it beside tokenizer.json. A BOS that the model never saw, or a missing one, makes it lose the
    thread all the same; what tokenizer_config.json says is the rule source-add-bos.
    Evidence. An empty text, cut by both with begin and end. Only with --against FOLDER --tokenizer.
    Example. around a text llama.cpp puts [1] '<s>', tokenizer.json nothing
    Fix. `gguftool fix --set tokenizer.ggml.add_bos_token=false`, when the source says so.
    """
    made, _ = _asked(m, ctx)
    if made is None or made.ends is None:
        return
    theirs, ours = (_cut(c) if c.ids else "nothing" for c in made.ends)
    yield found(
        f"around a text llama.cpp puts {ours}, tokenizer.json {theirs}",
        where="field:tokenizer.ggml.add_bos_token",
        source=list(made.ends[0].ids),
        file=list(made.ends[1].ids),
    )
