"""``gguftool quant-test``."""

from __future__ import annotations

import click

from gguftool.cli.engines import engine_options
from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.values import MODEL, SIZE, CountType
from gguftool.report.text import safe


@command(
    examples="""
    gguftool quant-test model-f16.gguf model-Q4_K_M.gguf
    gguftool quant-test --against model-bf16.gguf Q4_K_M.gguf Q5_K_M.gguf Q6_K.gguf
    gguftool quant-test model-f16.gguf Q4_K_M.gguf --text wiki.test.raw --tokens 65536
    gguftool quant-test model-f16.gguf Q4_K_M.gguf Q6_K.gguf --plot loss.svg
    """
)
@click.argument("files", type=MODEL, metavar="[SOURCE] FILE...", nargs=-1, required=True)
@option("--against", type=MODEL, metavar="SOURCE", help="The source; then all FILEs are quantisations.")
@option("--text", type=click.Path(dir_okay=False), help="Text to read (default: pages of a well-known book).")
@option("--tokens", type=CountType(16), metavar="N", default=1024, show_default=True, help="Tokens to read.")
@option("--chunk", type=CountType(16), metavar="N", default=512, show_default=True, help="Tokens of context.")
@option("-t", "--threads", type=click.IntRange(min=1), metavar="N", help="Threads for computing.")
@option("--ram", type=SIZE, metavar="SIZE", help="Memory that may be used (default: what is free).")
@engine_options
@option("--plot", type=click.Path(), metavar="FILE.svg", help="Draw size against divergence.")
@format_option("text", "json")
@pass_session
def quant_test(session: Session, /, files: tuple[str, ...], against: str | None, **options: object) -> int:
    """Measure what quantisations of a model lose against SOURCE, the model they were made of; and say which to take.

    All read the same text with the real llama.cpp: how far their predictions are from the source's (Kullback-Leibler
    divergence), perplexity, how often the first choice is the same. Exit code 1 when the source itself is broken.
    """
    from gguftool.errors import UsageError
    from gguftool.hub import on_this_machine
    from gguftool.report import quanttest as report
    from gguftool.report.plot import check_svg, save
    from gguftool.run.known import BROKEN
    from gguftool.run.quanttest import quant_test as measure
    from gguftool.shell import gguftool, path_word

    source, others = (against, files) if against is not None else (files[0], files[1:])
    if not others:
        raise UsageError(f"there is nothing to hold against {source}", "name the source first, then its quantisations")
    plot = options["plot"]
    if plot is not None:
        check_svg(str(plot))
    ram = options["ram"]
    tested = measure(
        on_this_machine(source), [on_this_machine(one) for one in others],
        text=None if options["text"] is None else str(options["text"]), tokens=int(str(options["tokens"])),
        chunk=int(str(options["chunk"])), threads=int(str(options["threads"])) if options["threads"] else None,
        timeout=float(str(options["timeout"])), engine=str(options["engine"]),
        llama_cpp=None if options["llama_cpp"] is None else str(options["llama_cpp"]),
        ram=int(str(ram)) if ram is not None else None, tell=session.status(),
    )  # fmt: skip
    if plot is not None:
        save(str(plot), report.svg(tested))
        session.note(f"wrote {safe(str(plot))}")
    broken = tested.reference.verdict == BROKEN
    if broken:
        session.note(f"hint: {gguftool('diagnose', path_word(source))}")
    if session.format == "json":
        session.write_json(ok=not broken, body=report.json_body(tested))
    else:
        session.out("\n".join(report.lines(tested, session.style)))
    return 1 if broken else 0
