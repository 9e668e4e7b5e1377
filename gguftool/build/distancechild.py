"""The child process of `gguftool.build.pieces`: ``… -m gguftool.build.distancechild LIBRARY THREADS MEMORY PLACES``.

ggml's functions end the process where they do not like what they get: so they run here. A batch is a line of JSON on
stdin and its bytes in the shared memory whose descriptor is given, or behind the line; on stdout goes a line for each.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from gguftool.build import kernels as rows_of
from gguftool.build.apart import Distance, Piece, measure
from gguftool.build.kernels import Kernels
from gguftool.build.parent import begin, failure, say
from gguftool.build.pieces import PLACE, begins
from gguftool.format.header import TensorInfo
from gguftool.records import fields


class _Here(threading.local):
    """The batch that this thread is at."""

    number = -1


def main(library: str, threads: int, memory: int, places: int) -> int:
    """Do what comes on stdin until it ends."""
    begin()
    kernels = rows_of.load(library)
    here = _Here()
    listener = rows_of.tell_before_abort(library, lambda text: _stop(here.number, text))
    # Numpy is imported before the threads: an import in several of them at once is slow.
    import numpy  # noqa: F401

    shared = memoryview(mmap.mmap(memory, places * PLACE))
    with ThreadPoolExecutor(threads) as pool:
        while line := sys.stdin.buffer.readline():
            words = json.loads(line)
            blobs = list(_blobs(shared, sys.stdin.buffer, words["place"], words["sizes"]))
            pool.submit(_work, kernels, here, words["batch"], _batch(words, blobs))
    # So long ggml may call it.
    del listener
    return 0


def _blobs(
    shared: memoryview, stdin: IO[bytes], place: int | None, sizes: Sequence[int]
) -> Iterator[bytes | memoryview]:
    """The bytes of a batch; as they lie in the shared memory where they are there."""
    if place is None:
        yield from (_bytes(stdin, size) for size in sizes)
    else:
        yield from (shared[at : at + size] for at, size in zip(begins(place, sizes), sizes, strict=True))


def _bytes(stdin: IO[bytes], size: int) -> bytes:
    """So many bytes; one that got fewer has no parent any more."""
    data = stdin.read(size)
    if len(data) < size:
        os._exit(1)
    return data


def _batch(words: dict[str, Any], blobs: list[bytes | memoryview]) -> list[Piece]:
    """The pieces that `gguftool.build.pieces` sent."""
    one, two = _info(*words["one"]), _info(*words["two"]) if words["two"] else None
    rest = iter(blobs)
    found = []
    for rows, width in words["shapes"]:
        data, other = next(rest), next(rest) if two else None
        weights = bytes(next(rest)) if words["weighed"] else None
        found.append(Piece(one, data, two, other, words["through"], rows, width, weights))
    return found


def _info(name: str, type_id: int) -> TensorInfo:
    """A tensor as far as its type goes."""
    return TensorInfo(name, (), type_id, 0, (0, 0), memoryview(b""))


def _work(kernels: Kernels, here: _Here, number: int, batch: Sequence[Piece]) -> None:
    here.number = number
    try:
        names = [f.name for f in fields(Distance)]
        sums = [[getattr(found, name) for name in names] for found in (measure(kernels, piece) for piece in batch)]
        say({"batch": number, "sums": sums})
    except BaseException as error:
        say({"batch": number, "failed": failure(error)})


def _stop(number: int, text: str) -> None:
    """An assertion of ggml: it would print a stack, with a debugger attached to us, and leave a core behind."""
    say({"batch": number, "stopped": text.strip()})
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
