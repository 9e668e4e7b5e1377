"""What llama.cpp does with a control vector, alone or beside its model (`common.cpp`, `llama-adapter.cpp`, b11434).

A file it does not take is skipped with error lines, and so are all other vectors given with it: the server runs without
any of them. That is `WARNS` here, with ``data["skipped"]``.
"""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.facts.data import load
from gguftool.facts.machine.ends import Abort
from gguftool.format.header import align
from gguftool.model import Model
from gguftool.model.steering import INT_MAX, Direction, control_vector
from gguftool.predict.file import check_file, keys_as_c
from gguftool.predict.stages import numbers
from gguftool.predict.tensors import padded
from gguftool.predict.verdict import ABORTS, LOADS, UNKNOWN, WARNS, AfterLoad, LoadEnds, Prediction
from gguftool.predict.words import init, own_lines
from gguftool.source import Source

NONE_VALID = "no valid control vector files passed"
WIDTH = "apply: control vector n_embd does not match model"
SURE = 1 << 34
"""Bytes that a data section may claim for llama.cpp to get as far as reading them; more may not be had."""
_F32 = 0
_TOO_LONG = "terminate called after throwing an instance of 'std::length_error'"


class _Skips(Exception):
    """The file is not taken: what is said, and of which place."""

    def __init__(self, *lines: str, where: str = "file", **data: object) -> None:
        super().__init__(lines[0])
        self.lines, self.where, self.data = lines, where, data


def predict(m: Model, base: Model | None = None, before: Sequence[Model] = ()) -> Prediction:
    """What llama.cpp does with a control vector.

    Args:
        m: the vector, opened with ``strict=False``.
        base: the model that it is given beside; None: what can be told without it.
        before: vectors that are given in front of it.
    """
    try:
        width = _width(m)
        widths = [w for other in before if (w := _known_width(other)) is not None]
        if widths and widths[0] != width:
            raise _Skips(f"control vectors in {m.name} does not match previous dimensions", NONE_VALID)
        _beside(m, width, base)
    except _Skips as end:
        return Prediction(WARNS, "tensors", (), end.lines, end.where, data={**end.data, "skipped": True})
    except LoadEnds as end:
        return unread(end, m.name, m.parts[0].source)
    except Abort as fault:
        return Prediction(ABORTS, "tensors", (fault.text,), where=fault.where, data=fault.data)
    gaps = () if base is not None else ("whether the model has this width, and these layers",)
    after = AfterLoad("decode", "ok") if base is not None else None
    return Prediction(LOADS, "done", after_load=after, not_evaluated=gaps, tensors=len(m.tensors))


def unread(end: LoadEnds, path: str, source: Source) -> Prediction:
    """A file that is not read as GGUF, given as a control vector."""
    if end.verdict == UNKNOWN:
        return Prediction(UNKNOWN, "file", where=end.where, not_evaluated=end.messages)
    lines = (*own_lines(end.messages), f"failed to load control vector file from {path}", NONE_VALID)
    return Prediction(WARNS, "file", (), lines, end.where, data={**end.data, "skipped": True})


def _known_width(m: Model) -> int | None:
    try:
        return _width(m)
    except (_Skips, LoadEnds, Abort):
        return None


def _width(m: Model) -> int:
    """All that is asked of one file; the size of its directions.

    Raises:
        _Skips, LoadEnds, Abort: how it ends.
    """
    check_file(m.parts[0])
    m = keys_as_c(m)
    check_data(m)
    skipping = f"skipping {m.name} due to invalid direction tensors"
    found = control_vector(m).directions
    if not found:
        raise _Skips(f"no direction tensors found in {m.name}", skipping, NONE_VALID)
    width = -1
    first: dict[str, Direction] = {}
    for one in found:
        # Of names that are equal in C the first is looked at again.
        one = first.setdefault(one.name, one)
        if text := _fault(one, width):
            raise _Skips(f"{text} in {m.name}{_tail(text)}", skipping, NONE_VALID, where=f"tensor:{one.name}")
        width = one.info.elements if width == -1 else width
        _room(width, one)
    return width


def _tail(text: str) -> str:
    return " does not match previous dimensions" if text == _OTHER else ""


_OTHER = "direction tensor"


def _fault(one: Direction, width: int) -> str:
    """What llama.cpp says of one tensor, "" when nothing."""
    if one.layer < 0:
        return "invalid/unparsable direction tensor layer index"
    if one.layer == 0:
        return "invalid (zero) direction tensor layer index"
    if one.info.type_id != _F32:
        return "invalid (non-F32) direction tensor type"
    if any(n > 1 for n in padded(one.info.shape)[1:]):
        return "invalid (non-1D) direction tensor shape"
    return _OTHER if width not in (-1, one.info.elements) else ""


def _room(width: int, one: Direction) -> None:
    """The table of all layers up to this one."""
    if text := overflow(width, one.layer):
        raise Abort(text, f"tensor:{one.name}", floats=width * one.layer)


def steered(arch: str) -> bool:
    """Whether the graph of an architecture adds control vectors; those of BERT and its kin do not."""
    return arch in load("load_maps.json")["looks"]["steering"]


def overflow(width: int, layer: int) -> str:
    """How the table of all layers up to this one ends the process, "" when it does not: its size has 32 bits."""
    product = width * layer
    if product <= INT_MAX:
        return ""
    wrapped = (product + (1 << 31)) % (1 << 32) - (1 << 31)
    return _TOO_LONG if wrapped < 0 else "writes outside its memory"


def check_data(m: Model) -> None:
    """The whole data section is read, with the padding behind its last tensor (`gguf_init_from_file`, b11434).

    Raises:
        LoadEnds: it is not all there.
    """
    header, size = m.header, m.parts[0].size
    if not header.tensors:
        return
    claimed = sum(align(t.nbytes or 0, header.alignment) for t in header.tensors)
    missing = header.data_offset + claimed - size
    if missing <= 0:
        return
    if claimed > SURE:
        text = f"whether llama.cpp gets {claimed:,} bytes to read the data into"
        raise LoadEnds((text,), verdict=UNKNOWN, where=f"tensor:{header.tensors[-1].name}")
    lines = (f"{init()}failed to read tensor data binary blob",)
    raise LoadEnds(lines, where=f"tensor:{header.tensors[-1].name}", missing=missing)


def _beside(m: Model, width: int, base: Model | None) -> None:
    """The model's width. A vector without numbers switches off what is not there."""
    if base is None or width == 0:
        return
    known = numbers(base)
    wanted = base.arch.embedding_length if known is None else int(known["n_embd"])
    if width != wanted:
        raise _Skips(WIDTH, where=f"tensor:{next(iter(m.tensors), '')}", width=width, model=wanted)
