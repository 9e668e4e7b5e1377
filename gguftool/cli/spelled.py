"""Options that answer to several names, and what to say of one that a command does not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from gguftool.cli.helped import Plain
from gguftool.cli.names import HALVES, of_llama_cpp, others, resembling, same_notion
from gguftool.cli.values import CACHE_TYPES

JSON = "--json"
PAIR = "--cache-type"

F = TypeVar("F", bound=Callable[..., Any])


class Option(Plain):
    """An option that shows one name and answers to others, see `gguftool.cli.names`.

    Args:
        aliases: further spellings, those of this command alone.
    """

    def __init__(self, *args: Any, aliases: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.shown: tuple[str, ...] = tuple(self.opts)
        # A flag with a counterpart (--this/--that) has no other names: nobody could tell which of the two they are.
        wanted = aliases if self.secondary_opts else (*others(self.shown), *aliases)
        self.opts = list(dict.fromkeys((*self.shown, *wanted)))

    @property
    def name_shown(self) -> str:
        """The one name to tell people: the first long one."""
        return next((name for name in self.shown if name.startswith("--")), self.shown[0])

    @property
    def spellings(self) -> list[str]:
        """Everything the parser takes for it."""
        return [*self.opts, *self.secondary_opts]

    def without(self, taken: set[str]) -> None:
        """Leave names to the options that show them."""
        self.opts = [name for name in self.opts if name in self.shown or name not in taken]

    def _as_shown(self) -> click.Option:
        import copy

        twin = copy.copy(self)
        twin.opts = list(self.shown)
        return twin

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The help line, with the name that is shown."""
        return click.Option.get_help_record(self._as_shown(), ctx)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """What an error calls it."""
        return click.Option.get_error_hint(self._as_shown(), ctx)  # type: ignore[arg-type, unused-ignore]


class Further(click.Option):
    """Stands for options that are made when somebody asks for one, or for all: making a hundred takes a millisecond."""

    def __init__(self, names: Sequence[str], make: Callable[[], Sequence[click.Parameter]]) -> None:
        self.make = make


def further(make: Callable[[], Sequence[click.Parameter]]) -> Callable[[F], F]:
    """Options of a command that ``make`` makes, in the order of the help; none of them may be required."""
    return click.option(cls=Further, make=make)


class CacheTypeOption(Option):
    """``--cache-type K[/V]``, and llama.cpp's two halves of it: ``-ctk K``, ``-ctv V``.

    One half alone leaves the other as it was named, else at f16, which is what llama.cpp does.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.opts += [name for names in HALVES.values() for name in names]

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """The halves have places of their own in what the parser brings."""
        super().add_to_parser(parser, ctx)
        for half, names in HALVES.items():
            parser.add_option(obj=self, opts=names, dest=f"{self.name}.{half}", action="store", nargs=1)

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        """Put the halves together."""
        halves = [opts.get(f"{self.name}.{half}") for half in HALVES]
        given = [half for half in halves if half is not None]
        if not given:
            return super().consume_value(ctx, opts)
        whole = opts.get(str(self.name))
        # Several pairs (kv-test): the halves are one more.
        if whole and "," in whole:
            self.type.fail(f"{whole}: several pairs, beside {' '.join(given)}", self, ctx)
        pair = CACHE_TYPES.convert(whole, self, ctx) if whole else ("f16", "f16")
        for half in given:
            if not half or "/" in half or "," in half:
                self.type.fail(f"{half!r} is not one type; -ctk and -ctv take one each", self, ctx)
        types = [part if half is None else half for half, part in zip(halves, pair, strict=True)]
        return "/".join(types), ParameterSource.COMMANDLINE


class FormatOption(Option):
    """``--format``, and ``--json`` for the format that everybody asks for."""

    @property
    def spellings(self) -> list[str]:
        """Everything the parser takes for it."""
        return [*super().spellings, JSON]

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """The flag is a constant of the same place."""
        super().add_to_parser(parser, ctx)
        parser.add_option(obj=self, opts=[JSON], dest=self.name, action="store_const", const="json")


def option(*names: str, aliases: Sequence[str] = (), **attrs: Any) -> Callable[[F], F]:
    """``click.option`` that also answers to the other spellings of its name.

    Args:
        names: as for click: the names that the help shows, and the parameter's name.
        aliases: spellings beside those of `gguftool.cli.names.SPELLINGS`; they work, and no help shows them.
        attrs: further arguments of `click.option`.
    """
    attrs.setdefault("cls", CacheTypeOption if PAIR in names else Option)
    return click.option(*names, aliases=aliases, **attrs)


def spellings(command: click.Command, ctx: click.Context) -> dict[str, str]:
    """Every spelling that ``command`` takes, and the name it shows for it."""
    out: dict[str, str] = {}
    for param in command.get_params(ctx):
        if isinstance(param, Option):
            out.update(dict.fromkeys(param.spellings, param.name_shown))
            out.update({name: name for name in (*param.shown, *param.secondary_opts) if name.startswith("--")})
        elif isinstance(param, click.Option):
            out.update({name: name for name in (*param.opts, *param.secondary_opts)})
    # The halves may be options of their own (launch, plan), which no help shows.
    whole = out.get(PAIR)
    return out | ({name: whole for names in HALVES.values() for name in names if name in out} if whole else {})


def refuse_run_together(ctx: click.Context, args: Sequence[str], spelled: Mapping[str, str]) -> None:
    """Not let ``-ot``, which is llama.cpp's, pass for ``-o t``, nor ``-output`` for ``-o utput``."""
    for word in args:
        name = word.partition("=")[0]
        if word == "--":
            return
        cut_up = len(name) > 2 and name[0] == "-" != name[1] and name not in spelled and name[:2] in spelled
        if cut_up and (f"-{name}" in spelled or of_llama_cpp(name)):
            raise no_such_option(name, ctx, spelled)


def no_such_option(name: str, ctx: click.Context, spelled: Mapping[str, str]) -> click.UsageError:
    """What the word was meant to be: here, in another command, or as a slip."""
    notion = same_notion(name)
    here = dict.fromkeys(shown for word, shown in spelled.items() if word in notion)
    more = ""
    if not here and (elsewhere := _commands_with(notion, ctx)):
        more = f" It is an option of {', '.join(elsewhere)}."
    elif not here and of_llama_cpp(name):
        more = " It is llama-server's: `gguftool launch MODEL -- …` hands it on."
    elif near := list(here) or resembling(name, spelled):
        more = f" Did you mean {' or '.join(f'`{other}`' for other in near)}?"
    return click.UsageError(f"No such option: {name}.{more}", ctx)


def _commands_with(notion: frozenset[str], ctx: click.Context) -> list[str]:
    """Commands beside this one that take one of these names."""
    above = ctx.parent
    if above is None or not isinstance(above.command, click.Group):
        return []
    found = []
    for name in above.command.list_commands(above):
        other = above.command.get_command(above, name)
        if other is not None and not notion.isdisjoint(spellings(other, click.Context(other, parent=above))):
            found.append(f"`gguftool {name}`")
    return found
