"""A server under the limit of its emitted file: prompts of other content each, and the memory it holds."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
import yaml

from gguftool.model import open_model
from gguftool.programs import Tool
from gguftool.run.capabilities import capabilities
from gguftool.run.emit import emit
from gguftool.run.engine import Engine
from gguftool.run.launch import LaunchPlan, plan_launch, with_port
from gguftool.run.reach import Way
from gguftool.run.server import ask, free_port, start, stop, wait_until_ready
from gguftool.run.wishes import Wishes
from tests.run.test_emit import planned

MIB = 1 << 20
WORDS = "the of and to in is was for with on as by at from that this which were their have".split()


def launched(model: Path, server: str, **wishes: object) -> LaunchPlan:
    tool = Tool("llama-server", server, "test")
    with open_model(str(model)) as m:
        return plan_launch(m, Wishes(**wishes), Engine("llama-server", (server,), tool, capabilities(tool)))  # type: ignore[arg-type]


def anonymous(pid: int) -> int:
    """Bytes that cannot be taken back: what an OOM killer counts."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", status)[1]) << 10  # type: ignore[index]


def limit(plan: LaunchPlan) -> int:
    """Of the container of the emitted Deployment."""
    pod = next(d for d in yaml.safe_load_all(emit("k8s", plan)) if d["kind"] == "Deployment")["spec"]["template"]
    found = re.fullmatch(r"(\d+)Mi", pod["spec"]["containers"][0]["resources"]["limits"]["memory"])
    assert found
    return int(found[1]) * MIB


@pytest.mark.slow
def test_a_server_stays_below_its_limit(smollm2: Path, server: str, tmp_path: Path) -> None:
    plan = launched(smollm2, server, ctx=512, ram=320 * MIB, reserve=0)
    most = limit(plan)
    assert most <= 320 * MIB
    assert "-cram" in plan.argv
    port = free_port("127.0.0.1")
    plan = with_port(plan, port)
    running = start(plan.argv, str(tmp_path / "log"), Way("127.0.0.1", port))
    rng = random.Random(1)
    try:
        assert wait_until_ready(running, 120)
        seen = []
        for i in range(12):
            prompt = f"Story {i * 7919}: " + " ".join(rng.choice(WORDS) for _ in range(380))
            ask(running, "/completion", {"prompt": prompt, "n_predict": 1}, 240)
            seen.append(anonymous(running.process.pid))
    finally:
        stop(running)
    assert max(seen) < most
    # Each prompt that is put away is 8.5 MiB and more: it grew, and stopped where it was told to.
    assert seen[-1] - seen[0] > 16 * MIB
    log = Path(running.log_path).read_text()
    assert f"limits: {plan.memory.settings.cache_ram}.000 MiB" in log


def test_a_pod_requests_what_it_starts_with_and_may_grow_to_its_limit() -> None:
    for asked in ({}, {"ram": 512 * MIB, "reserve": 0}, {"cache_ram": 0}):
        plan = planned("/srv/models/m.gguf", ctx=4096, **asked)
        m = plan.memory
        found = re.search(r'requests: {memory: "(\d+)Mi"}', emit("k8s", plan))
        assert found
        requested = int(found[1]) * MIB
        assert m.total + m.program <= requested <= limit(plan)
        assert (requested < limit(plan)) == (m.settings.cache_ram != 0)
        # What is not requested comes later: it is the growth, and what the system keeps of it.
        assert limit(plan) - requested <= m.grows() * 33 // 32 + 64 * MIB


KINDS = {
    "systemd": r"MemoryHigh=(\d+)M", "docker-compose": r"mem_limit: (\d+)m", "k8s": r'limits: {memory: "(\d+)Mi"',
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "asked", [{}, {"ram": 6 << 30}, {"ram": 512 * MIB, "reserve": 0}, {"cache_ram": 0}, {"parallel": 4}], ids=str
)
def test_every_emitted_limit_holds_what_comes_after_the_start(kind: str, asked: dict[str, int]) -> None:
    plan = planned("/srv/models/m.gguf", ctx=4096, **asked)
    found = re.search(KINDS[kind], emit(kind, plan))
    assert found
    allowed, m = int(found[1]) * MIB, plan.memory
    assert allowed >= m.total + m.grows()
    assert allowed <= asked.get("ram", 1 << 60)
    assert m.settings.cache_ram == (0 if asked.get("cache_ram") == 0 else m.settings.cache_ram)
    # What bounds it stands in the command that the file starts.
    assert ("-cram" in plan.argv) == (m.settings.cache_ram != 8192)
