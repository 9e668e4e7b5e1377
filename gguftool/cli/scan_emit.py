"""``gguftool scan --emit``: one checked configuration for all models of a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from gguftool.cli.options import Command, option
from gguftool.errors import UsageError

if TYPE_CHECKING:
    from gguftool.cli.options import Session

F = TypeVar("F", bound=Callable[..., Any])
KINDS = ("preset", "llama-swap", "ollama")
LISTED = frozenset({"ctx", "cache_type", "vram", "ram", "parallel", "host", "port", "api_key_file"})
"""Fields of `Wishes` whose options the help of scan lists; the others of launch are taken, too."""
WITHOUT = frozenset((
    "server", "engine", "smoke", "watch", "strict", "timeout", "log", "against", "alias", "mmproj", "draft", "lora",
    "lora_scaled", "control_vector", "control_vector_scaled",
))  # fmt: skip
"""Those that are about one model or one start, or that scan has in a form of its own."""
_EMIT = "--emit"
_WANTED = "gguftool.cli.scan_emit"
"""In the context of a call: the options of launch belong to it."""


class ScanCommand(Command):
    """Has the options of launch where something is emitted, and in its help: a scan starts without them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As every command of gguftool."""
        ctx.meta[_WANTED] = any(word == _EMIT or word.startswith(f"{_EMIT}=") for word in args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """With all options."""
        ctx.meta[_WANTED] = True
        super().format_help(ctx, formatter)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Those of the call."""
        own = super().get_params(ctx)
        if not ctx.meta.get(_WANTED):
            return own
        taken = {name for p in own for name in (*getattr(p, "shown", p.opts), *p.secondary_opts)}
        return [*own[:-1], *_wishes(frozenset(taken)), own[-1]]


@cache
def _wishes(taken: frozenset[str]) -> tuple[click.Parameter, ...]:
    """The options of launch, but for names that are taken."""
    from gguftool.cli.wishes import made

    found = made("scan", LISTED, WITHOUT)
    names = set(taken)
    for param in found:
        param.without(names)
        names.update(param.opts)
    return tuple(found)


def emit_options(function: F) -> F:
    """``--emit`` and what goes with it alone."""
    for decorate in (
        option("--force", is_flag=True, help="With --emit: also models that `launch` takes only with --force."),
        option(
            "--models-max",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            help="With --emit: models that are loaded at once; each is planned for its share of the machine.",
        ),
        option(
            _EMIT,
            type=click.Choice(KINDS),
            help="Print one configuration for all models: for llama-server's router, llama-swap, or a script for"
            " Ollama. Takes the options of launch.",
        ),
    ):
        function = decorate(function)
    return function


_PACE = ("settle", "patience", "every", "for")
ALONE = {
    "--emit": (
        "jobs", "resume", "no_lint", "fail_on", "select", "ignore", "policy", "baseline", "no_hash", "hash",
        "statistics", "output_file", "metrics", *_PACE,
    ),
    "--stores": (
        "include", "exclude", "baseline", "no_hash", "force", "models_max", "statistics", "output_file", "metrics",
        *_PACE,
    ),
    "--watch": (
        "fail_on", "baseline", "no_hash", "force", "models_max", "hash", "statistics", "output_file",
    ),
    "": ("force", "models_max", "hash", *_PACE),
}  # fmt: skip
"""Way of scanning -> parameters that mean nothing there; "" of rows."""


def unused(way: str) -> None:
    """Refuse what means nothing where it was typed.

    Args:
        way: key of `ALONE`.

    Raises:
        UsageError: there is some.
    """
    context = click.get_current_context()
    for name in ALONE[way]:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            owner = next(other for other in ALONE if name not in ALONE[other])
            here = f"does nothing with {way}" if way else f"is for {owner}"
            raise click.UsageError(f"--{name.replace('_', '-')} {here}.")


def run(session: Session, paths: Sequence[str], options: Mapping[str, Any]) -> int:
    """The file on stdout, what is left out on stderr; 1 when no model is in it."""
    from gguftool.api.serving import serve_folder
    from gguftool.cli.wishes import wished
    from gguftool.records import replace
    from gguftool.run.emit.folder import emit_folder
    from gguftool.run.engine import choose, engine_of

    if session.format not in ("text", "json"):
        raise UsageError(f"--format {session.format}: is not made of a configuration", "one of text, json")
    if options["llama_cpp_python"] is not None:
        raise UsageError("--llama-cpp-python: has no router", "--build or --llama-cpp")
    wishes = replace(wished(), server=options["llama_cpp"])
    engine = engine_of(options["build"]) if options["build"] is not None else choose(wishes, printed=True)
    config = options["config"]
    planned = serve_folder(
        paths,
        wishes,
        engine=engine,
        at_once=options["models_max"],
        force=options["force"],
        include=options["include"] or config.include,
        exclude=(*config.exclude, *options["exclude"]),
    )
    text, found = emit_folder(options["emit"], planned, force=options["force"])
    if session.format == "json":
        import sys

        from gguftool.report.envelope import envelope, write
        from gguftool.report.serving import body

        session.told = True
        write(envelope("scan-emit", bool(found.models), body(options["emit"], found, text)), sys.stdout)
    else:
        session.out(text, whole=True)
        from gguftool.report.text import safe

        for one in found.left:
            session.note(f"left out: {safe(one.path)}: {safe(one.why)}")
    return 0 if found.models else 1
