"""``gguftool`` for shells under test: one process that has imported everything, and forks for each call.

A shell that completes starts a program at every probe; 0.2 s each would be most of what the probes take. That the
program itself does the same is shown once for each shell (`tests.cli.completing.test_shells`).
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from pathlib import Path

STUB = """#!{bash}
exec 3<>/dev/tcp/127.0.0.1/{port}
printf '%s\\0' "$#" "$PWD" "$HOME" "$_GGUFTOOL_COMPLETE" "$@" >&3
exec cat <&3
"""


def stub(folder: Path, bash: str, port: int) -> Path:
    """An executable ``gguftool`` that asks the process behind a port."""
    program = folder / "gguftool"
    program.write_text(STUB.format(bash=bash, port=port))
    program.chmod(0o755)
    return program


def _asked(peer: socket.socket) -> list[str]:
    """What the stub sends: how many arguments there are, three variables, the arguments."""
    data = b""
    while True:
        data += peer.recv(65536)
        words = data.split(b"\0")[:-1]
        if words and len(words) == int(words[0]) + 4:
            return [os.fsdecode(word) for word in words[1:]]


def serve(home: str) -> None:
    """Answer until killed; say the port first."""
    from gguftool.cli.complete import shells
    from gguftool.cli.group import gguftool
    from gguftool.cli.main import main
    from tests.cli.completing.probes import PROBES

    os.chdir(home)
    # What a probe imports and reads of our tables is there before the first fork.
    for probe in PROBES:
        shells.answer(gguftool, "bash_complete", [probe.line])
    gc.collect()
    gc.freeze()
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    while True:
        peer, _ = listening.accept()
        child = os.fork()
        if child == 0:
            where, os.environ["HOME"], os.environ[shells.VARIABLE], *args = _asked(peer)
            os.chdir(where)
            os.dup2(peer.fileno(), 1)
            code = main(args)
            sys.stdout.flush()
            os._exit(code)
        peer.close()
        os.waitpid(child, 0)


if __name__ == "__main__":
    serve(sys.argv[1])
