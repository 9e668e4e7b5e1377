"""Python as other systems have it: run as a script, it takes away what they lack, then runs command lines.

    python tests/lesser.py SYSTEM < LINES
    python tests/lesser.py SYSTEM ARGUMENT ...

SYSTEM is ``here`` (nothing is taken away), ``windows`` or ``macos``. Each line of stdin is a JSON list of arguments,
each line of stdout ``[exit code, stdout, stderr]``; with arguments it is that one command, on the real descriptors.

What is missing is what the "Availability" notes of Python's manual say, but for the few names that Python's own
modules, and numpy's, go on using, as they are those of Linux (SIGKILL, WNOHANG, uname).
"""

from __future__ import annotations

import contextlib
import importlib.abc
import io
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Any

_UNIX_MODULES = "fcntl resource pwd grp termios tty pty syslog readline"
_UNIX = """
pread pwrite preadv pwritev readv writev posix_fallocate posix_fadvise posix_spawn posix_spawnp fdatasync sync
fork forkpty openpty wait wait3 wait4 waitid killpg setsid getsid getpgid getpgrp setpgid setpgrp register_at_fork
getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid seteuid setegid initgroups
chown fchown lchown fchmod lchflags chflags fchdir chroot mkfifo mknod statvfs fstatvfs pathconf fpathconf
sendfile pipe2 lockf sysconf confstr getloadavg nice getpriority ctermid ttyname tcgetpgrp
O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_CLOEXEC O_SYNC O_DSYNC O_NOCTTY O_NDELAY O_ASYNC RTLD_NOW
get_blocking
"""
_LINUX = """
copy_file_range splice eventfd memfd_create pidfd_open unshare setns getrandom listxattr getxattr setxattr removexattr
sched_getaffinity sched_setaffinity sched_setscheduler getresuid getresgid
O_TMPFILE O_PATH O_NOATIME O_DIRECT O_LARGEFILE O_RSYNC SEEK_DATA SEEK_HOLE posix_fallocate posix_fadvise
"""
_SIGNALS = """
SIGHUP SIGQUIT SIGALRM SIGPIPE SIGUSR1 SIGUSR2 SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGURG SIGWINCH pthread_sigmask
pthread_kill setitimer getitimer alarm pause sigwait sigpending siginterrupt SIG_BLOCK SIG_UNBLOCK SIG_SETMASK
"""


class _Missing(importlib.abc.MetaPathFinder):
    def __init__(self, names: str) -> None:
        self.names = frozenset(names.split())

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _take(module: Any, names: str) -> None:
    # It looked at what there is when it was imported.
    tempfile._O_TMPFILE_WORKS = False  # type: ignore[attr-defined]
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)


def _no_proc() -> None:
    """Nothing is there under /proc and /sys."""

    def hide(module: Any, name: str) -> None:
        real = getattr(module, name)

        def call(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            if isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path).startswith(("/proc", "/sys")):
                raise FileNotFoundError(2, "No such file or directory", path)
            return real(path, *args, **kwargs)

        setattr(module, name, call)

    import builtins

    for name in ("open", "stat", "lstat", "listdir", "scandir", "access", "readlink"):
        hide(os, name)
    hide(builtins, "open")
    hide(io, "open")


def macos() -> None:
    """Linux's own calls are gone."""
    import fcntl

    _take(os, _LINUX)
    _take(fcntl, "F_SETLEASE F_GETLEASE F_SETSIG F_NOTIFY F_OFD_SETLK F_ADD_SEALS F_SETPIPE_SZ")
    fcntl.F_FULLFSYNC = fcntl.F_GETFD  # type: ignore[attr-defined]
    _no_proc()
    sys.platform = "darwin"


def windows() -> None:
    """No Unix: its modules, calls, signals are gone, links are not asked about, programs start without hooks."""
    usage = shutil.disk_usage
    free = usage(".")
    sys.meta_path.insert(0, _Missing(_UNIX_MODULES))
    for name in _UNIX_MODULES.split():
        sys.modules.pop(name, None)
    _take(os, _UNIX + _LINUX)
    _take(signal, _SIGNALS)
    _take(select, "poll epoll kqueue")
    shutil.disk_usage = lambda path: free  # type: ignore[assignment,unused-ignore]
    real_link, real_open = os.link, subprocess.Popen.__init__

    def link(src: Any, dst: Any, *, follow_symlinks: bool = True, **at: Any) -> None:
        if not follow_symlinks or at:
            raise NotImplementedError("link: follow_symlinks unavailable on this platform")
        real_link(src, dst)

    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("preexec_fn") is not None or kwargs.get("pass_fds"):
            raise ValueError("preexec_fn is not supported on Windows platforms")
        real_open(self, *args, **kwargs)

    os.link = link  # type: ignore[assignment]
    subprocess.Popen.__init__ = start  # type: ignore[method-assign,assignment]
    _no_proc()


def _call(argv: list[str]) -> tuple[int, str, str]:
    from gguftool.cli.main import main

    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(argv)
        out.flush()
    return code, out.buffer.getvalue().decode(), err.getvalue()  # type: ignore[attr-defined]


def main() -> None:
    """See the module."""
    {"here": lambda: None, "windows": windows, "macos": macos}[sys.argv[1]]()
    if words := sys.argv[2:]:
        from gguftool.cli.main import main as program

        sys.argv = ["gguftool", *words]
        sys.exit(program())
    for line in sys.stdin:
        print(json.dumps(_call(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
