"""What quantisations lose, as text, JSON and a picture."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.report.known import known_json
from gguftool.report.kvtest import COLORS, Point, points
from gguftool.report.text import Style, count, safe, size, table
from gguftool.run.quanttest import QuantTest, Weighed


def lines(t: QuantTest, style: Style) -> Iterator[str]:
    """The table, what it stands on, what can be told apart, and the verdict."""
    rows = [_cells(t.source, "the source")]
    for r in sorted(t.results, key=lambda r: (-r.size, r.path)):
        if why := r.outcome.refused:
            rows.append((safe(r.name), size(r.size), f"{r.bits_per_weight:.2f}", *5 * ("-",), f"refused: {why}"))
        else:
            rows.append(_cells(r, r.grade))
    head = ("file", "size", "bits", "KL divergence", "99 %", "perplexity", "change", "same first", "")
    yield table(rows, head, align="lrrrrrrrl", style=style)
    yield ""
    yield (
        f"{count(t.tokens)} tokens of {safe(t.text)} in chunks of {count(t.chunk)}, {count(t.compared)} positions "
        f"compared with {safe(t.source.name)}; {t.engine}"
    )
    yield f"± is one standard error. {t.basis}"
    for line in t.comparisons:
        yield safe(line)
    for r in t.results:
        for note in r.notes:
            yield f"{style.yellow('note:')} {safe(f'{r.name}: {note}')}"
    for note in t.notes:
        yield f"{style.yellow('note:')} {safe(note)}"
    yield f"{style.bold('verdict:')} {safe(t.verdict)}"


def _cells(r: Weighed, word: str) -> tuple[str, ...]:
    o = r.outcome
    head = (safe(r.name), size(r.size), f"{r.bits_per_weight:.2f}")
    if not o.divergence and not o.largest and o.perplexity_ratio == 1.0:
        same = "100 %" if o.same_first == 1.0 else f"{100 * o.same_first:.1f} %"
        return (*head, "0", "0", f"{o.perplexity:.3f} ± {o.perplexity_error:.3f}", "0", same, word)
    return (
        *head, f"{o.divergence:.5f} ± {o.divergence_error:.5f}", f"{o.divergence_high:.4f}",
        f"{o.perplexity:.3f} ± {o.perplexity_error:.3f}",
        f"{100 * (o.perplexity_ratio - 1):+.2f} ± {100 * o.ratio_error:.2f} %",
        f"{100 * o.same_first:.1f} ± {100 * o.same_error:.1f} %", word,
    )  # fmt: skip


def json_body(t: QuantTest) -> dict[str, object]:
    """The fields of a measurement."""
    return {
        "source": _row(t.source),
        "results": [_row(r) for r in t.results],
        "tokens": t.tokens,
        "compared": t.compared,
        "chunk": t.chunk,
        "text": t.text,
        "engine": t.engine,
        "verdict": t.verdict,
        "basis": t.basis,
        "comparisons": list(t.comparisons),
        "notes": list(t.notes),
        "reference": known_json(t.reference),
    }


def _row(r: Weighed) -> dict[str, object]:
    o = r.outcome
    head: dict[str, object] = {
        "path": r.path,
        "bytes": r.size,
        "bits_per_weight": round(r.bits_per_weight, 4),
        "memory": r.memory,
        "refused": o.refused or None,
        "notes": list(r.notes),
    }
    if o.refused:
        return head
    return head | {
        "perplexity": o.perplexity,
        "perplexity_error": o.perplexity_error,
        "perplexity_ratio": o.perplexity_ratio,
        "ratio_error": o.ratio_error,
        "kl_divergence": o.divergence,
        "kl_error": o.divergence_error,
        "kl_median": o.median,
        "kl_99": o.divergence_high,
        "kl_99_9": o.highest,
        "kl_max": o.largest,
        "same_first": o.same_first,
        "same_error": o.same_error,
        "probability_change": o.change,
        "probability_change_error": o.change_error,
        "probability_rms": o.change_rms,
        "probability_rms_error": o.rms_error,
        "grade": r.grade,
    }


def svg(t: QuantTest) -> str:
    """Size against divergence: to the left is small, below is good."""
    shown = [Point(r.name, r.size, r.outcome.divergence, COLORS[r.grade]) for r in t.ordered]
    shown.append(Point(t.source.name, t.source.size, 0.0, "#000000"))
    title = f"what quantisations of {t.source.name} lose"
    return points(shown, title, "size of the file", "divergence from the source (nats, below is better)", "quant-test")
