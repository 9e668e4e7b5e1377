"""Files whose content becomes a value."""

from __future__ import annotations

import contextlib
import json

from gguftool.edit.ops import Operation, Set
from gguftool.edit.request import typed
from gguftool.edit.schema import resolve_type
from gguftool.errors import UsageError
from gguftool.format.values import parse_text
from gguftool.model import Model
from gguftool.reading import from_json


def set_file_operation(model: Model, text: str) -> Operation:
    """``KEY[:TYPE]=PATH``: the content of a file as the value (str: as it is; [u8]: its bytes; [str]: its lines)."""
    left, equals, path = text.partition("=")
    if not equals or not left or not path:
        raise UsageError(f"--set-file {text}: must be KEY=PATH")
    key, named = typed(model, left)
    data = read_file(path)
    type_name = resolve_type(key, False, named, model.header)
    if type_name == "[u8]":
        return Set(key, list(data), type_name)
    content = decode_text(data, path)
    if type_name == "str":
        return Set(key, content, type_name)
    if type_name == "[str]":
        return Set(key, _strings(content), type_name)
    return Set(key, parse_text(type_name, content.strip(), key), type_name)


def _strings(content: str) -> list[str]:
    """A JSON list of strings, or else one string a line.

    A vocabulary may begin with ``[PAD]``, and has tokens that Python takes for the end of a line: only a newline ends
    one, with the carriage return in front of it.
    """
    if content.lstrip().startswith("["):
        with contextlib.suppress(ValueError):
            return [one if isinstance(one, str) else json.dumps(one) for one in from_json(content)]
    lines = content.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_file(path: str, unless: bytes = b"") -> bytes:
    """The bytes of a file named by the user.

    Raises:
        UsageError: it cannot be read, or is larger than 64 MiB.
    """
    try:
        with open(path, "rb") as f:
            data = f.read(len(unless))
            if unless and data == unless:
                return data
            data += f.read((64 << 20) + 1 - len(data))
    except OSError as e:
        raise UsageError(f"{path}: {(e.strerror or str(e)).lower()}") from None
    if len(data) > 64 << 20:
        raise UsageError(f"{path}: larger than 64 MiB")
    return data


def decode_text(data: bytes, path: str) -> str:
    """Text of a file; it must be UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise UsageError(f"{path}: is not UTF-8 (byte {e.start:,})") from None
