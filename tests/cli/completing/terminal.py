"""bash and zsh in a terminal of their own, and fish asked through ``complete -C``."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

TAB, LOOK = b"\t", b"\x18\x01"

BASH = r"""
bind 'set enable-bracketed-paste off'; bind 'set bell-style none'; bind 'set completion-query-items 0'
bind 'set page-completions off'
source "$SCRIPT"
told() { _gguftool_completion "$@"; printf '%s\0' "${COMPREPLY[@]}" >> "$OUT/offered"; }
complete -o nosort -F told gguftool
look() {
    printf '%s' "$READLINE_LINE" > "$OUT/line.new"; mv "$OUT/line.new" "$OUT/line"; READLINE_LINE= READLINE_POINT=0
}
bind -x '"\C-x\C-a": look'
touch "$OUT/up"
"""
ZSH = r"""
autoload -Uz compinit; compinit -D -u
setopt no_beep no_list_beep; unsetopt list_ambiguous auto_menu auto_list
source "$SCRIPT"
compadd() {
    local -a found; builtin compadd -O found "$@"; print -rNn -- "$found[@]" >> "$OUT/offered"; builtin compadd "$@"
}
look() { print -rn -- "$BUFFER" > "$OUT/line.new"; mv "$OUT/line.new" "$OUT/line"; BUFFER=; }
zle -N look; bindkey '^X^A' look
touch "$OUT/up"
"""
START = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}
SETUP = {"bash": BASH, "zsh": ZSH}


@dataclass(frozen=True)
class Seen:
    """What came of one Tab.

    Attributes:
        offered: the words, as the shell was given them; of bash as they are inserted.
        line: the line afterwards; None where it is not looked at.
    """

    offered: list[str]
    line: str | None


class Terminal:
    """An interactive shell that is typed to.

    Args:
        shell: bash or zsh.
        script: our script for it.
        home: its home, and where it starts.
        path: where it finds ``gguftool``.
        out: an empty folder to tell us things in.
    """

    def __init__(self, shell: str, script: Path, home: Path, path: Path, out: Path) -> None:
        self.out = out
        setup = out / "setup"
        setup.write_text(SETUP[shell])
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(home)
            own = {
                "TERM": "dumb",
                "PS1": "$ ",
                "OUT": str(out),
                "SCRIPT": str(script),
                "HISTFILE": "",
                "LC_ALL": "C.UTF-8",
            }
            env = {**os.environ, **own, "HOME": str(home), "PATH": f"{path}:{os.environ['PATH']}"}
            os.execvpe(START[shell][0], START[shell], env)
        self._type(f"source {setup}\r".encode())
        self._wait("up")

    def tab(self, line: str, behind: str = "") -> Seen:
        """Type a line, go back over ``behind``, press Tab, and look."""
        offered = self.out / "offered"
        offered.unlink(missing_ok=True)
        # The terminal's own ^B goes back one character.
        self._type((line + behind).encode() + b"\x02" * len(behind) + TAB + LOOK)
        made = self._wait("line").read_text()
        (self.out / "line").unlink()
        words = offered.read_bytes().decode().split("\0") if offered.exists() else []
        return Seen([word for word in words if word], made)

    def _type(self, data: bytes) -> None:
        os.write(self.fd, data)

    def _wait(self, name: str) -> Path:
        path = self.out / name
        until = time.monotonic() + 60
        said = b""
        while not path.exists():
            # What it prints must be read, or it stands still.
            if select.select([self.fd], [], [], 0.005)[0]:
                said += os.read(self.fd, 65536)
            if time.monotonic() > until:
                raise TimeoutError(f"{name}: {said[-2000:]!r}")
        return path

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def fish(lines: list[str], script: Path, home: Path, path: Path) -> list[Seen]:
    """What fish offers for each line."""
    env = {**os.environ, "HOME": str(home), "PATH": f"{path}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    ask = "source $argv[1]; for line in $argv[2..-1]; complete -C $line; printf '\\x1e\\n'; end"
    done = subprocess.run(
        ["fish", "--no-config", "-c", ask, str(script), *lines], cwd=home, env=env, capture_output=True, timeout=120
    )
    if done.stderr:
        raise AssertionError(done.stderr.decode())
    blocks = done.stdout.decode().split("\x1e\n")[:-1]
    return [Seen([row.partition("\t")[0] for row in block.splitlines()], None) for block in blocks]
