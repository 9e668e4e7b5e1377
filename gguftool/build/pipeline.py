"""Steps in a row that survive a crash: what is done and still intact is not done again.

A folder beside the output holds the state, a log of each step and the intermediate files. Every step has a key: a hash
of its name, its settings and the key of the step before; the first key hashes the inputs. Steps are skipped up to the
last one whose key is the recorded one and whose files are unchanged.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence

from gguftool.brief import short_repr
from gguftool.errors import GgufToolError
from gguftool.files.faults import writing
from gguftool.files.names import make_folder
from gguftool.files.small import alone, append, begin_log, replace_own
from gguftool.reading import from_json
from gguftool.records import dataclass, field

STATE = "state.json"
_FORMAT = "gguftool.prepare-state/1"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step did.

    Attributes:
        summary: one line for people.
        files: paths that must stay as they are for the step to count as done.
        data: numbers for the report and for later steps; JSON.
        lines: more for the log.
        ok: False stops the pipeline: what was found is worse than allowed.
    """

    summary: str
    files: tuple[str, ...] = ()
    data: Mapping[str, object] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    ok: bool = True

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its name, the settings its result depends on (JSON), and what to do.

    ``run`` gets the path of its log and what the steps before left, by step name.
    """

    name: str
    settings: Mapping[str, object]
    run: Callable[[str, Mapping[str, Mapping[str, object]]], Outcome]

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Done:
    """A step as the report shows it; ``skipped`` when it was done by an earlier run."""

    name: str
    summary: str
    seconds: float
    data: Mapping[str, object]
    log: str
    skipped: bool = False
    ok: bool = True

    __repr__ = short_repr


Event = Callable[[str, str], None]
"""(step name, ``start``, ``done`` or ``skipped``)."""


def work_folder(output: str) -> str:
    """Where the state of making ``output`` lies."""
    return output + ".prepare"


def fingerprint(paths: Sequence[str], progress: Callable[[str, int, int], None] | None = None) -> str:
    """One sha256 over names, sizes and content of files.

    Args:
        paths: files, in any order.
        progress: called with (what is going on, bytes read, of all).
    """
    total, read = hashlib.sha256(), 0
    size = sum(os.path.getsize(path) for path in paths)
    for path in sorted(paths):
        one = hashlib.sha256()
        with open(path, "rb", buffering=0) as f:
            while chunk := f.read(1 << 22):
                one.update(chunk)
                read += len(chunk)
                if progress:
                    progress("hashing the source", read, size)
        total.update(f"{os.path.basename(path)}\0{os.path.getsize(path)}\0{one.hexdigest()}\n".encode())
    return total.hexdigest()


def run(steps: Sequence[Step], folder: str, inputs: str, event: Event | None = None) -> list[Done]:
    """Run the steps that are not done yet.

    Args:
        steps: in order.
        folder: from `work_folder`; made when it is not there.
        inputs: hash of everything the first step reads.
        event: told what happens.

    Returns:
        All steps up to the last one that ran; the last one is not ``ok`` when it stopped the pipeline.

    Raises:
        EditInProgress: another gguftool works in the same folder.
        GgufToolError: as a step raises it; what was done before stays done.
    """
    with writing(folder):
        make_folder(os.path.join(folder, "logs"))
    done: list[Done] = []
    with alone(os.path.join(folder, "lock"), f"{folder}: another gguftool prepare works on this output"):
        records = _read_state(folder)
        keys = _keys(steps, inputs)
        ready = _ready(steps, keys, records)
        for step in steps[ready:]:
            records.pop(step.name, None)
        results: dict[str, Mapping[str, object]] = {}
        for no, (step, key) in enumerate(zip(steps, keys, strict=True)):
            log = os.path.join(folder, "logs", f"{no + 1}-{step.name}.log")
            if no < ready:
                one = _from_record(step.name, records[step.name], log)
                _tell(event, step.name, "skipped")
            else:
                _write_state(folder, records)
                one, record = _do(step, key, log, results, event)
                if one.ok:
                    records[step.name] = record
                    _write_state(folder, records)
            results[step.name] = one.data
            done.append(one)
            if not one.ok:
                break
    return done


def ready(steps: Sequence[Step], folder: str, inputs: str) -> int:
    """How many of the steps were done by an earlier run and still count."""
    return _ready(steps, _keys(steps, inputs), _read_state(folder))


def _ready(steps: Sequence[Step], keys: Sequence[str], records: Mapping[str, Mapping[str, object]]) -> int:
    """Up to the last step whose files are intact: what it was made from may be gone by then."""
    found = 0
    for no, (step, key) in enumerate(zip(steps, keys, strict=True), 1):
        record = records.get(step.name)
        if record is None or record.get("key") != key:
            break
        if _intact(record):
            found = no
    return found


def _keys(steps: Sequence[Step], inputs: str) -> list[str]:
    keys = []
    for step in steps:
        inputs = _key(inputs, step)
        keys.append(inputs)
    return keys


def _do(
    step: Step, key: str, log: str, results: Mapping[str, Mapping[str, object]], event: Event | None
) -> tuple[Done, dict[str, object]]:
    _tell(event, step.name, "start")
    started = time.monotonic()
    begin_log(log, ["gguftool", "prepare:", step.name]).close()
    try:
        outcome = step.run(log, results)
    except GgufToolError as e:
        append(log, [f"failed: {e}", *([f"hint: {e.hint}"] if e.hint else [])])
        raise
    seconds = time.monotonic() - started
    append(log, [outcome.summary, *outcome.lines])
    _tell(event, step.name, "done")
    record: dict[str, object] = {
        "key": key,
        "summary": outcome.summary,
        "seconds": round(seconds, 3),
        "data": dict(outcome.data),
        "files": [_stat(p) for p in outcome.files],
    }
    return Done(step.name, outcome.summary, seconds, outcome.data, log, ok=outcome.ok), record


def _tell(event: Event | None, name: str, what: str) -> None:
    if event:
        event(name, what)


def _key(before: str, step: Step) -> str:
    text = json.dumps([before, step.name, dict(step.settings)], sort_keys=True, default=list)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _stat(path: str) -> dict[str, object]:
    s = os.stat(path)
    return {"path": path, "size": s.st_size, "mtime_ns": s.st_mtime_ns, "inode": s.st_ino}


def _intact(record: Mapping[str, object]) -> bool:
    files = record.get("files")
    if not isinstance(files, list):
        return False
    with contextlib.suppress(OSError, TypeError, KeyError):
        return all(_stat(str(row["path"])) == row for row in files)
    return False


def _from_record(name: str, record: Mapping[str, object], log: str) -> Done:
    data, seconds = record.get("data"), record.get("seconds")
    return Done(
        name,
        str(record.get("summary", "")),
        float(seconds) if isinstance(seconds, (int, float)) else 0.0,
        data if isinstance(data, dict) else {},
        log,
        skipped=True,
    )


def _read_state(folder: str) -> dict[str, dict[str, object]]:
    """The recorded steps; none when there is no state, or it is not readable as one."""
    try:
        with open(os.path.join(folder, STATE), encoding="utf-8", errors="surrogateescape") as f:
            state = from_json(f.read(), halves=True)
        if state["format"] == _FORMAT:
            return {str(k): dict(v) for k, v in state["steps"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return {}


def _write_state(folder: str, records: Mapping[str, object]) -> None:
    replace_own(os.path.join(folder, STATE), json.dumps({"format": _FORMAT, "steps": records}, indent=1))
