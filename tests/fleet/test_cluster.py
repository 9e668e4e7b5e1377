"""A scan on a real scheduler of Dask and three worker processes: the same rows, also when workers are killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gguftool
from tests.build import llama
from tests.fleet.dask_cluster import KILLER, Cluster, cluster
from tests.verify.sets import pieces, typed, write

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with cluster("one", "two", "slow") as found:
        yield found


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fleet")
    for i in range(40):
        model = llama(layers=1 + i % 3)
        if i % 7 == 0:
            model.truncate(-500)
        model.write(root / f"m{i:02d}.gguf")
    (root / "page.gguf").write_bytes(b"<html>")
    (root / "sets").mkdir()
    write(pieces(typed("q4_0"), [3, 9, 20]), root / "sets")
    for i, shard in enumerate(pieces(typed("q4_0", 5), [3, 9, 20])):
        shard.write(root / "sets" / f"part{i}.gguf")
    return root


def by_path(rows) -> dict[str, dict]:
    return {row["path"]: row for row in rows}


def test_a_worker_killed_in_the_middle_loses_nothing(three: Cluster, fleet: Path):
    alone = by_path(gguftool.scan(fleet, jobs=1))
    rows = []
    for row in gguftool.scan(fleet, scheduler=three.address):
        rows.append(row)
        if len(rows) == 5:
            # It waits before each model, so that some are in its hands.
            os.kill(three.workers["slow"], signal.SIGKILL)
    assert len(rows) == len(alone) == 43
    assert by_path(rows) == alone


def test_a_file_that_ends_workers_is_a_row(three: Cluster, fleet: Path, tmp_path: Path):
    for i in range(6):
        llama().write(tmp_path / f"m{i}.gguf")
    llama().write(tmp_path / KILLER)
    rows = by_path(gguftool.scan(tmp_path, lint=False, scheduler=three.address))
    assert {Path(path).name for path, row in rows.items() if row["error"]} == {KILLER}
    assert "every worker that looked at it died" in rows[str(tmp_path / KILLER)]["error"]["message"]
    assert len(rows) == 7


def test_the_command(three: Cluster, fleet: Path, cli):
    here = cli("scan", fleet, "--no-lint", "--jobs", "1", "--format", "json")
    there = cli("scan", fleet, "--no-lint", "--scheduler", three.address, "--format", "json")
    assert (there.code, there.json) == (here.code, here.json)
    assert there.err == ""


def test_what_is_wrong_with_a_cluster_is_said(three: Cluster, fleet: Path, cli, monkeypatch: pytest.MonkeyPatch):
    from gguftool.fleet import cluster as module

    done = cli("scan", fleet, "--scheduler", "127.0.0.1:1")
    assert (done.code, "tcp://HOST:8786" in done.err) == (2, True)
    done = cli("scan", fleet, "--scheduler", three.address, "--jobs", "2")
    assert done.code == 2
    with monkeypatch.context() as patch:
        patch.setattr(module, "unseen", module.told)
        done = cli("scan", fleet, "--scheduler", three.address)
        assert (done.code, "does not see" in done.err) == (6, True)
    monkeypatch.setattr(module, "__version__", "9.9")
    done = cli("scan", fleet, "--scheduler", three.address)
    assert done.code == 6
    assert f"runs gguftool {gguftool.__version__}" in done.err
    assert "here it is 9.9" in done.err


def test_without_the_package(fleet: Path, cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = cli("scan", fleet, "--scheduler", "tcp://127.0.0.1:1")
    assert (done.code, "pip install 'gguftool[cluster]'" in done.err) == (6, True)


def test_a_scheduler_that_dies(three: Cluster, fleet: Path, tmp_path: Path):
    """The last test of this module: nothing is left of the cluster."""
    kept = tmp_path / "rows.jsonl"
    scheduler = int(Path(f"/proc/{three.process.pid}/task/{three.process.pid}/children").read_text().split()[0])
    rows = 0
    with pytest.raises(gguftool.ToolFailed) as failed:
        for _ in gguftool.scan(fleet, scheduler=three.address, resume=kept):
            rows += 1
            if rows == 5:
                os.kill(scheduler, signal.SIGKILL)
    assert failed.value.exit_code == 6
    assert "--resume" in str(failed.value.hint)
    assert len(kept.read_text().splitlines()) == rows >= 5
