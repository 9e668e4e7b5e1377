"""Importance matrices: how much each input column of a tensor matters, measured by llama-imatrix.

`gguftool.build.imatrix.matrix` reads them as they were measured; here is what quantising takes of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gguftool.build.imatrix.coverage import coverage, flaws
from gguftool.build.imatrix.matrix import Entry, load
from gguftool.errors import FormatError
from gguftool.predict.pairs.misfit import HARM, REFUSED
from gguftool.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Imatrix:
    """Importances by tensor name, f32 as bytes; of a tensor of experts one row for each.

    Attributes:
        path: file it was read from.
        entries: tensor name -> f32 values, little-endian.
        dataset: text file it was measured on, "" when unknown.
        chunks: pieces of text it was measured on, 0 when unknown.
        flaws: what will be worse than it could be, a sentence each: experts that saw no token and the like.
    """

    path: str
    entries: Mapping[str, bytes]
    dataset: str = ""
    chunks: int = 0
    flaws: tuple[str, ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        """Number of values by tensor name."""
        return {name: len(values) // 4 for name, values in self.entries.items()}

    def selected(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Imatrix | None:
        """What is left of it: the entries whose names hold one of ``include``, and none of ``exclude``.

        None when nothing is left: then llama-quantize goes on as if there were no matrix (`quantize.cpp`, b11434).
        """
        kept = {
            name: values
            for name, values in self.entries.items()
            if (not include or any(part in name for part in include)) and not any(part in name for part in exclude)
        }
        return replace(self, entries=kept) if kept else None

    @property
    def negative(self) -> frozenset[str]:
        """Entries with values below zero, which no sum of squares is."""
        import numpy as np

        return frozenset(name for name, values in self.entries.items() if (np.frombuffer(values, "<f4") < 0).any())


def read(path: str) -> Imatrix:
    """Read an importance matrix of either form, for quantising.

    Raises:
        MissingFile, Unreadable: no such file, no permission.
        FormatError: it is neither form, its parts do not fit together, or it holds NaN or infinity.
    """
    found = load(path)
    entries = {name: _importances(entry, found.legacy, path, name) for name, entry in found.entries.items()}
    told = tuple(flaw.message for flaw in flaws(found, coverage(found)) if flaw.outcome in (REFUSED, HARM))
    return Imatrix(path, entries, found.datasets[0] if found.datasets else "", found.chunks, told)


def _importances(entry: Entry, legacy: bool, path: str, name: str) -> bytes:
    import numpy as np

    # Of the older form the values are taken as they are where it tells no calls.
    values = entry.squares if legacy and entry.counts[0] <= 0 else entry.means()
    if not np.isfinite(values).all():
        raise FormatError(f"{path}: the importances of {name} hold NaN or infinity", key=name, kind="invalid-data")
    return np.asarray(values, "<f4").tobytes()
