"""Vectors of the source to hold a server's against: from sentence-transformers, or from a file that it once wrote."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from gguftool.errors import GgufToolError, Unreadable, UsageError
from gguftool.reading import json_file
from gguftool.run.launch import LaunchPlan
from gguftool.run.proof import Check

EXACT, ROUNDED = 0.99, 0.95
"""Least cosine of a model of 8 bits a weight or more, and of a smaller one; another way of pooling is well below."""
EIGHT = 8.0
SAMPLES = (
    "What is the capital of France?",
    "The capital of France is Paris.",
    "Bananas are yellow.",
    "def add(a, b):\n    return a + b",
)
"""Texts for sentence-transformers, which embeds any."""
MOST = 64
"""Texts of a file that are compared."""
LIMIT = 256 << 20

Give = Callable[[Sequence[str]], list[list[float]]]


def cosine_checks(plan: LaunchPlan, give: Give) -> Iterator[Check]:
    """The server's vectors against those of the source.

    Args:
        plan: with ``against``, a file of texts and vectors or a folder of sentence-transformers.
        give: asks the server.
    """
    path = plan.wishes.against or ""
    what = "embedding: cosine with " + (os.path.basename(path.rstrip("/")) or path)
    least = EXACT if _bits(plan) >= EIGHT else ROUNDED
    try:
        wanted = read_vectors(path) if os.path.isfile(path) else encoded(path)
    except UsageError as error:
        yield Check(what, f"at least {least}", f"not compared: {error}", None, vital=True)
        return
    texts = list(wanted)[:MOST]
    rows = give(texts)
    if len(rows) != len(texts) or any(len(row) != len(wanted[t]) for t, row in zip(texts, rows, strict=True)):
        sizes = f"{len(rows[0])} numbers, there {len(wanted[texts[0]])}" if rows else "no answer"
        yield Check(what, f"at least {least}", sizes, False, vital=True)
        return
    worst = min(cosine(row, wanted[t]) for t, row in zip(texts, rows, strict=True))
    yield Check(what, f"at least {least}", f"{worst:.4f} ({len(texts)} texts)", worst >= least, vital=True)


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """Cosine of the angle between two vectors of one size; 0 where one has no length."""
    size = math.hypot(*a) * math.hypot(*b)
    return sum(x * y for x, y in zip(a, b, strict=True)) / size if size else 0.0


def read_vectors(path: str) -> dict[str, list[float]]:
    """Texts and their vectors of a JSON file: an object of both, or a list of objects with text and embedding.

    Raises:
        UsageError: it cannot be read, or is something else.
    """
    try:
        found = json_file(path, LIMIT)
    except Unreadable as error:
        raise UsageError(str(error)) from None
    out: dict[str, list[float]] = {}
    for text, row in _pairs(found):
        if isinstance(text, str) and isinstance(row, list) and row and all(map(_is_number, row)):
            out[text] = [float(x) for x in row]
    if not out:
        raise UsageError(f"{path} holds no texts with vectors", 'it is {"a text": [0.1, …], …}')
    return out


def _pairs(found: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(found, Mapping):
        yield from found.items()
    elif isinstance(found, list):
        for entry in found:
            if isinstance(entry, Mapping):
                yield entry.get("text"), entry.get("embedding")


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)


def encoded(folder: str) -> dict[str, list[float]]:
    """Vectors of `SAMPLES` as the source gives them, without any prompt.

    Raises:
        UsageError: sentence-transformers is not installed, or cannot load the folder.
    """
    try:
        library = import_module("sentence_transformers")
    except ImportError:
        raise UsageError("sentence-transformers is not installed", "name a JSON file of texts and vectors") from None
    try:
        model = library.SentenceTransformer(folder, device="cpu")
        rows = model.encode(list(SAMPLES), prompt="", normalize_embeddings=True)
    except Exception as error:
        raise UsageError(f"sentence-transformers: {type(error).__name__}: {error}") from None
    return {text: [float(x) for x in row] for text, row in zip(SAMPLES, rows, strict=True)}


def _bits(plan: LaunchPlan) -> float:
    """Bits a weight of the model; 0 when its file cannot be read any more."""
    from gguftool.model.opening import open_model

    try:
        with open_model(plan.model) as m:
            weights = sum(t.info.elements for t in m.tensors.values())
    except GgufToolError:
        return 0.0
    return 8 * (plan.expected.weights_bytes or 0) / weights if weights else 0.0
