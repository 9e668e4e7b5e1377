"""The log of a llama.cpp program against what was planned."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.records import dataclass
from gguftool.run.diagnose import Judgement, judge
from gguftool.run.files import json_object, log_text, text_of
from gguftool.run.proof import Check, Expected, compare, from_json, proven

if TYPE_CHECKING:
    from gguftool.run.launch import LaunchPlan


@dataclass(frozen=True, slots=True)
class LogCheck:
    """What a log says.

    Attributes:
        judgement: status, the error, notices, and the facts.
        expected: what was planned, when a plan was given.
        checks: planned against logged, one by one.
    """

    judgement: Judgement
    expected: Expected | None = None
    checks: tuple[Check, ...] = ()

    __repr__ = short_repr

    @property
    def ok(self) -> bool:
        """True when it did its work to the end without an error, and what was planned where a plan was given."""
        good = self.judgement.status in ("ready", "finished") and not self.judgement.failures
        return good and proven(self.checks)


def check_log(
    log: str | os.PathLike[str] | bytes, expect: str | os.PathLike[str] | Expected | LaunchPlan | None = None
) -> LogCheck:
    """Judge a log: did the program start, why not, and is it what was planned?

    Args:
        log: path of the log, or its bytes; plain or gzip.
        expect: a plan; or the path of one, as ``gguftool plan`` or ``gguftool launch`` write it with ``--format json``.

    Raises:
        MissingFile, Unreadable: it cannot be read.
        UsageError: the file of the plan is none.
    """
    judged = judge(text_of(log) if isinstance(log, bytes) else log_text(os.fspath(log)))
    wanted = _expected(expect)
    return LogCheck(judged, wanted, tuple(compare(wanted, judged)) if wanted is not None else ())


def _expected(expect: str | os.PathLike[str] | Expected | LaunchPlan | None) -> Expected | None:
    if expect is None or isinstance(expect, Expected):
        return expect
    if isinstance(expect, (str, os.PathLike)):
        return from_json(json_object(os.fspath(expect)))
    return expect.expected
