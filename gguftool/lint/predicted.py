"""The predicted loads of a run of lint, each worked out once.

Fixes and rules are judged by the newest build that is known; the verdict that is reported, and the rules that repeat
it, by the build that was asked for.
"""

from __future__ import annotations

from gguftool.lint.rule import Context
from gguftool.model import Model
from gguftool.predict import Prediction, predict


def newest(m: Model, ctx: Context) -> Prediction:
    """What the newest build that is known does with the file."""
    predicted: Prediction = ctx.once("load", lambda: predict(m))
    return predicted


def asked(m: Model, ctx: Context) -> Prediction:
    """What the build that was asked for does with it."""
    if ctx.build is None:
        return newest(m, ctx)
    predicted: Prediction = ctx.once("load asked", lambda: predict(m, ctx.build))
    return predicted
