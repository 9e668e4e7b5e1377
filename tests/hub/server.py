"""A web server on 127.0.0.1 that answers as the Hugging Face Hub does: range requests, redirects to a storage host,
and the API answers recorded below.

The forms are those of the Hub (huggingface_hub 1.x and 2.x read them); names, sizes and hashes are those of the test's
own files. It writes down every request.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class Request:
    """One request as it came in."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class Site:
    """What the server serves and how it behaves.

    Attributes:
        files: bytes by path (``/x.gguf``).
        repos: files of repositories: ``owner/name`` -> path -> bytes.
        redirect: where files of repositories really are: an origin; None serves them directly.
        moved: where a request for a path is sent on to.
        ranges: whether range requests are answered with ranges.
        fail: statuses to answer the next requests with, used up one by one.
        retry: what those say in Retry-After.
        cut: bytes after which the connection breaks, once.
        after_cut: statuses to answer the requests after that with, as ``fail``.
        drip: bytes and seconds: a body longer than 64 KiB comes in pieces of so many with such a pause before each.
        token: what repositories ask for, None for public ones.
        meddle: asked before each answer by path: seconds to wait, or a status and headers to answer with.
        tag: what it calls all files instead of their hash.
        trip: seconds that a round trip takes, one for a new connection and one for a request.
        connections: how many there were.
        body: bytes of bodies that were sent.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    redirect: str | None = None
    moved: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    fail: list[int] = field(default_factory=list)
    retry: str = "0"
    cut: int | None = None
    after_cut: list[int] = field(default_factory=list)
    drip: tuple[int, float] | None = None
    token: str | None = None
    meddle: Callable[[str], float | tuple[int, dict[str, str]]] | None = None
    tag: str = ""
    trip: float = 0.0
    connections: int = 0
    body: int = 0
    log: list[Request] = field(default_factory=list)
    url: str = ""

    @property
    def sent_ranges(self) -> list[str]:
        """The Range headers in order."""
        return [r.headers["range"] for r in self.log if "range" in r.headers]


@lru_cache(1024)
def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def of_hub(data: bytes) -> dict[str, str]:
    """What huggingface-hub reads of a file before it downloads it."""
    digest = sha256(data)
    return {"X-Repo-Commit": "c" * 40, "X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(data))}


@contextmanager
def serve(site: Site) -> Iterator[Site]:
    """Run the server for the length of a with block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body are two writes: the second would wait for the first to be acknowledged, 40 ms.
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            site.connections += 1
            time.sleep(site.trip)

        def log_message(self, *args: object) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            self._answer()

        do_HEAD = do_POST = do_GET

        def _answer(self) -> None:
            headers = {k.lower(): v for k, v in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", 0)))
            site.log.append(Request(self.command, self.path, headers))
            path = unquote(urlsplit(self.path).path)
            time.sleep(site.trip)
            other = site.meddle(path) if site.meddle else 0.0
            if isinstance(other, float):
                time.sleep(other)
            else:
                self._send(other[0], b"not now", other[1])
                return
            if path in site.moved:
                self._send(302, b"", {"Location": site.moved[path]})
            elif site.fail:
                self._send(site.fail.pop(0), b"try later", {"Retry-After": site.retry})
            elif m := re.match(r"^/api/models/([^/]+/[^/]+)/(revision|paths-info)/([^/]+)", path):
                self._api(m[1], m[2], m[3], body, headers)
            elif path == "/api/models":
                author = parse_qs(urlsplit(self.path).query)["author"][0]
                rows = [{"id": repo, "modelId": repo} for repo in site.repos if repo.startswith(author + "/")]
                self._send(200, json.dumps(rows).encode(), {"Content-Type": "application/json"})
            elif m := re.match(r"^/([^/]+/[^/]+)/resolve/([^/]+)/(.+)$", path):
                self._resolve(m[1], m[3], headers)
            elif path in site.files:
                self._file(site.files[path], headers)
            else:
                self._send(404, b"Entry not found", {})

        def _allowed(self, headers: dict[str, str]) -> bool:
            return site.token is None or headers.get("authorization") == f"Bearer {site.token}"

        def _api(self, repo: str, what: str, revision: str, body: bytes, headers: dict[str, str]) -> None:
            if repo not in site.repos:
                self._send(401, b'{"error":"Invalid username or password."}', {"X-Error-Code": "RepoNotFound"})
                return
            if not self._allowed(headers):
                message = {"X-Error-Code": "GatedRepo", "X-Error-Message": f"Access to model {repo} is restricted"}
                self._send(403, b'{"error":"restricted"}', message)
                return
            if revision != "main" and not re.fullmatch("[0-9a-f]{40}", revision):
                self._send(404, b'{"error":"Invalid rev id"}', {"X-Error-Code": "RevisionNotFound"})
                return
            if what == "revision":
                rows = [
                    {
                        "rfilename": path,
                        "size": len(data),
                        "blobId": hashlib.sha1(data).hexdigest(),
                        "lfs": {"sha256": sha256(data), "size": len(data), "pointerSize": 135},
                    }
                    for path, data in site.repos[repo].items()
                ]
                info = {"id": repo, "modelId": repo, "sha": "c" * 40, "private": False, "tags": [], "siblings": rows}
                self._send(200, json.dumps(info).encode(), {"Content-Type": "application/json"})
                return
            wanted = parse_qs(body.decode()).get("paths") if body else None
            if body and wanted is None:
                wanted = json.loads(body).get("paths")
            rows = [
                {
                    "type": "file",
                    "oid": hashlib.sha1(data).hexdigest(),
                    "size": len(data),
                    "path": path,
                    "lfs": {"oid": sha256(data), "size": len(data), "pointerSize": 135},
                    "xetHash": hashlib.sha256(b"xet" + data).hexdigest(),
                }
                for path, data in site.repos[repo].items()
                if wanted is None or path in wanted
            ]
            self._send(200, json.dumps(rows).encode(), {"Content-Type": "application/json"})

        def _resolve(self, repo: str, path: str, headers: dict[str, str]) -> None:
            data = site.repos.get(repo, {}).get(path)
            if data is None:
                self._send(404, b"Entry not found", {"X-Error-Code": "EntryNotFound"})
            elif not self._allowed(headers):
                message = {"X-Error-Code": "GatedRepo", "X-Error-Message": f"Access to model {repo} is restricted"}
                self._send(403, b"restricted", message)
            elif site.redirect:
                where = {"Location": f"{site.redirect}/blob/{path}?X-Signature=s"}
                self._send(302, b"", where | of_hub(data))
            else:
                self._file(data, headers, of_hub(data))

        def _file(self, data: bytes, headers: dict[str, str], more: dict[str, str] | None = None) -> None:
            etag = {"ETag": f'"{site.tag or sha256(data)}"', "Accept-Ranges": "bytes", **(more or {})}
            m = re.match(r"bytes=(\d+)-(\d*)$", headers.get("range", "")) if site.ranges else None
            if site.ranges and headers.get("if-none-match") == etag["ETag"]:
                self._send(304, b"", etag)
            elif m is None:
                self._send(200, data, etag if site.ranges else more or {})
            elif int(m[1]) >= len(data):
                self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            else:
                part = data[int(m[1]) : int(m[2]) + 1 if m[2] else len(data)]
                where = f"bytes {m[1]}-{int(m[1]) + len(part) - 1}/{len(data)}"
                self._send(206, part, etag | {"Content-Range": where})

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                try:
                    if site.cut is not None and len(body) > site.cut:
                        self.wfile.write(body[: site.cut])
                        site.cut = None
                        site.fail += site.after_cut
                        self.close_connection = True
                    elif site.drip is not None and len(body) > 1 << 16:
                        size, pause = site.drip
                        for at in range(0, len(body), size):
                            time.sleep(pause)
                            self.wfile.write(body[at : at + size])
                    else:
                        site.body += len(body)
                        self.wfile.write(body)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Whoever asks may end in the middle."""

    server = Quiet(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
