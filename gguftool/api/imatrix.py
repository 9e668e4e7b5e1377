"""Importance matrices as whole files: looked at, alone or beside a model, and merged."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gguftool.brief import short_repr
from gguftool.build.imatrix.coverage import Coverage, coverage, flaws, judged
from gguftool.build.imatrix.matrix import Matrix, load
from gguftool.build.imatrix.merge import merge
from gguftool.build.imatrix.statistics import (
    LayerStatistics,
    TensorStatistics,
    layer_statistics,
    tensor_statistics,
)
from gguftool.build.imatrix.write import FORMS, save
from gguftool.errors import UsageError
from gguftool.files.attributes import readers_of
from gguftool.files.draft import clear_way
from gguftool.hub import file_of, opened
from gguftool.model import Model
from gguftool.predict.pairs.misfit import Misfit
from gguftool.records import dataclass, field


@dataclass(frozen=True, slots=True)
class ImatrixReport:
    """What is known of a matrix.

    Attributes:
        path: the file.
        matrix: what it holds; of a merge the sum.
        coverage: what of its model it knows.
        flaws: what speaks against it, the worst first; beside a model also what does not fit.
        tensors, layers: figures, those of llama-imatrix.
        model: the model it was held against, "" for none.
        merged: files it was made of.
        notes: what the user should know about merging and writing.
    """

    path: str
    matrix: Matrix
    coverage: Coverage
    flaws: tuple[Misfit, ...]
    tensors: tuple[TensorStatistics, ...]
    layers: tuple[LayerStatistics, ...]
    model: str = ""
    merged: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    __repr__ = short_repr

    @property
    def ok(self) -> bool:
        """Whether llama-quantize takes it (for the model)."""
        return not any(flaw.stops for flaw in self.flaws)


def examine_imatrix(path: str | os.PathLike[str], model: Model | str | os.PathLike[str] | None = None) -> ImatrixReport:
    """Look at a matrix.

    Args:
        path: of a matrix of either form.
        model: what it is to be used for; its header is read.

    Raises:
        MissingFile, Unreadable: no such file, no permission.
        FormatError: it is no importance matrix, or a broken one.
    """
    name = file_of(os.fspath(path))
    matrix = load(name)
    known = coverage(matrix)
    figures = tensor_statistics(matrix)
    held = ""
    if model is None:
        found = tuple(flaws(matrix, known))
    else:
        with opened(model) as m:
            found, held = judged(m, matrix, known), m.name
    return ImatrixReport(name, matrix, known, found, figures, layer_statistics(figures), held)


def merge_imatrix(
    paths: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    form: str = "",
    *,
    chunk: int = 0,
    overwrite: bool = False,
) -> ImatrixReport:
    """Add up matrices of one model, or write one in the other form.

    Args:
        paths: of the matrices; sums are added in their order.
        output: file to write.
        form: ``gguf`` or ``dat``; "": by the name, ``.dat`` is the older form.
        chunk: tokens of a chunk of files in the older form; 0: llama-imatrix's default of 512.
        overwrite: replace an existing output.

    Raises:
        FormatError: one is no importance matrix.
        Refused: they do not go together, or the output exists.
        NoRoom: the disk is full.
    """
    output = os.fspath(output)
    form = form or form_of(output)
    if form not in FORMS:
        raise UsageError(f"there is no form {form!r} of importance matrices", f"forms: {', '.join(FORMS)}")
    names = [file_of(os.fspath(path)) for path in paths]
    if os.path.exists(output) and any(os.path.samefile(output, name) for name in names):
        raise UsageError(f"{output}: is one of the matrices to be merged", "name another output")
    clear_way([output], overwrite=overwrite, can_overwrite=True)
    whole, notes = merge([load(name) for name in names], chunk)
    notes += save(output, whole, form, overwrite=overwrite, readers=readers_of(names))
    known = coverage(whole)
    figures = tensor_statistics(whole)
    return ImatrixReport(
        output, whole, known, tuple(flaws(whole, known)), figures, layer_statistics(figures), "", tuple(names), notes
    )


def form_of(output: str) -> str:
    """The form that a name asks for."""
    return "dat" if output.lower().endswith(".dat") else "gguf"
