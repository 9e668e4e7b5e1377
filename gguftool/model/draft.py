"""A model as it would be with another header, before anything is written."""

from __future__ import annotations

from dataclasses import replace

from gguftool.format.header import Header
from gguftool.model.model import Model
from gguftool.source import Memory


def with_header(model: Model, header: Header, front: bytes = b"", size: int | None = None) -> Model:
    """The same model, its first file with ``header`` (the metadata of a set stands there).

    Args:
        model: the model as it is; its other files stay.
        header: what its first file would begin with.
        front: the bytes in front of the data, where they are made already; without them the file's own source stays,
            and only the header of the new model is to be trusted.
        size: bytes of the whole new file, when ``front`` is given.
    """
    first = model.parts[0]
    if size is None:
        return Model((replace(first, header=header), *model.parts[1:]), model.missing_shards, model.shard_count)
    header = replace(header, data_offset=len(front))
    part = replace(first, header=header, source=Memory(front, first.name, size))
    return Model((part, *model.parts[1:]), model.missing_shards, model.shard_count)
