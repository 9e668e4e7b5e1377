"""The type of an option that names a log to write.

Apart from the other types: when click makes a type of paths it looks for a translation of its name, which takes longer
than all the others together.
"""

from __future__ import annotations

import os
from typing import Any

import click


class LogFile(click.Path):
    """A file to write a log to. It is made anew, so a model must not bear that name."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path as it is; a usage error for a GGUF file."""
        path = super().convert(value, param, ctx)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                if file.read(4) == b"GGUF":
                    self.fail(f"{value} is a model; a log would take its place", param, ctx)
        return path


LOG = LogFile(dir_okay=False)
