"""A few projectors before the real server: it ends as foretold, with the words foretold."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gguftool.model import open_model
from gguftool.predict import predict
from tests.build import llama
from tests.draft_cases import ask, start
from tests.projectors import SOUND, Made

CASES: dict[str, Callable[[], Made]] = {
    "a sound one": SOUND["gemma3"],
    "a sound one of another type": SOUND["idefics3"],
    "a type that is not known": lambda: SOUND["gemma3"]().key("clip.projector_type", "gemma-3"),
    "no size of patches": lambda: _without(SOUND["gemma3"](), "clip.vision.patch_size"),
    "a tensor that is missing": lambda: _without(SOUND["idefics3"](), "mm.model.fc.weight"),
    "a width that does not fit": lambda: SOUND["gemma3"]().tensor("mm.soft_emb_norm.weight", 33),
    "an array of two": lambda: SOUND["gemma3"]().key("clip.vision.image_mean", [0.5, 0.5]),
}


def _without(made: Made, name: str) -> Made:
    made.keys.pop(name, None)
    made.tensors.pop(name, None)
    return made


@pytest.mark.real
@pytest.mark.parametrize("case", CASES)
def test_the_server_does_as_foretold(case: str, server: str, tmp_path: Path) -> None:
    eyes = CASES[case]().gguf().write(tmp_path / "eyes.gguf")
    with open_model(eyes, strict=False) as m:
        load = predict(m)
    words = ["-m", str(llama(layers=1).write(tmp_path / "m.gguf")), "--mmproj", str(eyes)]
    # The server in use is of an older release, whose line breaks differ, and which says it all the same.
    said = load.first_error.rpartition(": ")[2].removeprefix("load_hparams: ")
    # One that gives up ends without waiting for the thread that writes its log: the last lines may be lost.
    for _ in range(5):
        ready, log = _run(server, words, tmp_path / "log")
        assert ready == load.loads, log[-2000:]
        if said in log:
            break
    assert said in log, log[-2000:]


def _run(server: str, words: list[str], path: Path) -> tuple[bool, str]:
    """Whether the server came to answer, and its log."""
    process, port = start(server, words, path)
    try:
        until, ready = time.monotonic() + 60, False
        while process.poll() is None and not ready and time.monotonic() < until:
            ready = ask(port, "/health") is not None
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    return ready, path.read_text(errors="replace")
