"""Importance matrices as text and JSON."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

from gguftool.api.imatrix import ImatrixReport
from gguftool.build.imatrix.coverage import RARE, Coverage
from gguftool.build.imatrix.matrix import Matrix
from gguftool.build.imatrix.statistics import LayerStatistics, TensorStatistics
from gguftool.predict.pairs.misfit import ABORTS, DOUBT, HARM, IGNORED, REFUSED, Misfit
from gguftool.report.text import Style, Styled, count, safe, shorten, size, table
from gguftool.run.imatrix import Measured

SAID = {
    ABORTS: "llama-quantize dies of it",
    REFUSED: "llama-quantize refuses it",
    IGNORED: "llama-quantize goes on without it",
    HARM: "worse than it could be",
    DOUBT: "note",
}
STRONGEST = 8
"""Tensors that are named for one strong column."""
TEXTS, LONGEST = 4, 120
"""Texts that are named, and letters of each."""
EXPERTS = 8
"""Tensors of experts that are listed, those with the most that saw nothing first."""


def lines(found: ImatrixReport, style: Style, *, tensors: bool = False) -> Iterator[str]:
    """All of a matrix for people.

    Args:
        found: the matrix.
        style: colours.
        tensors: the figures of every tensor, too.
    """
    kind = "an importance matrix" + (" in the older form" if found.matrix.legacy else "")
    yield f"{style.bold(safe(found.path))}   {kind}   {size(_bytes(found.path))}"
    yield from _head(found.matrix, found.coverage)
    if found.model:
        fits = "it goes with this model" if found.ok else "it does not go with this model"
        yield f"  {'model':<9} {safe(found.model)}: {fits}"
    yield from _flaws(found.flaws, style)
    listed = [one for one in found.coverage.experts if one.unseen or one.rare]
    if listed:
        yield ""
        yield _experts(found.coverage, style)
    yield ""
    yield _layers(found.layers, style)
    yield ""
    yield _tensors(found.tensors, style) if tensors else _strongest(found.tensors, style)


def made_lines(done: Measured, style: Style) -> Iterator[str]:
    """What was measured."""
    tells = "" if done.perplexity is None else f", perplexity {done.perplexity:.4f}"
    yield (
        f"wrote {style.bold(safe(done.path))}   {size(_bytes(done.path))}   {count(done.chunks)} chunks of "
        f"{count(done.chunk)} tokens of {safe(done.text)}{tells}; {safe(done.engine)}, {done.seconds:.1f} s"
    )
    yield from _head(done.matrix, done.coverage)


def merged_lines(done: ImatrixReport, style: Style) -> Iterator[str]:
    """What was merged."""
    files = "1 file" if len(done.merged) == 1 else f"{count(len(done.merged))} files"
    yield f"wrote {style.bold(safe(done.path))}   {size(_bytes(done.path))}   from {files}"
    yield from _head(done.matrix, done.coverage)


def flaw_text(flaw: Misfit) -> str:
    """One flaw as a sentence that says what comes of it."""
    return f"{SAID[flaw.outcome]}: {flaw.message}" if flaw.outcome != DOUBT else flaw.message


def _head(m: Matrix, known: Coverage) -> Iterator[str]:
    layers = {one.split(".")[1] for one in m.entries if one.startswith("blk.")}
    beside = [name for name in m.entries if not name.startswith("blk.")]
    texts = ", ".join(shorten(text, LONGEST) for text in m.datasets[:TEXTS]) or "not told"
    more = f", and {count(len(m.datasets) - TEXTS)} more" if len(m.datasets) > TEXTS else ""
    yield f"  {'text':<9} {texts}{more}"
    of = f" of {count(m.chunk_size)} tokens" if m.chunk_size else ""
    yield f"  {'chunks':<9} {count(m.chunks) + of if m.chunks else 'not told'}"
    more = f", and {', '.join(map(safe, beside[:3]))}" if beside else ""
    yield f"  {'tensors':<9} {count(len(m.entries))} in {count(len(layers))} layers{more}"
    if known.experts:
        yield (
            f"  {'experts':<9} {count(known.all_experts)} in {count(len(known.experts))} tensors: "
            f"{count(known.unseen)} saw no token, {count(known.rare)} fewer than {RARE}"
        )


def _flaws(found: tuple[Misfit, ...], style: Style) -> Iterator[str]:
    told = set[str]()
    for flaw in found:
        paint = style.red if flaw.stops else style.yellow if flaw.outcome == HARM else style.dim
        yield f"  {paint(SAID[flaw.outcome] + ':')} {safe(flaw.message)}"
        if flaw.hint and flaw.hint not in told:
            told.add(flaw.hint)
            yield f"    {safe(flaw.hint)}"


def _experts(known: Coverage, style: Style) -> str:
    worst = sorted((e for e in known.experts if e.unseen or e.rare), key=lambda e: (-len(e.unseen), -len(e.rare)))
    rows = [
        (one.name, one.experts, len(one.unseen), len(one.rare), one.least, one.most, _numbers(one.unseen))
        for one in worst[:EXPERTS]
    ]
    headers = ("experts of", "all", "unseen", f"under {RARE}", "least", "most tokens", "unseen are")
    more = "" if len(worst) <= EXPERTS else f"\n{style.dim(f'… and {count(len(worst) - EXPERTS)} more tensors')}"
    return table(rows, headers, style=style) + more


def _numbers(found: tuple[int, ...]) -> str:
    return ", ".join(map(str, found[:6])) + (" …" if len(found) > 6 else "")


def _layers(found: tuple[LayerStatistics, ...], style: Style) -> str:
    rows = [
        (str(one.layer), _short(one.energy), *(_plain(x, 3) for x in (one.gain, one.cosine, one.pearson)))
        for one in found
    ]
    return table(rows, ("layer", "energy", "gain", "cosine", "correlation"), align="rrrrr", style=style)


def _strongest(found: tuple[TensorStatistics, ...], style: Style) -> str:
    top = sorted(found, key=lambda one: -one.strongest_share)[:STRONGEST]
    rows = [(one.name, count(one.strongest), _percent(one.strongest_share), _plain(one.evenness, 1), _percent(one.zd))
            for one in top]  # fmt: skip
    headers = ("one column stands out in", "column", "of all energy", "evenness %", "ZD")
    return table(rows, headers, align="lrrrr", style=style)


def _tensors(found: tuple[TensorStatistics, ...], style: Style) -> str:
    rows = [
        (
            one.name, _short(one.energy), _short(one.mean), _short(one.deviation), _plain(one.skewness, 2),
            _plain(one.kurtosis, 2), _plain(one.evenness, 2), _percent(one.zd),
            f"{count(one.strongest)}: {_percent(one.strongest_share)}", _plain(one.gain, 2), _short(one.distance),
            _plain(one.pearson, 3), _short(one.covariance),
        )
        for one in found
    ]  # fmt: skip
    headers = ("tensor", "energy", "mean", "deviation", "skew", "kurtosis", "evenness %", "ZD", "strongest", "gain",
               "distance", "correlation", "covariance")  # fmt: skip
    return table(rows, headers, align="lrrrrrrrrrrrr", style=style)


def _bytes(path: str) -> int:
    return os.path.getsize(path)


def _short(x: float) -> str | Styled:
    return "-" if math.isnan(x) else f"{x:.4g}"


def _plain(x: float, digits: int) -> str:
    return "-" if math.isnan(x) else f"{x:.{digits}f}"


def _percent(x: float) -> str:
    return f"{100 * x:.1f} %"


def examined_json(found: ImatrixReport) -> dict[str, object]:
    """The fields of ``--show`` and ``--merge``."""
    return {
        "path": found.path,
        "form": found.matrix.form,
        "model": found.model or None,
        "merged": list(found.merged),
        **_matrix_json(found.matrix, found.coverage, found.flaws, found.notes),
        "layers": [_layer_json(one) for one in found.layers],
        "tensors": [_tensor_json(one) for one in found.tensors],
    }


def measured_json(done: Measured, form: str) -> dict[str, object]:
    """The fields of a measurement."""
    return {
        "path": done.path,
        "form": form,
        "engine": done.engine,
        "text": done.text,
        "read_chunks": done.chunks,
        "perplexity": done.perplexity,
        "seconds": round(done.seconds, 3),
        **_matrix_json(done.matrix, done.coverage, done.flaws, done.notes),
    }


def _matrix_json(m: Matrix, known: Coverage, flaws: tuple[Misfit, ...], notes: tuple[str, ...]) -> dict[str, object]:
    return {
        "datasets": list(m.datasets),
        "chunks": m.chunks or None,
        "chunk_size": m.chunk_size or None,
        "coverage": {
            "tensors": known.tensors,
            "empty": list(known.empty),
            "tokens": known.tokens,
            "experts": known.all_experts,
            "experts_unseen": known.unseen,
            "experts_rare": known.rare,
            "by_tensor": [
                {"name": one.name, "experts": one.experts, "unseen": list(one.unseen), "rare": list(one.rare),
                 "least_tokens": one.least, "most_tokens": one.most}
                for one in known.experts
            ],
            "not_finite": list(known.broken),
            "negative": list(known.negative),
            "zero_columns": sum(columns for _, columns in known.zero),
        },
        "flaws": [
            {"outcome": one.outcome, "message": one.message, "llama_cpp": list(one.said), "hint": one.hint or None,
             "where": one.where}
            for one in flaws
        ],
        "notes": list(notes),
    }  # fmt: skip


def _layer_json(one: LayerStatistics) -> dict[str, object]:
    return {
        "layer": one.layer, "energy": _number(one.energy), "gain": _number(one.gain),
        "distance": _number(one.distance), "cosine": _number(one.cosine), "correlation": _number(one.pearson),
        "covariance": _number(one.covariance),
    }  # fmt: skip


def _tensor_json(one: TensorStatistics) -> dict[str, object]:
    return {
        "name": one.name, "layer": one.layer, "of_squares": one.of_squares, "columns": one.elements,
        "energy": _number(one.energy), "mean": _number(one.mean), "deviation": _number(one.deviation),
        "skewness": _number(one.skewness), "kurtosis": _number(one.kurtosis), "entropy": _number(one.entropy),
        "evenness": _number(one.evenness), "zd": _number(one.zd), "strongest": one.strongest,
        "strongest_share": _number(one.strongest_share), "gain": _number(one.gain),
        "distance": _number(one.distance), "cosine": _number(one.cosine), "correlation": _number(one.pearson),
        "covariance": _number(one.covariance),
    }  # fmt: skip


def _number(x: float) -> float | None:
    return x if math.isfinite(x) else None
