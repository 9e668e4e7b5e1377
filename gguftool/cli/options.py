"""What the commands share: the session, the ``@command`` decorator and the option types.

A command module looks like this::

    @command(examples="gguftool dump model.gguf")
    @model_argument
    @format_option("text", "json")
    @pass_session
    def dump(session: Session, model: str) -> int | None:
        \"\"\"Show metadata, tensors and totals.\"\"\"
        ...
        session.write_json(ok=True, body={...})
        return 0

It returns the exit code (or nothing for 0) and raises `gguftool.errors`; `gguftool.cli.boundary` does the rest.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from gguftool.report.text import Style, safe_lines

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Session:
    """What holds for one call of the program: how much to say, in which format, in colour or not."""

    command: str = "gguftool"
    format: str = "text"
    quiet: bool = False
    verbose: bool = False
    color: str = "auto"

    @property
    def style(self) -> Style:
        """Colours for stdout, as ``--color``, NO_COLOR and the terminal have it."""
        return Style(enabled=wants_color(self.color, sys.stdout))

    def out(self, text: str) -> None:
        """A result: to stdout. Text from files must have gone through `gguftool.report.text.safe`."""
        sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def note(self, text: str) -> None:
        """Something by the way: to stderr, not with ``--quiet``."""
        if not self.quiet:
            sys.stderr.write(f"{text}\n")

    def detail(self, text: str) -> None:
        """Something for the curious: to stderr, only with ``--verbose``."""
        if self.verbose and not self.quiet:
            sys.stderr.write(f"{text}\n")

    def warn(self, text: str) -> None:
        """Something the user should know: to stderr, always."""
        style = Style(enabled=wants_color(self.color, sys.stderr))
        sys.stderr.write(f"{style.yellow('warning:')} {safe_lines(text)}\n")

    def write_json(self, *, ok: bool, body: Mapping[str, object], errors: Iterable[Mapping[str, object]] = ()) -> None:
        """The JSON envelope of this command, to stdout (one line when the format is ``jsonl``)."""
        from gguftool.report.envelope import envelope, write

        write(envelope(self.command, ok, body, errors), sys.stdout, compact=self.format == "jsonl")


pass_session = click.make_pass_decorator(Session, ensure=True)


def wants_color(choice: str, stream: Any) -> bool:
    """Whether to colour what goes to ``stream``, for the value ``choice`` of ``--color``."""
    if choice != "auto":
        return choice == "always"
    # NO_COLOR counts when it is set and not empty (no-color.org).
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and bool(stream.isatty())


class Command(click.Command):
    """A click command with an Examples section, which also takes the session's options after its name."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = textwrap.dedent(examples).strip("\n")
        attach_session_options(self, hidden=True)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples as they were written, then click's epilog."""
        if self.examples:
            with formatter.section("Examples"):
                formatter.write(textwrap.indent(self.examples, "  ") + "\n")
        super().format_epilog(ctx, formatter)


def command(*, examples: str, **attrs: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command of gguftool.

    Args:
        examples: command lines to show in the help, one a line, at least one.
        attrs: further arguments of `click.command`.
    """
    attrs.setdefault("context_settings", {"help_option_names": ["-h", "--help"], "max_content_width": 100})
    return click.command(cls=Command, examples=examples, **attrs)


def _set_session(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value:
        setattr(ctx.ensure_object(Session), str(param.name), value)


def attach_session_options(target: click.Command, *, hidden: bool) -> None:
    """Add ``--quiet``, ``--verbose`` and ``--color``: shown on the group, silently taken by every command."""
    taken = {name for param in target.params for name in param.opts}
    for flags, about, kwargs in (
        (("-q", "--quiet"), "No hints and progress.", {"is_flag": True}),
        (("-v", "--verbose"), "More detail on stderr; tracebacks for bugs.", {"is_flag": True}),
        (("--color",), "Colour the output.", {"type": click.Choice(["auto", "always", "never"])}),
    ):
        free = [flag for flag in flags if flag not in taken]
        if flags[-1] in free:
            target.params.append(
                click.Option(
                    free, help=about, hidden=hidden, expose_value=False, is_eager=True, callback=_set_session, **kwargs
                )
            )


def format_option(*formats: str) -> Callable[[F], F]:
    """``--format``, kept in ``session.format``; the first one is the default."""

    def remember(ctx: click.Context, param: click.Parameter, value: str) -> None:
        ctx.ensure_object(Session).format = value

    # Eager, so that a later option's error already knows the format.
    return click.option(
        "--format",
        type=click.Choice(list(formats)),
        default=formats[0],
        show_default=True,
        is_eager=True,
        expose_value=False,
        callback=remember,
        help="Format of the result on stdout.",
    )


if TYPE_CHECKING:
    ModelParam = click.ParamType[str]
    SizeParam = click.ParamType[int]
    CacheTypesParam = click.ParamType[tuple[str, str]]
else:
    # Generic only since click 8.4.
    ModelParam = SizeParam = CacheTypesParam = click.ParamType


class ModelType(ModelParam):
    """A model as the user names it; kept as text, opened by the library."""

    name = "model"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Let the shell complete file names."""
        return [CompletionItem(incomplete, type="file")]


MODEL = ModelType()


def model_argument(function: F) -> F:
    """One ``MODEL``, as the parameter ``model: str``."""
    return click.argument("model", type=MODEL, metavar="MODEL")(function)


def models_argument(function: F) -> F:
    """One or more ``MODEL``, as the parameter ``models: tuple[str, ...]``."""
    return click.argument("models", type=MODEL, metavar="MODEL...", nargs=-1, required=True)(function)


_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?)(?P<base>i?b)?", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class SizeType(SizeParam):
    """A number of bytes: ``4096``, ``16GiB`` (binary), ``4GB`` (decimal), ``512M``.

    Args:
        bare_base: what a letter alone stands for, 1024 (``G`` is GiB) or 1000 (as llama-gguf-split has it).
    """

    name = "size"

    def __init__(self, bare_base: int = 1024) -> None:
        self.bare_base = bare_base

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes, as an int."""
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(str(value).strip())
        if not match:
            self.fail(f"{value!r} is not a size; write for example 512MiB, 16GiB or 4GB.", param, ctx)
        suffix = (match["base"] or "").lower()
        base = {"ib": 1024, "b": 1000}.get(suffix, self.bare_base)
        power: int = _POWER[match["unit"].lower()]
        return round(float(match["number"]) * float(base**power))


SIZE = SizeType()


class RamType(SizeType):
    """Memory of the host: a size, or ``auto`` for what is free now."""

    name = "ram"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes, as an int."""
        if str(value).strip().lower() != "auto":
            return super().convert(value, param, ctx)
        from gguftool.run.devices import host_memory

        host = host_memory()
        if host is None:
            self.fail("this system does not say how much memory is free; name it, for example 32GiB.", param, ctx)
        return host.free


RAM = RamType()


class CacheTypesType(CacheTypesParam):
    """KV cache types ``K`` or ``K/V``; one name stands for both. Which names exist is the library's business."""

    name = "K[/V]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The pair (type of K, type of V), in lower case."""
        if isinstance(value, tuple):
            return (str(value[0]), str(value[1]))
        parts = [part.strip().lower() for part in str(value).split("/")]
        if len(parts) > 2 or not all(parts):
            self.fail(f"{value!r} is not K or K/V; write for example q8_0 or q8_0/q4_0.", param, ctx)
        return (parts[0], parts[-1])


CACHE_TYPES = CacheTypesType()


class LogFile(click.Path):
    """A file to write a log to. It is made anew, so a model must not bear that name."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path as it is; a usage error for a GGUF file."""
        path = super().convert(value, param, ctx)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                if file.read(4) == b"GGUF":
                    self.fail(f"{value} is a model; a log would take its place", param, ctx)
        return path


LOG = LogFile(dir_okay=False)
