"""A server is reached as it was told to listen: prefix, key, TLS, socket; and a quiet log is no failure."""

from __future__ import annotations

import http.server
import shutil
import socketserver
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from gguftool.run.reach import Way, way_to
from gguftool.run.server import Running, ask
from gguftool.run.wishes import Wishes
from tests.run.conftest import checks, children


@pytest.mark.real
@pytest.mark.parametrize(
    ("words", "env"),
    [
        (["--", "--api-prefix", "/llm"], {}),
        (["--api-prefix", "/llm/"], {}),
        ([], {"LLAMA_ARG_API_PREFIX": "/llm"}),
        (["--", "--api-key", "sekrit"], {}),
        (["--", "--api-key", "one,two"], {}),
        ([], {"LLAMA_API_KEY": "sekrit"}),
    ],
)
def test_a_healthy_server_is_found_healthy(
    cli, smollm2: Path, server: str, words: list[str], env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    result = cli(
        "launch", smollm2, "--ctx", 512, "--port", 0, "--check-only", "--smoke", "--timeout", 60, "--force",
        "--format", "json", *words,
    )  # fmt: skip
    assert result.code == 0, result.out + result.err
    seen = checks(result.json)
    assert seen["smoke test"] is True
    assert seen["/props: slots"] is True
    assert not children()


@pytest.mark.real
def test_a_quiet_log_is_no_failure(cli, smollm2: Path, server: str) -> None:
    result = cli(
        "launch", smollm2, "--ctx", 512, "--port", 0, "--check-only", "--force", "--format", "json", "--", "-lv", "2"
    )
    assert result.code == 0, result.out
    seen = checks(result.json)
    assert seen["status"] is True
    assert seen["/props: slots"] is True
    assert any("little can be proven" in note for note in result.json["notes"])


@pytest.mark.real
def test_the_log_does_not_tell_the_key(cli, smollm2: Path, server: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    result = cli(
        "launch", smollm2, "--ctx", 512, "--port", 0, "--check-only", "--force", "--log", log, "--api-key", "sekrit"
    )
    assert result.code == 0, result.out
    assert "sekrit" not in log.read_text() + result.out + result.err


class Told(http.server.BaseHTTPRequestHandler):
    """Says what it was asked."""

    def do_GET(self) -> None:
        body = f'{{"path": "{self.path}", "key": "{self.headers.get("Authorization")}"}}'.encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass

    def address_string(self) -> str:
        return "a socket"


def told(server: socketserver.BaseServer, way: Way) -> object:
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    try:
        return ask(Running(None, "", way), "/health", seconds=10).body  # type: ignore[arg-type]
    finally:
        thread.join()
        server.server_close()


def test_a_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    server = socketserver.UnixStreamServer(path, Told)
    assert told(server, Way(path, 0, "/llm", key="k")) == {"path": "/llm/health", "key": "Bearer k"}


def test_tls(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    key, cert = tmp_path / "k.pem", tmp_path / "c.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "1",
         "-subj", "/CN=x"], check=True, capture_output=True,
    )  # fmt: skip
    server = http.server.HTTPServer(("127.0.0.1", 0), Told)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    wishes = Wishes(port=server.server_address[1], ssl_key_file=str(key), ssl_cert_file=str(cert))
    way = way_to(wishes, {})
    assert way.url == f"https://127.0.0.1:{server.server_address[1]}"
    assert told(server, way) == {"path": "/health", "key": "None"}


def test_what_the_environment_says(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# mine\n\nfirst\nsecond\n")
    env = {"LLAMA_API_KEY": "env", "LLAMA_ARG_API_PREFIX": "/p"}
    assert way_to(Wishes(), env) == Way("127.0.0.1", 8080, "/p", False, "env")
    assert way_to(Wishes(api_key="cli", api_prefix="/q"), env).key == "cli"
    assert way_to(Wishes(api_key="cli", api_prefix="/q"), env).prefix == "/q"
    assert way_to(Wishes(api_key_file=str(keys)), {}).key == "first"
    assert way_to(Wishes(host="0.0.0.0"), {}).url == "http://127.0.0.1:8080"
    assert way_to(Wishes(host="127.0.0.1, ::1"), {}).host == "127.0.0.1"
    assert way_to(Wishes(host="::"), {}).url == "http://[::1]:8080"
