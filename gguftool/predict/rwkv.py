"""How an RWKV vocabulary cuts a text: it has no answer for letters that it lacks (b11434)."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.model.vocab import Vocabulary
from gguftool.predict.texts import token_bytes

_ESCAPES = {ord("t"): 9, ord("n"): 10, ord("r"): 13}


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
