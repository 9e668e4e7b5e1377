"""A server is reached as it was told to listen: prefix, key, TLS, socket; and a quiet log is no failure."""

from __future__ import annotations

import http.server
import shutil
import socketserver
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gguftool.run.reach import Way, way_to
from gguftool.run.server import Running, ask
from gguftool.run.wishes import Wishes
from tests.run.conftest import checks, children

WAYS: tuple[tuple[str, dict[str, str], str], ...] = (
    # words, with FOLDER for one of the test; the environment; what the log tells: "" sizes, "quiet" nothing
    ("-- --api-prefix /llm", {}, ""),
    ("--api-prefix /llm/", {}, ""),
    ("", {"LLAMA_ARG_API_PREFIX": "/llm"}, ""),
    ("", {"XDG_CONFIG_HOME": "FOLDER/config"}, ""),
    ("-- --api-key sekrit", {}, ""),
    ("-- --api-key one,two", {}, ""),
    ("", {"LLAMA_API_KEY": "sekrit"}, ""),
    ("--api-key-file FOLDER/keys", {}, ""),
    ("-- --api-key-file FOLDER/keys --api-prefix /llm", {}, ""),
    ("", {"LLAMA_ARG_API_KEY_FILE": "FOLDER/keys"}, ""),
    ("--host FOLDER/s.sock", {}, ""),
    ("--host ::", {}, ""),
    ("--host ::1", {}, ""),
    ("--host 0.0.0.0", {}, ""),
    ("--host localhost", {}, ""),
    ("", {"LLAMA_ARG_HOST": "192.0.2.1", "LLAMA_ARG_PORT": "9"}, ""),
    ("-- --reuse-port", {}, ""),
    ("-- --no-slots", {}, ""),
    ("-- --log-file FOLDER/own.log", {}, ""),
    ("-- --log-colors on", {}, ""),
    ("-- --no-log-prefix --no-log-timestamps", {}, ""),
    ("-- --no-log-timestamps", {}, ""),
    ("", {"LLAMA_ARG_LOG_VERBOSITY": "1"}, ""),
    ("-- -lv 2", {}, "quiet"),
    ("-- -lv 0", {}, "quiet"),
    ("-- --log-disable", {}, "quiet"),
    ("--ssl-key-file FOLDER/k.pem --ssl-cert-file FOLDER/c.pem --llama-cpp FOLDER/llama-server", {}, ""),
    ("--llama-cpp FOLDER/llama-server",
     {"LLAMA_ARG_SSL_KEY_FILE": "FOLDER/k.pem", "LLAMA_ARG_SSL_CERT_FILE": "FOLDER/c.pem"}, ""),
)  # fmt: skip


@pytest.mark.real
@pytest.mark.parametrize(("words", "env", "log"), WAYS, ids=[f"{w} {' '.join(e)}".strip() for w, e, _ in WAYS])
def test_a_healthy_server_is_found_healthy(
    cli, smollm2: Path, server: str, words: str, env: dict[str, str], log: str, monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    """However it is told to listen, to ask for a key and to log: from the command line, the environment, the files."""
    folder = tmp_path_factory.mktemp("w")
    (folder / "keys").write_text("# ours\n\nfirst\nsecond\n")
    (folder / "config" / "llama.cpp").mkdir(parents=True)
    (folder / "config" / "llama.cpp" / "config.ini").write_text("api-prefix = /configured\napi-key = from-the-file\n")
    if "ssl" in words.lower() + " ".join(env).lower():
        certificate(folder)
        front(folder / "llama-server", server)
    for name, value in env.items():
        monkeypatch.setenv(name, value.replace("FOLDER", str(folder)))
    result = cli(
        "launch", smollm2, "--ctx", 512, "--port", 0, "--check-only", "--smoke", "--timeout", 60,
        "--format", "json", *words.replace("FOLDER", str(folder)).split(),
    )  # fmt: skip
    assert result.code == 0, result.out + result.err
    seen = checks(result.json)
    assert seen["smoke test"] is True
    assert seen["/props: slots"] is True
    assert seen["/props: chat template"] is True
    assert seen["status"] is True
    assert seen.get("KV cache") is (None if log else True)
    assert any("little can be proven" in note for note in result.json["notes"]) is bool(log)
    assert not children()


def certificate(folder: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "k.pem", "-out",
         folder / "c.pem", "-days", "1", "-subj", "/CN=x"], check=True, capture_output=True,
    )  # fmt: skip


FRONT = """#!{python}
# No wheel's server speaks TLS: this one stands in front of it, takes its options and its place.
import os, signal, socket, ssl, subprocess, sys, threading
args, files = sys.argv[1:], {{}}
if args[:1] in (["--help"], ["--version"], ["--list-devices"]):
    os.execv({server!r}, [{server!r}, *args])
for name, variable in (("--ssl-key-file", "LLAMA_ARG_SSL_KEY_FILE"), ("--ssl-cert-file", "LLAMA_ARG_SSL_CERT_FILE")):
    files[name] = os.environ.pop(variable, None)
    if name in args:
        at = args.index(name)
        files[name] = args[at + 1]
        del args[at:at + 2]
at = args.index("--port") + 1
port = int(args[at])
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    args[at] = str(free.getsockname()[1])
child = subprocess.Popen([{server!r}, *args])
def end(*_):
    child.terminate()
    child.wait()
    os._exit(0)
signal.signal(signal.SIGTERM, end)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(files["--ssl-cert-file"], files["--ssl-key-file"])
def hand(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
    except OSError:
        pass
    for end_of in (a, b):
        try:
            end_of.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
def serve(plain):
    try:
        with context.wrap_socket(plain, server_side=True) as near, socket.create_connection(
            ("127.0.0.1", int(args[at]))
        ) as far:
            threading.Thread(target=hand, args=(near, far), daemon=True).start()
            hand(far, near)
    except OSError:
        pass
with socket.create_server(("127.0.0.1", port)) as there:
    while True:
        threading.Thread(target=serve, args=(there.accept()[0],), daemon=True).start()
"""


def front(path: Path, server: str) -> None:
    path.write_text(FRONT.format(python=sys.executable, server=server))
    path.chmod(0o755)


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
    certificate(tmp_path)
    key, cert = tmp_path / "k.pem", tmp_path / "c.pem"
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
