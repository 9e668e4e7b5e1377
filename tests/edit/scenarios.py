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
from gguftool.edit.plan import plan_edit
from gguftool.edit.undo import newest, reverse, take_back
from tests.build import GGUF

NAME = "m.gguf"


def model(blocks: int = 4) -> GGUF:
    """A small model whose header ends in the middle of a block that tensor data shares; several blocks of data."""
    g = GGUF("llama").kv("general.name", "crash test").kv("llama.context_length", 2048).kv("llama.block_count", 1)
    g.kv("tokenizer.ggml.tokens", [f"token {i}" for i in range(40)])
    return g.tensor("a.weight", (32, 16)).tensor("b.weight", (256, 4 * blocks - 1)).tensor("c.weight", (7,))


@dataclass(frozen=True)
class Scenario:
    """One edit.

    Attributes:
        name: for the test id.
        before: edits done beforehand (they leave undo records).
        operations: of the edit itself; empty: undo the last one.
        strategy: that it must take.
        copy: force an undo by copying.
    """

    name: str
    before: tuple[tuple[Operation, ...], ...]
    operations: tuple[Operation, ...]
    strategy: str | None
    copy: bool = False


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
    Scenario("undo-rewrite", ((Realign(128),),), (), "rewrite"),
)


@dataclass(frozen=True)
class Prepared:
    """A scenario ready to run on any layer.

    Attributes:
        files: name -> bytes of everything that stands in the folder before.
        old, new: the model before and after.
        run: does the edit: ``run(path, layer)``.
    """

    files: dict[str, bytes]
    old: bytes
    new: bytes
    run: Callable[[str, Any], None]


@cache
def prepare(scenario: Scenario) -> Prepared:
    """Do the scenario once on the real disk, without trouble, to learn what it leads to."""
    with TemporaryDirectory(dir=os.environ.get("GGUFTOOL_TEST_DISK")) as folder:
        path = str(Path(folder) / NAME)
        model().write(path)
        for ops in scenario.before:
            plan_edit(path, ops).commit()
        files = {p.name: p.read_bytes() for p in Path(folder).iterdir()}
        job, record = None, None
        if scenario.operations:
            plan = plan_edit(path, scenario.operations, strategy=scenario.strategy)
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

    return Prepared(files, files[NAME], new, run)
