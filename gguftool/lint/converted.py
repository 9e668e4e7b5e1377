"""What the converter would write for the source folder of `--against`, for the rules that compare with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gguftool.lint.rule import Context
from gguftool.model import Model

if TYPE_CHECKING:
    from gguftool.facts.conversion import Written


def converted(m: Model, ctx: Context) -> Mapping[str, Written]:
    """Keys without the architecture, as the folder's configuration comes to; empty without a folder of this model."""
    return ctx.once("converted", lambda: _converted(m, ctx))


def _converted(m: Model, ctx: Context) -> Mapping[str, Written]:
    if ctx.against is None:
        return {}
    from gguftool.facts.conversion import written
    from gguftool.lint.rules.source.numbers import same_model
    from gguftool.model.hfconfig import HfConfig

    if not same_model(m, ctx):
        return {}
    name = HfConfig(ctx.against.config).architecture
    return written(m.architecture, name, ctx.against.text, m.arch.block_count)
