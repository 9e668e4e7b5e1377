"""Pictures of points over a logarithmic axis, as SVG; no library needed."""

from __future__ import annotations

import math
from html import escape

from gguftool.report.text import safe

WIDTH, HEIGHT, MARGIN = 720, 420, 70
GRAY = "#999999"


class Canvas:
    """One picture: places to the right go from 0 to 1, values upwards are what they are.

    Args:
        command: whose picture it is.
        title: above it.
        x_axis: what stands below.
        y_axis: what stands to the left.
        right: room for a legend, in pixels.
    """

    def __init__(self, command: str, title: str, x_axis: str, y_axis: str, right: int = 0) -> None:
        width = WIDTH + right
        self._low, self._high, self._right = 0.0, 1.0, WIDTH - MARGIN
        self._out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" font-family="sans-serif" '
            'font-size="12">',
            f"<!-- gguftool {command} -->",
            f'<rect width="{width}" height="{HEIGHT}" fill="white"/>',
            text(WIDTH / 2, 24, title, "middle", 15),
            text(WIDTH / 2, HEIGHT - 16, x_axis, "middle"),
            f'<g transform="rotate(-90 18 {HEIGHT / 2})">' + text(18, HEIGHT / 2, y_axis, "middle") + "</g>",
        ]

    def log_axis(self, low: float, high: float) -> None:
        """From one power of ten to another, with a line at each whole one."""
        self._low, self._high = low, high
        for power in range(math.ceil(low), math.floor(high) + 1):
            at = self._y(10.0**power)
            line = f'<line x1="{MARGIN}" x2="{self._right}" y1="{at:.1f}" y2="{at:.1f}" stroke="#dddddd"/>'
            self._out += [line, text(MARGIN - 6, at + 4, f"{10.0**power:g}", "end")]

    def _x(self, place: float) -> float:
        return MARGIN + (self._right - MARGIN) * place

    def _y(self, value: float) -> float:
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * share

    def below(self, place: float, words: str) -> None:
        """A mark of the lower axis."""
        self._out.append(text(self._x(place), HEIGHT - MARGIN + 18, words, "middle"))

    def point(self, place: float, value: float, color: str, *, name: str = "", title: str = "") -> None:
        """A point; ``name`` stands beside it on the side where there is room, ``title`` where one points at it."""
        x, y = self._x(place), self._y(value)
        inside = f"<title>{escape(safe(title))}</title>" if title else ""
        self._out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{color}">{inside}</circle>')
        if name:
            left = place > 0.5
            self._out.append(text(x - 8 if left else x + 8, y + 4, name, "end" if left else "start"))

    def ring(self, place: float, value: float) -> None:
        """A ring round a point."""
        x, y = self._x(place), self._y(value)
        self._out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="9" fill="none" stroke="#d55e00" stroke-width="2"/>')

    def legend(self, number: int, color: str, words: str) -> None:
        """A line of the legend, to the right."""
        y = MARGIN + 20 * number
        self._out.append(f'<rect x="{WIDTH - MARGIN + 20}" y="{y - 9}" width="10" height="10" fill="{color}"/>')
        self._out.append(text(WIDTH - MARGIN + 36, y, words))

    def done(self) -> str:
        """The picture."""
        return "\n".join([*self._out, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, anchor: str = "start", points: int = 12) -> str:
    """One line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{points}">{escape(safe(words))}</text>'
