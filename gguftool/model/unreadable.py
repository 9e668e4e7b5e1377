"""A header that breaks off, as an error."""

from __future__ import annotations

from gguftool.errors import FormatError, GgufToolError
from gguftool.model import Model


def unreadable(model: Model) -> GgufToolError | None:
    """Why a header could not be read to its end, as an error; None when it could."""
    for part in model.parts:
        for p in part.header.problems:
            if p.fatal:
                return FormatError(f"{part.name}: {p.message}", offset=p.offset, key=p.key, kind=p.kind)
    return None
