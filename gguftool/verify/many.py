"""The quick part for many models at once, near and far."""

from __future__ import annotations

from collections.abc import Iterable

from gguftool import hub
from gguftool.errors import GgufToolError, of_one
from gguftool.model.headers import Headers
from gguftool.source import Source
from gguftool.verify.modelcheck import check, models_of
from gguftool.verify.result import Fault, FileReport, Verification


def check_all(models: Iterable[str], known: Headers | None = None) -> tuple[list[Verification], dict[str, Source]]:
    """The quick part of every model, each set once; and the open sources of remote ones.

    Args:
        models: paths, folders, addresses.
        known: headers that are read are added here, for who reads the files once more.

    Raises:
        GgufToolError: the only file named cannot be opened; of several it gets a report of its own.
    """
    names = list(models)
    results: list[Verification] = []
    sources: dict[str, Source] = {}
    paths: list[str] = []
    for name in names:
        here = hub.local_path(name) if hub.is_remote(name) else name
        if here is not None:
            paths.append(here)
            continue
        try:
            model = hub.open_any(name, strict=False)
            results.append(check(model))
            for part in model.parts:
                (known or Headers()).keep(part.source, part.header)
        except Exception as error:
            if len(names) == 1:
                raise
            results.append(_not_there(name, of_one(error, name)))
            continue
        sources.update({part.name: part.source for part in model.parts})
    covered: set[str] = set()
    pairs = models_of(paths)
    for path, others in pairs:
        if path not in covered:
            try:
                results.append(check(path, others, known))
            except Exception as error:
                if len(names) == len(pairs) == 1:
                    raise
                results.append(_not_there(path, of_one(error, path)))
            covered.update((*(report.path for report in results[-1].files), *results[-1].covers))
    return results, sources


def _not_there(path: str, error: GgufToolError) -> Verification:
    """One of several files that cannot be opened, or makes us fail: it must not hide what is wrong with the others."""
    fault = Fault(error.code, str(error).removeprefix(f"{path}: "), "file", error.hint)
    return Verification((FileReport(path, faults=(fault,), error=error),))
