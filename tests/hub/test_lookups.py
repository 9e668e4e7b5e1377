"""Questions to the Hub: over in bounded time, and no answer of a Hub is a crash."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gguftool.errors import MissingFile, ToolFailed, UsageError
from gguftool.hub import api, download
from gguftool.hub.address import HubAddress
from tests.conftest import Result
from tests.hub import hostile
from tests.hub.hostile import Hostile, head


@pytest.fixture(scope="session")
def server() -> Iterator[Hostile]:
    """It stays: to threads that were given up here a server that is gone is a reason to close the session of all."""
    with hostile.serve() as running:
        yield running


QUESTIONS = {
    "listing": lambda: api.listing(HubAddress("o/r")),
    "record": lambda: api.lfs_record(HubAddress("o/r", "x.gguf")),
    "repositories": lambda: api.repositories("o"),
}


@pytest.mark.parametrize("name", ["badlen", "close", "reset", "garbage", "chunkneg", "s404", "s401"])
def test_a_download_from_a_sick_hub(
    server: Hostile, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.port}/{name}")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises((ToolFailed, MissingFile)):
        download.model_folder("hf://o/r")


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("body", [
    b"[" * 100_000, b"9" * 5000, b"null", b"5", b'"x"', b"[]", b"[5]", b"[[]]", b'[{"type": "file"}]', b"\xff\xfe", b"",
    b'{"id": "o/r", "siblings": [5]}', b'{"id": "o/r", "siblings": [{"rfilename": "x", "size": "y"}]}',
    b'{"siblings": 5}',
    json.dumps([{"type": "file", "path": "x.gguf", "size": "1e999", "oid": "0", "lfs": 5}]).encode(),
])  # fmt: skip
def test_nonsense(server: Hostile, body: bytes, question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile.ACTS["said"] = lambda a: a.say(
        head("200 OK", ("Content-Type", "application/json"), ("Content-Length", len(body))) + body
    )
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.port}/said")
    with suppress(ToolFailed, UsageError):
        QUESTIONS[question]()


def test_credentials_of_a_mirror_are_not_shown(
    server: Hostile, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("s404", "s401", "close", "badlen"):
        monkeypatch.setenv("HF_ENDPOINT", f"http://anna:geheim@127.0.0.1:{server.port}/{name}")
        for spec in ("hf://o/r", "hf://o/r/x.gguf"):
            result = cli("verify", spec, "--format", "json")
            assert result.code in (2, 6), result.err
            assert "geheim" not in result.out + result.err


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", ["lorishdr", "lorischunk", "silent"])
def test_slow(server: Hostile, name: str, question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.port}/{name}")
    monkeypatch.setattr(api, "LOOKUP_SECONDS", 0.6)
    # huggingface-hub goes on asking in its thread; the server has mercy on the tests behind this one.
    monkeypatch.setattr(hostile, "LIFE", 2.0)
    began = time.monotonic()
    with pytest.raises(ToolFailed, match="within"):
        QUESTIONS[question]()
    assert time.monotonic() - began < 5
