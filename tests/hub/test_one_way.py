"""One way from MODEL to files: every command sees the same model, whatever form it is named in.

The rows are the forms (path, any shard, folder, link, cache, Hub, web server, Ollama), the columns the commands. A
command that needs the data itself says so of what only a server has, and how to fetch it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gguftool import hub
from gguftool.errors import FormatError, UsageError
from gguftool.hub.address import web_address
from gguftool.hub.place import OnServer, locate
from tests.build import llama
from tests.hub.forms import FORMS, Named, hugging_face_cache, ollama_store, one, shards, vision, whole
from tests.hub.server import Site, serve


def tensors(result: Any) -> int:
    """Of the model; a projector in the same folder is another file."""
    files = result.json["files"]
    return sum(f["tensors"] for f in files if not any(n["kind"] == "role" for n in f["notes"]))


def findings(result: Any) -> set[str]:
    """The rules that found something, but for those about shards and about what the file is."""
    found = {f["rule"] for one in result.json["files"] for f in one["findings"]}
    return {rule for rule in found if not rule.startswith(("shard", "split", "not-a-model"))}


def hashes(result: Any) -> set[str]:
    """Of the model's tensors."""
    return {t["sha256"] for f in result.json["files"] for t in f["tensors"] if not t["name"].startswith(("v.", "mm."))}


def scanned(result: Any) -> set[int]:
    """Tensors of the model."""
    rows = [m["facts"] for m in result.json["models"]]
    return {row["tensors"] for row in rows if row["architecture"] != "clip"}


def shown(result: Any) -> object:
    """Of the first screen."""
    summary = result.json["summary"]
    return summary["name"], summary["role"], len(result.json["tensors"])


READERS: dict[str, tuple[list[str], Callable[[Any], object]]] = {
    "dump": (["--format", "json"], shown),
    "plan": (["--format", "json", "--ctx", "64"], lambda r: r.json["devices"][0]["weights"]),
    "lint": (["--format", "json", "--no-config"], findings),
    "verify": (["--format", "json"], tensors),
    "scan": (["--format", "json", "--jobs", "1"], scanned),
    "hash": (["--tensors", "--format", "json"], hashes),
}  # fmt: skip
DATA: dict[str, Callable[[str, Path], list[str]]] = {
    "launch": lambda spec, out: ["launch", "--print", "--force", "--ctx", "64", spec],
    "fix": lambda spec, out: ["fix", "-n", "--set", "general.name=x", spec],
    "fix output": lambda spec, out: ["fix", "--set", "general.name=x", "-o", str(out / "fixed.gguf"), spec],
    "undo": lambda spec, out: ["undo", "--list", spec],
    "recover": lambda spec, out: ["recover", spec],
    "split": lambda spec, out: ["split", "-n", "--max-tensors", "4", "-o", str(out / "x"), spec],
    "quantize": lambda spec, out: ["quantize", "--engine", "builtin", spec, str(out / "q.gguf"), "Q8_0"],
}  # fmt: skip


@pytest.fixture(params=FORMS, ids=lambda form: form.__name__)
def named(request: pytest.FixtureRequest, tmp_path: Path, site: Site) -> Named:
    found: Named = request.param(tmp_path, site)
    return found


@pytest.mark.parametrize("command", READERS)
def test_reading_commands_see_the_same_model(cli, named: Named, tmp_path: Path, command: str) -> None:
    options, fact = READERS[command]
    plain = cli(command, *options, str(whole(tmp_path / "plain")))
    result = cli(command, *options, named.spec)
    assert fact(result) == fact(plain)
    # llama.cpp does not find shards by the names of blobs, and verify says so.
    by_blob = "/blobs/" in named.spec and command in ("verify", "scan") and "shard-names" in result.out
    assert result.code == plain.code or by_blob, result.err


def test_diff_finds_no_difference(cli, named: Named, tmp_path: Path) -> None:
    result = cli("diff", named.spec, str(whole(tmp_path / "plain")), "--format", "json")
    gone = {row["key"] for row in result.json["keys"]}
    assert gone <= {"split.no", "split.count", "split.tensors.count"}, result.out
    assert not result.json["tensors"]


FEW = ("folder", "other_shard", "cached_quant", "ollama", "web")
LIKE_FIX = ("fix output", "undo", "recover")
CASES = [(command, form) for command in DATA for form in FORMS if command not in LIKE_FIX or form.__name__ in FEW]


@pytest.mark.parametrize(("command", "form"), CASES, ids=[f"{form.__name__}-{command}" for command, form in CASES])
def test_commands_that_need_the_data(
    cli, tmp_path: Path, site: Site, command: str, form: Callable[[Path, Site], Named]
) -> None:
    named = form(tmp_path, site)
    out = tmp_path / "out"
    out.mkdir()
    result = cli(*DATA[command](named.spec, out))
    if not named.near:
        assert result.code == 2
        assert "is not on this machine" in result.err
        assert "fetch it first: " in result.err
        assert os.listdir(out) == []
        return
    # A model of a store is never edited in place: the refusal is that of the store, not one of the name.
    kept = named.spec.lower().startswith(("hf://", "http", "ollama://")) or "hf-home" in named.spec
    assert result.code == (4 if command == "fix" and kept else 0), result.err
    assert command != "fix" or not kept or "lies in the" in result.err


@pytest.mark.parametrize("command", ["dump", "plan", "launch"])
@pytest.mark.parametrize("name", ["llava-v1-mmproj-f16.gguf", "mmproj-x.gguf", "eyes.gguf"])
def test_a_projector_beside_the_model_is_told(cli, tmp_path: Path, command: str, name: str) -> None:
    model = whole(tmp_path, "llava-v1.gguf")
    options = ["--print", "--force"] if command == "launch" else []
    assert "lies beside it" not in cli(command, *options, str(model)).err
    found = vision().write(tmp_path / name)
    for spec in (str(model), str(tmp_path)):
        err = cli(command, *options, spec).err
        assert f"{name} lies beside it; without --mmproj it takes text alone: " in err
        assert f"gguftool launch {model} --mmproj {found}" in err, "the command runs as it stands"
    if command != "dump":
        assert "lies beside it" not in cli(command, *options, "--mmproj", str(found), str(model)).err
    # The only one there, and of another model.
    vision(96).write(tmp_path / name)
    assert f"{name} lies beside it, but hardly for it: " in cli(command, *options, str(model)).err
    # Where several models share a folder, a projector of another width is another model's.
    llama(layers=1).write(tmp_path / "other.gguf")
    vision(4096).write(tmp_path / name)
    assert "lies beside it" not in cli(command, *options, str(model)).err


@pytest.mark.parametrize("command", ["lint", "verify", "hash", "scan"])
def test_of_a_folder_of_several_models_all_are_checked(cli, tmp_path: Path, command: str) -> None:
    whole(tmp_path, "a.gguf")
    shards(tmp_path, "b")
    result = cli(command, "--format", "json", str(tmp_path))
    assert result.code == cli(command, "--format", "json", str(tmp_path / "a.gguf")).code
    text = json.dumps(result.json)
    assert "a.gguf" in text
    assert "b-00001-of-00002.gguf" in text


@pytest.mark.parametrize("command", ["dump", "launch", "fix", "split", "undo", "recover", "kv-test", "quantize"])
def test_commands_for_one_model_ask_which(cli, tmp_path: Path, command: str) -> None:
    whole(tmp_path, "a.gguf")
    shards(tmp_path, "b")
    more = {"split": ["--max-tensors", "4"], "quantize": ["Q8_0"]}.get(command, [])
    result = cli(command, str(tmp_path), *more)
    assert result.code == 2
    assert "holds 2 models: a.gguf, b-00001-of-00002.gguf" in result.err


@pytest.mark.parametrize(
    "spec",
    [
        "http://host:abc/x.gguf", "http://[::1/x.gguf", "http://127.0.0.1:99999/x.gguf", "http:///x.gguf", "https://",
        "http://host:-1/x.gguf", "http://ho st/x.gguf", "http://host/a b.gguf", "http://host/\x01.gguf",
        "https://huggingface.co/o/r/resolve/main/../../../x.gguf",
        "https://huggingface.co/o/r/resolve/main/%2e%2e/%2e%2e/x.gguf", "https://huggingface.co/o/r/blob/../x.gguf",
        "hf://o/r/../../x.gguf", "hf://o/r@../x.gguf", "hf://../r/x.gguf", "hf://o", "ollama://", "ollama://a/../b",
        "ollama://tiny:..",
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["dump", "launch", "fix"])
def test_addresses_that_cannot_be(cli, spec: str, command: str) -> None:
    more = {"fix": ["--set", "general.name=x"], "launch": ["--print"]}.get(command, [])
    result = cli(command, *more, spec)
    assert result.code == 2
    assert len(result.err.strip().splitlines()) <= 2


@pytest.mark.parametrize(
    "digest", ["sha256:../../../../etc/passwd", "sha256:" + "g" * 64, "../x", "sha256:", "md5:ab/../../x"]
)
def test_odd_digests_of_a_manifest(tmp_path: Path, digest: str) -> None:
    with pytest.raises(FormatError, match="not a manifest"):
        hub.open_any(ollama_store(tmp_path, digest))


def test_letters_of_a_web_address() -> None:
    assert web_address("http://h/ä b.gguf".replace(" ", "%20"), "").url == "http://h/%C3%A4%20b.gguf"
    with pytest.raises(UsageError, match="%20"):
        web_address("http://h/a b.gguf", "")


def test_the_command_of_a_plan_gets_the_model_from_where_it_was_read(cli, tmp_path: Path, site: Site) -> None:
    def source(spec: str) -> list[str]:
        command: list[str] = cli("plan", "--ctx", "64", "--format", "json", spec).json["command"]
        return command[1:5]

    site.repos["o/r"] = {"m-F32.gguf": one().bytes()}
    assert source("hf://o/r/m-F32.gguf") == ["-hf", "o/r", "-hff", "m-F32.gguf"]
    assert source("hf://o/r:F32")[:2] == ["-hf", "o/r:F32"]
    page = f"{site.url}/o/r/blob/main/m-F32.gguf"
    assert source(page)[:2] == ["-mu", page.replace("/blob/", "/resolve/")]
    near = hugging_face_cache(tmp_path, {"m-F32.gguf": one().bytes()}) / "m-F32.gguf"
    assert source("hf://o/r:F32")[:2] == ["-m", str(near)]
    assert source(str(near.parent))[:2] == ["-m", str(near)]


def test_an_address_is_located_once(site: Site) -> None:
    """What is near is not asked of the network; what is far is known by name and place before a byte is read."""
    site.repos["o/r"] = {"m-F32.gguf": one().bytes()}
    place = locate("hf://o/r/m-F32.gguf")
    assert isinstance(place, OnServer)
    assert (place.name(place.path), place.url(place.path)) == (
        "hf://o/r/m-F32.gguf",
        f"{site.url}/o/r/resolve/main/m-F32.gguf",
    )
    assert site.log == []


def test_no_token_for_another_host(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    with serve(Site()) as other:
        other.files["/m.gguf"] = one().bytes()
        hub.open_any(f"{other.url}/m.gguf")
        assert all("authorization" not in request.headers for request in other.log)
