"""A model as it would be with another header, before anything is written."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate

from gguftool.format.header import Header
from gguftool.format.render import pieces
from gguftool.model.model import Model
from gguftool.records import dataclass, replace


def with_header(model: Model, header: Header, size: int | None = None) -> Model:
    """The same model with another header in its first file, where the metadata of a set stands too.

    Of the new file there is the header alone: its data reads as zeros.

    Args:
        model: the model as it is; its other files stay.
        header: what its first file would begin with; ``data_offset`` says where its data would stand.
        size: bytes of the whole new file; as many more or fewer than now as the header has when None.
    """
    first = model.parts[0]
    if size is None:
        size = first.size + header.data_offset - first.header.data_offset
    part = replace(first, header=header, source=_Unwritten(first.name, header, size))
    parts = (part, *model.parts[1:])
    draft = Model(parts, model.missing_shards, model.shard_count, model.by_content, model.shard_names)
    draft.shared = model.shared
    return draft


@dataclass(frozen=True, eq=False)
class _Unwritten:
    """The bytes of a file that is not there yet."""

    name: str
    header: Header
    size: int

    @cached_property
    def _front(self) -> tuple[list[int], list[bytes | memoryview]]:
        """Where each piece of the header begins, and the pieces; a copy of a header of 100 MB would be one too many."""
        h = self.header
        found = list(pieces(h.layout, h.fields, h.tensors))
        return list(accumulate(map(len, found), initial=0))[:-1], found

    def read_at(self, offset: int, n: int) -> bytes:
        """The header; zeros behind it."""
        n = max(0, min(n, self.size - offset))
        starts, found = self._front
        out, left = [], n
        for i in range(bisect_right(starts, offset) - 1, len(found)):
            if not left:
                break
            skip = max(0, offset - starts[i])
            out.append(found[i][skip : skip + left])
            left -= len(out[-1])
        return b"".join((*out, bytes(left)))

    def close(self) -> None:
        """Nothing to give back."""
