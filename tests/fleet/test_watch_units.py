"""The units of fixtures/watch under a real systemd: what lands is looked at, and stopping the watcher is no failure."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.build import llama
from tests.fleet.test_watch_files import FIXTURES, UNITS
from tests.run.test_emit_systemd import Control, pytestmark, state, systemctl, units

__all__ = ["pytestmark", "systemctl", "units"]
HERE = Path(__file__).resolve().parents[2]


def _wait(path: Path, text: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < end, path.read_text() if path.exists() else f"{path} was never written"
        time.sleep(0.1)


def test_what_lands_is_looked_at(systemctl: Control, units: Path, tmp_path: Path) -> None:
    pytest.importorskip("watchfiles")
    (models := tmp_path / "models").mkdir()
    (kept := tmp_path / "kept").mkdir()
    for name in UNITS:
        text = (FIXTURES / name).read_text().replace("/usr/local/bin/gguftool", f"{sys.executable} -m gguftool")
        text = text.replace("/srv/models", str(models)).replace("/var/lib/gguftool", str(kept))
        # The test's folder alone can be written, and nobody else may enter it.
        for line in ("StateDirectory=gguftool", "DynamicUser=yes", "ProtectSystem=strict", "ProtectHome=yes"):
            text = text.replace(f"{line}\n", "")
        here = f"[Service]\nEnvironment=PYTHONPATH={HERE}\nStandardOutput=append:{tmp_path}/{name}.out"
        (units / name).write_text(text.replace("[Service]", here).replace("--for 10", "--for 4"))
    systemctl("daemon-reload")
    systemctl("start", "gguftool-watch.service", "gguftool-scan.path")
    _wait(kept / "metrics" / "models.prom", 'state="whole"} 0')
    llama().write(models / "m.gguf")
    _wait(kept / "metrics" / "models.prom", 'state="whole"} 1')
    _wait(kept / "seen.prom", 'state="whole"} 1')
    assert '"event":"new"' in (tmp_path / "gguftool-watch.service.out").read_text()
    systemctl("stop", "gguftool-scan.path", "gguftool-watch.service")
    found = state(systemctl, "gguftool-watch.service", until=("inactive", "failed"))
    assert (found["ActiveState"], found["Result"], found["ExecMainStatus"]) == ("inactive", "success", "0"), found
