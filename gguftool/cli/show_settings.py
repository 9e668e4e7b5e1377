"""``--show-settings``: what is in force, and who said it, in the form of a configuration file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gguftool.report.text import safe

if TYPE_CHECKING:
    from gguftool.cli.options import Session
    from gguftool.lint.config import Config

_LINT = (
    ("select", "select", "select"),
    ("ignore", "ignore", "ignore"),
    ("fail-on", "fail_on", "fail_on"),
    ("ctx", "context_length", "context_length"),
    ("cache-type", "cache_type", "cache_type"),
    ("policy", "policy", "policy"),
    ("baseline", "baseline", "baseline"),
)
"""Name in the file, parameter of the command, field of `Config`."""
_SCAN = (
    ("include", "include", "include"),
    ("exclude", "exclude", "exclude"),
    ("fail-on", "fail_on", "scan_fail_on"),
)
_ADDED = ("ignore", "exclude")
"""What the command line says is added to what the file says."""


def show(session: Session, options: Mapping[str, Any], config: Config, *, scan: bool = False) -> int:
    """Write the settings; 0."""
    own = [row for row in _LINT if not scan or row[0] != "fail-on"]
    found = {"lint": [_row(options, config, *row, "warning") for row in own]}
    if scan:
        found["scan"] = [_row(options, config, *row, "broken") for row in _SCAN]
    per_file = config.per_file_ignores.entries
    if session.format in ("json", "jsonl"):
        body = {
            "config": config.path,
            "settings": [
                {"table": table, "name": name, "value": value, "from": who}
                for table, rows in found.items()
                for name, value, who in rows
            ],
            "per_file_ignores": [{"pattern": pattern, "rules": list(rules)} for pattern, rules in per_file],
        }
        session.write_json(ok=True, body=body)
        return 0
    lines = [f"# {safe(config.path) if config.path else 'no configuration file'}"]
    for table, rows in found.items():
        lines.append(f"[{table}]")
        lines += [_line(name, value, who) for name, value, who in rows]
        if table == "lint" and per_file:
            lines.append("[lint.per-file-ignores]")
            lines += [f"{_toml(pattern)} = {_toml(list(rules))}" for pattern, rules in per_file]
    session.out("\n".join(lines))
    return 0


def _row(
    options: Mapping[str, Any], config: Config, name: str, param: str, field: str, fails: str
) -> tuple[str, Any, str]:
    context = click.get_current_context()
    typed = context.get_parameter_source(param) is ParameterSource.COMMANDLINE
    given, said = options.get(param) if typed else None, getattr(config, field)
    if isinstance(said, tuple):
        words = tuple(w.strip() for one in given or () for w in one.split(",") if w.strip())
        value = [*words, *said] if name in _ADDED else list(words or said)
        who = " and ".join(x for x in ("command line" if words else "", _file(config) if said else "") if x)
        return name, value, (who if name in _ADDED or not words else "command line") or "default"
    if given is not None:
        return (
            name,
            "/".join(given) if isinstance(given, Sequence) and not isinstance(given, str) else given,
            "command line",
        )
    if said is not None:
        return name, said, _file(config)
    return name, fails if name == "fail-on" else None, "default"


def _file(config: Config) -> str:
    return "configuration file" if config.path else "default"


def _line(name: str, value: Any, who: str) -> str:
    if value is None:
        return f"# {name}: not set"
    return f"{name} = {_toml(value)}  # {who}"


def _toml(value: Any) -> str:
    """A value as TOML has it; a string of JSON is one of TOML."""
    return safe(json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f"))
