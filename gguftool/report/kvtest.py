"""What cache types cost, as text, JSON and a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from gguftool.report.known import known_json
from gguftool.report.text import Style, count, safe, size, table
from gguftool.run.kvtest import KvTest, TypeResult

WIDTH, HEIGHT, MARGIN = 720, 420, 70
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


def svg(t: KvTest, planned: Mapping[str, int], context: int, name: str) -> str:
    """Memory against divergence: to the left is small, below is good. SVG, no library needed."""
    shown = [r for r in t.results if not r.refused]
    most = max(planned[r.name] for r in shown) or 1
    top = max(1.0, *(10 * r.divergence for r in shown))
    low, high = math.log10(FLOOR), math.log10(top)

    def x(value: int) -> float:
        return MARGIN + (WIDTH - 2 * MARGIN) * value / most

    def y(value: float) -> float:
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (math.log10(max(value, FLOOR)) - low) / (high - low)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        "<!-- gguftool kv-test -->",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(WIDTH / 2, 24, f"KV cache types of {name} at {count(context)} tokens", "middle", 15),
        _text(WIDTH / 2, HEIGHT - 16, "memory of the KV cache", "middle"),
        f'<g transform="rotate(-90 18 {HEIGHT / 2})">'
        + _text(18, HEIGHT / 2, "divergence from f16 (nats, below is better)", "middle")
        + "</g>",
    ]
    for power in range(math.ceil(low), math.floor(high) + 1):
        at = y(10.0**power)
        out.append(f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{at:.1f}" y2="{at:.1f}" stroke="#dddddd"/>')
        out.append(_text(MARGIN - 6, at + 4, f"{10.0**power:g}", "end"))
    for part in range(5):
        out.append(_text(x(most * part // 4), HEIGHT - MARGIN + 18, size(most * part // 4), "middle"))
    for r in shown:
        px, py = x(planned[r.name]), y(r.divergence)
        color = "#000000" if r is t.results[0] else COLORS[r.grade]
        out.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="5" fill="{color}"/>')
        out.append(_text(px + 8, py + 4, r.name))
    return "\n".join([*out, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, anchor: str = "start", points: int = 12) -> str:
    from xml.sax.saxutils import escape

    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{points}">{escape(safe(text))}</text>'
