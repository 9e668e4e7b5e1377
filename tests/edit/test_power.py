"""Power failures on a model of a disk: whatever was lost, torn or garbled, the file is exactly old or exactly new."""

from __future__ import annotations

import contextlib
import os

import pytest

from gguftool.edit.recover import recover
from gguftool.errors import DamagedJournal, InterruptedEdit
from tests.edit.crash import PATH, Broken, power_run
from tests.edit.mutants import SURVIVORS
from tests.edit.oslayers import Crashed
from tests.edit.powerdisk import PowerOs
from tests.edit.scenarios import SCENARIOS, prepare

SHORT = 100
LONG = int(os.environ.get("GGUFTOOL_CRASH_SEEDS", "5000"))


@pytest.mark.parametrize("garble", [False, True], ids=["lost", "garbled"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_power_failures(scenario, garble: bool):
    prepared = prepare(scenario)
    for seed in range(SHORT):
        power_run(prepared, seed, garble=garble)


@pytest.mark.parametrize("garble", [False, True], ids=["lost", "garbled"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_failed_syncs(scenario, garble: bool):
    """A sync fails and its pages are gone from the disk, not from memory: what is read proves nothing."""
    prepared = prepare(scenario)
    for seed in range(SHORT):
        power_run(prepared, seed, garble=garble, faulty=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("garble", [False, True], ids=["lost", "garbled"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_many_power_failures(scenario, garble: bool):
    prepared = prepare(scenario)
    for seed in range(SHORT, SHORT + LONG):
        power_run(prepared, seed, garble=garble)
        power_run(prepared, seed, garble=garble, faulty=True)


MARK = "mark(layer, journal, record, ROLLBACK, real)"


@pytest.mark.parametrize("skip", [(), (f"write recover._recover: {MARK}", f"sync recover._recover: {MARK}")])
def test_a_phase_that_was_lost_is_marked_again(skip: tuple[str, ...]):
    """The mark is in memory only, recovery goes by it, and the power fails while it takes the room out."""
    prepared = prepare(next(s for s in SCENARIOS if s.name == "undo-insert"))
    bad = 0
    for seed in range(300):
        layer = PowerOs(seed, faulty=4, skip=frozenset(skip))
        for name, data in prepared.files.items():
            layer.load(f"/disk/{name}", data)
        with contextlib.suppress(InterruptedEdit):
            prepared.run(PATH, layer)
        layer.die()
        layer.left = seed % 12
        with contextlib.suppress(Crashed):
            recover(PATH, layer)  # type: ignore[arg-type]
        layer.reboot()
        try:
            recover(PATH, layer)  # type: ignore[arg-type]
            bad += layer.content(PATH) not in (prepared.old, prepared.new)
        except DamagedJournal:
            bad += 1
    assert (bad > 0) == bool(skip)


def all_steps() -> set[str]:
    """Every step that some run of some scenario comes through."""
    found: set[str] = set()
    for scenario in SCENARIOS:
        for seed in range(60):
            found |= power_run(prepare(scenario), seed).sites
            found |= power_run(prepare(scenario), seed, faulty=True).sites
    return found


def caught(step: str, seeds: int) -> str | None:
    """The first run that notices that the step is missing: scenario, seed and what it says."""
    for garble, faulty in ((False, False), (False, True), (True, False), (True, True)):
        for scenario in SCENARIOS:
            prepared = prepare(scenario)
            for seed in range(seeds):
                try:
                    power_run(prepared, seed, garble=garble, faulty=faulty, skip=frozenset([step]))
                except Broken as e:
                    return f"{scenario.name} {seed}: {e}"
                except Exception as e:
                    # Recovery gives up, which it may only do when somebody else wrote the file.
                    return f"{scenario.name} {seed}: {type(e).__name__}: {e}"
    return None


def test_the_steps_are_those_of_the_protocol():
    steps = all_steps()
    assert len(steps) >= 35
    assert set(SURVIVORS) <= steps


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_missing_step_is_noticed_or_explained():
    rows = {step: caught(step, 2000 if step not in SURVIVORS else 300) for step in sorted(all_steps())}
    for step, how in rows.items():
        print("caught  " if how else "survives", step, "|", how or SURVIVORS.get(step, "?"))
    assert {step for step, how in rows.items() if how is None} == set(SURVIVORS)


# The quick part of the above: steps that the first seeds already notice.
QUICK = (
    "write commit._in_place: poison(layer, model, path)",
    "write commit._in_place: mark(layer, journal, record, INSERTED, path)",
    "sync commit._in_place: unpoison(layer, model, path)",
    "sync commit._write_journal: layer.fsync(journal)",
    "sync commit._write_journal: layer.syncdir(os.path.dirname(path))",
    "sync commit._rewrite: layer.fsync(copy)",
    "sync recover._write_back: unpoison(layer, model, path)",
    "sync undo._collapse: layer.fsync(journal)",
    "sync undo._collapse: layer.syncdir(os.path.dirname(path))",
)


@pytest.mark.parametrize("step", QUICK)
def test_a_missing_step_is_noticed(step: str):
    assert caught(step, 120), f"no run notices that this is missing: {step}"
