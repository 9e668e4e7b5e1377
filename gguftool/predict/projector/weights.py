"""The data of a projector's tensors: what is read, and what a file that was cut short does to it."""

from __future__ import annotations

from gguftool.facts.machine.clip import Encoder
from gguftool.facts.machine.ends import Refusal
from gguftool.format.header import TensorInfo
from gguftool.model import Model


def stored(m: Model) -> dict[str, TensorInfo]:
    """Tensors of the file by name, which C cuts at a NUL."""
    return {t.name.partition("\0")[0]: t for t in m.parts[0].header.tensors}


def check_data(encoder: Encoder, m: Model) -> None:
    """The tensors are read in the order of asking (`clip.cpp:load_tensors`, b11434).

    llama.cpp does not look whether a read was whole: only the seek for the next tensor fails after one that was not, so
    data that is missing from the very last tensor goes unnoticed.

    Raises:
        Refusal: the seek that fails.
    """
    part, tensors = m.parts[0], stored(m)
    short = False
    for asked in encoder.asked:
        if not asked.found:
            continue
        if short:
            raise Refusal(f"load_tensors: failed to seek for tensor {asked.name}\n", f"tensor:{asked.name}")
        info = tensors[asked.name]
        short = part.header.data_offset + info.offset + (info.nbytes or 0) > part.size
