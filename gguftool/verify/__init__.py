"""Integrity: is a file whole, is it what was published, do these shards belong together, is the data sane.

The package can be called: ``gguftool.verify("model.gguf", data=True)`` is `gguftool.verify.call.verify`. Its names are
loaded on first use, since hashing alone needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gguftool.door import also_function

if TYPE_CHECKING:
    from gguftool.verify.filecheck import quick
    from gguftool.verify.modelcheck import check, models_of
    from gguftool.verify.result import Fault, FileReport, SetReport, Verification

__all__ = ["Fault", "FileReport", "SetReport", "Verification", "check", "models_of", "quick"]
_HOME = {
    "quick": "filecheck",
    "check": "modelcheck",
    "models_of": "modelcheck",
    "Fault": "result",
    "FileReport": "result",
    "SetReport": "result",
    "Verification": "result",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gguftool.verify' has no attribute {name!r}")
    return getattr(import_module(f"gguftool.verify.{_HOME[name]}"), name)


also_function(__name__)
