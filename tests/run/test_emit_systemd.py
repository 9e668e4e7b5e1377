"""The unit under a real systemd, in namespaces of its own: what is bad is not tried for ever, what is good serves."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.build import llama
from tests.run.test_emit_live import status

SYSTEMD = "/usr/lib/systemd/systemd"
TARGETS = ("box", "sysinit", "basic", "network-online", "multi-user", "shutdown")
BOOT = """\
set -e
mount --make-rshared /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/lock
mount --bind {folder} {folder}
mount -o remount,bind,ro /
mount --bind /bin/true /usr/bin/systemd-tmpfiles
if touch /tmp/written 2>/dev/null; then exit 1; fi
exec {systemd} --system --unit=box.target --log-target=console --show-status=no
"""
"""What a boot starts and clears is kept from this machine: the units are the test's own alone (`SYSTEMD_UNIT_PATH`),
all but the test's folder is read-only, /run is empty, and nobody clears folders."""

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not os.path.exists(SYSTEMD) or os.geteuid() != 0 or not shutil.which("nsenter"),
        reason="no systemd that could be started here",
    ),
]
Control = Callable[..., str]


@pytest.fixture
def units(tmp_path: Path) -> Path:
    folder = tmp_path / "units"
    folder.mkdir()
    for target in TARGETS:
        (folder / f"{target}.target").write_text(f"[Unit]\nDescription={target}\nDefaultDependencies=no\n")
    return folder


@pytest.fixture
def systemctl(units: Path, tmp_path: Path) -> Iterator[Control]:
    boot = tmp_path / "boot"
    boot.write_text(BOOT.format(systemd=SYSTEMD, folder=tmp_path))
    log = (tmp_path / "log").open("wb")
    env = {"PATH": os.environ["PATH"], "container": "unshare", "SYSTEMD_UNIT_PATH": str(units)}
    words = ["unshare", "-pfmC", "--kill-child", "--mount-proc", "sh", str(boot)]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
    try:
        first = ""
        end = time.monotonic() + 20

        def control(*words: str, check: bool = True) -> str:
            inside = ["nsenter", "-t", first, "-p", "-m", "systemctl", *words]
            done = subprocess.run(inside, capture_output=True, text=True, timeout=120)
            assert not check or done.returncode == 0, done.stderr
            return done.stdout.strip()

        while time.monotonic() < end:
            first = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().strip()
            if first and control("is-active", "box.target", check=False) == "active":
                break
            time.sleep(0.2)
        else:
            pytest.skip("no systemd can be started in a namespace here: " + (tmp_path / "log").read_text()[-300:])
        yield control
    finally:
        process.kill()
        process.wait()
        log.close()


def state(systemctl: Control, unit: str, *, until: tuple[str, ...], seconds: float = 60) -> dict[str, str]:
    names = ("ActiveState", "SubState", "Result", "NRestarts", "ExecMainStatus", "MainPID")
    end = time.monotonic() + seconds
    while True:
        lines = systemctl("show", unit, *(f"-p{n}" for n in names)).splitlines()
        found = dict(line.split("=", 1) for line in lines)
        if found["ActiveState"] in until or time.monotonic() > end:
            return found
        time.sleep(0.3)


def emitted(cli, model: Path, units: Path, *words: str | int | Path) -> str:  # type: ignore[no-untyped-def]
    result = cli("launch", model, "--ctx", 512, *words, "--emit", "systemd", "--force")
    assert result.code == 0, result.err
    text = result.out.replace(" --force", "")
    # The program that is tested, wherever it is installed.
    start = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    _, rest = start.split(" ", 1)
    text = text.replace(start, f"ExecStart={sys.executable} -m gguftool {rest}")
    here = Path(__file__).resolve().parents[2]
    test = f"Environment=PYTHONPATH={here}\nStandardOutput=append:{units}/out\nStandardError=append:{units}/out"
    (units / "llama.service").write_text(text.replace("Type=exec", f"Type=exec\n{test}"))
    return text


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_a_bad_model_is_tried_once(cli, systemctl: Control, units: Path, tmp_path: Path, server: str) -> None:
    model = llama().write(tmp_path / "m.gguf")
    emitted(cli, model, units, "--llama-cpp", server)
    model.write_bytes(model.read_bytes()[:-100])
    systemctl("daemon-reload")
    systemctl("start", "llama.service", check=False)
    found = state(systemctl, "llama.service", until=("failed",))
    assert (found["ActiveState"], found["Result"], found["NRestarts"]) == ("failed", "exit-code", "0"), found
    assert found["ExecMainStatus"] in ("1", "3")
    time.sleep(7)
    again = state(systemctl, "llama.service", until=("failed",))
    assert (again["ActiveState"], again["NRestarts"]) == ("failed", "0"), "longer than RestartSec, and still not tried"


def test_what_fails_again_and_again_is_given_up(
    cli, systemctl: Control, units: Path, smollm2: Path, tmp_path: Path
) -> None:
    """A server that dies of a signal is started again, but not for ever."""
    program = tmp_path / "llama-server"
    options = ("-m,  --model FNAME  x", "-c,  --ctx-size N  x", "--host HOST  x", "--port PORT  x", "-np N  x")
    listed = "".join(f"echo '{line}'\n" for line in options)
    program.write_text(f'#!/bin/sh\ncase "$1" in -m) kill -SEGV $$;; esac\n{listed}')
    program.chmod(0o755)
    text = emitted(cli, smollm2, units, "--llama-cpp", program, "--port", free_port())
    unit = units / "llama.service"
    written = unit.read_text().replace("RestartSec=5", "RestartSec=100ms").replace(" --exec", " --exec --force")
    unit.write_text(written)
    assert "RestartSec=5" in text
    systemctl("daemon-reload")
    systemctl("start", "llama.service", check=False)
    found = state(systemctl, "llama.service", until=("failed",), seconds=90)
    assert found["ActiveState"] == "failed", found
    assert found["Result"] == "core-dump" or found["ExecMainStatus"] == "11", found
    assert 4 <= int(found["NRestarts"]) <= 5, found


def test_a_good_model_serves_and_stops(
    cli, systemctl: Control, units: Path, smollm2: Path, tmp_path: Path, server: str
) -> None:
    (tmp_path / "keys").write_text("sekrit\n")
    port = free_port()
    emitted(cli, smollm2, units, "--llama-cpp", server, "--port", port, "--api-key-file", tmp_path / "keys")
    unit = units / "llama.service"
    assert "LoadCredential=key-0:" in unit.read_text()
    unit.write_text(unit.read_text().replace(" --exec", " --exec --force"))
    systemctl("daemon-reload")
    systemctl("start", "llama.service")
    assert status(port, "/health", until=60) == 200, (units / "out").read_text()[-3000:]
    body = {"prompt": "a", "n_predict": 1}
    assert status(port, "/completion", body) == 401
    assert status(port, "/completion", body, key="sekrit") == 200, "the credential is the file of keys"
    systemctl("stop", "llama.service")
    found = state(systemctl, "llama.service", until=("inactive", "failed"))
    assert (found["ActiveState"], found["Result"], found["MainPID"]) == ("inactive", "success", "0"), found
    assert status(port, "/health") == 0
