"""`scan --stores`: commands that run as they stand, free what they say, and take nothing else along."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gguftool.fleet.hfprogram import HfProgram, hf_program
from gguftool.fleet.offers import offers
from gguftool.fleet.stores import Inventory, inventory
from gguftool.hub.stores import Home
from tests import stores as made
from tests.build import llama
from tests.fleet.stored import HF, MODEL, OTHER, cache, look, offered, ollama, run, studio, used
from tests.shell_words import NASTY, calls


def test_old_revisions_go_by_the_program_of_the_hub(tmp_path: Path) -> None:
    made.hub(cache(tmp_path), "o/r", {"m.gguf": OTHER, "same.gguf": MODEL}, "a" * 40, ref=None)
    made.hub(cache(tmp_path), "o/r", {"m.gguf": MODEL[:-64], "same.gguf": MODEL}, "b" * 40)
    made.age(tmp_path)
    found = look(tmp_path)
    [old] = offered(found, "old")
    assert old.frees == next(h.file.disk for h in found.holdings if h.old)
    before = used(tmp_path)
    run(tmp_path, old.command)
    assert before - used(tmp_path) == old.frees
    assert not (cache(tmp_path) / "models--o--r/snapshots" / ("a" * 40)).exists()
    assert offered(look(tmp_path)) == []


def test_what_another_program_names_is_not_offered(tmp_path: Path) -> None:
    snapshot = made.hub(cache(tmp_path), "o/r", {"m.gguf": OTHER}, "a" * 40, ref=None)
    made.hub(cache(tmp_path), "o/r", {"m.gguf": MODEL}, "b" * 40)
    (studio(tmp_path) / "p/r").mkdir(parents=True)
    (studio(tmp_path) / "p/r/soft.gguf").symlink_to(snapshot / "m.gguf")
    made.age(tmp_path)
    found = offers(look(tmp_path), HfProgram())
    assert found.made == ()
    assert [why for _, why in found.kept] == ["another program names one of their files"]


def test_blobs_without_a_name(tmp_path: Path) -> None:
    made.ollama(ollama(tmp_path), "registry.ollama.ai/library/tiny/latest", MODEL)
    lonely = made.put(ollama(tmp_path) / "blobs" / f"sha256-{'5' * 64}", OTHER)
    assert offered(look(tmp_path)) == [], "it is an hour old at least, or may be in the making"
    made.age(tmp_path)
    [orphan] = offered(look(tmp_path))
    assert (orphan.kind, orphan.frees) == ("orphan", os.stat(lonely).st_blocks * 512)
    before = used(tmp_path)
    run(tmp_path, orphan.command)
    assert before - used(tmp_path) == orphan.frees
    made.put(lonely, OTHER)
    made.put(ollama(tmp_path) / "manifests/registry.ollama.ai/library/x/latest", b"{")
    made.age(tmp_path)
    assert offered(look(tmp_path), "orphan") == []


def test_half_downloads(tmp_path: Path) -> None:
    repo = made.hub(cache(tmp_path), "o/r", {"m.gguf": MODEL}).parent.parent
    made.put(repo / "blobs" / f"{'2' * 64}.0123abcd.incomplete", OTHER[:90_000])
    part = made.put(ollama(tmp_path) / "blobs" / f"sha256-{'7' * 64}-partial", b"GGUF")
    with part.open("r+b") as f:
        f.truncate(50 << 20)
    made.put(ollama(tmp_path) / "blobs" / f"sha256-{'7' * 64}-partial-0", b"{}")
    made.put(ollama(tmp_path) / "blobs" / f"sha256-{'7' * 64}-partial-1", b"{}")
    made.age(tmp_path)
    found = offered(look(tmp_path))
    assert [o.kind for o in found] == ["part", "part"]
    assert "90 days" in found[0].why
    assert sum(o.frees for o in found) < 1 << 20, "what has holes frees what it takes"
    before = used(tmp_path)
    run(tmp_path, *(o.command for o in found))
    assert before - used(tmp_path) == sum(o.frees for o in found)
    assert not list((ollama(tmp_path) / "blobs").glob("*partial*"))


def test_names_whose_data_is_gone(tmp_path: Path) -> None:
    snapshot = made.hub(cache(tmp_path), "o/r", {"m.gguf": MODEL, "n.gguf": OTHER})
    (snapshot / "n.gguf").resolve().unlink()
    blob = made.ollama(ollama(tmp_path), "registry.ollama.ai/library/tiny/latest", OTHER)
    blob.unlink()
    (studio(tmp_path) / "p/r").mkdir(parents=True)
    (studio(tmp_path) / "p/r/gone.gguf").symlink_to(tmp_path / "nowhere")
    found = look(tmp_path)
    assert found.broken
    lost = offered(found)
    assert [(o.kind, o.frees) for o in lost] == [("lost", 0)] * 3
    run(tmp_path, *(o.command for o in lost))
    assert look(tmp_path).lost == ()
    assert len(look(tmp_path).holdings) == 1
    assert not (ollama(tmp_path) / "manifests/registry.ollama.ai/library/tiny/latest").exists()


def test_what_is_gone_can_be_fetched_again(tmp_path: Path) -> None:
    snapshot = made.hub(cache(tmp_path), "o/r", {"sub/n.gguf": OTHER})
    (snapshot / "sub/n.gguf").resolve().unlink()
    blob = made.ollama(ollama(tmp_path), "hf.co/o/r/Q4_0", MODEL)
    blob.unlink()
    said = [o.why.partition("fetch it again: ")[2] for o in offered(look(tmp_path), "lost")]
    assert [calls(line, tmp_path, programs=("hf", "ollama"))[0] for line in said] == [
        ["hf", "download", "o/r", "sub/n.gguf", "--revision", "a" * 40, "--cache-dir", str(cache(tmp_path))],
        ["ollama", "pull", "hf.co/o/r:Q4_0"],
    ]


def test_a_repository_that_was_renamed(tmp_path: Path) -> None:
    """Both have the commit, and hf would take it for that of one of them."""
    for repo in ("o/old", "o/new"):
        made.hub(cache(tmp_path), repo, {"m.gguf": OTHER}, "a" * 40, ref="main" if repo == "o/new" else None)
    made.hub(cache(tmp_path), "o/old", {"m.gguf": MODEL}, "b" * 40)
    made.age(tmp_path)
    found = offers(look(tmp_path), HfProgram())
    assert [o for o in found.made if o.kind == "old"] == []
    assert any("another repository has a revision of the same name" in why for _, why in found.kept)


def test_which_store_the_server_of_ollama_has_is_not_known(tmp_path: Path) -> None:
    other = tmp_path / "other"
    for root in (ollama(tmp_path), ollama(other)):
        made.ollama(root, "registry.ollama.ai/library/tiny/latest", MODEL)
    made.ollama(ollama(other), "registry.ollama.ai/library/gone/latest", OTHER).unlink()
    made.age(tmp_path)
    found = offers(look(tmp_path, Home(str(other), {})), HfProgram((str(HF),)))
    assert not any("ollama rm" in o.command for o in found.made)
    assert {o.kind for o in found.made} == {"merge", "lost"}
    run(tmp_path, *(o.command for o in found.made))
    assert look(tmp_path, Home(str(other), {})).lost == ()


def test_copies_become_one_file(tmp_path: Path) -> None:
    snapshot = made.hub(cache(tmp_path), "o/r", {"m.gguf": MODEL})
    made.ollama(ollama(tmp_path), "registry.ollama.ai/library/tiny/latest", MODEL)
    made.put(studio(tmp_path) / "p/r/x.gguf", MODEL)
    found = look(tmp_path)
    made_offers = offers(found, HfProgram((str(HF),)))
    merges = [o for o in made_offers.made if o.kind == "merge"]
    assert len(merges) == 2
    assert made_offers.reclaimable == sum(o.frees for o in merges) == found.compared.copies[0].extra
    before = used(tmp_path)
    run(tmp_path, *(o.command for o in merges))
    assert before - used(tmp_path) == made_offers.reclaimable
    assert (snapshot / "m.gguf").read_bytes() == MODEL
    assert look(tmp_path).compared.copies == ()


@pytest.mark.parametrize("no", [0, 1, 2])
def test_one_copy_goes_by_its_own_program(no: int, tmp_path: Path) -> None:
    made.hub(cache(tmp_path), "o/r", {"m.gguf": MODEL, "n.gguf": MODEL, "other.gguf": OTHER})
    made.ollama(ollama(tmp_path), "registry.ollama.ai/library/tiny/latest", MODEL)
    made.ollama(ollama(tmp_path), "registry.ollama.ai/me/tiny/q4", MODEL)
    made.put(studio(tmp_path) / "p/r/x.gguf", MODEL)
    choice = offered(look(tmp_path), "copy")
    assert [o.why.partition(":")[0] for o in choice] == ["Hugging Face", "Ollama", "LM Studio"]
    before = used(tmp_path)
    run(tmp_path, choice[no].command)
    assert before - used(tmp_path) == choice[no].frees > 0
    left = look(tmp_path)
    assert len(left.compared.copies[0].files) == 2
    assert not left.lost


def kept(found: Inventory) -> set[str]:
    return {why for _, why in offers(found, HfProgram((str(HF),))).kept}


def test_a_part_of_a_model_is_no_reason_to_remove_it(tmp_path: Path) -> None:
    """The projector is there twice; `ollama rm` would take the model along, which is there once."""
    made.ollama(ollama(tmp_path), "registry.ollama.ai/library/eyes/latest", MODEL, projector=OTHER)
    made.put(studio(tmp_path) / "p/r/mmproj.gguf", OTHER)
    made.put(studio(tmp_path) / "p/r/m.gguf", MODEL)
    found = look(tmp_path)
    assert len(found.compared.copies) == 2
    assert {o.why.partition(":")[0] for o in offered(found, "copy")} == {"LM Studio"}
    assert any("further parts" in why for why in kept(found))
    for one in offered(found, "copy"):
        run(tmp_path, one.command)
    assert {h.called for h in look(tmp_path).holdings} == {"eyes:latest"}


def test_shards_go_together_or_not_at_all(tmp_path: Path) -> None:
    shards = {f"m-0000{no}-of-00002.gguf": llama(tokens=2000, layers=no).bytes() for no in (1, 2)}
    made.hub(cache(tmp_path), "o/r", shards)
    for name, data in shards.items():
        made.put(studio(tmp_path) / "p/r" / name, data)

    def judge(paths: Sequence[str]) -> Iterable[dict[str, Any]]:
        folders = {os.path.dirname(path) for path in paths}
        return [{"path": f, "files": [p for p in paths if p.startswith(f)], "ok": True} for f in folders]

    found = inventory(judge, users=[Home(str(tmp_path), {})])
    assert {o.kind for o in offered(found)} == {"merge"}
    assert any("shard of a set" in why for why in kept(found))


def test_jan_describes_several_files_in_one(tmp_path: Path) -> None:
    root = tmp_path / ".local/share/Jan/data"
    made.jan(root, "a", MODEL, mmproj_path="llamacpp/models/a/mmproj.gguf")
    made.put(studio(tmp_path) / "p/r/m.gguf", MODEL)
    found = look(tmp_path)
    assert {o.why.partition(":")[0] for o in offered(found, "copy")} == {"LM Studio"}
    assert offered(found, "lost") == [], "its projector is gone, and model.yml is that of the model"
    assert {"jan describes it in its model.yml: remove the model in jan itself"} <= kept(found)


def test_a_name_that_two_revisions_have(tmp_path: Path) -> None:
    """The old file is there twice; hf removes a name in all revisions, and the new one is there once."""
    made.hub(cache(tmp_path), "o/r", {"m.gguf": OTHER}, "a" * 40, ref=None)
    made.hub(cache(tmp_path), "o/r", {"m.gguf": MODEL}, "b" * 40)
    made.put(studio(tmp_path) / "p/r/m.gguf", OTHER)
    found = look(tmp_path)  # written just now: the old revision is not offered
    assert {(o.kind, o.why.partition(":")[0]) for o in offered(found, "copy")} == {("copy", "LM Studio")}
    assert any("another revision has another file of that name" in why for why in kept(found))


def test_what_nothing_names_is_no_copy(tmp_path: Path) -> None:
    made.put(ollama(tmp_path) / "blobs" / f"sha256-{hashlib.sha256(MODEL).hexdigest()}", MODEL)
    made.put(studio(tmp_path) / "p/r/m.gguf", MODEL)
    assert look(tmp_path).compared.copies == ()
    assert offered(look(tmp_path)) == []


def test_a_link_in_the_same_store_goes_along(tmp_path: Path) -> None:
    made.put(studio(tmp_path) / "p/r/m.gguf", MODEL)
    (studio(tmp_path) / "p/r/link.gguf").symlink_to("m.gguf")
    made.put(tmp_path / ".cache/llama.cpp/x.gguf", MODEL)
    one = next(o for o in offered(look(tmp_path), "copy") if o.why.startswith("LM Studio"))
    run(tmp_path, one.command)
    assert look(tmp_path).lost == ()
    assert len(look(tmp_path).holdings) == 1


def test_a_copy_that_is_the_last_stays(tmp_path: Path) -> None:
    """All commands in a row: each compares with another copy first, so that one is always left."""
    made.hub(cache(tmp_path), "o/r", {"m.gguf": MODEL})
    made.put(studio(tmp_path) / "p/r/x.gguf", MODEL)
    for one in offered(look(tmp_path), "copy"):
        subprocess.run(["sh", "-c", one.command], check=False, capture_output=True)
    [left] = look(tmp_path).holdings
    assert left.file.size == len(MODEL)


MAPS = (
    "import mmap, sys; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); "
    "f.close(); input()"
)


@pytest.mark.parametrize("how", ["open", "mapped"])
def test_what_somebody_has_open_is_not_offered(how: str, tmp_path: Path) -> None:
    lonely = made.put(ollama(tmp_path) / "blobs" / f"sha256-{'5' * 64}", OTHER)
    (ollama(tmp_path) / "manifests").mkdir()
    made.age(tmp_path)
    words = ["sleep", "60"] if how == "open" else [sys.executable, "-c", MAPS, str(lonely)]
    holder = subprocess.Popen(words, stdin=lonely.open("rb") if how == "open" else subprocess.PIPE)
    try:
        end = time.monotonic() + 10
        while (found := offers(look(tmp_path), HfProgram())).made and time.monotonic() < end:
            time.sleep(0.1)
        assert found.made == ()
        assert f"process {holder.pid}" in found.kept[0][1]
    finally:
        holder.kill()
        holder.wait()
        if holder.stdin is not None:
            holder.stdin.close()


def test_names_that_a_shell_would_act_on(tmp_path: Path) -> None:
    nasty = NASTY.replace("/", "_")
    made.put(studio(tmp_path) / "p" / nasty / f"-rf {nasty}.gguf", MODEL)
    made.put(studio(tmp_path) / "p/r/x.gguf", MODEL)
    made.put(studio(tmp_path) / "p/r" / f"{nasty}.gguf.part", OTHER[:90_000])
    (studio(tmp_path) / "p/r" / f"{nasty}.gguf").symlink_to("nowhere")
    made.age(tmp_path)
    found = offered(look(tmp_path))
    assert {o.kind for o in found} == {"lost", "part", "merge", "copy"}
    before = used(tmp_path)
    wanted = [o for o in found if o.kind != "copy"]
    run(tmp_path, *(o.command for o in wanted))
    assert before - used(tmp_path) == sum(o.frees for o in wanted)
    assert not list(tmp_path.rglob("PWNED"))


def test_stores_of_two_users(tmp_path: Path) -> None:
    """The other's are looked at, too; what he owns is not linked to ours."""
    one, other = tmp_path / "one", tmp_path / "other"
    made.ollama(ollama(one), "registry.ollama.ai/library/tiny/latest", MODEL)
    made.ollama(ollama(other), "registry.ollama.ai/library/tiny/latest", MODEL)
    if os.getuid() == 0:
        for path in [other, *other.rglob("*")]:
            os.chown(path, 12345, 12345)
    found = look(one, Home(str(other), {}, user="other"))
    assert [s.user for s in found.stores] == ["", "other"]
    assert len(found.compared.copies) == 1
    if os.getuid() == 0:
        assert offered(found, "merge") == []
        assert any("another user" in why for _, why in offers(found, HfProgram()).kept)


def test_what_the_installed_program_can(tmp_path: Path) -> None:
    from huggingface_hub import HFCacheInfo

    program = hf_program()
    assert program.removes
    assert program.removes_files is hasattr(HFCacheInfo, "delete_files")
    assert shutil.which(program.words[0])
    made.hub(cache(tmp_path), "o/r", {"m.gguf": OTHER}, "a" * 40, ref=None)
    made.hub(cache(tmp_path), "o/r", {"m.gguf": MODEL}, "b" * 40)
    made.age(tmp_path)
    assert offered(look(tmp_path), hf=HfProgram(("hf",), False, False)) == [], "older ones have no such command"
