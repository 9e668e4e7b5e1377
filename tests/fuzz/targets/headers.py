"""Kept headers of files on servers, of others: odd facts under a right checksum, other headers, and bytes anywhere."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Sequence
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any
from unittest import mock

from tests.build import llama
from tests.fuzz import gguf
from tests.fuzz.target import Target, cli
from tests.fuzz.targets.journal import ODD

FORMS = [("dump", "--overview"), ("dump", "--format", "json"), ("lint", "--no-config"), ("scan", "--jobs", "1")]
FACTS = {"size": 30_000, "etag": '"a"', "linked": "", "crc32": 1, "of": "x"}


@cache
def _site() -> str:
    """A server of one file, whose entity tag never changes."""
    data = llama().bytes()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            same = self.headers.get("If-None-Match") == '"a"'
            first, _, last = (self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")
            part = b"" if same else data[int(first) : int(last or len(data)) + 1]
            self.send_response(304 if same else 206)
            self.send_header("ETag", '"a"')
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/m.gguf"


def corpus() -> Sequence[bytes]:
    """Facts, a NUL, a header."""
    return [json.dumps(FACTS).encode() + b"\0" + data[:20_000] for data in gguf.corpus()]


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """Other facts, or another header."""
    line, _, front = rng.choice(given).partition(b"\0")
    try:
        facts = json.loads(line)
    except ValueError:
        facts = dict(FACTS)
    if rng.random() < 0.5:
        facts[rng.choice(list(FACTS))] = rng.choice(ODD)
    if rng.random() < 0.7:
        front = gguf.mutate(rng, [front])
    return json.dumps(facts).encode() + b"\0" + front


def run(data: bytes, folder: Path, rng: Random) -> None:
    """As what is kept of the file on the server, mostly with the name and the checksum that it must have."""
    line, _, front = data.partition(b"\0")
    url, facts = _site(), dict[str, Any]()
    name = hashlib.sha256(url.encode()).hexdigest()
    if rng.random() < 0.8:
        facts = json.loads(line)
        facts |= {"of": name, "crc32": zlib.crc32(front)}
        if rng.random() < 0.5:
            facts["size"] = max(len(front), facts["size"]) if isinstance(facts["size"], int) else len(front)
        line = json.dumps(facts).encode()
    place = folder / name[0]
    place.mkdir()
    (place / name).write_bytes(b"gguftool header 1\n" + line + b"\n" + front)
    with mock.patch.dict(os.environ, {"GGUFTOOL_CACHE": str(folder)}):
        cli(*rng.choice(FORMS), url)


TARGET = Target(corpus, mutate, run)
