"""Bills of materials: valid by the published schemas, and what stands in them is what the files say."""

from __future__ import annotations

import hashlib
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from spdx_tools.spdx.parser.error import SPDXParsingError
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

import gguftool
from gguftool.fleet.bill import bill
from gguftool.model import open_model
from tests.build import GGUF, llama
from tests.lint.samples import ready, zeroed
from tests.lint.samples_tokenizer import CHATML, bpe

HARM = "{{ cycler.__init__.__globals__.os.popen('id').read() }}"
ODD = 'x"\\\n</script>\x1b[2J\u202e |`é\udcff'
EPOCH = "1700000000"


def put(path: Path, g: GGUF) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zeroed(g).bytes())


def base(g: GGUF, i: int, name: str) -> GGUF:
    owner, _, model = name.partition("/")
    g.kv(f"general.base_model.{i}.name", model).kv(f"general.base_model.{i}.organization", owner)
    return g.kv(f"general.base_model.{i}.repo_url", f"https://huggingface.co/{name}")


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    z = tmp_path / "zoo"
    a = base(base(ready().kv("general.license", "apache-2.0"), 0, "Org/One"), 1, "Org/Two")
    a.replace("general.name", "Alpha").kv("general.version", "v1.2").kv("general.quantized_by", "me (here)")
    a.kv("general.repo_url", "https://huggingface.co/me/Alpha-GGUF").kv("general.organization", "Org")
    a.kv("general.dataset.0.name", "Data").kv("general.dataset.0.repo_url", "https://huggingface.co/datasets/Org/Data")
    put(z / "a" / "alpha.gguf", a.kv("general.tags", ["chat", "chat"]).kv("general.languages", ["en", "de"]))
    put(z / "b.gguf", base(ready().kv("general.license", "gemma"), 0, "Org/One"))
    other = ready().kv("general.license", "other").kv("general.license.name", "Mine 1.0")
    put(z / "c.gguf", other.kv("general.license.link", "https://example.org/l"))
    put(
        z / "d.gguf",
        ready().drop("llama.kv_cache_type").kv("general.license", "MIT OR (Apache-2.0 AND LicenseRef-x y)"),
    )
    put(
        z / "e.gguf",
        ready()
        .drop("llama.kv_cache_type")
        .kv("general.license", "mit OR apache-2.0 AND gpl-3.0 WITH Classpath-exception-2.0"),
    )
    put(z / "f.gguf", bpe().replace("tokenizer.chat_template", HARM))
    odd = ready().replace("general.name", ODD).kv("general.license", ODD).kv("general.author", ODD)
    odd.kv("general.quantized_by", ODD).kv("general.repo_url", "javascript:alert(1)").kv("general.tags", [ODD])
    odd.kv("general.base_model.0.name", ODD).kv("general.base_model.0.repo_url", f"https://x/{ODD}")
    put(z / "o ü.gguf", odd.kv("general.description", ODD).kv("general.url", "https://ex ample.org"))
    put(z / "p.gguf", GGUF("clip").kv("general.type", "mmproj").tensor("v.patch_embd.weight"))
    (z / "broken.gguf").write_bytes(b"<html>")
    put(tmp_path / "whole.gguf", llama(layers=2).replace("general.name", "Set").kv("general.license", "cc-by-nc-4.0"))
    (z / "set").mkdir()
    gguftool.split(tmp_path / "whole.gguf", str(z / "set" / "s"), max_tensors=8)
    return z


@cache
def strict() -> JsonStrictValidator:
    return JsonStrictValidator(SchemaVersion.V1_6)


def cyclonedx(text: str) -> dict[str, Any]:
    assert strict().validate_str(text) is None
    found: dict[str, Any] = json.loads(text)
    refs = [c["bom-ref"] for c in found["components"]]
    refs += [x["bom-ref"] for c in found["components"] for x in c.get("components", ())]
    refs += [v["bom-ref"] for v in found.get("vulnerabilities", ())]
    assert len(refs) == len(set(refs))
    return found


def spdx(text: str, folder: Path) -> dict[str, Any]:
    path = folder / "bill.spdx.json"
    path.write_text(text)
    try:
        document = parse_file(str(path))
    except SPDXParsingError as error:
        pytest.fail("; ".join(error.get_messages()))
    assert [m.validation_message for m in validate_full_spdx_document(document)] == []
    found: dict[str, Any] = json.loads(text)
    return found


def test_cyclonedx(cli: Any, zoo: Path) -> None:
    done = cli("scan", "--jobs", "1", zoo, "--format", "cyclonedx")
    found = cyclonedx(done.out)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert found["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    of = {next(p["value"] for p in c["properties"] if p["name"] == "gguf:path"): c for c in found["components"]}
    a = of["a/alpha.gguf"]
    assert a["purl"] == "pkg:huggingface/me/Alpha-GGUF"
    assert (a["type"], a["name"], a["version"]) == ("machine-learning-model", "Alpha", "v1.2")
    digest = hashlib.sha256((zoo / "a" / "alpha.gguf").read_bytes()).hexdigest()
    assert a["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert a["licenses"] == [{"license": {"id": "Apache-2.0", "acknowledgement": "declared"}}]
    assert [(x["name"], x["purl"]) for x in a["pedigree"]["ancestors"]] == [
        ("One", "pkg:huggingface/Org/One"),
        ("Two", "pkg:huggingface/Org/Two"),
    ]
    assert (a["manufacturer"], a["supplier"]) == ({"name": "me (here)"}, {"name": "Org"})
    assert {"type": "distribution", "url": "https://huggingface.co/me/Alpha-GGUF"} in a["externalReferences"]
    card = a["modelCard"]["modelParameters"]
    assert (card["modelArchitecture"], card["task"], card["datasets"][0]["name"]) == (
        "llama",
        "text-generation",
        "Data",
    )
    facts = {p["name"]: p["value"] for p in a["properties"]}
    assert (facts["gguf:quantized_by"], facts["gguf:languages"], facts["gguf:whole"]) == ("me (here)", "en, de", "yes")
    assert a["tags"] == ["chat"]
    assert of["b.gguf"]["licenses"][0]["license"]["name"] == "Gemma Terms of Use"
    assert of["c.gguf"]["licenses"] == [
        {"license": {"name": "Mine 1.0", "acknowledgement": "declared", "url": "https://example.org/l"}}
    ]
    assert of["e.gguf"]["licenses"][0]["expression"] == "MIT OR Apache-2.0 AND GPL-3.0 WITH Classpath-exception-2.0"
    assert of["broken.gguf"]["type"] == "file"
    assert any(p["name"] == "gguf:error" for p in of["broken.gguf"]["properties"])
    # A set: one model, its files within it, each with its own hash.
    whole = next(c for c in found["components"] if c["name"] == "Set")
    assert "hashes" not in whole
    assert len(whole["components"]) > 1
    for file in whole["components"]:
        assert file["hashes"][0]["content"] == hashlib.sha256((zoo / file["name"]).read_bytes()).hexdigest()
    # What is true of several models is said once.
    texts = [x["text"] for x in found["annotations"]]
    assert len(texts) == len(set(texts))
    assert any(len(x["subjects"]) > 1 for x in found["annotations"])
    # Findings: annotations all, and harm is a vulnerability, too.
    noted = [x["text"] for x in found["annotations"] if of["f.gguf"]["bom-ref"] in x["subjects"]]
    assert any("chat-template-code" in text for text in noted)
    harm = [v for v in found["vulnerabilities"] if v["id"] == "chat-template-code"]
    assert [v["affects"] for v in harm] == [[{"ref": of["f.gguf"]["bom-ref"]}]]
    sum256 = hashlib.sha256(HARM.encode()).hexdigest()
    assert {"name": "gguf:chat_template_sha256", "value": sum256} in of["f.gguf"]["properties"]


def test_spdx(cli: Any, zoo: Path, tmp_path: Path) -> None:
    done = cli("scan", "--jobs", "1", zoo, "--format", "spdx")
    found = spdx(done.out, tmp_path)
    assert (found["spdxVersion"], found["creationInfo"]["created"]) == ("SPDX-2.3", "2023-11-14T22:13:20Z")
    of = {p["name"]: p for p in found["packages"]}
    a = of["Alpha"]
    digest = hashlib.sha256((zoo / "a" / "alpha.gguf").read_bytes()).hexdigest()
    assert a["checksums"] == [{"algorithm": "SHA256", "checksumValue": digest}]
    assert (a["licenseDeclared"], a["versionInfo"]) == ("Apache-2.0", "v1.2")
    assert (a["supplier"], a["originator"]) == ("Organization: me [here]", "Organization: Org")
    made_of = {
        (r["spdxElementId"], r["relatedSpdxElement"])
        for r in found["relationships"]
        if r["relationshipType"] == "DESCENDANT_OF"
    }
    assert (a["SPDXID"], of["Org/One"]["SPDXID"]) in made_of
    assert (a["SPDXID"], of["Org/Two"]["SPDXID"]) in made_of
    # A model that two others were made of stands there once.
    assert sum(p["name"] == "Org/One" for p in found["packages"]) == 1
    refs = {x["licenseId"]: x for x in found["hasExtractedLicensingInfos"]}
    assert refs["LicenseRef-Mine-1.0"]["seeAlsos"] == ["https://example.org/l"]
    assert refs["LicenseRef-gemma"]["name"] == "Gemma Terms of Use"
    parts = [p for p in found["packages"] if p["name"].startswith("set/")]
    assert len(parts) > 1
    for part in parts:
        assert part["checksums"][0]["checksumValue"] == hashlib.sha256((zoo / part["name"]).read_bytes()).hexdigest()
    assert any("chat-template-code" in x["comment"] for p in found["packages"] for x in p.get("annotations", ()))


@pytest.mark.parametrize("form", ["cyclonedx", "spdx"])
def test_the_same_again(cli: Any, zoo: Path, tmp_path: Path, form: str) -> None:
    """Byte for byte, however many processes make it and wherever the folder lies."""
    shutil.copytree(zoo, tmp_path / "elsewhere")
    one = cli("scan", "--jobs", "1", zoo, "--format", form)
    two = cli("scan", "--jobs", "2", tmp_path / "elsewhere", "--format", form)
    assert one.out.replace(str(zoo), "") == two.out.replace(str(tmp_path / "elsewhere"), "")
    put(zoo / "b.gguf", ready())
    assert json.loads(cli("scan", "--jobs", "1", zoo, "--format", form).out) != json.loads(one.out)


@pytest.mark.parametrize("form", ["cyclonedx", "spdx"])
def test_of_nothing_and_without_hashes(cli: Any, tmp_path: Path, form: str) -> None:
    (tmp_path / "empty").mkdir()
    put(tmp_path / "one" / "m.gguf", ready())
    for name, hashed in (("empty", False), ("one", False), ("one", True)):
        more = () if hashed else ("--no-hash",)
        done = cli("scan", "--no-lint", tmp_path / name, "--format", form, *more)
        text = done.out
        # An empty folder may be a disk that is not mounted: it is listed as what could not be read.
        assert done.code == (name == "empty")
        found = cyclonedx(text) if form == "cyclonedx" else spdx(text, tmp_path)
        said = found.get("components", found.get("packages"))
        assert len(said) == 1
        assert ("hashes" in text or "checksums" in text) is hashed


def test_what_a_bill_is_made_of(tmp_path: Path) -> None:
    put(tmp_path / "m.gguf", base(ready().kv("general.license", "cc-by-nc-4.0"), 0, "Org/One"))
    with open_model(tmp_path / "m.gguf") as m:
        found = bill(m, hashes=False)
    assert json.loads(json.dumps(found)) == found
    assert found["licence"]["use"] == "non-commercial"
    assert found["bases"][0]["repository"] == "Org/One"
    assert found["files"] == [
        {"path": str(tmp_path / "m.gguf"), "size": (tmp_path / "m.gguf").stat().st_size, "sha256": None}
    ]
    long = ready().replace("general.name", "n" * 100_000).kv("general.tags", ["t" * 9000] * 500)
    put(tmp_path / "l.gguf", long.kv("general.license", " AND ".join(["mit"] * 5000)))
    with open_model(tmp_path / "l.gguf") as m:
        assert len(json.dumps(bill(m, hashes=False))) < 30_000


def test_a_template_that_is_no_text(tmp_path: Path) -> None:
    put(tmp_path / "m.gguf", ready().kv("tokenizer.chat_template", 7))
    put(tmp_path / "n.gguf", ready().kv("tokenizer.chat_template", CHATML))
    with open_model(tmp_path / "m.gguf") as m, open_model(tmp_path / "n.gguf") as n:
        assert bill(m, hashes=False)["template_sha256"] is None
        assert bill(n, hashes=False)["template_sha256"] == hashlib.sha256(CHATML.encode()).hexdigest()


def test_of_the_hub_its_record_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    from gguftool.errors import ToolFailed
    from gguftool.fleet.bill import sha256_of
    from gguftool.hub.api import LfsRecord

    name = "hf://Org/Repo/m.gguf"
    monkeypatch.setattr("gguftool.hub.api.hub_records", lambda spec, paths: {name: LfsRecord("m.gguf", 5, "a" * 64)})
    assert sha256_of(name) == "a" * 64

    def refuses(spec: str, paths: list[str]) -> dict[str, LfsRecord]:
        raise ToolFailed("no network")

    monkeypatch.setattr("gguftool.hub.api.hub_records", refuses)
    assert sha256_of(name) is None


def test_from_the_library(tmp_path: Path) -> None:
    put(tmp_path / "m.gguf", ready().kv("general.license", "mit"))
    digest = hashlib.sha256((tmp_path / "m.gguf").read_bytes()).hexdigest()
    (row,) = gguftool.scan(tmp_path, lint=False, hashes=True)
    assert row["bill"] is not None
    assert row["bill"]["files"][0]["sha256"] == digest
    assert row["bill"]["licence"]["expression"] == "MIT"
    (row,) = gguftool.scan(tmp_path, lint=False)
    assert row["bill"] is None
