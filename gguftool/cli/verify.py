"""``gguftool verify``: is it whole, is it what was published, is it one model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

import click

from gguftool.cli import verify_repair
from gguftool.cli.options import Session, command, format_option, models_argument, pass_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gguftool.source import Source
    from gguftool.verify import FileReport, Verification
    from gguftool.verify.expect import Expectation
    from gguftool.verify.names import Renaming


@command(
    examples="""
    gguftool verify model.gguf
    gguftool verify --hash model-00001-of-00003.gguf
    gguftool verify --sha256 a5fd3b62… model.gguf
    gguftool verify --against SHA256SUMS models/
    gguftool verify --against hf://owner/repo model-Q4_K_M.gguf
    gguftool verify --write-manifest model.manifest model.gguf
    gguftool verify --data model.gguf
    gguftool verify --repair-names part1.gguf
    gguftool verify --join model.gguf model.gguf.part1of2
    """
)
@models_argument
@click.option("--hash", "hashed", is_flag=True, help="Hash the files and compare with what lies around them.")
@click.option("--sha256", metavar="HEX", help="The hash that the file must have.")
@click.option(
    "--against",
    multiple=True,
    metavar="LIST",
    help="A SHA256SUMS file, manifest, LFS pointer or hf://owner/repo to compare with (repeatable).",
)
@click.option("--data", is_flag=True, help="Look for NaN, infinities and broken scales in all tensors.")
@click.option("--write-manifest", "manifest", metavar="FILE", help="Write hashes of file, header, data and tensors.")
@click.option("--repair-names", is_flag=True, help="Give shards the names llama.cpp looks for; --yes does it.")
@click.option("--prefix", metavar="NAME", help="With --repair-names: what the names start with.")
@click.option("--link-to", metavar="FOLDER", help="With --repair-names: make links in this folder instead of renaming.")
@click.option("--join", metavar="OUT", help="Put the raw pieces of a file (.part1of2, -split-aa) together.")
@click.option("--yes", is_flag=True, help="Do what --repair-names shows.")
@format_option("text", "json")
@pass_session
def verify(
    session: Session,
    models: tuple[str, ...],
    hashed: bool,
    sha256: str | None,
    against: tuple[str, ...],
    data: bool,
    manifest: str | None,
    repair_names: bool,
    prefix: str | None,
    link_to: str | None,
    join: str | None,
    yes: bool,
) -> int:
    """Check the integrity of models: size, shard set, hashes, tensor data.

    The quick part (header, sizes, shard set, signs of unfinished downloads) is always done and reads headers only.

    --hash compares with what it finds: the name of a blob in the cache of Hugging Face or Ollama, the notes of a
    download, SHA256SUMS or FILE.manifest beside the file.

    Exit code 0: all is well. 1: something differs. 3: not readable as GGUF, or shards are missing.
    """
    from gguftool.report import verify as report

    if join is not None:
        models = (verify_repair.join(session, models, join),)
    results, sources = _quick(models)
    renamings: list[Renaming] = []
    if repair_names:
        (results, renamings), sources = verify_repair.names(session, results, prefix, link_to, yes), {}
    if hashed or sha256 or against or manifest:
        results = _hash(session, results, sources, sha256, against, manifest)
    if data:
        results = _data(session, results, sources)
    if session.format == "json":
        ok = all(result.ok for result in results)
        body = report.body(results) | (report.renames_body(renamings, yes) if repair_names else {})
        session.write_json(ok=ok, body=body, errors=report.errors(results))
    else:
        session.out(report.renames_text(renamings, yes, session.style) + report.text(results, session.style))
    return exit_code(results)


def _quick(models: tuple[str, ...]) -> tuple[list[Verification], dict[str, Source]]:
    """The quick part of every model, each set once; and the open sources of remote ones."""
    from gguftool import hub
    from gguftool.verify import check, models_of

    results: list[Verification] = []
    sources: dict[str, Source] = {}
    paths: list[str] = []
    for name in models:
        here = hub.local_path(name)
        if here is not None:
            paths.append(here)
            continue
        model = hub.open_any(name, strict=False)
        results.append(check(model))
        sources.update({part.name: part.source for part in model.parts})
    covered: set[str] = set()
    for path, others in models_of(paths):
        if path not in covered:
            results.append(check(path, others))
            covered.update((*(report.path for report in results[-1].files), *results[-1].covers))
    return results, sources


def _hash(
    session: Session,
    results: list[Verification],
    sources: dict[str, Source],
    sha256: str | None,
    against: tuple[str, ...],
    manifest: str | None,
) -> list[Verification]:
    from gguftool import hub
    from gguftool.report.progress import Progress
    from gguftool.verify import deep
    from gguftool.verify.manifest import write

    reports = [report for result in results for report in result.files]
    lists = [name for name in against if not hub.is_remote(name)]
    expected = deep.expectations(reports, sha256, lists)
    for name in against:
        if hub.is_remote(name):
            _ask_hub(name, reports, expected)
    want = deep.MANIFEST if manifest else None
    with Progress(sum(report.size for report in reports), _terminal(session)) as progress:
        new, hashes = deep.with_hashes(
            results, expected, want=want, sources=sources, strict=bool(against), progress=progress
        )
    if manifest:
        new = [result.without("no-expectation") for result in new]
        write(manifest, list(hashes.values()))
        session.note(f"wrote {manifest}")
    return new


def _data(session: Session, results: list[Verification], sources: dict[str, Source]) -> list[Verification]:
    from gguftool.report.progress import Progress
    from gguftool.verify import deep

    total = sum(report.size for result in results for report in result.files)
    with Progress(total, _terminal(session), "checking data") as progress:
        return deep.with_data(results, sources=sources, progress=progress)


def _terminal(session: Session) -> TextIO | None:
    """Where progress is shown: a terminal, and nobody asked for quiet."""
    return sys.stderr if sys.stderr.isatty() and not session.quiet else None


def _ask_hub(name: str, reports: Sequence[FileReport], expected: dict[str, list[Expectation]]) -> None:
    """Add what the Hub records of the files."""
    from gguftool.hub.remote import hub_records
    from gguftool.verify.expect import Expectation
    from gguftool.verify.manifest import Entry

    for path, record in hub_records(name, [report.path for report in reports]).items():
        entry = Entry(record.path, record.sha256, record.size)
        expected.setdefault(path, []).append(Expectation(f"the Hub ({name})", entry))


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
