"""What cache types cost, as text, JSON and a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from gguftool.records import dataclass
from gguftool.report.chart import Canvas
from gguftool.report.known import known_json
from gguftool.report.text import Style, count, safe, size, table
from gguftool.run.kvtest import KvTest, TypeResult

COLORS = {
    "next to no loss": "#009e73",
    "a slight loss": "#56b4e9",
    "a noticeable loss": "#e69f00",
    "a severe loss": "#d55e00",
}
FLOOR = 1e-5
"""Divergences below are drawn here: the axis is logarithmic."""


def lines(t: KvTest, planned: Mapping[str, int], context: int, style: Style) -> Iterator[str]:
    """The table, what it stands on, and the verdict.

    Args:
        t: the measurement.
        planned: bytes of the cache at ``context`` tokens, by name of the type.
        context: tokens the memory is given for.
        style: colours.
    """
    rows = []
    for r in t.results:
        if r.refused:
            rows.append((r.name, "-", "-", "-", "-", "-", "-", f"refused: {r.refused}"))
            continue
        change = "" if r is t.results[0] else f"{100 * (r.perplexity_ratio - 1):+.1f} ± {100 * r.ratio_error:.1f} %"
        spread = "" if r is t.results[0] else f"{r.divergence:.5f} ± {r.divergence_error:.5f}"
        grade = "the reference" if r is t.results[0] else r.grade
        rows.append(
            (
                r.name, size(planned[r.name]), f"{r.perplexity:.3f}", change, spread, f"{100 * r.same_first:.1f} %",
                f"{r.prompt_speed:.0f}/{r.write_speed:.1f}", grade,
            )
        )  # fmt: skip
    headers = ("type", f"KV at {count(context)}", "perplexity", "change", "KL divergence", "same first", "tok/s", "")
    yield table(rows, headers, align="lrrrrrrl", style=style)
    yield ""
    yield (
        f"{count(t.tokens)} tokens of {safe(t.text)} in chunks of {count(t.chunk)}, {count(t.compared)} positions "
        f"compared with f16; tok/s: reading/writing; {t.engine}"
    )
    yield f"{style.bold('verdict:')} {t.verdict}"


def json_body(t: KvTest, planned: Mapping[str, int], context: int) -> dict[str, object]:
    """The fields of a measurement."""
    return {
        "tokens": t.tokens,
        "compared": t.compared,
        "chunk": t.chunk,
        "text": t.text,
        "engine": t.engine,
        "context": context,
        "results": [_row(r, planned) for r in t.results],
        "verdict": t.verdict,
        "reference": known_json(t.reference),
    }


def _row(r: TypeResult, planned: Mapping[str, int]) -> dict[str, object]:
    head: dict[str, object] = {"type_k": r.type_k, "type_v": r.type_v, "refused": r.refused or None}
    if r.refused:
        return head
    return head | {
        "kv_bytes": planned[r.name],
        "test_bytes": r.cache_bytes,
        "perplexity": r.perplexity,
        "perplexity_ratio": r.perplexity_ratio,
        "ratio_error": r.ratio_error,
        "kl_divergence": r.divergence,
        "kl_error": r.divergence_error,
        "kl_99": r.divergence_high,
        "same_first": r.same_first,
        "prompt_tokens_per_second": r.prompt_speed,
        "write_tokens_per_second": r.write_speed,
        "grade": r.grade,
    }


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the picture: its name, bytes, nats, and colour."""

    name: str
    bytes: int
    divergence: float
    color: str


def svg(t: KvTest, planned: Mapping[str, int], context: int, name: str) -> str:
    """Memory against divergence: to the left is small, below is good. SVG, no library needed."""
    shown = [
        Point(r.name, planned[r.name], r.divergence, "#000000" if r is t.results[0] else COLORS[r.grade])
        for r in t.results
        if not r.refused
    ]
    title = f"KV cache types of {name} at {count(context)} tokens"
    return points(shown, title, "memory of the KV cache", "divergence from f16 (nats, below is better)", "kv-test")


def points(shown: Sequence[Point], title: str, x_axis: str, y_axis: str, command: str) -> str:
    """Bytes against divergence, whose axis is logarithmic. SVG, no library needed.

    Args:
        shown: what is drawn.
        title: above it.
        x_axis: what the bytes are.
        y_axis: what the divergence is from.
        command: whose picture it is.
    """
    most = max(p.bytes for p in shown) or 1
    top = max(1.0, *(10 * p.divergence for p in shown), 0.0)
    canvas = Canvas(command, title, x_axis, y_axis)
    canvas.log_axis(math.log10(FLOOR), math.log10(top))
    for part in range(5):
        canvas.below((most * part // 4) / most, size(most * part // 4))
    for p in shown:
        canvas.point(p.bytes / most, max(p.divergence, FLOOR), p.color, name=p.name)
    return canvas.done()
