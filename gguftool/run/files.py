"""Read what somebody else wrote: logs and plans, with a limit and a clear error."""

from __future__ import annotations

from typing import Any

from gguftool.errors import MissingFile, Unreadable, UsageError
from gguftool.reading import Malformed, from_json
from gguftool.shell import gguftool, path_word

LOG_LIMIT = 64 << 20
"""Of a longer log the beginning and the end are read: it is decided there."""


def log_text(path: str) -> str:
    """The text of a log, gzip or not.

    Raises:
        MissingFile, Unreadable: it cannot be read.
        UsageError: it is a model.
    """
    data = _bytes(path)
    if data[:4] == b"GGUF":
        raise UsageError(f"{path} is a model, not a log", f"look at it: {gguftool('lint', path_word(path))}")
    return text_of(data, path)


def text_of(data: bytes, name: str = "stdin") -> str:
    """The text of the bytes of a log, gzip or not.

    Raises:
        Unreadable: the gzip data are damaged.
    """
    if data[:2] == b"\x1f\x8b":
        import zlib

        try:
            data = zlib.decompressobj(31).decompress(data, LOG_LIMIT)
        except zlib.error as error:
            raise Unreadable(f"{name}: damaged gzip data: {error}") from None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        # What PowerShell's redirection writes.
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace")


def whole_text(path: str) -> str:
    """The text of a file that llama.cpp reads whole.

    Raises:
        MissingFile, Unreadable: it cannot be read.
    """
    return _bytes(path).decode("utf-8", "replace")


def json_object(path: str) -> dict[str, Any]:
    """A JSON object out of a file.

    Raises:
        MissingFile, Unreadable: it cannot be read.
        UsageError: it is no JSON object.
    """
    try:
        found = from_json(_bytes(path))
    except Malformed as error:
        raise UsageError(f"{path}: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path}: not a JSON object")
    return found


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(LOG_LIMIT)
            if len(data) == LOG_LIMIT:
                size = file.seek(0, 2)
                file.seek(max(LOG_LIMIT, size - LOG_LIMIT // 8))
                data += b"\n" + file.read(LOG_LIMIT // 8)
            return data
    except FileNotFoundError:
        raise MissingFile(f"{path}: no such file") from None
    except OSError as error:
        raise Unreadable(f"{path}: {(error.strerror or str(error)).lower()}") from None
