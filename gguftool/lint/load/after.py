"""What follows a load that succeeds: the context, and the first decode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguftool.lint.load.verdict import AfterLoad

if TYPE_CHECKING:
    from gguftool.lint.load.predict import Run


def after_load(state: Run) -> AfterLoad:
    """Judge the graph that the first decode builds."""
    return AfterLoad("decode", "ok")
