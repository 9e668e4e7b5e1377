"""A vocabulary without weights, or metadata alone: what can be done with it, and what it is of."""

from __future__ import annotations

from gguftool.format.types import ARR
from gguftool.model.about.fact import Facts, facts_of
from gguftool.model.about.strange import text
from gguftool.model.model import Model


def about(m: Model) -> Facts:
    """The tokenizer's parts: what llama-tokenize needs of a file that has no weights."""
    return facts_of(*metadata(m), ("scores", _has(m, "scores")), ("merges", _count(m, "merges")))


def metadata(m: Model) -> Facts:
    """Name, architecture, and how many fields there are of which kind."""
    arch = m.architecture
    own = sum(key.startswith(arch + ".") for key in m.fields) if arch else 0
    return facts_of(
        ("name", text(m, "general.name")),
        ("architecture", arch or "not named"),
        ("tensors", 0),
        ("fields of the architecture", own),
        ("fields of the tokenizer", sum(key.startswith("tokenizer.") for key in m.fields)),
    )


def _has(m: Model, name: str) -> bool:
    return f"tokenizer.ggml.{name}" in m.fields


def _count(m: Model, name: str) -> int | None:
    field = m.fields.get(f"tokenizer.ggml.{name}")
    return field.count if field is not None and field.type == ARR else None
