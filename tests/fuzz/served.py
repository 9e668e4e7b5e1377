"""A server that gives the same answers to all who ask, as long as a block lasts."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from unittest import mock


@contextmanager
def served(answer: Callable[[bytes], bytes]) -> Iterator[str]:
    """Its address; ``answer`` makes of a request what is sent. Whoever waits meanwhile, waits on a clock that leaps."""
    over, ticks, leapt = threading.Event(), time.monotonic, 0.0

    def sleep(seconds: float) -> None:
        nonlocal leapt
        leapt += seconds

    def monotonic() -> float:
        return ticks() + leapt

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.5)

        def serve() -> None:
            for _ in range(200):
                if over.is_set():
                    return
                with suppress(OSError):
                    there, _ = listener.accept()
                    with there:
                        there.settimeout(0.5)
                        there.sendall(answer(there.recv(8192)))

        server = threading.Thread(target=serve)
        server.start()
        port = listener.getsockname()[1]
        try:
            with mock.patch.object(time, "sleep", sleep), mock.patch.object(time, "monotonic", monotonic):
                yield f"http://127.0.0.1:{port}"
        finally:
            over.set()
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 0.5).close()
            server.join()
