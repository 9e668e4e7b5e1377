"""Run the rules over one model: select, run, complete, sort."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from gguftool.brief import short_repr, table
from gguftool.errors import Bug, named
from gguftool.facts.arch import facts
from gguftool.format.header import Field, TensorInfo
from gguftool.lint.catalogue import check_name
from gguftool.lint.predicted import asked, newest
from gguftool.lint.rule import Context, Draft, Finding, NotEvaluated, Rule, Scope, Severity
from gguftool.lint.rules import FAMILIES, family
from gguftool.model.embedder import no_chat
from gguftool.model.role import ROLES, role
from gguftool.predict.stages import OTHERS
from gguftool.records import dataclass, replace

if TYPE_CHECKING:
    from gguftool.model import Model
    from gguftool.predict import Prediction
    from gguftool.predict.needs import Need


LONGEST = 2000
"""Characters of a message, or of a text for programs: names in it may be a megabyte long."""


@dataclass(frozen=True, slots=True)
class Report:
    """What lint says about one model.

    Attributes:
        path: the model as it was named.
        findings: worst first, then in the order of the file.
        not_evaluated: rules that could not judge it, and why.
        load: what llama.cpp would do when it loads the file.
        needs: names that a build of llama.cpp must know, and since when builds know them.
        build: number of the build that was asked about; None: the newest that is known.
    """

    path: str
    findings: tuple[Finding, ...]
    not_evaluated: tuple[NotEvaluated, ...]
    load: Prediction | None
    needs: tuple[Need, ...] = ()
    build: int | None = None

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        verdict = f"; llama.cpp: {self.load.verdict}" if self.load is not None else ""
        rows = ((f.severity, f.rule, f.where, f.message) for f in self.findings)
        return table(f"{self.path}: {len(self)} findings{verdict}", ("severity", "rule", "where", "message"), rows)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __bool__(self) -> bool:
        return True

    @property
    def failed(self) -> tuple[NotEvaluated, ...]:
        """Rules that failed themselves: bugs, for which the exit code is 70."""
        return tuple(s for s in self.not_evaluated if s.failed)

    @property
    def bugs(self) -> tuple[Bug, ...]:
        """The same as errors."""
        return tuple(Bug(f"{s.rule}: {s.why}", self.path) for s in self.failed)

    def count(self, severity: Severity) -> int:
        """Number of findings of that severity."""
        return sum(f.severity is severity for f in self.findings)

    def at_least(self, severity: Severity) -> int:
        """Number of findings of that severity or worse."""
        return sum(f.severity.rank <= severity.rank for f in self.findings)


def lint(
    model: Model,
    context: Context | None = None,
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    load: bool = True,
    names: bool = True,
    fixes: Callable[[Finding], bool] = lambda _: True,
) -> Report:
    """Check one model.

    Args:
        model: opened with ``strict=False``, so that faults of the header become findings.
        context: what the deployment wants, what to compare with.
        select: rule ids and families to run; all when empty.
        ignore: rule ids and families to leave out.
        load: also predict what llama.cpp would do with the file.
        names: with it, also say since when builds know the names in the file.
        fixes: whose fixes are wanted. Where no finding that has one is among them, no fix is judged, and none that
            would have to be is offered.

    Raises:
        UsageError: a name in ``select`` or ``ignore`` is neither a rule nor a family.
    """
    ctx = replace(context or Context(), memo={})
    what = role(model)
    families = [name for name in _families(ctx, load) if what in _FOR.get(name, (what,))]
    rules = selected(select, ignore, families)
    findings: list[Finding] = []
    skipped: list[NotEvaluated] = []
    for one in rules:
        if one.family == "load":
            # The net below the other rules: it speaks when none of them explains what llama.cpp says.
            ctx.memo["found"] = findings
            if one.severity is Severity.ERROR and _explained(model, ctx, findings):
                continue
        why = _why_not(one, model, ctx, what)
        if why == "":
            continue
        if why is not None:
            skipped.append(NotEvaluated(why, one.id))
            continue
        try:
            for draft in one.check(model, ctx):
                if isinstance(draft, NotEvaluated):
                    skipped.append(replace(draft, rule=one.id))
                else:
                    findings.append(_complete(one, draft, model, ctx))
        except Exception as e:
            _trip(e, one.id, skipped)
    findings.sort(key=lambda f: (f.severity.rank, FAMILIES.index(f.family)))
    predicted: Prediction | None = None
    known: tuple[Need, ...] = ()
    if load:
        findings = _offered(model, ctx, findings, skipped, fixes)
        try:
            predicted = asked(model, ctx)
            known = _names(model) if names else ()
        except Exception as e:
            _trip(e, "load", skipped)
    return Report(model.name, tuple(findings), tuple(skipped), predicted, known, ctx.build)


def _names(model: Model) -> tuple[Need, ...]:
    from gguftool.predict.needs import needs

    return needs(model)


def _explained(model: Model, ctx: Context, findings: Sequence[Finding]) -> bool:
    """Whether an error that was found is why the file does not load."""
    if all(f.severity is not Severity.ERROR for f in findings):
        return False
    # What a build asks for that the newest does not ask no other rule knows.
    return ctx.build is None or asked(model, ctx).first_error == newest(model, ctx).first_error


def _offered(
    model: Model,
    ctx: Context,
    findings: list[Finding],
    skipped: list[NotEvaluated],
    fixes: Callable[[Finding], bool],
) -> list[Finding]:
    to_judge = [f for f in findings if f.fix is not None and f.fix.operations]
    try:
        # One of them may be safe only together with the others.
        if any(fixes(f) for f in to_judge):
            from gguftool.lint.offer import offered

            return offered(model, ctx, findings)
    except Exception as e:
        _trip(e, "load", skipped)
    # What was not judged is not offered.
    return [replace(f, fix=None) if f.fix is not None and f.fix.operations else f for f in findings]


def _trip(e: Exception, name: str, skipped: list[NotEvaluated]) -> None:
    """A rule that trips over a strange file must not hide what the others found; with GGUFTOOL_DEBUG it does."""
    if os.environ.get("GGUFTOOL_DEBUG"):
        raise e
    skipped.append(NotEvaluated(f"the rule itself failed: {named(e)}", name, failed=True))


_FOR = {
    "adapter": frozenset({"adapter", "control-vector", "imatrix"}),
    "draft": frozenset({"draft"}),
    "projector": frozenset({"mmproj"}),
}
"""Roles that all rules of a family are for: for other files it is not even imported."""


def _families(ctx: Context, load: bool) -> list[str]:
    """Families that may have something to say: the others are not even imported."""
    idle = {
        "source": ctx.against is None,
        "data": not ctx.data,
        "place": ctx.models_folder is None,
        "pair": not ctx.beside,
        "publish": ctx.publishing is None,
        "load": not load,
    }
    return [name for name in FAMILIES if not idle.get(name, False)]


def judged(
    report: Report, context: Context, select: Sequence[str] = (), ignore: Sequence[str] = (), load: bool = True
) -> frozenset[str]:
    """Ids of the rules that judged the model of a report made with these arguments (see `lint`)."""
    skipped = {s.rule for s in report.not_evaluated}
    asked = selected(select, ignore, _families(context, load))
    return frozenset(r.id for r in asked if r.id not in skipped and (context.data or r.scope is not Scope.DATA))


def selected(
    select: Iterable[str] = (), ignore: Iterable[str] = (), families: Iterable[str] = FAMILIES
) -> tuple[Rule, ...]:
    """The rules of ``families`` that ``select`` and ``ignore`` leave, in order of the catalogue.

    Raises:
        UsageError: a name is neither a rule nor a family.
    """
    return _selected(tuple(select), tuple(ignore), tuple(families))


@lru_cache(64)
def _selected(wanted: tuple[str, ...], unwanted: tuple[str, ...], families: tuple[str, ...]) -> tuple[Rule, ...]:
    rules = [r for name in families for r in family(name)]
    there = {r.id for r in rules}
    for name in (*wanted, *unwanted):
        # The catalogue has those of the other families.
        if name not in there:
            check_name(name)
    return tuple(
        r
        for r in rules
        if (not wanted or r.id in wanted or r.family in wanted)
        # A rule named itself outweighs its family being ignored.
        and not (r.id in unwanted or (r.family in unwanted and r.id not in wanted))
    )


@cache
def _roles(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _why_not(one: Rule, m: Model, ctx: Context, what: str) -> str | None:
    """Why a rule does not run: None it runs, "" it was not asked for, else a reason to report."""
    if one.scope is Scope.SOURCE and ctx.against is None:
        return ""
    if one.scope is Scope.DATA and not ctx.data:
        return ""
    if one.role not in ("model", "any") and what not in _roles(one.role):
        return ""
    if one.chat and no_chat(m):
        return ""
    if one.role == "model" and not ROLES[what].loads:
        # What has a loader of its own has rules of its own, too.
        return "" if what in OTHERS else f"the file is {ROLES[what].what}; the rule is for models that llama.cpp loads"
    if one.role == "model" and 1 in m.missing_shards:
        return "shard 1, which carries the metadata, is missing"
    if one.whole and not m.header.complete:
        return f"the header breaks off: {next(p for p in m.header.problems if p.fatal).message}"
    if one.known_arch and facts(m.architecture) is None:
        return f"llama.cpp does not know the architecture {m.architecture!r}"
    return None


def _complete(one: Rule, draft: Draft, m: Model, ctx: Context) -> Finding:
    path, span = _place(draft.where, m) if draft.path is None else _place_in(draft.path, draft.where, m, ctx)
    return Finding(
        rule=one.id,
        family=one.family,
        severity=draft.severity or one.severity,
        message=_cut(draft.message),
        path=path,
        where=draft.where,
        span=draft.span or span,
        fix=draft.fix,
        data={name: _cut(value) if isinstance(value, str) else value for name, value in draft.data.items()},
        changes_run=one.changes_run if draft.changes_run is None else draft.changes_run,
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _place(where: str, m: Model) -> tuple[str, tuple[int, int] | None]:
    """File and span that a ``where`` leads to."""
    kind, _, name = where.partition(":")
    if kind == "field" and name in m.fields:
        return m.name, m.fields[name].span
    if kind == "tensor" and name in m.tensors:
        tensor = m.tensors[name]
        return tensor.part.name, tensor.info.span
    if kind == "shard":
        for part in m.parts:
            if str(part.no + 1) == name:
                return part.name, None
    return m.name, None


def _place_in(path: str, where: str, m: Model, ctx: Context) -> tuple[str, tuple[int, int] | None]:
    """The same in a file that the rule named: another shard, or a file beside the model."""
    kind, _, name = where.partition(":")
    for part in (part for model in (m, *ctx.beside) for part in model.parts if part.name == path):
        header = part.header
        records = header.fields if kind == "field" else header.tensors if kind == "tensor" else ()
        return path, next((r.span for r in records if _named(r) == name), None)
    return path, None


def _named(record: Field | TensorInfo) -> str:
    return record.key if isinstance(record, Field) else record.name
