"""Sets of shards: the predicted first error line is the one the real library prints."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gguftool.model import open_model
from gguftool.predict import predict
from tests.build import GGUF, llama
from tests.oracle.verdicts import judge

pytestmark = pytest.mark.oracle


def two(folder: Path, name: str = "m", **levers: object) -> Path:
    """A model in two shards; levers change the keys of one of them."""
    whole = llama(layers=2)
    first, second = whole.copy(), GGUF()
    half = len(whole._tensors) // 2
    second._tensors, first._tensors = first._tensors[half:], first._tensors[:half]
    total = len(whole._tensors)
    first.shard(0, 2, total)
    second.shard(1, 2, total)
    for lever, value in levers.items():
        part, _, key = lever.partition("__")
        kind = {"no": "u16", "count": "u16", "tensors": "i32"}
        target = first if part == "first" else second
        full = "split.tensors.count" if key == "tensors" else f"split.{key}"
        if value is None:
            target.drop(full)
        elif isinstance(value, tuple):
            target.replace(full, value[0], value[1])
        else:
            target.replace(full, value, kind[key])
    first.write(folder / f"{name}-00001-of-00002.gguf")
    second.write(folder / f"{name}-00002-of-00002.gguf")
    return folder / f"{name}-00001-of-00002.gguf"


def other(path: Path) -> Path:
    return path.with_name(path.name.replace("00001-of", "00002-of"))


def lost(folder: Path) -> Path:
    path = two(folder)
    other(path).unlink()
    return path


def cut(folder: Path) -> Path:
    path = two(folder)
    data = other(path).read_bytes()
    other(path).write_bytes(data[:-4000])
    return path


def broken(folder: Path) -> Path:
    path = two(folder)
    other(path).write_bytes(b"GGUF" + bytes(100))
    return path


def twice(folder: Path) -> Path:
    path = two(folder)
    shutil.copyfile(path, other(path))
    return path


def renamed(folder: Path) -> Path:
    path = two(folder)
    return path.rename(folder / "model.gguf")


CASES: dict[str, Callable[[Path], Path]] = {
    "whole": two,
    "shard missing": lost,
    "second shard cut": cut,
    "second shard broken": broken,
    "first shard twice": twice,
    "first shard under another name": renamed,
    "wrong number": lambda f: two(f, second__no=5),
    "number missing": lambda f: two(f, second__no=None),
    "tensor count wrong": lambda f: two(f, first__tensors=7),
    "tensor count missing": lambda f: two(f, first__tensors=None),
    "count of another type": lambda f: two(f, first__count=(2, "u32")),
    "first number missing": lambda f: two(f, first__no=None),
    "count too small": lambda f: two(f, first__count=1),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    folder = tmp_path_factory.mktemp("sets")
    paths = {}
    for i, (name, make) in enumerate(CASES.items()):
        (folder / str(i)).mkdir()
        paths[name] = make(folder / str(i))
    return {n: (p, a) for (n, p), a in zip(paths.items(), judge(map(str, paths.values())), strict=True)}


@pytest.mark.parametrize("name", CASES)
def test_set_is_judged_as_predicted(name: str, answers) -> None:  # type: ignore[no-untyped-def]
    path, answer = answers[name]
    with open_model(path, strict=False) as m:
        p = predict(m)
    mine = "loads" if p.verdict in ("loads", "warns") else p.verdict
    assert mine == answer.verdict, (p, answer.errors)
    if answer.errors:
        assert p.messages[0] == answer.errors[0]
