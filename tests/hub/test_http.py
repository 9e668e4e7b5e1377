"""HttpRange: what is fetched, how failures end, and where credentials go."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace

import pytest

from gguftool import hub
from gguftool.errors import ChangedMeanwhile, MissingFile, NotGguf, ToolFailed, UsageError
from gguftool.hub import http
from gguftool.hub.http import FIRST, LARGEST, HttpRange
from tests.build import llama
from tests.hub.server import Site


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "time", SimpleNamespace(sleep=lambda _seconds: None))


def test_any_read_is_right(site: Site):
    data = os.urandom(5 * FIRST + 12345)
    site.files["/x"] = data
    source = HttpRange(site.url + "/x")
    assert source.size == len(data)
    for offset, n in [
        (0, 10),
        (FIRST - 5, 10),
        (3 * FIRST, 100),
        (len(data) - 7, 100),
        (len(data), 5),
        (5, 0),
        (17, 99),
    ]:
        assert source.read_at(offset, n) == data[offset : offset + n]


def test_first_read_is_one_mebibyte_and_the_front_grows_geometrically(site: Site):
    site.files["/x"] = data = os.urandom(20 * FIRST)
    source = HttpRange(site.url + "/x")
    for offset in range(0, 10 * FIRST, 64 << 10):
        assert source.read_at(offset, 64 << 10) == data[offset : offset + (64 << 10)]
    assert site.sent_ranges == [
        f"bytes=0-{FIRST - 1}", f"bytes={FIRST}-{2 * FIRST - 1}", f"bytes={2 * FIRST}-{4 * FIRST - 1}",
        f"bytes={4 * FIRST}-{8 * FIRST - 1}", f"bytes={8 * FIRST}-{16 * FIRST - 1}",
    ]  # fmt: skip


def test_reads_that_follow_one_another_behind_the_front_fetch_ahead(site: Site, monkeypatch):
    site.files["/x"] = data = os.urandom(3 * LARGEST)
    source = HttpRange(site.url + "/x")
    start = LARGEST
    for offset in range(start, start + 8 * FIRST, FIRST):
        assert source.read_at(offset, FIRST) == data[offset : offset + FIRST]
    assert len(site.sent_ranges) == 3


def test_only_the_header_of_a_large_file_is_fetched(site: Site):
    model = llama()
    site.files["/m.gguf"] = model.header() + bytes(40 * FIRST)
    opened = hub.open_any(site.url + "/m.gguf", strict=False)
    assert opened.architecture == "llama"
    assert opened.file_size == len(model.header()) + 40 * FIRST
    assert len(site.log) == 1


def test_small_and_empty_files(site: Site):
    site.files["/s"] = b"abc"
    site.files["/e"] = b""
    assert HttpRange(site.url + "/s").read_at(1, 10) == b"bc"
    assert HttpRange(site.url + "/e").size == 0


def test_server_without_ranges_gives_the_front_only(site: Site):
    site.ranges = False
    site.files["/m.gguf"] = llama().bytes()
    assert hub.open_any(site.url + "/m.gguf").architecture == "llama"
    source = HttpRange(site.url + "/m.gguf")
    site.files["/m.gguf"] = bytes(2 * FIRST)
    assert source.size == 2 * FIRST
    with pytest.raises(ToolFailed, match="does not answer range requests"):
        source.read_at(FIRST + 5, 10)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_stumble_is_tried_again(site: Site, status: int):
    site.files["/x"] = b"abc"
    site.fail = [status, status]
    assert HttpRange(site.url + "/x").read_at(0, 3) == b"abc"
    site.fail = [status] * 9
    with pytest.raises(ToolFailed, match=f"HTTP {status}"):
        HttpRange(site.url + "/x").read_at(0, 3)
    assert len(site.fail) == 9 - http.TRIES


def test_broken_connection_is_taken_up_again(site: Site):
    site.files["/x"] = data = os.urandom(FIRST)
    source = HttpRange(site.url + "/x")
    assert source.size == FIRST
    source = HttpRange(site.url + "/x")
    site.cut = 70_000
    assert source.read_at(0, FIRST) == data


def test_change_on_the_server_is_noticed(site: Site):
    site.files["/x"] = os.urandom(3 * FIRST)
    source = HttpRange(site.url + "/x")
    source.read_at(0, 10)
    site.files["/x"] = os.urandom(3 * FIRST)
    with pytest.raises(ChangedMeanwhile):
        source.read_at(2 * FIRST, 10)


@pytest.mark.parametrize(
    ("status", "kind"), [(404, MissingFile), (410, MissingFile), (401, ToolFailed), (403, ToolFailed)]
)
def test_refusals(site: Site, status: int, kind: type[Exception]):
    site.fail = [status]
    with pytest.raises(kind):
        _ = HttpRange(site.url + "/x").size
    assert len(site.log) == 1


def test_no_server(cli):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/m.gguf"
        result = cli("verify", url, "--format", "json")
    assert result.code == 6
    assert [e["code"] for e in result.json["errors"]] == ["tool-failed"]
    assert "check the network" in result.err


def test_web_page_instead_of_a_model(site: Site):
    site.files["/m.gguf"] = b"<!DOCTYPE html><title>Sign in</title>"
    with pytest.raises(NotGguf, match="HTML page"):
        hub.open_any(site.url + "/m.gguf")


def test_other_schemes_are_refused(site: Site):
    with pytest.raises(UsageError):
        HttpRange("ftp://x/y").read_at(0, 1)
    site.files["/loop"] = b""


class TestCredentials:
    def test_stay_with_their_host(self, site: Site, storage: Site):
        """The Hub redirects to storage elsewhere; the token must not go there."""
        data = llama().bytes()
        storage.files["/blob/m.gguf"] = data
        site.repos["o/r"] = {"m.gguf": data}
        site.redirect = storage.url
        source = HttpRange(f"{site.url}/o/r/resolve/main/m.gguf", {"Authorization": "Bearer secret", "Cookie": "c"})
        assert source.read_at(0, len(data)) == data
        assert site.log[0].headers["authorization"] == "Bearer secret"
        assert storage.log
        for request in storage.log:
            assert "authorization" not in request.headers
            assert "cookie" not in request.headers
            assert "secret" not in str(request)

    def test_signed_address_is_used_again_and_renewed_when_it_expires(self, site: Site, storage: Site):
        storage.files["/blob/m.gguf"] = data = os.urandom(6 * FIRST)
        site.repos["o/r"] = {"m.gguf": data}
        site.redirect = storage.url
        source = HttpRange(f"{site.url}/o/r/resolve/main/m.gguf")
        source.read_at(0, 3 * FIRST)
        assert len(site.log) == 1
        storage.fail = [403]
        assert source.read_at(5 * FIRST, 100) == data[5 * FIRST : 5 * FIRST + 100]
        assert len(site.log) == 2

    def test_redirect_without_end(self, site: Site):
        site.repos["o/r"] = {"m.gguf": b"x"}
        site.redirect = f"{site.url}/o/r/resolve/main/m.gguf?"
        site.repos["o/r"]["m.gguf?/blob/m.gguf"] = b"x"
        with pytest.raises((ToolFailed, MissingFile)):
            HttpRange(f"{site.url}/o/r/resolve/main/m.gguf").read_at(0, 1)

    def test_token_of_the_user_goes_to_the_hub_only(self, site: Site, storage: Site, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", "secret")
        storage.files["/m.gguf"] = llama().bytes()
        hub.open_any(storage.url + "/m.gguf")
        assert all("authorization" not in r.headers for r in storage.log)
        site.repos["o/r"] = {"m.gguf": llama().bytes()}
        hub.open_any(f"{site.url}/o/r/resolve/main/m.gguf")
        assert site.log[0].headers["authorization"] == "Bearer secret"

    def test_token_never_shows_in_messages(self, site: Site, cli, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
        site.repos["o/r"] = {"m.gguf": b"x"}
        site.token = "another"
        result = cli("verify", "hf://o/r/m.gguf", "-v")
        assert result.code == 6
        assert "hf_verysecret" not in result.err + result.out
        assert "HF_TOKEN" in result.err
