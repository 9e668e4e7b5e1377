"""One pass over a file, many readers of it: bytes are read once, and each hash but the first has a thread of its own.

hashlib lets other threads run while it works on more than 2 KiB, so the slowest hash sets the speed. The thread that
reads also works for the first of them: a copy out of the page cache costs a tenth of a hash, and what was just read is
still in the cache of this processor. So one hash alone needs no threads at all.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from gguftool.processors import processors
from gguftool.source import LocalFile, Source

CHUNK = 1 << 20
"""Bytes read at a time: small enough to stay in the processor's cache between reader and hash."""
AHEAD = 4
"""Chunks in flight."""
INLINE = 4 * CHUNK
"""Below this a single thread is faster."""

_T = TypeVar("_T")
_R = TypeVar("_R")
Progress = Callable[[int], None]
"""Called with the number of bytes done since the last call."""


class Sink(Protocol):
    """Takes the bytes of a file in order."""

    def feed(self, data: memoryview, offset: int) -> None:
        """The bytes from ``offset`` on; ``data`` is valid during the call only."""


def run(source: Source, sinks: Sequence[Sink], progress: Progress | None = None) -> None:
    """Read a source from front to end and give every byte to every sink, to all but the first in threads.

    Raises:
        Unreadable, ChangedMeanwhile: as the source's `read_at`.
        Exception: whatever a sink raises, after all threads have stopped.
    """
    if len(sinks) > 1 and source.size > INLINE:
        _run_threads(source, sinks[0], sinks[1:], progress)
        return
    buffer = _room(min(CHUNK, source.size))
    for offset in range(0, source.size, CHUNK):
        data = buffer[: fill(source, buffer, offset)]
        for sink in sinks:
            sink.feed(data, offset)
        if progress:
            progress(len(data))


class Stopped(Exception):
    """Raised in the threads of `each` when the caller wants no more."""


def each(
    work: Callable[[_T, Progress], _R], items: Sequence[_T], jobs: int | None = None, progress: Progress | None = None
) -> list[_R]:
    """``work(item, tick)`` for every item, several at a time, results in their order.

    Args:
        work: calls ``tick`` with the bytes done, often.
        items: what to work on.
        jobs: how many at a time; the number of processors when None.
        progress: gets what ``tick`` gets, from several threads.

    An exception, Ctrl-C among them, stops all of it within one piece of work.
    """
    if len(items) < 2 or jobs == 1:
        return [work(item, progress or ignored) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    stop = threading.Event()

    def tick(n: int) -> None:
        if stop.is_set():
            raise Stopped
        if progress:
            progress(n)

    with ThreadPoolExecutor(min(len(items), jobs or processors())) as pool:
        try:
            return list(pool.map(lambda item: work(item, tick), items))
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def ignored(n: int) -> None:
    """Progress that nobody watches."""


class _Chunk:
    """One buffer: given back to the reader when the last sink is done with it."""

    __slots__ = ("buffer", "left", "lock", "n", "offset")

    def __init__(self) -> None:
        self.buffer = _room(CHUNK)
        self.lock = threading.Lock()
        self.offset = self.n = self.left = 0

    def done(self) -> bool:
        """Whether this was the last sink."""
        with self.lock:
            self.left -= 1
            return self.left == 0


def _run_threads(source: Source, first: Sink, others: Sequence[Sink], progress: Progress | None) -> None:
    free: queue.SimpleQueue[_Chunk] = queue.SimpleQueue()
    for _ in range(AHEAD):
        free.put(_Chunk())
    failed: list[BaseException] = []

    def work(sink: Sink, todo: queue.SimpleQueue[_Chunk | None]) -> None:
        while (chunk := todo.get()) is not None:
            if not failed:
                try:
                    sink.feed(chunk.buffer[: chunk.n], chunk.offset)
                except BaseException as error:
                    # Reported by the caller's thread, when all have stopped.
                    failed.append(error)
            if chunk.done():
                free.put(chunk)

    queues: list[queue.SimpleQueue[_Chunk | None]] = [queue.SimpleQueue() for _ in others]
    threads = [
        threading.Thread(target=work, args=(sink, todo), daemon=True) for sink, todo in zip(others, queues, strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        for offset in range(0, source.size, CHUNK):
            chunk = free.get()
            if failed:
                break
            chunk.offset, chunk.left = offset, len(others) + 1
            n = chunk.n = fill(source, chunk.buffer, offset)
            for todo in queues:
                todo.put(chunk)
            first.feed(chunk.buffer[:n], offset)
            if chunk.done():
                free.put(chunk)
            if progress:
                progress(n)
    except BaseException as error:
        # The others need not go on with what they have.
        failed.append(error)
        raise
    finally:
        for todo in queues:
            todo.put(None)
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]


def _room(n: int) -> memoryview:
    """Whole pages for ``n`` bytes: what a read past the system's memory wants (`gguftool.verify.fromdisk`)."""
    from mmap import PAGESIZE, mmap

    return memoryview(mmap(-1, -(-max(1, n) // PAGESIZE) * PAGESIZE))


def fill(source: Source, buffer: memoryview, offset: int) -> int:
    """Read into a buffer from ``offset`` on; returns the bytes read, fewer than its length only at the end."""
    if isinstance(source, LocalFile):
        return source.read_into(buffer, offset)
    data = source.read_at(offset, len(buffer))
    buffer[: len(data)] = data
    return len(data)
