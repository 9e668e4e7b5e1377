"""The repairs that ``gguftool verify`` offers: names of shards, raw pieces."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gguftool.errors import UsageError
from gguftool.report.text import safe

if TYPE_CHECKING:
    from gguftool.cli.options import Session
    from gguftool.verify import Verification
    from gguftool.verify.names import Renaming


def names(
    session: Session, results: list[Verification], prefix: str | None, folder: str | None, yes: bool
) -> tuple[list[Verification], list[Renaming]]:
    """How the shards are to be named, done with ``yes``; and the reports as they are then."""
    from gguftool.format.parse import parse
    from gguftool.source import LocalFile
    from gguftool.verify import check, names

    done: list[Verification] = []
    renamings: list[Renaming] = []
    for result in results:
        found = result.set
        if found is None:
            session.note(f"{safe(result.files[0].path)}: not a shard; its name can stay")
            done.append(result)
            continue
        first = None
        if found.paths[0] is not None:
            source = LocalFile(found.paths[0])
            first = parse(source, strict=False)
            source.close()
        renaming = names.plan(found, first, prefix=prefix, folder=folder)
        renamings.append(renaming)
        if not renaming.pairs:
            session.note("the names are right")
        elif yes:
            names.apply(renaming)
            result = check(renaming.pairs[0][1])
        else:
            session.note("nothing was done yet; --yes does it")
        done.append(result)
    return done, renamings


def join(session: Session, models: tuple[str, ...], output: str) -> str:
    """Put raw pieces together and return the name of the whole file."""
    from gguftool.report.progress import Progress
    from gguftool.verify import bytesplit

    pieces = bytesplit.find(models[0])
    if pieces is None:
        hint = "gguftool merge joins shards"
        raise UsageError(f"{models[0]}: its name is not that of a raw piece, or there are no others", hint)
    strangers = [model for model in models if model not in pieces.paths]
    if strangers:
        raise UsageError(f"{strangers[0]}: is not a piece of {pieces.base}")
    shown = sys.stderr if sys.stderr.isatty() and not session.quiet else None
    with Progress(pieces.size, shown, "joining") as progress:
        bytesplit.join(pieces, output, progress)
    session.note(f"joined {len(pieces.paths)} pieces into {safe(output)}; the pieces are still there")
    return output
