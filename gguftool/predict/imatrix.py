"""What llama-quantize does with an importance matrix (`imatrix-loader.cpp`, `quantize.cpp:load_imatrix`, b11434).

A file that is not read as GGUF is read again as the format of before; what that says is told, too.
"""

from __future__ import annotations

import struct

from gguftool.facts.machine.ends import Abort, Refusal
from gguftool.facts.machine.taken import taken
from gguftool.model import Model
from gguftool.model.imatrix import CHUNK, CHUNKS, DATASETS, NEXTN, Entry, entries
from gguftool.predict.file import check_file, keys_as_c
from gguftool.predict.steering import check_data
from gguftool.predict.verdict import ABORTS, LOADS, REFUSED, UNKNOWN, LoadEnds, Prediction
from gguftool.predict.words import own_lines
from gguftool.source import Source

LOADER, LEGACY = "common_imatrix_load: ", "common_imatrix_load_legacy: "
MISSING = "load_imatrix: missing imatrix metadata in file "
_F32 = 0


def predict(m: Model) -> Prediction:
    """What llama-quantize does with an importance matrix in GGUF, opened with ``strict=False``."""
    try:
        check_file(m.parts[0])
        check_data(m)
    except LoadEnds as end:
        return unread(end, m.name, m.parts[0].source)
    m = keys_as_c(m)
    try:
        n = _run(m)
    except Refusal as fault:
        lines = (fault.text,) if fault.text.startswith(MISSING) else (fault.text, _failed(m.name))
        return Prediction(REFUSED, "tensors", lines, where=fault.where, data=fault.data)
    except Abort as fault:
        return Prediction(ABORTS, "tensors", (fault.text,), where=fault.where, data=fault.data)
    return Prediction(LOADS, "done", tensors=n)


def unread(end: LoadEnds, path: str, source: Source) -> Prediction:
    """A file that is not read as GGUF, given as an importance matrix."""
    if end.verdict == UNKNOWN:
        return Prediction(UNKNOWN, "file", where=end.where, not_evaluated=end.messages)
    fault = legacy_fault(source, path)
    if fault == "":
        return Prediction(LOADS, "done", warnings=())
    lines = (*own_lines(end.messages), LEGACY + fault, _failed(path))
    return Prediction(REFUSED, "file", lines, where=end.where, data=end.data)


def _failed(path: str) -> str:
    return f"load_imatrix: failed to load imatrix from '{path}'"


def _run(m: Model) -> int:
    """All checks in order; the number of entries."""
    if not m.header.tensors:
        raise Refusal(f"{LOADER}no data in file {m.name}")
    for key in (CHUNKS, CHUNK, NEXTN):
        taken(m.fields, key, "u32")
    found = entries(m)
    for entry in found:
        _entry(entry)
    lost = [key for key in (DATASETS, CHUNKS, CHUNK) if key not in m.fields]
    if lost:
        raise Refusal(MISSING + m.name, f"field:{lost[0]}", missing=lost)
    for entry in found:
        if entry.counts is not None and not entry.counts.elements:
            raise Abort("a division by zero", f"tensor:{entry.first}")
    return len(found)


def _entry(entry: Entry) -> None:
    where = f"tensor:{entry.first}"
    if not entry.paired or entry.squares is None or entry.counts is None:
        raise Refusal(f"{LOADER}mismatched sums and counts for {entry.name}", where)
    if (entry.squares.type_id, entry.counts.type_id) != (_F32, _F32):
        raise Refusal(f"{LOADER}sums and counts for {entry.name} must be F32", where)


def legacy_fault(source: Source, path: str) -> str:
    """What the reader of the old format says, without its name; "" when it reads the file."""

    def number(at: int) -> int | None:
        raw = source.read_at(at, 4)
        return int(struct.unpack("<i", raw)[0]) if len(raw) == 4 else None

    count = number(0)
    if count is None or count < 1:
        return f"no data in file {path}"
    at = 4
    for i in range(count):
        length = number(at)
        if length is None or length < 0 or at + 4 + length > source.size:
            return f"failed reading name for entry {i + 1} from {path}"
        at += 4 + length
        values = number(at + 4)
        if values is None or values < 1:
            return f"failed reading number of values for entry {i}"
        at += 8 + 4 * values
        if at > source.size:
            return f"failed reading data for entry {i}"
    return ""
