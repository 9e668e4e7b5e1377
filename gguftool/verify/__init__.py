"""Integrity: is a file whole, is it what was published, do these shards belong together, is the data sane.

The package can be called: ``gguftool.verify("model.gguf", data=True)`` is `gguftool.verify.call.verify`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from gguftool.verify.check import check, models_of
from gguftool.verify.quick import quick
from gguftool.verify.result import Fault, FileReport, SetReport, Verification

__all__ = ["Fault", "FileReport", "SetReport", "Verification", "check", "models_of", "quick"]


class _Callable(ModuleType):
    """A package that is also the function named like it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from gguftool.verify.call import verify

        return verify(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
