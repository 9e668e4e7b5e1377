"""``gguftool verify``: is it whole, is it what was published, is it one model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gguftool.cli import verify_steps
from gguftool.cli.options import Session, command, format_option, models_argument, option, pass_session
from gguftool.cli.values import MODEL
from gguftool.files.patterns import spread

if TYPE_CHECKING:
    from gguftool.verify import Verification
    from gguftool.verify.names import Renaming
    from gguftool.verify.repair import Repaired


@command(
    examples="""
    gguftool verify model.gguf
    gguftool verify --hash model-00001-of-00003.gguf
    gguftool verify --sha256 a5fd3b62… model.gguf
    gguftool verify --sums SHA256SUMS models/
    gguftool verify --sums hf://owner/repo model-Q4_K_M.gguf
    gguftool verify --data model.gguf
    gguftool verify --write-manifest model.manifest model.gguf
    gguftool verify --sums model.manifest --repair-from hf://owner/repo/model.gguf model.gguf
    gguftool verify --repair-names part1.gguf
    gguftool verify --join model.gguf model.gguf.part1of2
    """
)
@models_argument
@option("--hash", "hashed", is_flag=True, help="Hash the files and compare with what lies around them.")
@option("--sha256", metavar="HEX", help="The hash that the file must have.")
@option(
    "--sums",
    "against",
    aliases=("--against",),
    type=MODEL,
    multiple=True,
    metavar="LIST",
    help="A SHA256SUMS file, manifest, LFS pointer or hf://owner/repo to compare with (repeatable).",
)
@option("--data", is_flag=True, help="Look for NaN, infinities and broken scales in all tensors.")
@option(
    "--write-manifest", "manifest", type=MODEL, metavar="FILE", help="Write hashes of file, header, data and tensors."
)
@option(
    "--repair-from", type=MODEL, metavar="COPY", help="Mend what is wrong with the bytes of another copy, near or far."
)
@option("--repair-names", is_flag=True, help="Give shards the names llama.cpp looks for; --yes does it.")
@option("--prefix", metavar="NAME", help="With --repair-names: what the names start with.")
@option(
    "--link-to",
    type=MODEL,
    metavar="FOLDER",
    help="With --repair-names: make links in this folder instead of renaming.",
)
@option("--join", type=MODEL, metavar="OUT", help="Put the raw pieces of a file (.part1of2, -split-aa) together.")
@option("-y", "--yes", is_flag=True, help="Do what --repair-names shows.")
@option("-n", "--dry-run", is_flag=True, help="Only show what --repair-names would do; so without --yes, too.")
@format_option("text", "json")
@pass_session
def verify(session: Session, /, models: tuple[str, ...], **options: Any) -> int:
    """Check the integrity of models: size, shard set, hashes, tensor data.

    The quick part (header, sizes, shard set, signs of unfinished downloads) is always done and reads headers only.

    --hash compares with what it finds: the name of a blob in the cache of Hugging Face or Ollama, the notes of a
    download, SHA256SUMS or FILE.manifest beside the file.

    --repair-from fetches only the bytes that are missing or that the manifest names. The file is replaced in one step
    when the new one has the right hash.

    Exit code 0: all is well. 1: something differs, or was repaired without a hash to prove it. 3: not readable as GGUF,
    or shards are missing.
    """
    from gguftool.model.headers import ROOM, Headers
    from gguftool.report import verify as report
    from gguftool.verify.many import check_all

    if options.pop("dry_run"):
        _only_looks(options)
    asked = verify_steps.Asked(**options)
    models = tuple(spread(models))
    if asked.join is not None or asked.repair_names or asked.repair_from is not None:
        from gguftool.cli import verify_repair
    if asked.join is not None:
        models = (verify_repair.join(session, models, asked.join),)
    # Without a look at all of the data nothing is read twice.
    known = Headers(room=ROOM if asked.reads_all or asked.data else 0)
    results, sources = check_all(models, known)
    renamings: list[Renaming] = []
    repaired: list[Repaired] = []
    if asked.repair_names:
        results, renamings = verify_repair.names(session, results, asked)
    if asked.reads_all:
        results, expected = verify_steps.hashes(session, results, sources, asked, known)
        if asked.repair_from is not None:
            repaired = verify_repair.repair(session, results, expected, asked.repair_from)
            if repaired:
                results, _ = verify_steps.hashes(session, check_all(models, known)[0], sources, asked, known)
    if asked.data:
        results = verify_steps.data(session, results, sources, known)
    unproven = any(not one.proven for one in repaired)

    def code(results: list[Verification]) -> int:
        return exit_code(results) or int(unproven)

    wrote = [asked.join, asked.manifest, *(one.path for one in repaired)]
    wrote += ["the names of the shards"] if asked.yes and any(r.pairs for r in renamings) else []
    if changed := ", ".join(str(one) for one in wrote if one):
        session.did(f"wrote {changed}", code(results))
    if session.format == "json":
        body = report.body(results)
        body |= report.renames_body(renamings, asked.yes) if asked.repair_names else {}
        body |= report.repairs_body(repaired) if asked.repair_from else {}
        session.write_json(
            ok=all(result.ok for result in results) and not unproven, body=body, errors=report.errors(results)
        )
    else:
        session.out(
            report.renames_text(renamings, asked.yes, session.style)
            + report.repairs_text(repaired, session.style)
            + report.text(results, session.style)
        )
    return code(results)


def _only_looks(options: dict[str, Any]) -> None:
    """Refuse what writes: names are shown before they are given, the rest has nothing to show."""
    writes = {"yes": "--yes", "join": "--join", "repair_from": "--repair-from", "manifest": "--write-manifest"}
    for name, shown in writes.items():
        if options[name]:
            raise click.UsageError(f"--dry-run writes nothing, {shown} does.")


def exit_code(results: list[Verification]) -> int:
    """0 when all is well; else the code of what is worst.

    A file that cannot be read brings the code of its error (3, 7); shards that are missing, with nothing else wrong,
    are told apart from damage: 3, as for every other command that would need them.
    """
    codes = {report.error.exit_code for result in results for report in result.files if report.error is not None}
    if codes:
        return max(codes)
    kinds = {fault.kind for result in results for report in result.files for fault in report.faults}
    kinds |= {fault.kind for result in results if result.set is not None for fault in result.set.faults}
    if "interrupted-edit" in kinds:
        return 7
    if kinds == {"shard-missing"}:
        return 3
    return 1 if kinds else 0
