"""``gguftool quantize``: from F16, BF16 or F32 to fewer bits."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from gguftool.cli.logfile import LOG
from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.quantizing import chosen, quantizing
from gguftool.cli.values import MODEL, SIZE

if TYPE_CHECKING:
    from gguftool.build.quantize import Options


@command(
    examples="""
    gguftool quantize model-f16.gguf model-q4_k_m.gguf Q4_K_M
    gguftool quantize model-f16.gguf Q4_K_M --dry-run
    gguftool quantize model-f16.gguf --list
    gguftool quantize model-f16.gguf --fits 16GiB
    gguftool quantize model-f16.gguf small.gguf IQ3_XXS --imatrix imatrix.gguf
    gguftool quantize model-f16.gguf best.gguf Q4_K_M --tensor-type ffn_down=q8_0
    gguftool quantize model-f16-00001-of-00003.gguf whole.gguf COPY --override-kv general.name=str:Tiny
    """
)
@click.argument("source", type=MODEL, metavar="IN")
@click.argument("output", metavar="[OUT]", required=False)
@click.argument("type_name", metavar="[TYPE]", required=False)
@option("-o", "--output", "named", type=click.Path(), metavar="OUT", help="The same as OUT in its place.")
@option("-n", "--dry-run", is_flag=True, help="Show the exact size, the types and the fallbacks; write nothing.")
@option("--list", "listing", is_flag=True, help="Show all types with bits per weight and size for this model.")
@option("--fits", type=SIZE, metavar="SIZE", help="As --list, with what fits into SIZE.")
@quantizing
@option("--keep-split", is_flag=True, help="As many files as IN has: OUT-00001-of-0000N.gguf …")
@option("--allow-requantize", is_flag=True, help="Quantise what is quantised already; it loses quality twice.")
@option("--strict", is_flag=True, help="Refuse when a tensor has to fall back to another type.")
@option(
    "--engine",
    type=click.Choice(["auto", "llama-quantize", "library", "builtin"]),
    default="auto",
    show_default=True,
    help="What does the work; auto takes the first that is there.",
)
@option("--llama-cpp", metavar="PATH", help="The llama.cpp to use: its folder, or a program of it.")
@option("-t", "--threads", type=click.IntRange(min=1), metavar="N", help="Threads; all cores when left out.")
@option("--overwrite", is_flag=True, help="Replace OUT when it exists.")
@option("--no-provenance", is_flag=True, help="Do not write the gguftool.* keys that say how it was made.")
@option("--log", type=LOG, metavar="FILE", help="Keep what the engine says.")
@format_option("text", "json")
@pass_session
def quantize(
    session: Session,
    /,
    source: str,
    output: str | None,
    type_name: str | None,
    named: str | None,
    dry_run: bool,
    listing: bool,
    fits: int | None,
    keep_split: bool,
    allow_requantize: bool,
    strict: bool,
    engine: str,
    llama_cpp: str | None,
    threads: int | None,
    overwrite: bool,
    no_provenance: bool,
    log: str | None,
    **more: Any,
) -> int:
    """Quantise a model, the mixtures as llama.cpp has them.

    Engines in order: the llama-quantize program, the real llama library, the built-in one. Folders to look in:
    --llama-cpp, LLAMA_CPP_DIR, PATH. The built-in engine gives the same bytes as llama.cpp (IQ1_M excepted).

    TYPE is a name (Q4_K_M), a number of llama-quantize (15), or COPY, which leaves the tensors as they are: for other
    metadata, or one file of a set. What is asked for and has no effect is said.

    OUT gets its name only when it is complete. Without OUT the result lies beside IN, named after the type.
    """
    options = chosen(
        more,
        session.words,
        keep_split=keep_split,
        engine=engine,
        llama_cpp=llama_cpp,
        allow_requantize=allow_requantize,
        threads=threads or 0,
        overwrite=overwrite,
        provenance=not no_provenance,
        strict=strict,
        log=log,
    )
    if listing or fits is not None:
        return _list(session, source, fits, options)
    output, type_name = _names(source, output, type_name, named)
    if dry_run:
        return _dry_run(session, source, output, type_name, options)
    return _quantize(session, source, output, type_name, options)


def _names(source: str, output: str | None, type_name: str | None, named: str | None) -> tuple[str, str]:
    """OUT and TYPE; as with llama-quantize, OUT may be left out, or be ``named`` with --output."""
    import re

    from gguftool.build.ftypes import is_target, target
    from gguftool.shell import gguftool, path_word

    if type_name is None:
        if output is None or ("." in os.path.basename(output) and not is_target(output)):
            raise click.UsageError("Name the type to quantise to, for example Q4_K_M; --list shows what there is.")
        wanted, output = output, None
    else:
        wanted = type_name
    if named is not None:
        if output is not None:
            raise click.UsageError(f"OUT is named twice: {output}, and --output {named}.")
        output = named
    if output is not None and is_target(output) and not is_target(wanted):
        meant = gguftool("quantize", path_word(source), path_word(wanted), output)
        raise click.UsageError(f"TYPE stands behind OUT: {meant}")
    name = target(wanted).name
    if output is None:
        folder, base = os.path.split(source.rstrip("/"))
        stem = re.sub(r"(-\d{5}-of-\d{5})?\.gguf$", "", base)
        stem = re.sub(r"[-._](f32|f16|bf16|fp16|fp32)$", "", stem, flags=re.IGNORECASE)
        output = os.path.join(folder, f"{stem}-{name}.gguf")
    return output, name


def _list(session: Session, source: str, limit: int | None, options: Options) -> int:
    from gguftool.build.quantize import table
    from gguftool.cli.opened import open_for
    from gguftool.report import build as report

    with open_for(session, source) as model:
        rows = table(model, options)
    if session.format == "json":
        session.write_json(ok=True, body=report.sizes_json(rows, limit))
    else:
        session.out(report.sizes_text(rows, limit, session.style))
    best = report.sizes_json(rows, limit)["best"]
    if limit is not None:
        session.note(
            f"largest that fits: {best}; the KV cache and compute buffers come on top (gguftool plan)"
            if best
            else "nothing fits"
        )
    return 0


def _dry_run(session: Session, source: str, output: str, type_name: str, options: Options) -> int:
    from gguftool.build.layout import paths_of
    from gguftool.build.quantize import prepare, remedy
    from gguftool.cli.opened import open_for
    from gguftool.report import build as report

    with open_for(session, source) as model:
        plan, engine, _ = prepare(model, type_name, options)
        if session.format == "json":
            files = paths_of(output, len(plan.outputs), keep_split=options.changes.keep_split)
            body = {"dry_run": True, "output": files[0], **report.plan_json(plan, engine.label, files, tensors=True)}
            session.write_json(ok=not plan.refusals, body=body)
        else:
            session.out(report.plan_text(plan, output, engine.label, session.style))
            for text in plan.warnings[1:] if plan.fallbacks else plan.warnings:  # the plan shows what falls back
                session.warn(text)
            for way in dict.fromkeys(remedy(text) for text in plan.refusals):
                session.note(f"hint: {way}")
    if options.strict and plan.fallbacks:
        return 4
    return 4 if plan.refusals else 0


def _quantize(session: Session, source: str, output: str, type_name: str, options: Options) -> int:
    from gguftool.build import quantize as build
    from gguftool.hub import on_this_machine
    from gguftool.report import build as report

    path = on_this_machine(source)
    with bar(session, f"quantising to {type_name}") as progress:
        done = build.quantize(path, output, type_name, options, progress)
    for text in (*done.plan.warnings, *done.notes):
        session.warn(text)
    session.did(f"wrote {', '.join(done.paths)}")
    if session.format == "json":
        session.write_json(ok=True, body=report.quantized_json(done))
    else:
        session.out(report.quantized_text(done, session.style))
    return 0


@contextmanager
def bar(session: Session, what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress line on stderr for (done, total) calls; none when stderr is no terminal or with --quiet."""
    from gguftool.report.progress import Progress

    stream = sys.stderr if sys.stderr.isatty() and not session.quiet else None
    lines: list[Progress] = []
    seen = 0

    def step(done: int, total: int) -> None:
        nonlocal seen
        if not lines:
            lines.append(Progress(total, stream, what))
        lines[0](done - seen)
        seen = done

    try:
        yield step
    finally:
        for line in lines:
            line.close()
