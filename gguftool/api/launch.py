"""From a model and wishes to a server that runs and is proven: what ``gguftool launch`` does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gguftool.api.preflight import preflight
from gguftool.brief import short_repr
from gguftool.errors import FormatError, Refused
from gguftool.hub import file_of, is_remote, named, opened
from gguftool.records import dataclass
from gguftool.run.deploy import Found, look
from gguftool.run.engine import Engine, at_hand, choose
from gguftool.run.launch import LaunchPlan, read_out, with_findings
from gguftool.run.launch import plan_open as planned
from gguftool.run.target import older
from gguftool.run.wishes import Wishes
from gguftool.shell import gguftool, path_word

if TYPE_CHECKING:
    from gguftool.model import Model
    from gguftool.run.serve import Outcome
    from gguftool.run.server import Running


def plan_launch(
    model: Model | str | os.PathLike[str],
    wishes: Wishes | None = None,
    *,
    check: bool = True,
    engine: Engine | None = None,
    found: Found | None = None,
    **asked: Any,
) -> LaunchPlan:
    """Work out the command line for a model, these wishes, the llama-server at hand and this machine.

    Args:
        model: a path, an address whose files are here, or an open model.
        wishes: what is asked for; or by keyword.
        check: also look for what stands in the way in the model: `verify`, and `lint` for this deployment.
        engine: what will serve; None: the best at hand, and without any a command spelled for the build we know.
        found: the machine, of many plans looked at once; None: it is looked at now.
        asked: fields of `Wishes`, as on the command line: ``ctx=32768, cache_type="q8_0", port=8081``.

    Returns:
        The plan; ``argv`` is the command, ``obstacles`` what stands in its way.

    Raises:
        UsageError: the file is no language model or not on this machine, or the wishes make no sense.
        FormatError: a shard is missing.
    """
    from gguftool.run.options.asked import wishes as asked_for

    said = asked_for(asked, wishes)
    place = file_of(model) if is_remote(named(model)) else model
    engine = engine or choose(said, printed=True)
    found = found or look(said, engine.tool)
    with opened(place) as m:
        return read_out(plan_open(m, said, engine, found, check=check))


def plan_open(m: Model, said: Wishes, engine: Engine, found: Found, *, check: bool = True) -> LaunchPlan:
    """As `plan_launch`, for a model that stays open: what a proof needs is read when it is asked for (`read_out`)."""
    if m.missing_shards:
        from gguftool.model.missing import missing_text

        text = missing_text(m.missing_shards, m.shard_count, m.missing_names)
        raise FormatError(f"{m.name}: {text}", gguftool("verify", path_word(m.name)), kind="shard-missing")
    plan = planned(m, said, engine, found.devices, found.host)
    if not check:
        return plan
    checked = preflight(m.name, m, plan.asked, plan.obstacles, older(plan.engine.build))
    return with_findings(plan, checked.obstacles, checked.notes)


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs.

    Attributes:
        plan: what was planned.
        running: the process: its ``url``, its ``log()``.
        outcome: what became of the start: planned against observed; ``ok`` when all of it is proven.
    """

    plan: LaunchPlan
    running: Running
    outcome: Outcome

    __repr__ = short_repr

    @property
    def url(self) -> str:
        """Its address."""
        return self.running.url

    @property
    def ok(self) -> bool:
        """It serves, and does what was planned."""
        return self.outcome.ok


@contextmanager
def launch(
    model: Model | str | os.PathLike[str] | LaunchPlan,
    wishes: Wishes | None = None,
    *,
    force: bool = False,
    tell: Callable[[float], None] = lambda _: None,
    **asked: Any,
) -> Iterator[Served]:
    """A server for a model, started and held against its plan; ended when the block is left, however that happens.

    ``with gguftool.launch("m.gguf", ctx=4096, smoke=True) as server: print(server.url, server.ok)``

    Args:
        model: as for `plan_launch`, or a plan.
        wishes: as for `plan_launch`.
        force: start in spite of what stands in the way.
        tell: called with the seconds passed while it loads.
        asked: as for `plan_launch`; ``smoke`` also asks for a short completion, ``log`` names the file of the log.

    Raises:
        Refused: something stands in the way, or the port is taken.
        ToolFailed: there is nothing to start, or it cannot be started.
    """
    from gguftool.files.small import kept_file
    from gguftool.run.serve import prove, serving

    if isinstance(model, LaunchPlan):
        plan = model
    else:
        from gguftool.run.options.asked import wishes as asked_for

        said = asked_for(asked, wishes)
        place = file_of(model) if is_remote(named(model)) else model
        plan = plan_launch(place, said, engine=at_hand(choose(said)))
    if plan.obstacles and not force:
        first, *more = plan.obstacles
        count = f" (and {len(more)} more)" if more else ""
        raise Refused(f"not started: {first.message}{count}", first.remedy or "force=True goes on in spite of that")
    log, own = plan.wishes.log, False
    if not log:
        log, own = kept_file("gguftool-launch-", ".log"), True
    outcome = None
    try:
        with serving(plan, log) as running:
            w = plan.wishes
            outcome = prove(running, plan, seconds=w.timeout, with_smoke=w.smoke, tell=tell)
            yield Served(plan, running, outcome)
    finally:
        if own and outcome is not None and outcome.ok:
            os.unlink(log)
