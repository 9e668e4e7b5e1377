"""What stands in the way of a launch besides the plan itself: integrity, and the rules for this deployment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gguftool.lint.rule import Context, Severity, Wish
from gguftool.lint.run import lint
from gguftool.model import Model
from gguftool.run.beside import named
from gguftool.run.options.table import by_field
from gguftool.run.wishes import Obstacle, Wishes
from gguftool.shell import gguftool, path_word
from gguftool.verify.modelcheck import check

ANSWERED_BY_CACHE_TYPE = ("kv-cache-type-missing", "kv-cache-type-differs")
"""Rules about the file's record, which does not matter when the command line says the type."""
ANSWERED_BY_POOLING = ("pooling-type-missing",)
"""Rules about what the file does not say, and the command line does."""
ANSWERED_BY_THE_PLAN = ("context-length-too-small",)
"""The plan holds the context against the file's, and knows what raises it: YaRN on the command line."""


def obstacles(model: str, opened: Model, wishes: Wishes, known: Sequence[Obstacle] = ()) -> list[Obstacle]:
    """Faults that `verify` sees at once and findings of `lint` for the wanted context and cache types.

    Args:
        model: path of the model.
        opened: the same, open.
        wishes: what is asked for.
        known: what the plan found; a file beside the model that it refuses is not looked at again.
    """
    told = [o.message for o in known if o.where == "pair" and o.severity == "error"]
    sides = [(by_field()[field].ours, path) for field, path in named(wishes)]
    files = [f"{option} {path}" for option, path in sides]
    whole = [
        replace(fault, message=f"{name}: {fault.message}")
        for name, (_, path) in zip(files, sides, strict=True)
        if not any(message.startswith(f"{name}:") for message in told)
        for fault in _verify(path)
    ]
    return [*_verify(model), *whole, *_lint(model, opened, wishes)]


def _verify(model: str) -> list[Obstacle]:
    found = check(model)
    faults = [f for report in found.files for f in report.faults] + list(found.set.faults if found.set else ())
    return [Obstacle("verify", f.message, f.hint or gguftool("verify", path_word(model))) for f in faults]


def _lint(model: str, opened: Model, wishes: Wishes) -> list[Obstacle]:
    shared = wishes.kv_unified or wishes.parallel is None
    per_slot = None if not wishes.ctx else wishes.ctx if shared else -(-wishes.ctx // (wishes.parallel or 1))
    wish = Wish(context_length=per_slot, cache_type=wishes.cache_type)
    pooled = ANSWERED_BY_POOLING if wishes.pooling or wishes.rerank else ()
    ignore = (*ANSWERED_BY_THE_PLAN, *(ANSWERED_BY_CACHE_TYPE if wishes.cache_type else ()), *pooled)
    report = lint(opened, Context(wish=wish), ignore=ignore)
    out = []
    for f in report.findings:
        if f.severity is not Severity.INFO:
            words = ("fix", "--auto", path_word(model)) if f.fix and f.fix.safe else ("rules", f.rule)
            remedy = gguftool(*words)
            out.append(Obstacle("lint", f"{f.rule}: {f.message}", remedy, str(f.severity)))
    if report.load is not None and str(report.load.verdict) in ("refused", "aborts") and not out:
        said = "; ".join(str(m) for m in report.load.messages[:2])
        out.append(Obstacle("lint", f"llama.cpp would not load it: {said}", gguftool("lint", path_word(model))))
    return out
