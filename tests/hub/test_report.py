"""A report on what lies elsewhere: a repository, and one file of it, from headers alone."""

from __future__ import annotations

from typing import Any

from tests.hub.quantised import MIXTURES, NAME, files
from tests.hub.server import Site
from tests.json_schemas import check_schema
from tests.report.page.test_hostile import check

REPO = "owner/tiny-GGUF"


def test_a_repository_and_one_file_of_it(cli: Any, site: Site, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    site.repos[REPO] = {name: data for name, data in files().items() if "BF16" not in name}
    done = cli("report", f"hf://{REPO}", "--vram", "2GiB", "--ram", "8GiB", "--format", "json")
    check_schema(done.json)
    assert done.json["kind"] == "repository"
    names = {row["name"] for row in done.json["repository"]["models"]}
    assert names == {f"{NAME}-{kind}.gguf" for kind in (*MIXTURES, "Q5_0") if kind != "BF16"}
    best = done.json["repository"]["best"]
    assert best in done.json["verdict"]["sentence"]
    assert [c["command"].split()[:2] for c in done.json["verdict"]["commands"]] == [
        ["gguftool", "pull"], ["gguftool", "launch"],
    ]  # fmt: skip
    assert cli("report", f"hf://{REPO}").out == "wrote tiny-GGUF.html\n"
    page = (tmp_path / "tiny-GGUF.html").read_text()
    check(page)
    assert all(name in page for name in names)
    one = f"hf://{REPO}/{NAME}-Q4_K_M.gguf"
    found = cli("report", one, "--format", "json").json
    check_schema(found)
    assert found["model"]["quantisation"]["mixture"]["target"] == "Q4_K_M"
    assert found["model"]["identity"]["file_size"] == len(files()[f"{NAME}-Q4_K_M.gguf"])
    # What lies elsewhere is fetched before anything can be mended.
    assert [c["command"] for c in found["verdict"]["commands"]] == [f"gguftool pull {one}"]
    refused = cli("report", one, "--data", "--format", "json")
    assert refused.code == 2
    assert "gguftool pull" in refused.json["errors"][0]["hint"]
