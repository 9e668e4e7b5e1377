"""The steps of prepare that judge the file: lint, verify, known text, manifest, plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from gguftool.build.pipeline import Outcome, Step
from gguftool.facts import llama_cpp
from gguftool.quantity import human
from gguftool.records import replace
from gguftool.shell import shell

if TYPE_CHECKING:
    from gguftool.build.prepare import Operations, Progress, Request
    from gguftool.edit.deploy import Wanted
    from gguftool.edit.ops import Operation
    from gguftool.edit.publish import Told
    from gguftool.lint.rule import Context
    from gguftool.model import Model

Before = Mapping[str, Mapping[str, object]]


def nothing(model: Model) -> Sequence[Operation]:
    """No operations."""
    return ()


def context(wanted: Wanted, against: str | None) -> Context:
    """What lint judges for: the deployment asked for, and the folder the model came from."""
    from gguftool.facts.cachetypes import parse
    from gguftool.lint.against import read_folder
    from gguftool.lint.rule import Context, Wish

    pair = parse("/".join(wanted.kv_cache_type)) if wanted.kv_cache_type else None
    folder = read_folder(against) if against else None
    return Context(wish=Wish(wanted.context_length, pair), against=folder)


def answered(wanted: Wanted) -> tuple[str, ...]:
    """Rules about differences from the source that the user asked for."""
    asked = {
        "source-context-length": (wanted.context_length,),
        "source-rope-base": (wanted.rope_freq_base,),
        "source-rope-scaling": (wanted.rope_scaling, wanted.rope_freq_scale, wanted.rope_scale_factor),
    }
    return tuple(name for name, values in asked.items() if any(value is not None for value in values))


def safe_fixes(wanted: Wanted, against: str | None) -> Operations:
    """All safe fixes of lint, for the deployment asked for, and what the converter should have written."""

    def operations(model: Model) -> Sequence[Operation]:
        from gguftool.api.judged import put_back
        from gguftool.lint.fixes import collect

        told = context(wanted, against)
        first = collect(model, told, ignore=answered(wanted)).operations
        more = put_back(model, told.against, first) if told.against is not None else []
        return [*first, *more]

    return operations


def filled(told: Told, fixes: Operations, *, own: bool = False) -> Operations:
    """What ``fixes`` says, and what a published file should have and not have (`gguftool.edit.publish`).

    ``own``: the records of gguftool go, too.
    """

    def operations(model: Model) -> Sequence[Operation]:
        from gguftool.edit.publish import clean, fill

        first = list(fixes(model))
        return [*first, *(op for op in (*fill(model, told), *clean(model, own=own)) if op not in first)]

    return operations


def lint_step(request: Request, against: str | None, fail_on: str) -> Step:
    """Lint the draft; findings at ``fail_on`` and above stop the pipeline."""

    def act(log: str, before: Before) -> Outcome:
        from gguftool.build.prepare import projector
        from gguftool.lint.rule import Severity
        from gguftool.lint.run import lint
        from gguftool.model import open_model
        from gguftool.run.target import at_hand

        with ExitStack() as stack:
            eyes = projector(before)
            paths = (*([eyes] if eyes else []), *request.beside)
            sides = tuple(stack.enter_context(open_model(path, strict=False)) for path in paths)
            model = stack.enter_context(open_model(request.draft, strict=False))
            told = replace(context(request.wanted, against), beside=sides, build=at_hand())
            found = lint(model, told, ignore=answered(request.wanted))
        counts = {str(s): found.count(s) for s in Severity}
        rows = [{"rule": f.rule, "severity": str(f.severity), "message": f.message} for f in found.findings]
        verdict = str(found.load.verdict) if found.load is not None else None
        said = ", ".join(f"{n} {word}{'s' if n > 1 and word != 'info' else ''}" for word, n in counts.items() if n)
        summary = (said or "clean") + (f"; {llama_cpp(told.build)}: {verdict}" if verdict else "")
        ok = verdict not in ("refused", "aborts") and (fail_on == "never" or not found.at_least(Severity(fail_on)))
        lines = tuple(f"{f.severity}: {f.rule}: {f.message}" for f in found.findings)
        # What a rule that failed itself would have said is not known.
        failed = [f"{s.rule}: {s.why}" for s in found.failed]
        summary += f"; {len(failed)} rule{'s' if failed[1:] else ''} failed: a bug in gguftool" if failed else ""
        data = {"counts": counts, "findings": rows, "load": verdict, "failed_rules": failed}
        return Outcome(summary, (request.draft,), data, (*lines, *failed), ok and not failed)

    return Step("lint", {"fail_on": fail_on, "beside": list(request.beside)}, act)


def verify_step(request: Request) -> Step:
    """The quick checks of verify, and the tensor data."""

    def act(log: str, before: Before) -> Outcome:
        import os

        from gguftool.build.judged import data
        from gguftool.build.prepare import projector

        eyes = projector(before)
        faults = [f for path in (request.draft, *([eyes] if eyes else [])) for f in data(path).faults]
        rows = [{"kind": f.kind, "message": f.message, "where": f.where} for f in faults]
        size = os.path.getsize(request.draft)
        summary = f"{len(faults)} faults: {faults[0].message}" if faults else f"whole and sound, {size:,} bytes"
        lines = tuple(f"{f.where}: {f.kind}: {f.message}" for f in faults)
        return Outcome(summary, (request.draft,), {"faults": rows, "size": size}, lines, not faults)

    return Step("verify", {}, act)


def known_step(request: Request) -> Step:
    """Whether the draft knows what every language model knows; where that cannot be told, it says so and goes on."""

    def act(log: str, before: Before) -> Outcome:
        from gguftool.api.known import known_text
        from gguftool.run.known import BROKEN, KNOWS

        found = known_text(request.draft)
        said = found.summary if found.verdict == KNOWS else found.why
        word = {KNOWS: "it knows what it must", BROKEN: "broken"}.get(found.verdict, "not judged")
        data = {"verdict": found.verdict, "why": found.why, "text_logprob": found.text_logprob, "tokens": found.tokens}
        return Outcome(f"{word}: {said}", (request.draft,), data, ok=found.verdict != BROKEN)

    return Step("known", {}, act)


def manifest_step(request: Request, told: Progress, *, publish: bool = False) -> Step:
    """Hash the file and write its manifest beside it; ``publish``: its line in SHA256SUMS, too."""

    def act(log: str, before: Before) -> Outcome:
        from gguftool.api.publishing import objections, record

        made = before.get("publish", {}).get("projector")
        paths = [request.output, *([made] if isinstance(made, str) else [])]
        done = record(paths, request.output + ".manifest", told, sums=publish)
        said = [line for path in paths for line in objections(path)] if publish else []
        data = {"path": done.manifest, "sha256": done.sha256, "sums": done.sums, "scanners": said}
        beside = f", {done.sums}" if done.sums else ""
        return Outcome(f"{done.manifest}{beside}, sha256 {done.sha256}", (*paths, done.manifest), data, tuple(said))

    return Step("manifest", {"publish": True} if publish else {}, act)


def plan_step(request: Request, vram: str | Sequence[int] | None, ram: int | None) -> Step:
    """Plan memory for the deployment asked for, and say how to launch it."""

    def act(log: str, before: Before) -> Outcome:
        from gguftool.api.plan import plan

        w = request.wanted
        asked: dict[str, Any] = {"ctx": w.context_length, "cache_type": w.kv_cache_type, "vram": vram, "ram": ram}
        found = plan(request.output, **{name: value for name, value in asked.items() if value})
        memory = found.memory
        context = memory.cache.context.requested
        fits = {True: "fits", False: "does not fit", None: "memory unknown"}[found.fits]
        summary = (
            f"{context:,} tokens: weights {human(memory.weights)}, KV cache {human(memory.kv)}, "
            f"in all {human(memory.total)}; {fits}"
        )
        data = {
            "context": context,
            "kv_bytes": memory.kv,
            "total_bytes": memory.total,
            "fits": found.fits,
            "refused": list(found.refused),
            "command": list(found.command) if not found.not_ready else [],
            "not_ready": [*found.not_ready, *filter(None, [found.not_loaded])],
        }
        lines = (shell(found.command), *found.refused)
        return Outcome(summary, (request.output,), data, lines, not found.refused)

    return Step("plan", {"vram": vram if vram is None or isinstance(vram, str) else list(vram), "ram": ram}, act)
