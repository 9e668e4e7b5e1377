"""Fixtures of this room: a server, and an environment without the user's own caches and tokens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hub.server import Site, serve


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No token, no cache, no proxy, no store, no connection but those of the test."""
    for name in (
        "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "HF_ENDPOINT",
        "HF_TOKEN_PATH", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    yield
    if "huggingface_hub" in sys.modules:
        # The next test's server may get the port of this one, and a kept connection still leads here.
        forget_sessions()


def forget_sessions() -> None:
    """The sessions of huggingface-hub, in which connections are kept; before 1.0 under another name."""
    from huggingface_hub import utils

    getattr(utils, "close_session", getattr(utils, "reset_sessions", lambda: None))()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The Hub, on this machine."""
    with serve(Site()) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


@pytest.fixture
def storage() -> Iterator[Site]:
    """The host that the Hub redirects to."""
    with serve(Site()) as running:
        yield running


@pytest.fixture
def memory() -> Iterator[Any]:
    """The file system of fsspec that lies in memory, empty."""
    fs = pytest.importorskip("fsspec").filesystem("memory")
    fs.store.clear()
    yield fs
    fs.store.clear()
