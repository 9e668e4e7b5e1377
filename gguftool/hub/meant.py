"""What a path or an address means: one model, or a place that holds several."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gguftool.hub import is_remote

if TYPE_CHECKING:
    from gguftool.hub.repo import Collection


def meant(spec: str) -> Collection | str:
    """What opens the one model that is named; where there are several, what there is.

    A file means itself, and what knows of repositories is not loaded for it.

    Raises:
        MissingFile, ToolFailed, UsageError, Unreadable: as `gguftool.hub.repo.several`.
    """
    if not is_remote(spec) and not os.path.isdir(spec):
        return spec
    from gguftool.hub.repo import meant as found

    return found(spec)
