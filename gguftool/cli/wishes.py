"""The options of `launch` and `plan`, out of the table of options (`gguftool.run.options`)."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from gguftool.cli.spelled import Option, further
from gguftool.errors import UsageError
from gguftool.run.options.row import Option as Row
from gguftool.run.options.table import Spelling, by_name, options, read, with_this
from gguftool.run.wishes import Wishes

F = TypeVar("F", bound=Callable[..., Any])
WISHES = "wishes"
"""The parameter of the command that the options of the table fill together."""

if TYPE_CHECKING:
    AnyParam = click.ParamType[Any]
else:
    # Generic only since click 8.4.
    AnyParam = click.ParamType


class Value(AnyParam):
    """A value as its option in the table reads it."""

    def __init__(self, found: Spelling) -> None:
        self.found = found
        self.name = found.option.kind.metavar

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value; a usage error that says what would be right."""
        if not isinstance(value, str):
            return value
        try:
            made = read(self.found, value)
        except UsageError as error:
            self.fail(f"{error}" + (f" ({error.hint})" if error.hint else ""), param, ctx)
        if self.found.option.path != "write":
            return made
        from gguftool.cli.logfile import LOG

        return LOG.convert(made, param, ctx)


def wish_options(
    command: str, listed: Container[str] = frozenset(), without: Container[str] = frozenset()
) -> Callable[[F], F]:
    """All options of the table; the help of ``command`` lists those that are of use there.

    Args:
        command: its name.
        listed: fields of `Wishes` whose options are listed besides.
        without: fields whose options it does not have.
    """
    return further(lambda: made(command, listed, without))


def made(command: str, listed: Container[str], without: Container[str]) -> list[Option]:
    """The options themselves, in the order of the table."""
    found: list[Option] = []
    for o in options():
        if o.field in without:
            continue
        shown = o.field in listed or command in (o.shown or ("launch", "plan"))
        if o.ours:
            found.append(_option(by_name()[o.ours], o.spellings, o.help, shown))
        found += [_option(by_name()[names[0]], names, "", shown) for names in o.sides]
        found += [_option(by_name()[c.names[0]], c.names, c.help, shown) for c in o.constants]
    return found


def wished(extra: tuple[str, ...] = ()) -> Wishes:
    """What the command line of this moment asks."""
    from gguftool.records import replace

    found: Wishes = click.get_current_context().params.get(WISHES, Wishes())
    return replace(found, extra=extra)


def _option(found: Spelling, names: tuple[str, ...], help: str, listed: bool) -> Option:
    o = found.option
    long = o.ours if o.ours in names else next((n for n in names if n.startswith("--")), names[0])
    short = [n for n in names if not n.startswith("--")][:1]
    kwargs: dict[str, Any] = {"is_flag": True} if not found.takes else {"type": Value(found), "metavar": _metavar(o)}
    if found.takes and o.kind.many and found.side is None:
        kwargs["multiple"] = True
    if found.takes and help and o.default not in (None, ()):
        from gguftool.run.options.table import shown

        help = f"{help}  [default: {shown(o, o.default)}]"
    return Option(
        [*short, long, _parameter(o, names)], aliases=names, help=help, expose_value=False,
        hidden=not (help and listed), callback=_collect(found), **kwargs,
    )  # fmt: skip


def _metavar(o: Row) -> str:
    return "K[/V]" if o.sides else o.kind.metavar


def _parameter(o: Row, names: tuple[str, ...]) -> str:
    """A name of its own for each option of click."""
    return f"{o.field}_{names[0].strip('-').replace('-', '_')}"


def _collect(found: Spelling) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Options are handled in the order in which they were typed, so the last one counts."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if ctx.get_parameter_source(str(param.name)) is not ParameterSource.COMMANDLINE:
            return
        wishes = ctx.params.get(WISHES, Wishes())
        many = found.takes and found.option.kind.many and found.side is None
        for one in value if many else (value,):
            wishes = with_this(wishes, found, one if found.takes else found.value)
        ctx.params[WISHES] = wishes

    return callback
