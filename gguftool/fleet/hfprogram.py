"""What the ``hf`` program of the installed huggingface-hub can remove."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HfProgram:
    """The program.

    Attributes:
        words: how it is called.
        removes: it has ``cache rm`` for revisions (huggingface-hub 1.0).
        removes_files: that takes files, too.
    """

    words: tuple[str, ...] = ("hf",)
    removes: bool = True
    removes_files: bool = True


def hf_program() -> HfProgram:
    """That which is installed: on the PATH, else beside this Python."""
    import importlib.util

    from huggingface_hub import HFCacheInfo

    beside = os.path.join(os.path.dirname(sys.executable), "hf")
    program = "hf" if shutil.which("hf") or not os.access(beside, os.X_OK) else beside
    removes = importlib.util.find_spec("huggingface_hub.cli.cache") is not None
    return HfProgram((program,), removes, hasattr(HFCacheInfo, "delete_files"))
