"""Emitted files that are run: the entry of llama-swap starts a server that wants its key."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.run.conftest import children


@pytest.mark.real
@pytest.mark.parametrize("engine", ["library", "llama-server"])
def test_the_line_of_llama_swap_starts_a_server_that_wants_its_key(
    cli, smollm2: Path, server: str, tmp_path: Path, engine: str
) -> None:
    if engine == "library":
        pytest.importorskip("xllamacpp")
    (tmp_path / "keys.txt").write_text("sekrit\n")
    (tmp_path / "t.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    result = cli(
        "launch", smollm2, "--ctx", 512, "--engine", engine, "--api-key-file", tmp_path / "keys.txt",
        "--chat-template-file", tmp_path / "t.jinja", "--emit", "llama-swap", "--force",
    )  # fmt: skip
    assert result.code == 0, result.err
    [entry] = yaml.safe_load(result.out)["models"].values()
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    words = [sys.executable, "-m", "gguftool", *shlex.split(entry["cmd"].replace("${PORT}", str(port)))[1:]]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert status(port, "/health", until=60) == 200
        body = {"prompt": "a", "n_predict": 1}
        assert status(port, "/completion", body) == 401
        assert status(port, "/completion", body, key="sekrit") == 200
    finally:
        process.terminate()
        process.wait(timeout=20)
    assert not children()


def status(port: int, path: str, body: Any = None, key: str = "", until: float = 1) -> int:
    """The answer's number; asked again until there is one."""
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    data = None if body is None else json.dumps(body).encode()
    end = time.monotonic() + until
    while True:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            if error.code != 503 or time.monotonic() > end:
                return error.code
        except OSError:
            if time.monotonic() > end:
                return 0
        time.sleep(0.2)
