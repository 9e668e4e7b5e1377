"""The arrays of the vocabulary: there, typed, long enough, in step with the embedding."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

from gguftool.edit.ops import Operation, Set
from gguftool.facts import llama_cpp
from gguftool.format import again
from gguftool.format.header import Field
from gguftool.format.types import ARR
from gguftool.lint.rule import MOST_WRITTEN, Context, Draft, Drafts, Fix, Severity, found, rule
from gguftool.model import Model
from gguftool.model.stringlist import StringList
from gguftool.model.tokenlist import unpaired
from gguftool.model.vocab import KINDS, MERGES, SCORES, TOKENS, TYPES, UNUSED, Vocabulary, is_array, vocabulary
from gguftool.near import near_names
from gguftool.records import dataclass
from gguftool.shell import FILE, Words

MODEL = "tokenizer.ggml.model"
_SHOWN = 256
"""Bytes of an entry in a message."""

ELEMENTS = {
    TOKENS: ("str",),
    SCORES: ("f32", "i32"),
    TYPES: ("i32",),
    "tokenizer.ggml.suppress_tokens": ("i32",),
}
"""Element types llama.cpp takes, for every kind of tokenizer."""


def _element_types(vocab: Vocabulary) -> dict[str, tuple[str, ...]]:
    out = dict(ELEMENTS)
    if vocab.kind is not None and vocab.kind.name == "BPE":
        out[MERGES] = ("str",)
    if vocab.model == "t5":
        out["tokenizer.ggml.precompiled_charsmap"] = ("u8", "i8")
    return out


@rule(Severity.ERROR)
def tokenizer_model_missing(m: Model, ctx: Context) -> Drafts:
    """The file must name its kind of tokenizer.

    Why. llama.cpp asks for `tokenizer.ggml.model` in every model, also in those without a vocabulary (`no_vocab`).
    Evidence. "key not found in model: tokenizer.ggml.model".
    Example. tokenizer.ggml.model is missing; the merges say it is gpt2
    Fix. `gguftool fix --set tokenizer.ggml.model=gpt2`, where the file itself shows which it is.
    """
    if MODEL in m:
        return
    guess = "gpt2" if MERGES in m else "llama" if SCORES in m and TOKENS in m else None
    why = "the merges say it is gpt2" if guess == "gpt2" else "scores without merges say it is llama"
    yield found(
        f"{MODEL} is missing" + (f"; {why}" if guess else ""),
        where=f"field:{MODEL}",
        fix=Fix(f"name the tokenizer {guess}", (Set(MODEL, guess, "str"),)) if guess else None,
        llama_cpp=f"key not found in model: {MODEL}",
    )


@rule(Severity.ERROR, role="any")
def tokenizer_model_unknown(m: Model, ctx: Context) -> Drafts:
    """The kind of tokenizer must be one that llama.cpp knows.

    Why. The names are those of ggml, not of Hugging Face classes: `llama` is SentencePiece, `gpt2` every
    byte-level BPE.
    Evidence. "unknown tokenizer: '…'".
    Example. tokenizer.ggml.model is 'bpe', which llama.cpp b11434 does not know; known: llama bert gpt2 …
    Fix. The nearest name, when there is one.
    """
    vocab = vocabulary(m)
    if vocab.model is None or vocab.kind is not None:
        return
    near = {
        "bpe": ["gpt2"],
        "spm": ["llama"],
        "sentencepiece": ["llama"],
        "wordpiece": ["bert"],
        "unigram": ["t5"],
    }.get(vocab.model.lower()) or near_names(vocab.model.lower(), KINDS, 1)
    yield found(
        f"{MODEL} is {vocab.model!r}, which {llama_cpp()} does not know; known: {' '.join(KINDS)}",
        where=f"field:{MODEL}",
        fix=Fix(f"name it {near[0]}", (Set(MODEL, near[0], "str"),)) if near else None,
        llama_cpp=f"unknown tokenizer: '{vocab.model}'",
    )


@rule(Severity.ERROR, role="any")
def tokens_missing(m: Model, ctx: Context) -> Drafts:
    """A model with a tokenizer must carry its token list.

    Why. Every tokenizer but `no_vocab` needs it, and the embedding is checked against its length.
    Evidence. "cannot find tokenizer vocab in model file".
    Example. tokenizer.ggml.tokens is missing
    Fix. None: the tokens are in the source model. Convert it again.
    """
    kind = vocabulary(m).kind
    if kind is None or kind.name == "none":
        return
    f = m.fields.get(TOKENS)
    if f is None:
        yield found(f"{TOKENS} is missing", where=f"field:{TOKENS}")
    elif f.count == 0:
        yield found(f"{TOKENS} is empty", where=f"field:{TOKENS}")


@rule(Severity.ERROR, role="any")
def tokenizer_array_type(m: Model, ctx: Context) -> Drafts:
    """The arrays of the vocabulary must have the element types llama.cpp reads.

    Why. tokens and merges are strings, scores f32, token types i32. Numbers of another width are refused; integers
    where strings belong are a token list that a converter flattened into bytes.
    Evidence. "invalid gguf type for tokenizer.ggml.tokens"; llama.cpp issues 18118 and 26690.
    Example. tokenizer.ggml.token_type is arr[u8], must be an array of i32
    Fix. Rewrites integer arrays of another width with the same values.
    """
    vocab = vocabulary(m)
    if vocab.kind is None or vocab.kind.name == "none":
        return
    for key, allowed in _element_types(vocab).items():
        f = m.fields.get(key)
        if f is None or (f.type == ARR and f.type_name in {f"arr[{t}]" for t in allowed}):
            continue
        message = f"{key} is {f.type_name}, must be an array of {allowed[0]}"
        fix = None
        if key == TOKENS and f.type == ARR:
            message += "; a token list of numbers is lost, convert the model again"
        elif f.type == ARR and allowed[0] == "i32" and f.type_name[4:5] in "ui" and (f.count or 0) <= MOST_WRITTEN:
            fix = Fix("write the same values as i32", (Set(key, list(f.value), "[i32]"),), safe=True)  # type: ignore[call-overload]
        yield found(message, where=f"field:{key}", fix=fix, llama_cpp=f"invalid gguf type for {key}")


@rule(Severity.ERROR, role="any")
def token_array_too_short(m: Model, ctx: Context) -> Drafts:
    """Scores and token types must cover every token.

    Why. llama.cpp refuses a shorter array.
    Evidence. "Index out of array bounds for toktypes (299 < 300)".
    Example. tokenizer.ggml.token_type has 299 elements for 300 tokens
    Fix. Appends what is missing: type 1 (normal), score 0. Check what the source says about the last tokens.
    """
    count = vocabulary(m).count
    for key, what, filler in ((TYPES, "toktypes", 1), (SCORES, "scores", 0.0)):
        f = m.fields.get(key)
        if count is None or f is None or f.type != ARR or (f.count or 0) >= count:
            continue
        fix = None
        if f.type_name in ("arr[i32]", "arr[f32]") and count <= MOST_WRITTEN:
            values = [*f.value, *[filler] * (count - (f.count or 0))]  # type: ignore[misc]
            fix = Fix(
                f"append {count - (f.count or 0):,} elements",
                (Set(key, values, f.type_name[3:]),),
                command=_fix("token-array-too-short"),
            )
        yield found(
            f"{key} has {f.count:,} elements for {count:,} tokens",
            where=f"field:{key}",
            fix=fix,
            llama_cpp=f"Index out of array bounds for {what} ({f.count} < {count})",
        )


def _fix(rule_id: str, option: str = "--fix-unsafe") -> Words:
    """Command for a fix whose operations hold a whole array."""
    return ("gguftool", "lint", FILE, "--select", rule_id, option)


@rule(Severity.INFO, role="any")
def token_array_too_long(m: Model, ctx: Context) -> Drafts:
    """Scores and token types should not be longer than the token list.

    Why. llama.cpp ignores the rest, but it shows that one list was changed without the other.
    Evidence. Measured: loads without a line.
    Example. tokenizer.ggml.scores has 301 elements for 300 tokens
    Fix. Cuts the array.
    """
    count = vocabulary(m).count
    for key in (TYPES, SCORES):
        f = m.fields.get(key)
        if count is None or f is None or f.type_name not in ("arr[i32]", "arr[f32]") or (f.count or 0) <= count:
            continue
        fix = None
        if count <= MOST_WRITTEN:
            ops = (Set(key, f.head(count), f.type_name[3:]),)
            command = _fix("token-array-too-long", "--fix")
            fix = Fix(f"cut it to {count:,} elements", ops, safe=True, command=command)
        yield found(f"{key} has {f.count:,} elements for {count:,} tokens", where=f"field:{key}", fix=fix)


@rule(Severity.ERROR, role="any")
def vocabulary_size_mismatch(m: Model, ctx: Context) -> Drafts:
    """The token list must be as long as the embedding has rows.

    Why. llama.cpp takes the vocabulary size from the token list and refuses an embedding of another shape. Usual
    causes: an added_tokens.json that the weights do not know, or padding rows that only the weights have.
    Evidence. "tensor 'token_embd.weight' has wrong shape"; llama.cpp issues 2894, 5910, 8445.
    Example. 300 tokens, but token_embd.weight has 299 rows (token_type 300, scores none, llama.vocab_size none)
    Fix. Cuts or pads the token list (with unused tokens); tensors are never touched. Not safe: only you know which
    side is right.
    """
    vocab = vocabulary(m)
    embedding = m.tensors.get("token_embd.weight")
    if vocab.count is None or embedding is None or len(embedding.shape) < 2:
        return
    rows = embedding.shape[1]
    if rows == vocab.count:
        if vocab.stated_size not in (None, rows):
            yield found(
                f"{m.architecture}.vocab_size is {vocab.stated_size:,}, tokens and embedding have {rows:,}",
                where=f"field:{m.architecture}.vocab_size",
                severity=Severity.INFO,
                fix=Fix("correct the record", (Set(f"{m.architecture}.vocab_size", rows, "u32"),), safe=True),
            )
        return
    counts = {key: f.count for key in (TYPES, SCORES) if (f := m.fields.get(key)) is not None}
    others = ", ".join(
        f"{name} {'none' if n is None else format(n, ',')}"
        for name, n in (
            ("token_type", counts.get(TYPES)),
            ("scores", counts.get(SCORES)),
            (f"{m.architecture}.vocab_size", vocab.stated_size),
        )
    )
    yield found(
        f"{vocab.count:,} tokens, but token_embd.weight has {rows:,} rows ({others})",
        where=f"field:{TOKENS}",
        fix=_resize(m, vocab, rows),
        tokens=vocab.count,
        embedding_rows=rows,
        token_types=counts.get(TYPES),
        scores=counts.get(SCORES),
        vocab_size=vocab.stated_size,
    )


def _resize(m: Model, vocab: Vocabulary, rows: int) -> Fix | None:
    """Token list, types and scores of ``rows`` elements; None where that is more than padding."""
    count = vocab.count or 0
    if not 0 < rows <= min(4 * count, MOST_WRITTEN):
        return None
    ops: list[Operation] = []
    for key, type_name, filler in (
        (TOKENS, "[str]", (f"[PAD{i}]" for i in range(count, rows))),
        # These lists may be shorter than that of the tokens.
        (TYPES, "[i32]", repeat(UNUSED)),
        (SCORES, "[f32]", repeat(0.0)),
    ):
        f = m.fields.get(key)
        if f is not None and f.type_name == f"arr{type_name}":
            ops.append(Set(key, [*f.head(rows), *_pad(filler, rows - (f.count or 0))], type_name))
    title = f"cut the token list to {rows:,}" if rows < count else f"pad the token list to {rows:,} with unused tokens"
    return Fix(title, tuple(ops), command=_fix("vocabulary-size-mismatch"))


def _pad(filler: Iterator[str | int | float], n: int) -> list[object]:
    return [next(filler) for _ in range(max(0, n))]


@rule(Severity.ERROR, role="any")
def merges_missing(m: Model, ctx: Context) -> Drafts:
    """A BPE tokenizer must carry its merges.

    Why. Without the key llama.cpp refuses the file; with an empty list it loads and cuts text into single bytes.
    Kimi-K2 has none by design.
    Evidence. "cannot find tokenizer merges in model file".
    Example. tokenizer.ggml.merges is missing
    Fix. None: the merges are in the source model. Convert it again.
    """
    vocab = vocabulary(m)
    if vocab.kind is None or vocab.kind.name != "BPE" or vocab.pre == "kimi-k2":
        return
    f = m.fields.get(MERGES)
    if f is None:
        yield found(
            f"{MERGES} is missing", where=f"field:{MERGES}", llama_cpp="cannot find tokenizer merges in model file"
        )
    elif f.count == 0 and vocab.model != "whitespace":
        yield from _empty()


def _empty() -> Iterator[Draft]:
    yield found(
        f"{MERGES} is empty: text falls apart into single bytes", where=f"field:{MERGES}", severity=Severity.WARNING
    )


@dataclass(frozen=True, slots=True)
class _Merges:
    """What the merges of a file are: how many are not two pieces, the first of these, and tokens that some make."""

    bad: int
    first: int
    text: str
    some: tuple[str, ...]


def _merges(f: Field, data: bytes, begin: int, end: int) -> _Merges:
    strings, count = StringList(f, data, begin, end), f.count or 0
    if f.strings is None or not f.strings.name:
        records = strings.records
        bad = unpaired(records, f.layout.length_size)
        if bad:
            return _Merges(len(bad), bad[0], str(strings.raw(bad[0], _SHOWN), "utf-8", "surrogateescape"), ())
    texts = (str(strings.raw(i), "utf-8", "surrogateescape") for i in range(0, count, max(1, count // 400)))
    return _Merges(0, 0, "", tuple(text.replace(" ", "", 1) for text in texts))


@rule(Severity.WARNING, role="any")
def merges_malformed(m: Model, ctx: Context) -> Drafts:
    """Every merge must be two pieces with a blank between them, and belong to the vocabulary.

    Why. llama.cpp takes malformed entries without a word and never applies them; merges of another model's tokenizer
    fail in the same silence. Text is then cut into pieces the model never saw.
    Evidence. Measured: "", "x" and " a" load without a line.
    Example. tokenizer.ggml.merges: 3 of 50,000 entries are not two pieces, the first is 17: 'Ġthe'
    Fix. None: convert the model again.
    """
    vocab = vocabulary(m)
    f = m.fields.get(MERGES)
    if vocab.kind is None or vocab.kind.name != "BPE" or f is None or not is_array(f, 8) or not f.count:
        return
    if f.strings is not None and f.strings.name and f.strings.name == vocab.name:
        return
    said = again.of(f, "merges", lambda *where: _merges(f, *where))
    if said.bad:
        yield found(
            f"{MERGES}: {said.bad:,} of {f.count:,} entries are not two pieces, the first is {said.first}: "
            f"{said.text!r}",
            where=f"field:{MERGES}",
            count=said.bad,
            first=said.first,
        )
        return
    some = said.some
    foreign = [token for token in some if not vocab.has(token)]
    # A few merges lead to tokens that were cut off the vocabulary; most of them do not.
    if len(foreign) * 2 > len(some) >= 20:
        yield found(
            f"{MERGES} belong to another vocabulary: {len(foreign):,} of {len(some):,} tried make no token, "
            f"as {foreign[0]!r}",
            where=f"field:{MERGES}",
            tried=len(some),
            foreign=len(foreign),
        )
