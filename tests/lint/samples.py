"""Samples of rules: for each one a file on which it fires and one on which it is silent.

Every family has a module ``samples_<family>.py`` with a list ``SAMPLES``; `test_samples.py` runs them all and demands
that every rule of the catalogue has one. A sample is built with `tests.build`, never with the package::

    Sample("head-count-missing", fires=ready().drop("llama.attention.head_count"),
           where="field:llama.attention.head_count", message="is missing", fix="--set llama.attention.head_count=N")
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from math import prod
from pathlib import Path

import tests.lint
from gguftool.lint.rule import Context
from gguftool.lint.run import Report, lint
from gguftool.model import Model, from_source
from gguftool.source import Memory
from tests.build import GGUF, TENSOR, llama

Content = GGUF | bytes | Callable[[Path], Model]
"""A file by its builder, by its bytes, or a function that writes files into a folder and opens the model."""


def ready(**more: object) -> GGUF:
    """A healthy model with the deploy fields: lint has nothing to say about it."""
    return llama(**more).kv("llama.rope.freq_scale", 1.0).kv("llama.kv_cache_type", "f16")


@dataclass(frozen=True)
class Sample:
    """One rule shown at work.

    Attributes:
        rule: its id.
        fires: content on which it has a finding.
        silent: content on which it has none; the healthy model unless said otherwise.
        where: of the finding.
        message: must be part of the message.
        severity: of the finding; the rule's own when None.
        fix: must be part of the fix's command; "" when there must be no fix, None when it does not matter.
        safe: whether the fix is safe; None when it does not matter.
        context: what the rule is told beside the model.
        silent_context: what it is told beside the silent one; the same when None.
    """

    rule: str
    fires: Content
    where: str = ""
    message: str = ""
    silent: Content = field(default_factory=ready)
    severity: str | None = None
    fix: str | None = None
    safe: bool | None = None
    context: Context = field(default_factory=Context)
    silent_context: Context | None = None


def zeroed(g: GGUF) -> GGUF:
    """The same with zeros as tensor data, which is far quicker to write than numbers."""
    for t in g._tensors:
        if t["data"] is None and isinstance(t["type"], str):
            _, block, size = TENSOR[t["type"]]
            t["data"] = bytes(-(-prod(t["shape"]) // block) * size)
    return g


def open_content(content: Content, folder: Path | None = None) -> Model:
    """The model of a sample, faults of its header kept."""
    if isinstance(content, GGUF):
        content = zeroed(content).bytes()
    if isinstance(content, bytes):
        return from_source(Memory(content, "m.gguf"), strict=False)
    assert folder is not None
    return content(folder)


def report_of(
    content: Content, folder: Path | None = None, context: Context | None = None, **options: object
) -> Report:
    """What lint says about a sample."""
    options.setdefault("load", False)
    with open_content(content, folder) as model:
        return lint(model, context, **options)  # type: ignore[arg-type]


def all_samples() -> list[Sample]:
    """The samples of all families."""
    found: list[Sample] = []
    for module in pkgutil.iter_modules(tests.lint.__path__):
        if module.name.startswith("samples_"):
            found.extend(import_module(f"tests.lint.{module.name}").SAMPLES)
    return found
