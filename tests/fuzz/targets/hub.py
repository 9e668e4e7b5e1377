"""Answers of the Hub: what a repository holds, its files, its card, where it sends a download on to."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from unittest import mock

from tests.build import llama
from tests.fuzz import texts
from tests.fuzz.served import served
from tests.fuzz.target import Target, cli

FORMS = [
    ("dump", "--overview", "hf://o/r/m-Q8_0.gguf"),
    ("dump", "--overview", "hf://o/r:Q8_0"),
    ("dump", "hf://o/r"),
    ("lint", "--no-config", "hf://o/r/m-Q8_0.gguf"),
    ("plan", "--vram", "none", "--ram", "8GiB", "hf://o/r"),
    ("scan", "--jobs", "1", "hf://o/r"),
    ("scan", "--jobs", "1", "hf://o"),
    ("verify", "--against", "hf://o/r", "LOCAL"),
    ("lint", "--no-config", "--against", "hf://o/r", "LOCAL"),
    ("push-check", "--repo", "o/r", "LOCAL"),
    ("pull", "--dry-run", "hf://o/r:Q8_0"),
    ("pull", "hf://o/r/m-Q8_0.gguf"),
    ("compat", "hf://o/r"),
    ("lint", "--no-config", "hf://o/r"),
]


def _answers() -> dict[str, bytes]:
    """Kind of request -> a sound answer: head, empty line, body."""
    file = llama().bytes()[:9000]
    sha = hashlib.sha256(file).hexdigest()
    names = ["m-Q8_0.gguf", "m-Q4_K_M-00001-of-00002.gguf", "m-Q4_K_M-00002-of-00002.gguf", "mmproj-f16.gguf",
             "README.md", "config.json"]  # fmt: skip
    lfs = {"sha256": sha, "size": len(file), "pointerSize": 135}
    rows = [{"rfilename": n, "size": len(file), "blobId": "b" * 40, "lfs": lfs} for n in names]
    info = {
        "id": "o/r", "modelId": "o/r", "sha": "c" * 40, "private": False, "gated": False, "tags": ["gguf"],
        "siblings": rows, "cardData": {"license": "mit", "base_model": ["a/b"]},
        "gguf": {"total": 9, "context_length": 8},
        "lastModified": "2026-01-01T00:00:00.000Z",
    }  # fmt: skip
    tree = [
        {"type": "file", "oid": "b" * 40, "size": len(file), "path": n, "lfs": {"oid": sha, "size": len(file)}}
        for n in names
    ]
    listed = [{"id": "o/r", "modelId": "o/r"}, {"id": "o/s", "modelId": "o/s"}]
    as_json = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Repo-Commit: " + b"c" * 40 + b"\r\n\r\n"
    tag = f'ETag: "{sha}"\r\nX-Linked-Size: {len(file)}\r\nAccept-Ranges: bytes\r\nX-Repo-Commit: {"c" * 40}\r\n\r\n'
    card = b"---\nlicense: apache-2.0\nbase_model: a/b\ntags:\n- gguf\n---\n# m\n"
    return {
        "info": as_json + json.dumps(info).encode(),
        "tree": as_json + json.dumps(tree).encode(),
        "list": as_json + json.dumps(listed).encode(),
        "card": b"HTTP/1.1 200 OK\r\nETag: x\r\n\r\n" + card,
        "config": as_json + json.dumps({"model_type": "llama", "max_position_embeddings": 2048}).encode(),
        "file": b"HTTP/1.1 200 OK\r\n" + tag.encode() + file,
    }


def _kind(path: str) -> str:
    if re.search(r"/resolve/.*\.gguf", path):
        return "file"
    if path.startswith("/api/models/"):
        return "tree" if re.search("tree|paths-info", path) else "info"
    return "list" if path.startswith("/api/models") else "card" if path.endswith(".md") else "config"


def corpus() -> Sequence[bytes]:
    """Answers with their kind in front."""
    return [kind.encode() + b"\0" + answer for kind, answer in _answers().items()]


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """Another answer to the same request; the body of it mostly."""
    kind, mark, answer = rng.choice(given).partition(b"\0")
    head, line, body = answer.partition(b"\r\n\r\n")
    if rng.random() < 0.3 or kind == b"file":
        head = texts.mutate(rng, [head])
    else:
        body = texts.mutate(rng, [body])
    return kind + mark + head + line + body


def _whole(answer: bytes) -> bytes:
    """With the length that it has, where it names none."""
    head, line, body = answer.partition(b"\r\n\r\n")
    length = b"" if b"content-length" in head.lower() else b"\r\nContent-Length: %d" % len(body)
    return head + length + b"\r\nConnection: close" + line + body


def run(data: bytes, folder: Path, rng: Random) -> None:
    """A Hub of which one kind of answer is odd."""
    odd, _, answer = data.partition(b"\0")
    answers = {kind: _whole(text) for kind, text in (_answers() | {odd.decode("latin-1"): answer}).items()}
    local = folder / "m.gguf"
    local.write_bytes(llama().bytes())

    def answered(asked: bytes) -> bytes:
        words = asked.split(b" ")
        return answers[_kind(words[1].decode("latin-1")) if words[1:] else "list"]

    with served(answered) as address:
        home = {
            "HF_ENDPOINT": address, "HF_HUB_OFFLINE": "", "HF_HOME": str(folder / "h"),
            "HF_HUB_CACHE": str(folder / "h/hub"), "GGUFTOOL_CACHE": str(folder / "c"), "HF_HUB_DISABLE_XET": "1",
        }  # fmt: skip
        with mock.patch.dict(os.environ, home):
            form = ("--format", "json") if rng.random() < 0.4 else ()
            cli(*(local if w == "LOCAL" else w for w in rng.choice(FORMS)), *form)


TARGET = Target(corpus, mutate, run)
