"""What stands in the way of a launch besides the plan itself: integrity, and the rules for this deployment."""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.brief import short_repr
from gguftool.facts import llama_cpp
from gguftool.lint.rule import Context, Finding, Severity, Wish
from gguftool.lint.run import lint
from gguftool.model import Model
from gguftool.model.headers import headers_beside
from gguftool.records import dataclass, replace
from gguftool.run.beside import named
from gguftool.run.options.table import by_field
from gguftool.run.wishes import Obstacle, Wishes
from gguftool.shell import gguftool, path_word
from gguftool.verify.modelcheck import check, check_here
from gguftool.verify.result import Verification

ANSWERED_BY_POOLING = ("pooling-type-missing",)
"""Rules about what the file does not say, and the command line does."""
ANSWERED_BY_THE_PLAN = ("context-length-too-small",)
"""The plan holds the context against the file's, and knows what raises it: YaRN on the command line."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """What `verify` and `lint` say of a launch.

    Attributes:
        obstacles: what stands in its way.
        notes: what is worth knowing.
    """

    obstacles: tuple[Obstacle, ...]
    notes: tuple[str, ...]

    __repr__ = short_repr


def preflight(
    model: str, opened: Model, wishes: Wishes, known: Sequence[Obstacle] = (), build: int | None = None
) -> Preflight:
    """Faults that `verify` sees at once and findings of `lint` for the wanted context and cache types.

    Errors and warnings that change the run stand in its way; the others are counted in a note.

    Args:
        model: path of the model.
        opened: the same, open.
        wishes: what is asked for.
        known: what the plan found; a file beside the model that it refuses is not looked at again.
        build: number of the build that will serve; None: the newest that is known speaks for it.
    """
    told = [o.message for o in known if o.where == "pair" and o.severity == "error"]
    sides = [(by_field()[field].ours, path) for field, path in named(wishes)]
    files = [f"{option} {path}" for option, path in sides]
    whole = [
        replace(fault, message=f"{name}: {fault.message}")
        for name, (_, path) in zip(files, sides, strict=True)
        if not any(message.startswith(f"{name}:") for message in told)
        for fault in _faults(path, check(path, known=headers_beside(opened.kept)))
    ]
    stops, notes = _lint(model, opened, wishes, build)
    own = _faults(model, check_here(opened, model))
    return Preflight((*own, *whole, *stops), tuple(notes))


def _faults(model: str, found: Verification) -> list[Obstacle]:
    faults = [f for report in found.files for f in report.faults] + list(found.set.faults if found.set else ())
    return [Obstacle("verify", f.message, f.hint or gguftool("verify", path_word(model))) for f in faults]


def _stops(f: Finding) -> bool:
    """Whether a finding stands in the way of a launch."""
    return f.changes_run and f.severity is not Severity.INFO


def _lint(model: str, opened: Model, wishes: Wishes, build: int | None) -> tuple[list[Obstacle], list[str]]:
    shared = wishes.kv_unified or wishes.parallel is None
    per_slot = None if not wishes.ctx else wishes.ctx if shared else -(-wishes.ctx // (wishes.parallel or 1))
    wish = Wish(context_length=per_slot, cache_type=wishes.cache_type)
    pooled = ANSWERED_BY_POOLING if wishes.pooling or wishes.rerank else ()
    report = lint(
        opened, Context(wish=wish, build=build), ignore=(*ANSWERED_BY_THE_PLAN, *pooled), names=False, fixes=_stops
    )  # fmt: skip
    found = [f for f in report.findings if f.severity is not Severity.INFO]
    out = []
    for f in found:
        if _stops(f):
            words = ("fix", "--auto", path_word(model)) if f.fix and f.fix.safe else ("rules", f.rule)
            if build is not None and f.family == "load":
                words = ("compat", path_word(model))
            remedy = gguftool(*words)
            out.append(Obstacle("lint", f"{f.rule}: {f.message}", remedy, str(f.severity)))
    if report.load is not None and report.load.ends and not out:
        said = f"{llama_cpp(build)} would not load it: {'; '.join(report.load.messages[:2])}"
        out.append(Obstacle("lint", said, gguftool("lint", path_word(model))))
    idle = sorted({f.rule for f in found if not f.changes_run})
    bugs = [f"lint: {bug}" for bug in report.bugs]
    told = f"lint finds what changes nothing in this run, {', '.join(idle)}: {gguftool('lint', path_word(model))}"
    return out, [*([told] if idle else []), *bugs]
