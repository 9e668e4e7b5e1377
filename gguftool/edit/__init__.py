"""Edits of GGUF files in place: crash-safe, undoable, and without copying the tensor data where the file system can.

The room has the name of its main function, so the module itself can be called: ``gguftool.edit("m.gguf")`` is
`gguftool.edit.session.edit`, whether or not the room has been imported before.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gguftool.edit.session import edit


class _CallableRoom(ModuleType):
    def __call__(self, path: Any, **options: Any) -> edit:
        from gguftool.edit.session import edit

        return edit(path, **options)


sys.modules[__name__].__class__ = _CallableRoom
