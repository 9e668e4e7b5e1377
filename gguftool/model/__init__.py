"""Typed views of one file or set of shards. Names are loaded on first use: most commands need two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguftool.door import inner

if TYPE_CHECKING:
    from gguftool.model.draft import with_header
    from gguftool.model.folder import in_folder
    from gguftool.model.model import Model
    from gguftool.model.opening import from_source, open_model
    from gguftool.model.part import Part, Tensor
    from gguftool.model.shards import is_gguf

__all__ = ["Model", "Part", "Tensor", "from_source", "in_folder", "is_gguf", "open_model", "with_header"]
_HOMES = {
    "with_header": "draft",
    "in_folder": "folder",
    "Model": "model",
    "from_source": "opening",
    "open_model": "opening",
    "Part": "part",
    "Tensor": "part",
    "is_gguf": "shards",
}


__getattr__ = inner(__name__, _HOMES)
