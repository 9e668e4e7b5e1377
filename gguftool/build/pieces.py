"""Who works on pieces: a child where ggml's kernels do it, since they may end the process; else threads of ours.

Numpy's kernels end nothing, and Windows hands no descriptors on. The child gets a line of JSON for each batch, its
bytes in memory that both see (behind the line where they are too many for that), and says the sums in whatever order
they are done.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, Any, Protocol

from gguftool.build.apart import Distance, Piece, measure
from gguftool.build.failed import again, died, stopped
from gguftool.build.kernels import Kernels
from gguftool.build.process import child_environment, end
from gguftool.endings import start
from gguftool.files.small import scratch_file, shared_file

LABEL = "the child that compares weights"
PLACE = 12 << 20
"""Bytes of shared memory for a batch: both sides as f32, and importances."""
_LINE = 64
"""Where a side may begin: whole lines of a processor's cache."""


class Answer(Protocol):
    """The sums of each of some pieces that were begun."""

    def __call__(self) -> Sequence[Distance]:
        """Wait for them.

        Raises:
            FormatError: a piece cannot be turned into numbers, or holds NaN or infinity.
            ToolFailed: ggml gave up, or the child ended.
        """


class Worker(Protocol):
    """Works on several batches of pieces at a time."""

    def begin(self, batch: Sequence[Piece]) -> Answer:
        """Have pieces of one tensor worked on, one after the other by one thread.

        Raises:
            ToolFailed: the child ended.
        """


@contextlib.contextmanager
def worker(kernels: Kernels, threads: int) -> Iterator[Worker]:
    """Who does it; what was begun and not asked for is dropped at the end."""
    if kernels.library is None or os.name == "nt":
        with ThreadPoolExecutor(threads, "distance") as pool:
            try:
                yield _Here(kernels, pool)
            finally:
                pool.shutdown(cancel_futures=True)
        return
    with scratch_file() as said, shared_file() as memory:
        # As many as are worked on, and as many that wait.
        places = 2 * threads + 1
        memory.truncate(places * PLACE)
        argv = [sys.executable, "-m", "gguftool.build.distancechild", kernels.library, threads, memory.fileno(), places]
        with start(
            [str(word) for word in argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=child_environment(),
            pass_fds=[memory.fileno()],
        ) as process:
            try:
                yield _Child(process, said, mmap.mmap(memory.fileno(), places * PLACE))
            finally:
                end(process)


def begins(place: int, sizes: Sequence[int]) -> list[int]:
    """Where in the shared memory the parts of a batch, of these sizes, begin."""
    at, found = place * PLACE, []
    for size in sizes:
        found.append(at)
        at += -(-size // _LINE) * _LINE
    return found


class _Here:
    """Threads of this process."""

    def __init__(self, kernels: Kernels, pool: ThreadPoolExecutor) -> None:
        self._kernels, self._pool = kernels, pool

    def begin(self, batch: Sequence[Piece]) -> Answer:
        return self._pool.submit(self._measure, list(batch)).result

    def _measure(self, batch: Sequence[Piece]) -> list[Distance]:
        return [measure(self._kernels, piece) for piece in batch]


class _Child:
    """A child, and what it has said."""

    def __init__(self, process: subprocess.Popen[bytes], said: IO[bytes], memory: mmap.mmap) -> None:
        self._process, self._said, self._memory = process, said, memory
        self._free = list(range(len(memory) // PLACE))
        self._begun: dict[int, tuple[Piece, int | None]] = {}
        self._answers: dict[int, dict[str, Any]] = {}
        self._count = 0

    def begin(self, batch: Sequence[Piece]) -> Answer:
        while not self._free:
            self._hear()
        number = self._count = self._count + 1
        blobs = [blob for piece in batch for blob in (piece.data, piece.other, piece.weights) if blob is not None]
        sizes = [len(blob) for blob in blobs]
        place = self._free.pop() if sum(sizes) + _LINE * len(sizes) <= PLACE else None
        if place is not None:
            for at, blob in zip(begins(place, sizes), blobs, strict=True):
                self._memory[at : at + len(blob)] = blob
        first = batch[0]
        # What was handed on is not kept.
        self._begun[number] = Piece(first.one, b"", None, None, first.through, 0, 0, None), place
        words = {
            "batch": number,
            "place": place,
            "sizes": sizes,
            "one": [first.one.name, first.one.type_id],
            "two": [first.two.name, first.two.type_id] if first.two else None,
            "through": first.through,
            "weighed": first.weights is not None,
            "shapes": [[piece.rows, piece.width] for piece in batch],
        }
        stdin = self._process.stdin
        # Of one that has gone, `_hear` tells why.
        with contextlib.suppress(BrokenPipeError):
            if stdin is not None:
                stdin.write(json.dumps(words).encode() + b"\n")
                for blob in blobs if place is None else ():
                    stdin.write(blob)
                stdin.flush()
        return partial(self._wait, number)

    def _hear(self) -> None:
        """The next answer, whichever batch it is of."""
        line = self._process.stdout.readline() if self._process.stdout is not None else b""
        if not line:
            at = dict.fromkeys(piece.one.name for piece, _ in self._begun.values())
            raise died(LABEL, self._process.wait(), self._said, list(at), "fewer threads")
        words = json.loads(line)
        piece, place = self._begun.pop(words["batch"], (None, None))
        if "stopped" in words:
            raise stopped(piece.one.name if piece else "", words["stopped"], piece.through if piece else None)
        self._answers[words["batch"]] = words
        if place is not None:
            self._free.append(place)

    def _wait(self, number: int) -> list[Distance]:
        while number not in self._answers:
            self._hear()
        found = self._answers.pop(number)
        if "failed" in found:
            raise again(found["failed"], LABEL)
        return [Distance(*sums) for sums in found["sums"]]
