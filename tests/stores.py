"""Stores of models in a folder, laid out as their programs lay them (facts: `gguftool/hub/stores`)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote

OLD = time.time() - 90 * 86400
ENVIRONMENT = (
    "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME",
    "OLLAMA_MODELS", "LLAMA_CACHE", "JAN_DATA_FOLDER", "JAN_DATA_ROOT",
)  # fmt: skip


def age(root: Path, when: float = OLD) -> None:
    """Everything below a folder was written long ago."""
    for place, _, names in os.walk(root):
        for name in names:
            os.utime(os.path.join(place, name), (when, when), follow_symlinks=False)


def hub(root: Path, repo: str, files: Mapping[str, bytes], commit: str = "a" * 40, ref: str | None = "main") -> Path:
    """A repository in the cache of huggingface-hub; the folder of the snapshot."""
    folder = root / f"models--{repo.replace('/', '--')}"
    snapshot = folder / "snapshots" / commit
    for sub in ("blobs", "refs"):
        (folder / sub).mkdir(parents=True, exist_ok=True)
    snapshot.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        blob = folder / "blobs" / hashlib.sha256(data).hexdigest()
        blob.write_bytes(data)
        link = snapshot / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    if ref:
        (folder / "refs" / ref).write_text(commit)
    return snapshot


def ollama(root: Path, name: str, data: bytes, **more: bytes) -> Path:
    """A model in Ollama's store, ``host/namespace/model/tag``; the blob of its model.

    Args:
        root: the store.
        name: path of its manifest.
        data: its model.
        more: further layers by kind, as ``projector``.
    """
    (root / "blobs").mkdir(parents=True, exist_ok=True)
    layers = []
    for kind, content in {"model": data, "template": b"{{ .Prompt }}", **more}.items():
        digest = hashlib.sha256(content).hexdigest()
        (root / "blobs" / f"sha256-{digest}").write_bytes(content)
        layers.append({
            "mediaType": f"application/vnd.ollama.image.{kind}", "digest": f"sha256:{digest}", "size": len(content),
        })  # fmt: skip
    config = b"{}"
    digest = hashlib.sha256(config).hexdigest()
    (root / "blobs" / f"sha256-{digest}").write_bytes(config)
    manifest = root / "manifests" / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "digest": f"sha256:{digest}",
                   "size": 2},
        "layers": layers,
    }))  # fmt: skip
    return root / "blobs" / f"sha256-{hashlib.sha256(data).hexdigest()}"


def jan(root: Path, model: str, data: bytes | None, path: str = "", **more: str) -> Path:
    """A model of jan; its folder. ``path``: a file elsewhere that it was imported from."""
    folder = root / "llamacpp" / "models" / model
    folder.mkdir(parents=True)
    if data is not None:
        (folder / "model.gguf").write_bytes(data)
    lines = [f"model_path: {path or f'llamacpp/models/{model}/model.gguf'}", f"name: {model}", "size_bytes: 1"]
    (folder / "model.yml").write_text("\n".join([*lines, *(f"{k}: {v}" for k, v in more.items())]) + "\n")
    return folder


def put(path: Path, data: bytes) -> Path:
    """A file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@contextmanager
def hub_server(commits: Mapping[str, Mapping[str, bytes]], branches: Mapping[str, str]) -> Iterator[str]:
    """What huggingface-hub asks of the Hub to download files of ``o/r``: files by commit, commits by branch."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            asked = re.fullmatch(r"/o/r/resolve/([^/]+)/(.+)", unquote(self.path))
            commit = branches.get(asked[1], asked[1]) if asked else ""
            data = commits.get(commit, {}).get(asked[2]) if asked else None
            self.send_response(404 if data is None else 200)
            if data is not None:
                self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
                self.send_header("X-Repo-Commit", commit)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data or b"")

        do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
