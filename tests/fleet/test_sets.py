"""A set of shards is one row, however its files are named, by one process and by two."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import gguftool
from gguftool.fleet.find import Group
from gguftool.fleet.todo import Todo
from gguftool.fleet.want import Want, seen
from tests.build import llama
from tests.verify.sets import pieces, typed, write

CUTS = [3, 9, 20, 38]


def shards(layers: int = 6) -> list:
    return pieces(typed("q4_0", layers), CUTS)


def rows(folder: Path, jobs: int, **given: object) -> dict[str, dict]:
    found = [dict(row) for row in gguftool.scan(folder, jobs=jobs, lint=False, **given)]
    assert len({row["path"] for row in found}) == len(found)
    return {os.path.relpath(row["path"], folder): row for row in found}


NAMES = {
    "usual": "m-{n:05d}-of-00005.gguf",
    "parts": "part{i:03d}.gguf",
    "backwards": "part{back:03d}.gguf",
    "loose": "m-{n}of5.gguf",
    "split-of": "m.gguf-{n:05d}-of-00005",
    "hashes": "{hash:064x}",
    "words": "{word}.gguf",
}


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("form", NAMES.values(), ids=NAMES)
def test_whatever_the_names(tmp_path: Path, form: str, jobs: int):
    rng = random.Random(form)
    for i, shard in enumerate(shards()):
        named = {"n": i + 1, "i": i, "back": 9 - i, "hash": rng.getrandbits(255), "word": "edcba"[i]}
        shard.write(tmp_path / form.format(**named))
    [row] = rows(tmp_path, jobs).values()
    assert row["set"]["present"] == row["set"]["count"] == 5
    assert (len(row["files"]), row["facts"]["tensors"]) == (5, len(typed("q4_0")._tensors))
    assert row["ok"] is (form == NAMES["usual"])


@pytest.mark.parametrize("jobs", [1, 2])
def test_sets_and_models_in_one_folder(tmp_path: Path, jobs: int):
    for i, shard in enumerate(shards()):
        shard.write(tmp_path / f"a{i}.gguf")
    # Another number of tensors: another set, though it was cut alike.
    for i, shard in enumerate(shards(5)):
        shard.write(tmp_path / f"b{i}.gguf")
    for name in ("c", "d", "m-1of2", "m-2of2"):
        llama().write(tmp_path / f"{name}.gguf")
    write(shards(4), tmp_path, "e")
    found = rows(tmp_path, jobs)
    assert set(found) == {
        "a0.gguf", "b0.gguf", "c.gguf", "d.gguf", "m-1of2.gguf", "m-2of2.gguf", "e-00001-of-00005.gguf"
    }  # fmt: skip
    assert {name for name, row in found.items() if row["set"]} == {"a0.gguf", "b0.gguf", "e-00001-of-00005.gguf"}


@pytest.mark.parametrize("jobs", [1, 2])
def test_sets_without_their_first_shard(tmp_path: Path, jobs: int):
    for i, shard in enumerate(shards()[1:]):
        shard.write(tmp_path / f"a{i}.gguf")
    for i, shard in enumerate(shards(5)[2:]):
        shard.write(tmp_path / f"b{i}.gguf")
    llama().write(tmp_path / "c.gguf")
    found = rows(tmp_path, jobs)
    assert {name: row["set"] and row["set"]["present"] for name, row in found.items()} == {
        "a0.gguf": 4,
        "b0.gguf": 3,
        "c.gguf": None,
    }


@pytest.mark.parametrize("jobs", [1, 2])
def test_equal_names_in_two_folders(tmp_path: Path, jobs: int):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        write(shards(), tmp_path / folder)
    assert {name: row["set"]["present"] for name, row in rows(tmp_path, jobs).items()} == {
        "x/m-00001-of-00005.gguf": 5,
        "y/m-00001-of-00005.gguf": 5,
    }


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_shard_that_cannot_be_read_belongs_to_its_set(tmp_path: Path, jobs: int):
    paths = write(shards(), tmp_path)
    paths[2].write_bytes(b"<html>")
    for i in range(4):
        llama().write(tmp_path / f"z{i}.gguf")
    found = rows(tmp_path, jobs)
    assert [name for name, row in found.items() if not row["ok"]] == ["m-00001-of-00005.gguf"]
    # Without the others it is a row itself.
    for path in (*paths[:2], *paths[3:]):
        path.unlink()
    found = rows(tmp_path, jobs)
    assert found[paths[2].name]["error"]["code"] == "not-gguf"


def test_shards_named_one_by_one(tmp_path: Path):
    paths = [shard.write(tmp_path / f"s{i}.gguf") for i, shard in enumerate(shards())]
    [row] = gguftool.scan(paths[::-1], lint=False)
    assert row["path"] == str(paths[0])
    [row] = gguftool.scan(paths[3], lint=False)
    assert (row["path"], row["set"]["present"]) == (str(paths[3]), 5)


def test_a_set_of_the_last_run(tmp_path: Path):
    (folder := tmp_path / "m").mkdir()
    paths = write(shards(), folder)
    kept = tmp_path / "rows.jsonl"
    first = rows(folder, 1, resume=kept)
    before = kept.read_bytes()
    assert rows(folder, 1, resume=kept) == first
    assert kept.read_bytes() == before
    # Any of its files counts, not only the one that gives the row its name.
    paths[3].write_bytes(paths[3].read_bytes()[:-200])
    [row] = rows(folder, 1, resume=kept).values()
    assert [p["kind"] for p in row["problems"]] == ["truncated"]
    paths[4].unlink()
    [row] = rows(folder, 1, resume=kept).values()
    assert row["set"]["present"] == 4
    # What comes later belongs to the row that was there.
    shards()[4].write(paths[4])
    [row] = rows(folder, 1, resume=kept).values()
    assert row["set"]["present"] == 5


@pytest.mark.parametrize("seed", range(20))
def test_in_whatever_order_they_are_seen(tmp_path: Path, seed: int):
    """Tasks come back in any order, any number of them under way."""
    rng = random.Random(seed)
    names = [f"{c}{i}.gguf" for c in "abc" for i in range(5)]
    rng.shuffle(names)
    for letter, layers in zip("abc", (6, 5, 4), strict=True):
        for i, shard in enumerate(shards(layers)):
            if letter == "a" or i > 0:
                shard.write(tmp_path / f"{letter}{i}.gguf")
    paths = [str(tmp_path / name) for name in names if name not in ("b0.gguf", "c0.gguf")]
    found = list(drive(Todo(iter([Group(paths)]), lambda path: None, None), rng))
    assert len(found) == 3
    assert sorted(os.path.basename(row["path"])[:2] for row in found) == ["a0", "b1", "c1"]
    assert sorted(len(row["files"]) for row in found) == [4, 4, 5]


def drive(todo: Todo, rng: random.Random) -> Iterator[dict]:
    under_way = []
    while True:
        while todo.ready:
            yield todo.ready.popleft()[0]
        task = todo.next() if len(under_way) < rng.randint(1, 6) else None
        if task is not None:
            under_way.append(task)
        elif not todo.ready:
            if not under_way:
                return
            todo.done(seen(under_way.pop(rng.randrange(len(under_way))), Want(lint=False)))
