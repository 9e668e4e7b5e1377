"""Headers that are kept: when the server is asked, what is taken, and what is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gguftool import hub
from gguftool.hub import headers
from tests.build import llama
from tests.hub.headers import header, vocabulary
from tests.hub.server import Site

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LONG = header(vocabulary("llama", 12_000), 3) + bytes(100_000)


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(headers.VARIABLE, str(tmp_path / "headers"))
    return tmp_path / "headers"


def look(address: str) -> int:
    with hub.open_any(address, strict=False) as m:
        return len(m["tokenizer.ggml.tokens"])  # type: ignore[arg-type]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_second_time_the_server_says_that_nothing_changed(site: Site, folder: Path):
    site.files["/x.gguf"] = LONG
    assert look(site.url + "/x.gguf") == 12_000
    site.log.clear()
    site.body = 0
    assert look(site.url + "/x.gguf") == 12_000
    assert [r.headers.get("if-none-match") is not None for r in site.log] == [True]
    assert site.body == 0
    [path] = files(folder)
    assert path.stat().st_mode & 0o777 == 0o600
    assert site.url.encode() not in path.read_bytes()


def test_a_file_that_changed_is_read_anew(site: Site):
    site.files["/x.gguf"] = LONG
    look(site.url + "/x.gguf")
    site.files["/x.gguf"] = header(vocabulary("llama", 3000), 3) + bytes(3 * 512)
    assert look(site.url + "/x.gguf") == 3000
    site.log.clear()
    assert look(site.url + "/x.gguf") == 3000
    assert len(site.log) == 1


def test_the_hub_names_the_version_before_it_sends_us_on(site: Site, storage: Site):
    site.redirect = storage.url
    site.repos["o/r"] = {"x.gguf": LONG}
    storage.files["/blob/x.gguf"] = LONG
    look("hf://o/r/x.gguf")
    site.log.clear()
    storage.log.clear()
    assert look("hf://o/r/x.gguf") == 12_000
    assert (len(site.log), len(storage.log)) == (1, 0)


def test_a_commit_is_for_ever(site: Site, monkeypatch):
    site.repos["o/r"] = {"x.gguf": LONG}
    address = f"hf://o/r@{COMMIT}/x.gguf"
    look(address)
    site.log.clear()
    assert look(address) == 12_000
    assert not site.log
    # A branch is not.
    look("hf://o/r/x.gguf")
    assert site.log


def test_behind_what_is_kept_the_server_is_asked(site: Site):
    site.repos["o/r"] = {"x.gguf": LONG + b"tail"}
    for _ in "12":
        with hub.open_any(f"hf://o/r@{COMMIT}/x.gguf", strict=False) as m:
            assert m.parts[0].source.read_at(len(LONG), 4) == b"tail"


def test_the_storage_may_call_it_otherwise_by_now(site: Site, storage: Site):
    """Of a version that the Hub names, or of a commit, the bytes are the same wherever they lie."""
    site.redirect = storage.url
    site.repos["o/r"] = {"x.gguf": LONG}
    storage.files["/blob/x.gguf"] = LONG
    addresses = ("hf://o/r/x.gguf", f"hf://o/r@{COMMIT}/x.gguf")
    for address in addresses:
        look(address)
    storage.tag = "of another storage"
    for address in addresses:
        with hub.open_any(address, strict=False) as m:
            assert m.parts[0].source.read_at(len(LONG) - 4, 4) == bytes(4)


def test_a_header_that_was_read_in_part_is_not_kept(site: Site, cli, folder: Path):
    site.files["/x.gguf"] = LONG
    assert cli("dump", "--raw", "general.name", site.url + "/x.gguf").code == 0
    assert not files(folder)


def test_off_by_the_environment_and_by_an_option(site: Site, cli, folder: Path, monkeypatch):
    site.files["/x.gguf"] = LONG
    cli("dump", "--no-cache", "--overview", site.url + "/x.gguf")
    cli("--no-cache", "dump", "--overview", site.url + "/x.gguf")
    assert not files(folder)
    cli("dump", "--overview", site.url + "/x.gguf")
    assert files(folder)
    site.log.clear()
    cli("dump", "--overview", "--no-cache", site.url + "/x.gguf")
    assert not any("if-none-match" in r.headers for r in site.log)
    monkeypatch.setenv(headers.VARIABLE, "off")
    assert headers.folder() is None


@pytest.mark.parametrize("harm", ["cut", "flipped", "other", "long", "link", "text", "nested"])
def test_what_is_not_whole_or_not_ours_is_not_taken(site: Site, folder: Path, harm: str, tmp_path: Path):
    site.files["/x.gguf"] = LONG
    site.files["/y.gguf"] = header(vocabulary("llama", 3000), 3) + bytes(3 * 512)
    look(site.url + "/x.gguf")
    [path] = files(folder)
    data = path.read_bytes()
    if harm == "cut":
        path.write_bytes(data[:-10])
    elif harm == "flipped":
        path.write_bytes(data[:-10] + b"x" + data[-9:])
    elif harm == "long":
        with path.open("r+b") as f:
            f.truncate(1 << 40)
    elif harm == "text":
        path.write_bytes(b"hello")
    elif harm == "nested":
        path.write_bytes(data.splitlines(True)[0] + b"[" * 8000 + b"\n")
    elif harm == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        look(site.url + "/y.gguf")
        [other] = [p for p in files(folder) if p != path]
        path.write_bytes(other.read_bytes())
    site.log.clear()
    assert look(site.url + "/x.gguf") == 12_000
    assert not any("if-none-match" in r.headers for r in site.log)


def test_it_does_not_grow_for_ever(site: Site, folder: Path, monkeypatch):
    monkeypatch.setattr(headers, "ROOM", 1 << 20)
    for i in range(40):
        headers.keep(headers.Front(f"http://x/{i}", 1 << 30, '"e"', "", bytes(1 << 19)))
    assert sum(path.stat().st_size for path in files(folder)) <= 16 << 20
    assert headers.find("http://x/39") is not None
    headers.keep(headers.Front("http://x/large", 1 << 30, '"e"', "", bytes(headers.LARGEST + 1)))
    assert headers.find("http://x/large") is None


def test_a_cache_that_cannot_be_written_is_none(site: Site, folder: Path, tmp_path: Path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv(headers.VARIABLE, str(tmp_path / "file" / "headers"))
    site.files["/x.gguf"] = llama().bytes()
    assert look(site.url + "/x.gguf") == look(site.url + "/x.gguf") == 291
    assert not os.path.exists(folder)


def test_without_a_tag_nothing_is_kept(site: Site, folder: Path):
    site.ranges = False
    site.files["/x.gguf"] = LONG
    look(site.url + "/x.gguf")
    assert not files(folder)
