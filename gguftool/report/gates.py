"""Findings in the formats of programs that gate, one module each; `GATES` is the table of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from gguftool.errors import GgufToolError
    from gguftool.lint.check import FileCheck
    from gguftool.lint.rule import Severity

Gate: TypeAlias = "Callable[[Sequence[FileCheck], Severity | None], str]"
"""Of checks, and the severity from which findings fail (None: never), the whole text."""
GATES = {"sarif": "sarif:text", "github": "github:text", "gitlab": "gitlab:text", "junit": "junit:text"}
"""Name of a format -> where its `Gate` is."""
GITHUB = "GITHUB_WORKSPACE"
ROOTS = (GITHUB, "CI_PROJECT_DIR")
"""Variables in which GitHub and GitLab name the checkout: annotated are files by their path from there."""


def gate(name: str) -> Gate:
    """What writes a format."""
    module, _, function = GATES[name].partition(":")
    return cast("Gate", getattr(import_module(f"gguftool.report.{module}"), function))


def failed(checks: Sequence[FileCheck]) -> Iterator[tuple[FileCheck, GgufToolError]]:
    """Files that could not be read, and rules that failed themselves."""
    return ((c, e) for c in checks for e in (c.error, *c.bugs) if e is not None)


def from_root(path: str) -> str:
    """A path as the annotated checkout has it; one outside, an address, or without a checkout: as it is."""
    root = next((os.environ[name] for name in ROOTS if os.environ.get(name)), None)
    if root is None or "://" in path:
        return path
    below = os.path.relpath(os.path.abspath(path), root)
    return path if below.split(os.sep)[0] == os.pardir else below
