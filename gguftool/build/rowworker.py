"""The child process of the built-in quantiser: ``python -m gguftool.build.rowworker``.

ggml's functions end the process where they do not like what they get, and Ctrl-C does not reach Python while they run:
so they run here. One line of JSON comes on stdin, behind it the importances as bytes; on stdout go lines of JSON: how
much is done, at last the end with what was seen in the result, or why there is none. Files come as descriptors.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from gguftool.build import kernels as rows_of
from gguftool.build.parent import begin, failure, say
from gguftool.build.slabs import Room, Slab, Task, slabs, work
from gguftool.errors import GgufToolError
from gguftool.source import LocalFile
from gguftool.verify.pages import Run, longest

SLOT = struct.Struct("<q")
"""What each thread is at: the number of the task and one, 0 for none."""
_OFTEN = 0.1
"""Seconds between two words about progress."""


class _Here(threading.local):
    """The slab that this thread is at."""

    slab: Slab | None = None


def main() -> int:
    """Do what stands on stdin; 1 when it failed, and the reason is told."""
    begin()
    order = json.loads(sys.stdin.buffer.readline())
    blob = memoryview(sys.stdin.buffer.read())
    kernels = rows_of.load(order["library"])
    tasks = [Task.of(row) for row in order["tasks"]]
    sources = [LocalFile.given(fd, path) for fd, path in order["sources"]]
    importances = {i: blob[t.weights[0] : t.weights[0] + t.weights[1]] for i, t in enumerate(tasks) if t.weights}
    here = _Here()
    kept = rows_of.tell_before_abort(kernels.library, lambda text: _stop(here, text)) if kernels.library else None
    if not kernels.parallel:
        # Numpy is imported before the threads: an import in several of them at once is slow.
        kernels.valid("F32", b"")
    try:
        found = _all(order, tasks, sources, kernels, importances, here)
    except (GgufToolError, OSError, MemoryError) as error:
        say({"failed": failure(error)})
        # Others are in the middle of a slab.
        os._exit(1)
    pages = [[[start, end, front.hex()] for start, end, front in longest(runs)] for runs in found]
    say({"end": kept is not None, "pages": pages})
    return 0


def _all(
    order: Mapping[str, Any],
    tasks: list[Task],
    sources: list[LocalFile],
    kernels: rows_of.Kernels,
    importances: Mapping[int, memoryview],
    here: _Here,
) -> list[list[Run]]:
    """Do the tasks; runs of equal pages in each output."""
    todo, lock = slabs(tasks), threading.Lock()
    outputs = [LocalFile.given(fd, path) for fd, path in order["outputs"]]
    pages: list[list[Run]] = [[] for _ in outputs]
    table = mmap.mmap(order["table"], SLOT.size * order["threads"])
    failed: list[BaseException] = []
    told = time.monotonic()
    done = 0

    ended = threading.Semaphore(0)

    def run(slot: int) -> None:
        try:
            go_on(slot)
        except BaseException as error:
            # Raised again in the main thread.
            failed.append(error)
        finally:
            ended.release()

    def go_on(slot: int) -> None:
        nonlocal done, told
        room = Room()
        while not failed:
            with lock:
                here.slab = next(todo, None)
            if here.slab is None:
                return
            SLOT.pack_into(table, slot * SLOT.size, here.slab.number + 1)
            size, equal = work(here.slab, sources, outputs, kernels, importances, room)
            with lock:
                done += size
                pages[here.slab.task.output] += equal
                if time.monotonic() - told > _OFTEN:
                    told = time.monotonic()
                    say({"done": done})

    threads = [threading.Thread(target=run, args=(slot,), daemon=True) for slot in range(order["threads"])]
    for thread in threads:
        thread.start()
    for _ in threads:
        ended.acquire()
        if failed:
            raise failed[0]
    say({"done": done})
    return pages


def _stop(here: _Here, text: str) -> None:
    """An assertion of ggml: it would print a stack, with a debugger attached to us, and leave a core behind."""
    slab = here.slab
    say({"stopped": text.strip(), "task": slab.number if slab else -1, "place": slab.place if slab else ""})
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
