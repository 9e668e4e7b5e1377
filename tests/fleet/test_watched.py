"""What is told of folders that are watched, with a clock of the test's own; what happens is done while it waits."""

from __future__ import annotations

import gc
import os
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gguftool.files.patterns import Patterns
from gguftool.fleet.hear import Heard
from gguftool.fleet.tally import Tally
from gguftool.fleet.want import Want
from gguftool.fleet.watch import Clock, follow
from gguftool.fleet.watched import Pace
from tests.build import llama
from tests.json_schemas import validator
from tests.verify.sets import three

WHOLE = llama().bytes()
Step = Callable[[], object] | float
PACE = Pace(settle=2, patience=600, every=60)


class World:
    """Waiting runs the next step, or lets so many seconds go by; after the last one nothing is heard any more."""

    def __init__(self, root: Path, steps: Sequence[Step], *, quiet: bool = False) -> None:
        self.root = root
        self.steps = list(steps)
        self.ahead = 0.0
        self.waits: list[float] = []
        self.tallies: list[dict[str, int]] = []
        self.quiet = quiet

    def steady(self) -> float:
        return 1000.0 + self.ahead

    def wall(self) -> float:
        return time.time() + self.ahead

    def __call__(self, seconds: float) -> Heard | None:
        self.waits.append(seconds)
        if seconds == 0.0:
            return Heard()
        if not self.steps:
            return None
        step = self.steps[0]
        if isinstance(step, int | float):
            gone = min(float(step), seconds)
            self.ahead += gone
            self.steps[0] = step - gone
            if step - gone <= 0:
                del self.steps[0]
            return Heard()
        del self.steps[0]
        step()
        self.ahead += 0.1
        return Heard() if self.quiet else Heard(lost=True)

    def close(self) -> None:
        """It holds nothing."""

    def told(self, **options: Any) -> list[dict[str, Any]]:
        """All that is told."""
        return list(self.events(**options))

    def events(self, pace: Pace = PACE, lint: bool = False, resume: str = "") -> Iterator[dict[str, Any]]:
        def count(tally: Tally) -> None:
            self.tallies.append(dict(tally.models))

        found = follow(
            [str(self.root)],
            Want(lint=lint),
            Patterns(),
            jobs=1,
            resume=resume,
            pace=pace,
            count=count,
            ears=lambda roots, trouble: self,
            clock=Clock(self.steady, self.wall),
        )
        schema = validator("scan-row")
        for event in found:
            assert not list(schema.iter_errors(event))
            yield {**event, "name": os.path.relpath(event["path"], self.root)}


def brief(events: Sequence[dict[str, Any]]) -> list[tuple[str, str, bool]]:
    return [(e["event"], e["name"], e["ok"]) for e in events]


def growing(path: Path, data: bytes = WHOLE, parts: int = 6, pause: float = 1.0) -> list[Step]:
    """A file that is written piece by piece, as curl and cp do."""

    def add(no: int) -> Callable[[], object]:
        def act() -> None:
            with path.open("ab") as f:
                f.write(data[no * len(data) // parts : (no + 1) * len(data) // parts])

        return act

    return [step for no in range(parts) for step in (add(no), pause)]


def test_one_that_grows_is_told_when_it_is_whole(tmp_path: Path):
    path = tmp_path / "m.gguf"
    for pause in (1.0, 30.0):
        path.unlink(missing_ok=True)
        world = World(tmp_path, [*growing(path, pause=pause), 3])
        assert brief(world.told()) == [("new", "m.gguf", True)]
        assert {"waiting": 1} in world.tallies
        assert world.tallies[-1] == {"whole": 1}


def test_a_half_one_is_told_once_patience_is_over_and_again_when_it_is_whole(tmp_path: Path):
    path = tmp_path / "m.gguf"
    steps: list[Step] = [lambda: path.write_bytes(WHOLE[:-100]), 590, 30, 2000, lambda: path.write_bytes(WHOLE), 3]
    world = World(tmp_path, steps)
    half, new = world.told()
    assert brief([half, new]) == [("half", "m.gguf", False), ("changed", "m.gguf", True)]
    assert half["problems"][0]["kind"] == "truncated"


def test_what_no_waiting_mends_is_told_at_once(tmp_path: Path):
    path = tmp_path / "page.gguf"
    world = World(tmp_path, [lambda: path.write_bytes(b"<html>" + bytes(100)), 3])
    [event] = world.told()
    assert (event["event"], event["error"]["code"]) == ("new", "not-gguf")


def test_one_that_is_written_all_the_time_is_a_row(tmp_path: Path):
    path = tmp_path / "log.gguf"
    world = World(tmp_path, growing(path, b"not a model, a log that is written for ever\n" * 9000, 60, 1.5))
    event = world.told(pace=Pace(2, 60, 30))[0]
    assert (event["name"], event["ok"]) == ("log.gguf", False)
    whole = tmp_path / "again.gguf"

    def touched() -> None:
        whole.write_bytes(WHOLE)

    world = World(tmp_path, [step for _ in range(60) for step in (touched, 1.5)])
    (event,) = [e for e in world.told(pace=Pace(2, 60, 30)) if e["name"] == "again.gguf"]
    assert (event["event"], event["ok"], event["error"]["code"]) == ("half", False, "changed-meanwhile")


@pytest.mark.parametrize("ahead", [b"", bytes(4096)], ids=["empty", "zeros"])
def test_room_that_was_taken_first(tmp_path: Path, ahead: bytes):
    """A file of nothing, or of zeros in its full length, is one that is to come."""
    path = tmp_path / "m.gguf"
    world = World(tmp_path, [lambda: path.write_bytes(ahead), 100, lambda: path.write_bytes(WHOLE), 3])
    assert brief(world.told()) == [("new", "m.gguf", True)]


def test_data_that_was_never_written(tmp_path: Path):
    """Header and length are there, the data is a hole."""
    data = llama(layers=6).bytes()
    path = tmp_path / "m.gguf"

    def reserve() -> None:
        with path.open("wb") as f:
            f.write(data[:60000])
            f.truncate(len(data))

    assert len(data) > 300_000
    world = World(tmp_path, [reserve, 100, lambda: path.write_bytes(data), 3])
    events = world.told()
    assert brief(events) == [("new", "m.gguf", True)]
    assert world.ahead > 100


def test_the_control_file_of_aria2(tmp_path: Path):
    path, control = tmp_path / "m.gguf", tmp_path / "m.gguf.aria2"

    def both() -> None:
        control.write_bytes(b"x")
        path.write_bytes(WHOLE)

    world = World(tmp_path, [both, 100, control.unlink, 3])
    assert brief(world.told()) == [("new", "m.gguf", True)]
    assert {"waiting": 1} in world.tallies


def test_unfinished_names_and_the_rename_into_place(tmp_path: Path):
    path, part = tmp_path / "m.gguf", tmp_path / "m.gguf.incomplete"
    world = World(tmp_path, [*growing(part), 100, lambda: part.rename(path), 3])
    assert brief(world.told()) == [("new", "m.gguf", True)]
    assert not any(world.tallies[:-2]), "the unfinished one is no model"


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_a_set_waits_for_all_its_shards(tmp_path: Path, order: tuple[int, ...]):
    (made := tmp_path / "made").mkdir()
    (root := tmp_path / "root").mkdir()
    shards = three(made)
    moves = [lambda no=no: (root / shards[no].name).write_bytes(shards[no].read_bytes()) for no in order]
    world = World(root, [step for move in moves for step in (move, 100)])
    [event] = world.told()
    assert (event["event"], event["name"], event["ok"]) == ("new", shards[0].name, True)
    assert len(event["files"]) == 3


def test_a_set_that_never_gets_whole_and_one_that_loses_a_shard(tmp_path: Path):
    (made := tmp_path / "made").mkdir()
    (root := tmp_path / "root").mkdir()
    shards = [(path.name, path.read_bytes()) for path in three(made)]

    def put(no: int) -> Callable[[], object]:
        return lambda: (root / shards[no][0]).write_bytes(shards[no][1])

    steps: list[Step] = [put(0), 10, put(2), 700, put(1), 10, lambda: (root / shards[1][0]).unlink(), 700]
    half, whole, lost, gone, alone = World(
        root, [*steps, lambda: (root / shards[0][0]).unlink(), 5, 700, lambda: (root / shards[2][0]).unlink(), 5]
    ).told()[:5]
    first = shards[0][0]
    assert brief([half, whole, lost, gone]) == [
        ("half", first, False),
        ("changed", first, True),
        ("half", first, False),
        ("deleted", first, False),
    ]
    assert (half["set"]["present"], half["set"]["count"]) == (2, 3)
    assert brief([alone]) == [("half", shards[2][0], False)]


def test_changed_replaced_renamed_deleted(tmp_path: Path):
    a, b = tmp_path / "a.gguf", tmp_path / "b.gguf"
    other = llama(layers=2).bytes()

    def replace() -> None:
        (tmp_path / "new").write_bytes(other)
        (tmp_path / "new").replace(a)

    a.write_bytes(WHOLE)
    os.utime(a, (1, 1))
    steps: list[Step] = [3, replace, 3, lambda: a.rename(b), 3, b.touch, 3, b.unlink, 1]
    events = World(tmp_path, steps).told()
    assert brief(events) == [
        ("new", "a.gguf", True),
        ("changed", "a.gguf", True),
        ("deleted", "a.gguf", False),
        ("new", "b.gguf", True),
        ("changed", "b.gguf", True),
        ("deleted", "b.gguf", False),
    ]


def test_what_is_there_at_the_start_and_an_earlier_run(tmp_path: Path):
    rows = str(tmp_path / "rows.jsonl")
    (root := tmp_path / "root").mkdir()
    for name, data in (("a", WHOLE), ("b", WHOLE), ("cut", WHOLE[:-9])):
        (root / f"{name}.gguf").write_bytes(data)
    three(root)
    world = World(root, [1])
    world.ahead = 3600
    assert sorted(brief(world.told(resume=rows))) == [
        ("found", "a.gguf", True),
        ("found", "b.gguf", True),
        ("found", "m-00001-of-00003.gguf", True),
        ("half", "cut.gguf", False),
    ]
    (root / "b.gguf").write_bytes(WHOLE + bytes(3))
    again = World(root, [1])
    again.ahead = 3600
    assert brief(again.told(resume=rows)) == [("found", "b.gguf", False)]
    assert again.tallies[-1] == {"whole": 2, "broken": 2}


@pytest.fixture
def plain() -> Iterator[Path]:
    """A folder of somebody who may not read everything, who this process is meanwhile."""
    with tempfile.TemporaryDirectory() as name:
        root = os.geteuid() == 0
        if root:
            os.chown(name, 65534, -1)
            os.seteuid(65534)
        try:
            yield Path(name)
        finally:
            if root:
                os.seteuid(0)


def test_no_permission(plain: Path):
    path, sub = plain / "m.gguf", plain / "sub"
    path.write_bytes(WHOLE)
    sub.mkdir()
    (sub / "in.gguf").write_bytes(WHOLE)
    path.chmod(0)
    sub.chmod(0)
    steps: list[Step] = [5, lambda: path.chmod(0o600), 5, lambda: sub.chmod(0o700), 5]
    events = World(plain, steps).told()
    assert sorted(brief(events)[:2]) == [("new", "m.gguf", False), ("trouble", "sub", False)]
    assert {e["error"]["code"] for e in events[:2]} == {"unreadable"}
    assert brief(events)[2:] == [("changed", "m.gguf", True), ("new", "sub/in.gguf", True)]


def test_links(tmp_path: Path):
    (root := tmp_path / "root").mkdir()
    (blobs := tmp_path / "blobs").mkdir()
    link = root / "m.gguf"
    link.symlink_to(blobs / "m")
    (root / "round").symlink_to(root)
    steps: list[Step] = [
        5,
        lambda: (blobs / "m").write_bytes(WHOLE[:-5]),
        100,
        lambda: (blobs / "m").write_bytes(WHOLE),
        70,
    ]
    assert brief(World(root, steps, quiet=True).told()) == [("new", "m.gguf", True)]


def test_the_folder_itself_goes_and_comes_again(tmp_path: Path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.gguf").write_bytes(WHOLE)

    def away() -> None:
        (root / "a.gguf").unlink()
        root.rmdir()

    def again() -> None:
        root.mkdir()
        (root / "b.gguf").write_bytes(WHOLE)

    world = World(root, [3, away, 3, 120, again, 5])
    first, *gone, last = brief(world.told())
    assert (first, last) == (("new", "a.gguf", True), ("new", "b.gguf", True))
    assert sorted(gone) == [("deleted", "a.gguf", False), ("trouble", ".", False)]


def test_lint_and_predictions_are_in_the_rows(tmp_path: Path):
    path = tmp_path / "m.gguf"
    [event] = World(tmp_path, [lambda: path.write_bytes(WHOLE), 3]).told(lint=True)
    assert (event["load"], event["lint"]["error"]) == ("loads", 0)


def test_memory_is_flat_over_thousands_of_events(tmp_path: Path):
    path = tmp_path / "m.gguf"
    path.write_bytes(b"<html>")
    told = 0

    def storm(no: int) -> Callable[[], object]:
        def act() -> None:
            path.write_bytes(b"<html>" + b"x" * (no % 90))
            (tmp_path / f"gone-{no}.gguf").write_bytes(b"")
            (tmp_path / f"gone-{no - 1}.gguf").unlink(missing_ok=True)

        return act

    world = World(tmp_path, [step for no in range(250) for step in (storm(no), 2.5)])
    sizes = {}
    tracemalloc.start()
    try:
        for event in world.events():
            told += event["name"] == "m.gguf"
            world.tallies.clear()
            world.waits.clear()
            if told in (60, 150):
                gc.collect()
                # Other threads of the test run take and give back at the same time.
                ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/gguftool/fleet/*")])
                sizes[told] = sum(trace.size for trace in ours.traces)
    finally:
        tracemalloc.stop()
    assert told >= 150
    assert sizes[150] < sizes[60] + 40_000, sizes
