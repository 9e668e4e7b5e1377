"""All that is known of a model, a pair, a repository or a fleet in one record: what ``gguftool report`` shows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from gguftool.api.compat import Compatibility, compat
from gguftool.api.glance import Glance, glance
from gguftool.api.plan import Planned, plan
from gguftool.api.reported.keys import KeyRow, key_rows
from gguftool.api.reported.layered import LayerRow, layer_rows
from gguftool.api.reported.mixed import Mixture, mixture
from gguftool.api.reported.past import Edit, edits
from gguftool.api.reported.previews import Templates, previews
from gguftool.api.reported.tokens import Tokens, tokens
from gguftool.api.reported.values import Values, all_values
from gguftool.api.reported.weights import Share, TensorRow, stretches, tensor_rows
from gguftool.api.turning import Turning, turning
from gguftool.brief import short_repr
from gguftool.errors import GgufToolError, MissingFile, UsageError, of_one
from gguftool.fleet.find import models
from gguftool.fleet.row import Row
from gguftool.fleet.scan import scan
from gguftool.hub import is_remote, on_this_machine, opened
from gguftool.hub.repo import Collection, meant
from gguftool.lint.call import lint
from gguftool.lint.run import Report
from gguftool.memory.points import kv_points
from gguftool.model.overview import Overview, overview
from gguftool.model.role import ROLES, role
from gguftool.predict.pairs import Misfit, misfits
from gguftool.records import dataclass, field
from gguftool.run.beside import ROLES as GIVEN_AS
from gguftool.run.beside import named as files_beside
from gguftool.run.options.asked import wishes as asked_for
from gguftool.run.options.table import by_field
from gguftool.run.target import target
from gguftool.run.wishes import Wishes
from gguftool.verify.hashes import ALL, hash_files
from gguftool.verify.stream import Progress, ignored

if TYPE_CHECKING:
    from gguftool.model import Model
    from gguftool.verify.hashes import FileHashes

T = TypeVar("T")
MOST_ROWS = 5000
"""Models of a fleet that are shown."""


@dataclass(frozen=True, slots=True)
class BesideIt:
    """A file that is to be used with the model.

    Attributes:
        option: the option of llama-server that takes it.
        path: as it was named.
        overview: what it is.
        misfits: why it does not go with the model, the worst first; (): it does, as far as headers tell.
    """

    option: str
    path: str
    overview: Overview
    misfits: tuple[Misfit, ...]

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Portrait:
    """One model.

    Attributes:
        overview: what it is.
        kv_points: (context, bytes) of its KV cache for a first look.
        lint: what is wrong with it, and what llama.cpp does when it loads it.
        tensors: where the bytes are.
        stretches: what the bytes of the files are, tensors or not.
        keys: its metadata.
        layers: attention and position by layer.
        mixture: what llama.cpp's mixture of its name would be.
        no_mixture: why there is none.
        tokens: its tokenizer; None: it has none.
        templates: the standard conversations.
        compat: builds that load it; None: of what it is, or of a header that breaks off, none is asked.
        plan: what it takes under the wishes; None: it is none to be planned.
        unplanned: why there is no plan.
        memory: that under many other settings, for a picture that can be turned; None: see `turning`.
        beside: files that are to be used with it.
        hashes: of its files, where they were asked for.
        edits: what was done to it, the newest first.
        failed: sections that could not be made, each with the error.
    """

    overview: Overview
    kv_points: tuple[tuple[int, int], ...]
    lint: Report
    tensors: tuple[TensorRow, ...]
    stretches: tuple[Share, ...]
    keys: tuple[KeyRow, ...]
    layers: tuple[LayerRow, ...]
    mixture: Mixture | None
    no_mixture: str
    tokens: Tokens | None
    templates: Templates
    compat: Compatibility | None
    plan: Planned | None
    unplanned: str
    memory: Turning | None
    beside: tuple[BesideIt, ...]
    hashes: tuple[FileHashes, ...]
    edits: tuple[Edit, ...]
    failed: Mapping[str, GgufToolError] = field(default_factory=dict)

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Reported:
    """What a report is about: one of the three is there.

    Attributes:
        spec: as it was named.
        model: one model, with the files beside it.
        glance: the quantisations of a repository.
        rows: the models of a folder, as `gguftool.scan` tells of them.
        more: models of the folder that are left out.
    """

    spec: str
    model: Portrait | None = None
    glance: Glance | None = None
    rows: tuple[Row, ...] = ()
    more: int = 0

    __repr__ = short_repr

    @property
    def errors(self) -> tuple[GgufToolError, ...]:
        """Why a section of the one model could not be made, and rules that failed themselves."""
        return () if self.model is None else (*self.model.failed.values(), *self.model.lint.bugs)

    @property
    def exit_code(self) -> int:
        """What a program ends with: that of the worst error, else 3 for a model that is not whole, else 0."""
        whole = self.model is None or self.model.overview.complete
        return max([0 if whole else 3, *(error.exit_code for error in self.errors)])


def report(
    model: Model | str | os.PathLike[str] | Collection,
    wishes: Wishes | None = None,
    *,
    data: bool = False,
    hashes: bool = False,
    build: str | int | None = None,
    tell: Callable[[int, int], None] = lambda done, every: None,
    progress: Progress = ignored,
    **asked: Any,
) -> Reported:
    """Gather all that is known of a model, of a model with the files beside it, of a repository or of a folder.

    Args:
        model: a path, an address, a model opened with ``strict=False``; of a repository each quantisation is a row,
            of a folder with several models each model (with wishes as of a repository: which of them fits).
        wishes: the deployment that is planned, and the files beside the model; or by keyword.
        data: read the tensor data: range, outliers, NaN of every tensor.
        hashes: sha256 of the files and of every tensor, for which they are read whole.
        build: number of the build of llama.cpp that is to load it; None: the one at hand, else the newest known.
        tell: called with the steps that are done, and how many there are.
        progress: called with the bytes of data read since the last call, from several threads.
        asked: fields of `Wishes`: ``ctx=32768, vram="16GiB", mmproj="mmproj.gguf"``.

    Raises:
        MissingFile, Unreadable, NotGguf: it cannot be opened as GGUF at all.
        UsageError: the wishes make no sense, or its data is asked for and only the network has it.
        ToolFailed: the Hub cannot be asked.
    """
    said = asked_for(asked, wishes)
    there = _meant(os.fspath(model)) if isinstance(model, (str, os.PathLike)) else model
    if isinstance(there, Collection):
        if data or hashes:
            what = "data" if data else "hashes"
            raise UsageError(f"{there.spec}: {what} of one model can be read, and here are several", "name one of them")
        return _several(there, said, build, tell)
    spec = there if isinstance(there, str) else there.name
    if (data or hashes) and isinstance(there, str) and is_remote(there):
        there = on_this_machine(there)
    with opened(there) as m:
        return Reported(spec, _portrait(m, spec, said, build, data=data, hashes=hashes, tell=tell, progress=progress))


def _meant(spec: str) -> Collection | str:
    """One model or several; of a folder without any the folders in it are looked into, too."""
    try:
        return meant(spec)
    except MissingFile:
        if is_remote(spec) or not os.path.isdir(spec) or next(models([spec]), None) is None:
            raise
        return Collection(spec, None, (), ())


def _several(there: Collection, said: Wishes, build: str | int | None, tell: Callable[[int, int], None]) -> Reported:
    """Of a folder rows of a scan; where something is wished for, what `glance` tells: which of them fits."""
    if there.address is not None or is_remote(there.spec) or (there.models and said != Wishes()):
        return Reported(there.spec, glance=glance(there, said, build=build, tell=tell))
    if said != Wishes():
        wished = (
            f"{there.spec}: what is wished for is planned for the models of one folder, and here are folders of them"
        )
        raise UsageError(wished, "name one of these folders")
    number = target(build, None, None)
    rows = scan(there.spec, build=number.build if number is not None else None)
    shown = tuple(islice(rows, MOST_ROWS))
    return Reported(there.spec, rows=tuple(sorted(shown, key=lambda r: r["path"])), more=sum(1 for _ in rows))


@dataclass(slots=True)
class _Sections:
    """Sections one by one: what one of them trips over must not hide the others."""

    name: str
    tell: Callable[[int, int], None]
    done: int = 0
    failed: dict[str, GgufToolError] = field(default_factory=dict)

    def make(self, section: str, make: Callable[[], T], instead: T) -> T:
        self.tell(self.done, _STEPS)
        self.done += 1
        try:
            return make()
        except Exception as error:
            self.failed[section] = of_one(error, self.name)
            return instead


_STEPS = 14


def _portrait(
    m: Model,
    spec: str,
    said: Wishes,
    build: str | int | None,
    *,
    data: bool,
    hashes: bool,
    tell: Callable[[int, int], None],
    progress: Progress,
) -> Portrait:
    asked = target(build, None, None)
    number = asked.build if asked is not None else None
    s = _Sections(m.name, tell)
    with ExitStack() as stack:
        sides = [(name, path, stack.enter_context(opened(path))) for name, path in files_beside(said)]
        found = lint(m, beside=[side for _, _, side in sides], build=number)
        beside = tuple(
            BesideIt(by_field()[name].ours, path, overview(side), misfits(m, side, GIVEN_AS[name], number))
            for name, path, side in sides
        )
    hashed: tuple[FileHashes, ...] = s.make("hashes", lambda: _hashes(m, progress) if hashes else (), ())
    numbers: dict[tuple[int, str], Values] = s.make("data", lambda: all_values(m, progress) if data else {}, {})
    parts = zip(m.parts, hashed, strict=False)
    sums = {(part.no, t.name): t.digests.get("sha256", "") for part, f in parts for t in f.tensors}
    nothing: tuple[Any, str] = (None, "")
    planned, why = s.make("plan", lambda: _plan(m, spec, said, build), nothing)
    mixed, no_mixture = s.make("mixture", lambda: mixture(m), nothing)
    return Portrait(
        overview=overview(m),
        kv_points=s.make("cache", lambda: tuple(kv_points(m)), ()),
        lint=found,
        tensors=s.make("tensors", lambda: tensor_rows(m, sums, numbers), ()),
        stretches=s.make("stretches", lambda: stretches(m), ()),
        keys=s.make("keys", lambda: key_rows(m), ()),
        layers=s.make("layers", lambda: layer_rows(m), ()),
        mixture=mixed,
        no_mixture=no_mixture,
        tokens=s.make("tokens", lambda: tokens(m), None),
        templates=s.make("templates", lambda: previews(m), Templates((), ())),
        compat=s.make("compat", lambda: compat(m) if ROLES[role(m)].loads and m.header.complete else None, None),
        plan=planned,
        unplanned=why,
        memory=s.make("memory", lambda: turning(m, spec, said, planned) if planned else None, None),
        beside=beside,
        hashes=hashed,
        edits=s.make("edits", lambda: edits(m), ()),
        failed=s.failed,
    )


def _plan(m: Model, spec: str, said: Wishes, build: str | int | None) -> tuple[Planned | None, str]:
    if not ROLES[role(m)].runs or m.missing_shards or not m.header.complete:
        return None, "there is nothing to be planned" if not ROLES[role(m)].runs else "it is not whole"
    try:
        return plan(m, said, build=build, named=spec), ""
    except UsageError as error:
        return None, str(error)


def _hashes(m: Model, progress: Progress) -> tuple[FileHashes, ...]:
    """The hashes of all files of a model."""
    return tuple(_raised(one) for one in hash_files(m.parts, ALL, progress))


def _raised(found: FileHashes | GgufToolError) -> FileHashes:
    if isinstance(found, GgufToolError):
        raise found
    return found
