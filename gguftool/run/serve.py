"""Start what was planned, prove it, watch it, and end it whatever happens."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gguftool.brief import short_repr
from gguftool.endings import cancelling
from gguftool.model.drafting import KINDS
from gguftool.quantity import whole
from gguftool.records import dataclass, replace
from gguftool.run import vectors
from gguftool.run.devices import MIB, command_output
from gguftool.run.diagnose import Diagnosis, Judgement, judge
from gguftool.run.endpoints import Drafted, Smoke, drafts, endpoint_checks, smoke
from gguftool.run.known import KNOWS
from gguftool.run.launch import LaunchPlan, with_port
from gguftool.run.options.serving import DEFAULT_PORT
from gguftool.run.proof import Check, compare, proven
from gguftool.run.reach import hosts, way_to
from gguftool.run.server import (
    Running,
    ask,
    check_port,
    check_reachable,
    ended_how,
    free_port,
    restart,
    start,
    stop,
    wait_until_ready,
)
from gguftool.run.speculative import asked

RETRIES, QUICK_SECONDS = 2, 10.0
ABOUT_ANSWERS = ("end-token-odd",)
"""Notices that say nothing of a model that does not write."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a start.

    Attributes:
        judged: the log.
        checks: planned against observed, from the log and the endpoints.
        smoke: the short completion, None when none was asked for.
        seconds: until it served, or gave up.
        ended: how the process ended, "" while it runs.
        late: it was still loading when the time was over.
        drafted: how much was drafted for an answer, None when nothing was to be.
    """

    judged: Judgement
    checks: tuple[Check, ...]
    smoke: Smoke | None
    seconds: float
    ended: str = ""
    late: bool = False
    drafted: Drafted | None = None

    __repr__ = short_repr

    @property
    def ok(self) -> bool:
        """It serves, and does what was planned."""
        return not self.ended and not self.late and proven(self.checks)


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a running server; None: it does not tell.

    Attributes:
        slots, busy: how many there are, and how many of them work.
        written: tokens written by the tasks that run now.
        filled: share of the cells that hold a token.
        rss: resident bytes of the process.
        gpu: bytes it holds on NVIDIA devices.
    """

    slots: int | None
    busy: int | None
    written: int | None
    filled: float | None
    rss: int | None
    gpu: int | None = None


@contextmanager
def serving(plan: LaunchPlan, log_path: str) -> Iterator[Running]:
    """The server of the plan, running; ended when the block is left, however that happens.

    Raises:
        Refused: the port is taken.
        ToolFailed: it cannot be started, or an RPC server of the plan cannot be reached.
    """
    wishes = plan.wishes
    plan = listening(plan)
    for server in wishes.rpc:
        check_reachable(server.endpoint)
    with cancelling():
        running = start(plan.argv, log_path, way_to(plan.wishes))
        try:
            yield running
        finally:
            stop(running)


def listening(plan: LaunchPlan) -> LaunchPlan:
    """The plan with a port that is free.

    Raises:
        Refused: the port that was asked for is taken.
        ToolFailed: an address cannot be used at all.
    """
    w, there = plan.wishes, hosts(plan.wishes)
    socket = there[0].endswith(".sock")
    for host in there if w.port or socket else ():
        check_port(host, w.port)
    return plan if w.port else with_port(plan, DEFAULT_PORT if socket else free_port(there[0]))


def prove(
    running: Running,
    plan: LaunchPlan,
    *,
    seconds: float = 600.0,
    with_smoke: bool = False,
    tell: Callable[[float], None] = lambda _: None,
) -> Outcome:
    """Wait until it serves and hold what it says against the plan.

    Args:
        running: the server.
        plan: what was planned.
        seconds: how long to wait for it.
        with_smoke: also ask for a short completion.
        tell: called with the seconds passed while it loads.
    """
    ready, took = _wait(running, seconds, tell)
    code = running.process.poll()
    if not ready:
        judged = _with_end(judge(running.log()), code)
        checks = tuple(compare(plan.expected, judged)) if judged.status == "ready" else ()
        return Outcome(judged, checks, None, took, "" if code is None else ended_how(code), code is None)
    tested = _smoke(running, plan) if with_smoke else None
    drafted = _drafts(running, plan)
    endpoints = endpoint_checks(running, plan.expected, plan.model)
    given = vectors.checks(running, plan)
    # After everything that was asked: it may have ended it, and warnings about kernels come with the first decode.
    judged = _serving(judge(running.log()))
    checks = (*compare(plan.expected, judged), *endpoints, *given)
    if tested is not None:
        checks = (*checks, _tested(tested))
    if drafted is not None:
        checks = (*checks, *_drafted(drafted))
    if plan.gives is not None:
        judged = replace(judged, notices=tuple(n for n in judged.notices if n.kind not in ABOUT_ANSWERS))
    code = running.process.poll()
    return Outcome(judged, checks, tested, took, "" if code is None else ended_how(code), drafted=drafted)


def _tested(tested: Smoke) -> Check:
    """The known text as a line of the proof; what cannot be judged is not held against the server, but said."""
    said = {True: "known", False: "not known", None: "could not be judged"}[tested.ok]
    known = tested.known
    if known is not None and known.chat is not None and known.verdict == KNOWS and not tested.ok:
        said = "not its turns"
    excused = known is None or known.excused
    return Check("smoke test", "known", said, tested.ok, vital=tested.ok is not None or not excused)


def _drafts(running: Running, plan: LaunchPlan) -> Drafted | None:
    """An answer to a prompt for which every kind that was asked for has something to draft."""
    kinds = asked(plan.wishes)
    if not kinds:
        return None
    return drafts(running, any(kind not in KINDS for kind in kinds), plan.memory.cache.context.usable)


def _drafted(d: Drafted) -> list[Check]:
    """Drafted at all; that the model takes none of it makes it slower, but is what was planned."""
    said = d.why or d.drafted
    out = [Check("drafted tokens", "some", said, d.drafted > 0, vital=True)]
    return [*out, Check("accepted of them", "some", d.accepted, True if d.accepted else None)] if d.drafted else out


def _serving(j: Judgement) -> Judgement:
    """A log at a low level does not say that the server is ready; the server itself did."""
    return replace(j, status="ready") if j.status in ("starting", "unknown") else j


def _smoke(running: Running, plan: LaunchPlan) -> Smoke:
    """The completion; not asked of encoders, some of which end the server when they are asked to write."""
    cache = plan.memory.cache
    if plan.gives is not None or (not cache.caches and not cache.state):
        return Smoke("", 0, None, None, "this model gives embeddings, it does not write")
    return smoke(running, plan.about)


def _wait(running: Running, seconds: float, tell: Callable[[float], None]) -> tuple[bool, float]:
    """Wait for it; one that ends at once without a reason is started again.

    llama.cpp writes its log in a thread of its own (`common/log.cpp`), and a program that fails early now and then ends
    before that thread has written why: 6 of 150 starts on a busy machine.
    """
    for left in range(RETRIES, -1, -1):
        began = time.monotonic()
        ready = wait_until_ready(running, seconds, tell)
        took = time.monotonic() - began
        code = running.process.poll()
        silent = code is not None and code > 0 and judge(running.log()).error is None
        if ready or not silent or took > QUICK_SECONDS or not left:
            break
        restart(running)
    return ready, took


def _with_end(j: Judgement, code: int | None) -> Judgement:
    """A judgement that has an error whenever the process ended: some crashes leave no word in the log."""
    if code is None or j.error is not None:
        return j
    how = ended_how(code)
    cause = "The program ended and left no reason in its log."
    remedy = "gguftool doctor; run the command of --print by hand"
    return replace(j, status="failed", error=Diagnosis("ended", how, 0, cause, remedy, True, {}))


def sample(running: Running) -> Sample:
    """Slots in use, tokens written, cells filled, memory of the process."""
    answer = ask(running, "/slots", seconds=5)
    rows = [s for s in answer.body if isinstance(s, dict)] if isinstance(answer.body, list) else []
    cells = sum(int(s.get("n_ctx") or 0) for s in rows)
    # What llama-server calls prompt tokens includes those it has written.
    held = sum(n for s in rows if isinstance(n := s.get("n_prompt_tokens"), int))
    return Sample(
        slots=len(rows) or None,
        busy=sum(bool(s.get("is_processing")) for s in rows) if rows else None,
        written=sum(_written(s) for s in rows if s.get("is_processing")) if rows else None,
        filled=held / cells if cells else None,
        rss=resident(running.process.pid),
        gpu=on_gpu(running.process.pid),
    )


def _written(slot: dict[str, object]) -> int:
    """Tokens the task of a slot has written."""
    found = slot.get("next_token")
    row = found[0] if isinstance(found, list) and found else found
    count = row.get("n_decoded") if isinstance(row, dict) else None
    return count if isinstance(count, int) else 0


def on_gpu(pid: int) -> int | None:
    """Bytes a process holds on NVIDIA devices; None without their driver."""
    text = command_output("nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits")
    rows = [line.split(",") for line in text.splitlines() if line.count(",") == 1]
    found = [n for who, mib in rows if who.strip() == str(pid) and (n := whole(mib.strip())) is not None]
    return sum(found) * MIB if found else None


def resident(pid: int) -> int | None:
    """Resident bytes of a process; None where the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
