"""Models by address: the Hub and its cache, web addresses, the store of Ollama; with the Hub's answers recorded."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from gguftool import hub
from gguftool.errors import MissingFile, ToolFailed, UsageError
from gguftool.hub.address import HubAddress, hub_address, ollama_name
from gguftool.hub.cache import pick
from tests.build import llama
from tests.hub.server import Site
from tests.verify.sets import pieces, typed


@pytest.mark.parametrize(
    ("spec", "address"),
    [
        ("hf://o/r/m.gguf", HubAddress("o/r", "m.gguf")),
        ("hf://o/r/sub/m.gguf", HubAddress("o/r", "sub/m.gguf")),
        ("hf://o/r:Q4_K_M", HubAddress("o/r", "", "Q4_K_M")),
        ("hf://o/r", HubAddress("o/r")),
        ("hf://o/r.x-1@v1.2/m.gguf", HubAddress("o/r.x-1", "m.gguf", "", "v1.2")),
        ("hf://o/r@abc:Q8_0", HubAddress("o/r", "", "Q8_0", "abc")),
    ],
)
def test_addresses(spec: str, address: HubAddress):
    assert hub_address(spec) == address
    assert str(address) == spec


@pytest.mark.parametrize("spec", ["hf://", "hf://o", "hf://o/r/../x", "hf:///r/m"])
def test_not_an_address(spec: str):
    with pytest.raises(UsageError):
        hub_address(spec)


FILES = [
    "README.md", "m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-Q8_0.gguf", "m-UD-Q4_K_M.gguf", "m-IQ4_XS.gguf",
    "mmproj-F16.gguf", "BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf", "m.Q5_K_M.gguf",
]  # fmt: skip


@pytest.mark.parametrize(
    ("quant", "found"),
    [
        ("Q4_K_M", ["m-Q4_K_M.gguf"]),
        ("q4_k_m", ["m-Q4_K_M.gguf"]),
        ("UD-Q4_K_M", ["m-UD-Q4_K_M.gguf"]),
        ("Q8_0", ["m-Q8_0.gguf"]),
        ("BF16", ["BF16/m-BF16-00001-of-00002.gguf"]),
        ("Q5_K_M", ["m.Q5_K_M.gguf"]),
        ("Q4_K", []),
        ("Q2_K", []),
    ],
)
def test_quantisation_is_picked_by_label(quant: str, found: list[str]):
    assert pick(FILES, quant) == found


def test_a_repository_whose_name_only_looks_like_a_sidecar():
    """`mtp-` may be part of a model's own name; without another file it is the model."""
    assert pick(["x-mtp-7b-Q4_0.gguf", "README.md"], "Q4_0") == ["x-mtp-7b-Q4_0.gguf"]
    assert pick(["x.gguf", "x-mmproj-f16.gguf", "mtp-x.gguf", "x.imatrix.gguf"], "") == ["x.gguf"]


class TestHub:
    def test_header_only(self, site: Site, cli):
        data = llama().bytes() + bytes(32 << 20)
        site.repos["o/r"] = {"m.gguf": data}
        model = hub.open_any("hf://o/r/m.gguf", strict=False)
        assert model.name == "hf://o/r/m.gguf"
        assert (model.architecture, model.file_size) == ("llama", len(data))
        result = cli("verify", "hf://o/r/m.gguf", "--format", "json")
        assert result.code == 1
        assert [p["kind"] for p in result.json["files"][0]["problems"]] == ["excess"]
        assert sum(1 for r in site.log if r.method == "GET") <= 4

    def test_by_quantisation(self, site: Site):
        site.repos["o/r"] = {"m-Q4_0.gguf": llama().bytes(), "m-Q8_0.gguf": llama(layers=2).bytes()}
        assert hub.open_any("hf://o/r:Q8_0").name == "hf://o/r/m-Q8_0.gguf"
        with pytest.raises(UsageError, match=r"no file fits: m-Q4_0\.gguf, m-Q8_0\.gguf"):
            hub.open_any("hf://o/r:Q2_K")
        with pytest.raises(UsageError, match="several models"):
            hub.open_any("hf://o/r")

    def test_shards(self, site: Site, cli):
        shards = pieces(typed("q4_0"), [20, 38])
        names = [f"x/m-{i + 1:05d}-of-00003.gguf" for i in range(3)]
        site.repos["o/r"] = {n: s.bytes() for n, s in zip(names, shards, strict=True)}
        model = hub.open_any(f"hf://o/r/{names[1]}")
        assert [p.name for p in model.parts] == [f"hf://o/r/{n}" for n in names]
        assert len(model.tensors) == 56
        assert cli("verify", f"hf://o/r/{names[0]}").code == 0
        del site.repos["o/r"][names[2]]
        result = cli("verify", f"hf://o/r/{names[0]}", "--format", "json")
        assert result.code == 3
        assert result.json["set"]["missing"] == [3]

    def test_missing_things(self, site: Site):
        site.repos["o/r"] = {"README.md": b"x"}
        with pytest.raises(MissingFile):
            hub.open_any("hf://o/r/m.gguf")
        with pytest.raises(MissingFile, match=r"no \.gguf file"):
            hub.open_any("hf://o/r:Q4_0")
        with pytest.raises(MissingFile):
            hub.open_any("hf://o/none:Q4_0")
        with pytest.raises(MissingFile):
            hub.open_any("hf://o/r@v9:Q4_0")

    def test_gated_repository(self, site: Site):
        site.repos["o/r"] = {"m-Q4_0.gguf": llama().bytes()}
        site.token = "t"
        for spec in ("hf://o/r:Q4_0", "hf://o/r/m-Q4_0.gguf"):
            with pytest.raises(ToolFailed, match="restricted"):
                hub.open_any(spec)

    def test_token_from_the_file_of_the_login(self, site: Site, tmp_path: Path):
        site.repos["o/r"] = {"m-Q4_0.gguf": llama().bytes()}
        site.token = "t"
        home = tmp_path / "hf-home"
        home.mkdir()
        (home / "token").write_text("t\n")
        assert hub.open_any("hf://o/r:Q4_0").architecture == "llama"

    def test_page_address_from_the_browser(self, site: Site):
        """/blob/ is an HTML page; /resolve/ is the file. People copy the first."""
        site.repos["o/r"] = {"m.gguf": llama().bytes()}
        assert hub.open_any(f"{site.url}/o/r/blob/main/m.gguf").architecture == "llama"

    def test_blob_in_the_address_of_another_host_stays(self, storage: Site):
        storage.files["/o/r/blob/main/m.gguf"] = llama().bytes()
        assert hub.open_any(f"{storage.url}/o/r/blob/main/m.gguf").architecture == "llama"

    def test_hash_of_a_remote_file(self, site: Site, cli):
        data = llama(layers=3).bytes()
        site.repos["o/r"] = {"m.gguf": data}
        assert cli("hash", "hf://o/r/m.gguf").out == f"{hashlib.sha256(data).hexdigest()}  hf://o/r/m.gguf\n"


def test_scan_of_a_repository_and_of_an_owner(site: Site, cli):
    site.repos["o/r"] = {"a-Q4_0.gguf": llama().bytes(), "b-Q8_0.gguf": llama(layers=2).bytes(), "README.md": b"x"}
    site.repos["o/s"] = {"c.gguf": llama().truncate(-50).bytes()}
    site.repos["p/t"] = {"d.gguf": llama().bytes()}
    result = cli("scan", "--no-lint", "hf://o/r", "--format", "json")
    assert [row["path"] for row in result.json["models"]] == ["hf://o/r/a-Q4_0.gguf", "hf://o/r/b-Q8_0.gguf"]
    assert result.code == 0
    result = cli("scan", "--no-lint", "--jobs", "1", "hf://o", "--format", "json")
    assert [(row["path"], row["ok"]) for row in result.json["models"]][2] == ("hf://o/s/c.gguf", False)
    assert result.json["counts"] == {"models": 3, "whole": 2, "broken": 1}


class TestAgainstTheHub:
    @pytest.fixture
    def local(self, tmp_path: Path) -> Path:
        return llama().write(tmp_path / "m.gguf")

    def test_record_of_the_repository(self, site: Site, cli, local: Path):
        site.repos["o/r"] = {"m.gguf": local.read_bytes(), "other.gguf": b"x"}
        for spec in ("hf://o/r", "hf://o/r/m.gguf", f"{site.url}/o/r/resolve/main/m.gguf"):
            result = cli("verify", "--against", spec, local, "--format", "json")
            assert result.code == 0
            assert [n["kind"] for n in result.json["files"][0]["notes"]] == ["hash-ok"]
        site.repos["o/r"]["m.gguf"] = b"another version"
        result = cli("verify", "--against", "hf://o/r", local, "--format", "json")
        assert result.code == 1
        assert "the Hub (hf://o/r) says 15" in result.json["files"][0]["problems"][0]["message"]

    def test_foreign_shard_is_found_by_its_hash(self, site: Site, cli, tmp_path: Path):
        """Same shapes, same types, another fine-tune: only the published hashes can tell."""
        shards = [s.bytes() for s in pieces(typed("q4_0"), [20, 38])]
        names = [f"m-{i + 1:05d}-of-00003.gguf" for i in range(3)]
        site.repos["o/r"] = dict(zip(names, shards, strict=True))
        for name, data in zip(names, shards, strict=True):
            (tmp_path / name).write_bytes(data)
        other = bytearray(shards[1])
        other[-50:] = bytes(50)
        (tmp_path / names[1]).write_bytes(other)
        assert cli("verify", tmp_path / names[0]).code == 0
        result = cli("verify", "--against", "hf://o/r", tmp_path / names[0], "--format", "json")
        assert result.code == 1
        assert [f["ok"] for f in result.json["files"]] == [True, False, True]

    def test_list_on_a_web_server(self, site: Site, cli, local: Path):
        site.files["/d/SHA256SUMS"] = f"{hashlib.sha256(local.read_bytes()).hexdigest()}  m.gguf\n".encode()
        assert cli("verify", "--against", site.url + "/d/SHA256SUMS", local).code == 0
        site.files["/d/SHA256SUMS"] = b"ab" * 32 + b"  m.gguf\n"
        assert cli("verify", "--against", site.url + "/d/SHA256SUMS", local).code == 1
        assert cli("verify", "--against", site.url + "/none", local).code == 2

    def test_file_that_the_hub_does_not_have(self, site: Site, cli, local: Path):
        site.repos["o/r"] = {"x.gguf": b"x"}
        result = cli("verify", "--against", "hf://o/r", local, "--format", "json")
        assert result.code == 1
        assert [p["kind"] for p in result.json["files"][0]["problems"]] == ["not-listed"]

    def test_offline(self, cli, local: Path, monkeypatch):
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        result = cli("verify", "--against", "hf://o/r", local)
        assert result.code == 6
        assert "use a manifest or SHA256SUMS" in result.err
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        assert cli("verify", "--against", "hf://o/r", local).code == 6
        assert cli("verify", "hf://o/r/m.gguf").code == 6

    def test_offline_is_about_the_hub_only(self, storage: Site, cli, monkeypatch):
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        storage.files["/m.gguf"] = llama().bytes()
        assert cli("verify", storage.url + "/m.gguf").code == 0
        assert cli("verify", "https://huggingface.co/o/r/resolve/main/m.gguf").code == 6

    def test_repair_fetches_only_the_bad_tensor(self, site: Site, cli, local: Path, tmp_path: Path):
        good = local.read_bytes()
        site.repos["o/r"] = {"m.gguf": good + b""}
        listed = tmp_path / "list"
        cli("verify", "--write-manifest", listed, local)
        data = bytearray(good)
        data[-100] ^= 1
        local.write_bytes(data)
        result = cli("verify", "--against", listed, "--repair-from", "hf://o/r/m.gguf", local, "--format", "json")
        assert result.code == 0
        assert local.read_bytes() == good

    def test_cut_off_download_gets_its_rest(self, site: Site, cli, tmp_path: Path):
        """Only the header and what is missing cross the network."""
        model = llama()
        model.tensor("big", (1 << 12, 1 << 10), "f32", data=bytes(range(256)) * (1 << 16))
        good = model.bytes()
        site.repos["o/r"] = {"m.gguf": good}
        local = tmp_path / "m.gguf"
        local.write_bytes(good[: len(good) - 300_000])
        sha = hashlib.sha256(good).hexdigest()
        result = cli("verify", "--sha256", sha, "--repair-from", "hf://o/r/m.gguf", local, "--format", "json")
        assert result.code == 0, result.err
        assert local.read_bytes() == good
        assert result.json["repaired"][0]["fetched"] == 300_000
        sent = [r.split("=")[1].split("-") for r in site.sent_ranges]
        assert sum(min(int(b), len(good) - 1) - int(a) + 1 for a, b in sent) < 2_000_000


class TestCache:
    """Case 146: what is here is used from here, without a network."""

    @pytest.fixture
    def cached(self, tmp_path: Path, monkeypatch) -> tuple[Path, bytes]:
        data = llama().bytes()
        repo = tmp_path / "hf-home" / "hub" / "models--o--r"
        commit = "c" * 40
        for folder in ("blobs", "refs", f"snapshots/{commit}"):
            (repo / folder).mkdir(parents=True)
        blob = repo / "blobs" / hashlib.sha256(data).hexdigest()
        blob.write_bytes(data)
        (repo / "refs" / "main").write_text(commit)
        link = repo / "snapshots" / commit / "m-Q4_0.gguf"
        link.symlink_to(f"../../blobs/{blob.name}")
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        return link, data

    @pytest.mark.parametrize(
        "spec",
        [
            "hf://o/r/m-Q4_0.gguf",
            "hf://o/r:Q4_0",
            "hf://o/r",
            f"hf://o/r@{'c' * 40}/m-Q4_0.gguf",
            "https://huggingface.co/o/r/resolve/main/m-Q4_0.gguf",
        ],
    )
    def test_is_found(self, cached, cli, spec: str):
        link, _ = cached
        assert hub.local_path(spec) == str(link)
        assert hub.open_any(spec).name == str(link)
        result = cli("verify", "--hash", spec, "--format", "json")
        assert result.code == 0
        assert [n["kind"] for n in result.json["files"][0]["notes"]] == ["hash-ok"]

    def test_what_is_not_there_goes_to_the_network(self, cached):
        with pytest.raises(ToolFailed):
            hub.open_any("hf://o/r/other.gguf")

    def test_other_places(self, cached, monkeypatch, tmp_path: Path):
        (tmp_path / "hf-home" / "hub").rename(tmp_path / "elsewhere")
        assert hub.local_path("hf://o/r/m-Q4_0.gguf") is None
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "elsewhere"))
        assert hub.local_path("hf://o/r/m-Q4_0.gguf") is not None


class TestOllama:
    def test_is_edited_as_a_copy(self, store, cli, tmp_path: Path):
        blob, _ = store
        before = blob.read_bytes()
        refused = cli("fix", "ollama://tiny", "--set", "general.name=x")
        assert refused.code == 4
        assert "lies in the Ollama or Docker store" in refused.err
        copy = tmp_path / "copy.gguf"
        assert cli("fix", "ollama://tiny", "--set", "general.name=x", "--output", copy).code == 0
        assert hub.open_any(str(copy))["general.name"] == "x"
        assert blob.read_bytes() == before

    @pytest.fixture
    def store(self, tmp_path: Path) -> tuple[Path, str]:
        data = llama().bytes()
        digest = hashlib.sha256(data).hexdigest()
        root = tmp_path / "ollama"
        (root / "blobs").mkdir(parents=True)
        blob = root / "blobs" / f"sha256-{digest}"
        blob.write_bytes(data)
        for place in ("registry.ollama.ai/library/tiny/latest", "registry.ollama.ai/me/tiny/q4", "hf.co/o/r/Q4_0"):
            manifest = root / "manifests" / place
            manifest.parent.mkdir(parents=True)
            layers = [
                {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "0" * 64, "size": 1},
                {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}", "size": len(data)},
            ]
            manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
        return blob, digest

    @pytest.mark.parametrize(
        "spec",
        [
            "ollama://tiny",
            "ollama://tiny:latest",
            "ollama://me/tiny:q4",
            "ollama://hf.co/o/r:Q4_0",
            "ollama://library/tiny",
        ],
    )
    def test_is_found(self, store, cli, spec: str):
        blob, digest = store
        assert hub.open_any(spec).name == str(blob)
        result = cli("verify", "--hash", spec, "--format", "json")
        assert result.code == 0
        assert result.json["files"][0]["sha256"] == digest

    def test_missing_model_names_those_there_are(self, store, cli):
        result = cli("verify", "ollama://tiny:7b")
        assert result.code == 2
        assert "there are hf.co/o/r:Q4_0, me/tiny:q4, tiny:latest" in result.err
        assert "ollama pull tiny:7b" in result.err

    def test_blob_that_is_gone(self, store):
        store[0].unlink()
        with pytest.raises(MissingFile, match="its data is gone"):
            hub.open_any("ollama://tiny")

    def test_names(self):
        assert ollama_name("ollama://a/b/c:d").short == "a/b/c:d"
        assert ollama_name("ollama://x").short == "x:latest"
        for bad in ("ollama://", "ollama://a/b/c/d", "ollama://../x"):
            with pytest.raises(UsageError):
                ollama_name(bad)
