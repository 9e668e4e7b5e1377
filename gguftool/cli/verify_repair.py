"""The repairs that ``gguftool verify`` offers: names of shards, raw pieces."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gguftool.errors import UsageError
from gguftool.report.text import safe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gguftool.cli.options import Session
    from gguftool.cli.verify_steps import Asked
    from gguftool.verify import Verification
    from gguftool.verify.expect import Expectation
    from gguftool.verify.names import Renaming
    from gguftool.verify.repair import Repaired


def names(session: Session, results: list[Verification], asked: Asked) -> tuple[list[Verification], list[Renaming]]:
    """How the shards are to be named, done with ``--yes``; and the reports as they are then."""
    from gguftool.verify import check, names

    done: list[Verification] = []
    renamings: list[Renaming] = []
    for result in results:
        found = result.set
        if found is None:
            session.note(f"{safe(result.files[0].path)}: not a shard; its name can stay")
            done.append(result)
            continue
        renaming = names.plan(found, prefix=asked.prefix, folder=asked.link_to)
        renamings.append(renaming)
        if not renaming.pairs:
            session.note("the names are right")
        elif asked.yes:
            names.apply(renaming)
            result = check(renaming.pairs[0][1])
        else:
            session.note("nothing was done yet; --yes does it")
        done.append(result)
    return done, renamings


def repair(
    session: Session, results: list[Verification], expected: Mapping[str, Sequence[Expectation]], spec: str
) -> list[Repaired]:
    """Mend the files of ``results`` with bytes of another copy, and say what was done."""
    from gguftool import hub
    from gguftool.report.progress import Progress
    from gguftool.verify.repair import repair_all

    with hub.open_any(spec, strict=False) as donor:
        total = sum(2 * report.size for result in results for report in result.files if not report.ok)
        shown = sys.stderr if sys.stderr.isatty() and not session.quiet else None
        with Progress(total, shown, "repairing") as progress:
            done = repair_all(results, expected, donor, progress)
    for one in done:
        if not one.proven:
            session.warn(f"{safe(one.path)}: what both copies have is the same, but no hash proves the rest")
            session.note("hint: --sha256 HASH or --sums MANIFEST (or hf://owner/repo) proves it")
    unknown = [r.path for result in results for r in result.files if r.ok and not expected.get(r.path)]
    if unknown:
        files = unknown[0] if len(unknown) == 1 else f"{len(unknown)} files"
        session.warn(f"{files}: only the size was checked, no hash says what the bytes must be")
        session.note("hint: --sums MANIFEST (or SHA256SUMS, hf://owner/repo) finds changed bytes")
    elif not done:
        session.note("there was nothing to repair")
    return done


def join(session: Session, models: tuple[str, ...], output: str) -> str:
    """Put raw pieces together and return the name of the whole file."""
    from gguftool.report.progress import Progress
    from gguftool.verify import bytesplit

    pieces = bytesplit.of_piece(models[0])
    strangers = [model for model in models if model not in pieces.paths]
    if strangers:
        raise UsageError(f"{strangers[0]}: is not a piece of {pieces.base}")
    shown = sys.stderr if sys.stderr.isatty() and not session.quiet else None
    with Progress(pieces.size, shown, "joining") as progress:
        bytesplit.join(pieces, output, progress)
    session.note(f"joined {len(pieces.paths)} pieces into {safe(output)}; the pieces are still there")
    return output
