"""The predicted loads of a run of lint, each worked out once.

Fixes and rules are judged by the newest build that is known; the verdict that is reported, and the rules that repeat
it, by the build that was asked for.
"""

from __future__ import annotations

from gguftool.lint.rule import Context
from gguftool.model import Model
from gguftool.predict import Prediction, Survey, survey
from gguftool.predict.stages import predict
from gguftool.predict.state import Run
from gguftool.predict.surveyed import of_run


def newest(m: Model, ctx: Context) -> Prediction:
    """What the newest build that is known does with the file."""
    predicted: Prediction = ctx.once("load", lambda: _newest(m, ctx))
    return predicted


def surveyed(m: Model, ctx: Context) -> Survey:
    """The tensors of this model against what is asked for, worked out once a run."""
    found: Survey = ctx.once("tensors survey", lambda: survey(m))
    return found


def _newest(m: Model, ctx: Context) -> Prediction:
    runs: list[Run] = []
    predicted = predict(m, keep=runs.append)
    for run in runs:
        # Of a model that loads the survey is known with it.
        if run.model is m and (seen := of_run(run)) is not None:
            ctx.memo.setdefault("tensors survey", seen)
    return predicted


def asked(m: Model, ctx: Context) -> Prediction:
    """What the build that was asked for does with it."""
    if ctx.build is None:
        return newest(m, ctx)
    predicted: Prediction = ctx.once("load asked", lambda: predict(m, ctx.build))
    return predicted
