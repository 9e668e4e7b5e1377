"""One file for all models of a folder: for llama-server's router, for llama-swap, or a script for Ollama."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from gguftool.brief import short_repr
from gguftool.errors import GgufToolError, UsageError
from gguftool.memory.limit import host_start
from gguftool.records import dataclass, replace
from gguftool.run.emit.ollama import modelfile
from gguftool.run.emit.preset import router, section
from gguftool.run.emit.services import swap_entry
from gguftool.run.emit.words import comment, no_secrets, which, yaml
from gguftool.run.launch import LaunchPlan
from gguftool.run.wishes import Wishes
from gguftool.shell import shell


@dataclass(frozen=True, slots=True)
class Serving:
    """One model that is served.

    Attributes:
        name: what it is asked for by.
        plan: how it runs.
        notes: what was chosen for it, and what is worth knowing.
    """

    name: str
    plan: LaunchPlan
    notes: tuple[str, ...] = ()

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that has no entry; ``code`` says why in a word, ``why`` in a sentence."""

    path: str
    code: str
    why: str

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Folder:
    """What is served together.

    Attributes:
        wishes: what was asked for, the same for all.
        models: those that are served.
        left: those that are not.
        at_once: how many are loaded at a time.
        fit: how many of them fit at once, whichever they are; None: it is not known how much memory there is.
    """

    wishes: Wishes
    models: tuple[Serving, ...]
    left: tuple[LeftOut, ...]
    at_once: int = 1
    fit: int | None = None

    __repr__ = short_repr


def unique(names: Iterable[str]) -> Iterator[str]:
    """The names, a number behind those that were there before; Ollama makes no difference of case."""
    seen: set[str] = set()
    for one in names:
        made, no = one, 2
        while made.casefold() in seen:
            made, no = f"{one}-{no}", no + 1
        seen.add(made.casefold())
        yield made


def together(plans: Sequence[LaunchPlan], memory: Sequence[int | None]) -> int | None:
    """How many of some plans fit at once, whichever of them.

    Args:
        plans: each for itself.
        memory: bytes there are of every device, the host last, as the plans have them.

    Returns:
        as many as the largest of them leave room for; None where a size is not known.
    """
    if not plans or any(m is None for m in memory):
        return None
    fit = len(plans)
    for no, there in enumerate(memory):
        host = no == len(memory) - 1
        sizes = sorted((host_start(p.memory) if host else p.memory.devices[no].total for p in plans), reverse=True)
        reserve = plans[0].memory.devices[no].reserve
        left, count = (there or 0) - reserve, 0
        for size in sizes:
            left -= size
            if left < 0:
                break
            count += 1
        fit = min(fit, count)
    return fit


def emit_folder(kind: str, found: Folder, *, force: bool = False) -> tuple[str, Folder]:
    """The file, and what is in it: what it cannot say of a model leaves that out.

    Args:
        kind: one of `FOLDER_KINDS`.
        found: the models.
        force: entries that check go on in spite of what they find.

    Raises:
        UsageError: no such kind, or a secret would stand in it for everybody to read.
    """
    if kind not in _KINDS:
        raise UsageError(f"{kind!r} cannot be emitted for a folder", "one of " + ", ".join(_KINDS))
    no_secrets(found.wishes)
    return _KINDS[kind](found, ("--force",) if force else ())


Part = Callable[[Serving], Sequence[str]]


def _parts(found: Folder, part: Part) -> tuple[list[list[str]], Folder]:
    """The lines of each model; one that cannot be said is left out."""
    made, kept, left = [], [], list(found.left)
    for one in found.models:
        try:
            made.append([*part(one)])
            kept.append(one)
        except GgufToolError as e:
            left.append(LeftOut(one.plan.model, "format", str(e)))
    return made, replace(found, models=tuple(kept), left=tuple(left))


def _preset(found: Folder, force: tuple[str, ...]) -> tuple[str, Folder]:
    made, found = _parts(found, lambda one: section(one.plan, one.name))
    command = shell(router(found.wishes, "--models-max", str(found.at_once)))
    lines = [
        f"{_count(found)} for llama-server's router, started as: {comment(command)}",
        *_memory(found, "--models-max"),
        "The router offers what is in the cache of llama.cpp, too, unplanned: LLAMA_CACHE names another.",
        *(["The options are spelled for " + which(found.models[0].plan) + "."] if found.models else []),
        *_left(found),
    ]
    text = [f"; {line}" for line in lines] + ["version = 1"]
    for one, part in zip(found.models, made, strict=True):
        text += ["", *(f"; {comment(note)}" for note in one.notes), *part]
    return "\n".join(text) + "\n", found


def _swap(found: Folder, force: tuple[str, ...]) -> tuple[str, Folder]:
    made, found = _parts(found, lambda one: swap_entry(one.plan, one.name, force))
    n = len(found.models)
    all_at_once = 1 < n <= min(found.at_once, found.fit or 0)
    lines = [
        f"{_count(found)} for llama-swap; gguftool checks each and then becomes its server.",
        "All of them fit at once: none is unloaded for another." if all_at_once
        else f"One is loaded at a time{_of_more(found)}."
        if found.at_once == 1
        else f"One is loaded at a time: llama-swap keeps one or all of them, and {found.at_once} were asked for.",
        *_left(found),
    ]  # fmt: skip
    text = [f"# {line}" for line in lines]
    text += ["models:"] if n else ["models: {}"]
    for one, part in zip(found.models, made, strict=True):
        text += [*(f"  # {comment(note)}" for note in one.notes), *part]
    if n:
        members = [f"      - {yaml(one.name)}" for one in found.models]
        text += ["groups:", "  models:", f"    swap: {'false' if all_at_once else 'true'}", "    exclusive: true"]
        text += ["    members:", *members]
    return "\n".join(text) + "\n", found


def _ollama(found: Folder, force: tuple[str, ...]) -> tuple[str, Folder]:
    environment: dict[str, None] = {}

    def part(one: Serving) -> list[str]:
        made = modelfile(replace(one.plan, wishes=replace(one.plan.wishes, alias=one.name)))
        environment.update(dict.fromkeys(made.environment))
        end = _end(made.text)
        create = shell(("ollama", "create", made.called, "-f")) + ' "$folder/Modelfile"'
        told = [*one.notes, *(f"lost: {x}" for x in made.lost)]
        return [
            *(f"# {comment(x)}" for x in told),
            *(line.removeprefix("First: ") for line in made.first),
            f"cat > \"$folder/Modelfile\" <<'{end}'",
            made.text.rstrip("\n"),
            end,
            create,
        ]

    made, found = _parts(found, part)
    settings = [*environment, f"OLLAMA_MAX_LOADED_MODELS={found.at_once}"]
    lines = [
        f"{_count(found)} for Ollama: sh this file, beside a server that runs. Nothing checks them on their way.",
        "The server's settings are for all its models: " + shell(("ollama", "serve"), environment=settings),
        *_memory(found, "OLLAMA_MAX_LOADED_MODELS"),
        *_left(found),
    ]
    text = [
        "#!/bin/sh",
        *(f"# {line}" for line in lines),
        "set -e",
        "folder=$(mktemp -d)",
        "trap 'rm -r \"$folder\"' EXIT",
    ]
    for lines in made:
        text += ["", *lines]
    return "\n".join(text) + "\n", found


def _end(text: str) -> str:
    """A word that is no line of a text."""
    word, no = "MODELFILE", 1
    while word in text.splitlines():
        word, no = f"MODELFILE{no}", no + 1
    return word


def _count(found: Folder) -> str:
    n = len(found.models)
    return f"{n} model{'' if n == 1 else 's'}"


def _memory(found: Folder, option: str) -> Iterator[str]:
    """What is loaded at once, and whether there is room."""
    n, fit = found.at_once, found.fit
    if n == 1:
        yield f"Each is planned for all of the machine, and one is loaded at a time ({option}){_of_more(found)}."
    elif fit is None:
        yield f"{n} are loaded at a time ({option}); whether they fit is not known: --ram and --vram name the memory."
    elif fit >= min(n, len(found.models)):
        yield f"Each is planned for a share of the machine, so that any {n} of them fit at once ({option})."
    else:
        yield f"{n} at a time were asked for ({option}); whichever they are, only {fit} of them fit at once."


def _of_more(found: Folder) -> str:
    return f"; any {found.fit} of them would fit at once" if (found.fit or 0) > 1 and len(found.models) > 1 else ""


def _left(found: Folder) -> Iterator[str]:
    if found.left:
        yield f"Left out ({len(found.left)}):"
    for one in found.left:
        yield f"  {comment(one.path)}: {comment(one.why)}"


_KINDS: dict[str, Callable[[Folder, tuple[str, ...]], tuple[str, Folder]]] = {
    "preset": _preset,
    "llama-swap": _swap,
    "ollama": _ollama,
}
FOLDER_KINDS = tuple(_KINDS)
