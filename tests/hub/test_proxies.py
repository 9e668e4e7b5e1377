"""Proxies and certificates as the environment names them, for our own requests and for those of huggingface-hub."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gguftool.errors import GgufToolError, Refused, ToolFailed
from gguftool.hub import api
from gguftool.hub.address import HubAddress
from gguftool.hub.http import HttpRange
from tests.hub import tls
from tests.hub.conftest import forget_sessions
from tests.hub.server import Site, serve

HOST = "hub.test"
"""Nobody knows it but the proxy: names below .test are none of the internet's (RFC 6761)."""
DATA = b"GGUF" + bytes(5000)
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """None of the machine's own; and huggingface-hub keeps no session that was made with others."""
    for name in (*BUNDLES, "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    forget_sessions()
    yield
    forget_sessions()


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    return tls.certificate(tmp_path, HOST, "localhost")


@pytest.fixture
def hub() -> Iterator[Site]:
    with serve(Site(files={"/m.gguf": DATA}, repos={"o/r": {"m.gguf": DATA}})) as site:
        yield site


@pytest.fixture
def secure(hub: Site, pem: Path) -> Iterator[int]:
    with tls.secured(int(hub.url.rpartition(":")[2]), pem) as port:
        yield port


def ranges(url: str) -> bytes:
    """Our own requests."""
    return HttpRange(f"{url}/m.gguf").read_at(0, len(DATA))


def listing(url: str) -> bytes:
    """Those of huggingface-hub."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", url)
        records = api.listing(HubAddress("o/r"))
    assert [r.path for r in records] == ["m.gguf"]
    return DATA


WAYS = [ranges, listing]


@pytest.mark.parametrize("way", WAYS)
def test_nobody_is_trusted_who_is_not_named(way: Callable[[str], bytes], secure: int) -> None:
    with pytest.raises(ToolFailed) as caught:
        way(f"https://localhost:{secure}")
    assert "certificate" in str(caught.value).lower()


@pytest.mark.parametrize("name", BUNDLES)
@pytest.mark.parametrize("way", WAYS)
def test_each_name_for_certificates(
    way: Callable[[str], bytes], name: str, secure: int, pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = pem
    if name == "SSL_CERT_DIR":
        # OpenSSL looks a certificate up by the hash of its subject.
        if not shutil.which("openssl"):
            pytest.skip("no openssl here to make the name of the file")
        said = subprocess.run(
            ["openssl", "x509", "-hash", "-noout", "-in", pem], capture_output=True, text=True, check=True
        )
        place = pem.parent / "folder"
        place.mkdir()
        (place / f"{said.stdout.strip()}.0").write_bytes(pem.read_bytes())
    monkeypatch.setenv(name, str(place))
    assert way(f"https://localhost:{secure}") == DATA


@pytest.mark.parametrize("way", WAYS)
def test_a_certificate_for_another_name(
    way: Callable[[str], bytes], hub: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "other").mkdir()
    other = tls.certificate(folder, "elsewhere.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(other))
    with tls.secured(int(hub.url.rpartition(":")[2]), other) as port, pytest.raises(ToolFailed):
        way(f"https://localhost:{port}")
    assert hub.log == []


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("way", WAYS)
def test_through_a_proxy(
    way: Callable[[str], bytes], name: str, secure: int, pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks the name up; TLS is with the server behind it; it gets its own login and no other."""
    log: list[bytes] = []
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with tls.proxy(secure, log) as port:
        monkeypatch.setenv(name, f"http://anna:geheim@127.0.0.1:{port}")
        assert way(f"https://{HOST}") == DATA
    assert log
    # http.client, on which requests stands, asks in HTTP/1.0 before Python 3.12.
    assert re.match(rf"CONNECT {HOST}:443 HTTP/1\.[01]\r\n".encode(), log[0])
    login = base64.b64encode(b"anna:geheim")
    assert b"proxy-authorization: basic " + login.lower() in log[0].lower()
    assert b"hf_secret" not in b"".join(log)


def test_nothing_is_asked_for_besides(hub: Site, tmp_path: Path) -> None:
    """huggingface-hub would ask its server for a list of agents first, in every process that has none of this day."""
    code = "from gguftool.hub import api, address; print(len(api.listing(address.HubAddress('o/r'))))"
    env = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "new")}
    said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert said.stdout == "1\n"
    assert [r.path for r in hub.log if "/o/r/" not in r.path] == []
    assert hub.log


@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
@pytest.mark.parametrize("way", WAYS)
def test_past_the_proxy(
    way: Callable[[str], bytes], name: str, secure: int, pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[bytes] = []
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    with tls.proxy(secure, log) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        monkeypatch.setenv(name, "example.com,localhost")
        assert way(f"https://localhost:{secure}") == DATA
    assert log == []


@pytest.mark.parametrize("way", WAYS)
def test_a_proxy_that_refuses(
    way: Callable[[str], bytes], secure: int, hub: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls.proxy(secure, [], b"403 Forbidden") as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://anna:geheim@127.0.0.1:{port}")
        with pytest.raises(ToolFailed) as caught:
            way(f"https://{HOST}")
    assert "403" in str(caught.value)
    assert "geheim" not in f"{caught.value} {caught.value.hint}"
    assert hub.log == []


MOVED = "/api/models/o/r/revision/main"


def test_huggingface_hub_is_not_sent_from_https_to_http(
    hub: Site, secure: int, pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    with serve(Site(repos=hub.repos)) as plain:
        hub.moved[MOVED] = plain.url + MOVED
        with pytest.raises(Refused, match="from https to http"):
            listing(f"https://localhost:{secure}")
        assert plain.log == []


def test_huggingface_hub_is_not_sent_further_in(hub: Site) -> None:
    """From an address of this machine to where the clouds keep their secrets."""
    hub.moved[MOVED] = "http://169.254.169.254/latest/meta-data/"
    with pytest.raises(Refused, match="network behind it"):
        listing(hub.url)


def test_a_new_session_knows_it_too(hub: Site) -> None:
    """After a connection that failed there is another session."""
    assert listing(hub.url) == DATA
    forget_sessions()
    test_huggingface_hub_is_not_sent_further_in(hub)


@pytest.mark.parametrize("place", ["ftp://x/y", "http://[::1", "//:99999/"])
def test_huggingface_hub_is_sent_nowhere(hub: Site, place: str) -> None:
    hub.moved[MOVED] = place
    with pytest.raises(GgufToolError):
        listing(hub.url)


def test_a_redirect_that_leads_no_further_is_followed(hub: Site) -> None:
    hub.moved[MOVED] = f"{hub.url}/api/models/o/r/revision/{'c' * 40}"
    assert listing(hub.url) == DATA
