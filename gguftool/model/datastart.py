"""Where the tensor data really starts, when a header was written with another alignment than its key says."""

from __future__ import annotations

from gguftool.format.header import Header, align
from gguftool.format.types import DEFAULT_ALIGNMENT
from gguftool.source import Source

WIDEST = 1 << 16
"""The widest padding looked for: that of a writer which aligns to pages of 64 KiB."""


def misplaced_start(source: Source, header: Header) -> int | None:
    """The offset at which the data starts, when that is not where its alignment says; None when all is well or open.

    Some writers pad the header to 32 whatever `general.alignment` is (the default of @huggingface/gguf's
    buildGgufHeader), others pad it to more than the key says; the data behind it is whole. Then that start accounts
    for the length of the file to the byte, with or without padding behind the last tensor.
    """
    last = header.data_end()
    if last is None or not header.complete or not header.tensors:
        return None
    said = header.data_offset
    data = last - said
    lengths = (data, align(data, header.alignment))
    if source.size - said == lengths[1]:
        return None
    early = align(header.end, DEFAULT_ALIGNMENT)
    # Long enough all the same, where padding is missing behind the last tensor: then what stands between must be data.
    if (
        early < said
        and source.size - early in lengths
        and (source.size < last or any(source.read_at(early, said - early)))
    ):
        return early
    width = header.alignment * 2
    while width <= WIDEST:
        late = align(header.end, width)
        between = late - said
        if between and source.size - late in lengths:
            # Padding in front and data at the end, not the other way round: else something follows the last tensor.
            padding, end = source.read_at(said, between), source.read_at(source.size - between, between)
            return late if any(end) and not any(padding) else None
        width *= 2
    return None


def misplaced_words(header: Header, start: int) -> str:
    """What is wrong, in a sentence without the name of the file."""
    late = start > header.data_offset
    fits = "a larger alignment" if late else f"an alignment of {DEFAULT_ALIGNMENT}"
    said = "the key says" if header.get("general.alignment") is not None else "without a key it is"
    return (
        f"nothing is missing: the header was written with {fits}, {said} {header.alignment:,}, so "
        f"readers look for the data at byte {header.data_offset:,}; it starts at {start:,}"
    )
