"""What the commands share: the session, the ``@command`` decorator and ``@option``.

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
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from gguftool.cli.helped import FEW, Helped, Plain
from gguftool.cli.names import as_known
from gguftool.cli.spelled import FormatOption, Further, no_such_option, refuse_run_together, spellings
from gguftool.cli.spelled import Option as Option
from gguftool.cli.spelled import option as option
from gguftool.cli.values import MODEL
from gguftool.records import dataclass
from gguftool.report.lines import cleared, fold, terminal_columns
from gguftool.report.text import Style, safe_lines

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

NOTE = "gguftool.note"
"""Where the group leaves a word about the command line for the command to say, once ``--quiet`` is known."""

F = TypeVar("F", bound=Callable[..., Any])
COMMANDLINE = ParameterSource.COMMANDLINE


@dataclass(slots=True)
class Session:
    """What holds for one call of the program: how much to say, in which format, in colour or not.

    ``done`` says what the command has changed for good, and ``done_code`` with which exit code it ends then: where the
    report cannot be written, that is what counts. ``words`` are those of the command line. ``told``: the JSON object is
    written, or as much of it as could be.
    """

    command: str = "gguftool"
    format: str = "text"
    quiet: bool = False
    verbose: bool = False
    color: str = "auto"
    done: str | None = None
    done_code: int = 0
    words: tuple[str, ...] = ()
    told: bool = False

    @property
    def style(self) -> Style:
        """Colours for stdout, as ``--color``, NO_COLOR and the terminal have it."""
        return Style(enabled=wants_color(self.color, sys.stdout))

    def did(self, what: str, code: int = 0) -> None:
        """Work is done that stays; say so before the report is written. ``code``: the exit code that goes with it."""
        self.done = f"{self.done}; {what}" if self.done else what
        self.done_code = max(self.done_code, code)

    def out(self, text: str, *, whole: bool = False) -> None:
        """A result: to stdout. Text from files must have gone through `gguftool.report.text.safe`.

        Args:
            text: lines for people; too wide ones are folded on a terminal.
            whole: it is for a program or a file, and stays as it is.
        """
        cleared()
        text = text if whole or self.format != "text" else fold(text)
        sys.stdout.write(text)
        if not text.endswith("\n"):
            # Not joined: some texts have many megabytes.
            sys.stdout.write("\n")

    def note(self, text: str) -> None:
        """Something by the way: to stderr, not with ``--quiet``."""
        if not self.quiet:
            sys.stderr.write(f"{for_stderr(text)}\n")

    def detail(self, text: str) -> None:
        """Something for the curious: to stderr, only with ``--verbose``."""
        if self.verbose and not self.quiet:
            sys.stderr.write(f"{for_stderr(text)}\n")

    def status(self) -> Callable[[str], None]:
        """A line on stderr that what follows writes over, if that is a terminal; gone before anything else is said."""
        if self.quiet or not sys.stderr.isatty():
            return lambda text: None
        from gguftool.report.progress import Status

        return Status(sys.stderr)

    def warn(self, text: str) -> None:
        """Something the user should know: to stderr, always."""
        style = Style(enabled=wants_color(self.color, sys.stderr))
        sys.stderr.write(for_stderr(f"{style.yellow('warning:')} {safe_lines(text)}") + "\n")

    def write_json(self, *, ok: bool, body: Mapping[str, object], errors: Iterable[Mapping[str, object]] = ()) -> None:
        """The JSON envelope of this command, to stdout (one line when the format is ``jsonl``)."""
        from gguftool.report.envelope import envelope, write

        found = envelope(self.command, ok, body, errors)
        cleared()
        self.told = True
        write(found, sys.stdout, compact=self.format == "jsonl")


pass_session = click.make_pass_decorator(Session, ensure=True)


def for_stderr(text: str) -> str:
    """``text`` as stderr shows it: folded where that is a terminal, and no progress line before it."""
    cleared()
    most = terminal_columns(sys.stderr)
    return text if most is None else fold(text, most)


def wants_color(choice: str, stream: Any) -> bool:
    """Whether to colour what goes to ``stream``, for the value ``choice`` of ``--color``."""
    if choice != "auto":
        return choice == "always"
    said = os.environ.get
    # NO_COLOR counts when it is set and not empty (no-color.org), and before the others, as in Python 3.13.
    if said("NO_COLOR"):
        return False
    if any(said(name) not in (None, "", "0", "false") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return said("TERM") != "dumb" and said("CLICOLOR") != "0" and bool(stream.isatty())


class Command(Helped):
    """A click command with an Examples section, which also takes the session's options after its name."""

    def __init__(self, *args: Any, examples: str = "", words_for: str = "", **kwargs: Any) -> None:
        self._all: list[click.Parameter] | None = None
        super().__init__(*args, **kwargs)
        self.words_for = words_for
        self._examples = examples

    @property
    def params(self) -> list[click.Parameter]:
        """All parameters, those of the session and those that are made late included."""
        if self._all is None:
            self._all = [
                one for param in self._own for one in (param.make() if isinstance(param, Further) else (param,))
            ]
            attach_session_options(self, hidden=True)
            taken = {
                name for param in self._all for name in getattr(param, "shown", (*param.opts, *param.secondary_opts))
            }
            for param in self._all:
                if isinstance(param, Option):
                    param.without(taken)
                    taken.update(param.opts)
        return self._all

    @params.setter
    def params(self, own: list[click.Parameter]) -> None:
        self._own, self._all = own, None

    def _enough(self, args: Sequence[str]) -> list[click.Parameter] | None:
        """The parameters of the command itself, where the words name no other option: most command lines do not.

        None where they name another one, or one by a name that the help does not show.
        """
        if type(self) is not Command:
            return None
        few = [param for param in self._own if not isinstance(param, Further)]
        options = [param for param in few if isinstance(param, Option)]
        shown = {name for param in options for name in (*param.shown, *param.secondary_opts)}
        named = (word.partition("=")[0] for word in args if word[:1] == "-")
        if not shown.issuperset(named):
            return None
        # Some answer to a name that another one shows: --force of `fix` would be what --yes is taken for.
        for param in options:
            param.without(shown)
        return few

    @property
    def examples(self) -> str:
        """Command lines for the help, one a line."""
        import textwrap

        return textwrap.dedent(self._examples).strip("\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it; what is unknown is looked up among all names there are."""
        few = None if ctx.resilient_parsing else self._enough(args)
        if few is None:
            spelled = spellings(self, ctx)
            first = next((param for param in self.params if isinstance(param, click.Argument)), None)
            args = as_known(args, spelled.__contains__, model=first is not None and first.type is MODEL)
            if not ctx.resilient_parsing:
                refuse_run_together(ctx, args, spelled)
        try:
            ctx.meta[FEW] = few
            # click's parser eats the list it is given.
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as error:
            name = error.option_name
            # Of -xyz click names -x, the first letter that is no option.
            if len(name) == 2:
                typed = (arg.partition("=")[0] for arg in args if arg[:1] == "-" != arg[1:2] and name[1] in arg)
                name = next(typed, name)
            raise no_such_option(name, ctx, spellings(self, ctx)) from None
        except click.UsageError as error:
            if self.words_for and "unexpected extra" in error.message:
                raise click.UsageError(f"{error.message}.{self._quoted(args)}", ctx) from None
            raise
        finally:
            ctx.meta.pop(FEW, None)

    def _quoted(self, args: list[str]) -> str:
        """The command line that was meant by words typed without an option and without quotes."""
        from gguftool.shell import gguftool

        if any(arg.startswith("-") for arg in args):
            return f" Words go behind {self.words_for}, in quotes."
        models = args[:1] if os.path.exists(args[0]) or "://" in args[0] else []
        meant = gguftool(str(self.name), *models, self.words_for, " ".join(args[len(models) :]))
        return f" Did you mean `{meant}`?"

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; first say which it is, when it was called by another word."""
        if note := ctx.meta.pop(NOTE, None):
            ctx.ensure_object(Session).note(note)
        return super().invoke(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """What click offers, without the names that no help shows; those only where no other goes on from the word."""
        from click.shell_completion import CompletionItem

        ours = [p for p in self.get_params(ctx) if isinstance(p, Option)]
        hidden = {name for p in ours for name in p.opts if name not in p.shown}
        found = [item for item in super().shell_complete(ctx, incomplete) if item.value not in hidden]
        if found or not incomplete.startswith("-"):
            return found
        free = [p for p in ours if p.multiple or ctx.get_parameter_source(str(p.name)) is not COMMANDLINE]
        names = {name: p.name_shown for p in free for name in p.spellings if name.startswith(incomplete)}
        return [CompletionItem(name, help=shown) for name, shown in names.items()]

    def get_help(self, ctx: click.Context) -> str:
        """As click makes it; examples are folded on a terminal, too."""
        return fold(super().get_help(ctx))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples as they were written, then click's epilog."""
        if self.examples:
            import textwrap

            with formatter.section("Examples"):
                formatter.write(textwrap.indent(self.examples, "  ") + "\n")
        super().format_epilog(ctx, formatter)


def command(*, examples: str, words_for: str = "", **attrs: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command of gguftool.

    Args:
        examples: command lines to show in the help, one a line, at least one.
        words_for: the option that words without one are for; it is told, when somebody types them.
        attrs: further arguments of `click.command`.
    """
    attrs.setdefault("context_settings", {"help_option_names": ["-h", "--help"], "max_content_width": 100})
    attrs.setdefault("cls", Command)
    if words_for:
        attrs["words_for"] = words_for
    return click.command(examples=examples, **attrs)


def _set_session(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value:
        setattr(ctx.ensure_object(Session), str(param.name), value)


def _without_cache(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """For this command and the processes it starts, headers of files on servers are not kept and not taken."""
    if value and not ctx.resilient_parsing:
        from gguftool.hub.headers import OFF, VARIABLE

        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = OFF[0]
        ctx.call_on_close(lambda: os.environ.update({VARIABLE: before or ""}))


def attach_session_options(target: click.Command, *, hidden: bool) -> None:
    """Add ``--quiet``, ``--color`` and the like: shown on the group, silently taken by every command."""
    taken = {name for param in target.params for name in param.opts}
    rows: tuple[tuple[tuple[str, ...], str, dict[str, Any]], ...] = (
        (("-q", "--quiet"), "No hints and progress.", {"is_flag": True}),
        (("-v", "--verbose"), "More detail on stderr; tracebacks for bugs.", {"is_flag": True}),
        (("--color",), "Colour the output.", {"type": click.Choice(["auto", "always", "never"])}),
        (("--no-cache",), "Headers from servers: anew.", {"is_flag": True, "callback": _without_cache}),
    )
    for flags, about, kwargs in rows:
        free = [flag for flag in flags if flag not in taken]
        if flags[-1] in free:
            target.params.append(
                Plain(
                    free,
                    help=about,
                    hidden=hidden,
                    expose_value=False,
                    is_eager=True,
                    **{"callback": _set_session, **kwargs},
                )
            )


def format_option(*formats: str) -> Callable[[F], F]:
    """``--format``, kept in ``session.format``; the first one is the default."""

    def remember(ctx: click.Context, param: click.Parameter, value: str) -> None:
        ctx.ensure_object(Session).format = value

    # Eager, so that a later option's error already knows the format.
    return option(
        "--format",
        type=click.Choice(list(formats)),
        cls=FormatOption,
        default=formats[0],
        show_default=True,
        is_eager=True,
        expose_value=False,
        callback=remember,
        help="Format of the result on stdout.",
    )


def model_argument(function: F) -> F:
    """One ``MODEL``, as the parameter ``model: str``."""
    return click.argument("model", type=MODEL, metavar="MODEL")(function)


def models_argument(function: F) -> F:
    """One or more ``MODEL``, as the parameter ``models: tuple[str, ...]``."""
    return click.argument("models", type=MODEL, metavar="MODEL...", nargs=-1, required=True)(function)
