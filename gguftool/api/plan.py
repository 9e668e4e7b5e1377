"""What memory a deployment takes, and with which settings it fits: what ``gguftool plan`` does."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.facts import llama_cpp
from gguftool.hub import is_remote, opened
from gguftool.memory.advice import Advice, advise
from gguftool.memory.fit import Fit
from gguftool.memory.plan import MemoryPlan, Planner
from gguftool.memory.speed.estimate import Estimate
from gguftool.model.role import only_runnable
from gguftool.predict import predict
from gguftool.records import dataclass, field, replace
from gguftool.run.args import server_command
from gguftool.run.capabilities import known
from gguftool.run.deploy import (
    Deployment,
    Found,
    deploy,
    look,
    outcome,
    resolved,
    with_largest_context,
)
from gguftool.run.engine import Engine, choose, engine_of
from gguftool.run.grown import growth_notes
from gguftool.run.planned import planned_command
from gguftool.run.silent import names_template
from gguftool.run.speed import speed
from gguftool.run.target import older
from gguftool.run.wishes import Wishes

if TYPE_CHECKING:
    from gguftool.model import Model
    from gguftool.run.proof import Expected
    from gguftool.run.ways import Way


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan that was searched for.

    Attributes:
        advice: the plan with all that explains it: steps of the search, other contexts and types, assumptions.
        deployment: what the wishes came to on this machine.
        wishes: everything the plan rests on, also what nobody asked for.
        command: llama-server with its arguments.
        speed: how fast it can be.
        ways: what fits where the wish does not, the recommended one first.
        not_loaded: llama.cpp's line where it would not load the file; "": it would, or the file is not here to tell.
    """

    advice: Advice
    deployment: Deployment
    wishes: Wishes
    command: tuple[str, ...]
    speed: Estimate
    ways: tuple[Way, ...] = ()
    not_loaded: str = ""
    _to_expect: list[Callable[[], Expected]] = field(default_factory=list, repr=False, compare=False)
    _expected: list[Expected] = field(default_factory=list, repr=False)

    __repr__ = short_repr

    @property
    def expected(self) -> Expected:
        """What its log must show."""
        while self._to_expect:
            self._expected.append(self._to_expect.pop()())
        return self._expected[0]

    def _repr_html_(self) -> str:
        return self.memory._repr_html_()

    @property
    def memory(self) -> MemoryPlan:
        """The recommended plan, in bytes by device."""
        return self.advice.plan

    @property
    def fits(self) -> bool | None:
        """Whether it fits; None when the memory is unknown."""
        return self.memory.fits

    @property
    def refused(self) -> tuple[str, ...]:
        """Why llama.cpp would not start like this; empty: it would."""
        return self.memory.refused

    @property
    def left_out(self) -> tuple[str, ...]:
        """Files beside the model that llama.cpp would go on without; empty: none."""
        return tuple(x.text for x in self.deployment.unfit if x.misfit.left_out)

    @property
    def not_ready(self) -> tuple[str, ...]:
        """Why no change of the file makes the command one that does what is planned; empty: it does."""
        left = (f"it would be left out: {text}" for text in self.left_out)
        short = ("it does not fit",) if self.fits is False else ()
        return (*(f"llama.cpp refuses: {text}" for text in self.refused), *left, *short)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing."""
        harm = (x.text for x in self.deployment.unfit if not x.misfit.stops)
        grown = growth_notes(self.deployment, self.memory)
        return (*self.deployment.notes, *grown, *(doubt for doubt, _ in self.deployment.doubts), *harm)


def plan(
    model: Model | str | os.PathLike[str],
    wishes: Wishes | None = None,
    *,
    max_context: bool = False,
    measure: bool = False,
    build: str | int | None = None,
    named: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
    **asked: Any,
) -> Planned:
    """Work out what memory a model takes, and search for settings with which it fits.

    Caches, states and weights are exact; compute buffers are estimated, or measured. When it does not fit, settings
    that nobody named are changed.

    Args:
        model: a path, an address, or an open model; its header is enough.
        wishes: what is asked for; or by keyword.
        max_context: plan the largest context that fits.
        measure: ask the real library (it allocates nothing) in place of estimating.
        build: number of the build that will serve, ``b8179`` or ``8179``, in place of a llama-server at hand.
        named: what the command calls the model; its own name when None.
        tell: called with what is odd in a measurement.
        asked: fields of `Wishes`, as on the command line: ``ctx=32768, cache_type="q8_0", vram="16GiB", ram="64GiB"``.

    Raises:
        UsageError: the file is no language model, or the wishes make no sense.
        ToolFailed: measuring failed.
    """
    from gguftool.run.options.asked import wishes as asked_for

    said = asked_for(asked, wishes)
    engine = engine_for(said, build, measure)
    spec = named if named is not None else str(model) if isinstance(model, (str, os.PathLike)) else model.name
    with opened(model, strict=True) as m:
        found = plan_open(m, said, engine, spec, max_context=max_context, measure=measure, tell=tell)
        # It is read from the model, which may be closed before anybody asks for it.
        _ = found.expected
        return found


def plan_open(
    m: Model,
    said: Wishes,
    engine: Engine,
    spec: str,
    *,
    max_context: bool = False,
    measure: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Planned:
    """As `plan`, for a model that stays open: what the log must show is worked out when it is asked for.

    Args:
        m: the model; its header is enough.
        said: what is asked for.
        engine: what will serve, see `engine_for`.
        spec: what the command calls the model.
        max_context: plan the largest context that fits.
        measure: ask the real library in place of estimating.
        tell: called with what is odd in a measurement.

    Raises:
        UsageError: the file is no language model, or the wishes make no sense.
        ToolFailed: measuring failed.
    """
    only_runnable(m)
    refused, not_loaded = _load(m, older(engine.build))
    d, advice, found = _advise(m, said, engine, refused, max_context, measure, tell)
    rests_on = resolved(d, advice.planner, advice.plan)
    command = tuple(planned_command(spec, m.name, rests_on, engine.build))
    others: tuple[Way, ...] = ()
    if found.lacking:
        from gguftool.run.ways import ways

        others = ways(m, d, advice.planner, found, spec)
    fast = speed(d, advice.planner, advice.plan)

    def expected() -> Expected:
        from gguftool.run.expected import expectations

        return expectations(m, advice.plan, rests_on, d.sides)

    planned = Planned(advice, d, rests_on, command, fast, others, not_loaded, [expected])
    if rests_on.template is not None or names_template(os.environ, known()):
        # A template in a file of its own is read for it; one that cannot be read stops the plan.
        _ = planned.expected
    return planned


def engine_for(said: Wishes, build: str | int | None = None, measure: bool = False) -> Engine:
    """What a plan is for: a build by its number, else the llama-server at hand.

    Raises:
        UsageError: a build is named, and a program or a measurement beside it.
        MissingFile, ToolFailed: the program that is named is not there, or does not run.
    """
    if build is None:
        return choose(said, printed=True)
    if said.server or measure:
        raise UsageError("--build names a build by its number: no program of it is asked or measures")
    return engine_of(build)


def _load(m: Model, build: int | None) -> tuple[list[str], str]:
    """Why the llama-server at hand does not load what the newest known does; and what that says of a file it refuses.

    Args:
        m: the model; of one that is not here, nothing is told.
        build: number of the one at hand where it is older than the newest.
    """
    if is_remote(m.name):
        return [], ""
    load = predict(m, build)
    if not (load.ends or load.first_error):
        return [], ""
    newest = load if build is None else predict(m)
    if build is None or newest.ends or not load.ends:
        return [], newest.first_error or (str(newest.verdict) if newest.ends else "")
    from gguftool.predict.needs import needs, sentence

    need = sentence(needs(m))
    return [f"{llama_cpp(build)} does not load it: {load.reason}" + (f"; it {need}" if need else "")], ""


def fitted(
    m: Model,
    wishes: Wishes,
    engine: Engine,
    machine: Found,
    refused: Sequence[str] = (),
    max_context: bool = False,
) -> tuple[Deployment, Planner, Fit]:
    """The figures of a plan without what explains them: what was wished for, the model on its machine, what fits.

    Args:
        m: the model; its header is enough.
        wishes: what is asked for.
        engine: what will serve.
        machine: this machine, see `gguftool.run.deploy.look`.
        refused: why the build at hand does not load the file.
        max_context: plan the largest context that fits.

    Raises:
        UsageError: the wishes make no sense.
    """
    d = deploy(m, wishes, machine, engine.build)
    planner = d.planner(m)
    if max_context:
        d = with_largest_context(d, planner)
    fit = outcome(d, planner)
    # What the llama-server at hand has no way to say: `launch` is stopped by it, too.
    blockers = server_command("", resolved(d, planner, fit.plan), engine.build).blockers
    unfit = [x.text for x in d.unfit if x.misfit.ends]
    stopped = [*refused, *d.problems, *blockers, *unfit]
    if stopped:
        fit = replace(fit, plan=replace(fit.plan, refused=(*stopped, *fit.plan.refused)))
    return d, planner, fit


def _advise(
    m: Model,
    wishes: Wishes,
    engine: Engine,
    refused: list[str],
    max_context: bool,
    measure: bool,
    tell: Callable[[str], None],
) -> tuple[Deployment, Advice, Fit]:
    d, planner, fit = fitted(m, wishes, engine, look(wishes, engine.tool), refused, max_context)
    source = ""
    if measure:
        from gguftool.api.measured import measured_fit

        fit, source = measured_fit(m, d, planner, fit, tell)
    advice = advise(planner, fit, measured=source)
    if fit.fits is False and not fit.plan.refused:
        from gguftool.api.smaller import with_smaller

        advice = with_smaller(m, advice)
    return d, advice, fit
