"""A little of ``./dev fuzz`` in every run of the tests: what was found before, and a few executions of each target."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.fuzz.target import KEPT, made, names, target

FEW = 1
FOUND = [(path.parent.name, path) for path in sorted(KEPT.glob("*/*"))]


@pytest.mark.parametrize(("name", "path"), FOUND, ids=[f"{n}-{p.stem}" for n, p in FOUND])
def test_what_was_found_stays_mended(name: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        target(name).run(path.read_bytes(), folder, Random(seed))


@pytest.mark.parametrize("name", names())
def test_a_few_of_each_target(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    for number in range(FEW):
        folder = tmp_path / str(number)
        folder.mkdir()
        data, rng = made(name, number)
        target(name).run(data, folder, rng)


def test_every_kind_of_input_has_a_target() -> None:
    asked = "parse model dump lint edit journal plan verify templates logs translate imatrix safetensors http".split()
    assert set(asked) <= set(names())


def test_an_execution_is_made_again_by_its_number() -> None:
    for name in names():
        assert made(name, 7)[0] == made(name, 7)[0]
