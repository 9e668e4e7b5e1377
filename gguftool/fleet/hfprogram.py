"""What the ``hf`` program of the installed huggingface-hub can remove."""

from __future__ import annotations

import os
import shutil
import sys

from gguftool.records import dataclass


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
    """That which is installed: on the PATH, else beside this Python. Looked at, not imported, which takes long."""
    import importlib.util

    beside = os.path.join(os.path.dirname(sys.executable), "hf")
    program = "hf" if shutil.which("hf") or not os.access(beside, os.X_OK) else beside
    found = importlib.util.find_spec("huggingface_hub")
    folder = next(iter(found.submodule_search_locations or ()), "") if found is not None else ""
    return HfProgram(
        (program,),
        removes="def rm" in _text(os.path.join(folder, "cli", "cache.py")),
        removes_files="def delete_files" in _text(os.path.join(folder, "utils", "_cache_manager.py")),
    )


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
