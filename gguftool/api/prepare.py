"""The whole way from a source to a file that is ready to launch: what ``gguftool prepare`` does."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

from gguftool.api import steps as judge
from gguftool.api.judged import How
from gguftool.api.judged import judge as judge_made
from gguftool.brief import short_repr
from gguftool.build import named as of_folder
from gguftool.build import pipeline
from gguftool.build import prepare as build
from gguftool.build.convert import Drafted
from gguftool.build.convert import Options as ConvertOptions
from gguftool.build.ftypes import target
from gguftool.build.judged import Check
from gguftool.build.pipeline import Done, Event, Step
from gguftool.build.prepare import Progress, Request
from gguftool.build.quantize import Options as QuantizeOptions
from gguftool.edit.deploy import Wanted
from gguftool.edit.publish import Told
from gguftool.errors import UsageError
from gguftool.facts.cachetypes import parse
from gguftool.format.types import FILE_TYPES
from gguftool.hub import is_remote, named, on_this_machine
from gguftool.hub.address import hub_address
from gguftool.hub.stores.ollama import name_of
from gguftool.model import Model
from gguftool.model.called import bare, place_of
from gguftool.model.credits import repository
from gguftool.model.filename import label, unlabelled
from gguftool.records import dataclass, replace
from gguftool.verify.manifest import check_name


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was made.

    Attributes:
        request: what was asked for.
        steps: those that were done, the last of them not ``ok`` when it stopped the rest.
        ok: all of them were done; the output has its name.
    """

    request: Request
    steps: tuple[Done, ...]
    ok: bool

    __repr__ = short_repr


def prepare(
    source: Model | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    quantize: str | None = None,
    ctx: int | None = None,
    cache_type: str | tuple[str, str] | None = None,
    wanted: Wanted | None = None,
    converting: ConvertOptions | None = None,
    quantising: QuantizeOptions | None = None,
    beside: Sequence[str | os.PathLike[str]] = (),
    auto_fix: bool = True,
    fail_on: str = "warning",
    vram: str | Sequence[int] | None = None,
    ram: int | None = None,
    overwrite: bool = False,
    keep: bool = False,
    restart: bool = False,
    yes: bool = False,
    quantized_by: str | None = None,
    repo: str | None = None,
    publish: bool = False,
    progress: Progress = lambda what, done, total: None,
    event: Event | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Prepared:
    """Make a file that is ready to launch: convert, quantise, fix, lint, verify, score a known text, manifest, plan.

    The output gets its name only when all checks are passed. State, logs and what lies in between are in
    ``OUTPUT.prepare``; the same call again goes on where an earlier run was interrupted.

    Args:
        source: a Hugging Face folder, ``hf://owner/repo``, or a GGUF model by path or address, or an open one.
        output: the file to make.
        quantize: for example ``Q4_K_M``; the types stay when None.
        ctx: context to deploy with, in tokens.
        cache_type: KV cache types to deploy with, ``q8_0``, ``q8_0/q4_0`` or the pair.
        wanted: all deploy fields at once; ``ctx`` and ``cache_type`` go before it.
        converting: how to convert.
        quantising: how to quantise.
        beside: files that are to be used with it (a projector, an adapter, a draft model): they must fit.
        auto_fix: apply the safe fixes of lint.
        fail_on: ``error``, ``warning``, ``info``, ``never``: findings that stop it.
        vram: memory of each device, for the plan, in bytes or as on the command line.
        ram: memory of the host, for the plan, in bytes.
        overwrite: replace the output when it exists.
        keep: keep the converted file.
        restart: forget what an earlier run has done.
        yes: go on where a question about the deploy fields would be asked.
        quantized_by: who makes the file, for `general.quantized_by`.
        repo: ``owner/name`` that it will be published as, for `general.repo_url`.
        publish: take the records of gguftool out of the file, and write its line in SHA256SUMS beside it.
        progress: called with (what is going on, done, total).
        event: called with (what is done, ``start``, ``done`` or ``skipped``).
        tell: called with what the user should know.

    Raises:
        UsageError, Refused, ToolFailed, NoRoom: before anything is written, why it cannot be done; or as a step does.
    """
    name = os.fspath(output)
    pair = parse(cache_type) if isinstance(cache_type, str) else cache_type
    fields = wanted or Wanted()
    request = Request(
        source=_source(named(source), event),
        output=name,
        quantize=target(quantize).name if quantize else None,
        wanted=replace(fields, context_length=ctx or fields.context_length, kv_cache_type=pair or fields.kv_cache_type),
        convert=converting or ConvertOptions(),
        quantising=replace(quantising or QuantizeOptions(), overwrite=True),
        overwrite=overwrite,
        keep=keep,
        yes=yes,
        beside=tuple(os.fspath(path) for path in beside),
    )
    check_name(f"{name}.manifest")
    if restart:
        build.forget(request)
    fresh = not os.path.isfile(os.path.join(request.folder, pipeline.STATE))
    if repo is not None and repository(repo) != repo:
        raise UsageError(f"{repo!r} is no repository on the Hub", "OWNER/NAME, for example me/Foo-7B-GGUF")
    told = _told(named(source), request, auto_fix, quantized_by or "", repo or "")
    steps = _steps(request, auto_fix, told, fail_on, vram, ram, progress, publish)
    notes = build.preflight(request, build.is_published(request)) if fresh else ()
    inputs = pipeline.fingerprint(build.inputs(request), progress)
    if not fresh:
        done_before = pipeline.ready(steps, request.folder, inputs)
        published = done_before > [s.name for s in steps].index("publish") or build.is_published(request)
        notes = build.preflight(request, published)
    said = label(name)
    if request.quantize and said in FILE_TYPES.values() and said != request.quantize != "COPY":
        notes = (*notes, f"{name} says {said} by its name, it will hold {request.quantize}")
    for note in notes:
        tell(note)
    done = pipeline.run(steps, request.folder, inputs, event)
    ok = all(d.ok for d in done) and len(done) == len(steps)
    if ok:
        build.tidy(request)
    return Prepared(request, tuple(done), ok)


def _source(source: str, event: Event | None) -> str:
    """A folder or file on this machine; a repository of the Hub is fetched into the cache."""
    if source.startswith("hf://") and not source.endswith(".gguf") and ":" not in source[5:]:
        from gguftool.hub.download import model_folder

        if event is not None:
            event(f"fetching {source} into the Hugging Face cache", "start")
        return model_folder(source)
    return on_this_machine(source) if is_remote(source) else source


def _told(spec: str, request: Request, auto_fix: bool, quantized_by: str, repo: str) -> Told:
    """What is known of the file beside its keys: the source's card and repository, and what was said."""
    if not auto_fix:
        return Told(quantized_by=quantized_by, repo=repo)
    if request.converts:
        card = of_folder.card(request.source)
        found = of_folder.called(request.source, card, request.output, request.convert.name)
        known = of_folder.told(request.source, found, card, 0)
    else:
        source, name = _named_in_store(spec, request.source)
        known = Told(source=repository(source), name=name)
    return replace(known, quantized_by=quantized_by, repo=repo)


def _named_in_store(spec: str, path: str) -> tuple[str, str]:
    """The repository of a file, and what it is called where it has none; "" for what is not known."""
    if spec.startswith("hf://"):
        return hub_address(spec).repo, ""
    if called := name_of(path):
        base, _, tag = called.partition(":")
        if base.startswith(("hf.co/", "huggingface.co/")):
            return base.partition("/")[2], ""
        return "", unlabelled(f"{base.rpartition('/')[2]}-{tag}" if tag not in ("", "latest") else base)
    place = place_of(path)
    if place is None:
        return "", ""
    return (place.repo, "") if place.hub else ("", bare(place.name))


def _steps(
    request: Request,
    auto_fix: bool,
    told: Told,
    fail_on: str,
    vram: str | Sequence[int] | None,
    ram: int | None,
    progress: Progress,
    publish: bool,
) -> list[Step]:
    against = request.source if request.converts else None
    fixes = judge.filled(told, judge.safe_fixes(request.wanted, against) if auto_fix else judge.nothing, own=publish)
    return [
        *(
            [build.convert_step(request, progress, _judging(request, progress, repair=auto_fix))]
            if request.converts
            else []
        ),
        build.quantize_step(request, progress),
        build.fix_step(
            request,
            fixes,
            {
                "auto": auto_fix,
                "told": [told.source, told.quantized_by, told.repo],
                **({"publish": True} if publish else {}),
            },
        ),
        judge.lint_step(request, against, fail_on),
        judge.verify_step(request),
        judge.known_step(request),
        build.publish_step(request),
        judge.manifest_step(request, progress, publish=publish),
        judge.plan_step(request, vram, ram),
    ]


def _judging(request: Request, progress: Progress, *, repair: bool) -> build.Judged:
    """Judges the file in between; load, lint and the known text are steps of their own, for what comes of it."""

    def look(drafted: Drafted) -> Sequence[Check]:
        total, seen, lock = sum(os.path.getsize(draft) for draft, _ in drafted.files), [0], threading.Lock()

        def read(n: int) -> None:
            with lock:
                seen[0] += n
                progress("looking at what came out", seen[0], total)

        how = How(
            only=("counts", "template", "tokenizer", "data"),
            repair=repair,
            again=lambda *words: f"say the same command with {' '.join(words)}",
            progress=read,
        )
        return judge_made(drafted, request.convert, how).checks

    return look
