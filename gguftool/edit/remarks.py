"""What others than llama.cpp will make of an edited file."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.facts.readers import STUMBLE_OVER_ALIGNMENT, STUMBLE_OVER_EMPTY_ARRAY
from gguftool.format.header import Header
from gguftool.format.types import ARR
from gguftool.model import Model, Part
from gguftool.model.origin import origin
from gguftool.shell import shell
from gguftool.source import Memory


def of_another_program(path: str, header: Header, size: int) -> Iterator[str]:
    """That llama.cpp will not use the file, whatever is edited in it."""
    m = Model((Part(path, Memory(b"", path, size), header),))
    if origin(m) is None:
        return
    from gguftool.model.role import STRANGE, role, way_on, what_it_is

    if role(m) in STRANGE:
        yield f"the file is {what_it_is(m)}: no edit makes llama.cpp load it; {way_on(m)}"


def remarks(old: Header, new: Header) -> Iterator[str]:
    """What a reader should know of the fields that an edit wrote."""
    before = {f.key: f for f in old.fields}
    for f in new.fields:
        was = before.get(f.key)
        if was is f or (was is not None and was.value_bytes == f.value_bytes):
            continue
        if f.key == "general.alignment":
            yield f"{f.key} is {f.value}: {STUMBLE_OVER_ALIGNMENT}"
        elif f.type == ARR and f.count == 0:
            yield f"{f.key} is an empty array: {STUMBLE_OVER_EMPTY_ARRAY}; without it: {shell(('--delete', f.key))}"
