"""What llama.cpp's tokenizers do to a text, as far as it can end a load or a prompt (`llama-vocab.cpp`, b11434).

Three things: the piece of every token is made at load; a Unigram vocabulary normalises text by a compiled map that may
point outside itself; an RWKV vocabulary has no answer for letters that it lacks.
"""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.facts.machine.ends import Abort, Refusal
from gguftool.facts.machine.reader import where
from gguftool.model.vocab import BYTE, NORMAL, TOKENS, TYPES, USER_DEFINED, Vocabulary
from gguftool.regex import regex

BEYOND = regex(rb"\xf4[\x90-\xbf][\x80-\xbf]{2}|[\xf5-\xf7][\x80-\xbf]{3}")
"""Four bytes that decode to a number above U+10FFFF; llama.cpp reads any other odd bytes as U+FFFD."""
CHARSMAP = "tokenizer.ggml.precompiled_charsmap"
_ESCAPES = {ord("t"): 9, ord("n"): 10, ord("r"): 13}


def token_bytes(vocab: Vocabulary, token: int) -> bytes:
    """A token as C sees it: cut at a NUL, an empty one renamed."""
    text = vocab.raw(token).partition(b"\0")[0]
    return text or b"[EMPTY_%d]" % token


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


# -- Unigram


def normalised(vocab: Vocabulary, charsmap: bytes, text: bytes) -> bytes:
    """A text as a Unigram vocabulary's map of characters leaves it, before spaces are merged.

    Args:
        vocab: its tokens of the user's own are left as they are.
        charsmap: `tokenizer.ggml.precompiled_charsmap`, of which the load has checked the size; b"" for none.
        text: what is to be normalised.

    Raises:
        Refusal: the map points outside itself.
    """
    own = sorted((token_bytes(vocab, i) for i in vocab.ids_of_type(USER_DEFINED) if i < vocab.listed), key=len)
    out, at = bytearray(), 0
    while at < len(text):
        kept = next((token for token in reversed(own) if text.startswith(token, at)), None)
        length, piece = (len(kept), kept) if kept is not None else _prefix(charsmap, text[at:])
        if length == 0:
            length = _letter(text[at:])
            piece = text[at : at + length] if length else b"\xef\xbf\xbd"
        out += piece
        at += length or 1
    return bytes(out)


def _prefix(charsmap: bytes, text: bytes) -> tuple[int, bytes]:
    """Length of the longest start of the text that the map replaces, and what it becomes; 0 for none."""
    if len(charsmap) < 4:
        return 0, b""
    size = int.from_bytes(charsmap[:4], "little")
    nodes, replacements = charsmap[4 : 4 + size // 4 * 4], charsmap[4 + size :]
    if not nodes:
        return 0, b""

    def node(index: int) -> int:
        if (index + 1) * 4 > len(nodes):
            raise Refusal("Index out of array bounds in XCDA array!", where(CHARSMAP))
        return int.from_bytes(nodes[index * 4 : index * 4 + 4], "little")

    def base(index: int) -> int:
        packed = node(index)
        return (packed >> 10) << ((packed & 1 << 9) >> 6) & 0xFFFFFFFF

    length = offset = 0
    at = base(0)
    for i, letter in enumerate(text):
        if letter == 0:
            break
        at ^= letter
        packed = node(at)
        if packed & 0x800000FF != letter:
            break
        at ^= base(at)
        if packed >> 8 & 1:
            length, offset = i + 1, node(at) & 0x7FFFFFFF
    if not length:
        return 0, b""
    if offset >= len(replacements):
        raise Refusal("Index out of array bounds in precompiled charsmap!", where(CHARSMAP))
    piece, end, _ = replacements[offset:].partition(b"\0")
    if not end:
        raise Refusal("Unterminated string in precompiled charsmap!", where(CHARSMAP))
    return length, piece


_UTF8 = regex(rb"[\0-\x7f]|[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf7][\x80-\xbf]{3}")


def _letter(text: bytes) -> int:
    """Bytes of the first letter as `unicode_cpt_from_utf8` takes it; 0 for none."""
    found = _UTF8.match(text)
    return len(found[0]) if found else 0


# -- RWKV


def unescaped(token: bytes) -> bytes:
    r"""A token of an RWKV vocabulary: ``\n``, ``\t``, ``\r`` and ``\xNN`` are written out."""
    out, i = bytearray(), 0
    while i < len(token):
        c = token[i]
        i += 1
        if c != ord("\\"):
            out.append(c)
            continue
        if i == len(token):
            break
        c = token[i]
        i += 1
        if c != ord("x"):
            out.append(_ESCAPES.get(c, c))
        elif i + 2 <= len(token):
            high, low = ((d - ord("a") + 10 if d >= ord("a") else d - ord("0")) for d in token[i : i + 2])
            out.append((high << 4) + low & 0xFF)
            i += 2
        else:
            break
    return bytes(out)


def rwkv_gaps(vocab: Vocabulary, text: bytes) -> Iterator[tuple[int, bool]]:
    """Where an RWKV vocabulary has no token for a text.

    Yields:
        The number of tokens before the gap, and whether the tokenizer runs there for ever, because some tokens start
        like the text and none of them is met; then there are no more.
    """
    starts = set(text)
    tokens: set[bytes] = set()
    prefixes: set[bytes] = set()
    for i in range(vocab.listed):
        raw = unescaped(token_bytes(vocab, i))
        if raw and raw[0] in starts:
            tokens.add(raw)
            prefixes.update(raw[:n] for n in range(1, len(raw) + 1))
    at = number = 0
    while at < len(text):
        best, end = 0, at + 1
        while text[at:end] in prefixes:
            best = end if text[at:end] in tokens else best
            if end == len(text):
                break
            end += 1
        if not best:
            endless = text[at : at + 1] in prefixes
            yield number, endless
            if endless:
                return
        at, number = best or at + 1, number + 1
