"""A scheduler of Dask and worker processes on this machine; a worker that dies is replaced, as a nanny does.

Run as a program: it imports what they need once and makes them by fork, before anything of it runs. It prints the
address of the scheduler, then a line for each worker: name and process. One that is called ``slow`` waits before each
model.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

KILLER = "killer.gguf"


@dataclass
class Cluster:
    address: str
    process: subprocess.Popen
    workers: dict[str, int] = field(default_factory=dict)


@contextlib.contextmanager
def cluster(*names: str) -> Iterator[Cluster]:
    argv = [sys.executable, "-m", "tests.fleet.dask_cluster", *names]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = Cluster(process.stdout.readline().strip(), process)
        try:
            for _ in names:
                name, pid = process.stdout.readline().split()
                found.workers[name] = int(pid)
            yield found
        finally:
            process.terminate()


def _made(run, *given: str) -> int:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            asyncio.run(run(*given))
        finally:
            os._exit(0)
    return pid


async def _scheduler(pipe: str) -> None:
    from distributed import Scheduler

    async with Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0", allowed_failures=1) as scheduler:
        os.write(int(pipe), f"{scheduler.address}\n".encode())
        await scheduler.finished()


async def _worker(address: str, name: str) -> None:
    from distributed import Worker

    from gguftool.fleet import want

    beginning = want.beginning

    def begin(path: str):
        if path.endswith(KILLER):
            os.kill(os.getpid(), signal.SIGKILL)
        if "slow" in name:
            time.sleep(0.1)
        return beginning(path)

    want.beginning = begin
    async with Worker(address, nthreads=1, name=f"{name}-{os.getpid()}", host="127.0.0.1", dashboard_address=None) as w:
        await w.finished()


def main(names: list[str]) -> None:
    import logging

    import dask
    import distributed  # noqa: F401

    from gguftool.fleet import cluster  # noqa: F401
    from gguftool.lint import run  # noqa: F401

    logging.disable(logging.CRITICAL)
    dask.config.set({"distributed.worker.memory.terminate": False, "distributed.scheduler.work-stealing": True})
    read, write = os.pipe()
    pids = {_made(_scheduler, str(write)): ""}

    def stop(*_: object) -> None:
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    address = os.read(read, 200).decode().strip()
    print(address, flush=True)
    for name in names:
        pid = _made(_worker, address, name)
        pids[pid] = name
        print(name, pid, flush=True)
    while True:
        pid, _ = os.wait()
        name = pids.pop(pid)
        if not name:
            stop()
        pids[_made(_worker, address, name)] = name


if __name__ == "__main__":
    main(sys.argv[1:])
