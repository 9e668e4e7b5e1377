"""Special ids: in range, there where a default would be wrong, pointing at what they should."""

from __future__ import annotations

from array import array

from gguftool.edit.ops import Operation, Set
from gguftool.lint.rule import MOST_WRITTEN, Context, Draft, Drafts, Fix, Severity, edit, found, rule
from gguftool.model import Model
from gguftool.model.vocab import ID_KEYS, OLD_ID_KEYS, TOKENS, Vocabulary, id_key, names, vocabulary
from gguftool.regex import regex
from gguftool.shell import blank

ADD_BOS, ADD_EOS = "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token"

BOS_NAMES = (
    "<s>",
    "<bos>",
    "<|begin_of_text|>",
    "<|startoftext|>",
    "<BOS_TOKEN>",
    "<｜begin▁of▁sentence｜>",
    "<|bos|>",
)
EOS_NAMES = (
    "</s>", "<eos>", "<|im_end|>", "<|end_of_text|>", "<|endoftext|>", "<|END_OF_TURN_TOKEN|>", "<｜end▁of▁sentence｜>",
    "<|eos|>", "[EOS]",
)  # fmt: skip
"""Names of which a vocabulary has one, in the order in which they are offered."""

START = regex(
    r"<s>|<bos>|<BOS_TOKEN>|<\|bos\|>|<\|(?:begin|start)_?of_?\w*\|>|<\|im_start\|>|<\|start_header_id\|>|<start_of_turn>"
    r"|<\|START_OF_TURN_TOKEN\|>|<｜begin▁of▁sentence｜>|\[CLS\]|\[BOS\]|<\|turn>"
)


def _in_use(vocab: Vocabulary) -> bool:
    return bool(vocab.count) and vocab.kind is not None and vocab.kind.name not in ("none", "TEST")


def _named(vocab: Vocabulary, candidates: tuple[str, ...]) -> int | None:
    """The one token with one of these names; None when there is none or more than one could be meant."""
    ids = {i for n in candidates if (i := vocab.id_of(n)) is not None}
    return ids.pop() if len(ids) == 1 else None


@rule(Severity.ERROR, role="any")
def special_id_out_of_range(m: Model, ctx: Context) -> Drafts:
    """Special ids must be ids of the vocabulary.

    Why. llama.cpp takes a default instead (1 and 2 for SentencePiece, 11 for BPE) or none: prompts begin with a
    comma and generation does not stop. An id equal to the number of tokens is out of range, id 0 is an id like any
    other.
    Evidence. "bad special token: 'tokenizer.ggml.eos_token_id' = 99999, using default id 11".
    Example. tokenizer.ggml.eos_token_id is 99,999, but there are 300 tokens; llama.cpp takes 11 ',' instead
    Fix. The id of the token with the usual name, when there is just one; otherwise `gguftool fix --special
    eos=TEXT`.
    """
    vocab = vocabulary(m)
    # A missing or unknown tokenizer model has its own rule; the ids are wrong all the same.
    if not vocab.count or (vocab.kind is not None and not _in_use(vocab)):
        return
    for key, role in [(k, r) for r, k in ID_KEYS.items()] + [(k, r) for r, k in OLD_ID_KEYS.items()]:
        whole = f"tokenizer.ggml.{key}"
        value = m.get(whole)
        if not isinstance(value, int) or isinstance(value, bool) or 0 <= value < vocab.count:
            continue
        default = vocab.default(role)
        instead = f"{vocab.show(default)} instead" if default is not None else "none"
        matters = role in ("bos", "eos", "eot", "eom")
        yield found(
            f"{whole} is {value:,}, but there are {vocab.count:,} tokens; llama.cpp takes {instead}",
            where=f"field:{whole}",
            severity=None if matters else Severity.WARNING,
            fix=_by_name(vocab, role, whole),
            id=value,
            tokens=vocab.count,
            llama_cpp=f"bad special token: '{whole}' = {value}, using default id {-1 if default is None else default}",
        )


def _by_name(vocab: Vocabulary, role: str, key: str) -> Fix | None:
    if role in ("bos", "eos"):
        i = _named(vocab, BOS_NAMES if role == "bos" else EOS_NAMES)
        if i is not None:
            return Fix(f"set it to {vocab.show(i)}", (Set(key, i, "u32"),))
        return Fix(f"name the {role} token", command=edit("--special", blank(f"{role}=")))
    return None


@rule(Severity.ERROR, role="any")
def bos_missing(m: Model, ctx: Context) -> Drafts:
    """A tokenizer that puts BOS in front of prompts must say which token that is.

    Why. BPE files without the key get token 11, a comma in most vocabularies. With add_bos_token true every prompt then
    starts with it; with false only the start-up log and tools that ask show it. T5 and RWKV have no default: llama.cpp
    aborts when it is to add one.
    Evidence. llama.cpp issue 7898; GGML_ASSERT(special_bos_id != LLAMA_TOKEN_NULL).
    Example. no tokenizer.ggml.bos_token_id, and add_bos_token is true: llama.cpp puts 11 ',' in front of every prompt
    Fix. `tokenizer.ggml.add_bos_token` = false, or the BOS token when the vocabulary has just one with such a name.
    """
    vocab = vocabulary(m)
    if not _in_use(vocab) or vocab.kind is None or vocab.stored("bos") is not None:
        return
    default, key = vocab.default("bos"), id_key("bos")
    if vocab.kind.name == "BPE" and vocab.model != "gemma4" and default is not None:
        if not vocab.add_bos:
            yield found(
                f"no {key}: llama.cpp shows {vocab.show(default)} as BOS, but does not add it",
                where=f"field:{key}",
                severity=Severity.INFO,
            )
        elif not START.fullmatch(vocab.text(default)):
            yield _bos_added(vocab, f"llama.cpp puts {vocab.show(default)} in front of every prompt")
    elif default is None and vocab.add_bos:
        yield _bos_added(vocab, "llama.cpp aborts at the first prompt")


def _bos_added(vocab: Vocabulary, outcome: str) -> Draft:
    i, key = _named(vocab, BOS_NAMES), id_key("bos")
    ops: tuple[Operation, ...] = (Set(key, i, "u32"),) if i is not None else (Set(ADD_BOS, False, "bool"),)
    title = f"set it to {vocab.show(i)}" if i is not None else "do not add BOS"
    return found(
        f"no {key}, and {ADD_BOS} is true: {outcome}",
        where=f"field:{key}",
        fix=Fix(title, ops),
    )


@rule(Severity.ERROR, role="any")
def eos_missing(m: Model, ctx: Context) -> Drafts:
    """A text model must say which token ends a text.

    Why. Without the key BPE files get token 11, so "," counts as the end; SentencePiece files get token 2.
    Evidence. llama.cpp issue 7898: "BOS token = 11 ','".
    Example. no tokenizer.ggml.eos_token_id: llama.cpp takes 11 ',', and every one of them ends the answer
    Fix. The id of the token with the usual name, when there is just one; otherwise `gguftool fix --special eos=TEXT`.
    """
    vocab = vocabulary(m)
    if not _in_use(vocab) or vocab.kind is None or vocab.kind.name not in ("BPE", "SPM"):
        return
    key, default = id_key("eos"), vocab.default("eos")
    if vocab.stored("eos") is not None or vocab.model == "gemma4":
        return
    if default is None:
        yield found(
            f"no {key}, and the default is outside the vocabulary: nothing ends a text",
            where=f"field:{key}",
            fix=_by_name(vocab, "eos", key),
        )
    elif vocab.text(default) not in (*EOS_NAMES, *names("eog")):
        yield found(
            f"no {key}: llama.cpp takes {vocab.show(default)}, and every one of them ends the answer",
            where=f"field:{key}",
            fix=_by_name(vocab, "eos", key),
            default=default,
        )


@rule(Severity.WARNING, role="any")
def eos_is_start_marker(m: Model, ctx: Context) -> Drafts:
    """Tokens that end a text should not be ones that start something.

    Why. A model never writes its start marker to stop, so generation runs on to the limit.
    Evidence. The names of start markers in public vocabularies; llama.cpp warns "special_eos_id is not in
    special_eog_ids".
    Example. tokenizer.ggml.eos_token_id is 256 '<|bos|>', which starts a text
    Fix. The token with the usual name, when there is just one; otherwise `gguftool fix --special eos=TEXT`.
    """
    vocab = vocabulary(m)
    # The RWKV World vocabulary ends texts with its token 0, which it writes <s>.
    if not _in_use(vocab) or (vocab.kind is not None and vocab.kind.name == "RWKV"):
        return
    for role in ("eos", "eot", "eom"):
        i = vocab.stored(role)
        if i is None or not START.fullmatch(vocab.text(i)):
            continue
        key = id_key(role)
        yield found(
            f"{key} is {vocab.show(i)}, which starts a text or a turn",
            where=f"field:{key}",
            fix=_by_name(vocab, role, key),
            id=i,
        )


@rule(Severity.WARNING, role="any", chat=True)
def add_eos_on_chat_model(m: Model, ctx: Context) -> Drafts:
    """A chat model should not put EOS behind every prompt.

    Why. llama.cpp then ends the prompt with EOS, also behind "assistant:", and the model answers as if the talk
    were over. Right for encoders and embedding models, wrong for chat.
    Evidence. `llama-vocab.cpp:tokenize` (b11434) appends EOS when add_eos_token is true.
    Example. tokenizer.ggml.add_eos_token is true, but the file has a chat template
    Fix. `tokenizer.ggml.add_eos_token` = false.
    """
    vocab = vocabulary(m)
    if not _in_use(vocab) or m.get(ADD_EOS) is not True or "tokenizer.chat_template" not in m:
        return
    if vocab.kind is None or vocab.kind.name in ("UGM", "WPM"):
        return
    yield found(
        f"{ADD_EOS} is true, but the file has a chat template: every prompt ends with EOS",
        where=f"field:{ADD_EOS}",
        fix=Fix("do not add EOS", (Set(ADD_EOS, False, "bool"),)),
    )


@rule(Severity.INFO, role="any", chat=True)
def fim_tokens_incomplete(m: Model, ctx: Context) -> Drafts:
    """Fill-in-the-middle needs prefix, suffix and middle tokens together.

    Why. llama-server's /infill refuses to work when one of the three is absent.
    Evidence. `server-context.cpp` (b11434): "prefix token is missing", "suffix …", "middle …".
    Example. fill-in-the-middle has prefix and suffix tokens, but no middle token
    Fix. `gguftool fix --set tokenizer.ggml.fim_mid_token_id=ID`.
    """
    vocab = vocabulary(m)
    if not _in_use(vocab):
        return
    roles = {"fim_pre": "prefix", "fim_suf": "suffix", "fim_mid": "middle"}
    there = [n for r, n in roles.items() if vocab.special(r) is not None or vocab.by_name(r) is not None]
    absent = [n for n in roles.values() if n not in there]
    stated = any(vocab.stored(r) is not None for r in roles)
    if there and absent and stated:
        yield found(
            f"fill-in-the-middle has {' and '.join(there)} token{'s' if len(there) > 1 else ''}, but no "
            f"{' and no '.join(absent)} token",
            where=f"field:{TOKENS}",
            missing=absent,
        )


@rule(Severity.INFO, role="any")
def add_bos_overridden(m: Model, ctx: Context) -> Drafts:
    """For Gemma 4 the file's add_bos_token has no effect.

    Why. llama.cpp always adds BOS for this tokenizer, whatever the file says.
    Evidence. "override 'tokenizer.ggml.add_bos_token' to 'true' for Gemma4".
    Example. tokenizer.ggml.add_bos_token is false, but llama.cpp adds BOS for gemma4 all the same
    Fix. Writes what llama.cpp does.
    """
    if vocabulary(m).model == "gemma4" and m.get(ADD_BOS) is False:
        yield found(
            f"{ADD_BOS} is false, but llama.cpp adds BOS for gemma4 all the same",
            where=f"field:{ADD_BOS}",
            fix=Fix("write what llama.cpp does", (Set(ADD_BOS, True, "bool"),), safe=True),
        )


@rule(Severity.INFO, role="any")
def suppressed_token_out_of_range(m: Model, ctx: Context) -> Drafts:
    """Suppressed tokens should be ids of the vocabulary.

    Why. llama.cpp drops the others from the list without a word.
    Evidence. The filter behind `tokenizer.ggml.suppress_tokens`.
    Example. tokenizer.ggml.suppress_tokens names 2 ids outside the vocabulary, the first is 300
    Fix. Removes them from the list.
    """
    vocab, key = vocabulary(m), "tokenizer.ggml.suppress_tokens"
    f = m.fields.get(key)
    if vocab.count is None or f is None or f.type_name != "arr[i32]":
        return
    values: array[int] = f.value  # type: ignore[assignment]
    there = range(vocab.count)
    n = sum(i not in there for i in values)
    if n:
        first = next(i for i in values if i not in there)
        kept = [i for i in values if i in there] if n < len(values) <= MOST_WRITTEN else []
        yield found(
            f"{key} names {n} {'id' if n == 1 else 'ids'} outside the vocabulary, the first is {first}",
            where=f"field:{key}",
            fix=Fix("remove them", (Set(key, kept, "[i32]"),), safe=True) if kept else None,
        )
