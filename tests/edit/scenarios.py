"""Edits that the crash tests run: what stands before, what is done, and what may stand afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gguftool.edit.commit import commit, identity
from gguftool.edit.job import Job
from gguftool.edit.ops import Delete, Operation, Realign, Reserve, Set, Strip
from gguftool.edit.oslayer import BLOCK
from gguftool.edit.plan import plan_edit
from gguftool.edit.undo import newest, reverse, take_back
from tests.build import GGUF

NAME = "m.gguf"


def model(blocks: int = 4) -> GGUF:
    """A small model whose header ends in the middle of a block that tensor data shares; several blocks of data."""
    g = GGUF("llama").kv("general.name", "crash test").kv("llama.context_length", 2048).kv("llama.block_count", 1)
    g.kv("tokenizer.ggml.tokens", [f"token {i}" for i in range(40)])
    return g.tensor("a.weight", (32, 16)).tensor("b.weight", (256, 4 * blocks - 1)).tensor("c.weight", (7,))


def holed() -> bytes:
    """The same with tensors that are zeros in the middle, and behind the last byte that was written."""
    g = GGUF("llama").kv("general.name", "crash test").kv("llama.context_length", 2048).kv("llama.block_count", 1)
    g.kv("tokenizer.ggml.tokens", [f"token {i}" for i in range(40)])
    for name, zeros in (("a", 3), ("b", 1), ("c", 0), ("d", 2)):
        n = (zeros + 2) * 1024
        body = bytes(range(1, 255)) * 17
        g.tensor(f"{name}.weight", (n,), data=(body[:4000] + bytes(4 * n))[: 4 * n - 300] + b"e" * 300)
    return g.tensor("e.weight", (5000,), data=bytes(20000)).bytes()


def write_sparse(path: str, data: bytes) -> None:
    """A file whose blocks of zeros are holes."""
    with open(path, "wb") as f:
        f.truncate(len(data))
        for start in range(0, len(data), BLOCK):
            if any(data[start : start + BLOCK]):
                f.seek(start)
                f.write(data[start : start + BLOCK])


@dataclass(frozen=True)
class Scenario:
    """One edit.

    Attributes:
        name: for the test id.
        before: edits done beforehand (they leave undo records).
        operations: of the edit itself; empty: undo the last one.
        strategy: that it must take.
        copy: force an undo by copying.
        sparse: the model has holes, between bytes and at its end.
    """

    name: str
    before: tuple[tuple[Operation, ...], ...]
    operations: tuple[Operation, ...]
    strategy: str | None
    copy: bool = False
    sparse: bool = False


ROOM = Reserve(64)
LONG = Set("general.description", "d" * 900)
SCENARIOS = (
    Scenario("patch-scalar", (), (Set("llama.context_length", 4096),), "patch"),
    Scenario("patch-into-room", ((ROOM, Set("general.author", "a")),), (Set("general.url", "u" * 50),), "patch"),
    Scenario(
        "patch-two-places",
        ((Reserve(9000),),),
        (Set("general.name", "n" * 70), Delete("tokenizer.ggml.tokens")),
        "patch",
    ),
    Scenario("insert-one-block", (), (LONG, ROOM), "insert"),
    Scenario("insert-more-than-header", (), (Set("general.description", "d" * 9000), ROOM), "insert"),
    Scenario("insert-behind-tokens", (), (Set("tokenizer.ggml.tokens", ("t" * 50,) * 60), ROOM), "insert"),
    Scenario("rewrite", (), (LONG, ROOM), "rewrite"),
    Scenario("rewrite-same-layout", (), (Set("llama.context_length", 4096),), "rewrite"),
    Scenario("rewrite-realign", (), (Realign(128),), None),
    Scenario("rewrite-strip", ((LONG, Reserve(5000)),), (Strip(),), None),
    Scenario("undo-patch", ((Set("llama.context_length", 4096),),), (), "patch"),
    Scenario("undo-insert", ((LONG, ROOM),), (), "collapse"),
    Scenario("undo-insert-twice", ((LONG, ROOM), (Set("general.license", "l" * 9000), ROOM)), (), "collapse"),
    Scenario("undo-insert-by-copy", ((LONG, ROOM),), (), "rewrite", copy=True),
    Scenario("insert-sparse", (), (LONG, ROOM), "insert", sparse=True),
    Scenario(
        "insert-sparse-more-than-a-hole", (), (Set("general.description", "d" * 9000), ROOM), "insert", sparse=True
    ),
    Scenario("rewrite-sparse", (), (LONG, ROOM), "rewrite", sparse=True),
    Scenario("undo-insert-sparse", ((LONG, ROOM),), (), "collapse", sparse=True),
    Scenario(
        "undo-insert-sparse-twice",
        ((LONG, ROOM), (Set("general.license", "l" * 9000), ROOM)),
        (),
        "collapse",
        sparse=True,
    ),
    Scenario("undo-insert-sparse-by-copy", ((LONG, ROOM),), (), "rewrite", copy=True, sparse=True),
    Scenario("undo-rewrite", ((Realign(128),),), (), "rewrite"),
)


@dataclass(frozen=True)
class Prepared:
    """A scenario ready to run on any layer.

    Attributes:
        files: name -> bytes of everything that stands in the folder before.
        old, new: the model before and after.
        run: does the edit: ``run(path, layer)``.
        sparse: blocks of zeros of the model are holes.
    """

    files: dict[str, bytes]
    old: bytes
    new: bytes
    run: Callable[[str, Any], None]
    sparse: bool = False


@cache
def prepare(scenario: Scenario) -> Prepared:
    """Do the scenario once on the real disk, without trouble, to learn what it leads to."""
    with TemporaryDirectory(dir=os.environ.get("GGUFTOOL_TEST_DISK")) as folder:
        path = str(Path(folder) / NAME)
        if scenario.sparse:
            write_sparse(path, holed())
        else:
            model().write(path)
        for ops in scenario.before:
            plan_edit(path, ops, force=scenario.sparse).commit()
        files = {p.name: p.read_bytes() for p in Path(folder).iterdir()}
        job, record = None, None
        if scenario.operations:
            plan = plan_edit(path, scenario.operations, strategy=scenario.strategy, force=scenario.sparse)
            assert scenario.strategy in (None, plan.strategy), (scenario.name, plan.strategy)
            job = plan.job
            plan.commit()
        else:
            from gguftool.edit.oslayer import OsLayer

            layer = OsLayer()
            number, record = newest(path)
            job = reverse(layer, path, number, record, os.stat(path))
            assert take_back(layer, job, record, copy=scenario.copy) == scenario.strategy
        new = Path(path).read_bytes()
    assert new != files[NAME]

    def run(path: str, layer: Any) -> None:
        now = layer.stat(path)
        again: Job = replace(job, path=path, identity=identity(now))
        if record is None:
            commit(again, layer)
        else:
            take_back(layer, again, record, copy=scenario.copy)

    return Prepared(files, files[NAME], new, run, scenario.sparse)
