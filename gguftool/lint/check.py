"""Lint many models: open each, run the rules, keep what went wrong with a file beside what was found in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.errors import GgufToolError, of_one
from gguftool.lint.catalogue import check_name
from gguftool.lint.rule import Context, Finding, Severity
from gguftool.lint.run import Report, lint
from gguftool.model.unreadable import unreadable
from gguftool.records import dataclass, replace

if TYPE_CHECKING:
    from gguftool.model import Model

FOUND = 1


@dataclass(frozen=True, slots=True)
class Known:
    """One finding of a baseline.

    Attributes:
        paths: the file it lies in, from the root on; more than one where a report does not say where it was made.
        models: the model it was found in, likewise.
        rule, where, severity: of the finding.
        digest: of its facts; "" in a report that holds none.
    """

    paths: frozenset[str]
    models: frozenset[str]
    rule: str
    where: str
    severity: str
    digest: str

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class FileCheck:
    """One model as lint leaves it.

    Attributes:
        path: as it was named.
        report: what the rules say; None when the file could not be opened.
        error: why it could not be opened or not be read to the end.
        known: findings that the baseline holds and that are left out of the report.
        gone: entries of the baseline that no longer occur.
    """

    path: str
    report: Report | None
    error: GgufToolError | None = None
    known: tuple[Finding, ...] = ()
    gone: tuple[Known, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found; nothing when the file could not be opened."""
        return self.report.findings if self.report else ()

    @property
    def bugs(self) -> tuple[GgufToolError, ...]:
        """Rules that failed themselves, as errors."""
        return self.report.bugs if self.report else ()

    def exit_code(self, fail_on: Severity | None) -> int:
        """What this file alone would make the program end with; ``fail_on`` None: findings never fail."""
        if self.error is not None or self.bugs:
            return max(e.exit_code for e in (self.error, *self.bugs) if e is not None)
        if self.report and fail_on is not None and self.report.at_least(fail_on):
            return FOUND
        return 0


def check(
    paths: Iterable[str],
    opener: Callable[[str], Model],
    context: Context | None = None,
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    load: bool = True,
    beside: Callable[[Model], Sequence[str]] = lambda m: (),
    ignored: Callable[[str], Sequence[str]] = lambda path: (),
) -> Iterator[FileCheck]:
    """Lint each model once, however many of its shards are named.

    Args:
        paths: models as the user names them.
        opener: opens one with ``strict=False``.
        context: see `lint`.
        select: see `lint`.
        ignore: see `lint`.
        load: see `lint`.
        beside: which files are to be used with a model; one that cannot be opened is passed over.
        ignored: rules and families to leave out for one file.

    Raises:
        UsageError: a name in ``select`` or ``ignore`` is neither a rule nor a family.
    """
    context = context or Context()
    for name in (*select, *ignore):
        check_name(name)
    seen: set[str] = set()
    for path in paths:
        if path in seen:
            continue
        try:
            with opener(path) as model:
                seen.update((path, *(part.name for part in model.parts)))
                with ExitStack() as sides:
                    told = replace(context, beside=(*context.beside, *_opened(beside(model), opener, sides)))
                    report = lint(model, told, select=select, ignore=(*ignore, *ignored(path)), load=load)
                done = FileCheck(path, report, unreadable(model))
        except Exception as e:
            # Whatever one file causes must not hide what is wrong with the others.
            done = FileCheck(path, None, of_one(e, path))
        yield done


def _opened(paths: Sequence[str], opener: Callable[[str], Model], stack: ExitStack) -> Iterator[Model]:
    for path in paths:
        try:
            yield stack.enter_context(opener(path))
        except Exception:
            continue  # it is checked by itself, too, and its report says so
