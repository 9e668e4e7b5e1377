"""Ask the real llama.cpp library what a model takes, without loading it.

`no_alloc` makes llama.cpp lay out weights, caches and graphs and allocate none of the large ones, so a 400 GB model is
answered for in a fraction of a second. The library is the one inside the `xllamacpp` wheel (extra ``server``), called
through ctypes in a child process: a `GGML_ASSERT` there ends the child, not us.

Run as ``python -m gguftool.run.measure`` it reads one JSON request from stdin and writes one line of JSON to
stdout for each context asked for.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from gguftool.endings import run
from gguftool.errors import ToolFailed
from gguftool.memory.settings import BATCH, UBATCH
from gguftool.records import asdict, dataclass
from gguftool.run.measurer import PACKAGE, VERSION, available

TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class Ask:
    """One context to lay out; names and meanings as in `llama.h:llama_context_params`.

    Attributes:
        n_ctx: tokens of all slots together.
        type_k, type_v: cache types by name.
        n_seq_max: slots.
        kv_unified: slots share one context.
        n_batch, n_ubatch: batch sizes.
        flash_attn: ``on``, ``off`` or ``auto``.
        swa_full: windows as large as the context.
        n_outputs_max: rows of logits; llama-server asks for one a slot, 0 is one a token of the batch.
    """

    n_ctx: int
    type_k: str = "f16"
    type_v: str = "f16"
    n_seq_max: int = 1
    kv_unified: bool = False
    n_batch: int = BATCH
    n_ubatch: int = UBATCH
    flash_attn: str = "auto"
    swa_full: bool = False
    n_outputs_max: int = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """What the library answered for one context.

    Attributes:
        buffers: bytes by buffer type name: ``model``, ``context``, ``compute``; None when it refused.
        log: its warnings and errors.
    """

    buffers: dict[str, dict[str, int]] | None
    log: tuple[str, ...]

    def total(self, part: str) -> int:
        """Bytes of ``model``, ``context`` or ``compute`` over all buffer types."""
        return sum(b[part] for b in (self.buffers or {}).values())


def measure(path: str, asks: Sequence[Ask], *, repack: bool = True, timeout: float = TIMEOUT) -> list[Measured]:
    """Lay out a model and each context with the real library.

    Args:
        path: a ``.gguf`` file (the first shard of a set); the tensor data must be there or a hole.
        asks: the contexts.
        repack: the host may rearrange weights.
        timeout: seconds for all of it.

    Raises:
        ToolFailed: the library is not installed, cannot load the model, ended, or took too long.
    """
    if not available():
        raise ToolFailed(
            f"measuring needs {PACKAGE} {VERSION}, which is not installed", "pip install 'gguftool[server]'"
        )
    import subprocess

    request = {
        "path": os.path.abspath(path),
        "asks": [asdict(a) for a in asks],
        "repack": repack,
    }
    try:
        argv = [sys.executable, "-m", "gguftool.run.measure"]
        done = run(argv, timeout, stdin=json.dumps(request), env={**os.environ, "GGML_NO_BACKTRACE": "1"})
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{PACKAGE} did not answer about {path} in {timeout:.0f} seconds") from None
    lines = [json.loads(x) for x in done.stdout.splitlines() if x.startswith("{")]
    if lines and "error" in lines[0]:
        raise ToolFailed(f"{PACKAGE} {VERSION}: {lines[0]['error']}")
    if len(lines) < len(asks):
        last = [x for x in done.stderr.splitlines() if x.strip()][-1:] or ["no message"]
        raise ToolFailed(f"{PACKAGE} {VERSION} ended while it laid out {path}: {last[0]}")
    return [Measured(x["buffers"], tuple(x["log"])) for x in lines]


def answer(request: dict[str, object]) -> None:
    """The child's part: one line of JSON a context."""
    from gguftool.run.abi import Library

    asks = request["asks"]
    if not isinstance(asks, list):
        raise TypeError("a request has a list `asks`")
    library = Library()
    why = library.load(str(request["path"]), repack=bool(request["repack"]))
    if why is not None:
        _say({"error": why})
        return
    for ask in asks:
        buffers, log = library.context(ask)
        _say({"buffers": buffers, "log": log})


def _say(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    answer(json.load(sys.stdin))
    # The library's own clean-up at exit is not ours to wait for.
    os._exit(0)
