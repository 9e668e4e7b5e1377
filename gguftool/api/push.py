"""Look at models as a publisher must before an upload: what ``gguftool push-check`` does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from gguftool.api.card import plan_card
from gguftool.api.sums import plan_sums, sums_of
from gguftool.brief import short_repr
from gguftool.errors import MissingFile, UsageError
from gguftool.hub import is_remote, named, on_this_machine
from gguftool.lint.check import FileCheck, check
from gguftool.lint.publishing import Publishing
from gguftool.lint.rule import Context
from gguftool.model import Model, open_model
from gguftool.model.card import card_of
from gguftool.model.credits import credits_of, repository
from gguftool.model.folder import firsts, what_is_in
from gguftool.model.headers import ROOM, Headers
from gguftool.model.role import ROLES, role, sidecar_by_name
from gguftool.records import dataclass, replace
from gguftool.run.cardlines import judged
from gguftool.run.lying import projectors
from gguftool.verify.hashes import FileHashes, hash_files

DEEPEST = 3
"""Folders below the one that is published which are looked into."""
RECORDS = ("kv-cache-type-missing", "rope-freq-scale-missing")
"""Rules about records for the deployment of one's own (docs/deploy.md): what is published need not have them."""
Tell = Callable[[str, int, int], None]
"""(what is going on, done, total)."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """What was looked at.

    Attributes:
        checks: of each model what lint says, the rules of publishing among them.
        folders: what each of them is published with.
        written: files that were written.
        notes: what is worth knowing about them.
    """

    checks: tuple[FileCheck, ...]
    folders: tuple[Publishing, ...]
    written: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class _Asked:
    """One folder, and the models in it that were named (first files)."""

    folder: str
    wanted: tuple[str, ...]
    repo: str


def push_check(
    models: Model | str | os.PathLike[str] | Sequence[Model | str | os.PathLike[str]],
    *,
    repo: str | None = None,
    hashes: bool = True,
    write: bool = False,
    overwrite: bool = False,
    context: Context | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    load: bool = True,
    tell: Tell = lambda what, done, total: None,
) -> Pushed:
    """Look at models, and at the folder each lies in as the repository that it becomes.

    Args:
        models: files, or folders with all models below them.
        repo: ``owner/name`` they will be published as; taken from `general.repo_url` when None.
        hashes: hash the files, for the list and the card.
        write: write card and list, or what is missing in them.
        overwrite: also over what is there and differs.
        context: what else rules may look at.
        select: rules and families to run; all when empty.
        ignore: those to leave out.
        load: predict what llama.cpp does with them.
        tell: told how far the hashing is.

    Raises:
        MissingFile: there is no such file, or no model in a folder.
        UsageError: an address, a bad repository, an unknown rule.
        Refused: card or list may not be written over.
    """
    specs = [models] if isinstance(models, (Model, str, os.PathLike)) else list(models)
    if repo is not None and repository(repo) != repo:
        raise UsageError(f"{repo!r} is no repository on the Hub", "OWNER/NAME, for example me/Foo-7B-GGUF")
    asked = list(_folders([named(x) for x in specs], repo or ""))
    known = Headers(room=ROOM)
    found = [_read(one, known) for one in asked]
    if hashes and not write:
        found = [_hashed(p, one, tell, known) for p, one in zip(found, asked, strict=True)]
    written: list[str] = []
    notes: list[str] = []
    if write:
        for i, one in enumerate(asked):
            # Card and list are about all that is in the folder, whichever of it was named.
            whole = replace(one, wanted=tuple(os.path.join(one.folder, name) for name in found[i].models))
            p = _hashed(_read(whole, known), whole, tell, known)
            card, said = plan_card(p, whole.wanted, overwrite=overwrite, wrong=_wrong(p, known) if overwrite else ())
            for file in (plan_sums(p, overwrite=overwrite), card):
                if file is not None:
                    file.write()
                    written.append(file.path)
            notes += said
            found[i] = replace(_read(one, known), hashes=p.hashes)
    checks: list[FileCheck] = []
    for one, p in zip(asked, found, strict=True):
        ctx = replace(context or Context(), publishing=p)
        left_out = [*ignore, *(name for name in RECORDS if name not in select)]
        checks += check(one.wanted, _opener(known), ctx, select=select, ignore=left_out, load=load, beside=_beside)
    return Pushed(tuple(checks), tuple(found), tuple(written), tuple(notes))


def _wrong(p: Publishing, known: Headers) -> set[str]:
    """Metadata of the card that the rules hold to be wrong."""
    found = check([p.lead], _opener(known), Context(publishing=p), select=["publish"], load=False)
    return {str(f.data["front"]) for one in found for f in one.findings if "front" in f.data}


def _opener(known: Headers) -> Callable[[str], Model]:
    return lambda path: open_model(path, strict=False, known=known)


def _beside(model: Model) -> Sequence[str]:
    """Projectors that lie with a model are meant for it."""
    return list(projectors(model)) if ROLES[role(model)].runs else ()


def _folders(specs: Sequence[str], repo: str) -> Iterator[_Asked]:
    """The folders to look at, each once, with what was named in it."""
    wanted: dict[str, list[str]] = {}
    for spec in specs:
        if is_remote(spec):
            spec = on_this_machine(spec)
        if os.path.isdir(spec):
            found = firsts(os.path.join(spec, name) for name in sorted(_files(spec)) if _is_model(name))
            if not found:
                raise MissingFile(f"{spec}: no .gguf file in this folder", what_is_in(spec))
            wanted.setdefault(os.path.normpath(spec), []).extend(found)
            continue
        if not os.path.lexists(spec):
            raise MissingFile(f"{spec}: no such file or folder")
        wanted.setdefault(os.path.dirname(spec), []).append(spec)
    for folder, paths in wanted.items():
        yield _Asked(folder, tuple(dict.fromkeys(firsts(paths))), repo)


def _is_model(name: str) -> bool:
    return name.lower().endswith(".gguf")


def _files(folder: str) -> dict[str, int]:
    """Files of a folder and those below it, by their names there, with their bytes; what is hidden left out."""
    out: dict[str, int] = {}
    top = folder or "."
    for place, folders, names in os.walk(top):
        inside = os.path.relpath(place, top)
        depth = 0 if inside == "." else inside.count(os.sep) + 1
        folders[:] = sorted(f for f in folders if not f.startswith(".")) if depth < DEEPEST else []
        for name in names:
            if name.startswith("."):
                continue
            try:
                size = os.stat(os.path.join(place, name)).st_size
            except OSError:
                continue
            out[name if inside == "." else f"{inside.replace(os.sep, '/')}/{name}"] = size
    return out


def _read(asked: _Asked, known: Headers) -> Publishing:
    """The folder as the rules see it, without hashes."""
    sizes = _files(asked.folder)
    lead, own = _lead(asked.wanted, known)
    models = firsts(name for name in sorted(sizes) if _is_model(name))
    card = card_of(asked.folder)
    sums, fault = sums_of(asked.folder)
    repo = asked.repo or own
    names = [name for name in sizes if _is_model(name)]
    commands = judged(card.body, repo, names) if card is not None else ()
    return Publishing(asked.folder, lead, sizes, tuple(models), repo, card, sums, fault, commands=commands)


def _lead(wanted: Sequence[str], known: Headers) -> tuple[str, str]:
    """The model that speaks for the folder (the first that can be read, no projector), and the repository it names."""
    for path in sorted(wanted, key=lambda p: bool(sidecar_by_name(p))):
        try:
            with open_model(path, strict=False, known=known) as m:
                if m.header.complete:
                    return path, credits_of(m).repository
        except Exception:
            continue  # what is wrong with it lint tells
    return wanted[0], ""


def _hashed(p: Publishing, asked: _Asked, tell: Tell, known: Headers) -> Publishing:
    """The same with the hashes of the models that were named; one that cannot be read is left out, lint says why."""
    paths: dict[str, None] = {}
    for first in asked.wanted:
        try:
            with open_model(first, strict=False, known=known) as m:
                paths.update(dict.fromkeys(m.paths))
        except Exception:
            continue  # what is wrong with it lint tells
    names = {path: os.path.relpath(path, p.folder or ".").replace(os.sep, "/") for path in paths}
    total, done = sum(p.sizes.get(name, 0) for name in names.values()), 0

    def tick(n: int) -> None:
        nonlocal done
        done += n
        tell("hashing", done, total)

    found = hash_files(list(names), progress=tick, known=known)
    return replace(p, hashes={names[h.path]: h.file for h in found if isinstance(h, FileHashes)})
