"""Every quantisation of a repository side by side: what it is, whether it fits, what loads it, what lint says."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gguftool.api.compat import Code, compat
from gguftool.api.instead import Offer, instead
from gguftool.api.plan import engine_for, fitted
from gguftool.brief import short_repr
from gguftool.errors import GgufToolError, UsageError, of_one
from gguftool.hub.ahead import Ahead
from gguftool.hub.repo import Collection, Listed, collection
from gguftool.lint.rule import Context, Severity
from gguftool.lint.run import lint
from gguftool.memory.choices import Choice
from gguftool.memory.search import pair_bytes
from gguftool.model import with_header
from gguftool.model.kin import kin
from gguftool.model.overview import overview
from gguftool.model.role import ROLES
from gguftool.model.unreadable import unreadable
from gguftool.predict.pairs import misfits
from gguftool.records import dataclass, field, replace
from gguftool.run.args import masked, own_words
from gguftool.run.deploy import Found, look
from gguftool.run.engine import Engine
from gguftool.run.options.asked import wishes as asked_for
from gguftool.run.target import older
from gguftool.run.wishes import Wishes
from gguftool.shell import path_word

if TYPE_CHECKING:
    from gguftool.memory.plan import MemoryPlan
    from gguftool.model import Model
    from gguftool.predict import Prediction

FULL = 16.0
"""Bits a weight from which on more bits say nothing more: what models are trained and published in."""
WHOLE, PARTLY, UNKNOWN, OVER, REFUSED, UNPLANNED, FAILED = range(7)
"""How a quantisation stands, best first."""
KEPT = 8
"""Models of which none fits that are looked at again for another way."""


@dataclass(frozen=True, slots=True)
class Imatrix:
    """What a file says of the importance matrix it was quantised with (`quantize.imatrix.*`)."""

    file: str
    dataset: str
    entries: int | None
    chunks: int | None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Entry:
    """One quantisation, or one file beside them.

    Attributes:
        listed: its files, names and sizes.
        error: why it could not be read.
        role: key of `gguftool.model.role.ROLES`; "" where it could not be read.
        label: the quantisation that it claims to be.
        architecture: of its header.
        parameters: elements of all tensors.
        bits_per_weight: measured: bytes of the tensors by their elements.
        missing: numbers of shards that are not there.
        imatrix: None: none is recorded.
        kin: equal for quantisations of one model.
        plan: what it takes with what fits; None: it is none to be planned.
        unplanned: why there is no plan.
        on_host: what of it lies on the host though a device is there.
        load: what the llama.cpp at hand, or the one asked about, does with it.
        since: first build that loads it; None: every build, or none.
        counts: findings of lint by severity.
        unfit: of a file beside: why it does not go with the model; None: not asked.
    """

    listed: Listed
    error: GgufToolError | None = None
    role: str = ""
    label: str = ""
    architecture: str = ""
    parameters: int = 0
    bits_per_weight: float | None = None
    missing: tuple[int, ...] = ()
    imatrix: Imatrix | None = None
    kin: tuple[object, ...] = ()
    plan: MemoryPlan | None = None
    unplanned: str = ""
    on_host: str = ""
    load: Prediction | None = None
    since: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    unfit: str | None = None

    __repr__ = short_repr

    @property
    def fits(self) -> bool | None:
        """Whether it fits the memory there is; None when that is not known."""
        return self.plan.fits if self.plan is not None else None

    @property
    def refused(self) -> str:
        """Why llama.cpp would not start with it; "": it would."""
        if self.plan is not None and self.plan.refused:
            return self.plan.refused[0]
        if self.missing:
            return f"shard {self.missing[0]} is missing"
        if self.load is None or not (self.load.ends or self.load.first_error):
            return ""
        return self.load.reason or self.load.verdict

    @property
    def over(self) -> int:
        """Bytes that are missing on all devices together."""
        return sum(d.missing for d in self.plan.devices) if self.plan is not None else 0

    @property
    def standing(self) -> int:
        """How it stands: `WHOLE` … `FAILED`."""
        if self.error is not None and self.plan is None:
            return FAILED
        if self.refused:
            return REFUSED
        if self.plan is None:
            return UNPLANNED
        if self.fits is None:
            return UNKNOWN
        return OVER if not self.fits else PARTLY if self.on_host else WHOLE


@dataclass(frozen=True, slots=True)
class Glance:
    """Everything a repository or a folder holds.

    Attributes:
        spec: as it was named.
        models: the quantisations, the best first.
        beside: projectors, drafts, adapters, importance matrices.
        wishes: what was asked for.
        build: number of the llama.cpp that was asked about; None: the newest that is known.
        max_context: each is planned with the largest context that fits.
        offers: of a model of which none fits, by its `Entry.kin`, what would let the least over one fit.
    """

    spec: str
    models: tuple[Entry, ...]
    beside: tuple[Entry, ...]
    wishes: Wishes
    build: int | None = None
    max_context: bool = False
    offers: Mapping[tuple[object, ...], tuple[Offer, ...]] = field(default_factory=dict)

    __repr__ = short_repr

    @property
    def groups(self) -> tuple[tuple[Entry, ...], ...]:
        """The quantisations of each model there is, the best first; what could not be read at the end."""
        found: dict[tuple[object, ...], list[Entry]] = {}
        for x in self.models:
            found.setdefault(x.kin, []).append(x)
        lost = found.pop((), [])
        groups = [tuple(g) for g in found.values()]
        return (*groups[:-1], (*(groups[-1] if groups else ()), *lost)) if groups or lost else ()

    @property
    def named(self) -> bool:
        """Whether the user said how much memory there is."""
        return self.wishes.vram is not None or self.wishes.ram is not None

    def best(self, group: Sequence[Entry] | None = None) -> Entry | None:
        """The best that fits; None when none does, when it is not known, or when there are several models.

        Args:
            group: one of `groups`; None: the only one.
        """
        if group is None:
            group = self.groups[0] if len(self.groups) == 1 else ()
        return next((x for x in group if x.standing <= PARTLY), None)

    def words(self, entry: Entry, command: str) -> tuple[str, ...]:
        """The command that does something with one of them, on the same terms."""
        plan = entry.plan if self.max_context else None
        said = self.wishes if plan is None else replace(self.wishes, ctx=plan.cache.context.requested)
        return tuple(masked(["gguftool", command, path_word(entry.listed.spec), *own_words(said)]))


def glance(
    spec: str | os.PathLike[str] | Collection,
    wishes: Wishes | None = None,
    *,
    max_context: bool = False,
    build: str | int | None = None,
    since: bool = True,
    tell: Callable[[int, int], None] = lambda done, every: None,
    **asked: Any,
) -> Glance:
    """Look at every quantisation of a repository or a folder; headers are read, nothing is downloaded.

    The best is the one of most bits a weight, as measured, that fits whole and that llama.cpp loads; then the larger
    context and the larger cache type. Behind these come those that fit with a part on the host, those that do not fit,
    the least over first, and those that llama.cpp refuses or that cannot be read.

    Args:
        spec: ``hf://owner/repo``, ``hf://owner/repo:QUANT``, a folder.
        wishes: what is asked for; or by keyword.
        max_context: plan each with the largest context that fits.
        build: number of the build that will serve, in place of a llama-server at hand.
        since: find the first build that loads each, too.
        tell: called with the number of headers looked at, and how many there are.
        asked: fields of `Wishes`: ``ctx=32768, vram="16GiB"``.

    Raises:
        UsageError: it names one file, or the wishes make no sense.
        MissingFile, ToolFailed: the Hub has no such repository, or cannot be asked.
    """
    said = asked_for(asked, wishes)
    there = spec if isinstance(spec, Collection) else collection(os.fspath(spec))
    if there is None:
        raise UsageError(f"{spec}: names one file, not a repository or a folder", "gguftool plan takes it")
    engine = engine_for(said, build)
    terms = _Terms(said, engine, look(said, engine.tool), max_context, build is not None, since)
    models: list[Entry] = []
    beside: list[Entry] = []
    try:
        with Ahead(x.spec for x in there.every if x.has_header) as opener:
            for n, listed in enumerate(there.every):
                tell(n, len(there.every))
                found = _look(listed, opener, terms)
                (beside if _is_aside(found, listed in there.beside) else models).append(found)
        models.sort(key=_order)
        fitting = {x.kin for x in models if x.standing <= UNKNOWN}
        offers = {
            kin: tuple(instead(m, spec, said, engine, terms.machine))
            for kin, (_, spec, m) in terms.least.items()
            if kin not in fitting
        }
    finally:
        for m in (terms.first, *(m for _, _, m in terms.least.values())):
            if m is not None:
                m.close()
    return Glance(there.spec, tuple(models), tuple(beside), said, older(engine.build), max_context, offers)


def _is_aside(x: Entry, by_name: bool) -> bool:
    """By what is in the file; by its name alone where that cannot be read."""
    return by_name if not x.role else x.role in _ASIDE or (by_name and not ROLES[x.role].runs)


_USED_BESIDE = ("mmproj", "draft", "vocoder", "adapter", "control-vector")
_ASIDE = (*_USED_BESIDE, "imatrix")


def _order(x: Entry) -> tuple[object, ...]:
    plan, bits = x.plan, min(x.bits_per_weight or 0.0, FULL)
    ctx = plan.cache.context.requested if plan is not None else 0
    types = pair_bytes((plan.settings.type_k, plan.settings.type_v)) if plan is not None and plan.cache.caches else 0.0
    over = x.over if x.standing == OVER else 0
    return (x.standing, over, -round(bits, 2), -ctx, -types, x.listed.size, x.listed.name)


@dataclass(slots=True)
class _Terms:
    """What every header is judged by, and what is worked out once for all of them."""

    wishes: Wishes
    engine: Engine
    machine: Found
    max_context: bool
    by_build: bool
    since: bool
    code: Code = field(default_factory=dict)
    first: Model | None = None
    least: dict[tuple[object, ...], tuple[int, str, Model]] = field(default_factory=dict)
    kin: tuple[object, ...] = ()


def _look(listed: Listed, opener: Callable[[str], Model], terms: _Terms) -> Entry:
    """One file or set; whatever it causes must not hide what is known of the others."""
    if not listed.has_header:
        return Entry(listed, role="imatrix")
    try:
        m = opener(listed.spec)
    except Exception as error:
        return Entry(listed, of_one(error, listed.spec))
    try:
        found = _read(_whole(m, listed), listed, terms)
        _keep_least(found, m, terms)
        if found.plan is not None and terms.first is None:
            terms.first, terms.kin = m, found.kin
        elif found.plan is not None and found.kin != terms.kin:
            terms.kin = ()
        elif found.role in _USED_BESIDE and terms.first is not None and terms.kin:
            found = replace(found, unfit=next((x.message for x in misfits(terms.first, m) if x.stops), ""))
        return found
    except Exception as error:
        return Entry(listed, of_one(error, listed.spec))
    finally:
        if m is not terms.first and all(m is not kept for _, _, kept in terms.least.values()):
            m.close()


def _whole(m: Model, listed: Listed) -> Model:
    """The model; of raw pieces as it is when they are put together."""
    complete = listed.raw and len(listed.files) == listed.count
    return with_header(m, m.header, listed.size) if complete and m.header.complete else m


def _keep_least(x: Entry, m: Model, terms: _Terms) -> None:
    """Of each model the quantisation that is the least over stays open: it may be what is offered another way."""
    old = terms.least.get(x.kin)
    if x.standing != OVER or (old is None and len(terms.least) >= KEPT) or (old is not None and old[0] <= x.over):
        return
    terms.least[x.kin] = x.over, x.listed.spec, m
    if old is not None and old[2] is not terms.first:
        old[2].close()


def _read(m: Model, listed: Listed, terms: _Terms) -> Entry:
    o = overview(m)
    broken = unreadable(m)
    build = older(terms.engine.build)
    report = lint(m, Context(build=build))
    found = Entry(
        listed, broken, o.role, o.label, o.architecture, o.parameters, o.bits_per_weight, m.missing_shards, _imatrix(m),
        () if broken is not None else kin(m), load=report.load, counts={str(s): report.count(s) for s in Severity},
    )  # fmt: skip
    if broken is not None or not ROLES[o.role].loads:
        return found
    asked = terms.engine.build.build if terms.by_build else None
    if terms.since:
        found = replace(found, since=compat(m, build=asked, row=(), code=terms.code).since)
    if not ROLES[o.role].runs or m.missing_shards:
        return found
    try:
        _, planner, fit = fitted(m, terms.wishes, terms.engine, terms.machine, max_context=terms.max_context)
    except UsageError as error:
        return replace(found, unplanned=str(error))
    return replace(found, plan=fit.plan, on_host=Choice("", planner, fit.plan).on_host)


def _imatrix(m: Model) -> Imatrix | None:
    said = {key: m.get(f"quantize.imatrix.{key}") for key in ("file", "dataset", "entries_count", "chunks_count")}
    if all(value is None for value in said.values()):
        return None

    def text(key: str) -> str:
        return value if isinstance(value := said[key], str) else ""

    def number(key: str) -> int | None:
        return value if isinstance(value := said[key], int) and not isinstance(value, bool) else None

    return Imatrix(text("file"), text("dataset"), number("entries_count"), number("chunks_count"))
