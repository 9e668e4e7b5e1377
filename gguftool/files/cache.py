"""Where what can be had again is kept for the user."""

from __future__ import annotations

import os


def user_cache(*names: str) -> str:
    """A place in the user's cache folder (XDG_CACHE_HOME)."""
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), *names)
