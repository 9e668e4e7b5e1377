"""Entry point of the ``gguftool`` command.

``gguftool --version`` answers before click is loaded: scripts ask for it often, and it should cost no more than
starting Python. Everything else goes through `gguftool.cli.boundary.run`, which turns errors into exit codes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gguftool.cli.streams import ready
from gguftool.version import __version__


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
    from gguftool.cli.boundary import run

    if argv is not None:
        return run(args)
    # This process does one thing and ends. Python's collector would walk a quarter of a million tokens again and again,
    # and once more at the end, which is up to a third of the time that a command takes.
    import gc

    gc.set_threshold(100_000, 20, 20)
    code = run(args)
    gc.freeze()
    return code


def _end_quietly() -> None:
    """Ctrl-C ends this process as it ends any program, until the boundary takes it, and after: no traceback."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
