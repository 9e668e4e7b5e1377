"""A little of ``./dev fuzz`` in every run of the tests: what was found before, and a few executions of each target."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.build import llama
from tests.fuzz.costly import every
from tests.fuzz.gguf import put, take
from tests.fuzz.target import KEPT, cli, made, names, target
from tests.fuzz.worst import asked

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
    kinds = "parse model dump lint edit journal plan verify templates logs translate imatrix safetensors http worst"
    assert set(kinds.split()) <= set(names())


def test_an_execution_is_made_again_by_its_number() -> None:
    for name in names():
        assert made(name, 7)[0] == made(name, 7)[0]


@pytest.mark.parametrize("name", ["dump", "lint", "plan", "model"])
def test_a_number_of_5000_digits_in_the_name_of_a_tensor(name: str, tmp_path: Path) -> None:
    """int() takes no such text; it is no number of a layer."""
    fields, tensors, data = take(llama().bytes())
    tensors[1][0] = b"blk." + b"9" * 5000 + b".attn_q.weight"
    for seed in range(2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        target(name).run(put(fields, tensors, data), folder, Random(seed))


def test_an_architecture_that_drives_the_terminal(tmp_path: Path) -> None:
    """It stands in the sentence of what a build must know, too."""
    path = llama(arch="https://x/\x1b[2J").write(tmp_path / "m.gguf")
    for words in (("lint", "--no-config"), ("compat",), ("compat", "--build", "b4000"), ("scan",), ("dump",)):
        cli(*words, path)


@pytest.mark.parametrize("name", ["architecture-wide", "strings", "types", "tags", "suppress-all", "mmproj"])
def test_what_is_small_on_the_disk_costs_little(name: str, tmp_path: Path) -> None:
    """What they took: 10 s and 4 GB, 6 s, 415 MiB, 6 s, a set made anew for each of 8 million ids, 316 MiB."""
    path = tmp_path / "m.gguf"
    every()[name]().write(path)
    cost = asked(name, ["lint", "--format", "json", str(path)], tmp_path)
    assert not cost.over, cost


@pytest.mark.parametrize("form", [["--format", "json", "--full"], ["--full"], ["--tokens", "0:"]], ids=" ".join)
def test_what_shows_everything_is_bounded_all_the_same(form: list[str], tmp_path: Path) -> None:
    """Fourteen texts of 8 MB in a file of a few KB: it took 15 s and 1.1 GiB."""
    path = tmp_path / "m.gguf"
    every()["strings"]().array(b"tokenizer.ggml.tokens", 8, 2, 30_000_000).write(path)
    cost = asked("strings", ["dump", *form, str(path)], tmp_path)
    # The header itself takes 280 MiB of it.
    assert (cost.code, cost.seconds < 5, cost.mib < 512) == (0, True, True), cost
