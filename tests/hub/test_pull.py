"""``gguftool pull``: by huggingface-hub, into its layout; proven and judged, no second copy, no launch line if not."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gguftool
from gguftool.files.partial import partial
from tests import stores
from tests.hub.forms import ollama_store
from tests.hub.quantised import NAME, files, model
from tests.hub.server import Site

REPO = "owner/tiny-GGUF"
SPEC = f"hf://{REPO}"
COMMIT = "c" * 40
ASKED = ("--ctx", "4096", "--vram", "2GiB", "--ram", "8GiB")
Q4, Q6, BF16 = f"{NAME}-Q4_0.gguf", f"{NAME}-Q6_K.gguf", f"BF16/{NAME}-BF16-00001-of-00003.gguf"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stores but those of the test."""
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "LLAMA_CACHE", "JAN_DATA_FOLDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def few(site: Site, *kinds: str) -> dict[str, bytes]:
    """Only those files, by a part of their names."""
    site.repos[REPO] = {n: d for n, d in files().items() if any(kind in n for kind in kinds)}
    return site.repos[REPO]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def downloads(site: Site) -> list[str]:
    """Files whose bytes were asked for to the end, not headers."""
    found = [r for r in site.log if r.method == "GET" and "/resolve/" in r.path]
    return [r.path.rpartition("/")[2] for r in found if r.headers.get("user-agent", "").find("hf_hub/") >= 0]


def cache(tmp_path: Path) -> Path:
    return tmp_path / "hf-home" / "hub" / "models--owner--tiny-GGUF"


def test_the_best_that_fits_with_its_projector(cli: Any, site: Site, tmp_path: Path) -> None:
    repo = few(site, "BF16", "Q4_0", "mmproj")
    dry = cli("pull", f"{SPEC}/{BF16}", *ASKED, "--dry-run", "--format", "json")
    assert dry.code == 0, dry.err
    assert (dry.json["path"], dry.json["launch"], dry.json["proven"]) == (None, None, None)
    assert downloads(site) == []
    found = cli("pull", SPEC, *ASKED, "--format", "json")
    assert found.code == 0, found.err
    names = [f"BF16/{NAME}-BF16-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    assert [f["name"] for f in found.json["files"]] == names
    assert [f["name"] for f in found.json["beside"]] == ["mmproj-F16.gguf"], "the other one is of another model"
    assert (
        dry.json["to_download"] == found.json["to_download"] == sum(len(repo[n]) for n in (*names, "mmproj-F16.gguf"))
    )
    assert found.json["chosen"].startswith("the best of 2 that fit here, of 2: 16.01 bits")
    assert found.json["proven"] is True
    for f in (*found.json["files"], *found.json["beside"]):
        # As huggingface-hub lays its cache out: a link of the snapshot to a blob named by its sha256.
        place = cache(tmp_path) / "snapshots" / COMMIT / f["name"]
        assert f["path"] == str(place)
        assert place.resolve() == cache(tmp_path) / "blobs" / sha256(repo[f["name"]])
        assert (place.read_bytes(), f["how"]) == (repo[f["name"]], "downloaded")
    assert (cache(tmp_path) / "refs" / "main").read_text() == COMMIT
    side = str(cache(tmp_path) / "snapshots" / COMMIT / "mmproj-F16.gguf")
    launch = found.json["launch"]
    assert launch[:3] == ["gguftool", "launch", f"{SPEC}/{names[0]}"]
    assert launch[launch.index("--mmproj") + 1] == side
    plan = gguftool.plan(f"{SPEC}/{names[0]}", ctx=4096, vram="2GiB", ram="8GiB", mmproj=side)
    assert found.json["plan"]["total"] == plan.memory.total
    site.log.clear()
    again = cli("pull", f"{SPEC}/{names[1]}", *ASKED)
    assert again.code == 0
    assert downloads(site) == []
    assert "here already, in " in again.out
    assert "proven: the sha256 of all 4 files are as published" in again.out
    assert f"\nlaunch\n  gguftool launch {SPEC}/{names[0]} --ctx 4096 --mmproj {side} " in again.out


def test_to_a_folder_without_the_projector(cli: Any, site: Site, tmp_path: Path) -> None:
    repo = few(site, "Q4_0", "mmproj-F16")
    out = tmp_path / "out"
    found = cli("pull", f"{SPEC}:Q4_0", "--local-dir", out, "--no-mmproj", *ASKED, "--format", "json")
    assert found.code == 0, found.err
    assert (out / Q4).read_bytes() == repo[Q4]
    assert found.json["beside"] == []
    assert found.json["launch"][:3] == ["gguftool", "launch", str(out / Q4)]
    assert not cache(tmp_path).exists(), "no second copy in the cache"
    site.log.clear()
    assert cli("pull", f"{SPEC}:Q4_0", "--local-dir", out, "--no-mmproj", *ASKED).code == 0
    assert downloads(site) == []
    assert cli("pull", f"{SPEC}:Q4_0", "--local-dir", out, "--no-mmproj", "--force", *ASKED).code == 0
    assert downloads(site) == [Q4]


def test_it_goes_on_where_it_ended(cli: Any, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1 << 16)
    repo = few(site, "Q6_K")
    site.cut, site.after_cut = 1_000_000, [500]
    broken = cli("pull", f"{SPEC}/{Q6}", *ASKED)
    assert broken.code == 6
    assert "the download broke off" in broken.err
    assert "type the same command again: it goes on where it ended" in broken.err
    part = cache(tmp_path) / "blobs" / f"{sha256(repo[Q6])}.incomplete"
    size = part.stat().st_size
    assert 900_000 < size <= 1_000_000
    assert part.read_bytes() == repo[Q6][:size]
    site.log.clear()
    # What huggingface-hub before 1.0 did not try again by itself.
    site.fail.clear()
    found = cli("pull", f"{SPEC}/{Q6}", *ASKED, "--format", "json")
    assert found.code == 0, found.err
    assert found.json["proven"] is True
    assert found.json["to_download"] == len(repo[Q6]) - size
    assert [r for r in site.sent_ranges if r.startswith(f"bytes={size}-")]
    assert not part.exists()


def test_what_is_not_as_published_is_not_ready(cli: Any, site: Site) -> None:
    class Other(dict[str, bytes]):
        """What is listed is not what is sent."""

        def get(self, key: str, default: Any = None) -> Any:
            data = bytearray(self[key])
            data[-1] ^= 1
            return bytes(data)

    few(site, "Q4_0")
    site.repos[REPO] = Other(site.repos[REPO])
    found = cli("pull", f"{SPEC}/{Q4}", *ASKED, "--format", "json")
    assert found.code == 1
    assert (found.json["proven"], found.json["launch"]) == (False, None)
    assert any("sha256" in text for text in found.json["not_ready"])
    shown = cli("pull", f"{SPEC}/{Q4}", *ASKED)
    assert "not what was published" in shown.out
    assert "gguftool launch" not in shown.out


def test_what_does_not_fit_or_load_is_not_ready(cli: Any, site: Site, tmp_path: Path) -> None:
    few(site, "Q4_0", "Q5_0")
    none = cli("pull", SPEC, "--ctx", "32768", "--vram", "1GiB", "--ram", "64MiB")
    assert none.code == 5
    assert f"none of its 2 quantisations fits; {Q4} is the least over, by " in none.err
    assert f"gguftool plan {SPEC} " in none.err
    assert downloads(site) == []
    over = cli("pull", f"{SPEC}:Q4_0", "--ctx", "32768", "--vram", "1GiB", "--ram", "64MiB")
    assert over.code == 5
    assert "not ready to be launched\n  it does not fit" in over.out
    assert "gguftool launch" not in over.out
    cut = cli("pull", f"{SPEC}:Q5_0", *ASKED)
    assert cut.code == 3
    assert "gguftool launch" not in cut.out
    site.repos[REPO]["strange-Q8_0.gguf"] = model("Q4_0").replace("general.architecture", "nobody").bytes()
    assert cli("pull", f"{SPEC}/strange-Q8_0.gguf", *ASKED).code == 1


@pytest.mark.parametrize("store", ["Ollama", "LM Studio", "llama.cpp"])
def test_never_a_second_copy(cli: Any, site: Site, tmp_path: Path, store: str) -> None:
    repo = few(site, "Q4_0")
    home = tmp_path / "home"
    if store == "Ollama":
        stores.ollama(tmp_path / "ollama", "registry.ollama.ai/library/tiny/latest", repo[Q4])
    elif store == "LM Studio":
        stores.put(home / ".lmstudio/models/other/name" / "x.gguf", repo[Q4])
    else:
        stores.put(home / ".cache/llama.cpp" / f"owner_tiny_{Q4}", repo[Q4])
    found = cli("pull", f"{SPEC}:Q4_0", *ASKED, "--format", "json")
    assert found.code == 0, found.err
    [file] = found.json["files"]
    assert (file["how"], file["store"]) == ("elsewhere", store)
    assert Path(file["path"]).read_bytes() == repo[Q4]
    assert found.json["proven"] is True
    assert found.json["launch"][2] == file["path"]
    assert downloads(site) == []
    assert not cache(tmp_path).exists()


def test_of_the_same_size_is_not_the_same(cli: Any, site: Site, tmp_path: Path) -> None:
    repo = few(site, "Q4_0")
    stores.put(tmp_path / "home/.lmstudio/models/other/name/x.gguf", repo[Q4][:-1] + b"\x01")
    found = cli("pull", f"{SPEC}:Q4_0", *ASKED, "--format", "json")
    assert found.json["files"][0]["how"] == "downloaded"


def test_ollama_names_its_blob(cli: Any, tmp_path: Path) -> None:
    ollama_store(tmp_path)
    found = cli("pull", "ollama://tiny", "--ctx", "64", "--ram", "8GiB", "--vram", "8GiB", "--format", "json")
    assert found.code == 0, found.err
    assert found.json["proven"] is True, "the blob is named by its sha256"
    assert os.path.dirname(found.json["path"]) == str(tmp_path / "ollama/blobs")
    assert found.json["launch"][:3] == ["gguftool", "launch", "ollama://tiny"]
    gone = cli("pull", "ollama://none")
    assert gone.code == 2
    assert "ollama pull none:latest" in gone.err


def test_what_is_not_on_the_hub(cli: Any, site: Site, tmp_path: Path) -> None:
    site.files["/x.gguf"] = model("Q4_0").bytes()
    web = cli("pull", f"{site.url}/x.gguf")
    assert web.code == 2
    assert f"curl -fLO -C - {site.url}/x.gguf" in web.err
    path = cli("pull", tmp_path / "x.gguf")
    assert path.code == 2
    assert "is no address" in path.err
    few(site, "Q4_0")
    assert cli("pull", f"{site.url}/{REPO}/resolve/main/{Q4}", *ASKED, "--dry-run").code == 0
    missing = cli("pull", f"{SPEC}/other.gguf")
    assert (missing.code, f"there are {Q4}" in missing.err) == (2, True)


def test_which_of_several_models_is_asked(cli: Any, site: Site) -> None:
    few(site, "Q4_0")
    site.repos[REPO]["second.gguf"] = model("Q4_0", "another one").bytes()
    found = cli("pull", SPEC, *ASKED)
    assert found.code == 2
    assert "holds several models" in found.err
    assert f"gguftool plan {SPEC} --ctx 4096" in found.err


def test_without_a_network_or_a_licence_or_room(
    cli: Any, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = few(site, "Q4_0")
    monkeypatch.setattr("gguftool.files.disk.free_bytes", lambda folder: 1000)
    full = cli("pull", f"{SPEC}:Q4_0", *ASKED)
    assert full.code == 5
    assert f"{len(repo[Q4]):,} bytes are needed for {Q4}, 1,000 are free; nothing was written" in full.err
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    site.token = "secret"
    gated = cli("pull", f"{SPEC}:Q4_0", *ASKED)
    assert gated.code == 6
    assert "a gated or private repository needs HF_TOKEN and an accepted licence" in gated.err
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert cli("pull", f"{SPEC}:Q4_0", *ASKED).code == 0
    site.token = None
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    site.log.clear()
    here = cli("pull", f"{SPEC}:Q4_0", *ASKED)
    assert here.code == 0
    assert "proven: its sha256 is as published" in here.out, "the cache has it in the name of its blob"
    away = cli("pull", f"{SPEC}:Q6_K", *ASKED)
    assert away.code == 2
    other = cli("pull", "hf://owner/other", *ASKED)
    assert other.code == 6
    assert "HF_HUB_OFFLINE forbids the network" in other.err
    assert site.log == []


def test_a_file_of_somebody_else_is_not_replaced(cli: Any, site: Site, tmp_path: Path) -> None:
    repo = few(site, "Q4_0")
    out = tmp_path / "out"
    out.mkdir()
    (out / Q4).write_bytes(b"mine")
    found = cli("pull", f"{SPEC}:Q4_0", "--local-dir", out, *ASKED)
    assert found.code == 4
    assert "--force replaces it" in found.err
    assert (out / Q4).read_bytes() == b"mine"
    assert cli("pull", f"{SPEC}:Q4_0", "--local-dir", out, "--force", *ASKED).code == 0
    assert (out / Q4).read_bytes() == repo[Q4]


@pytest.mark.parametrize("path", ["../x-Q4_0.gguf", "/tmp/x-Q4_0.gguf", "a/../../x-Q4_0.gguf", "a\\..\\x-Q4_0.gguf"])
def test_no_path_of_a_hub_leads_out_of_the_folder(cli: Any, site: Site, tmp_path: Path, path: str) -> None:
    site.repos[REPO] = {path: model("Q4_0").bytes()}
    out = tmp_path / "deep" / "out"
    for spec in (SPEC, f"{SPEC}:Q4_0"):
        assert cli("pull", spec, "--local-dir", out, *ASKED).code == 2
    assert not list((tmp_path / "deep").rglob("*.gguf*")) if out.exists() else not (tmp_path / "deep").exists()


def test_what_is_unfinished_stays_when_the_program_is_ended(tmp_path: Path) -> None:
    part, whole = str(tmp_path / "d" / "x.incomplete"), str(tmp_path / "e" / "x")
    with pytest.raises(KeyboardInterrupt), partial(part, whole, 10) as f:
        f.write(b"12345")
        raise KeyboardInterrupt
    assert Path(part).read_bytes() == b"12345"
    with partial(part, whole, 10) as f:
        assert f.tell() == 5
        f.write(b"67890")
    assert (Path(whole).read_bytes(), Path(part).exists()) == (b"1234567890", False)
    Path(part).write_bytes(b"longer than it can be")
    with partial(part, whole, 10) as f:
        assert f.tell() == 0
        f.write(b"anew")
    assert Path(whole).read_bytes() == b"anew"


def in_pieces(site: Site) -> bytes:
    """Q8_0 cut into raw pieces, as some publish what is larger than the Hub took."""
    few(site, "Q4_0")
    whole = files()[f"{NAME}-Q8_0.gguf"]
    for n, (a, b) in enumerate(((0, 1_500_000), (1_500_000, len(whole))), 1):
        site.repos[REPO][f"{NAME}-Q8_0.gguf.part{n}of2"] = whole[a:b]
    return whole


def test_raw_pieces_are_one_row_and_one_download(cli: Any, site: Site, tmp_path: Path) -> None:
    whole = in_pieces(site)
    rows = cli("plan", SPEC, *ASKED, "--format", "json").json
    row = rows["models"][0]
    assert (row["name"], row["size"], row["raw_pieces"]) == (f"{NAME}-Q8_0.gguf", len(whole), True)
    assert (row["standing"], row["load"]["verdict"]) == ("fits", "loads"), "as it is when put together"
    assert [c[1] for c in rows["commands"]] == ["pull"]
    found = cli("pull", f"{SPEC}:Q8_0", *ASKED, "--local-dir", tmp_path / "out", "--format", "json")
    assert found.code == 1
    assert found.json["proven"] is True
    assert [f["name"] for f in found.json["files"]] == [f"{NAME}-Q8_0.gguf.part{n}of2" for n in (1, 2)]
    [why] = found.json["not_ready"]
    out = tmp_path / "out" / f"{NAME}-Q8_0.gguf"
    assert why.endswith(f"gguftool verify --join {out} {out}.part1of2")
    assert cli("verify", "--join", out, f"{out}.part1of2").code == 0
    assert out.read_bytes() == whole


def test_a_set_that_is_not_whole_is_not_begun(cli: Any, site: Site) -> None:
    few(site, "BF16")
    del site.repos[REPO][f"BF16/{NAME}-BF16-00002-of-00003.gguf"]
    found = cli("pull", f"{SPEC}/{BF16}", *ASKED)
    assert found.code == 3
    assert "has 2 of 3 of its files" in found.err
    assert downloads(site) == []
    shown = cli("plan", f"{SPEC}/BF16", *ASKED)
    assert shown.code == 3


def test_the_token_stays_with_the_hub(site: Site, storage: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a process of its own: which hosts are the Hub's, huggingface-hub makes out once, when it is imported."""
    repo = few(site, "Q4_0")
    storage.files[f"/blob/{Q4}"] = repo[Q4]
    # A host is told by its name, not by its port, before huggingface-hub 2.
    site.redirect, site.token = storage.url.replace("127.0.0.1", "localhost"), "secret"
    monkeypatch.setenv("HF_TOKEN", "secret")
    command = [sys.executable, "-m", "gguftool", "pull", f"{SPEC}/{Q4}", *ASKED, "--format", "json"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["proven"] is True
    assert [r for r in storage.log if r.method == "GET"]
    assert all("authorization" not in r.headers for r in storage.log)
    assert "secret" not in found.stderr + found.stdout


def test_a_projector_that_is_named(cli: Any, site: Site, tmp_path: Path) -> None:
    repo = few(site, "Q4_0", "mmproj")
    site.repos[REPO]["mmproj-small-F16.gguf"] = repo["mmproj-F16.gguf"]
    named = f"{SPEC}/mmproj-small-F16.gguf"
    found = cli("pull", f"{SPEC}:Q4_0", *ASKED, "--mmproj", named, "--format", "json")
    assert found.code == 0, found.err
    [side] = found.json["beside"]
    assert side["name"] == "mmproj-small-F16.gguf"
    assert found.json["launch"][found.json["launch"].index("--mmproj") + 1] == side["path"]
    other = cli("pull", f"{SPEC}:Q4_0", *ASKED, "--mmproj", "hf://owner/other/mmproj.gguf")
    assert other.code == 2
    assert "gguftool pull hf://owner/other/mmproj.gguf" in other.err
