"""Vectors of the source: read from a file, or made by sentence-transformers (here a stand-in with its call)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from gguftool.errors import UsageError
from gguftool.model import open_model
from gguftool.run.launch import LaunchPlan, plan_launch
from gguftool.run.reference import SAMPLES, cosine, cosine_checks, encoded, read_vectors
from gguftool.run.wishes import Wishes
from tests.embedders import bert


def plan(path: Path) -> LaunchPlan:
    with open_model(bert().write((path if path.is_dir() else path.parent) / "m.gguf")) as m:
        return plan_launch(m, Wishes(against=str(path)))


def test_cosine() -> None:
    assert cosine([1, 0], [0, 1]) == 0
    assert cosine([3, 4], [6, 8]) == pytest.approx(1)
    assert cosine([1, 0], [-2, 0]) == -1
    assert cosine([0, 0], [1, 1]) == 0


def test_both_shapes_of_a_file(tmp_path: Path) -> None:
    one, two = tmp_path / "a.json", tmp_path / "b.json"
    one.write_text(json.dumps({"hello": [1, 0.5], "no": "vector", "neither": [None], "nan": [float("nan")]}))
    two.write_text(json.dumps([{"text": "hello", "embedding": [1, 0.5]}, {"text": 5}, "x"]))
    assert read_vectors(str(one)) == read_vectors(str(two)) == {"hello": [1.0, 0.5]}


@pytest.mark.parametrize("text", ["{", "{}", "[]", '"x"', "5"])
def test_a_file_of_something_else(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UsageError):
        read_vectors(str(path))
    (check,) = cosine_checks(plan(path), lambda texts: [])
    assert (check.ok, check.vital) == (None, True)


@pytest.mark.parametrize(("vector", "ok"), [([1.0, 0.01], True), ([1.0, 0.5], False), ([1.0], False)])
def test_what_is_alike(vector: list[float], ok: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"hello": [1.0, 0.0]}')
    (check,) = cosine_checks(plan(path), lambda texts: [vector for _ in texts])
    assert (check.ok, check.vital) == (ok, True)


def test_sentence_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(UsageError, match="not installed"):
        encoded(str(tmp_path))
    (check,) = cosine_checks(plan(tmp_path), lambda texts: [])
    assert check.ok is None
    assert "not installed" in str(check.observed)

    asked = {}

    class SentenceTransformer:
        def __init__(self, folder: str, device: str) -> None:
            asked.update(folder=folder, device=device)

        def encode(self, texts: list[str], **options: object) -> list[list[float]]:
            asked.update(options)
            return [[float(len(t)), 1.0] for t in texts]

    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    assert list(encoded(str(tmp_path))) == list(SAMPLES)
    # A prompt of the source would be in its vectors, and not in the server's.
    assert asked == {"folder": str(tmp_path), "device": "cpu", "prompt": "", "normalize_embeddings": True}
    (check,) = cosine_checks(plan(tmp_path), lambda texts: [[2.0 * len(t), 2.0] for t in texts])
    assert check.ok is True
