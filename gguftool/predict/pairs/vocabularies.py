"""Two vocabularies, compared as llama.cpp does it (`speculative.cpp:common_speculative_are_compatible`, b11434)."""

from __future__ import annotations

from itertools import islice

from gguftool.brief import short_repr
from gguftool.facts.machine.ends import Abort, Refusal
from gguftool.facts.machine.reader import Reader
from gguftool.model import Model
from gguftool.model.vocab import KINDS, vocabulary
from gguftool.predict.vocab import Loaded, load_vocab
from gguftool.records import dataclass

MOST_APART = 128
"""By so many tokens two vocabularies may differ in size (`SPEC_VOCAB_MAX_SIZE_DIFFERENCE`, b11434)."""
FIRST = 5
"""Texts are compared from this token on (`SPEC_VOCAB_CHECK_START_TOKEN_ID`)."""
NUMBERS = {"none": 0, "SPM": 1, "BPE": 2, "WPM": 3, "UGM": 4, "RWKV": 5, "PLaMo2": 6, "TEST": 7}
"""Kinds as llama.cpp's lines number them (`llama.h:llama_vocab_type`)."""


@dataclass(frozen=True, slots=True)
class Apart:
    """The first thing in which two vocabularies differ.

    Attributes:
        what: ``kind``, ``bos``, ``eos``, ``size`` or ``text``.
        ours, its: of the target and of the draft, for people.
        line: what llama.cpp says of it; of ``size`` and ``text`` at its highest level only.
        where: the key in the draft.
    """

    what: str
    ours: str
    its: str
    line: str
    where: str

    __repr__ = short_repr


def loaded(m: Model) -> Loaded | None:
    """The vocabulary as llama.cpp sets it up; None when it refuses it."""
    try:
        return load_vocab(Reader(m.fields, m.architecture), vocabulary(m))
    except (Refusal, Abort):
        return None


def apart(target: Model, draft: Model) -> Apart | None:
    """In what llama.cpp finds two vocabularies to differ; None when it takes them for equal, or cannot load one."""
    a, b = loaded(target), loaded(draft)
    if a is None or b is None:
        return None
    if a.kind != b.kind:
        line = (
            "draft model vocab type must match target model to use speculation but "
            f"vocab_type_dft = {NUMBERS[b.kind]} while vocab_type_tgt = {NUMBERS[a.kind]}"
        )
        return Apart("kind", a.kind, b.kind, line, "field:tokenizer.ggml.model")
    for role, ours, its in (("bos", a.add_bos, b.add_bos), ("eos", a.add_eos, b.add_eos)):
        x, y = a.ids.get(role, -1), b.ids.get(role, -1)
        if ours != its or (ours and x != y):
            line = (
                f"draft model {role} tokens must match target model to use speculation. "
                f"add: {int(ours)} - {int(its)}, id: {x} - {y})"
            )
            key = f"add_{role}_token" if ours != its else f"{role}_token_id"
            return Apart(role, _added(ours, x), _added(its, y), line, f"field:tokenizer.ggml.{key}")
    if abs(a.n_tokens - b.n_tokens) > MOST_APART:
        line = (
            "draft model vocab must closely match target model to use speculation but "
            f"target vocab size {a.n_tokens} does not match draft vocab size {b.n_tokens} - "
            f"difference {abs(a.n_tokens - b.n_tokens)}, max allowed {MOST_APART}"
        )
        return Apart("size", f"{a.n_tokens:,}", f"{b.n_tokens:,}", line, "field:tokenizer.ggml.tokens")
    return texts_apart(target, draft)


def texts_apart(target: Model, draft: Model) -> Apart | None:
    """The first token of both that has another text, as C compares them: up to a NUL."""
    a, b = vocabulary(target), vocabulary(draft)
    if a.kind is KINDS["none"] or b.kind is KINDS["none"]:
        return None
    if a.name and a.name == b.name:
        return None
    n = min(a.listed, b.listed)
    # Both as they stand: the length of a text is part of it.
    for i, (one, other) in enumerate(islice(zip(a.records(), b.records(), strict=False), n)):
        if i < FIRST or one == other:
            continue
        x, y = a.text(i).partition("\0")[0], b.text(i).partition("\0")[0]
        if x != y:
            line = f"draft model vocab must match target model to use speculation but token {i} content differs"
            return Apart("text", f"{i} {x!r}", f"{i} {y!r}", line, "field:tokenizer.ggml.tokens")
    return None


def _added(added: bool, token: int) -> str:
    return f"{token}, {'added' if added else 'not added'}"
