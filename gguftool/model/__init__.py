"""Typed views of one file or set of shards."""

from gguftool.model.draft import with_header
from gguftool.model.model import Model, Part, Tensor, from_source, in_folder, is_gguf, open_model

__all__ = ["Model", "Part", "Tensor", "from_source", "in_folder", "is_gguf", "open_model", "with_header"]
