"""Stores of other programs as they lay them out: what is in them, what it is called, what cannot be read."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from gguftool.hub.stores import Home, Kept, Store, closed, existing, stores
from tests import stores as made
from tests.build import llama

MODEL = llama().bytes()
OTHER = llama(layers=2).bytes()


def home(tmp_path: Path, system: str = "linux", **env: object) -> Home:
    return Home(str(tmp_path), {k: str(v) for k, v in env.items()}, system)


def only(user: Home) -> Store:
    """The one store there is."""
    [store] = [s for s in stores([user]) if s.path.startswith(user.path)]
    return store


def by_state(store: Store) -> dict[str, list[Kept]]:
    out: dict[str, list[Kept]] = {}
    for kept in store.models:
        out.setdefault(kept.state, []).append(kept)
    return out


# -- where they are


@pytest.mark.parametrize(("system", "env", "folder", "program"), [
    ("linux", {}, ".cache/huggingface/hub", "Hugging Face"),
    ("linux", {"HF_HOME": "x"}, "x/hub", "Hugging Face"),
    ("linux", {"HF_HUB_CACHE": "x/y", "HF_HOME": "z"}, "x/y", "Hugging Face"),
    ("linux", {"XDG_CACHE_HOME": "c"}, "c/huggingface/hub", "Hugging Face"),
    ("linux", {}, ".ollama/models", "Ollama"),
    ("linux", {"OLLAMA_MODELS": "o"}, "o", "Ollama"),
    ("linux", {}, ".lmstudio/models", "LM Studio"),
    ("linux", {}, ".cache/lm-studio/models", "LM Studio"),
    ("linux", {}, ".cache/llama.cpp", "llama.cpp"),
    ("linux", {"LLAMA_CACHE": "l"}, "l", "llama.cpp"),
    ("darwin", {}, "Library/Caches/llama.cpp", "llama.cpp"),
    ("win32", {"LOCALAPPDATA": "loc"}, "loc/llama.cpp", "llama.cpp"),
    ("linux", {}, ".local/share/Jan/data", "jan"),
    ("linux", {"JAN_DATA_FOLDER": "j"}, "j", "jan"),
    ("darwin", {}, "Library/Application Support/Jan/data", "jan"),
    ("win32", {"APPDATA": "roam"}, "roam/Jan/data", "jan"),
    ("linux", {}, "jan", "jan"),
    ("linux", {}, ".local/share/nomic.ai/GPT4All", "GPT4All"),
    ("darwin", {}, "Library/Application Support/nomic.ai/GPT4All", "GPT4All"),
    ("win32", {"LOCALAPPDATA": "loc"}, "loc/nomic.ai/GPT4All", "GPT4All"),
    ("linux", {}, ".cache/gpt4all", "GPT4All"),
])  # fmt: skip
def test_where_programs_keep_them(system: str, env: dict[str, str], folder: str, program: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir(parents=True)
    user = home(tmp_path, system, **{k: tmp_path / v for k, v in env.items()})
    found = [(p.program.name, p.path) for p in existing([user]) if p.path.startswith(str(tmp_path))]
    assert found == [(program, str(tmp_path / folder))]


def test_settings_of_programs_are_followed(tmp_path: Path) -> None:
    for name in ("lm", "jan data", "gpt ü"):
        (tmp_path / name).mkdir()
    made.put(tmp_path / ".lmstudio-home-pointer", f"{tmp_path}/elsewhere\n".encode())
    made.put(tmp_path / "elsewhere/settings.json", json.dumps({"downloadsFolder": f"{tmp_path}/lm"}).encode())
    made.put(tmp_path / ".local/share/Jan/settings.json", json.dumps({"data_folder": f"{tmp_path}/jan data"}).encode())
    ini = f"[General]\nuniqueId=1\nmodelPath={tmp_path}/gpt \\xfc/\n[download]\nx=%1\n"
    made.put(tmp_path / ".config/nomic.ai/GPT4All.ini", ini.encode())
    found = {(p.program.name, os.path.basename(p.path)) for p in existing([home(tmp_path)])}
    assert found >= {("LM Studio", "lm"), ("jan", "jan data"), ("GPT4All", "gpt ü")}


@pytest.mark.parametrize("text", [b"", b"[", b"[[[[", b'{"downloadsFolder": 5, "data_folder": []}', b"\xff\xfe\x00",
                                  b'{"downloadsFolder": "a\\u0000b"}', b"[General]\nmodelPath=relative"])  # fmt: skip
def test_settings_that_are_nonsense(text: bytes, tmp_path: Path) -> None:
    for name in (".lmstudio/settings.json", ".local/share/Jan/settings.json", ".config/nomic.ai/GPT4All.ini",
                 ".lmstudio-home-pointer"):  # fmt: skip
        made.put(tmp_path / name, text)
    assert [p.path for p in existing([home(tmp_path)]) if p.path.startswith(str(tmp_path))] == []


def test_one_folder_under_two_names_is_one_store(tmp_path: Path) -> None:
    root = tmp_path / ".cache/huggingface/hub"
    made.hub(root, "o/r", {"m.gguf": MODEL})
    (tmp_path / "link").symlink_to(root)
    store = only(home(tmp_path, HF_HUB_CACHE=tmp_path / "link", LLAMA_CACHE=root))
    assert (store.kind, len(store.models)) == ("Hugging Face", 1)


# -- Hugging Face


def test_what_huggingface_hub_itself_wrote(tmp_path: Path) -> None:
    """Two commits of a branch, one file in both, one changed; the library lays them out."""
    from huggingface_hub import hf_hub_download

    old, new = "a" * 40, "b" * 40
    with made.hub_server({old: {"same.gguf": MODEL, "q.gguf": OTHER}, new: {"same.gguf": MODEL, "q.gguf": MODEL[:-1]}},
                         {"main": old, "next": new}) as url:  # fmt: skip
        root = tmp_path / ".cache/huggingface/hub"
        for branch in ("main", "next"):
            for name in ("same.gguf", "q.gguf"):
                hf_hub_download("o/r", name, revision=branch, endpoint=url, cache_dir=root)
    os.replace(root / "models--o--r/refs/next", root / "models--o--r/refs/main")
    store = only(home(tmp_path))
    assert store.clear
    said = {(n.text, n.old, n.revision): k.sha256 for k in store.models for n in k.names}
    assert said == {
        ("o/r/same.gguf", True, old): hashlib.sha256(MODEL).hexdigest(),
        ("o/r/same.gguf", False, new): hashlib.sha256(MODEL).hexdigest(),
        ("o/r/q.gguf", True, old): hashlib.sha256(OTHER).hexdigest(),
        ("o/r/q.gguf", False, new): hashlib.sha256(MODEL[:-1]).hexdigest(),
    }
    assert len(store.models) == 3
    assert all(os.path.basename(k.opened) in ("same.gguf", "q.gguf") for k in store.models)


def test_one_that_was_fetched_by_its_commit_is_not_old(tmp_path: Path) -> None:
    root = tmp_path / ".cache/huggingface/hub"
    made.hub(root, "o/r", {"a.gguf": MODEL}, "a" * 40)
    made.hub(root, "o/r", {"b.gguf": OTHER}, "b" * 40, ref=None)
    assert not any(n.old for k in only(home(tmp_path)).models for n in k.names)


def test_what_is_broken_in_the_cache(tmp_path: Path) -> None:
    root = tmp_path / ".cache/huggingface/hub"
    snapshot = made.hub(root, "o/r", {"a.gguf": MODEL, "sub/b.gguf": OTHER})
    repo = root / "models--o--r"
    os.unlink(repo / "blobs" / hashlib.sha256(OTHER).hexdigest())
    made.put(repo / "blobs" / ("1" * 64), MODEL)
    made.put(repo / "blobs" / f"{'2' * 64}.0123abcd.incomplete", MODEL[:100])
    made.put(repo / "blobs" / f"{'3' * 64}.incomplete", bytes(100))
    made.put(repo / "blobs" / ("4" * 64), b"no model")
    (snapshot / "loop.gguf").symlink_to("loop.gguf")
    found = by_state(only(home(tmp_path)))
    assert [k.called for k in found["model"]] == ["o/r/a.gguf"]
    assert {(k.called, os.path.basename(k.opened)) for k in found["lost"]} == {
        ("o/r/sub/b.gguf", "b.gguf"), ("o/r/loop.gguf", "loop.gguf")}  # fmt: skip
    assert [os.path.basename(k.path) for k in found["orphan"]] == ["1" * 64]
    assert len(found["part"]) == 2
    assert all(k.stuck for k in only(home(tmp_path)).models), "hf leaves out a repository with a dead link"


def test_data_that_repositories_share(tmp_path: Path) -> None:
    """Of huggingface-hub 2: a blob is a link to data that two repositories have."""
    root = tmp_path / ".cache/huggingface/hub"
    made.put(root / "blobs/.huggingface-shared-blobs", b"1\n")
    data = made.put(root / "blobs/ab" / ("ab" * 32), MODEL)
    lonely = made.put(root / "blobs/cd" / ("cd" * 32), OTHER)
    made.put(root / "blobs/cd" / f"{'cd' * 32}.refs", b"x\n")
    for repo in ("o/r", "o/s"):
        snapshot = made.hub(root, repo, {"m.gguf": MODEL})
        blob = snapshot.parent.parent / "blobs" / hashlib.sha256(MODEL).hexdigest()
        blob.unlink()
        blob.symlink_to(os.path.relpath(data, blob.parent))
    found = by_state(only(home(tmp_path)))
    assert {k.path for k in found["model"]} == {str(data)}
    assert {k.sha256 for k in found["model"]} == {hashlib.sha256(MODEL).hexdigest()}
    assert [(k.path, len(k.beside)) for k in found["orphan"]] == [(str(lonely), 1)]


# -- Ollama


def test_ollama(tmp_path: Path) -> None:
    root = tmp_path / ".ollama/models"
    blob = made.ollama(root, "registry.ollama.ai/library/tiny/latest", MODEL, projector=OTHER)
    made.ollama(root, "registry.ollama.ai/me/tiny/q4", MODEL)
    gone = made.ollama(root, "hf.co/o/r/Q4_0", llama(layers=3).bytes())
    gone.unlink()
    made.put(root / "blobs" / f"sha256-{'5' * 64}", llama(layers=4).bytes())
    made.put(root / "blobs" / f"sha256-{'6' * 64}", b"a template that nobody has")
    part = made.put(root / "blobs" / f"sha256-{'7' * 64}-partial", bytes(1 << 20))
    piece = made.put(root / "blobs" / f"sha256-{'7' * 64}-partial-0", b"{}")
    left = made.put(root / "blobs/sha256-123456", MODEL[:5000])
    store = only(home(tmp_path))
    found = by_state(store)
    assert {(k.path, tuple((n.text, n.part) for n in k.names)) for k in found["model"]} == {
        (str(blob), (("tiny:latest", ""), ("me/tiny:q4", ""))),
        (str(root / "blobs" / f"sha256-{hashlib.sha256(OTHER).hexdigest()}"), (("tiny:latest", "projector"),)),
    }
    assert [(k.path, k.called) for k in found["lost"]] == [(str(gone), "hf.co/o/r:Q4_0")]
    assert [(os.path.basename(k.path), k.stuck) for k in found["orphan"]] == [(f"sha256-{'5' * 64}", False)]
    assert {(k.path, k.beside) for k in found["part"]} == {(str(part), (str(piece),)), (str(left), ())}
    assert store.clear


@pytest.mark.parametrize("manifest", [
    b"", b"{", b"[" * 100_000, b"null", b"[]", b'{"layers": 5}', b'{"layers": [5]}', b'{"layers": [{}]}', b"\xff\xfe",
    b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../../etc/passwd"}]}',
    b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:' + b"0" * 63 + b'"}]}',
    b'{"config": 5, "layers": []}',
])  # fmt: skip
def test_a_manifest_that_is_none_keeps_blobs_from_being_unused(manifest: bytes, tmp_path: Path) -> None:
    root = tmp_path / ".ollama/models"
    made.put(root / "manifests/registry.ollama.ai/library/x/latest", manifest)
    made.put(root / "blobs" / f"sha256-{'5' * 64}", MODEL)
    store = only(home(tmp_path))
    assert [(k.state, k.stuck) for k in store.models] == [("orphan", True)]
    assert [os.path.basename(path) for path, _ in store.unread] == ["latest"]


def test_manifests_in_circles_and_of_other_depth(tmp_path: Path) -> None:
    root = tmp_path / ".ollama/models"
    made.ollama(root, "registry.ollama.ai/library/tiny/latest", MODEL)
    (root / "manifests/registry.ollama.ai/loop").symlink_to("..")
    made.put(root / "manifests/stray", b"{}")
    made.put(root / "manifests/a/b/c/d/e", b"{}")
    [kept] = only(home(tmp_path)).models
    assert kept.called == "tiny:latest"


# -- folders of files


def test_lm_studio(tmp_path: Path) -> None:
    root = tmp_path / ".lmstudio/models"
    made.put(root / "pub/repo/m.gguf", MODEL)
    made.put(root / "pub/repo/downloading_n.gguf.part", MODEL[:50])
    made.put(root / "pub/repo/x.part", b"of no model")
    (root / "pub/repo/gone.gguf").symlink_to(tmp_path / "nowhere.gguf")
    (root / "pub/loop").symlink_to(root)
    found = by_state(only(home(tmp_path)))
    assert [k.called for k in found["model"]] == ["pub/repo/m.gguf"]
    assert [k.called for k in found["part"]] == ["pub/repo/downloading_n.gguf"]
    assert [k.called for k in found["lost"]] == ["pub/repo/gone.gguf"]


def test_llama_cpp_has_two_layouts(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    made.put(root / "o_r_m.gguf", MODEL)
    made.put(root / "o_r_m.gguf.etag", b"x")
    made.put(root / "manifest=o=r=latest.json", b"{}")
    made.put(root / "o_r_n.gguf.downloadInProgress", MODEL[:9])
    made.hub(root, "o/new", {"q.gguf": OTHER})
    store = only(home(tmp_path, LLAMA_CACHE=root))
    found = by_state(store)
    assert store.kind == "llama.cpp"
    assert {(k.called, k.beside) for k in found["model"]} == {
        ("o_r_m.gguf", (str(root / "o_r_m.gguf.etag"),)), ("o/new/q.gguf", ())}  # fmt: skip
    assert [k.called for k in found["part"]] == ["o_r_n.gguf"]


def test_jan(tmp_path: Path) -> None:
    root = tmp_path / ".local/share/Jan/data"
    away = made.put(tmp_path / "away/it's.gguf", OTHER)
    made.jan(root, "o/r", MODEL, model_sha256=hashlib.sha256(MODEL).hexdigest())
    made.jan(root, "imported", None, "'" + str(away).replace("'", "''") + "'")
    made.jan(root, "gone", None)
    made.put(root / "llamacpp/models/half/model.gguf.tmp", MODEL[:20])
    made.put(root / "llamacpp/models/half/model.gguf.url", b"https://x")
    made.put(root / "llamacpp/models/nobody/model.gguf", llama(layers=3).bytes())
    made.put(root / "models/cortex.so/old/model.gguf", llama(layers=4).bytes())
    found = by_state(only(home(tmp_path)))
    assert {(k.called, k.path, bool(k.sha256)) for k in found["model"]} == {
        ("o/r", str(root / "llamacpp/models/o/r/model.gguf"), True), ("imported", str(away), False),
        ("cortex.so/old/model.gguf", str(root / "models/cortex.so/old/model.gguf"), False)}  # fmt: skip
    assert [k.called for k in found["lost"]] == ["gone"]
    assert [os.path.basename(os.path.dirname(k.path)) for k in found["orphan"]] == ["nobody"]
    assert [[os.path.basename(p) for p in (k.path, *k.beside)] for k in found["part"]] == [
        ["model.gguf.tmp", "model.gguf.url"]]  # fmt: skip


def test_shards_of_a_set_that_jan_names_by_its_first(tmp_path: Path) -> None:
    root = tmp_path / ".local/share/Jan/data"
    folder = made.jan(root, "big", None, "llamacpp/models/big/m-00001-of-00002.gguf")
    for no in (1, 2):
        made.put(folder / f"m-0000{no}-of-00002.gguf", llama(layers=no).bytes())
    assert {k.state for k in only(home(tmp_path)).models} == {"model"}


def test_gpt4all(tmp_path: Path) -> None:
    root = tmp_path / ".local/share/nomic.ai/GPT4All"
    made.put(root / "m.gguf", MODEL)
    made.put(root / "incomplete-n.gguf", MODEL[:70])
    found = by_state(only(home(tmp_path)))
    assert [k.called for k in found["model"]] == ["m.gguf"]
    assert [k.called for k in found["part"]] == ["n.gguf"]


# -- what stands in the way


def test_folders_that_cannot_be_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / ".ollama/models"
    made.ollama(root, "registry.ollama.ai/library/tiny/latest", MODEL)
    real = os.scandir

    def closed(folder: str) -> object:
        if str(folder).endswith("library"):
            raise PermissionError(13, "Permission denied")
        return real(folder)

    monkeypatch.setattr(os, "scandir", closed)
    store = only(home(tmp_path))
    assert not store.clear
    assert [(os.path.basename(path), why) for path, why in store.unread] == [("library", "permission denied")]
    assert [k.state for k in store.models] == ["orphan"]


def test_folders_that_only_their_owner_may_enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home of Ollama's service: whether there is a store in it cannot be seen."""
    (tmp_path / "service").mkdir()
    real = os.stat

    def barred(path: object, **more: object) -> object:
        if str(path).startswith(f"{tmp_path}/service/"):
            raise PermissionError(13, "Permission denied")
        return real(path, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "stat", barred)
    monkeypatch.setattr(os.path, "lexists", lambda path: not str(path).startswith(f"{tmp_path}/service/"))
    user = home(tmp_path / "me", OLLAMA_MODELS=tmp_path / "service/.ollama/models")
    assert closed([user]) == [str(tmp_path / "service")]


def test_a_store_of_very_many_files_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gguftool.hub.stores.kept as kept

    monkeypatch.setattr(kept.Walk.__init__, "__defaults__", (10,))
    for i in range(30):
        made.put(tmp_path / f".lmstudio/models/p/r/{i}.gguf", MODEL)
    store = only(home(tmp_path))
    assert store.cut
    assert not store.clear
    assert len(store.models) <= 10


def test_pipes_and_sockets_are_no_files(tmp_path: Path) -> None:
    root = tmp_path / ".lmstudio/models/p/r"
    root.mkdir(parents=True)
    os.mkfifo(root / "m.gguf")
    assert stat.S_ISFIFO(os.stat(root / "m.gguf").st_mode)
    assert only(home(tmp_path)).models == ()
