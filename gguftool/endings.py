"""How this process ends: signals that clean up, work that is finished first, and children that do not stay behind."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import signal
    import subprocess
else:
    # What `signal` makes enumerations of, which takes half a millisecond.
    import _signal as signal

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
DONE = "interrupted, when the file was written already: the change is done"
_Handler = Callable[[int, FrameType | None], Any]


class Ended(KeyboardInterrupt):
    """SIGTERM or SIGHUP came. Like Ctrl-C no `Exception`, so that nothing takes it for a fault and goes on."""

    def __init__(self, number: int, message: str = "") -> None:
        if not message:
            from signal import Signals

            message = f"ended by {Signals(number).name}"
        super().__init__(message)
        self.number = number

    @property
    def exit_code(self) -> int:
        """What a shell reports for a program that the signal ended."""
        return 128 + self.number


@contextlib.contextmanager
def cancelling() -> Iterator[None]:
    """SIGTERM and SIGHUP raise `Ended`, and SIGINT KeyboardInterrupt, so that the work is cleaned up.

    Only the first of the two does: a terminal that closes sends more than one, and the second must not stop the
    cleaning up.
    """
    came: list[int] = []

    def cancel(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        came.append(number)
        if len(came) == 1:
            raise Ended(number)

    with _handling(cancel):
        yield


@contextlib.contextmanager
def deferred(*, done: bool = True) -> Iterator[None]:
    """Signals wait until the block is left (it takes less than a second), then take effect as they would have.

    A KeyboardInterrupt that comes of it says that the work was done: nobody should do it again for that.

    Args:
        done: what the block does is the work; else it is only a step of it.

    Python runs handlers in the main thread only; in another thread there is nothing to defer.
    """
    seen: list[int] = []
    with _handling(lambda number, frame: seen.append(number)):
        yield
    for number in seen[:1]:
        if not done:
            signal.raise_signal(number)
            continue
        try:
            signal.raise_signal(number)
        except Ended:
            raise Ended(number, DONE) from None
        except KeyboardInterrupt:
            raise KeyboardInterrupt(DONE) from None


@contextlib.contextmanager
def heard(tell: Callable[[int], None]) -> Iterator[None]:
    """For the length of the block a signal calls a function and does nothing else: for a program that ends by itself.

    Args:
        tell: gets the number of the signal; whatever the program does goes on behind it.
    """
    with _handling(lambda number, frame: tell(number)):
        yield


def as_usual() -> None:
    """Signals end this process at once: for workers, which inherit the handlers of their parent."""
    for number in _SIGNALS:
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, signal.SIG_DFL)


def die_with_parent() -> None:
    """Let the kernel end this process when its parent is gone, whatever ended it (Linux)."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    parent = os.getppid()
    set_parent_death_signal = 1
    ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        # It went before the kernel knew.
        os.kill(os.getpid(), signal.SIGTERM)


AT_START: Callable[[], None] | None = die_with_parent
"""What a program that is started runs first."""


def start(argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """A program that ends when we end, whatever ends us; ``options`` as for `subprocess.Popen`.

    A signal that comes while it is started waits until it is: in the middle of a fork Python loses the exception.

    Raises:
        OSError: it cannot be started.
        KeyboardInterrupt: a signal came; the program is ended.
    """
    import subprocess

    seen: list[int] = []
    with _handling(lambda number, frame: seen.append(number)):
        hook = AT_START if hasattr(os, "fork") else None
        child = subprocess.Popen(list(argv), preexec_fn=hook, **options)
    if seen:
        child.kill()
        child.wait()
        signal.raise_signal(seen[0])
    return child


def run(
    argv: Sequence[str], timeout: float | None, *, stdin: str | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program as `start` does to its end, for what it says as text.

    Args:
        argv: program and arguments.
        timeout: seconds it gets.
        stdin: what it reads.
        env: its environment; ours when None.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it took longer, and was ended.
    """
    import subprocess

    source = subprocess.DEVNULL if stdin is None else subprocess.PIPE
    with start(
        argv, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=env
    ) as child:
        try:
            out, err = child.communicate(stdin, timeout=timeout)
        except BaseException:
            child.kill()
            raise
    return subprocess.CompletedProcess(list(argv), child.returncode, out, err)


@contextlib.contextmanager
def _handling(handler: _Handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    try:
        for number in _SIGNALS:
            # What was ignored (nohup) stays ignored.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
