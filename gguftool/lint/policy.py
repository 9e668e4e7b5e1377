"""The policy file of `lint --policy`: what an organisation demands of every model, as TOML.

::

    architectures = ["llama", "qwen2"]       # allowed values of general.architecture
    roles = ["model"]                        # allowed roles of the file
    max_size = "80GB"                        # of all files of the model together (80 GB, 80 GiB or bytes)
    max_context = 131072
    min_context = 8192
    file_types = ["Q4_K_M", "Q8_0"]          # allowed values of general.file_type, by name
    cache_types = ["q8_0", "f16"]            # allowed in {arch}.kv_cache_type
    required_keys = ["general.license", "context_length"]
    forbidden_keys = ["general.url"]
    licenses = ["apache-2.0", "mit"]
    chat_template_sha256 = ["9f2c…"]         # of tokenizer.chat_template, UTF-8
    [values]
    "general.organization" = "Example Ltd"   # keys with exactly this value
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.near import near_names
from gguftool.quantity import size
from gguftool.reading import toml_file
from gguftool.records import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Policy:
    """What every model must satisfy; empty fields demand nothing."""

    path: str = ""
    architectures: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    max_size: int | None = None
    max_context: int | None = None
    min_context: int | None = None
    file_types: tuple[str, ...] = ()
    cache_types: tuple[str, ...] = ()
    required_keys: tuple[str, ...] = ()
    forbidden_keys: tuple[str, ...] = ()
    licenses: tuple[str, ...] = ()
    chat_template_sha256: tuple[str, ...] = ()
    values: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))

    __repr__ = short_repr

    def __reduce__(self) -> tuple[object, ...]:
        # A mapping that cannot be written to cannot be sent to another process either.
        said = {f.name: getattr(self, f.name) for f in fields(self)}
        return _made, (said | {"values": dict(self.values)},)


def _made(said: dict[str, Any]) -> Policy:
    return Policy(**said | {"values": MappingProxyType(said["values"])})


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """The policy in a TOML file.

    Raises:
        MissingFile: no such file.
        UsageError: not TOML, an unknown name, or a value of the wrong kind; the message names it.
    """
    text = os.fspath(path)
    said = toml_file(text)
    known = {f.name for f in fields(Policy)} - {"path"}
    values: dict[str, object] = {}
    for name, value in said.items():
        if name not in known:
            near = near_names(name, known, 1)
            raise UsageError(
                f"{text}: a policy has no {name!r}", f"did you mean {near[0]}?" if near else "see docs/lint.md"
            )
        values[name] = _value(text, name, value)
    return Policy(path=text, **values)  # type: ignore[arg-type]


def _value(path: str, name: str, value: object) -> object:
    if name == "values":
        if not isinstance(value, dict):
            raise UsageError(f"{path}: [values] must be a table of keys")
        return MappingProxyType(dict(value))
    if name == "max_size":
        return _size(path, value)
    if name in ("max_context", "min_context"):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise UsageError(f"{path}: {name} must be a whole number of tokens")
        return value
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(v, str) for v in items):
        raise UsageError(f"{path}: {name} must be a list of strings")
    return tuple(items)


def _size(path: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    try:
        if isinstance(value, str):
            return size(value, small=True)
    except UsageError:
        pass
    raise UsageError(f"{path}: max_size must be bytes or a size such as 80GB or 74GiB")
