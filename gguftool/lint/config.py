"""Settings of lint in `gguftool.toml` or `pyproject.toml`, looked for from the working directory upward.

Never from the model's folder: a downloaded model must not bring its own rules. ::

    [lint]                         # in pyproject.toml: [tool.gguftool.lint]
    select = ["deploy", "layout"]
    ignore = ["kv-cache-type-slow"]
    fail-on = "error"
    ctx = 32768                    # or context-length
    cache-type = "q8_0"
    policy = "policy.toml"         # relative to this file
    baseline = "lint-baseline.json"

    [lint.per-file-ignores]        # patterns of files and folders, from this file's folder on
    "old/*" = ["deploy"]

    [scan]                         # takes the rules above as well
    exclude = ["old", "*/tmp"]     # patterns of files and folders: `gguftool.files.patterns`
    include = ["*.gguf"]
    fail-on = "error"              # also "broken": only models that are not whole

The heading ``[lint]`` may be left out (then ``[tool.gguftool]`` in pyproject.toml).
"""

from __future__ import annotations

import os
from typing import Any

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.files.patterns import covers
from gguftool.near import near_names
from gguftool.reading import toml_file
from gguftool.records import dataclass

FAIL_ON = ("error", "warning", "info", "never")
SCAN_FAIL_ON = ("error", "warning", "broken", "never")


@dataclass(frozen=True, slots=True)
class PerFile:
    """Rules that are left out for some files.

    Attributes:
        folder: where patterns with a slash start: that of the configuration.
        entries: pattern of files and folders, rules and families.
    """

    folder: str = ""
    entries: tuple[tuple[str, tuple[str, ...]], ...] = ()

    __repr__ = short_repr

    def __call__(self, path: str) -> tuple[str, ...]:
        """Rules and families that are left out for a file."""
        if not self.entries:
            return ()
        if "://" not in path:
            path = os.path.relpath(os.path.abspath(path), self.folder or os.curdir).replace(os.sep, "/")
        parts = [step for step in path.split("/") if step]
        return tuple(name for pattern, names in self.entries if covers(pattern, parts) for name in names)

    @property
    def names(self) -> tuple[str, ...]:
        """All rules and families in it."""
        return tuple(name for _, names in self.entries for name in names)


NOWHERE = PerFile()


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of a configuration file; None where it says nothing."""

    path: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str | None = None
    context_length: int | None = None
    cache_type: str | None = None
    policy: str | None = None
    baseline: str | None = None
    per_file_ignores: PerFile = NOWHERE
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    scan_fail_on: str | None = None


def find_config(folder: str | os.PathLike[str] | None = None) -> Config:
    """The nearest configuration from ``folder`` (the working directory) upward; an empty one when there is none.

    Raises:
        UsageError: the file is not TOML, has an unknown name or a value of the wrong kind.
    """
    here = os.path.abspath(os.fspath(folder) if folder is not None else os.getcwd())
    while True:
        own = os.path.join(here, "gguftool.toml")
        if os.path.isfile(own):
            return read_config(own)
        project = os.path.join(here, "pyproject.toml")
        if os.path.isfile(project) and _mentions_us(project) and _said(project) is not None:
            return read_config(project)
        above = os.path.dirname(here)
        if above == here:
            return Config()
        here = above


def chosen(config_file: str | None, no_config: bool) -> Config:
    """The configuration that ``--config FILE`` and ``--no-config`` leave.

    Raises:
        MissingFile, UsageError: as `read_config`; both were given.
    """
    if config_file and no_config:
        raise UsageError("--config and --no-config contradict each other")
    return read_config(config_file) if config_file else Config() if no_config else find_config()


def read_config(path: str | os.PathLike[str]) -> Config:
    """The configuration in ``path``; in a ``pyproject.toml`` its `[tool.gguftool]`.

    Raises:
        MissingFile: no such file.
        UsageError: not TOML, an unknown name, a value of the wrong kind.
    """
    text = os.fspath(path)
    said = _said(text) or {}
    outside = {
        name: value
        for name, value in said.items()
        if name in _TABLES or (name not in _SECTIONS and not isinstance(value, dict))
    }
    values: dict[str, Any] = {}
    for title, kinds in _SECTIONS.items():
        section = said.get(title, {})
        if not isinstance(section, dict):
            raise UsageError(f"{text}: [{title}] must be a table")
        _section(text, title, (outside | section) if title == "lint" else section, kinds, values)
    return Config(path=text, **values)


def _section(text: str, title: str, section: dict[str, Any], kinds: dict[str, str], values: dict[str, Any]) -> None:
    for name, value in section.items():
        kind = kinds.get(name)
        if kind is None:
            near = near_names(name.replace("_", "-"), kinds, 1)
            raise UsageError(
                f"{text}: [{title}] has no {name!r}",
                f"did you mean {near[0]}?" if near else f"names: {', '.join(kinds)}",
            )
        field = _FIELDS.get(f"{title}.{name}") or _FIELDS.get(name, name.replace("-", "_"))
        if field in values:
            raise UsageError(f"{text}: {name} is said twice, under two names")
        values[field] = _checked(text, name, kind, value)


_KINDS = {
    "select": "names",
    "ignore": "names",
    "fail-on": "level",
    "ctx": "number",
    "context-length": "number",
    "cache-type": "text",
    "policy": "file",
    "baseline": "file",
    "per-file-ignores": "table",
}
_TABLES = ("per-file-ignores",)
_SECTIONS = {"lint": _KINDS, "scan": {"include": "patterns", "exclude": "patterns", "fail-on": "scan level"}}
# `ctx` is what the command line calls it.
_FIELDS = {"ctx": "context_length", "scan.fail-on": "scan_fail_on"}


def _checked(path: str, name: str, kind: str, value: object) -> object:
    if kind in ("names", "patterns"):
        items = [value] if isinstance(value, str) else value
        if isinstance(items, list) and all(isinstance(v, str) for v in items):
            return tuple(items)
        what = "rules and families" if kind == "names" else "patterns"
        raise UsageError(f"{path}: {name} must be a list of {what}")
    if kind == "table":
        return _per_file(path, name, value)
    if kind == "number":
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        raise UsageError(f"{path}: {name} must be a whole number of tokens")
    if not isinstance(value, str):
        raise UsageError(f"{path}: {name} must be a string")
    levels = {"level": FAIL_ON, "scan level": SCAN_FAIL_ON}.get(kind)
    if levels is not None and value not in levels:
        raise UsageError(f"{path}: {name} must be one of {', '.join(levels)}")
    if kind == "file":
        return os.path.join(os.path.dirname(os.path.abspath(path)), value)
    return value


def _per_file(path: str, name: str, value: object) -> PerFile:
    if not isinstance(value, dict):
        raise UsageError(f"{path}: {name} must be a table", '"PATTERN" = ["RULE"]')
    entries = []
    for pattern, rules in value.items():
        names = _checked(path, f"{name}.{pattern!r}", "names", rules)
        entries.append((str(pattern), names if isinstance(names, tuple) else ()))
    return PerFile(os.path.dirname(os.path.abspath(path)), tuple(entries))


def _mentions_us(path: str) -> bool:
    """Whether reading the file as TOML, which costs 5 ms of imports, can be worth it."""
    try:
        with open(path, "rb") as f:
            data = f.read()
        return b"tool.gguftool" in data or (b"[tool]" in data and b"gguftool" in data)
    except OSError:
        return True  # let the real reader say why


def _said(path: str) -> dict[str, Any] | None:
    """What a file sets; of a ``pyproject.toml`` its table of ours, None when it has none."""
    said = toml_file(path)
    if os.path.basename(path) != "pyproject.toml":
        return said
    tools = said.get("tool")
    ours = tools.get("gguftool") if isinstance(tools, dict) else None
    if ours is not None and not isinstance(ours, dict):
        raise UsageError(f"{path}: tool.gguftool must be a table", "write its settings under [tool.gguftool.lint]")
    return ours
