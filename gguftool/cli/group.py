"""The table of commands, and the click group that loads a command only when it is asked for.

``gguftool --help`` prints from the table, so it costs about as much as importing click. To add a command, write
``gguftool/cli/<name>.py`` with a function of the same name decorated with `gguftool.cli.options.command`, and add
a line here.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from gguftool.cli.helped import FEW, Helped, version_option
from gguftool.cli.options import NOTE, Session, attach_session_options
from gguftool.cli.spelled import spellings
from gguftool.report.lines import fold
from gguftool.version import __version__


class Entry:
    """One line of the table: the command's name, its section in the help, and one line about it."""

    __slots__ = ("about", "name", "section")

    def __init__(self, name: str, section: str, about: str) -> None:
        self.name = name
        self.section = section
        self.about = about

    @property
    def module(self) -> str:
        """Name of the module, which is also the name of the function in it."""
        return self.name.replace("-", "_")


TABLE = (
    Entry("dump", "Inspect", "Show metadata, tensors, layout and totals."),
    Entry("diff", "Inspect", "Compare two models: keys, tensors, data."),
    Entry("render", "Inspect", "Show the exact prompt that a chat template makes of a conversation."),
    Entry("report", "Inspect", "Write all that is known of a model as one page to read, send or print."),
    Entry("rules", "Inspect", "List the lint rules, or explain one."),
    Entry("explain", "Inspect", "Say what a metadata key means and who reads it."),
    Entry("lint", "Check", "Check models against the rules; says what llama.cpp will do with them."),
    Entry("verify", "Check", "Check integrity: truncation, shard sets, hashes, tensor data."),
    Entry("compat", "Check", "Show which llama.cpp builds load a model, and what it needs."),
    Entry("push-check", "Check", "Check what is to be published: names, keys, card, hashes; write card and list."),
    Entry("hash", "Check", "Print sha256 of a file, its tensors or its data section."),
    Entry("fix", "Repair", "Edit metadata in place: crash-safe and undoable."),
    Entry("edit", "Repair", "Edit metadata on the whole terminal: what keys mean, findings, preview."),
    Entry("undo", "Repair", "Take the last edit back, byte for byte."),
    Entry("recover", "Repair", "Finish or take back an edit that was interrupted."),
    Entry("split", "Repair", "Split a model into shards without loss."),
    Entry("merge", "Repair", "Join shards into one file without loss."),
    Entry("convert", "Build", "Convert a Hugging Face model to GGUF."),
    Entry("quantize", "Build", "Quantise a model; tells the exact size beforehand."),
    Entry("imatrix", "Build", "Measure, show, check and merge importance matrices."),
    Entry("mix", "Build", "Find the type of each tensor that loses least under a size."),
    Entry("prepare", "Build", "Go the whole way: convert, quantise, fix, lint, verify, plan."),
    Entry("plan", "Run", "Work out memory: weights, KV cache, what context fits."),
    Entry("pull", "Run", "Download a model from the Hub, prove it, lint it, say how to launch it."),
    Entry("launch", "Run", "Start llama-server and check that it does what was planned."),
    Entry("check-log", "Run", "Check a llama-server log against a plan."),
    Entry("kv-test", "Run", "Measure what each KV cache type costs in quality and speed."),
    Entry("quant-test", "Run", "Measure what quantisations lose against their source."),
    Entry("diagnose", "Run", "Find out why a model talks nonsense, never stops, is slow …"),
    Entry("doctor", "Run", "Show what is installed, known traps, and what an error message means."),
    Entry("scan", "Run", "Lint and verify many models."),
    Entry("completion", "Run", "Print the completion script for bash, zsh or fish."),
)
_BY_NAME = {entry.name: entry for entry in TABLE}
OTHER_WORDS = {
    "dump": "show info inspect view cat metadata describe keys",
    "explain": "define",
    "lint": "check validate test",
    "compat": "needs requires builds",
    "verify": "integrity",
    "push-check": "publish-check prepublish",
    "hash": "sha256 sha256sum checksum digest",
    "diff": "compare",
    "render": "prompt apply-template template",
    "report": "page html",
    "fix": "set repair patch modify",
    "undo": "revert rollback",
    "split": "shard",
    "merge": "join concat unsplit",
    "imatrix": "importance calibrate calibration",
    "quantize": "quant quantise compress requantize",
    "mix": "mixture recipe dynamic",
    "prepare": "build",
    "plan": "estimate vram memory size mem",
    "pull": "download get fetch",
    "launch": "serve server run start",
    "check-log": "log logs",
    "kv-test": "kvtest",
    "quant-test": "quanttest kld perplexity ppl",
    "doctor": "health",
    "scan": "ls list",
}
"""Words that people try, by the command they mean."""
_MEANT = {word: name for name, words in OTHER_WORDS.items() for word in words.split()}
_SEND = "Files are published with `hf upload OWNER/REPO FILE`; `gguftool push-check` looks at them before."
_MEASURE = (
    "`gguftool plan MODEL` has the speed to be expected, `gguftool kv-test MODEL` what a cache type costs; "
    "llama-bench of llama.cpp measures the rest."
)
ELSEWHERE = {
    **dict.fromkeys(("upload", "push", "publish"), _SEND),
    **dict.fromkeys(("bench", "benchmark"), _MEASURE),
    "tokenize": "`gguftool render MODEL --messages FILE --tokens` shows the ids of a prompt's tokens.",
    "chat": "`gguftool launch MODEL` starts llama-server, which has a chat page at its address.",
}
"""Words for what another program does."""


def called(word: str) -> str | None:
    """The command that ``word`` names, in any of the forms that people write."""
    plain = word.lower().replace("_", "-")
    return plain if plain in _BY_NAME else _MEANT.get(plain)


def _as_settings(rest: list[str]) -> list[str]:
    """``MODEL KEY VALUE`` and ``MODEL KEY=VALUE``, as other programs have it, in the form of ``fix``."""
    if len(rest) < 2 or any(word.startswith("-") for word in rest[:2]):
        return rest
    if "=" in rest[1]:
        return [rest[0], "--set", *rest[1:]]
    return [rest[0], "--set", "=".join(rest[1:3]), *rest[3:]] if len(rest) > 2 else rest


_OF_EDIT = frozenset("-m --model -h --help -q --quiet -v --verbose --color --no-cache".split())


class LazyGroup(Helped, click.Group):
    """A group whose commands live in modules of their own and are imported on use."""

    _all: list[click.Parameter] | None = None

    @property
    def params(self) -> list[click.Parameter]:
        """``--version`` and the options of the session, made when somebody asks for them."""
        if self._all is None:
            self._all = [version_option()]
            attach_session_options(self, hidden=False)
        return self._all

    @params.setter
    def params(self, own: list[click.Parameter]) -> None:
        """Click sets what decorators left, and this group has no decorated options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it; a command line that begins with its command has no option of the group."""
        if args and args[0][:1] != "-" and not ctx.resilient_parsing:
            ctx.meta[FEW] = []
        try:
            return super().parse_args(ctx, args)
        finally:
            ctx.meta.pop(FEW, None)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, in the order of the table."""
        return list(_BY_NAME)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command called ``cmd_name``, imported now."""
        entry = _BY_NAME.get(cmd_name)
        if entry is None:
            return None
        found = getattr(import_module(f"gguftool.cli.{entry.module}"), entry.module)
        if not isinstance(found, click.Command):
            raise TypeError(f"gguftool.cli.{entry.module}.{entry.module} is not a click command")
        found.name = cmd_name
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it; also for other words, ``help``, ``version``, and a model in a command's place."""
        word = args[0]
        if word.lower() == "edit" and self._is_fix(ctx, args[1:]):
            ctx.meta[NOTE] = "note: with options this is `gguftool fix`"
            args = ["fix", *args[1:]]
        if self.get_command(ctx, word) is None and not word.startswith("-"):
            args = self._meant(ctx, word, args[1:])
        return super().resolve_command(ctx, args)

    def _is_fix(self, ctx: click.Context, rest: list[str]) -> bool:
        """Whether `gguftool edit` was given an option of `fix`, whose other name it was before it was a command."""
        given = {word.partition("=")[0] for word in rest if word.startswith("-")} - _OF_EDIT
        fix = self.get_command(ctx, "fix") if given else None
        return fix is not None and not given.isdisjoint(spellings(fix, click.Context(fix, parent=ctx)))

    def _meant(self, ctx: click.Context, word: str, rest: list[str]) -> list[str]:
        """The command line that was meant, with its command in front."""
        plain = word.lower()
        if plain in ("help", "version"):
            if plain == "help" and rest:
                return [called(rest[0]) or self._meant(ctx, rest[0], [])[0], "--help"]
            if not ctx.resilient_parsing:
                sys.stdout.write(f"{ctx.get_help()}\n" if plain == "help" else f"gguftool {__version__}\n")
                ctx.exit()
        if plain == "set":
            rest = _as_settings(rest)
        if name := called(word):
            if plain.replace("_", "-") != name:
                ctx.meta[NOTE] = f"note: `{word}` is `gguftool {name}`"
            return [name, *rest]
        if plain in ELSEWHERE:
            raise click.UsageError(f"There is no command {word!r}. {ELSEWHERE[plain]}", ctx)
        if "://" in word or plain.endswith(".gguf") or os.path.exists(word):
            overview = [] if rest else ["--overview"]
            ctx.meta[NOTE] = f"note: this is `gguftool {' '.join(['dump', *overview])}`"
            return ["dump", *overview, word, *rest]
        if not ctx.resilient_parsing:
            from gguftool.near import near_names
            from gguftool.shell import gguftool as command

            names = near_names(plain, self.list_commands(ctx), 1, cutoff=0.7)
            near = dict.fromkeys([*names, *(called(other) for other in near_names(plain, [*_BY_NAME, *_MEANT]))])
            guess = f" Did you mean {' or '.join(f'`{command(str(other), *rest)}`' for other in near)}?" if near else ""
            raise click.UsageError(f"There is no command {word!r}.{guess}", ctx)
        return [word, *rest]

    def get_help(self, ctx: click.Context) -> str:
        """As click makes it, and no wider than the terminal."""
        return fold(super().get_help(ctx))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by section, out of the table: no command module is imported for this."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for entry in TABLE:
            sections.setdefault(entry.section, []).append((entry.name, entry.about))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows, col_spacing=3)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Where to start."""
        formatter.write_paragraph()
        formatter.write("`gguftool COMMAND --help` shows a command's options and examples.\n")


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.pass_context
def gguftool(ctx: click.Context) -> None:
    """Inspect, lint, repair, plan and launch GGUF model files.

    MODEL is a .gguf file, any shard of a set, a folder with one model, hf://owner/repo/file.gguf, an https
    address, ollama://name:tag, or what fsspec opens: s3://bucket/file.gguf.
    """
    ctx.ensure_object(Session).command = ctx.invoked_subcommand or "gguftool"
