"""`scan --stores`: what there is, and what is there twice."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gguftool.files import extents
from gguftool.fleet.copies import DATA, HEADER, NAMED
from gguftool.fleet.hfprogram import HfProgram
from gguftool.fleet.offers import Offers, offers
from gguftool.fleet.stores import inventory
from gguftool.hub.stores import Home
from tests import stores as made
from tests.build import llama
from tests.fleet.stored import MODEL, OTHER, cache, look, offered, ollama, studio, used


def test_copies_by_name_and_by_header(tmp_path: Path) -> None:
    made.hub(cache(tmp_path), "o/r", {"m.gguf": MODEL})
    made.ollama(ollama(tmp_path), "registry.ollama.ai/library/tiny/latest", MODEL)
    made.put(studio(tmp_path) / "p/r/x.gguf", OTHER)
    made.put(tmp_path / ".cache/llama.cpp/y.gguf", OTHER)
    found = look(tmp_path)
    assert [(c.proof, len(c.files)) for c in found.compared.copies] == [(NAMED, 2), (HEADER, 2)]
    assert found.compared.copies[0].sha256 == hashlib.sha256(MODEL).hexdigest()
    assert [c.proof for c in look(tmp_path, read=True).compared.copies] == [DATA, DATA]
    assert found.disk == used(tmp_path)


def test_what_only_begins_the_same_is_no_copy(tmp_path: Path) -> None:
    near = bytearray(OTHER)
    near[-100_000] ^= 1  # between the samples: only reading all of it tells
    made.put(studio(tmp_path) / "p/r/x.gguf", OTHER)
    made.put(studio(tmp_path) / "p/r/y.gguf", bytes(near))
    end = bytearray(OTHER)
    end[-1] ^= 1
    made.put(studio(tmp_path) / "p/r/z.gguf", bytes(end))
    assert [(c.proof, {os.path.basename(f.path) for f in c.files}) for c in look(tmp_path).compared.copies] == [
        (HEADER, {"x.gguf", "y.gguf"})]  # fmt: skip
    assert look(tmp_path, read=True).compared.copies == ()
    [merge] = offered(look(tmp_path), "merge")
    before = used(tmp_path)
    subprocess.run(["sh", "-c", merge.command], check=False)
    assert used(tmp_path) == before, "the command compares them first"


def test_names_that_say_different_hashes_are_believed(tmp_path: Path) -> None:
    near = bytearray(MODEL)
    near[-100_000] ^= 1
    made.hub(cache(tmp_path), "o/r", {"m.gguf": MODEL})
    made.hub(cache(tmp_path), "o/s", {"m.gguf": bytes(near)})
    made.put(studio(tmp_path) / "p/r/x.gguf", MODEL)
    assert look(tmp_path).compared.copies == ()
    [same] = look(tmp_path, read=True).compared.copies
    assert {os.path.basename(f.path) for f in same.files} == {"x.gguf", hashlib.sha256(MODEL).hexdigest()}


def test_data_that_is_not_what_its_name_says(tmp_path: Path) -> None:
    snapshot = made.hub(cache(tmp_path), "o/r", {"m.gguf": MODEL})
    bad = bytearray(MODEL)
    bad[-100_000] ^= 1
    (snapshot / "m.gguf").resolve().write_bytes(bytes(bad))
    made.put(studio(tmp_path) / "p/r/x.gguf", MODEL)
    found = look(tmp_path, read=True)
    assert [(os.path.basename(f.path), sha) for f, sha in found.compared.wrong] == [
        (hashlib.sha256(MODEL).hexdigest(), hashlib.sha256(bytes(bad)).hexdigest())]  # fmt: skip
    assert found.broken
    assert found.compared.copies == ()


def test_links_are_no_copies(tmp_path: Path) -> None:
    snapshot = made.hub(cache(tmp_path), "o/r", {"m.gguf": MODEL})
    made.hub(cache(tmp_path), "o/r", {"renamed.gguf": MODEL})
    (studio(tmp_path) / "p/r").mkdir(parents=True)
    (studio(tmp_path) / "p/r/soft.gguf").symlink_to(snapshot / "m.gguf")
    os.link(snapshot.parent.parent / "blobs" / hashlib.sha256(MODEL).hexdigest(), studio(tmp_path) / "p/r/hard.gguf")
    found = look(tmp_path)
    assert len(found.holdings) == 1
    assert found.compared.copies == ()
    assert found.disk == os.stat(snapshot / "m.gguf").st_blocks * 512
    assert offered(found) == []


def test_what_shares_its_room_on_the_disk_is_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made.put(studio(tmp_path) / "p/r/x.gguf", MODEL)
    made.put(studio(tmp_path) / "p/r/y.gguf", MODEL)
    assert len(look(tmp_path).compared.copies) == 1
    monkeypatch.setattr(extents, "extents", lambda path: [(0, 4096, 8192)])
    assert look(tmp_path).compared.copies == ()


def test_extents_as_the_kernel_tells_them(tmp_path: Path) -> None:
    """`struct fiemap` with two extents (linux/fiemap.h): shared ones count, those without a place do not."""
    head = extents._HEAD
    one = extents._EXTENT.pack(0, 1 << 20, 4096, 0, 0, 0x2000, 0, 0, 0)
    last = extents._EXTENT.pack(4096, 1 << 30, 8192, 0, 0, 0x2001, 0, 0, 0)
    own = extents._EXTENT.pack(4096, 1 << 30, 8192, 0, 0, 0x1, 0, 0, 0)
    assert (head.size, len(one)) == (32, 56)
    assert extents.told(head.pack(0, 0, 0, 2, 512, 0) + one + last) == [(0, 1 << 20, 4096), (4096, 1 << 30, 8192)]
    assert extents.told(head.pack(0, 0, 0, 2, 512, 0) + one + own) == []
    (tmp_path / "x").write_bytes(bytes(1 << 20))
    assert not extents.shares(str(tmp_path / "x"), str(tmp_path / "x")), "nothing of it is shared"


def test_the_row_of_a_set_is_that_of_all_its_files(tmp_path: Path) -> None:
    made.hub(cache(tmp_path), "o/r", {f"m-0000{no}-of-00002.gguf": llama(layers=no).bytes() for no in (1, 2)})

    def judge(paths: Sequence[str]) -> Iterable[dict[str, Any]]:
        assert {os.path.basename(path)[:7] for path in paths} == {"m-00001", "m-00002"}
        return [{"path": paths[0], "files": list(paths), "ok": True}]

    found = inventory(judge, users=[Home(str(tmp_path), {})])
    assert [h.row and h.row["ok"] for h in found.holdings] == [True, True]


def test_nothing_at_all(tmp_path: Path) -> None:
    found = look(tmp_path)
    assert (found.stores, found.holdings, found.broken) == ((), (), False)
    assert offers(found, HfProgram()) == Offers((), (), 0)
