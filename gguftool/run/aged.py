"""What the same words mean in builds of another age: FlashAttention before it knew ``auto``, slots nobody counted."""

from __future__ import annotations

from gguftool.facts.cachetypes import CACHE_TYPES, flash_attn_said
from gguftool.memory.settings import SERVER_SLOTS
from gguftool.records import replace
from gguftool.run.capabilities import Capabilities
from gguftool.run.options.table import by_field
from gguftool.run.wishes import Wishes

FOUR_SLOTS = 6925
"""First build whose server opens several slots unless it is told otherwise (pull request 16736)."""
ONE_IS_ONE = 7551
"""From this build on, at the latest, ``-np 1`` is one slot; in b6925 to b7347 it is told from nothing said only by
``-kvu`` (`server.cpp:main`)."""


def flash(w: Wishes, type_v: str, build: Capabilities | None) -> str:
    """What comes of ``-fa`` in a build that knows no ``auto``: off, unless it is said, as it is for a quantised V."""
    name = build.spelling(by_field()["flash_attn"].names) if build is not None else None
    if w.flash_attn != "auto" or build is None or name is None or build.by_name[name].value:
        return w.flash_attn
    return flash_attn_said(type_v, w.flash_attn) if CACHE_TYPES[type_v].quantized else "off"


def slots_opened(number: int | None) -> int:
    """Slots that the server of a build opens where nobody says how many; of an unknown one as the newest."""
    return SERVER_SLOTS if number is None or number >= FOUR_SLOTS else 1


def one_needs_unified(number: int | None) -> bool:
    """Whether ``-np 1`` means one slot only beside ``-kvu``."""
    return number is not None and FOUR_SLOTS <= number < ONE_IS_ONE


def slots(w: Wishes, number: int | None) -> Wishes:
    """Wishes whose number of slots is left to the build, where that opens one."""
    return replace(w, parallel=1) if w.parallel is None and slots_opened(number) == 1 else w
