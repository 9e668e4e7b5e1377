"""``gguftool kv-test``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gguftool.cli.engines import engine_options
from gguftool.cli.options import Session, command, format_option, model_argument, option, pass_session
from gguftool.cli.values import COUNT, CountType
from gguftool.report.text import safe

if TYPE_CHECKING:
    from gguftool.facts.arch import Hparams


@command(
    examples="""
    gguftool kv-test model.gguf
    gguftool kv-test model.gguf --cache-type q8_0,q8_0/q4_0,q4_0
    gguftool kv-test model.gguf --chunk 8192 --tokens 32768 --text book.txt
    gguftool kv-test model.gguf --plot types.svg
    """
)
@model_argument
@option(
    "--cache-type",
    "types",
    aliases=("--types",),
    metavar="K[/V],...",
    help="Cache types to try (default: all that llama.cpp has).",
)
@option("--text", type=click.Path(dir_okay=False), help="Text to read (default: pages of a well-known book).")
@option("--tokens", type=CountType(16), metavar="N", default=512, show_default=True, help="Tokens to read.")
@option(
    "--chunk",
    type=CountType(16),
    metavar="N",
    default=512,
    show_default=True,
    help="Tokens of context: long ones tell more.",
)
@option("-c", "--ctx", type=COUNT, metavar="N", help="Context the memory is given for (or the file's).")
@option("-t", "--threads", type=click.IntRange(min=1), metavar="N", help="Threads for computing.")
@engine_options
@option("--plot", type=click.Path(), metavar="FILE.svg", help="Draw memory against divergence.")
@format_option("text", "json")
@pass_session
def kv_test(session: Session, /, model: str, **options: object) -> int:
    """Measure what each KV cache type costs for MODEL: memory, quality against f16, speed; and say which to take.

    Exit code 1 when the model itself is broken: then nothing is said about its cache.
    """
    from gguftool.cli.opened import open_for
    from gguftool.errors import UsageError
    from gguftool.hub import on_this_machine
    from gguftool.model.role import only_runnable
    from gguftool.report import kvtest as report
    from gguftool.report.plot import check_svg, save
    from gguftool.run.known import BROKEN
    from gguftool.run.kvtest import TYPES
    from gguftool.run.kvtest import kv_test as measure
    from gguftool.shell import gguftool, path_word

    plot = options["plot"]
    if plot is not None:
        check_svg(str(plot))
    with open_for(session, on_this_machine(model)) as m:
        only_runnable(m)
        hp = m.arch
        if not _keeps_cache(hp):
            raise UsageError(f"{model}: a {hp.arch} model keeps no KV cache, so its type costs nothing")
        wanted = _types(str(options["types"])) if options["types"] else TYPES
        tested = measure(
            m, wanted, text=_text(options["text"]), tokens=_int(options["tokens"]), chunk=_int(options["chunk"]),
            threads=_int(options["threads"]) or None, timeout=float(str(options["timeout"])),
            engine=str(options["engine"]), llama_cpp=_text(options["llama_cpp"]), tell=session.status(),
        )  # fmt: skip
    context = _int(options["ctx"]) or hp.context_length or tested.chunk
    planned = {r.name: _bytes(hp, context, r.type_k, r.type_v) for r in tested.results}
    if plot is not None:
        save(str(plot), report.svg(tested, planned, context, model.rsplit("/", 1)[-1]))
        session.note(f"wrote {safe(str(plot))}")
    broken = tested.reference.verdict == BROKEN
    if broken:
        session.note(f"hint: {gguftool('diagnose', path_word(model))}")
    if session.format == "json":
        session.write_json(ok=not broken, body=report.json_body(tested, planned, context))
    else:
        session.out("\n".join(report.lines(tested, planned, context, session.style)))
    return 1 if broken else 0


def _types(text: str) -> tuple[tuple[str, str], ...]:
    from gguftool.facts.cachetypes import parse

    return tuple(parse(part) for part in text.split(","))


def _bytes(hp: Hparams, context: int, type_k: str, type_v: str) -> int:
    """Bytes of cache and state with one slot."""
    from gguftool.memory.kv import kv_cache
    from gguftool.memory.settings import Settings

    return kv_cache(hp, Settings(context, type_k, type_v)).bytes


def _keeps_cache(hp: Hparams) -> bool:
    from gguftool.memory.kv import kv_cache
    from gguftool.memory.settings import Settings

    # A file without layers is broken in another way, which llama.cpp says better.
    return not hp.block_count or bool(kv_cache(hp, Settings(hp.context_length or 512)).caches)


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _text(value: object) -> str | None:
    return None if value is None else str(value)
