"""``gguftool scan --emit``: one checked configuration for all models of a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from gguftool.cli.options import option
from gguftool.cli.wishes import WISHES, wish_options, wished
from gguftool.errors import UsageError
from gguftool.report.text import safe

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


def emit_options(function: F) -> F:
    """``--emit`` and what goes with it: the options of launch."""
    for decorate in (
        wish_options("scan", LISTED, WITHOUT),
        option("--force", is_flag=True, help="With --emit: also models that `launch` takes only with --force."),
        option(
            "--models-max",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            help="With --emit: models that are loaded at once; each is planned for its share of the machine.",
        ),
        option(
            "--emit",
            type=click.Choice(KINDS),
            help="Print one configuration for all models: for llama-server's router, llama-swap, or a script for"
            " Ollama. Takes the options of launch.",
        ),
    ):
        function = decorate(function)
    return function


def unused() -> None:
    """Refuse options of launch where nothing is emitted.

    Raises:
        UsageError: there are some.
    """
    context = click.get_current_context()
    typed = [
        name for name in ("force", "models_max") if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if WISHES in context.params or typed:
        raise click.UsageError("Options of launch, --force and --models-max are for --emit.")


def run(session: Session, paths: Sequence[str], options: Mapping[str, Any]) -> int:
    """The file on stdout, what is left out on stderr; 1 when no model is in it."""
    from dataclasses import replace

    from gguftool.api.serving import serve_folder
    from gguftool.run.emit.folder import emit_folder
    from gguftool.run.engine import choose, engine_of

    if session.format not in ("text", "json"):
        raise UsageError(f"--format {session.format}: is not made of a configuration", "one of text, json")
    if options["llama_cpp_python"] is not None:
        raise UsageError("--llama-cpp-python: has no router", "--build or --llama-cpp")
    wishes = replace(wished(), server=options["llama_cpp"])
    engine = engine_of(options["build"]) if options["build"] is not None else choose(wishes, printed=True)
    planned = serve_folder(paths, wishes, engine=engine, at_once=options["models_max"], force=options["force"])
    text, found = emit_folder(options["emit"], planned, force=options["force"])
    if session.format == "json":
        import sys

        from gguftool.report.envelope import envelope, write
        from gguftool.report.serving import body

        session.told = True
        write(envelope("scan-emit", bool(found.models), body(options["emit"], found, text)), sys.stdout)
    else:
        session.out(text)
        for one in found.left:
            session.note(f"left out: {safe(one.path)}: {safe(one.why)}")
    return 0 if found.models else 1
