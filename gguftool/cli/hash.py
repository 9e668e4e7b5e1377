"""``gguftool hash``: sha256 of files, tensors and data sections."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from gguftool.cli.options import Session, command, format_option, models_argument, option, pass_session

if TYPE_CHECKING:
    from gguftool.errors import GgufToolError
    from gguftool.model import Part
    from gguftool.source import Source

# gguf-py and llama-gguf-hash leave these out.
_WITHOUT = (".attention.masked_bias", ".attention.bias", ".rotary_emb.inv_freq")


@command(
    examples="""
    gguftool hash model.gguf
    gguftool hash model-00001-of-00003.gguf > SHA256SUMS
    gguftool hash --tensors --algorithm xxh64 model.gguf
    gguftool hash --data-section model.gguf
    gguftool hash --format gguf-hash model.gguf
    """
)
@models_argument
@option("--tensors", is_flag=True, help="Every tensor too.")
@option("--data-section", is_flag=True, help="The data section too: it stays the same when metadata is edited.")
@option(
    "--algorithm",
    "algorithms",
    multiple=True,
    type=click.Choice(["sha256", "xxh64", "sha1"]),
    help="Hash of the tensors (repeatable); sha256 when left out. Files always get sha256.",
)
@format_option("text", "json", "gguf-hash")
@pass_session
def hash(
    session: Session, models: tuple[str, ...], tensors: bool, data_section: bool, algorithms: tuple[str, ...]
) -> int:
    """Print the sha256 of each file (of a set: every shard), its tensors or its data section.

    The text is what `sha256sum` prints, so `sha256sum -c` checks it; with --format gguf-hash it is what llama-gguf-hash
    prints. A file without GGUF in it is hashed as well, as long as nothing inside is asked for.
    """
    from gguftool.errors import Bug
    from gguftool.report import hash as report
    from gguftool.report.progress import Progress
    from gguftool.verify.digests import maker
    from gguftool.verify.hashes import FileHashes, Want, hash_files

    names = tuple(dict.fromkeys(algorithms)) or ("sha256",)
    for name in names:
        maker(name)
    as_gguf_hash = session.format == "gguf-hash"
    want = Want(
        tensors=tensors or as_gguf_hash,
        data=data_section,
        model=as_gguf_hash,
        algorithms=names,
        without=_WITHOUT if as_gguf_hash else (),
    )
    targets, missing = _targets(session, models, want.inside)
    shown = sys.stderr if sys.stderr.isatty() and not session.quiet else None
    with Progress(sum(size for _, size in targets), shown) as progress:
        outcome = hash_files([target for target, _ in targets], want, progress)
    found = [h for h in outcome if isinstance(h, FileHashes)]
    failed = [*(error for error in outcome if not isinstance(error, FileHashes)), *missing]
    if session.format == "json":
        errors = [{"code": e.code, "message": str(e), "hint": e.hint} for e in failed]
        session.write_json(ok=not failed, body=report.body(found), errors=errors)
    elif as_gguf_hash:
        session.out(report.gguf_hash(found, names))
    else:
        session.out(report.text(found, names, data_section))
    for error in failed:
        session.warn(str(error))
    return max((e.exit_code for e in failed if isinstance(e, Bug)), default=failed[0].exit_code if failed else 0)


def _targets(
    session: Session, models: tuple[str, ...], strict: bool
) -> tuple[list[tuple[str | Source | Part, int]], list[GgufToolError]]:
    """The files of every model with their sizes, a set's shards in order; what is no GGUF as it is; what is missing.

    Of several models, files on this machine come as paths, so that a folder of thousands does not keep them all open;
    of one they stay open, and their headers need not be read again.
    """
    from gguftool import hub
    from gguftool.cli.opened import open_for
    from gguftool.errors import FormatError, of_one
    from gguftool.model.missing import missing_text
    from gguftool.source import LocalFile

    found: dict[str, tuple[str | Source | Part, int]] = {}
    missing: dict[str, GgufToolError] = {}
    names: list[str] = []
    for name in models:
        names += _in_folder(name) if os.path.isdir(name) else [name]
    for name in names:
        try:
            model = open_for(session, name, strict=False)
            if len(names) == 1:
                found = {part.name: (part, part.size) for part in model.parts}
            sources = [part.source for part in model.parts if part.name not in found]
            if model.missing_shards:
                text = missing_text(model.missing_shards, model.shard_count, model.missing_names)
                missing.setdefault(text, FormatError(f"{name}: {text}", kind="shard-missing"))
        except FormatError as error:
            if strict and len(names) == 1:
                raise
            if strict:
                missing.setdefault(name, error)
                continue
            sources = [hub.open_source(name)]
            if sources[0].read_at(0, 4) == b"GGUF":
                # Not this file is at fault, but a shard of its set.
                missing.setdefault(str(error), error)
        except Exception as error:
            if len(names) == 1:
                raise
            missing.setdefault(name, of_one(error, name))
            continue
        for source in sources:
            local = isinstance(source, LocalFile)
            found.setdefault(source.name, (source.name if local else source, source.size))
            if local:
                source.close()
    return list(found.values()), list(missing.values())


def _in_folder(folder: str) -> list[str]:
    from gguftool.verify import models_of

    return [path for path, _ in models_of([folder])]
