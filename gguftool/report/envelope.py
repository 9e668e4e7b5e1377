"""The JSON object that every command prints: format, tool, ok, the command's own fields, errors.

Always an object and always printed, also when nothing was found or the command failed. The schemas lie in
``gguftool/schemas/``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TextIO

from gguftool.regex import regex
from gguftool.version import __version__

if TYPE_CHECKING:
    from gguftool.errors import GgufToolError

TOOL = {"name": "gguftool", "version": __version__}
_PIECE = 1 << 13
"""Characters of JSON, at least, that are made into bytes together: more save nothing, and long texts add up."""
_SURROGATE = regex("[\ud800-\udfff]")


def envelope(
    command: str, ok: bool, body: Mapping[str, object], errors: Iterable[Mapping[str, object]] = ()
) -> dict[str, object]:
    """The object to print for ``command``.

    Args:
        command: name of the command as typed, for example ``check-log``.
        ok: whether the command did what was asked and found nothing that makes it fail.
        body: the command's own fields; ``format``, ``tool``, ``ok`` and ``errors`` are not theirs to set.
        errors: objects with ``code``, ``message`` and ``hint`` (text or None).
    """
    head = {"format": f"gguftool.{command}/1", "tool": dict(TOOL), "ok": ok}
    foreign = {key: value for key, value in body.items() if key not in head and key != "errors"}
    return {**head, **foreign, "errors": [dict(error) for error in errors]}


def error_row(e: GgufToolError) -> dict[str, object]:
    """One error as the envelope has it."""
    return {"code": e.code, "message": str(e), "hint": e.hint}


def dumps(obj: object, *, compact: bool = False) -> str:
    r"""JSON text that any parser takes and that encodes to UTF-8.

    Bytes become text, and what is not UTF-8 in them, like lone surrogates in text, becomes ``\xNN`` spelled out.
    NaN and infinities, which JSON does not have, become the strings "NaN", "Infinity" and "-Infinity".
    """
    import json

    layout: dict[str, Any] = {"separators": (",", ":")} if compact else {"indent": 2}
    try:
        text = json.dumps(obj, ensure_ascii=False, allow_nan=False, default=_plain, **layout)
        text.encode()
        return text
    except (ValueError, TypeError):
        # Rare, so the fast way is tried first: a number or text that JSON cannot hold, or a key that is no text.
        return json.dumps(_clean(obj), ensure_ascii=False, allow_nan=False, **layout)


def write(obj: object, stream: TextIO, *, compact: bool = False) -> None:
    """Write ``obj`` and a newline as UTF-8, whatever encoding the terminal has."""
    for piece in (dumps(obj, compact=True).encode(),) if compact else _pieces(obj):
        _put(piece, stream)
    put("\n", stream)


def _pieces(obj: object) -> list[bytes]:
    """`dumps` in pieces, none of them before all is known to have a form: half an object is worse than a late one."""
    try:
        return _encoded(obj)
    except (ValueError, TypeError):
        return _encoded(_clean(obj))


def _encoded(obj: object) -> list[bytes]:
    import json

    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_plain, indent=2)
    pieces, waiting, size = [], [], 0
    # Some characters each: all at once take ten times the text. One emoji makes a text four times its bytes.
    for chunk in encoder.iterencode(obj):
        waiting.append(chunk)
        size += len(chunk)
        if size > _PIECE:
            pieces.append("".join(waiting).encode())
            waiting, size = [], 0
    return [*pieces, "".join(waiting).encode()]


def put(text: str, stream: TextIO) -> None:
    """Write text as UTF-8, whatever encoding the terminal has."""
    _put(text.encode(), stream)


def _put(data: bytes, stream: TextIO) -> None:
    raw = getattr(stream, "buffer", None)
    if raw is None:
        stream.write(data.decode())
        return
    stream.flush()
    raw.write(data)


def _plain(value: object) -> object:
    """A value that ``json`` does not know, as one that it does."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    for method in ("tolist", "item"):
        # numpy arrays and scalars, without importing numpy.
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _clean(value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, str):
        return _SURROGATE.sub(_spell_out, value)
    if isinstance(value, Mapping):
        return {str(_clean(key)): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return _clean(_plain(value))


def _spell_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    # os.fsdecode keeps byte 0xNN as U+DCNN.
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
