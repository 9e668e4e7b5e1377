"""`flags.json`: the options of a llama-server, from its own `--help` and `--version`."""

from __future__ import annotations

import gzip
import re
import subprocess
from typing import Any

from gguftool.run.capabilities import parse_help, parse_version


def server_flags(server: str) -> tuple[list[dict[str, Any]], int | None]:
    """Every option with what the help says of it, and the build; a recorded help (``.bN.txt``, ``.gz``) does as well.

    Raises:
        OSError: it cannot be run or read.
        ValueError: it lists no options.
    """
    if server.endswith((".txt", ".txt.gz")):
        with (gzip.open if server.endswith(".gz") else open)(server, "rt", encoding="utf-8") as file:
            told = str(file.read())
        named = re.search(r"\bb(\d{3,6})\.txt", server)
        number = int(named[1]) if named else None
    else:
        told = _said(server, "--help")
        number, _ = parse_version(_said(server, "--version"))
    options = parse_help(told)
    if not options:
        raise ValueError(f"{server} --help lists no options")
    out = []
    for o in options:
        entry: dict[str, Any] = {"names": list(o.names)}
        entry |= {k: v for k in ("value", "env", "default") if (v := getattr(o, k))}
        out.append(entry | {k: True for k in ("removed",) if getattr(o, k)})
    return out, number


def _said(server: str, option: str) -> str:
    done = subprocess.run([server, option], capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + (done.stderr if option == "--version" else "")
