"""One option: everything there is to know about it, kept beside the field of `Wishes` that holds its value."""

from __future__ import annotations

from typing import Any

from gguftool.brief import short_repr
from gguftool.records import dataclass, field
from gguftool.run.options.kinds import Kind

LAUNCH, PLAN = "launch", "plan"
BOTH = (LAUNCH, PLAN)


@dataclass(frozen=True, slots=True)
class Constant:
    """Spellings of a switch that stands for a value of the option: ``--no-kv-offload``, ``--cpu-moe``."""

    names: tuple[str, ...]
    value: Any
    help: str = ""

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        field: name of the field of `Wishes`.
        kind: how its value is read and written.
        default: value of the field when nobody says anything.
        help: one line for people; options without one are taken, but not listed.
        ours: the spelling that gguftool shows and writes.
        names: llama.cpp's spellings, the preferred one first; none: an option of gguftool alone.
        former: further spellings that are taken: older names of ours, and names llama.cpp has removed.
        constants: switches that stand for a value.
        sides: spellings that say one half of a pair (the type of K, the type of V).
        path: it names a file that is ``read`` or ``written``, or a ``folder``; "": it does not.
        plan: the memory plan, or what the log must show, depends on it.
        needs: field of the option without which this one does nothing.
        must: a build that has no way to say it would do something else than planned.
        secret: its value is never shown.
        library: attribute of ``xllamacpp.CommonParams`` that it sets; "": the embedded server has no such option,
            or `gguftool.run.embedded` sets it in a way of its own.
        shown: commands whose help lists it.
    """

    field: str
    kind: Kind
    default: Any
    help: str
    ours: str
    names: tuple[str, ...]
    former: tuple[str, ...]
    constants: tuple[Constant, ...]
    sides: tuple[tuple[str, ...], ...]
    path: str
    plan: bool
    needs: str
    must: bool
    secret: bool
    library: str
    shown: tuple[str, ...]

    __repr__ = short_repr

    @property
    def spellings(self) -> tuple[str, ...]:
        """All spellings of the option itself, without those of its constants."""
        return tuple(dict.fromkeys((self.ours, *self.names, *self.former))) if self.ours else self.names

    def constant(self, value: Any) -> Constant | None:
        """The switch that stands for a value."""
        return next((c for c in self.constants if type(c.value) is type(value) and c.value == value), None)


def option(
    kind: Kind,
    default: Any = None,
    help: str = "",
    *,
    ours: str | None = None,
    names: tuple[str, ...] = (),
    former: tuple[str, ...] = (),
    constants: tuple[Constant, ...] = (),
    sides: tuple[tuple[str, ...], ...] = (),
    path: str = "",
    plan: bool = False,
    needs: str = "",
    must: bool = True,
    secret: bool = False,
    library: str = "",
    shown: tuple[str, ...] = BOTH,
) -> Any:
    """A field of `Wishes` with its option; the arguments are the attributes of `Option`."""
    made = Option(
        "", kind, default, help, ours or "", names, former, constants, sides, path, plan, needs, must, secret, library,
        shown if help else (),
    )  # fmt: skip
    return field(default=default, metadata={"option": made})
