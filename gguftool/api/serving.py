"""A folder of models as one configuration: each that loads, planned for this machine, with what belongs to it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from gguftool.api.launch import plan_launch
from gguftool.brief import short_repr
from gguftool.errors import GgufToolError, UsageError
from gguftool.files.patterns import Patterns
from gguftool.fleet.find import models
from gguftool.hub import is_remote
from gguftool.model import Model, open_model
from gguftool.model.folder import firsts
from gguftool.model.role import ROLES, role, what_it_is
from gguftool.predict import predict
from gguftool.predict.pairs import misfits
from gguftool.quantity import human
from gguftool.records import dataclass, field, replace
from gguftool.run.beside import ROLES as BESIDE
from gguftool.run.deploy import Found, look
from gguftool.run.emit.folder import Folder, LeftOut, Serving, together, unique
from gguftool.run.emit.words import title
from gguftool.run.engine import Engine, choose
from gguftool.run.launch import LaunchPlan
from gguftool.run.options.asked import wishes as asked_for
from gguftool.run.options.table import by_field
from gguftool.run.target import older
from gguftool.run.wishes import Wishes

OF_ONE = (*BESIDE, "alias", "against")
"""Fields of `Wishes` that are about one model and make no sense for several."""
_BEST = ("BF16", "F16", "F32", "Q8_0")
"""Types of projectors, the best first, where several fit."""


@dataclass(slots=True)
class _Lying:
    """What lies in the folders, by what it is."""

    models: list[str] = field(default_factory=list)
    sides: dict[str, list[str]] = field(default_factory=lambda: {"mmproj": [], "draft": []})
    left: list[LeftOut] = field(default_factory=list)
    seen: dict[tuple[tuple[int, int], ...], str] = field(default_factory=dict)

    __repr__ = short_repr


def serve_folder(
    paths: Sequence[str | os.PathLike[str]],
    wishes: Wishes | None = None,
    *,
    engine: Engine | None = None,
    at_once: int = 1,
    force: bool = False,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    **asked: Any,
) -> Folder:
    """Plan every model of some folders.

    A model is left out when llama.cpp is predicted not to load it, or when `launch` would refuse it. A projector or a
    head that drafts is taken along where it lies in the folder of the model and its content fits it.

    Args:
        paths: files and folders, with their subfolders.
        wishes: what is asked for, the same for all; or by keyword.
        engine: what will serve; None: the best at hand.
        at_once: models that are loaded at a time: each is planned for that share of the machine.
        force: take what `launch` would only take with ``force``, as far as it loads.
        include: patterns of the files of folders that are looked at (`gguftool.files.patterns`); ``*.gguf`` when empty.
        exclude: patterns of files and folders that are left out.
        asked: fields of `Wishes`.

    Raises:
        UsageError: an address, or a wish that is about one model.
        MissingFile: a path that does not exist.
    """
    said = asked_for(asked, wishes)
    for one in OF_ONE:
        if getattr(said, one) != by_field()[one].default:
            raise UsageError(f"{by_field()[one].ours} is about one model, and this is about all of a folder")
    if far := next((os.fspath(p) for p in paths if is_remote(p)), None):
        raise UsageError(f"{far}: is not on this machine", "name folders of this machine")
    engine = engine or choose(said, printed=True)
    found = look(said, engine.tool)
    if said.ram is None and found.host is not None:
        # What does not fit is made to fit, also where there is the host alone: nobody looks at each of them.
        said = replace(said, ram="auto")
    lying = _sorted([os.fspath(p) for p in paths], Patterns(tuple(include), tuple(exclude)))
    shared = _share(said, found, at_once)
    if shared != said:
        found = look(shared, engine.tool)
    entries = [_planned(path, shared, engine, found, lying, force) for path in lying.models]
    left = [*lying.left, *(e for e in entries if isinstance(e, LeftOut))]
    served = [e for e in entries if not isinstance(e, LeftOut)]
    names = unique(one.name for one in served)
    made = tuple(replace(one, name=called) for one, called in zip(served, names, strict=True))
    fit = together([one.plan for one in made], _memory(made, at_once)) if made else None
    return Folder(said, made, tuple(sorted(left, key=lambda x: x.path)), at_once, fit)


def _memory(made: Sequence[Serving], at_once: int) -> list[int | None]:
    """What there is of each device, out of the share that each plan had."""
    devices = made[0].plan.memory.devices
    return [None if d.memory is None else (d.memory - d.reserve) * at_once + d.reserve for d in devices]


def _share(said: Wishes, found: Found, at_once: int) -> Wishes:
    """The wishes for one of several that are loaded at once; what is to stay free stays free once."""
    if at_once == 1:
        return said

    def share(size: int) -> int:
        return max(0, size - said.reserve) // at_once + said.reserve

    vram, backend = said.vram, said.backend
    if isinstance(vram, tuple):
        vram = tuple(map(share, vram))
    elif found.devices:
        vram = tuple(share(d.free) for d in found.devices)
        backend = backend or found.devices[0].kind
    ram = said.ram
    if isinstance(ram, int):
        ram = share(ram)
    elif found.host is not None:
        ram = share(found.host.free)
    return replace(said, vram=vram, backend=backend, ram=ram)


def _sorted(paths: Sequence[str], patterns: Patterns) -> _Lying:
    """What each file is."""
    out = _Lying()
    for group in models(paths, patterns):
        if group.error is not None:
            out.left += [LeftOut(path, group.error.code, str(group.error)) for path in group.paths]
            continue
        for path in firsts(group.paths):
            _note(out, path)
    return out


def _note(out: _Lying, path: str) -> None:
    try:
        with open_model(path, strict=False) as m:
            files = [part.name for part in m.parts]
            first = out.seen.setdefault(_inodes(files), path)
            if first != path:
                # Another shard of a set is no model of its own; another name of a file would be served twice.
                if os.path.realpath(files[0]) == os.path.realpath(path):
                    out.left.append(LeftOut(path, "same", f"is the same file as {first}"))
                return
            own = role(m)
            if ROLES[own].runs:
                out.models.append(path)
            elif own in out.sides:
                out.sides[own].append(path)
            else:
                out.left.append(LeftOut(path, "role", f"is {what_it_is(m)}"))
    except GgufToolError as e:
        out.left.append(LeftOut(path, e.code, str(e).removeprefix(f"{path}: ")))


def _inodes(files: Sequence[str]) -> tuple[tuple[int, int], ...]:
    found = (os.stat(path) for path in files)
    return tuple(sorted((s.st_dev, s.st_ino) for s in found))


def _planned(path: str, said: Wishes, engine: Engine, found: Found, lying: _Lying, force: bool) -> Serving | LeftOut:
    try:
        with open_model(path, strict=False) as m:
            own = m.get("general.name")
            called = title(path, own if isinstance(own, str) else "")
            load = predict(m, older(engine.build))
            if load.ends:
                return LeftOut(path, "load", f"llama.cpp does not load it: {load.reason}")
            wishes, notes = _beside(m, said, lying)
            plan, more = _fitting(m, said, wishes, engine, found)
            notes += more
    except GgufToolError as e:
        return LeftOut(path, e.code, str(e).removeprefix(f"{path}: "))
    if plan.obstacles and not force:
        first, *rest = plan.obstacles
        count = f" (and {len(rest)} more)" if rest else ""
        return LeftOut(path, first.where, f"{first.message}{count}")
    return Serving(called, plan, (*notes, f"takes {human(plan.memory.total)}"))


def _fitting(m: Model, said: Wishes, wishes: Wishes, engine: Engine, found: Found) -> tuple[LaunchPlan, list[str]]:
    """The plan with what lies beside it; without it where that is what stands in the way."""
    plan = plan_launch(m, wishes, engine=engine, found=found)
    if not plan.obstacles or wishes == said:
        return plan, []
    alone = plan_launch(m, said, engine=engine, found=found)
    if len(alone.obstacles) >= len(plan.obstacles):
        return plan, []
    new = next(o for o in plan.obstacles if o not in alone.obstacles)
    return alone, [f"without what lies beside it: {new.message}"]


def _beside(m: Model, said: Wishes, lying: _Lying) -> tuple[Wishes, list[str]]:
    """The wishes with the projector and the draft that go with a model."""
    notes: list[str] = []
    if fitting := _fit(m, lying.sides["mmproj"], "mmproj"):
        said = replace(said, mmproj=fitting[0])
        notes.append(_taken("--mmproj", fitting))
    if fitting := _fit(m, lying.sides["draft"], "draft"):
        said = replace(said, draft=fitting[0])
        notes.append(_taken("--model-draft", fitting))
    return said, notes


def _taken(option: str, fitting: Sequence[str]) -> str:
    first, *others = (os.path.basename(path) for path in fitting[:4])
    return f"{option} {first} fits it" + (f"; so does {', '.join(others)}" if others else "")


def _fit(m: Model, sides: Sequence[str], kind: str) -> list[str]:
    """Files of the folder of a model that go with it without a doubt, the best first."""
    folder = os.path.dirname(os.path.abspath(m.name))
    fitting = []
    for path in sides:
        if os.path.dirname(os.path.abspath(path)) != folder:
            continue
        try:
            with open_model(path, strict=False) as side:
                if not misfits(m, side, kind):
                    fitting.append((_rank(side), path))
        except GgufToolError:
            continue
    return [path for _, path in sorted(fitting)]


def _rank(side: Model) -> tuple[int, str]:
    kinds = [t.type_name for t in side.tensors.values()]
    most = max(set(kinds), key=kinds.count, default="")
    return (_BEST.index(most) if most in _BEST else len(_BEST), side.name)
