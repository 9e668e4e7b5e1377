"""Importance matrices: how much each input column of a tensor matters, measured by llama-imatrix.

Two forms: GGUF (tensors ``NAME.in_sum2`` and ``NAME.counts``) and the older ``.dat``. Both are read as
`imatrix-loader.cpp:common_imatrix_load` and `quantize.cpp:load_imatrix` (b11434) read them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from gguftool.errors import FormatError, NotGguf
from gguftool.model import Model, open_model
from gguftool.model.imatrix import CHUNKS, COUNTS, DATASETS, SQUARES
from gguftool.model.imatrix import entries as stored
from gguftool.predict.pairs import wrong_role
from gguftool.source import LocalFile

_LONGEST_NAME = 4096


@dataclass(frozen=True, slots=True)
class Imatrix:
    """Importances by tensor name, f32 as bytes; of a tensor of experts one row for each.

    Attributes:
        path: file it was read from.
        entries: tensor name -> f32 values, little-endian.
        dataset: text file it was measured on, "" when unknown.
        chunks: pieces of text it was measured on, 0 when unknown.
    """

    path: str
    entries: Mapping[str, bytes]
    dataset: str = ""
    chunks: int = 0

    @property
    def sizes(self) -> dict[str, int]:
        """Number of values by tensor name."""
        return {name: len(values) // 4 for name, values in self.entries.items()}


def read(path: str) -> Imatrix:
    """Read an importance matrix of either form.

    Raises:
        MissingFile, Unreadable: no such file, no permission.
        FormatError: it is neither form, or its parts do not fit together.
    """
    try:
        with open_model(path, whole_set=False) as model:
            return _from_gguf(model, path)
    except NotGguf:
        return _from_dat(path)


def _from_gguf(model: Model, path: str) -> Imatrix:
    import numpy as np

    entries: dict[str, bytes] = {}
    # llama.cpp knows a tensor by its name up to a NUL.
    held = {id(t.info): t for t in model.all_tensors()}
    for one in stored(model):
        base, squares = one.name, one.squares
        if squares is None or one.counts is None:
            raise FormatError(f"{path}: {base} has sums without counts, or counts without sums", key=base)
        for end, info in ((SQUARES, squares), (COUNTS, one.counts)):
            if info.type_name != "F32":
                raise FormatError(f"{path}: {base}{end} is {info.type_name}, not F32", key=base + end)
        sums = np.frombuffer(held[id(squares)].read(), "<f4")
        with np.errstate(all="ignore"):
            counts = np.rint(np.frombuffer(held[id(one.counts)].read(), "<f4"))
        if not len(counts) or len(sums) % len(counts):
            raise FormatError(f"{path}: {base} has {len(sums)} sums and {len(counts)} counts", key=base)
        rows = sums.reshape(len(counts), -1)
        means = np.ones_like(rows)
        # What is not finite is judged, not warned of.
        with np.errstate(all="ignore"):
            np.divide(rows, counts[:, None], out=means, where=counts[:, None] > 0)
        entries[base] = _finite(means, path, base)
    if not entries:
        wrong = wrong_role(model, "imatrix")
        if wrong is not None:
            raise FormatError(f"{path}: {wrong.message}", f"llama-imatrix makes one; {wrong.hint}")
        raise FormatError(f"{path}: has no tensors named *{SQUARES}", "llama-imatrix makes one")
    datasets = model.get(DATASETS)
    chunks = model.get(CHUNKS)
    first = datasets[0] if isinstance(datasets, list) and datasets else ""
    return Imatrix(path, entries, str(first), chunks if isinstance(chunks, int) else 0)


def _from_dat(path: str) -> Imatrix:
    import numpy as np

    file = LocalFile(path)
    try:
        data = file.read_at(0, file.size)
    finally:
        file.close()
    pos = 0

    def number(what: str) -> int:
        nonlocal pos
        if pos + 4 > len(data):
            raise FormatError(f"{path}: {what} is cut off", offset=pos, kind="truncated")
        pos += 4
        return int(struct.unpack_from("<i", data, pos - 4)[0])

    def take(n: int, what: str) -> bytes:
        nonlocal pos
        if n < 0 or pos + n > len(data):
            raise FormatError(f"{path}: {what} is cut off", offset=pos, kind="truncated")
        pos += n
        return data[pos - n : pos]

    count = number("the number of entries")
    if not 0 < count <= len(data) // 12:
        raise FormatError(f"{path}: is no importance matrix", "llama-imatrix makes one")
    entries: dict[str, bytes] = {}
    for _ in range(count):
        length = number("the length of a name")
        if length > _LONGEST_NAME:
            raise FormatError(f"{path}: is no importance matrix", "llama-imatrix makes one", offset=pos)
        name = take(length, "a name").decode("utf-8", "surrogateescape")
        calls, values = number("the number of calls"), number("the number of values")
        sums = np.frombuffer(take(4 * values, f"the values of {name}"), "<f4")
        with np.errstate(all="ignore"):
            means = sums / np.float32(calls) if calls > 0 else sums
        entries[name] = _finite(means, path, name)
    chunks = number("the number of chunks") if pos + 4 <= len(data) else 0
    dataset = ""
    if pos + 4 <= len(data):
        length = number("the length of the data set's name")
        if 0 < length <= len(data) - pos:
            dataset = take(length, "the data set's name").rstrip(b"\0").decode("utf-8", "surrogateescape")
    return Imatrix(path, entries, dataset, max(0, chunks))


def _finite(values: object, path: str, name: str) -> bytes:
    import numpy as np

    array = np.asarray(values, "<f4")
    if not np.isfinite(array).all():
        raise FormatError(f"{path}: the importances of {name} hold NaN or infinity", key=name, kind="invalid-data")
    return array.tobytes()
