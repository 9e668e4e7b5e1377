"""What gets into a file only when somebody insists: bytes that are no text, what C readers cut, endless keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gguftool.edit.ops import Operation, Rename, Set, SetElement
from gguftool.errors import Refused, UsageError
from gguftool.format.header import Header

LONGEST_KEY = 65_535
"""Bytes of a key at most: ggml's docs/gguf.md, "at most 2^16-1 bytes long"; llama.cpp takes longer ones."""


def refuse_texts(ops: Sequence[Operation], header: Header, *, force: bool = False, nul: bool = False) -> None:
    """Look at every text that the operations would write anew.

    Args:
        ops: what to do.
        header: the file as it is: a key that it has already is not judged.
        force: take text that is not UTF-8.
        nul: take zero bytes.

    Raises:
        UsageError: text that is not UTF-8 (the byte is named), or a key that is too long.
        Refused: a zero byte.
    """
    there = {f.key for f in header.fields}
    for op in ops:
        key = op.new if isinstance(op, Rename) else op.key if isinstance(op, (Set, SetElement)) else None
        if key is not None and key not in there:
            _refuse_key(key, force=force, nul=nul)
        if isinstance(op, (Set, SetElement)):
            for place, text in _texts(op):
                if not force:
                    _refuse_bytes(place, text)
                if not nul:
                    _refuse_nul(place, text)


def _refuse_key(key: str, *, force: bool, nul: bool) -> None:
    n = len(key.encode("utf-8", "surrogatepass"))
    if n > LONGEST_KEY:
        raise UsageError(f"a key of {n:,} bytes: GGUF keys have {LONGEST_KEY:,} bytes at most")
    if not force:
        _refuse_bytes("the key", key)
    if not nul:
        _refuse_nul("the key", key)


def _texts(op: Set | SetElement) -> Iterator[tuple[str, str]]:
    """Every string of the value, and how to name it."""
    value = op.value
    if isinstance(value, str):
        yield op.key if isinstance(op, Set) else f"{op.key}[{op.index}]", value
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            if isinstance(item, str):
                yield f"{op.key}[{i}]", item


def _refuse_bytes(place: str, text: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        # os.fsdecode keeps byte 0xNN as U+DCNN.
        what = f"byte 0x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"lone surrogate U+{code:04X}"
        before = len(text[: error.start].encode())
        hint = "GGUF text is UTF-8: set the terminal to it, or give the text in a file with --set-file"
        raise UsageError(f"{place}: is not UTF-8: {what} at position {before:,}", hint) from None


def _refuse_nul(place: str, text: str) -> None:
    at = text.find("\0")
    if at >= 0:
        raise Refused(
            f"{place}: has a zero byte at position {len(text[:at].encode('utf-8', 'surrogatepass')):,}: "
            "programs written in C read the text only up to there",
            "it is written all the same with --yes (in Python: harm='allow')",
        )
