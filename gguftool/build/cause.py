"""Why numbers of a result are none, or zero: the source has them already, or they do not fit into the type."""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from gguftool.build.folder.look import Folder
from gguftool.build.judged import NO_NUMBERS, Check, looked
from gguftool.build.safetensors import FLOATS, Entry
from gguftool.errors import GgufToolError
from gguftool.facts.tensornames import called
from gguftool.format.header import TensorInfo
from gguftool.model import Model
from gguftool.records import dataclass, replace
from gguftool.regex import regex
from gguftool.source import LocalFile
from gguftool.verify.result import Fault

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gguftool.build.convert import Drafted

ENDS = {"F16": 65520.0, "Q8_0": 127 * 65520.0, "BF16": 3.3961775e38}
"""What is this large becomes infinite in a type, as rounding to the nearest has it; in Q8_0 the scale does."""
SMALLEST = {"F16": 2.0**-25}
"""What is smaller becomes zero."""
WORDS = {
    "F16": "F16 ends at 65,504", "Q8_0": "the scales of Q8_0 end at 65,504", "BF16": "BF16 ends at 3.39e38",
}  # fmt: skip
MOST = 20
"""Tensors whose cause is looked for: each is a look into the source's data."""
PIECE = 1 << 22
_NUMBER = regex(r"\.(\d{1,6})\.")


@dataclass(frozen=True, slots=True)
class Extremes:
    """What is in the data of one tensor of the source.

    Attributes:
        nan, inf: how many numbers are that.
        largest: largest magnitude of the others.
    """

    nan: int = 0
    inf: int = 0
    largest: float = 0.0


def explained(check: Check, model: Model, drafted: Drafted, again: Callable[..., str]) -> Check:
    """The check of the data with the cause of each fault, as far as the source tells.

    Args:
        check: of `gguftool.build.judged.data`.
        model: what came out.
        drafted: what it was made of, and what the log says.
        again: makes the command that goes on with these further words.
    """
    tensors = {f"tensor:{t.name}": t.info for t in model.all_tensors()}
    folder = drafted.folder
    own: dict[str, Extremes] = {}

    def extremes(entry: Entry) -> Extremes:
        if entry.name not in own:
            name = next((n for n in folder.files if n.rpartition("/")[2] == entry.file), entry.file)
            own[entry.name] = read(os.path.join(folder.path, name), entry)
        return own[entry.name]

    faults, left = [], MOST
    for fault in check.faults:
        info = tensors.get(fault.where)
        if fault.kind not in NO_NUMBERS or info is None or not left:
            faults.append(fault)
            continue
        left -= 1
        told = _told(fault, info, _likely(info, folder), extremes, again)
        faults.append(told if told.hint is not None else replace(told, hint=_unexplained(folder)))
    notes = []
    for note in check.notes:
        info = tensors.get(note.where)
        vanished = None
        if note.kind == "zero-tensor" and info is not None and left:
            left -= 1
            vanished = _vanished(note, info, _likely(info, folder), extremes, again)
        if vanished is None:
            notes.append(note)
        else:
            faults.append(vanished)
    if drafted.warnings and not any(f.kind == "overflow" for f in faults):
        notes.append(Fault("converter-warning", f"the converter's log: {drafted.warnings[0][:200]}"))
    if not faults:
        return looked("data", check.said, (), notes)
    more = f" (and {len(faults) - 1:,} more)" if faults[1:] else ""
    return looked("data", f"{faults[0].message}{more}", faults, notes)


def _told(
    fault: Fault,
    info: TensorInfo,
    likely: Iterable[Entry],
    extremes: Callable[[Entry], Extremes],
    again: Callable[..., str],
) -> Fault:
    """The fault with what the source says of it; without a hint where it says nothing."""
    begin, kind = fault.message.partition("; first at ")[0], info.type_name
    end = ENDS.get(kind)
    for entry, found in _looked_at(likely, extremes):
        # Of several tensors of one size only that with the same kind of numbers explains it.
        if (found.nan and " NaN" in begin) or (found.inf and " infinite" in begin):
            what = " and ".join(f"{n:,} {w}" for n, w in ((found.nan, "NaN"), (found.inf, "infinite")) if n)
            message = f"{begin}: {entry.name} of the source holds {what} already"
            hint = "no conversion mends that: fetch the source again, or take an earlier checkpoint"
            return replace(fault, kind="bad-source", message=message, hint=hint)
        if end is not None and found.largest >= end and " infinite" in begin:
            message = f"{begin}: {entry.name} of the source reaches {found.largest:,.6g}, {WORDS[kind]}"
            return replace(fault, kind="overflow", message=message, hint=again("--outtype", _wider(kind)))
    return replace(fault, hint=None)


def _unexplained(folder: Folder) -> str:
    if not folder.tensors:
        return "the weights of the source are pickled and were not looked at: save them as safetensors"
    if any(e.dtype not in FLOATS for e in folder.tensors):
        return "its weights are quantised: a scale of the source, or the converter, made it"
    return "the source has no such number: the converter or the disk made it; convert again"


def _vanished(
    note: Fault,
    info: TensorInfo,
    likely: Iterable[Entry],
    extremes: Callable[[Entry], Extremes],
    again: Callable[..., str],
) -> Fault | None:
    """A tensor that is zero throughout and is not in the source; None where it is, or where that is not known."""
    for entry, found in _looked_at(likely, extremes):
        if entry.elements == info.elements and 0 < found.largest < SMALLEST.get(info.type_name, 0.0):
            message = f"{note.message}: {entry.name} of the source reaches {found.largest:.3g}, {info.type_name} begins"
            message += f" at {SMALLEST[info.type_name] * 2:.3g}"
            return replace(note, kind="underflow", message=message, hint=again("--outtype", "bf16"))
        return None
    return None


def _looked_at(likely: Iterable[Entry], extremes: Callable[[Entry], Extremes]) -> Iterator[tuple[Entry, Extremes]]:
    """Those that can be read, with what is in them."""
    for entry in likely:
        with contextlib.suppress(GgufToolError, ValueError, struct.error):
            yield entry, extremes(entry)


def _wider(kind: str) -> str:
    return "f32" if kind == "BF16" else "bf16"


def _likely(info: TensorInfo, folder: Folder) -> Iterator[Entry]:
    """Tensors of the source that it can be made of: that of its name, else of its layer and size, its parts, wholes."""
    rows = [e for e in folder.tensors if e.dtype in FLOATS and e.elements]
    layer, general = _layer(info.name), _NUMBER.sub(".{bid}.", info.name, count=1)
    named = [e for e in rows if _layer(e.name) == layer and called(folder.architecture, e.name) == general]
    yield from named
    if named:
        return
    here = [e for e in rows if _layer(e.name) == layer]
    same = [e for e in rows if e.elements == info.elements]
    parts = [e for e in here if e.elements < info.elements and info.elements % e.elements == 0 and len(e.shape) > 1]
    wholes = [e for e in here if e.elements > info.elements and e.elements % info.elements == 0]
    for group in (same, parts, wholes):
        yield from sorted(group, key=lambda e: (_layer(e.name) != layer, -len(_words(e.name) & _words(info.name))))


@cache
def _words(name: str) -> frozenset[str]:
    """Parts of a name: ``up``, ``gate``, ``q`` stand in the names of both sides."""
    return frozenset(re.split(r"[._]", name))


@cache
def _layer(name: str) -> str:
    """The number of the layer that a name names, "" for none."""
    found = _NUMBER.search(f".{name}.")
    return found[1] if found else ""


def read(path: str, entry: Entry) -> Extremes:
    """Look at all numbers of one tensor of a safetensors file.

    Raises:
        Unreadable, MissingFile: the file cannot be read.
    """
    import numpy as np

    width = {"F64": 8, "F32": 4}.get(entry.dtype, 2)
    file = LocalFile(path)
    nan = inf = 0
    largest = 0.0
    try:
        (size,) = struct.unpack("<Q", file.read_at(0, 8))
        at, end = 8 + size + entry.begin, 8 + size + entry.begin + entry.nbytes
        while at < end:
            data = file.read_at(at, min(PIECE, end - at))
            if not data:
                break
            values = _numbers(np.frombuffer(data[: len(data) // width * width], np.uint8), entry.dtype)
            finite = np.isfinite(values)
            if not finite.all():
                nan += int(np.isnan(values).sum())
                inf += int(np.isinf(values).sum())
                values = values[finite]
            if len(values):
                largest = max(largest, float(np.abs(values).max()))
            at += len(data)
    finally:
        file.close()
    return Extremes(nan, inf, largest)


def _numbers(raw: NDArray, dtype: str) -> NDArray:  # type: ignore[type-arg]
    """The numbers of a piece; BF16 is the upper half of F32."""
    if dtype == "BF16":
        return (raw.view("<u2").astype("<u4") << 16).view("<f4")
    return raw.view({"F64": "<f8", "F32": "<f4", "F16": "<f2"}[dtype])
