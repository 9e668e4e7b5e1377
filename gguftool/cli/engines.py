"""What the commands that let models read a text are told of the engine: `kv-test` and `quant-test`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from gguftool.cli.options import option

F = TypeVar("F", bound=Callable[..., object])


def engine_options(function: F) -> F:
    """``--engine``, ``--llama-cpp`` and ``--timeout``, in this order."""
    for decorate in (
        option("--timeout", type=click.FloatRange(min=1), default=3600, show_default=True, help="Seconds it may take."),
        option("--llama-cpp", metavar="PATH", help="The llama.cpp to use: its folder, or a program of it."),
        option(
            "--engine",
            type=click.Choice(["auto", "library", "llama-perplexity"]),
            default="auto",
            show_default=True,
            help="What computes.",
        ),
    ):
        function = decorate(function)
    return function
