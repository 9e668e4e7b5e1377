"""What a log tells against a plan: what is off although it was asked for, and buffers beyond the estimate."""

from __future__ import annotations

import json

import pytest

from gguftool.run.diagnose import judge
from gguftool.run.proof import Expected, compare


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("warning: failed to mlock 123-byte buffer (after previously locking 0 bytes): Cannot allocate memory", "W"),
        ("warning: mlock not supported on this system", "W"),
        ("srv    load_model: swa_full is not supported by this model, it will be disabled", "W"),
        ("srv    load_model: ctx_shift is not supported by multimodal, it will be disabled", "W"),
        ("common_init_from_params: failed to load lora adapter", "E"),
    ],
)
def test_what_was_asked_for_and_is_off_takes_the_proof_away(line: str, level: str) -> None:
    """With llama.cpp's letters, as its JSON lines, and as builds without letters wrote it."""
    ready = "main: model loaded"
    words = {"W": "warn", "E": "error"}[level]
    for text in (
        f"0.00.000.001 {level} {line}\n0.00.000.002 I {ready}\n",
        json.dumps({"level": words, "msg": line}) + "\n" + json.dumps({"level": "info", "msg": ready}) + "\n",
        f"{line}\n{ready}\n",
    ):
        j = judge(text)
        assert j.status == "ready", text
        wrong = [c for c in compare(Expected(), j) if c.ok is False]
        assert [c.what for c in wrong] == ["errors"], text
        assert str(wrong[0].observed) in line


def test_compute_buffers_and_those_of_the_context_that_drafts_are_compared() -> None:
    """Logged for gemma-3-270m at 8192 tokens by b7551 where the formula of today says 28.3 MiB: a difference."""
    begin = "llama_context: constructing llama_context"
    text = (
        f"{begin}\nllama_context: n_ctx = 8192\nsched_reserve:        CPU compute buffer size =    10.00 MiB\n"
        "sched_reserve:        CPU compute buffer size =    26.77 MiB\nmain: model loaded\n"
    )
    mib = 1 << 20

    def row(planned: float, said: str) -> tuple[object, bool | None]:
        found = {c.what: c for c in compare(Expected(compute_bytes=int(planned * mib)), judge(said))}
        return found["compute buffers"].observed, found["compute buffers"].ok

    assert row(28.3, text) == ("26.77 MiB", True), "the last one counts"
    assert row(28.3, text.replace("26.77", "513.25")) == ("513.25 MiB", False)
    assert row(28.3, "main: model loaded\n") == (None, None)
    assert "compute buffers" not in {c.what for c in compare(Expected(), judge(text))}
