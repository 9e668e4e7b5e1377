"""What the tokens themselves are: distinct, not too long, with bytes to fall back to, typed as what they are."""

from __future__ import annotations

import math
import re
import sys
from array import array

from gguftool.chat.markers import SURE
from gguftool.edit.ops import SetElement
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, not_evaluated, rule, to_choose
from gguftool.model import Model
from gguftool.model.vocab import BYTE, CONTROL, NORMAL, SCORES, TOKENS, TYPES, Vocabulary, names, vocabulary
from gguftool.regex import regex

LONGEST = 64 << 10
"""Bytes of a token beyond which a file is not taken for a model; the longest known real token has 1,024."""
MAX_FIXES = 64


@rule(Severity.ERROR, role="any")
def duplicate_tokens(m: Model, ctx: Context) -> Drafts:
    """No two tokens may have the same text.

    Why. llama.cpp does not refuse such a file, it aborts the whole process. An empty token counts as `[EMPTY_n]`.
    Evidence. GGML_ASSERT(id_to_token.size() == token_to_id.size()).
    Example. 2 tokens have a text that another token has: 299 and 17 are both '<|im_end|>'
    Fix. Gives the later one an unused name, `[DUPLICATE_299]`.
    """
    vocab = vocabulary(m)
    if not vocab.count:
        return
    pairs = [(a, b) for a, b in vocab.duplicates(MAX_FIXES) if vocab.text(b)]
    if not pairs:
        return
    first, later = pairs[0]
    ops = tuple(SetElement(TOKENS, b, f"[DUPLICATE_{b}]") for _, b in pairs)
    many = f"{len(pairs)} {'token has' if len(pairs) == 1 else 'tokens have'}"
    yield found(
        f"{many} a text that another token has: {later} and {first} are both {vocab.text(later)!r}; llama.cpp aborts",
        where=f"field:{TOKENS}",
        fix=Fix("rename the later ones", ops),
        pairs=[list(p) for p in pairs],
    )


@rule(Severity.INFO, role="any")
def empty_tokens(m: Model, ctx: Context) -> Drafts:
    """Tokens should have a text.

    Why. llama.cpp warns and names them `[EMPTY_n]`; the model cannot say them.
    Evidence. "empty token at index …".
    Example. 2 tokens are empty, the first is 41
    Fix. None: harmless, and ids must stay.
    """
    vocab = vocabulary(m)
    if vocab.id_of("") is None:
        return
    lengths = list(map(len, vocab.records()))
    size = min(lengths)
    n, first = lengths.count(size), lengths.index(size)
    plural = "token is" if n == 1 else "tokens are"
    yield found(f"{n:,} {plural} empty, the first is {first}", where=f"field:{TOKENS}", count=n)


@rule(Severity.ERROR, role="any")
def token_too_long(m: Model, ctx: Context) -> Drafts:
    """A token must not be longer than 64 KiB.

    Why. No tokenizer makes such a token. Lengths beyond what a loader expects have overflowed buffers (CVE-2025-49847,
    CVE-2025-52566).
    Evidence. The longest token of 19 vocabularies that come with llama.cpp has 1,024 bytes.
    Example. token 300 has 1,048,576 bytes
    Fix. None: do not use the file.
    """
    vocab = vocabulary(m)
    long = vocab.longer(LONGEST)
    if long:
        more = f" and {len(long) - 1:,} more" if len(long) > 1 else ""
        yield found(
            f"token {long[0]}{more} has {vocab.size(long[0]):,} bytes",
            where=f"field:{TOKENS}",
            tokens=long[:MAX_FIXES],
        )


@rule(Severity.WARNING, role="any")
def token_type_unknown(m: Model, ctx: Context) -> Drafts:
    """Token types should be the numbers 1 to 6.

    Why. llama.cpp takes every other number for "undefined" without a word: such a token is neither text nor control.
    Evidence. `llama.h:llama_token_type`: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
    Example. 3 tokens have a type that does not exist: 7 (the first is 12)
    Fix. None: what they are is in the source model.
    """
    vocab = vocabulary(m)
    if vocab.all_typed:
        return
    types = vocab.types
    odd = sorted(set(types) - set(range(1, 7)))
    if odd:
        n = len(types) - sum(types.count(kind) for kind in range(1, 7))
        strange = set(odd)
        first = next(i for i, t in enumerate(types) if t in strange)
        yield found(
            f"{n:,} {'token has' if n == 1 else 'tokens have'} a type that does not exist: "
            f"{', '.join(map(str, odd[:5]))} (the first is {first})",
            where=f"field:{TYPES}",
            types=odd[:MAX_FIXES],
            first=first,
        )


@rule(Severity.WARNING, role="any")
def token_scores_unusable(m: Model, ctx: Context) -> Drafts:
    """A SentencePiece or unigram tokenizer needs scores that tell its tokens apart.

    Why. Scores decide how text is cut. Missing, all equal, or not numbers: llama.cpp loads in silence and cuts text in
    other pieces than the model learnt.
    Evidence. Measured: deleted scores, NaN and infinity load without a line.
    Example. tokenizer.ggml.scores is missing, which a llama tokenizer needs
    Fix. None: the scores are in the source model. Convert it again.
    """
    vocab = vocabulary(m)
    if vocab.kind is None or vocab.kind.name not in ("SPM", "UGM") or not vocab.count:
        return
    f = m.fields.get(SCORES)
    where = f"field:{SCORES}"
    if f is None:
        yield found(f"{SCORES} is missing, which a {vocab.model} tokenizer needs", where=where)
        return
    scores = f.value if f.type_name == "arr[f32]" else None
    if not isinstance(scores, array) or not scores:
        return
    bad = 0
    # What is no number has only ones in its exponent.
    top = scores.tobytes()[scores.itemsize - 1 if sys.byteorder == "little" else 0 :: scores.itemsize]
    if b"\x7f" in top or b"\xff" in top:
        bad = sum(not math.isfinite(s) for s in scores)
    if bad:
        first = next(i for i, s in enumerate(scores) if not math.isfinite(s))
        yield found(f"{bad:,} scores are not numbers, the first is that of token {first}", where=where)
    elif len(scores) > 300 and len(set(scores[:300])) == 1 and scores.count(scores[0]) == len(scores):
        yield found(f"all {len(scores):,} scores are {scores[-1]:g}: they do not tell tokens apart", where=where)


@rule(Severity.ERROR, role="any")
def byte_tokens_missing(m: Model, ctx: Context) -> Drafts:
    """A SentencePiece tokenizer needs a token for every byte, above all for the newline.

    Why. What no token covers is written byte by byte. Without `<0x0A>` llama.cpp dies at the first newline, without the
    others at the first character that is not in the vocabulary. PLaMo 2 is refused at once.
    Evidence. `llama-vocab.cpp:byte_to_token` (b11434): std::out_of_range; "Byte token for <0x…> is not set".
    Example. no token for the newline (<0x0A>): llama.cpp dies at the first one
    Fix. None: the vocabulary is not a SentencePiece one, or was cut. Convert the model again.
    """
    vocab = vocabulary(m)
    if not vocab.count or vocab.model not in ("llama", "plamo2"):
        return
    plain = vocab.model == "llama"
    absent = [b for b in range(256) if not vocab.has(f"<0x{b:02X}>") and not (plain and _raw_byte(vocab, b))]
    if not absent:
        return
    if 10 in absent and plain:
        yield found("no token for the newline (<0x0A>): llama.cpp dies at the first one", where=f"field:{TOKENS}")
    rest = [b for b in absent if b != 10 or not plain]
    if rest:
        yield found(
            f"no token for {len(rest)} of 256 bytes, the first is <0x{rest[0]:02X}>: llama.cpp "
            + ("dies at the first character that needs one" if plain else "refuses the file"),
            where=f"field:{TOKENS}",
            severity=Severity.ERROR if len(rest) == 256 or not plain else Severity.WARNING,
            bytes=rest,
        )


def _raw_byte(vocab: Vocabulary, byte: int) -> bool:
    """Whether a token is the byte itself, the second place llama.cpp looks."""
    return vocab.has(bytes([byte]).decode("utf-8", "surrogateescape"))


@rule(Severity.ERROR, role="any")
def byte_token_malformed(m: Model, ctx: Context) -> Drafts:
    """A token typed as byte must be written `<0xHH>`.

    Why. llama.cpp reads its value from the text. On a text that is too short the load fails with an unhelpful
    line, on a bert tokenizer it aborts.
    Evidence. "basic_string::substr: __pos (which is 3) > this->size()"; GGML_ABORT in `token_to_byte`.
    Example. token 5 'a' is typed as a byte, but is not written <0xHH>
    Fix. Types it as normal.
    """
    vocab = vocabulary(m)
    # RWKV vocabularies are not read byte by byte.
    if vocab.kind is None or not vocab.count or vocab.kind.name not in ("SPM", "UGM", "BPE", "WPM"):
        return
    ids = [i for i in vocab.ids_of_type(BYTE) if i < vocab.count]
    bad = ids if vocab.kind.name == "WPM" else [i for i in ids if not _BYTE.fullmatch(vocab.raw(i))]
    if not bad:
        return
    # An empty text is replaced by [EMPTY_n], which is long enough.
    short = [i for i in bad if 0 < len(vocab.text(i).encode("utf-8", "surrogateescape")) < 3]
    outcome = "llama.cpp aborts" if vocab.kind.name == "WPM" else "llama.cpp refuses the file" if short else ""
    yield found(
        f"token {vocab.show((short or bad)[0])} is typed as a byte, but is not written <0xHH>"
        + (f" ({len(bad):,} such tokens)" if len(bad) > 1 else "")
        + (f"; {outcome}" if outcome else ""),
        where=f"field:{TYPES}",
        severity=None if outcome else Severity.WARNING,
        fix=Fix(
            "type them as normal", tuple(SetElement(TYPES, i, NORMAL) for i in bad[:MAX_FIXES]), safe=bool(outcome)
        ),
        tokens=bad[:MAX_FIXES],
    )


_BYTE = regex(rb"<0x[0-9A-Fa-f]{2}>")


@rule(Severity.WARNING, role="any")
def control_token_typed_normal(m: Model, ctx: Context) -> Drafts:
    """Control tokens must be typed as such.

    Why. Text of users can then never become one of them. Typed as normal, `<|im_end|>` in a chat message ends the turn;
    and where llama.cpp does not know the name, the marker of the template is cut into pieces the model never saw.
    llama.cpp types the names it knows itself, and says so.
    Evidence. "control-looking token: … was not control-type; this is probably a bug in the model".
    Example. 3 control tokens are typed as normal text: 257 '<|im_end|>', 258 '<|im_start|>', …
    Fix. Types them as control (3), element by element.
    """
    vocab = vocabulary(m)
    if not vocab.count or vocab.kind is None or vocab.kind.name in ("none", "TEST"):
        return
    wanted: set[int] = set()
    for role in ("bos", "eos", "eot", "eom"):
        stored = vocab.stored(role)
        if stored is not None and SURE.fullmatch(vocab.text(stored)):
            wanted.add(stored)
    known = {
        i for g in ("eog", "fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep") for i in _ids(vocab, g)
    }
    wanted |= {i for i in known if SURE.fullmatch(vocab.text(i))}
    wanted |= _of_template(m)
    ids = sorted(i for i in wanted if vocab.type_of(i) == NORMAL)
    if not ids:
        return
    if TYPES not in m:
        yield found(
            f"{TYPES} is missing: {len(ids)} control tokens count as normal text, {_listed(vocab, ids)}",
            where=f"field:{TYPES}",
            tokens=ids[:MAX_FIXES],
        )
        return
    if vocab.typed < vocab.count:
        yield not_evaluated(f"{TYPES} is not an array of i32 for all tokens")
        return
    many = f"{len(ids)} control {'token is' if len(ids) == 1 else 'tokens are'}"
    yield found(
        f"{many} typed as normal text: {_listed(vocab, ids)}",
        where=f"field:{TYPES}",
        # What llama.cpp does itself while loading changes nothing.
        fix=Fix(
            "type them as control",
            tuple(SetElement(TYPES, i, CONTROL) for i in ids[:MAX_FIXES]),
            safe=set(ids) <= known,
        ),
        tokens=ids[:MAX_FIXES],
    )


def _ids(vocab: Vocabulary, group: str) -> set[int]:
    return {i for n in names(group) if (i := vocab.id_of(n)) is not None}


def _of_template(m: Model) -> set[int]:
    """Tokens that the chat template writes as markers."""
    from gguftool.chat.talk import chat

    talk = chat(m)
    if not talk.may_render:
        return set()
    text = "".join(talk.render(name).text for name in ("turns", "system"))
    return {i for t, i in talk.markers(text) if SURE.fullmatch(t)}


def _listed(vocab: Vocabulary, ids: list[int]) -> str:
    shown = ", ".join(vocab.show(i) for i in ids[:5])
    return shown + (", …" if len(ids) > 5 else "")


@rule(Severity.ERROR, role="any")
def phi3_tokens_missing(m: Model, ctx: Context) -> Drafts:
    """A model named phi-3 must have the tokens llama.cpp looks up by name.

    Why. For every file whose `general.name` contains "phi-3" or "phi3" llama.cpp looks for `</s>`, `<unk>`, `<s>` and
    `<|endoftext|>`, whatever the architecture; if one is absent, the load fails without naming it.
    Evidence. "error loading model vocabulary: unordered_map::at", seen on converted models.
    Example. general.name is 'Phi-3 tiny', so llama.cpp needs the token '<|endoftext|>', which is not in the vocabulary
    Fix. Renames the model, if it is no Phi-3: `gguftool fix --set general.name=…`.
    """
    vocab, name = vocabulary(m), m.get("general.name")
    if not isinstance(name, str) or not vocab.count or not re.search("phi-3|phi3", name.lower()):
        return
    if re.search("jina-v2-(?:de|es|code)|mmbert", vocab.pre or "") or "nomic-bert-moe" in m.architecture:
        return
    absent = [t for t in ("</s>", "<unk>", "<s>", "<|endoftext|>") if vocab.id_of(t) is None]
    if absent:
        plural = "token" if len(absent) == 1 else "tokens"
        yield found(
            f"general.name is {name!r}, so llama.cpp needs the {plural} {', '.join(map(repr, absent))}, which "
            f"{'is' if len(absent) == 1 else 'are'} not in the vocabulary",
            where="field:general.name",
            fix=to_choose("rename the model", "--set", "general.name"),
            llama_cpp="error loading model vocabulary: unordered_map::at",
        )
