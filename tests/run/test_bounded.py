"""What a server that we started is asked ends in bounded time and never raises, whatever the server does."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest

from gguftool import wire
from gguftool.run.reach import Way
from gguftool.run.server import Answer, Running, ask
from tests.hub import hostile
from tests.hub.hostile import ENDLESS, NUMBERS, SLOW, Hostile, head


@pytest.fixture(scope="module")
def server() -> Iterator[Hostile]:
    with hostile.serve() as running:
        yield running


def asked(server: Hostile, name: str, seconds: float = 0.5) -> Answer:
    running = Running(subprocess.Popen(["true"]), "", Way("127.0.0.1", server.port, f"/{name}"))
    running.process.wait()
    began = time.monotonic()
    answer = ask(running, "/health", seconds=seconds)
    assert time.monotonic() - began < 5
    return answer


@pytest.mark.parametrize("name", [*NUMBERS, *ENDLESS, *SLOW])
def test_nothing_holds_it_up(server: Hostile, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "GRACE_SECONDS", 0.3)
    assert asked(server, name).body is None


@pytest.mark.parametrize("body", [b"[" * 100_000, b"9" * 5000, b"1e999", b"\xff", b"", b'{"a":'])
def test_what_is_no_json_has_no_body(server: Hostile, body: bytes) -> None:
    hostile.ACTS["said"] = lambda a: a.say(head("200 OK", ("Content-Length", len(body))) + body)
    assert asked(server, "said", 5) == Answer(200, None)


def test_an_answer(server: Hostile) -> None:
    hostile.ACTS["said"] = lambda a: a.say(head("503 B", ("Content-Length", 9)) + b'{"a": [1]}'[:9] + b"")
    assert asked(server, "said", 5) == Answer(503, None)
    hostile.ACTS["said"] = lambda a: a.say(head("503 B", ("Content-Length", 10)) + b'{"a": [1]}')
    assert asked(server, "said", 5) == Answer(503, {"a": [1]})
