"""``gguftool verify``: is it whole, is it what was published, is it one model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguftool.cli.options import Session, command, format_option, models_argument, pass_session

if TYPE_CHECKING:
    from gguftool.verify import Verification


@command(
    examples="""
    gguftool verify model.gguf
    gguftool verify model-00001-of-00003.gguf
    gguftool verify models/
    gguftool verify hf://owner/repo/model-Q4_K_M.gguf
    """
)
@models_argument
@format_option("text", "json")
@pass_session
def verify(session: Session, models: tuple[str, ...]) -> int:
    """Check the integrity of models: size, shard set, hashes, tensor data.

    The quick part (header, sizes, shard set, signs of unfinished downloads) is always done and reads headers only.

    Exit code 0: all is well. 1: something differs. 3: not readable as GGUF, or shards are missing.
    """
    from gguftool.report import verify as report

    results = _quick(models)
    if session.format == "json":
        ok = all(result.ok for result in results)
        session.write_json(ok=ok, body=report.body(results), errors=report.errors(results))
    else:
        session.out(report.text(results, session.style))
    return exit_code(results)


def _quick(models: tuple[str, ...]) -> list[Verification]:
    """The quick part of every model; each set once."""
    from gguftool import hub
    from gguftool.verify import check, models_of

    results: list[Verification] = []
    paths: list[str] = []
    for model in models:
        here = hub.local_path(model)
        if here is not None:
            paths.append(here)
        else:
            results.append(check(hub.open_any(model, strict=False)))
    covered: set[str] = set()
    for path, others in models_of(paths):
        if path not in covered:
            results.append(check(path, others))
            covered.update(report.path for report in results[-1].files)
    return results


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
