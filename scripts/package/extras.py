"""What each extra is for: the command that asks for it, and what it does once it is there."""

from __future__ import annotations

from dataclasses import dataclass

MODEL = "tiny-llama.gguf"
SOURCE = "source"
"""A folder with the tokenizer.json of another model."""
ON_CLUSTER = """\
import subprocess, sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        words = [sys.argv[1], "scan", "--no-lint", "--scheduler", cluster.scheduler_address, "."]
        sys.exit(subprocess.run(words, check=False).returncode)
"""
IN_TERMINAL = """\
import fcntl, os, pty, select, signal, struct, sys, termios, time
child, fd = pty.fork()
if not child:
    os.environ["TERM"] = "xterm-256color"
    os.execv(sys.argv[1], [sys.argv[1], "edit", "tiny-llama.gguf"])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
seen, end = b"", time.monotonic() + 60
while b"block_count" not in seen and time.monotonic() < end:
    if select.select([fd], [], [], 1)[0]:
        try:
            seen += os.read(fd, 65536)
        except OSError:
            break
os.kill(child, signal.SIGKILL)
os.close(fd)
os.waitpid(child, 0)
print("the keys are shown" if b"block_count" in seen else repr(seen[-600:]))
"""


@dataclass(frozen=True, slots=True)
class Extra:
    """One extra of pyproject.toml that users install.

    Attributes:
        packages: modules whose absence asks for it.
        command: words behind ``gguftool`` that need it.
        code: exit code without it; the output then has ``pip install 'gguftool[NAME]'``.
        does: words that show it at work, where that is another command; ``gguftool`` and ``python`` stand for those
            of the installation.
        shows: text that then stands in the output (exit code 0, or as ``ends`` says).
        ends: exit code then.
        also: further extras that its work needs.
    """

    packages: tuple[str, ...]
    command: tuple[str, ...]
    code: int = 6
    does: tuple[str, ...] = ()
    shows: str = ""
    ends: int = 0
    also: tuple[str, ...] = ()


EXTRAS = {
    "server": Extra(("xllamacpp",), ("plan", "--measure", "--ctx", "512", MODEL)),
    "quant": Extra(("libggml",), ("quantize", "--engine", "builtin", MODEL, "small.gguf", "IQ4_NL"), shows="IQ4_NL"),
    "plot": Extra(("matplotlib",), ("plan", "--plot", "plan.png", MODEL), shows="plan.png"),
    "hash": Extra(("xxhash",), ("hash", "--tensors", "--algorithm", "xxh64", MODEL), shows="5a519aa5de4f0da8"),
    "tokenizer": Extra(
        ("tokenizers",),
        ("lint", "--no-config", "--exit-zero", "--against", SOURCE, "--tokenizer", "--select", "tokenizer", MODEL),
        code=0,
        shows="tokenizer-texts-differ",
        also=("server",),
    ),
    "remote": Extra(("s3fs",), ("lint", "--no-config", "s3://bucket/m.gguf"), ends=6, shows="s3://bucket/m.gguf"),
    "cluster": Extra(
        ("distributed",),
        ("scan", "--scheduler", "tcp://127.0.0.1:1", "."),
        does=("python", "-c", ON_CLUSTER, "gguftool"),
        shows=MODEL,
    ),
    "tui": Extra(
        ("textual",), ("edit", MODEL), does=("python", "-c", IN_TERMINAL, "gguftool"), shows="the keys are shown"
    ),
    "watch": Extra(("watchfiles",), ("scan", "--watch", "--for", "1", "--settle", "0", "."), shows=MODEL),
}
"""By the names of pyproject.toml; `test` and `dev` are for those who work on gguftool."""
