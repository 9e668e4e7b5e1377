"""Launches of real models on real servers: the llama-server of a wheel, and the one inside xllamacpp.

Every server listens on 127.0.0.1, on a free port, and is ended by the code under test; the tests make sure of it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.build import GGUF
from tests.run.conftest import alive, checks, children

pytestmark = pytest.mark.real


def test_the_launch_of_the_issue(cli, gemma3: Path, server: str) -> None:
    """Quantised cache at the full context, proven line by line, with a real answer."""
    result = cli(
        "launch", gemma3, "--ctx", 32768, "--cache-type", "q8_0", "--check-only", "--smoke", "--port", 0, "--force",
        "--format", "json",
    )  # fmt: skip
    assert result.code == 0, result.err
    found = result.json
    assert found["program"]["path"] == server
    seen = checks(found)
    assert all(seen.values()), seen
    for what in (
        "KV cache",
        "K cache type",
        "V cache type",
        "flash attention",
        "context",
        "/props: slots",
        "smoke test",
    ):
        assert seen[what] is True
    # What llama.cpp says itself, in numbers worked out by hand: 3 layers of 32768 cells and 15 of 1024, one KV head
    # of 256 elements for K and V, 34 bytes for 32 elements.
    exact = (3 * 32768 + 15 * 1024) * 2 * 256 // 32 * 34
    assert found["kv"]["bytes"] == exact
    logged = sum(c["k_mib"] + c["v_mib"] for c in found["observed"]["caches"])
    assert abs(logged - exact / 2**20) < 0.03
    assert found["smoke"]["ok"] is True
    assert found["smoke"]["text"].strip()
    assert found["error"] is None
    assert not children()


def test_the_embedded_server_passes_the_same_checks(cli, smollm2: Path) -> None:
    result = cli(
        "launch", smollm2, "--engine", "library", "--ctx", 2048, "--cache-type", "q8_0", "--parallel", 2,
        "--check-only", "--smoke", "--port", 0, "--force", "--format", "json",
    )  # fmt: skip
    assert result.code == 0, result.err
    found = result.json
    assert found["program"]["engine"] == "library"
    assert found["context"]["per_slot"] == 1024
    seen = checks(found)
    assert all(seen.values()), seen
    assert seen["KV cache"] is True
    assert not children()


def test_any_shard_will_do(cli, smollm2: Path, server: str, tmp_path: Path) -> None:
    split = cli("split", smollm2, "--max-size", "40M", "-o", tmp_path / "smol")
    assert split.code == 0, split.err
    shards = sorted(tmp_path.glob("*.gguf"))
    assert len(shards) == 3
    result = cli("launch", shards[1], "--ctx", 512, "--check-only", "--port", 0, "--force", "--format", "json")
    assert result.code == 0, result.err
    assert result.json["command"][2] == str(shards[0])
    assert checks(result.json)["tensors"] in (True, None)
    assert checks(result.json)["weights"] is True


def test_a_difference_is_found(cli, smollm2: Path, server: str, tmp_path: Path) -> None:
    """A program that does not do what it is told: a wrapper that drops the cache types."""
    wrapper = tmp_path / "llama-server"
    wrapper.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        "args = sys.argv[1:]\n"
        "for name in ('-ctk', '-ctv'):\n"
        "    if name in args:\n"
        "        at = args.index(name); del args[at:at + 2]\n"
        f"os.execv({server!r}, [{server!r}, *args])\n"
    )
    wrapper.chmod(0o755)
    result = cli(
        "launch", smollm2, "--server", wrapper, "--ctx", 1024, "--cache-type", "q8_0", "--strict", "--port", 0,
        "--force",
    )  # fmt: skip
    assert result.code == 1
    assert "differs" in result.out
    assert "K cache type" in result.out
    assert not children()


def test_a_model_that_does_not_load(cli, tmp_path: Path, server: str) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(
        GGUF().kv("general.architecture", "llama").kv("llama.context_length", 256).tensor("w", (32,), "f32").bytes()
    )
    stopped = cli("launch", model, "--port", 0)
    assert stopped.code == 1
    assert "stand in the way" in stopped.err
    assert not children()
    log = tmp_path / "log"
    result = cli("launch", model, "--port", 0, "--force", "--log", log, "--format", "json")
    assert result.code == 1
    assert result.json["error"]["kind"] == "key-missing", log.read_text()
    assert result.json["ended"] == "exit code 1"
    assert not children()


def test_a_taken_port_is_noticed_before_anything_is_started(cli, smollm2: Path, server: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = cli("launch", smollm2, "--ctx", 512, "--port", port, "--force")
    assert result.code == 4
    assert "--port 0" in result.err
    assert not children()


class Started:
    """A gguftool process that keeps a server."""

    def __init__(self, *args: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "gguftool", "launch", *map(str, args), "--port", "0", "--force"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.err = ""
        assert self.process.stderr is not None
        while "serving; Ctrl-C" not in self.err:
            line = self.process.stderr.readline()
            if not line:
                raise AssertionError(f"ended early: {self.err}")
            self.err += line
        word = "(process "
        at = self.err.index(word) + len(word)
        self.server = int(self.err[at:].split(")")[0])

    def wait(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, self.err + err

    def gone(self) -> bool:
        for _ in range(100):
            if not alive(self.server):
                return True
            time.sleep(0.05)
        return False


def test_a_program_that_ends_without_a_word(cli, smollm2: Path, server: str, tmp_path: Path) -> None:
    helper = tmp_path / "llama-server"
    helper.write_text(
        f"#!/bin/sh\ncase $1 in --help|--version|--list-devices) exec {server} $1;; esac\nkill -SEGV $$\n"
    )
    helper.chmod(0o755)
    result = cli("launch", smollm2, "--ctx", 512, "--server", helper, "--port", 0, "--force", "--format", "json")
    assert result.code == 1
    assert result.json["ended"] == "SIGSEGV"
    assert result.json["error"]["kind"] == "ended"
    assert not children()


def test_one_that_ends_at_once_without_a_reason_is_started_again(
    cli, smollm2: Path, server: str, tmp_path: Path
) -> None:
    """llama-server loses the end of its log now and then when it fails early; here it fails once for no reason."""
    helper, marker = tmp_path / "llama-server", tmp_path / "failed-once"
    answers = f"case $1 in --help|--version|--list-devices) exec {server} $1;; esac"
    once = f"if [ ! -e '{marker}' ]; then : > '{marker}'; exit 1; fi"
    helper.write_text(f'#!/bin/sh\n{answers}\n{once}\nexec {server} "$@"\n')
    helper.chmod(0o755)
    result = cli("launch", smollm2, "--ctx", 512, "--server", helper, "--check-only", "--port", 0, "--force")
    assert result.code == 0, result.err + result.out
    assert marker.exists()
    assert not children()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_leave_nothing_behind(smollm2: Path, server: str, number: signal.Signals, code: int) -> None:
    started = Started(smollm2, "--ctx", 512)
    assert alive(started.server)
    started.process.send_signal(number)
    found, out, _ = started.wait()
    assert found == code
    assert "proven" in out
    assert started.gone()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's help is Linux only")
def test_even_a_killed_gguftool_leaves_nothing_behind(smollm2: Path, server: str) -> None:
    started = Started(smollm2, "--ctx", 512)
    started.process.kill()
    started.wait()
    assert started.gone()


def test_the_death_of_the_server_is_told(smollm2: Path, server: str) -> None:
    started = Started(smollm2, "--ctx", 512, "--watch")
    os.kill(started.server, signal.SIGKILL)
    code, _, err = started.wait()
    assert code == 6
    assert "SIGKILL" in err


def test_exec_becomes_the_server(smollm2: Path, server: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gguftool", "launch", smollm2, "--ctx", "512", "--port", "0", "--exec", "--force"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "all slots are idle" in line:
                break
        assert os.readlink(f"/proc/{process.pid}/exe") == os.path.realpath(server)
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 0
