"""Integrity: is a file whole, is it what was published, do these shards belong together, is the data sane.

The package can be called: ``gguftool.verify("model.gguf", data=True)`` is `gguftool.verify.call.verify`. Its names are
loaded on first use, since hashing alone needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguftool.door import also_function, inner

if TYPE_CHECKING:
    from gguftool.verify.filecheck import quick
    from gguftool.verify.modelcheck import check, models_of
    from gguftool.verify.result import Fault, FileReport, SetReport, Verification

__all__ = ["Fault", "FileReport", "SetReport", "Verification", "check", "models_of", "quick"]
_HOMES = {
    "quick": "filecheck",
    "check": "modelcheck",
    "models_of": "modelcheck",
    "Fault": "result",
    "FileReport": "result",
    "SetReport": "result",
    "Verification": "result",
}


__getattr__ = inner(__name__, _HOMES)


also_function(__name__)
