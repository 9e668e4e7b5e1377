"""What the converter would write for the source folder of `--against`, for the rules that compare with it."""

from __future__ import annotations

from collections.abc import Mapping

from gguftool.facts.conversion import Written, written
from gguftool.lint.rule import Context
from gguftool.model import Model
from gguftool.model.hfconfig import HfConfig


def converted(m: Model, ctx: Context) -> Mapping[str, Written]:
    """Keys without the architecture, as the folder's configuration comes to; empty without a folder of this model."""
    return ctx.once("converted", lambda: _converted(m, ctx))


def _converted(m: Model, ctx: Context) -> Mapping[str, Written]:
    from gguftool.lint.rules.source.numbers import same_model

    if ctx.against is None or not same_model(m, ctx):
        return {}
    name = HfConfig(ctx.against.config).architecture
    return written(m.architecture, name, ctx.against.text, m.arch.block_count)
