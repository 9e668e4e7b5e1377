"""The piece of every token, made at load: what it cannot be made of ends it (`llama-vocab.cpp`, b11434).

What its tokenizers do to a text, as far as that can end a load or a prompt, too, stands in `unigram.py` and `rwkv.py`.
"""

from __future__ import annotations

from gguftool.facts.machine.ends import Abort, Refusal
from gguftool.facts.machine.reader import Reader, where
from gguftool.model.vocab import BYTE, NORMAL, TOKENS, TYPES, Vocabulary
from gguftool.regex import regex

BEYOND = regex(rb"\xf4[\x90-\xbf][\x80-\xbf]{2}|[\xf5-\xf7][\x80-\xbf]{3}")
"""Four bytes that decode to a number above U+10FFFF; llama.cpp reads any other odd bytes as U+FFFD."""
CHARSMAP = "tokenizer.ggml.precompiled_charsmap"


def token_bytes(vocab: Vocabulary, token: int) -> bytes:
    """A token as C sees it: cut at a NUL, an empty one renamed."""
    text = vocab.raw(token).partition(b"\0")[0]
    return text or b"[EMPTY_%d]" % token


def charsmap(reader: Reader) -> bytes:
    """The compiled map of characters, b"" for none."""
    f = reader.fields.get(CHARSMAP)
    return b"" if f is None else bytes(f.value_bytes)


def check_pieces(kind: str, vocab: Vocabulary, n: int, escaped: bool) -> None:
    """`token_to_piece` of every token, in order.

    Args:
        kind: of the vocabulary: ``BPE`` ….
        vocab: the tokens.
        n: number of tokens.
        escaped: spaces are written as ▁, as SentencePiece does, and tokens are plain text.

    Raises:
        Refusal: a byte token that does not look like ``<0x0A>``, a letter beyond Unicode.
        Abort: a byte token in a vocabulary that has none.
    """
    at = _first_fault(kind, vocab, n) if kind in ("SPM", "UGM", "BPE", "WPM") else None
    if kind == "BPE" and not escaped and vocab.listed:
        beyond = _beyond(vocab, n if at is None else at)
        if beyond is not None:
            raise Refusal("invalid codepoint", where(TOKENS), token=beyond)
    fault = _byte_fault(kind, vocab, at) if at is not None else None
    if fault is not None:
        raise fault


def _first_fault(kind: str, vocab: Vocabulary, n: int) -> int | None:
    """The first byte token that ends the load; looked for once, for no build takes them otherwise."""
    asked = (kind, n)
    if asked not in vocab.byte_faults:
        faulty = (i for i in vocab.ids_of_type(BYTE) if i < n and _byte_fault(kind, vocab, i) is not None)
        vocab.byte_faults[asked] = next(faulty, None)
    return vocab.byte_faults[asked]


def _byte_fault(kind: str, vocab: Vocabulary, i: int) -> Refusal | Abort | None:
    if kind == "WPM":
        return Abort("fatal error", where(TYPES), token=i)
    token = vocab.raw(i)
    size = len(token) if token and b"\0" not in token else len(token_bytes(vocab, i))
    if size < 3:
        text = f"basic_string::substr: __pos (which is 3) > this->size() (which is {size})"
        return Refusal(text, where(TYPES), token=i)
    return None


def _beyond(vocab: Vocabulary, n: int) -> int | None:
    """First ordinary token below ``n`` with a letter beyond Unicode."""
    if "beyond" not in vocab.told:
        vocab.told["beyond"] = any(vocab.contains(bytes([first])) for first in range(0xF4, 0xF8))
    if not vocab.told["beyond"]:
        return None
    ordinary = (i for i in range(n) if vocab.type_of(i) == NORMAL)
    return next((i for i in ordinary if BEYOND.search(token_bytes(vocab, i))), None)
