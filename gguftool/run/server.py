"""Start a server, wait until it serves, ask it, end it. Nothing is left running, whatever happens to us."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from gguftool import endings
from gguftool.brief import short_repr
from gguftool.errors import Refused, ToolFailed
from gguftool.files.small import begin_log
from gguftool.reading import LARGEST, Malformed, from_json
from gguftool.records import dataclass
from gguftool.run.args import masked
from gguftool.run.reach import Way
from gguftool.wire import Broken, Clock, exchange

_BARS = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EPERM, errno.EACCES, errno.EAFNOSUPPORT})
"""What is said where connections are not allowed or have no way; of a server that is not ready it is not said."""
GRACE_SECONDS = 9.0
"""Time a server gets to end by itself after SIGTERM."""


@dataclass(slots=True)
class Running:
    """A server process of ours.

    Attributes:
        process: the process.
        log_path: file its output goes to.
        way: how to reach it.
        argv: what it was started with.
    """

    process: subprocess.Popen[bytes]
    log_path: str
    way: Way
    argv: tuple[str, ...] = ()

    __repr__ = short_repr

    @property
    def url(self) -> str:
        """Address for people."""
        return self.way.url

    def log(self) -> str:
        """What it has said so far."""
        with open(self.log_path, "rb") as file:
            return file.read().decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Answer:
    """What an endpoint said; ``status`` 0: no answer at all, ``body`` None: not JSON."""

    status: int
    body: Any


def free_port(host: str) -> int:
    """A port that is free right now."""
    with _bound(host, 0) as sock:
        return int(sock.getsockname()[1])


def check_port(host: str, port: int) -> None:
    """Make sure nobody listens there: another server would answer in the name of ours.

    Raises:
        Refused: it is taken; the hint says how to get another one.
        ToolFailed: this address cannot be used at all.
    """
    if host.endswith(".sock"):
        _check_socket(host)
        return
    try:
        _bound(host, port).close()
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            why = "is in use" if error.errno == errno.EADDRINUSE else "needs more rights than you have"
            raise Refused(f"port {port} on {host} {why}", "--port 0 takes a free one") from None
        raise ToolFailed(f"cannot listen on {host}: {error.strerror or error}", "see --host") from None


def _check_socket(path: str) -> None:
    if os.path.exists(path):
        raise Refused(f"{path} is there already", "a server listens on it, or has left it behind: delete it then")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.access(folder, os.W_OK):
        raise ToolFailed(f"cannot listen on {path}: {folder} is no folder to write to", "see --host")


def check_reachable(endpoint: str, seconds: float = 5.0) -> None:
    """Make sure somebody listens at ``host:port``: llama.cpp goes on without an RPC server it cannot reach.

    Raises:
        ToolFailed: nobody does.
    """
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), seconds).close()
    except OSError as error:
        raise ToolFailed(
            f"RPC server {endpoint} cannot be reached: {error.strerror or error}",
            f"start it there: ggml-rpc-server -H {host} -p {port}; llama.cpp would silently do without it",
        ) from None


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except BaseException:
        sock.close()
        raise
    return sock


def start(argv: Sequence[str], log_path: str, way: Way) -> Running:
    """Start a server; its output goes to ``log_path``.

    In a session of its own, so that Ctrl-C comes to us first; the kernel ends it when we are gone.

    Raises:
        ToolFailed: the program cannot be started.
    """
    with begin_log(log_path, masked(argv)) as log:
        try:
            process = endings.start(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise ToolFailed(f"{argv[0]}: cannot be started: {error.strerror or error}") from None
    return Running(process, log_path, way, tuple(argv))


def restart(running: Running) -> None:
    """Start a server that has ended once more, the same way; its log begins anew."""
    running.process = start(running.argv, running.log_path, running.way).process


def stop(running: Running, grace: float = GRACE_SECONDS) -> int:
    """End it: politely, politely once more, then by force. Returns its exit code (negative: the signal).

    llama-server loses a SIGTERM that comes between its announcement and its main loop; a second one ends it at once
    (`server.cpp:signal_handler`, b11434).
    """
    process = running.process
    for attempt in (1, 2):
        if process.poll() is not None:
            break
        process.terminate()
        try:
            process.wait(grace * attempt / 3)
        except subprocess.TimeoutExpired:
            continue
    if process.poll() is None:
        process.kill()
    return process.wait()


def wait_until_ready(running: Running, seconds: float, tell: Callable[[float], None] = lambda _: None) -> bool:
    """Poll ``/health`` until it says 200; False when the process ended or the time is over.

    Args:
        running: the server.
        seconds: how long to wait; large models on slow disks take minutes.
        tell: called about once a second with the seconds passed.

    Raises:
        ToolFailed: nobody here may connect to it, however long we wait (a sandbox without network).
    """
    began = time.monotonic()
    told = began
    pause = 0.05
    looked = False
    while True:
        if running.process.poll() is not None:
            return False
        if ask(running, "/health", seconds=5).status == 200:
            return running.process.poll() is None
        if not looked and (why := _barred(running)) is not None and running.process.poll() is None:
            raise ToolFailed(
                f"{running.way.authority}: {why}: nobody can ask a server on this machine from here",
                "run it where connections to 127.0.0.1 are allowed (in a sandbox: with its loopback interface up)",
            )
        looked = True
        now = time.monotonic()
        if now - began > seconds:
            return False
        if now - told >= 1:
            told = now
            tell(now - began)
        time.sleep(pause)
        pause = min(pause * 1.3, 0.5)


def _barred(running: Running) -> str | None:
    """Why this machine lets nobody connect to the server, ready or not; None when it does."""
    try:
        running.way.pipe(Clock(5.0)).close()
    except OSError as error:
        return error.strerror if error.errno in _BARS else None
    except Broken as error:
        cause = error.__cause__
        return cause.strerror if isinstance(cause, OSError) and cause.errno in _BARS else None
    return None


def ask(running: Running, path: str, body: Mapping[str, Any] | None = None, seconds: float = 60.0) -> Answer:
    """One request, over in bounded time (``seconds`` to the headers); never raises for what the other side does."""
    way = running.way
    headers = {"Host": way.authority, "Content-Type": "application/json", "Connection": "close"}
    if way.key:
        headers["Authorization"] = f"Bearer {way.key}"
    sent = None if body is None else json.dumps(body).encode()
    try:
        with closing(way.pipe(Clock(seconds))) as pipe:
            reply = exchange(pipe, "GET" if sent is None else "POST", way.prefix + path, headers, sent)
            data = reply.read(LARGEST)
    except (OSError, Broken):
        return Answer(0, None)
    try:
        return Answer(reply.status, from_json(data, halves=True))
    except Malformed:
        return Answer(reply.status, None)


def ended_how(code: int) -> str:
    """An exit code for people."""
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return {"SIGKILL": "SIGKILL: it was killed, usually because memory ran out"}.get(name, name)
