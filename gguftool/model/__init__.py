"""Typed views of one file or set of shards."""

from gguftool.model.draft import with_header
from gguftool.model.folder import in_folder
from gguftool.model.model import Model
from gguftool.model.opening import from_source, open_model
from gguftool.model.part import Part, Tensor
from gguftool.model.shards import is_gguf

__all__ = ["Model", "Part", "Tensor", "from_source", "in_folder", "is_gguf", "open_model", "with_header"]
