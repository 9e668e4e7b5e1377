"""How one key is read: as what, whether it must be there, and when."""

from __future__ import annotations

from gguftool.records import dataclass

ALWAYS, SOMETIMES, NEVER = "always", "sometimes", ""


@dataclass(frozen=True, slots=True)
class Read:
    """How one key is read for one architecture.

    Attributes:
        key: without the architecture; a whole key starts with ``=``.
        kind: type of a scalar, ``arr``, or both: ``u32 or arr``.
        element: element type arrays are stored as, "" when any will do.
        required: ``always``; ``sometimes``: where it is reached; or "".
        condition: when it is read, in words; "": for every file.
    """

    key: str
    kind: str
    element: str = ""
    required: str = NEVER
    condition: str = ""
