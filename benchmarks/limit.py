"""A server under the limit of memory of its emitted file: many different prompts, and whether the kernel ends it.

Usage: ``./dev bench-limit SERVER [PROMPTS [ROUND ...]]`` (300 different prompts of up to 1,800 tokens for SmolLM2-135M;
all rounds), as root, where a memory controller can be written to (cgroup v1 or v2). A round is a server in a group of
its own, with the very arguments and the limit of ``gguftool launch MODEL --ctx 2048 --emit k8s``: ``bounded`` as it is
emitted with ``--ram 512MiB``; ``talk`` the same for conversations that take turns; ``plain`` as emitted without, whose
prompt cache may take 8 GiB; ``check``, the limit of the first with llama-server's own defaults, which the kernel must
end, or the limit is none.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.memory import MIB, WORDS, ask  # noqa: E402

LENGTHS = (60, 120, 250, 500, 900, 1800)
"""Words of the prompts, about a token each."""
TALKS = 8
"""Conversations at once."""


@dataclass(frozen=True)
class Group:
    """A control group of memory that is ours."""

    path: Path
    old: bool

    def limit(self, size: int) -> None:
        """Set how much its processes may have; no swap helps."""
        (self.path / ("memory.limit_in_bytes" if self.old else "memory.max")).write_text(str(size))
        swap = self.path / ("memory.swappiness" if self.old else "memory.swap.max")
        if swap.exists():
            swap.write_text("0")

    def anonymous(self) -> int:
        """Bytes the system cannot take back."""
        found = re.search(rf"^{'rss' if self.old else 'anon'} (\d+)", (self.path / "memory.stat").read_text(), re.M)
        return int(found[1]) if found else 0

    def kills(self) -> int:
        """Processes that the kernel ended here."""
        text = (self.path / ("memory.oom_control" if self.old else "memory.events")).read_text()
        found = re.search(r"^oom_kill (\d+)", text, re.M)
        return int(found[1]) if found else 0


def prompts_of(count: int, *, talk: bool) -> Iterator[str]:
    """Different prompts: stories of all lengths, or the turns of conversations, each with all that was said before."""
    rng = Random(1)

    def words(n: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(n))

    said = [f"Talk {i}:" for i in range(TALKS)]
    for i in range(count):
        if not talk:
            yield f"Story {i * 7919}: {words(rng.choice(LENGTHS))}"
            continue
        who = rng.randrange(TALKS)
        said[who] += f" {words(rng.randrange(20, 120))}."
        if said[who].count(" ") > max(LENGTHS):
            said[who] = f"Talk {i * 7919}: {words(60)}"
        yield said[who]


def group(name: str) -> Group:
    """A new group below the root of the controller."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, at, kind, options, *_ = line.split()
        old = kind == "cgroup" and "memory" in options.split(",")
        new = kind == "cgroup2" and "memory" in (Path(at) / "cgroup.subtree_control").read_text().split()
        if old or new:
            path = Path(at) / name
            path.mkdir()
            return Group(path, old)
    raise SystemExit("no memory controller of the kernel is mounted here")


def emitted(model: str, server: str, *more: str) -> tuple[list[str], int]:
    """The arguments and the limit of the container of an emitted file."""
    import yaml

    words = (sys.executable, "-m", "gguftool", "launch", model, "--server", server, "--ctx", "2048", "--threads", "1")
    words += ("--emit", "k8s", "--force", *more)
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=True).stdout
    pod = next(x for x in yaml.safe_load_all(done) if x["kind"] == "Deployment")
    (container,) = pod["spec"]["template"]["spec"]["containers"]
    found = re.fullmatch(r"(\d+)Mi", container["resources"]["limits"]["memory"])
    if found is None:
        raise SystemExit("no limit was emitted")
    inside = f"/models/{os.path.basename(model)}"
    return [model if word == inside else word for word in container["args"]], int(found[1]) * MIB


def round_of(title: str, server: str, arguments: list[str], size: int, prompts: int, *, talk: bool = False) -> bool:
    """One server, ended at the end; True: it was there to the last."""
    from gguftool.run.reach import Way
    from gguftool.run.server import free_port, start, stop, wait_until_ready

    at = group(f"gguftool-{os.getpid()}")
    at.limit(size)
    port = free_port("127.0.0.1")
    words = [*arguments[: arguments.index("--port") + 1], str(port), *arguments[arguments.index("--port") + 2 :]]
    enter = f'echo $$ > {at.path / "cgroup.procs"} && exec "$@"'
    most = tokens = done = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        running = start(["sh", "-c", enter, "sh", server, *words], f"{folder}/log", Way("127.0.0.1", port))
        try:
            if not wait_until_ready(running, 300):
                raise SystemExit(running.log()[-2000:])
            at_start = at.anonymous()
            for i, text in enumerate(prompts_of(prompts, talk=talk)):
                try:
                    tokens += ask(port, {"prompt": text, "n_predict": 1, "temperature": 0})["tokens_evaluated"]
                except OSError:
                    break
                most, done = max(most, at.anonymous()), i + 1
        finally:
            stop(running)
            kills = at.kills()
            while at.path.exists():
                try:
                    at.path.rmdir()
                except OSError:
                    time.sleep(0.1)
    print(
        f"| {title} | {size / MIB:,.0f} | {done} of {prompts} | {tokens // max(done, 1):,} | {at_start / MIB:,.0f} | "
        f"{most / MIB:,.0f} | {kills} | {time.monotonic() - began:,.0f} |",
        flush=True,
    )
    return done == prompts and not kills


def main(argv: list[str]) -> int:
    """Print the table; 1 when a server was ended that should not be, or the one without bounds was not."""
    if not argv:
        print(__doc__, file=sys.stderr)
        return 2
    from tests.real_models import SMOLLM2, ensure

    server, prompts, wanted = (
        argv[0],
        int(argv[1]) if len(argv) > 1 else 300,
        argv[2:] or ["check", "bounded", "talk", "plain"],
    )
    model = str(ensure(SMOLLM2))
    head = ("emitted with", "limit, MiB", "prompts", "tokens each", "anonymous at the start", "at most", "kills", "s")
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    small, size = emitted(model, server, "--ram", "512MiB", "--reserve", "0")
    bare = [w for i, w in enumerate(small) if "-cram" not in small[max(0, i - 1) : i + 1]]
    right = True
    if "check" in wanted:
        right &= not round_of("defaults, to check the limit", server, bare, size, prompts)
    if "bounded" in wanted:
        right &= round_of("`--ram 512MiB`", server, small, size, prompts)
    if "talk" in wanted:
        right &= round_of("`--ram 512MiB`, conversations", server, small, size, prompts, talk=True)
    if "plain" in wanted:
        right &= round_of("nothing more", server, *emitted(model, server), prompts)
    return int(not right)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
