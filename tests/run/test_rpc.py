"""More than one machine: llama.cpp's own RPC servers, on loopback."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path

import pytest

from gguftool.programs import find
from tests.run.conftest import checks, children

pytestmark = pytest.mark.real


def test_two_machines_over_rpc(cli, smollm2: Path, server: str) -> None:
    """Two RPC servers on loopback, the model split in two between them."""
    donor = find("ggml-rpc-server")
    if donor is None:
        pytest.skip("no ggml-rpc-server on this machine")
    ports = []
    donors = []
    try:
        for _ in range(2):
            with socket.socket() as sock:
                sock.bind(("127.0.0.1", 0))
                ports.append(sock.getsockname()[1])
            donors.append(
                subprocess.Popen(
                    [donor.path, "-H", "127.0.0.1", "-p", str(ports[-1])],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )
            )  # fmt: skip
        for port in ports:
            _listening(port)
        result = cli(
            "launch", smollm2, "--ctx", 1024, "--cache-type", "q8_0", "--check-only", "--smoke", "--port", 0, "--force",
            "--rpc", ",".join(f"127.0.0.1:{p}=1GiB" for p in ports), "--format", "json",
        )  # fmt: skip
        assert result.code == 0, result.err
        found = result.json
        assert found["command"][found["command"].index("-ts") + 1] == "1024,1024"
        seen = checks(found)
        for port in ports:
            assert seen[f"weights on RPC 127.0.0.1:{port}"] is True
        on = [b for b in found["observed"]["buffers"] if b["kind"] == "KV" and b["mib"] > 0]
        assert {p for p in ports for b in on if str(p) in b["device"]} == set(ports), "the cache is split too"
        assert found["smoke"]["ok"] is True
    finally:
        for process in donors:
            process.terminate()
        for process in donors:
            process.wait(timeout=10)
    assert not children()


def _listening(port: int) -> None:
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the RPC server does not listen")


def test_an_rpc_server_that_is_not_there(cli, smollm2: Path, server: str) -> None:
    result = cli(
        "launch", smollm2, "--ctx", 512, "--check-only", "--port", 0, "--force", "--rpc", "127.0.0.1:9=1GiB",
        "--format", "json",
    )  # fmt: skip
    assert result.code == 6
    assert "127.0.0.1:9" in json.loads(result.stdout)["errors"][0]["message"]
    assert not children()


def test_llama_cpp_would_go_on_without_it_and_the_proof_sees_that(smollm2: Path, server: str, tmp_path: Path) -> None:
    from gguftool.model import open_model
    from gguftool.run.capabilities import known
    from gguftool.run.engine import Engine
    from gguftool.run.launch import plan_launch
    from gguftool.run.reach import way_to
    from gguftool.run.serve import prove
    from gguftool.run.server import free_port, start, stop
    from gguftool.run.wishes import RpcServer, Wishes

    with open_model(smollm2) as model:
        wishes = Wishes(ctx=512, rpc=(RpcServer("127.0.0.1:9"),), port=free_port("127.0.0.1"))
        plan = plan_launch(model, wishes, Engine("llama-server", (server,), None, known()))
    running = start(plan.argv, str(tmp_path / "log"), way_to(wishes))
    try:
        outcome = prove(running, plan, seconds=60)
    finally:
        stop(running)
    assert not outcome.ok
    wrong = [c for c in outcome.checks if c.ok is False]
    assert [c.what for c in wrong] == ["weights on RPC 127.0.0.1:9", "errors"]
    assert "127.0.0.1:9" in str(wrong[1].observed)
    assert [n.kind for n in outcome.judged.notices] == ["rpc-connection"]
