"""Downloads by huggingface-hub: one that stands still ends soon, one that is slow does not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gguftool.errors import ToolFailed
from gguftool.hub import download, stall
from tests.hub.server import Site

WEIGHTS = os.urandom(300_000)


@pytest.fixture
def repo(site: Site) -> Site:
    site.repos["owner/model"] = {"config.json": b"{}", "x/model.safetensors": WEIGHTS, "picture.png": b"x"}
    return site


def test_a_server_that_drips_is_left(repo: Site) -> None:
    """By the whole program: no thread of the download keeps it from ending."""
    repo.drip = (1, 0.2)
    code = "from gguftool.hub import stall; stall.SECONDS = 1.5; from gguftool.cli.main import main; "
    code += "import sys; sys.exit(main(['convert', 'hf://owner/model', '-o', 'out.gguf']))"
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 6, done.stderr
    assert "/x/model.safetensors: the download stands still: " in done.stderr
    # All of it would take 16 hours.
    assert time.monotonic() - start < 200


def test_a_slow_one_is_waited_for(repo: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer in all than anything may stand still."""
    monkeypatch.setattr(stall, "SECONDS", 1.0)
    monkeypatch.setattr(stall, "LEAST", 4096)
    repo.drip = (50_000, 0.4)
    folder = Path(download.model_folder("hf://owner/model"))
    assert (folder / "x" / "model.safetensors").read_bytes() == WEIGHTS
    assert (folder / "config.json").read_bytes() == b"{}"
    assert not (folder / "picture.png").exists()
    repo.log.clear()
    assert download.model_folder("hf://owner/model") == str(folder)
    assert not [r for r in repo.log if "safetensors" in r.path], "it is there"


def test_what_another_process_brings_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """This one waits for its lock and moves nothing itself."""
    monkeypatch.setattr(stall, "SECONDS", 0.5)
    end = time.monotonic() + 2
    sizes = iter(range(0, 1 << 40, 1 << 20))

    def wait() -> str:
        time.sleep(2)
        return "there"

    assert stall.while_growing(wait, lambda: next(sizes), "x") == "there"
    assert time.monotonic() >= end
    with pytest.raises(ToolFailed, match="x: the download stands still"):
        stall.while_growing(wait, lambda: 5, "x")


def test_where_the_system_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall, "_copied", lambda: None)
    monkeypatch.setattr(stall, "BLIND_SECONDS", 0.5)
    assert stall.while_growing(lambda: 5, lambda: 0, "x") == 5
    with pytest.raises(ToolFailed):
        stall.while_growing(lambda: time.sleep(3), lambda: 0, "x")


def test_errors_are_those_of_the_work() -> None:
    with pytest.raises(ZeroDivisionError):
        stall.while_growing(lambda: 1 // 0, lambda: 0, "x")
