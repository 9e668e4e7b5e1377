"""``--help`` and ``--version``: options that show something, and nothing else is done.

They are click's own but for this: click asks for a translation of each of their sentences, and looking for one that is
not there takes longer than reading the command line.
"""

from __future__ import annotations

from typing import Any

import click

from gguftool.version import __version__


class Plain(click.Option):
    """An option whose help is taken as it is written: click has it cleaned by `inspect`, which takes 4 ms to load."""

    def __init__(self, *args: Any, help: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = help


FEW = "gguftool.few"
"""Where the parameters stand that are enough for the command line that is read at the moment."""


class Helped(click.Command):
    """A command with such a ``--help``."""

    _help: click.Option | None = None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """As click has them; while a command line is read, those that are enough for it."""
        few: list[click.Parameter] | None = ctx.meta.get(FEW)
        return super().get_params(ctx) if few is None else few

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """The option, made once: click tells options apart by what they are, not by their names."""
        names = self.get_help_option_names(ctx)
        if not names or not self.add_help_option:
            return None
        if self._help is None:
            # Under a name of its own, for a command may have a parameter that is called help.
            self._help = _shown([*names, "_help"], "Show this message and exit.", _help)
        return self._help


def version_option() -> click.Option:
    """``-V``, ``--version``."""
    return _shown(["-V", "--version"], "Show the version and exit.", _version)


def _shown(names: list[str], about: str, callback: Any) -> click.Option:
    return Plain(names, help=about, is_flag=True, expose_value=False, is_eager=True, callback=callback)


def _help(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"gguftool {__version__}", color=ctx.color)
        ctx.exit()
