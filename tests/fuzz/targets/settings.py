"""Texts beside a model or in a project: settings, policies, baselines, lists of hashes, rows of a scan, TOML."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.fuzz import texts
from tests.fuzz.target import Target, cli
from tests.lint import samples
from tests.run.test_saved import COMPOSE, SWAP, UNIT


@cache
def _rows() -> bytes:
    """What ``scan --resume`` keeps of a model that lies where `run` puts it."""
    with TemporaryDirectory() as place, contextlib.chdir(place):
        Path("m.gguf").write_bytes(samples.ready().bytes())
        cli("scan", "--jobs", "1", "--resume", "rows.jsonl", "m.gguf")
        return Path("rows.jsonl").read_bytes()


BASELINE = {
    "format": "gguftool.lint/1", "cwd": "/tmp", "files": [{"path": "m.gguf", "findings": [
        {"rule": "no-license", "where": "file", "severity": "info", "digest": "0" * 16}]}],
}  # fmt: skip
POD = b"""apiVersion: v1
kind: Pod
spec:
  containers:
  - name: a
    image: ghcr.io/ggml-org/llama.cpp:server
    args: ["-m", "/m.gguf", "-c", "4096"]
"""
USES = {
    "gguftool.toml": (b'[lint]\nselect = ["deploy"]\nctx = 32768\ncache-type = "q8_0"\n', ("lint", "M")),
    "pyproject.toml": (b'[tool.gguftool.lint]\nignore = ["x"]\nfail-on = "error"\n', ("lint", "M")),
    "policy.toml": (b'max_size = "80GB"\nmax_context = 131072\n[values]\n"general.name" = "x"\n',
                    ("lint", "--no-config", "--policy", "F", "M")),
    "base.json": (json.dumps(BASELINE).encode(), ("lint", "--no-config", "--baseline", "F", "M")),
    "SHA256SUMS": (b"0" * 64 + b"  m.gguf\n", ("verify", "--sums", "F", "M")),
    "m.manifest": (b'# gguftool manifest 1\n'
                   b'#: {"file":"m.gguf","size":1000,"header":{"start":0,"bytes":10,"sha256":"00"}}\n'
                   + b"0" * 64 + b'  m.gguf\n#: {"tensor":"a","start":1,"bytes":2,"sha256":"00"}\n',
                   ("verify", "--sums", "F", "M")),
    "rows.jsonl": (_rows(), ("scan", "--jobs", "1", "--resume", "F", "m.gguf")),
    "README.md": (b"---\nlicense: apache-2.0\nbase_model:\n- a/b\ntags: [gguf]\n---\n# M\n\n```sh\nx\n```\n",
                  ("push-check", "--no-hash", "M")),
    "keys.toml": (b'"general.name" = "x"\n[llama]\ncontext_length = 4096\n"rope.freq_base" = 1e4\n',
                  ("fix", "--dry-run", "--import", "F", "M")),
    "strings.json": (b'["a", "b", 1, 1.5, null]', ("fix", "--dry-run", "--set-file", "general.tags=F", "M")),
    "template.json": (b'{"chat_template": "{{ messages }}"}', ("fix", "--dry-run", "--chat-template", "F", "M")),
    "ask.json": (b'{"messages": [{"role": "user", "content": "hi"}], "tools": []}', ("render", "--messages", "F", "M")),
    "llama.ini": (b"[m]\nmodel = m.gguf\nctx-size = 4096\n", ("doctor", "--command", "F")),
    "llama.service": (b"[Service]\nExecStart=/usr/bin/llama-server -m m.gguf -c 4096\n", ("doctor", "--command", "F")),
    "pod.yaml": (POD, ("doctor", "--command", "F", "--build", "b8179")),
    "llama-swap.yaml": (SWAP.encode(), ("doctor", "--command", "F", "--build", "b8179")),
    "start.sh": (b"#!/bin/sh\nexec llama-server -m m.gguf \\\n  -c 4096 --mlock > log 2>&1 &\n",
                 ("doctor", "--command", "F", "--build", "b8179")),
    "docker-compose.yml": (COMPOSE.encode(), ("doctor", "--command", "F", "--build", "b8179")),
    "unit.service": (UNIT.encode(), ("doctor", "--command", "F", "--build", "b8179")),
    "compose.yaml": (b"services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server\n    command: -m m.gguf\n",
                     ("doctor", "--command", "F")),
}  # fmt: skip


def corpus() -> Sequence[bytes]:
    """Each with its name in front."""
    return [name.encode() + b"\0" + text for name, (text, _) in USES.items()]


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """Another text under the same name."""
    name, mark, text = rng.choice(given).partition(b"\0")
    return name + mark + texts.mutate(rng, [text])


def run(data: bytes, folder: Path, rng: Random) -> None:
    """The command that reads it."""
    head, _, text = data.partition(b"\0")
    name = head.decode()
    path, model = folder / name, folder / "m.gguf"
    path.write_bytes(text)
    model.write_bytes(samples.ready().bytes())
    places = {"F": str(path), "M": str(model), "general.tags=F": f"general.tags:[str]=@{path}"}
    words = [places.get(w, w).replace("=F", f"={path}") for w in USES[name][1]]
    with contextlib.chdir(folder):
        cli(*words, *(("--format", "json") if rng.random() < 0.5 else ()))


TARGET = Target(corpus, mutate, run)
