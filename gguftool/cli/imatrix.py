"""``gguftool imatrix``: importance matrices measured, shown, checked, merged."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from gguftool.cli.logfile import LOG
from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.values import MODEL, CountType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gguftool.predict.pairs.misfit import Misfit


@command(
    examples="""
    gguftool imatrix model-f16.gguf --text calibration.txt -o model.imatrix.gguf
    gguftool imatrix model-f16.gguf --text calibration.txt -o model.imatrix.gguf --save-every 50 --resume
    gguftool imatrix --show model.imatrix.gguf
    gguftool imatrix --show model.imatrix.gguf model-f16.gguf
    gguftool imatrix --merge english.gguf code.gguf -o both.gguf
    gguftool imatrix --merge old.dat -o new.gguf
    """
)
@click.argument("files", type=MODEL, metavar="MODEL|MATRIX...", nargs=-1, required=True)
@option("-o", "--output", type=click.Path(), metavar="FILE", help="The matrix to write (default: beside the model).")
@option(
    "--show", is_flag=True, aliases=("--show-statistics",), help="Show MATRIX; with a MODEL, check it against that."
)
@option("--merge", is_flag=True, help="Add up MATRIX...; with one, write it in another form.")
@option("--tensors", is_flag=True, help="With --show, the figures of every tensor.")
@option(
    "--text", type=click.Path(dir_okay=False), aliases=("-f", "--file"),
    help="Text to read (default: pages of a well-known book, for a trial).",
)  # fmt: skip
@option(
    "--chunk", type=CountType(16), metavar="N", default=512, show_default=True, aliases=("-c", "--ctx-size"),
    help="Tokens of a chunk.",
)  # fmt: skip
@option("--chunks", type=CountType(1), metavar="N", help="Most chunks to read (default: all of the text).")
@option("--from-chunk", type=CountType(0), metavar="N", default=0, help="Chunks to leave out at the beginning.")
@option("--parse-special", is_flag=True, help="Names of control tokens in the text stand for these.")
@option("--process-output", is_flag=True, help="Measure the output matrix, too; llama.cpp advises not to.")
@option("--nextn", is_flag=True, help="Measure layers that predict further tokens, too (llama-imatrix only).")
@option(
    "--add", type=click.Path(dir_okay=False), multiple=True, metavar="MATRIX", aliases=("--in-file",),
    help="Add what was measured before.",
)  # fmt: skip
@option("--resume", is_flag=True, help="Go on with the output file where it ended.")
@option(
    "--save-every", type=CountType(1), metavar="N", aliases=("--save-frequency",),
    help="Write the output every N chunks, whole each time (library only).",
)  # fmt: skip
@option(
    "--output-format", type=click.Choice(["gguf", "dat"]),
    help="Form of the file (default: by its name; dat is the older one).",
)  # fmt: skip
@option(
    "--engine", type=click.Choice(["auto", "llama-imatrix", "library"]), default="auto", show_default=True,
    help="What computes; auto takes the program where there is one.",
)  # fmt: skip
@option("--llama-cpp", metavar="PATH", help="The llama.cpp to use: its folder, or a program of it.")
@option("-t", "--threads", type=click.IntRange(min=1), metavar="N", help="Threads for computing.")
@option("--overwrite", is_flag=True, help="Replace the output when it exists.")
@option("--log", type=LOG, metavar="FILE", help="Keep what llama-imatrix says.")
@format_option("text", "json")
@pass_session
def imatrix(session: Session, /, files: tuple[str, ...], show: bool, merge: bool, **options: object) -> int:
    """Measure an importance matrix of MODEL, for quantising to few bits; or show, check and merge matrices.

    The model reads a text, and the mean square of every input of its weights is written down, for each expert. The
    program llama-imatrix does it where there is one, else the real llama library; what comes out is the same.

    Exit code 1 when llama-quantize would not take the matrix (for the model).
    """
    if show and merge:
        raise click.UsageError("--show and --merge are two things.")
    if show:
        return _show(session, files, tensors=bool(options["tensors"]))
    if merge:
        return _merge(session, files, options)
    if len(files) > 1:
        raise click.UsageError("One model is measured at a time; --merge adds up matrices, --show looks at one.")
    return _measure(session, files[0], options)


def _show(session: Session, files: tuple[str, ...], *, tensors: bool) -> int:
    from gguftool.api.imatrix import examine_imatrix
    from gguftool.cli.opened import open_for
    from gguftool.report import imatrix as report

    if len(files) > 2:
        raise click.UsageError("--show takes one matrix, and the model it is for.")
    if len(files) == 2:
        with open_for(session, files[1], strict=False) as model:
            found = examine_imatrix(files[0], model)
    else:
        found = examine_imatrix(files[0])
    if session.format == "json":
        session.write_json(ok=found.ok, body=report.examined_json(found))
    else:
        session.out("\n".join(report.lines(found, session.style, tensors=tensors)))
    return 0 if found.ok else 1


def _merge(session: Session, files: tuple[str, ...], options: dict[str, object]) -> int:
    from gguftool.api.imatrix import merge_imatrix
    from gguftool.report import imatrix as report

    output = options["output"]
    if output is None:
        raise click.UsageError("Name the file to write with --output.")
    done = merge_imatrix(
        files, str(output), str(options["output_format"] or ""), chunk=_int(options["chunk"]),
        overwrite=bool(options["overwrite"]),
    )  # fmt: skip
    session.did(f"wrote {output}")
    _tell(session, done.flaws, done.notes)
    if session.format == "json":
        session.write_json(ok=done.ok, body=report.examined_json(done))
    else:
        session.out("\n".join(report.merged_lines(done, session.style)))
    return 0 if done.ok else 1


def _measure(session: Session, model: str, options: dict[str, object]) -> int:
    from gguftool.api.imatrix import form_of
    from gguftool.hub import on_this_machine
    from gguftool.report import imatrix as report
    from gguftool.run.imatrix import Wanted, measure_imatrix

    output = str(options["output"] or _beside(model, str(options["output_format"] or "gguf")))
    form = str(options["output_format"] or form_of(output))
    tell = session.status()

    def step(done: int, total: int, perplexity: float | None) -> None:
        tell(f"chunk {done:,} of {total:,}" + (f", perplexity {perplexity:.2f}" if perplexity else ""))

    wanted = Wanted(
        text=_text(options["text"]), chunk=_int(options["chunk"]), chunks=_int(options["chunks"]) or None,
        first=_int(options["from_chunk"]), special=bool(options["parse_special"]),
        output=bool(options["process_output"]), nextn=bool(options["nextn"]), add=_words(options["add"]),
        resume=bool(options["resume"]), every=_int(options["save_every"]), form=form,
        threads=_int(options["threads"]) or None, engine=str(options["engine"]),
        llama_cpp=_text(options["llama_cpp"]), overwrite=bool(options["overwrite"]), log=_text(options["log"]),
    )  # fmt: skip
    done = measure_imatrix(on_this_machine(model), output, wanted, step)
    session.did(f"wrote {done.path}")
    _tell(session, done.flaws, done.notes)
    ok = not any(flaw.stops for flaw in done.flaws)
    if session.format == "json":
        session.write_json(ok=ok, body=report.measured_json(done, form))
    else:
        session.out("\n".join(report.made_lines(done, session.style)))
    return 0 if ok else 1


def _tell(session: Session, flaws: Iterable[Misfit], notes: Iterable[str]) -> None:
    """What speaks against a file that was written: what matters as a warning, the rest as a note."""
    from gguftool.predict.pairs.misfit import DOUBT
    from gguftool.report.imatrix import flaw_text
    from gguftool.report.text import safe

    for flaw in flaws:
        if flaw.outcome == DOUBT:
            session.note(f"note: {safe(flaw_text(flaw))}")
        else:
            session.warn(flaw_text(flaw))
    for note in notes:
        session.note(f"note: {safe(note)}")


def _beside(model: str, form: str) -> str:
    """The name of the matrix of a model: beside it, or here when it is far away."""
    import re

    from gguftool.hub import is_remote

    folder, base = os.path.split(model.rstrip("/"))
    stem = re.sub(r"(-\d{5}-of-\d{5})?\.gguf$", "", base)
    return os.path.join("" if is_remote(model) else folder, f"{stem}.imatrix.{form}")


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _words(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, tuple) else ()
