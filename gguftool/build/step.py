"""What happens to one tensor."""

from __future__ import annotations

from gguftool.build.mixture import Choice
from gguftool.model import Tensor
from gguftool.records import dataclass

FLOATS = ("F32", "F16", "BF16")


@dataclass(frozen=True, slots=True)
class Step:
    """One tensor of the result, in the order it is written.

    Attributes:
        tensor: the source.
        choice: type it gets, and the one it was meant to get.
        old_bytes, new_bytes: of its data, without padding.
        offset: of the new data from the start of the data section, in bytes.
        source_type: tensor type name of the source.
        name: of the tensor in the result.
        output: number of the file it goes to.
    """

    tensor: Tensor
    choice: Choice
    old_bytes: int
    new_bytes: int
    offset: int
    source_type: str
    name: str
    output: int = 0

    @property
    def changes(self) -> bool:
        """False when the data is copied as it is."""
        return self.choice.type != self.source_type

    @property
    def requantizes(self) -> bool:
        """Whether data that has already lost precision loses more."""
        return self.changes and self.source_type not in FLOATS
