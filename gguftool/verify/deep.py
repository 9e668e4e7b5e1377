"""What reads the tensor data: hashes, after the quick part and on top of its reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gguftool.errors import UsageError, of_one
from gguftool.hub import is_remote
from gguftool.model.headers import Headers
from gguftool.records import replace
from gguftool.source import LocalFile, Source
from gguftool.verify.compare import compare, wanted
from gguftool.verify.expect import Expectation, around, of_hex, of_list
from gguftool.verify.hashes import ALL, FileHashes, Want, hash_file
from gguftool.verify.published import published
from gguftool.verify.result import Fault, FileReport, Verification
from gguftool.verify.stream import Progress, each


def expectations(
    reports: Sequence[FileReport], sha256: str | None = None, lists: Sequence[str] = ()
) -> dict[str, list[Expectation]]:
    """What each file should be, by path: from the command line, from lists, and from what lies around it.

    Args:
        reports: the files.
        sha256: for the one file there is.
        lists: SHA256SUMS files, manifests, LFS pointers; lists on a web server, a repository of the Hub.

    Raises:
        UsageError: a hash for several files.
        MissingFile, FormatError: a list that cannot be read.
    """
    if sha256 is not None and len(reports) != 1:
        raise UsageError(
            f"--sha256 names one hash, here are {len(reports)} files", "put the hashes into a SHA256SUMS file"
        )
    found: dict[str, list[Expectation]] = {}
    for report in reports:
        said = found.setdefault(report.path, [])
        if sha256 is not None:
            said.append(of_hex(sha256))
        for name in lists:
            if is_remote(name):
                continue
            statement = of_list(name, report.path, only=len(reports) == 1)
            if statement is not None:
                said.append(statement)
        if not said:
            said += around(report.path)
    for name in filter(is_remote, lists):
        for path, statement in published(name, [report.path for report in reports]):
            found.setdefault(path, []).append(statement)
    return found


def with_hashes(
    results: Sequence[Verification],
    expected: Mapping[str, Sequence[Expectation]],
    *,
    want: Want | None = None,
    sources: Mapping[str, Source] | None = None,
    strict: bool = False,
    progress: Progress | None = None,
    jobs: int | None = None,
    known: Headers | None = None,
) -> tuple[list[Verification], dict[str, FileHashes]]:
    """Hash every file and compare.

    Args:
        results: of the quick part.
        expected: by path, see `expectations`.
        want: hash this much of every file (for a manifest); as much as the expectations need when None.
        sources: open sources of files that are not paths.
        strict: a file without expectation is a fault (a list was given, and it is not in it).
        progress: called with the bytes done, from several threads.
        jobs: files at a time; the number of processors when None.
        known: headers that need not be read again.

    Returns:
        The reports with the findings in them, and the hashes by path.
    """
    reports = [report for result in results for report in result.files]

    def one(report: FileReport, tick: Progress) -> tuple[FileReport, FileHashes | None]:
        said = list(expected.get(report.path, ()))
        needed = wanted(said, report)
        if want is not None and report.error is None:
            algorithms = tuple(dict.fromkeys((*want.algorithms, *needed.algorithms)))
            needed = replace(needed, tensors=want.tensors, data=want.data, algorithms=algorithms)
        try:
            found = hash_file((sources or {}).get(report.path, report.path), needed, tick, known)
            done = compare(report, found, said, tick)
        except Exception as error:
            return replace(report, error=report.error or of_one(error, report.path)), None
        if strict and all(e.problem is not None and e.problem.kind == "other-hash" for e in said):
            message = "it is not in the list that was given"
            notes = tuple(note for note in done.notes if note.kind != "no-expectation")
            return replace(done, notes=notes).plus((Fault("not-listed", message),)), found
        return done, found

    done = dict(zip((r.path for r in reports), each(one, reports, jobs, progress), strict=True))
    new = [replace(result, files=tuple(done[r.path][0] for r in result.files)) for result in results]
    return new, {path: hashes for path, (_, hashes) in done.items() if hashes is not None}


def with_data(
    results: Sequence[Verification],
    *,
    sources: Mapping[str, Source] | None = None,
    progress: Progress | None = None,
    known: Headers | None = None,
) -> list[Verification]:
    """Look at the tensor data of every file that is readable (see `gguftool.verify.data`).

    Args:
        results: of the quick part.
        sources: open sources of files that are not paths.
        progress: called with the bytes done, from several threads.
        known: headers that need not be read again.
    """
    from gguftool.verify.data import check_data, judge

    def one(report: FileReport) -> FileReport:
        if report.error is not None:
            return report
        own = None
        try:
            source = (sources or {}).get(report.path) or (own := LocalFile(report.path))
            faults, notes = judge(check_data(source, (known or Headers()).parsed(source), progress), source)
        except Exception as error:
            return replace(report, error=of_one(error, report.path))
        finally:
            if own is not None:
                own.close()
        return report.plus(tuple(faults), tuple(notes), checked="data")

    return [replace(result, files=tuple(one(report) for report in result.files)) for result in results]


MANIFEST = ALL
"""What a manifest needs."""
