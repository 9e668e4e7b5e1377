"""How a Unigram vocabulary normalises a text: by a compiled map, which may point outside itself (b11434)."""

from __future__ import annotations

from gguftool.facts.machine.ends import Refusal
from gguftool.facts.machine.reader import where
from gguftool.model.vocab import USER_DEFINED, Vocabulary
from gguftool.predict.texts import CHARSMAP, token_bytes
from gguftool.regex import regex


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
