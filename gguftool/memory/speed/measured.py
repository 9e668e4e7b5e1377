"""How fast this host is, measured in a few seconds and kept: ``plan --calibrate``."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from gguftool.errors import GgufToolError
from gguftool.files.cache import user_cache
from gguftool.memory.speed.rates import Rate

BLOCK = 1 << 25
"""Numbers of 4 bytes each thread reads: 128 MiB, more than the caches of common processors."""
MATRIX = 1024
ROUNDS = 5
INTEGERS = 4.0
"""Operations on 8-bit numbers for one on 32 bits: the most that vector units do (VNNI, SDOT)."""


def path() -> str:
    """Where the figures are kept."""
    return os.path.join(user_cache("gguftool"), "speed.json")


def stored() -> Rate | None:
    """What was measured of this host, None when nothing was, or of a host with other processors."""
    if not os.path.exists(path()):
        return None
    from gguftool.processors import processors
    from gguftool.reading import json_file

    try:
        found = json_file(path())
        if found["processors"] != processors():
            return None
        return _rate(float(found["bandwidth"]), float(found["compute"]), str(found["when"]))
    except (GgufToolError, ValueError, KeyError, TypeError):
        return None


def calibrate() -> Rate:
    """Measure the host, and keep it: the best of a few rounds, as other work only slows.

    Raises:
        NoRoom, Refused: the figures cannot be kept.
    """
    import json

    from gguftool.files.names import make_folder
    from gguftool.files.small import replace_own
    from gguftool.processors import processors

    bandwidth, compute = _bandwidth(), _compute()
    when = time.strftime("%Y-%m-%d")
    make_folder(os.path.dirname(path()))
    kept = {"bandwidth": bandwidth, "compute": compute, "when": when, "processors": processors()}
    replace_own(path(), json.dumps(kept) + "\n")
    return _rate(bandwidth, compute, when)


def _rate(bandwidth: float, compute: float, when: str) -> Rate:
    return Rate(bandwidth, compute, compute * INTEGERS, f"measured here on {when} (--calibrate)", "measured")


def _best(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Seconds of the fastest of a few rounds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def _bandwidth() -> float:
    """Bytes all processors together read in a second."""
    import numpy as np

    from gguftool.processors import processors

    blocks = [np.ones(BLOCK, np.float32) for _ in range(min(processors(), 16))]

    def read(block: Any) -> None:
        block.max()

    def all_of_them() -> None:
        threads = [threading.Thread(target=read, args=(b,)) for b in blocks]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    return sum(b.nbytes for b in blocks) / _best(all_of_them)


def _compute() -> float:
    """Operations on 32-bit numbers in a second, of a product of matrices."""
    import numpy as np

    a = np.ones((MATRIX, MATRIX), np.float32)
    return 2.0 * MATRIX**3 / _best(lambda: a @ a, 2 * ROUNDS)
