"""What a scan comes to in Prometheus' text format, version 0.0.4, for node_exporter's folder of text files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gguftool.fleet.tally import STATES, Tally
from gguftool.lint.rule import Severity
from gguftool.predict.verdict import ABORTS, LOADS, REFUSED, UNKNOWN, WARNS
from gguftool.version import __version__

BEGIN = "# HELP gguftool_info "
"""What such a file begins with."""
VERDICTS = (LOADS, WARNS, REFUSED, ABORTS, UNKNOWN)
Sample = tuple[Mapping[str, str], float | int]


def metrics(tally: Tally, paths: Sequence[str], events: Sequence[str] = ()) -> str:
    """The whole file.

    Every sample has the paths as a label: files of several scans lie in one folder, and no two may have the same.

    Args:
        tally: the numbers.
        paths: what was scanned.
        events: what can happen, of folders that are watched.
    """
    of = {"paths": os.pathsep.join(paths)}

    def each(label: str, counts: Mapping[str, int], known: Iterable[str]) -> Iterator[Sample]:
        for value in dict.fromkeys((*known, *sorted(counts))):
            yield {**of, label: value}, counts.get(value, 0)

    families: list[tuple[str, str, str, Iterable[Sample]]] = [
        ("info", "gauge", "The gguftool that scans.", [({**of, "version": __version__}, 1)]),
        ("models", "gauge", "Models by state.", each("state", tally.models, STATES)),
        ("findings", "gauge", "Findings of lint by severity.", each("severity", tally.findings, map(str, Severity))),
        ("load_verdicts", "gauge", "Models by what llama.cpp does with them.", each("verdict", tally.loads, VERDICTS)),
        (
            "last_scan_timestamp_seconds",
            "gauge",
            "When all paths had last been looked through.",
            [(of, tally.scanned or 0)],
        ),
        ("scan_errors_total", "counter", "What could not be listed, watched or written.", [(of, tally.errors)]),
    ]
    if events:
        told = each("event", tally.rows, events)
        families.append(("rows_total", "counter", "Rows that were written by event.", told))
    return "".join(line for family in families for line in _family(*family))


def is_metrics(begin: bytes) -> bool:
    """Whether a file with these first bytes is one of ours, or empty."""
    return not begin or begin.startswith(BEGIN.encode())


def _family(name: str, kind: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    full = f"gguftool_{name}"
    yield f"# HELP {full} {text}\n# TYPE {full} {kind}\n"
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{full}{{{shown}}} {value}\n"


def _escaped(value: str) -> str:
    r"""The value of a label: backslash, quote and end of line spelled out, and what is not UTF-8 as ``\\xNN``."""
    text = value.encode("utf-8", "backslashreplace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
