"""A server that runs: how its completions are judged, and what its status line says."""

from __future__ import annotations

import time
from pathlib import Path

import pytest


def test_the_status_line(smollm2: Path, server: str, tmp_path: Path) -> None:
    """While one slot of two works: it is counted, its tokens are, and the cache fills."""
    import threading

    from gguftool.report.launched import sample_line
    from gguftool.run.reach import Way
    from gguftool.run.serve import sample
    from gguftool.run.server import ask, free_port, start, stop, wait_until_ready

    port = free_port("127.0.0.1")
    argv = [server, "-m", str(smollm2), "-c", "1024", "-np", "2", "--host", "127.0.0.1", "--port", str(port)]
    running = start(argv, str(tmp_path / "log"), Way("127.0.0.1", port))
    try:
        assert wait_until_ready(running, 60)
        idle = sample(running)
        assert (idle.slots, idle.busy, idle.written, idle.filled) == (2, 0, 0, 0.0)
        request = {"prompt": "Once upon a time", "n_predict": 400, "temperature": 0, "ignore_eos": True}
        thread = threading.Thread(target=ask, args=(running, "/completion", request, 120))
        thread.start()
        first = second = idle
        for _ in range(200):
            second = sample(running)
            if first.busy and second.written and second.written > (first.written or 0) > 0:
                break
            first = second
            time.sleep(0.05)
        assert second.busy == 1
        assert second.written > first.written > 0
        assert second.filled == pytest.approx((second.written + 4) / 1024, abs=0.01)
        assert second.rss is not None
        assert second.rss > 90 << 20
        assert "1/2 slots busy" in sample_line(second, first, 1.0)
    finally:
        stop(running)
        thread.join(30)


@pytest.mark.parametrize(
    ("body", "status", "ok", "why"),
    [
        ({"content": " Paris.", "completion_probabilities": [{"id": 1, "logprob": -0.1}]}, 200, True, ""),
        ({"content": " "}, 200, False, "empty"),
        ({"content": "aaaaaaaaaaaaaaaaaaaaaaaa"}, 200, False, "same character"),
        ({"content": "xyz", "completion_probabilities": [{"id": 7, "logprob": -0.1}] * 20}, 200, False, "20 times"),
        ({"content": "ok", "completion_probabilities": [{"id": 1, "logprob": None}]}, 200, False, "not finite"),
        ({"content": "odd", "completion_probabilities": [{"id": i, "logprob": -9} for i in "ab"]}, 200, False, "guess"),
        ({"content": "\ufffd\ufffd\ufffd"}, 200, False, "no text"),
        ({"error": {"message": "This server does not support completions"}}, 501, None, "support"),
        ({"error": {"message": "the current context does not logits computation. skipping"}}, 500, None, "logits"),
        ({"error": {"message": "something else"}}, 500, False, "something else"),
        (None, 0, False, "no answer"),
    ],
)  # fmt: skip
def test_how_a_completion_is_judged(body: object, status: int, ok: bool | None, why: str) -> None:
    from gguftool.run.endpoints import judge_completion
    from gguftool.run.server import Answer

    judged = judge_completion(Answer(status, body))
    assert judged.ok is ok
    assert why in judged.why
