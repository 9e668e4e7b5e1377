"""Vocabulary stage: `llama-vocab.cpp:llama_vocab::impl::load` (b11434), its refusals and its many warnings."""

from __future__ import annotations

from gguftool.facts.data import load
from gguftool.facts.machine.ends import Abort, Refusal
from gguftool.facts.machine.reader import Reader, where
from gguftool.facts.marks import bears, told
from gguftool.model.vocab import (
    ADD_BOS_PRE,
    BYTE,
    CONTROL,
    KINDS,
    NO_BOS_PRE,
    TOKENS,
    TYPES,
    USER_DEFINED,
    Vocabulary,
    names,
)
from gguftool.predict.older import holds, length, must_be, must_reach
from gguftool.predict.texts import CHARSMAP, charsmap, check_pieces
from gguftool.records import dataclass, field

NULL = -1
_TG = "=tokenizer.ggml."
_BANNER = (
    "missing pre-tokenizer type, using: 'default'",
    "                                            ",
    "************************************        ",
    "GENERATION QUALITY WILL BE DEGRADED!        ",
    "CONSIDER REGENERATING THE MODEL             ",
    "************************************        ",
    "                                            ",
)
SPECIAL = (
    ("bos_token_id", "bos"),
    ("eos_token_id", "eos"),
    ("eot_token_id", "eot"),
    ("eom_token_id", "eom"),
    ("unknown_token_id", "unk"),
    ("seperator_token_id", "sep"),
    ("padding_token_id", "pad"),
    ("mask_token_id", "mask"),
    ("fim_pre_token_id", "fim_pre"),
    ("fim_suf_token_id", "fim_suf"),
    ("fim_mid_token_id", "fim_mid"),
    ("fim_pad_token_id", "fim_pad"),
    ("fim_rep_token_id", "fim_rep"),
    ("fim_sep_token_id", "fim_sep"),
    ("prefix_token_id", "fim_pre"),
    ("suffix_token_id", "fim_suf"),
    ("middle_token_id", "fim_mid"),
)
"""Keys of special ids in the order they are read, with the id they set."""
_BY_NAME = ("eot", "eom", "fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep")
_ESCAPED = frozenset({"gemma4", "granite-embed-multi-311m", "mmbert", "sarvam-moe"})
"""Pre-tokenizers whose tokens are written as SentencePiece writes them: plain text, with ▁ for a space."""
_PLAIN_BYTES = _ESCAPED | {"whitespace"}
"""Pre-tokenizers whose tokens are plain text, not GPT-2's letters for bytes."""
_GEMMA4_PRE = frozenset({"gemma4", "granite-embed-multi-311m"})
_CONTROL_LOOKING = (
    "load: control-looking token: {:6d} '{}' was not control-type; this is probably a bug in the model. "
    "its type will be overridden"
)
_NO_NEWLINE = "load: model vocab missing newline token, using special_pad_id instead"
_NOT_EOG = "load: special_{}_id is not in special_eog_ids - the tokenizer config may be incorrect"


@dataclass(slots=True)
class Loaded:
    """The vocabulary as the later stages need it.

    Attributes:
        kind: ``SPM``, ``BPE``, ``WPM``, ``UGM``, ``RWKV``, ``PLaMo2``, ``TEST`` or ``none``.
        n_tokens: rows the token embedding must have.
        n_token_types: rows of the token type embedding.
        ids: special token by role, -1 for none.
        add_bos, add_eos: what goes around a prompt.
        warnings: llama.cpp's lines.
        not_evaluated: what depends on more than the header.
        newline: False when no token stands for a line feed.
        linefeed: token taken for a line feed without a look at the vocabulary; -1 for none.
    """

    kind: str
    n_tokens: int = 0
    n_token_types: int = 0
    ids: dict[str, int] = field(default_factory=dict)
    add_bos: bool = False
    add_eos: bool = False
    warnings: list[str] = field(default_factory=list)
    not_evaluated: list[str] = field(default_factory=list)
    newline: bool = True
    linefeed: int = NULL


def load_vocab(reader: Reader, vocab: Vocabulary) -> Loaded:
    """Run the stage.

    Raises:
        Refusal: with llama.cpp's words.
        Abort: duplicate tokens, and what else ends the process.
    """
    model = reader.scalar(_TG + "model", "str", True)
    pre = reader.scalar(_TG + "pre", "str") or ""
    types = reader.scalar(_TG + "token_type_count", "u32") or 0
    kind = KINDS.get(model) if model in load("load_maps.json").get("tokenizers", KINDS) else None
    if kind is not None and model in ("no_vocab", "none"):
        size = reader.scalar("vocab_size", "u32")
        warnings = [] if size is None else [f"load: adding {size} dummy tokens"]
        return Loaded("none", size or 0, types, warnings=warnings)
    out = Loaded(kind.name if kind else "", 0, types)
    if kind is None:
        raise Refusal(f"unknown tokenizer: '{model}'", "field:tokenizer.ggml.model")
    out.ids = {role: NULL for _, role in SPECIAL}
    for role in ("bos", "eos", "unk", "sep", "pad", "mask"):
        value = getattr(kind, role)
        out.ids[role] = NULL if value is None else value
    if kind.name == "BPE":
        _merges(reader, model, pre)
        pre = "gemma4" if model == "gemma4" else pre
    elif kind.name == "UGM":
        _charsmap(reader)
    out.add_bos, out.add_eos = kind.add_bos, kind.add_eos
    if kind.name == "BPE":
        _pre(pre, out)
    reader.scalar(_TG + "add_space_prefix", "bool")
    reader.scalar(_TG + "remove_extra_whitespaces", "bool")
    words = _tokens(reader, vocab, out)
    _tokenizer(out, vocab, words)
    _newline(reader, out, vocab, words, pre)
    _special_ids(reader, out, pre)
    _named(out, words)
    check_pieces(out.kind, vocab, out.n_tokens, pre in _ESCAPED)
    _attributes(reader, out, words)
    return out


def _merges(reader: Reader, model: str, pre: str) -> None:
    f = reader.fields.get("tokenizer.ggml.merges")
    if f is None:
        if pre != "kimi-k2" or model == "gemma4" or not bears("kimi-merges"):
            raise Refusal("cannot find tokenizer merges in model file\n", "field:tokenizer.ggml.merges")
        return
    must_be(f, "str")


def _charsmap(reader: Reader) -> None:
    f = reader.fields.get(CHARSMAP)
    if f is None:
        return
    must_be(f, "i8", "u8")
    if not bears("charsmap-size"):
        return
    data = bytes(f.value_bytes)
    if len(data) < 4:
        raise Refusal("precompiled_charsmap too small for xcda_blob_size header!", where(f.key))
    if int.from_bytes(data[:4], "little") + 4 >= len(data):
        raise Refusal("Index out of array bounds in precompiled charsmap!", where(f.key))


def _pre(pre: str, out: Loaded) -> None:
    """Pre-tokenizer of a BPE vocabulary."""
    known = told(("pre", pre), lambda: pre in names("pre") if names("pre") else None)
    if known is None:
        return  # until b2750 or so a vocabulary was cut in one way
    if not pre:
        out.warnings += [f"load: {line}" for line in _BANNER]
    elif not known and pre != "default":
        raise Refusal(f"unknown pre-tokenizer type: '{pre}'", "field:tokenizer.ggml.pre")
    out.add_bos = pre in ADD_BOS_PRE
    if pre in NO_BOS_PRE:
        out.ids["bos"] = NULL


class _Words:
    """Token texts as llama.cpp sees them: cut at a NUL, empty ones renamed."""

    def __init__(self, vocab: Vocabulary) -> None:
        self.vocab = vocab
        self.special: dict[str, int] = {}
        self.lost = 0

    def id_of(self, text: str) -> int | None:
        """Id by text."""
        found = self.special.get(text)
        return self.vocab.id_of(text) if found is None else found

    def of(self, group: str) -> list[tuple[int, str]]:
        """Tokens of a list of texts that are there, with their ids, in the order of the list."""
        return told(group, lambda: [(i, text) for text in names(group) if (i := self.id_of(text)) is not None])


def _tokens(reader: Reader, vocab: Vocabulary, out: Loaded) -> _Words:
    f = reader.fields.get(TOKENS)
    if f is None:
        raise Refusal("cannot find tokenizer vocab in model file\n", where(TOKENS))
    if not holds(f, "str") and bears("types"):
        must_be(f, "str")
    n = out.n_tokens = length(f)
    for key, elements, word in (
        ("tokenizer.ggml.scores", ("i32", "f32"), "scores"),
        (TYPES, ("i32",), "toktypes"),
    ):
        other = reader.fields.get(key)
        if other is None:
            continue
        if not holds(other, *elements) and bears("types"):
            must_be(other, *elements)
        must_reach(other, n, word)
        must_be(other, *elements)
    must_be(f, "str")
    words = _Words(vocab)
    _rename_empty(vocab, words, out)
    if vocab.distinct - words.lost != vocab.listed:
        raise Abort("GGML_ASSERT(id_to_token.size() == token_to_id.size()) failed", where(TOKENS))
    return words


def _rename_empty(vocab: Vocabulary, words: _Words, out: Loaded) -> None:
    """Tokens that are empty, or become so at a NUL; ``words.lost`` corrects the count of different texts."""
    head = vocab.prefix_size
    if vocab.zero_bytes == 7 * vocab.listed and vocab.id_of("") is None:
        return
    texts: dict[bytes, int] = {}
    seen = set()
    for i, record in enumerate(vocab.records()):
        text = record[head:].partition(b"\0")[0]
        if not text:
            out.warnings.append(f"load: empty token at index {i}")
            text = b"[EMPTY_%d]" % i
        if text != record[head:]:
            texts[text] = i
        seen.add(text)
    words.special = {k.decode("utf-8", "surrogateescape"): v for k, v in texts.items()}
    words.lost = vocab.distinct - len(seen)


def _tokenizer(out: Loaded, vocab: Vocabulary, words: _Words) -> None:
    """`init_tokenizer`: only PLaMo-2 can refuse."""
    if out.kind != "PLaMo2":
        return
    found: dict[int, int] = {}
    for i in range(out.n_tokens):
        text = vocab.text(i).partition("\0")[0]
        if vocab.type_of(i) == BYTE and len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
            try:
                found[int(text[3:5], 16)] = i
            except ValueError:
                continue
    for byte in range(256):
        if not found.get(byte):
            raise Refusal(f"Byte token for <0x{byte}> is not set", where(TOKENS))


def _newline(reader: Reader, out: Loaded, vocab: Vocabulary, words: _Words, pre: str) -> None:
    """The token of a line feed; a text is tokenised here for the first time."""
    if out.kind == "SPM":
        if words.id_of("<0x0A>") is None and words.id_of("\n") is None:
            out.newline = False
            out.warnings.append(
                "load: SPM vocabulary, but newline token not found: unordered_map::at! Using special_pad_id instead."
            )
    elif out.kind == "TEST" and not out.n_tokens:
        raise Abort("division by zero (SIGFPE): a test vocabulary without tokens", where(TOKENS))
    elif out.kind == "WPM":
        out.linefeed = out.ids["pad"]
    elif out.kind == "BPE":
        plain = pre in _PLAIN_BYTES
        candidates = ("\n", "<0x0A>") if plain else ("Ċ",)
        if vocab.model == "whitespace" or all(words.id_of(c) is None for c in candidates):
            out.newline = False
            out.warnings.append(_NO_NEWLINE)
    elif out.kind == "UGM":
        from gguftool.predict.unigram import normalised

        left = normalised(vocab, charsmap(reader), b"\n")
        # One or more spaces, where the file wants them merged, leave nothing.
        if not left.strip(b" ") and (not left or reader.scalar(_TG + "remove_extra_whitespaces", "bool")):
            out.warnings.append(_NO_NEWLINE)
    elif out.kind == "RWKV":
        from gguftool.predict.rwkv import rwkv_gaps

        if not any(endless for _, endless in rwkv_gaps(vocab, b"\n")):
            return
        raise Abort("the tokenizer of RWKV never ends over this vocabulary", "field:tokenizer.ggml.model")


def _special_ids(reader: Reader, out: Loaded, pre: str) -> None:
    n = out.n_tokens
    for key, role in SPECIAL:
        full = "tokenizer.ggml." + key
        default = out.ids[role]
        if default >= n and bears("default-out-of-range"):
            out.warnings.append(f"load: default special token '{full}' = {default} out of vocab range, disabling")
            default = out.ids[role] = NULL
        value = reader.scalar(_TG + key, "u32")
        if value is None:
            continue
        if value >= n:
            out.warnings.append(f"load: bad special token: '{full}' = {value}, using default id {default}")
        else:
            out.ids[role] = value
    for key, name in (("add_bos_token", "add_bos"), ("add_eos_token", "add_eos"), ("add_sep_token", "")):
        if key == "add_sep_token" and not bears("add-sep"):
            continue
        flag = reader.scalar(_TG + key, "bool")
        if flag is not None and name:
            setattr(out, name, flag)
    if out.kind == "BPE" and pre in _GEMMA4_PRE and not out.add_bos:
        out.add_bos = True
        out.warnings.append("load: override 'tokenizer.ggml.add_bos_token' to 'true' for Gemma4")
    for mark in ("lowercase", "strip_accents"):
        if f"tokenizer.ggml.normalizer.{mark}" in reader.fields and bears(mark):
            reader.scalar(f"{_TG}normalizer.{mark}", "bool")
    suppress = reader.fields.get("tokenizer.ggml.suppress_tokens")
    if suppress is not None and bears("suppress"):
        must_be(suppress, "i32")


def _named(out: Loaded, words: _Words) -> None:
    """Special tokens found by their text, and the set that ends a generation."""
    control: dict[int, bool] = {}

    def is_control(token: int) -> bool:
        return control.setdefault(token, words.vocab.type_of(token) == CONTROL)

    def made_control(token: int, text: str) -> None:
        if not is_control(token):
            out.warnings.append(_CONTROL_LOOKING.format(token, text))
            control[token] = True

    for role in _BY_NAME:
        if out.ids[role] != NULL:
            continue
        found = words.of(role)
        if len(found) > 1 and role not in ("eot", "eom") and not all(is_control(i) for i, _ in found):
            out.not_evaluated.append(f"which of several tokens becomes {role}: it depends on llama.cpp's hash order")
        if found:
            out.ids[role] = found[0][0]
            made_control(*found[0])
    eog = {out.ids[r] for r in ("fim_pad", "fim_rep", "fim_sep") if out.ids[r] != NULL}
    for token, text in sorted(words.of("eog")):
        eog.add(token)
        made_control(token, text)
    for token, text in words.of("user_defined"):
        old = _attr(words.vocab.type_of(token)) | (8 if control.get(token) else 0)
        out.warnings.append(
            f"load: setting token '{text}' ({token}) attribute to USER_DEFINED (16), old attributes: {old}"
        )
    for role in ("eos", "eot", "eom"):
        if out.ids[role] != NULL and out.ids[role] not in eog:
            eog.add(out.ids[role])
            out.warnings.append(_NOT_EOG.format(role))
    if max(eog, default=NULL) >= out.n_tokens and bears("eog-printed") and not bears("eog-range"):
        raise Abort("a token beyond the vocabulary is printed", where(TOKENS))
    _removed_eog(out, words, eog)


def _removed_eog(out: Loaded, words: _Words, eog: set[int]) -> None:
    def has(text: str) -> bool:
        i = words.id_of(text)
        return i is not None and i in eog

    call = has("<|call|>") or has("<|calls|>")
    if has("<|end|>") and call and (has("<|return|>") or has("<|flush|>")):
        out.warnings.append(
            "load: special_eog_ids contains both '<|return|>' and '<|call|>', or '<|calls|>' and '<|flush|>' tokens, "
            "removing '<|end|>' token from EOG list"
        )
    if has("</s>") and (has("<|tool_response>") or has("<|plamo:eos|>")):
        out.warnings.append("load: '</s>' is a normal token here, removing it from EOG list")


def _attr(token_type: int) -> int:
    """Attribute bit of a token type (`llama.h:llama_token_attr`)."""
    return {1: 4, 2: 1, 3: 8, 4: 16, 5: 2, 6: 32}.get(token_type, 0)


def _attributes(reader: Reader, out: Loaded, words: _Words) -> None:
    """Per-model attributes by name (`llama-vocab.cpp`, end of load)."""
    name = (reader.scalar("=general.name", "str") or "").lower()
    pre = reader.scalar(_TG + "pre", "str") or ""
    if any(p in pre for p in ("jina-v2-de", "jina-v2-es", "jina-v2-code", "mmbert")) or any(
        a in reader.arch for a in ("nomic-bert-moe", "jina-bert-v3")
    ):
        if words.id_of("<mask>") is None:
            out.warnings.append("load: Mask token is missing in vocab, please reconvert model!")
    elif "phi-3" in name or "phi3" in name:
        for text in ("</s>", "<unk>", "<s>", "<|endoftext|>"):
            if words.id_of(text) is None:
                raise Refusal("unordered_map::at", where(TOKENS), token=text)
    elif "modern-bert" in name and words.id_of("[MASK]") is None:
        out.warnings.append("load: Mask token missing in vocab!")


__all__ = ["NULL", "SPECIAL", "USER_DEFINED", "Loaded", "load_vocab"]
