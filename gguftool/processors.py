"""How many processors this process may use: threads beyond them only wait, and in a container are stopped for it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gguftool.quantity import whole

CGROUP, OWN = "/sys/fs/cgroup", "/proc/self/cgroup"


def processors(cgroup: str = CGROUP, own: str = OWN) -> int:
    """Those it may run on, and no more than its control groups give it time for; at least 1.

    Args:
        cgroup: where control groups are mounted.
        own: the file that names ours.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for quota, period in _quotas(cgroup, own):
        count = min(count, max(1, -(-quota // period)))
    return count


def _quotas(root: str, own: str) -> Iterator[tuple[int, int]]:
    """Time allowed in a period, and the period, of every control group we are in that has such a limit."""
    name = next((line[3:] for line in _text(own).splitlines() if line.startswith("0::")), "")
    parts = [part for part in name.split("/") if part]
    # In a container the group we are in is mounted as the root itself; in a unit of systemd it lies below.
    texts = [_text(os.path.join(root, *parts[:n], "cpu.max")) for n in range(len(parts) + 1)]
    # The older kind of control groups: two files, -1 for no limit.
    texts += [" ".join(_text(os.path.join(root, "cpu", f"cpu.cfs_{x}_us")) for x in ("quota", "period"))]
    for text in texts:
        numbers = [whole(word) for word in text.split()]
        if len(numbers) == 2 and numbers[0] and numbers[1]:
            yield numbers[0], numbers[1]


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(1 << 16)
    except OSError:
        return ""
