"""Entry point of the ``gguftool`` command.

``gguftool --version`` answers before click is loaded: scripts ask for it often, and it should cost no more than
starting Python. Everything else goes through `gguftool.cli.boundary.run`, which turns errors into exit codes.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from gguftool.cli.streams import ready
from gguftool.version import __version__


def script() -> int:
    """What the ``gguftool`` that is installed calls, and ``python -m gguftool``: `main`, then the end of the process.

    Python would take every module and class to pieces first, which costs as much as many a command. What was first to
    be registered is last to be called: by then threads have ended, and all that others want done at the end is done.
    """
    import atexit

    codes: list[int] = []
    atexit.register(_leave, codes)
    codes.append(main())
    return codes[0]


def _leave(codes: list[int]) -> None:
    if codes:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            return  # Python says what it says then, and ends with its own code
        os._exit(codes[0])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        argv: the arguments without the program's name; those of the process when left out.
    """
    if argv is None:
        ready()
    args = list(sys.argv[1:] if argv is None else argv)
    if args == ["--version"]:
        try:
            sys.stdout.write(f"gguftool {__version__}\n")
            sys.stdout.flush()
            return 0
        except OSError:
            # Not written; the boundary tries once more and says why.
            pass
    if argv is None:
        _end_quietly()
    if argv is not None:
        from gguftool.cli.boundary import run

        return run(args)
    # This process does one thing and ends. Python's collector would walk the classes of all that is imported, and a
    # quarter of a million tokens, again and again, and once more at the end: up to a third of what a command takes.
    import gc

    gc.set_threshold(100_000, 20, 20)
    # click asks it for nothing but to clean texts of the help; with what it imports itself it takes 4 ms.
    if "inspect" not in sys.modules:
        sys.modules["inspect"] = _Later("inspect")
    from gguftool.cli.boundary import run

    code = run(args)
    gc.freeze()
    return code


class _Later(ModuleType):
    """Stands for a module of Python's own until something of it is asked for; `importlib.util.LazyLoader` is asked
    for something by every ``import`` of Python 3.11.
    """

    def __getattr__(self, name: str) -> Any:
        with _LOCK:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
        from importlib import import_module

        return getattr(import_module(self.__name__), name)


_LOCK = allocate_lock()


def _end_quietly() -> None:
    """Ctrl-C ends this process as it ends any program, until the boundary takes it, and after: no traceback."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
