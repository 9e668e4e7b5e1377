"""``plan``, ``launch --print``, ``--emit``, and what a split or a quantisation comes to: whatever a header says."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.fuzz import loads
from tests.fuzz.target import Target, cli

FORMS = [
    ("plan", "--vram", "8GiB"),
    ("plan", "--vram", "none", "--format", "json"),
    ("plan", "--vram", "8GiB,24GiB", "--ctx", "131072", "--format", "json"),
    ("plan", "--vram", "1TiB", "--cache-type", "q8_0", "--parallel", "4"),
    ("plan", "--vram", "8GiB,8GiB,8GiB", "-sm", "row", "-ub", "64", "-b", "64", "--swa-full"),
    ("plan", "--vram", "6GiB", "--max-context", "--bandwidth", "RTX 3090", "--format", "json"),
    ("plan", "--vram", "4GiB", "-cmoe", "-kvu", "-fa", "off"),
    ("plan", "--vram", "4GiB", "-ngl", "3", "-ot", "ffn=CPU", "--ram", "1GiB", "--build", "b8179"),
    ("launch", "--print", "--vram", "8GiB", "--ram", "8GiB"),
    ("launch", "--print", "--vram", "none", "--ram", "64GiB", "--format", "json"),
    ("launch", "--emit", "systemd", "--vram", "none", "--ram", "64GiB"),
    ("launch", "--emit", "docker-compose", "--vram", "none", "--ram", "64GiB"),
    ("launch", "--emit", "k8s", "--vram", "none", "--ram", "64GiB"),
    ("launch", "--emit", "ollama", "--vram", "none", "--ram", "64GiB"),
    ("split", "--max-size", "40K", "--dry-run"),
    ("split", "--max-tensors", "3", "--dry-run", "--format", "json"),
    ("quantize", "--dry-run", "Q4_K_M"),
    ("quantize", "--dry-run", "IQ2_XS", "--format", "json"),
    ("compat", "--format", "json", "--build", "b8179"),
    ("diagnose", "--no-run", "--no-hash", "--symptom", "talks nonsense"),
    ("diagnose", "--no-run", "--no-hash", "--format", "json"),
]


def run(data: bytes, folder: Path, rng: Random) -> None:
    """One of them."""
    path = loads.place(folder / "m.gguf", data, 1 << 40)
    command, *rest = rng.choice(FORMS)
    if command == "quantize":
        kind = next(w for w in rest if "Q" in w)
        cli(command, path, kind, *(w for w in rest if w != kind))
    else:
        cli(command, *rest, path)
    assert sorted(p.name for p in folder.iterdir()) == ["m.gguf"], "a planning command wrote"


TARGET = Target(loads.corpus, loads.mutate, run)
