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
from typing import TYPE_CHECKING, Any

from gguftool.cli.streams import ready
from gguftool.version import __version__

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # see `gguftool.endings`


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
    names = _put_off()
    from gguftool.cli.boundary import run

    del names["UUID"]
    code = run(args)
    gc.freeze()
    return code


def _put_off() -> dict[str, Any]:
    """Let click import nothing that it asks for nothing: 7 ms of a command that shows no help and has no error.

    Returns:
        names of `uuid`, of which ``UUID`` is to go once click is there: from then on it is the class.
    """
    # Of `uuid`, which loads a library of the system, click's type of options is made with the name of the class alone.
    uuid = _Later("uuid", UUID="UUID")
    waiting = [_Later("inspect"), _Later("gettext", "gettext", "ngettext"), uuid]
    if sys.platform == "linux":
        # `uuid` asks for the name of the system, a plan for the processor.
        waiting.append(_Later("platform", system=lambda: os.uname().sysname, machine=lambda: os.uname().machine))
    if sys.version_info < (3, 12):
        # That of Python 3.11 defines all classes in Python first, to take those of C in their place.
        import _datetime  # type: ignore[import-not-found]

        names = ("date", "datetime", "time", "timedelta", "timezone", "tzinfo")
        waiting.append(_Later("datetime", **{name: getattr(_datetime, name) for name in names}))
    for later in waiting:
        sys.modules.setdefault(later.__name__, later)
    return vars(uuid)


class _Later(ModuleType):
    """Stands for a module of Python's own until something of it is asked for; `importlib.util.LazyLoader` is asked
    for something by every ``import`` of Python 3.11.

    Args:
        name: of the module.
        functions: of it that may be taken out of it before they are called.
        known: what it would answer.
    """

    def __init__(self, name: str, *functions: str, **known: Any) -> None:
        super().__init__(name)
        for function in functions:
            self.__dict__[function] = lambda *args, _of=function: getattr(self.now(), _of)(*args)
        self.__dict__.update(known)

    def now(self) -> ModuleType:
        """The module itself."""
        with _LOCK:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
        return __import__(self.__name__)

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":
            # Every ``from`` asks whether this is a package.
            raise AttributeError(name)
        return getattr(self.now(), name)


_LOCK = allocate_lock()


def _end_quietly() -> None:
    """Ctrl-C ends this process as it ends any program, until the boundary takes it, and after: no traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
