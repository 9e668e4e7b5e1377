"""JSON, TOML and text that somebody else wrote: one reader for each, with one kind of error.

What Python's own readers let out is caught here: nesting that ends in RecursionError, or in one later on, numbers that
no float or no C integer holds, bytes that are no UTF-8, half of a surrogate pair. Whole numbers out of text are
`gguftool.quantity.whole`'s.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from gguftool.errors import MissingFile, Unreadable, UsageError
from gguftool.quantity import LONGEST
from gguftool.regex import regex

if TYPE_CHECKING:
    from json import JSONDecoder

DEEPEST = 100
"""Levels of lists and objects; whoever walks through what was read needs no bound of its own."""
LARGEST = 64 << 20
"""Bytes of a file that is read whole."""
_SURROGATE = regex(r"\\u[dD][89a-fA-F]")


class Malformed(ValueError):
    """A text is not what it should be; says how, as words behind the name of the text: ``is nested too deeply``."""


def _integer(digits: str) -> int:
    if len(digits) > LONGEST:
        raise Malformed(f"holds a number of {len(digits):,} digits")
    return int(digits)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise Malformed(f"holds a number that is too large: {text[:40]}")
    return value


@cache
def _decoder() -> JSONDecoder:
    import json

    # As in Python, NaN and Infinity are numbers: configurations of Hugging Face hold them.
    return json.JSONDecoder(parse_int=_integer, parse_float=_float)


def from_json(text: str | bytes, *, halves: bool = False) -> Any:
    """The value of a JSON text.

    Args:
        text: bytes are UTF-8 (or UTF-16, UTF-32, as their beginning says).
        halves: take half of a surrogate pair; Python's own escape of bytes in file names is written so.

    Raises:
        Malformed: it is no JSON, or such that no program should go on with it; a ValueError.
    """
    import json

    try:
        if not isinstance(text, str):
            text = text.decode(json.detect_encoding(text))
        value = _decoder().decode(text.removeprefix("\ufeff"))
    except Malformed:
        raise
    except RecursionError:
        raise Malformed("is nested too deeply") from None
    except UnicodeDecodeError as e:
        raise Malformed(f"is not UTF-8 (byte {e.start:,})") from None
    except ValueError as e:
        raise Malformed(f"is not JSON: {e}") from None
    _bounded(value)
    if not halves and _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise Malformed("holds half of a surrogate pair") from None
    return value


def from_toml(text: str | bytes) -> dict[str, Any]:
    """The table of a TOML text.

    Raises:
        Malformed: it is no TOML, or such that no program should go on with it; a ValueError.
    """
    import tomllib

    try:
        value = tomllib.loads(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise Malformed("is nested too deeply") from None
    except UnicodeDecodeError as e:
        raise Malformed(f"is not UTF-8 (byte {e.start:,})") from None
    except ValueError as e:
        raise Malformed(f"is no TOML: {e}") from None
    _bounded(value)
    return value


def from_yaml(text: str | bytes) -> Any:
    """The value of a YAML text.

    Raises:
        Malformed: it is no YAML, or such that no program should go on with it; a ValueError.
    """
    import yaml

    try:
        text = text if isinstance(text, str) else text.decode()
        # A few lines of references to references come to more than any memory holds.
        if "*" in text and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise Malformed("uses references (*name), which are not read")
        value = yaml.safe_load(text)
    except RecursionError:
        raise Malformed("is nested too deeply") from None
    except UnicodeDecodeError as e:
        raise Malformed(f"is not UTF-8 (byte {e.start:,})") from None
    except Malformed:
        raise
    except (yaml.YAMLError, ValueError, OverflowError, AttributeError, TypeError) as e:
        raise Malformed(f"is no YAML: {' '.join(str(e).split())[:200]}") from None
    _bounded(value)
    return value


def _bounded(value: object) -> None:
    """Refuse what is nested too deeply, level by level; of whole numbers the huge ones that TOML lets in."""
    level: list[object] = [value]
    for _ in range(DEEPEST):
        level = [x for one in level for x in _inside(one) if isinstance(x, (dict, list)) or _huge(x)]
        if not level:
            return
        if any(_huge(x) for x in level):
            raise Malformed(f"holds a number of more than {LONGEST} digits")
    raise Malformed("is nested too deeply")


def _inside(value: object) -> Iterator[object]:
    return iter(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())


def _huge(value: object) -> bool:
    return type(value) is int and value.bit_length() > 4 * LONGEST


def file_bytes(path: str | os.PathLike[str], limit: int = LARGEST) -> bytes:
    """The bytes of a small file.

    Raises:
        MissingFile, Unreadable: it cannot be read.
        UsageError: it is larger than ``limit`` bytes.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as f:
            data = f.read(limit + 1)
    except FileNotFoundError:
        raise MissingFile(f"{name}: no such file") from None
    except OSError as e:
        raise Unreadable(f"{name}: cannot be read: {(e.strerror or str(e)).lower()}") from None
    except ValueError:  # a NUL in the name
        raise MissingFile(f"{name}: no such file") from None
    if len(data) > limit:
        raise UsageError(f"{name}: is larger than {limit >> 20} MiB")
    return data


def json_file(path: str | os.PathLike[str], limit: int = LARGEST) -> Any:
    """The value in a JSON file; as `file_bytes` and `from_json`, but that bad JSON is a UsageError, too."""
    data = file_bytes(path, limit)
    try:
        return from_json(data)
    except Malformed as e:
        raise UsageError(f"{os.fspath(path)}: {e}") from None


def toml_file(path: str | os.PathLike[str], limit: int = 1 << 20) -> dict[str, Any]:
    """The table in a TOML file; as `file_bytes` and `from_toml`, but that bad TOML is a UsageError, too."""
    data = file_bytes(path, limit)
    try:
        return from_toml(data)
    except Malformed as e:
        raise UsageError(f"{os.fspath(path)}: {e}") from None
