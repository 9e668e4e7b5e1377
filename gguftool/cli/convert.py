"""``gguftool convert``: from a Hugging Face folder to GGUF."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import click

from gguftool.build.ftypes import OUTTYPES
from gguftool.cli.logfile import LOG
from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.values import MODEL
from gguftool.report.text import safe

if TYPE_CHECKING:
    from gguftool.build.convert import Options


@command(
    examples="""
    gguftool convert --setup                          make the converter's environment, once
    gguftool convert ./Qwen2-0.5B -o qwen2-f16.gguf --outtype f16
    gguftool convert hf://owner/repo -o model.gguf
    gguftool convert ./my-finetune --dry-run          what speaks against it; converts nothing
    gguftool convert ./my-finetune -o tune.gguf --pre qwen2
    gguftool convert ./gemma-3-4b -o gemma.gguf       with eyes: mmproj-gemma-BF16.gguf is made, too
    gguftool convert ./model -o model.gguf --llama-cpp ~/llama.cpp
    """
)
@click.argument("source", type=MODEL, metavar="[SOURCE]", required=False)
@option("-o", "--output", type=click.Path(), metavar="OUT", help="File to write; default: FOLDER-TYPE.gguf here.")
@option(
    "--outtype",
    type=click.Choice(OUTTYPES),
    default="auto",
    show_default=True,
    help="Type of the matrices; auto keeps the 16-bit type of the source.",
)
@option("--pre", metavar="NAME", help="Pre-tokenizer to take where the converter does not recognise it.")
@option("--llama-cpp", metavar="PATH", help="The llama.cpp whose convert_hf_to_gguf.py to use: its folder.")
@option("--converter-arg", "more", multiple=True, metavar="ARG", help="Hand ARG on to the converter.")
@option("--setup", is_flag=True, help="Make the environment of the converter, with torch, in the user's cache.")
@option("--setup-arg", multiple=True, metavar="ARG", help="Hand ARG on to pip, for example torch==2.13.0.")
@option("-n", "--dry-run", "check", is_flag=True, aliases=("--check",), help="Look at the folder, convert nothing.")
@option(
    "-y",
    "--yes",
    "force",
    is_flag=True,
    aliases=("--force",),
    help="Convert in spite of what was found in the folder, and keep the result in spite of what was found in it.",
)
@option("--name", metavar="NAME", help="What the model is called (general.name); default: as the source says.")
@option("--no-mmproj", is_flag=True, help="Of a model that sees or hears make no projector (mmproj-OUT) beside it.")
@option("--no-fix", is_flag=True, help="Do not repair what the converter lost.")
@option("--overwrite", is_flag=True, help="Replace OUT when it exists.")
@option("--no-provenance", is_flag=True, help="Do not write the gguftool.* keys that say how it was made.")
@option("--log", type=LOG, metavar="FILE", help="What the converter says; default: OUT.convert.log.")
@format_option("text", "json")
@pass_session
def convert(session: Session, /, source: str | None, **options: Any) -> int:
    """Convert a Hugging Face folder (or hf://owner/repo) with llama.cpp's own converter.

    First the folder is looked at: architecture, tokenizer, weights, disk. Then the converter runs, found by
    --llama-cpp, LLAMA_CPP_DIR, PATH, or the environment of --setup. What the converter lost is put back.

    Then the result is judged: tensors and layers counted against the folder, the load predicted, lint, chat template
    and tokenizer compared, all data read for NaN and infinities, a known text read where the llama library is there.
    OUT gets its name only when no fault is found (or with --yes); the output says what was looked at and what not.
    """
    from gguftool.build.convert import Options

    if options["setup"]:
        return _setup(session, options)
    if source is None:
        raise click.UsageError("Name the folder to convert, or say --setup.")
    folder = _folder(session, source)
    output = options["output"] or _name(folder, options["outtype"])
    chosen = Options(
        outtype=options["outtype"],
        llama_cpp=options["llama_cpp"],
        pre=options["pre"],
        more=options["more"],
        overwrite=options["overwrite"],
        log=options["log"] or f"{output}.convert.log",
        force=options["force"],
        provenance=not options["no_provenance"],
        projector=not options["no_mmproj"],
        name=options["name"] or "",
    )
    if options["check"]:
        return _check(session, folder, output, chosen)
    return _convert(session, folder, output, chosen, repair=not options["no_fix"])


def _folder(session: Session, source: str) -> str:
    if not source.startswith("hf://"):
        return source
    from gguftool.hub.download import model_folder

    session.note(f"fetching {safe(source)} into the Hugging Face cache ...")
    return model_folder(source)


def _name(folder: str, outtype: str) -> str:
    from gguftool.model.called import place_of

    place = place_of(folder)
    base = re.sub(r"[^\w.-]+", "-", place.name if place else os.path.basename(os.path.abspath(folder)))
    return f"{base}.gguf" if outtype == "auto" else f"{base}-{outtype}.gguf"


def _setup(session: Session, options: dict[str, Any]) -> int:
    from gguftool.build import converter

    session.note(f"making {safe(converter.environment())} with {converter.PACKAGE}, torch and transformers ...")
    log = options["log"] or None
    tool = converter.setup(log, session.detail, options["setup_arg"])
    body: dict[str, object] = {
        "environment": converter.environment(),
        "converter": tool.label,
        "python": tool.python,
    }
    body |= {"architectures": len(tool.architectures or ())}
    session.did(f"made {converter.environment()}")
    if session.format == "json":
        session.write_json(ok=True, body={"setup": body})
    else:
        session.out(
            f"ready: {safe(tool.label)} in {safe(converter.environment())}, {body['architectures']} architectures"
        )
    return 0


def _check(session: Session, folder: str, output: str, options: Options) -> int:
    from gguftool.api.pretokenizer import unrecognised
    from gguftool.build import convert, converter
    from gguftool.build.folder.look import look
    from gguftool.build.left import Asked, left_out
    from gguftool.records import replace
    from gguftool.report import build as report

    tool, more = converter.find(options.llama_cpp), options.more
    found = look(folder, tool.registry, tool.methods, more) if tool else look(folder, arguments=more)
    unknown = unrecognised(found, tool, options.pre) if tool and not found.fatal else None
    if unknown is not None:
        found = replace(found, problems=(*found.problems, unknown))
    left = left_out(found, Asked(tool, options.projector, more), None)
    eyes = convert.projector(found, tool, output, options) if tool else None
    if tool is None:
        session.warn("no converter was found; what is told of its names holds for the one of --setup")
        session.note(f"hint: {converter.HOW_TO_GET}")
    if session.format == "json":
        session.write_json(ok=not found.fatal, body={"check": report.folder_json(found, left, eyes)})
    else:
        session.out(report.folder_text(found, session.style, left, eyes))
    return 4 if found.fatal else 0


def _convert(session: Session, folder: str, output: str, options: Options, *, repair: bool) -> int:
    from gguftool.api.converted import convert as make
    from gguftool.cli.quantize import bar
    from gguftool.errors import Bug
    from gguftool.report import build as report
    from gguftool.report.envelope import error_row

    with bar(session, "converting") as progress:
        seen = [0]

        def step(percent: int) -> None:
            seen[0] = max(seen[0], percent)
            progress(seen[0], 100)

        done = make(folder, output, options, step, repair=repair, tell=session.detail)
    for note in done.notes:
        session.warn(note)
    bugs = done.report.bugs if done.report is not None else ()
    code = Bug.exit_code if bugs else 0 if done.ok else 1
    session.did(f"wrote {done.path}" if done.paths else f"made no {output}", code)
    if session.format == "json":
        session.write_json(ok=not code, body=report.converted_json(done), errors=map(error_row, bugs))
    else:
        session.out(report.converted_text(done, output, session.style))
        for bug in bugs:
            session.warn(str(bug))
    return code
