"""A real llama-server with adapters and control vectors: it ends, or runs without them, as it was predicted."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gguftool.model import open_model
from gguftool.predict import adapter, steering
from tests.beside import control_vector, lora
from tests.build import GGUF, llama

pytestmark = pytest.mark.oracle
CASES: dict[str, tuple[str, Callable[[], GGUF], str]] = {
    "adapter": ("--lora", lora, "loads"),
    "half a pair": ("--lora", lambda: lora().drop_tensor("blk.0.attn_q.weight.lora_b"), "refused"),
    "another architecture": ("--lora", lambda: lora(arch="qwen2"), "refused"),
    "another weight": ("--lora", lambda: lora(("blk.7.attn_q.weight", 64, 64)), "refused"),
    "another width": ("--lora", lambda: lora(("blk.0.attn_q.weight", 96, 64)), "refused"),
    "a number for a word": ("--lora", lambda: lora().replace("adapter.type", 3), "aborts"),
    "control vector": ("--control-vector", control_vector, "loads"),
    "layer 0": ("--control-vector", lambda: control_vector(layers=(0, 1)), "skipped"),
    "f16": ("--control-vector", lambda: control_vector().retensor("direction.2", type="f16"), "skipped"),
    "wide": ("--control-vector", lambda: control_vector(96), "skipped"),
    "cut off": ("--control-vector", lambda: control_vector(65).truncate(-4), "skipped"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_server_does_what_was_predicted(name: str, server: str, tmp_path: Path) -> None:
    option, made, outcome = CASES[name]
    base = llama(layers=3).write(tmp_path / "m.gguf")
    side = made().write(tmp_path / "side.gguf")
    with open_model(side, strict=False) as m, open_model(base) as model:
        load = adapter.predict(m, model) if option == "--lora" else steering.predict(m, model)
    assert ("skipped" if load.skipped else load.verdict) == outcome
    lines = [
        # The wheel's server is older: there another function says it.
        line.partition(": ")[2] if line.startswith(adapter.APPLY) else line
        for line in load.messages or load.warnings
    ]
    for _ in range(5):
        code, said = _served(server, tmp_path, base, option, side)
        # A thread of its own writes the server's log: one that ends at once on a busy machine takes lines with it.
        if code is None or all(line in said for line in lines):
            break
    assert (code is None) == (outcome in ("loads", "skipped")), said
    # The program aborts on a failed assertion; of an error message it ends with 1.
    assert code in {"aborts": (-6,), "refused": (1,)}.get(outcome, (None,)), said
    assert [line for line in lines if line not in said] == []


def _served(server: str, folder: Path, base: Path, option: str, side: Path) -> tuple[int | None, str]:
    """The exit code, None when it came to answer; and what it said until then."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [server, "-m", str(base), option, str(side), "--host", "127.0.0.1", "--port", str(port), "-c", "512"]
    log = folder / "log"
    with open(log, "wb") as out:
        env = {**os.environ, "GGML_NO_BACKTRACE": "1"}
        child = subprocess.Popen([*command, "-t", "1"], stdout=out, stderr=out, env=env)
        try:
            end = time.monotonic() + 60
            while child.poll() is None and time.monotonic() < end and b"listening on" not in log.read_bytes():
                time.sleep(0.05)
            return child.poll(), log.read_text(errors="replace")
        finally:
            child.kill()
            child.wait()
