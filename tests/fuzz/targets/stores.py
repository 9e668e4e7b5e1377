"""What other programs keep beside their models: manifests, references, settings, links and lists, of six programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest import mock

from tests import stores
from tests.fuzz import texts
from tests.fuzz.target import Target, cli
from tests.lint import samples

FORMS = [
    ("scan", "--stores"),
    ("scan", "--stores", "--format", "json"),
    ("scan", "--stores", "--hash"),
    ("doctor",),
    ("doctor", "--format", "json"),
    ("dump", "--overview", "ollama://a:b"),
    ("dump", "--overview", "hf://o/r/m.gguf"),
    ("verify", "--hash", "hf://o/r/m.gguf"),
    ("lint", "--no-config", "hf://o/r:Q4_K_M"),
    ("scan", "--jobs", "1", "STORE"),
]


def _lay(root: Path) -> None:
    """A store of each kind."""
    model = samples.ready().bytes()
    stores.hub(root / "hub", "o/r", {"m.gguf": model, "README.md": b"---\nlicense: mit\n---\n"})
    stores.ollama(root / "ollama", "registry.ollama.ai/library/a/b", model, projector=b"x", params=b'{"num_ctx": 4096}')
    stores.jan(root / "jan", "j", model)
    stores.put(root / ".lmstudio/models/p/r/x.gguf", model)
    stores.put(root / ".lmstudio/.internal/model-index-cache.json", b'{"models": []}')
    stores.put(root / "llama.cpp/o_r_m.gguf", model)
    stores.put(root / "llama.cpp/manifest=o=r=latest.json", b'{"ggufFile": {"rfilename": "m.gguf", "size": 1}}')


def _texts(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 4000
    }


def corpus() -> Sequence[bytes]:
    """Every small text of them, with its place in front."""
    with TemporaryDirectory() as folder:
        _lay(Path(folder))
        return [name.encode() + b"\0" + text for name, text in _texts(Path(folder)).items()]


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """Another text in the same place."""
    name, mark, text = rng.choice(given).partition(b"\0")
    return name + mark + texts.mutate(rng, [text or b"{}"])


def run(data: bytes, folder: Path, rng: Random) -> None:
    """One command that looks there."""
    head, _, text = data.partition(b"\0")
    _lay(folder)
    path = folder / os.fsdecode(head)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    places = {
        "HOME": folder, "HF_HUB_CACHE": folder / "hub", "HF_HOME": folder, "OLLAMA_MODELS": folder / "ollama",
        "LLAMA_CACHE": folder / "llama.cpp", "JAN_DATA_FOLDER": folder / "jan", "XDG_CACHE_HOME": folder / "c",
        "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    with mock.patch.dict(os.environ, {name: str(place) for name, place in places.items()}):
        form = rng.choice(FORMS)
        cli(*(folder if w == "STORE" else w for w in form))


TARGET = Target(corpus, mutate, run)
