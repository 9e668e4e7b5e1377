"""Answers of a web server, whatever they say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.build import llama
from tests.fuzz import texts
from tests.fuzz.served import served
from tests.fuzz.target import Target, cli


def corpus() -> Sequence[bytes]:
    """Answers to a request for the beginning of a file."""
    body = llama().bytes()[:6000]
    n = len(body)
    part = b"Content-Range: bytes 0-%d/%d\r\nContent-Length: %d\r\n" % (n - 1, n, n)
    head = b'HTTP/1.1 206 Partial Content\r\nETag: "a"\r\n' + part + b"\r\n"
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (n, body)
    return [
        head + body,
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n + body,
        chunked,
        b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /other.gguf\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
    ]


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """Another answer; the head of it mostly."""
    head, mark, body = rng.choice(given).partition(b"\r\n\r\n")
    if rng.random() < 0.1:
        return texts.mutate(rng, given)
    return texts.mutate(rng, [head]) + mark + body


def run(data: bytes, folder: Path, rng: Random) -> None:
    """A server that gives this answer to all who ask."""
    with served(lambda asked: data) as address:
        cli("dump", "--overview", f"{address}/x.gguf")


TARGET = Target(corpus, mutate, run)
