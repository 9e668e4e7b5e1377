"""``gguftool mix``: which tensor gets which type, so that a file of a given size loses least."""

from __future__ import annotations

import click

from gguftool.cli.options import Session, command, format_option, model_argument, option, pass_session
from gguftool.cli.values import CountType


@command(
    examples="""
    gguftool mix model-f16.gguf --target 4.5bpw
    gguftool mix model-f16.gguf --target Q4_K_M --imatrix imatrix.gguf
    gguftool mix model-f16.gguf --target 90MiB --output model-90.gguf
    gguftool mix model-f16.gguf --target 5bpw --types k,legacy --save types.txt
    gguftool mix model-f16.gguf --target 5bpw --text book.txt --tensor-type output=q8_0
    """
)
@model_argument
@option(
    "--target",
    default="Q4_K_M",
    show_default=True,
    metavar="SIZE",
    help="Most it may take: 4.5bpw, 90MiB, or a quantisation: the size of llama.cpp's own.",
)
@option("-o", "--output", type=click.Path(), metavar="OUT", help="Quantise at once, with the built-in quantiser.")
@option("--save", type=click.Path(), metavar="FILE", help="Write the types for --tensor-type-file.")
@option("--types", metavar="TYPE,…", help="Types to choose from, or families: legacy, k, iq, float.")
@option(
    "--least", type=click.FloatRange(0, 16), metavar="BITS", default=0.0, help="Bits a weight no tensor goes below."
)
@option("--tensor-type", "fixed", multiple=True, metavar="NAME=TYPE", help="Type of tensors like NAME, as you want it.")
@option("--imatrix", type=click.Path(), metavar="FILE", help="Importance matrix; errors are weighted with it.")
@option(
    "--sensitivity",
    metavar="HOW",
    default="auto",
    show_default=True,
    help="measured, usual, auto, or FILE: the JSON of an earlier run.",
)
@option("--text", type=click.Path(dir_okay=False), metavar="FILE", help="Text to measure on (default: a known book).")
@option(
    "--tokens", type=CountType(64), metavar="N", default=1024, show_default=True, help="Tokens read for each group."
)
@option(
    "--bands",
    type=click.IntRange(1, 1000),
    metavar="N",
    default=6,
    show_default=True,
    help="Stretches of layers that are told apart.",
)
@option("--timeout", type=click.FloatRange(min=1), default=3600, show_default=True, help="Seconds it may measure.")
@option("--allow-requantize", is_flag=True, help="Take a source that is quantised already; it loses quality twice.")
@option("-t", "--threads", type=click.IntRange(min=1), metavar="N", help="Threads; all cores when left out.")
@option("--overwrite", is_flag=True, help="Replace OUT when it exists.")
@option("--no-provenance", is_flag=True, help="Do not write the gguftool.* keys that say how it was made.")
@format_option("text", "json")
@pass_session
def mix(
    session: Session,
    model: str,
    target: str,
    output: str | None,
    save: str | None,
    types: str | None,
    least: float,
    fixed: tuple[str, ...],
    imatrix: str | None,
    sensitivity: str,
    text: str | None,
    tokens: int,
    bands: int,
    timeout: float,
    allow_requantize: bool,
    threads: int | None,
    overwrite: bool,
    no_provenance: bool,
) -> int:
    """Propose the type of each tensor so that the file is no larger than --target and loses least.

    The error that each type makes of each tensor is measured on its weights; how much the model minds it, by reading a
    text with groups of tensors made worse (extra `server`), or as tensors of that kind usually do.
    """
    from gguftool.api.mix import Ways
    from gguftool.api.mix import mix as propose
    from gguftool.build import quantize as build
    from gguftool.build.mix.candidates import USUAL, Allowed
    from gguftool.build.mix.candidates import types as named
    from gguftool.build.wanted import overrides
    from gguftool.files.draft import clear_way
    from gguftool.files.small import check_mine, write_file
    from gguftool.hub import on_this_machine
    from gguftool.report import mix as report
    from gguftool.report.build import quantized_text

    may = Allowed(named(types) if types else USUAL, least, overrides(fixed).tensor_types)
    options = build.Options(
        engine="builtin",
        imatrix=imatrix,
        allow_requantize=allow_requantize,
        threads=threads or 0,
        overwrite=overwrite,
        provenance=not no_provenance,
    )
    if output is not None:
        clear_way([output], overwrite=overwrite, can_overwrite=True)
    if save is not None:
        check_mine(save, report.is_type_file, "list of tensor types")
    path = on_this_machine(model)
    ways = Ways(may, sensitivity, text, tokens, bands, timeout)
    found = propose(path, target, ways, options, tell=session.status())
    p = found.proposal
    if save is not None:
        write_file(save, report.type_file(p), mine=report.is_type_file, what="list of tensor types")
        session.did(f"wrote {save}")
    done = None
    if output is not None:
        done = build.quantize(path, output, p.label, report.with_types(options, p))
        session.did(f"wrote {output}")
    way = report.command(model, p, options, save, output)
    for said in p.plan.warnings:
        session.warn(said)
    if session.format == "json":
        session.write_json(ok=True, body=report.body(found, way, save, done))
        return 0
    session.out(report.text(found, model, session.style))
    if done is not None:
        session.out(quantized_text(done, session.style))
    else:
        session.out(f"\n{way}")
    return 0
