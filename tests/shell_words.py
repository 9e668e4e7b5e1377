"""What a shell makes of a printed line: the words that the programs of the line were called with."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SHELLS = tuple(name for name in ("sh", "bash", "dash") if shutil.which(name))
NASTY = "a b;$(touch PWNED)`touch PWNED`'\"\\ %s%n\x1b[31m\n{path} {} !x #*~&|<>\n"
"""Everything a shell, a terminal, printf or a format string might act on."""
_RECORD = '#!/bin/sh\n{ printf "%s\\0" "${0##*/}" "$@"; printf "\\1\\0"; } >> "$RECORD"\n'


def calls(
    line: str,
    folder: Path,
    *,
    shell: str = "sh",
    programs: tuple[str, ...] = ("gguftool",),
    made: frozenset[str] = frozenset(),
) -> list[list[str]]:
    """Run lines with stand-ins for their programs and return the words of each call.

    Args:
        line: what was printed; several are several lines.
        folder: where stand-ins are made; the lines run in an empty folder below it, in which nothing may appear.
        shell: which shell reads them.
        programs: names of the stand-ins.
        made: files that the lines are meant to make.
    """
    stand_ins, inside, record, script = (folder / name for name in ("bin", "run", "record", "script"))
    for place in (stand_ins, inside):
        place.mkdir(exist_ok=True)
    record.write_bytes(b"")
    for name in programs:
        (stand_ins / name).write_text(_RECORD)
        (stand_ins / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{stand_ins}:{os.environ['PATH']}", "RECORD": str(record)}
    script.write_bytes(os.fsencode(line) + b"\n")
    done = subprocess.run([shell, script], env=env, cwd=inside, capture_output=True, timeout=60)
    assert done.returncode == 0, (line, done.stderr)
    assert set(os.listdir(inside)) <= made, f"{line} made {os.listdir(inside)}"
    words = [os.fsdecode(word) for word in record.read_bytes().split(b"\0")[:-1]]
    out: list[list[str]] = [[]]
    for word in words:
        if word == "\1":
            out.append([])
        else:
            out[-1].append(word)
    return out[:-1]


def shell_words(line: str, folder: Path) -> list[str]:
    """The words of a line that is one command of gguftool; every shell at hand must agree."""
    assert line.isprintable(), repr(line)
    found = [calls(line, folder, shell=shell) for shell in SHELLS]
    assert all(f == found[0] and len(f) == 1 for f in found), (line, found)
    return found[0][0]
