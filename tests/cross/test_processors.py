"""How many processors there are for us: what the system and the control groups say, never what the machine has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gguftool.processors import processors


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2, 5, 7}, raising=False)


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("files", "own", "wanted"),
    [
        ({}, "0::/\n", 4),
        ({"cpu.max": "max 100000\n"}, "0::/\n", 4),
        ({"cpu.max": "200000 100000\n"}, "0::/\n", 2),  # docker run --cpus 2
        ({"cpu.max": "150000 100000\n"}, "0::/\n", 2),  # --cpus 1.5: one of two is stopped half of the time
        ({"cpu.max": "1000 100000\n"}, "0::/\n", 1),
        ({"cpu.max": "900000 100000\n"}, "0::/\n", 4),
        # CPUQuota=100% of a unit of systemd, and of the slice around it.
        ({"system.slice/a.service/cpu.max": "100000 100000\n"}, "1:name=x:/\n0::/system.slice/a.service\n", 1),
        ({"user.slice/cpu.max": "300000 100000\n"}, "0::/user.slice/user-1.slice\n", 3),
        # Control groups of the older kind.
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, "", 4),
        ({"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}, "", 1),
        ({"cpu.max": "nonsense\n"}, "0::\n", 4),
        ({"cpu.max": "100000 0\n"}, "0::/../..\n", 4),
    ],
)
def test_no_more_than_there_is_time_for(
    tmp_path: Path, four: None, files: dict[str, str], own: str, wanted: int
) -> None:
    put(tmp_path, {**{f"cgroup/{name}": text for name, text in files.items()}, "own": own})
    assert processors(str(tmp_path / "cgroup"), str(tmp_path / "own")) == wanted


def test_where_the_system_tells_only_how_many_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert processors(str(tmp_path), str(tmp_path / "none")) == os.cpu_count()
