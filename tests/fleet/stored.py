"""Stores in a folder, looked at: what the tests of stores share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gguftool.fleet.hfprogram import HfProgram
from gguftool.fleet.offers import Offer, offers
from gguftool.fleet.stores import Inventory, inventory
from gguftool.hub.stores import Home
from tests.build import llama

MODEL = llama(tokens=2000).bytes()
OTHER = llama(tokens=2000, layers=2).bytes()
HF = Path(sys.executable).parent / "hf"


def rows(paths: Sequence[str]) -> Iterable[dict[str, Any]]:
    return [{"path": path, "files": [path], "ok": True} for path in paths]


def look(home: Path, *others: Home, read: bool = False) -> Inventory:
    return inventory(rows, users=[Home(str(home), {}), *others], read=(lambda _: lambda _: None) if read else None)


def offered(found: Inventory, kind: str = "", hf: HfProgram | None = None) -> list[Offer]:
    return [o for o in offers(found, hf or HfProgram((str(HF),))).made if kind in ("", o.kind)]


def used(home: Path) -> int:
    """Bytes on the disk of all GGUF data below a folder, each inode once."""
    seen = {}
    for place, _, names in os.walk(home):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") if os.path.exists(path) else open(os.devnull, "rb") as f:
                if f.read(4) == b"GGUF":
                    found = os.stat(path)
                    seen[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(seen.values())


def run(home: Path, *commands: str) -> None:
    """As they stand, with a stand-in for ollama that does what it does to a store."""
    stand_in = home / "bin"
    stand_in.mkdir(exist_ok=True)
    script = Path(__file__).parent / "ollama_rm.py"
    (stand_in / "ollama").write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    (stand_in / "ollama").chmod(0o755)
    env = {**os.environ, "PATH": f"{stand_in}:{os.environ['PATH']}", "HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"}
    for command in commands:
        assert command.isprintable()
        done = subprocess.run(["sh", "-c", command], env=env, cwd=stand_in, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (command, done.stdout, done.stderr)


def cache(home: Path) -> Path:
    return home / ".cache/huggingface/hub"


def studio(home: Path) -> Path:
    return home / ".lmstudio/models"


def ollama(home: Path) -> Path:
    return home / ".ollama/models"
