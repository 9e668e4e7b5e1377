"""``fix --publish``: what is uploaded holds nothing that was for the work, and is listed beside."""

from __future__ import annotations

import hashlib
from pathlib import Path

import gguftool
from gguftool.model import open_model
from tests.build import llama
from tests.lint.samples import ready, zeroed

OTHER = f"{'0' * 64}  other.gguf\n"


def worked_on(folder: Path) -> Path:
    g = zeroed(ready()).kv("gguftool.version", "1", "str").kv("gguftool.pad", " " * 4000, "str")
    g.kv("general.alignment", 32, "u32").kv("general.tags", [], "[str]").kv("my.own", 7, "u32")
    return g.kv("general.license.link", "https://e.org/l", "str").write(folder / "m.gguf")


def test_nothing_for_the_work_is_left_and_all_else_stays(cli, tmp_path: Path):
    path = worked_on(tmp_path)
    with open_model(path) as m:
        before = {key: m.get(key) for key in m.fields}
        data = hashlib.sha256(path.read_bytes()[m.header.data_offset :]).hexdigest()
    (tmp_path / "SHA256SUMS").write_text(OTHER + f"{'1' * 64}  m.gguf\n")
    done = cli("fix", path, "--publish")
    assert done.code == 0
    gone = {"gguftool.version", "gguftool.pad", "general.alignment", "general.tags"}
    with open_model(path) as m:
        assert {key: m.get(key) for key in m.fields} == {k: v for k, v in before.items() if k not in gone}
        assert hashlib.sha256(path.read_bytes()[m.header.data_offset :]).hexdigest() == data
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    # The line of this file is put right, that of another one stays.
    assert sorted((tmp_path / "SHA256SUMS").read_text().splitlines(True)) == [OTHER, f"{digest}  m.gguf\n"]
    assert digest in (tmp_path / "m.gguf.manifest").read_text()
    assert "general.license.link holds an address (https://e.org/l): c4nary" in done.err
    assert cli("verify", "--hash", path).code == 0
    rules = {f["rule"] for f in cli("push-check", path, "--format", "json").json["files"][0]["findings"]}
    assert not rules & {"own-records", "filler-present", "alignment-unusual", "array-empty", "sums-missing"}


def test_a_second_time_changes_nothing(cli, tmp_path: Path):
    path = worked_on(tmp_path)
    assert cli("fix", path, "--publish", "--no-undo").code == 0
    state = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert cli("fix", path, "--publish", "--no-undo").code == 0
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == state


def test_a_dry_run_writes_nothing(cli, tmp_path: Path):
    path = worked_on(tmp_path)
    state = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert cli("fix", path, "--publish", "--dry-run").code == 0
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == state


def test_a_new_file_is_what_is_listed(cli, tmp_path: Path):
    path, new = worked_on(tmp_path), tmp_path / "up" / "n.gguf"
    new.parent.mkdir()
    before = path.read_bytes()
    assert cli("fix", path, "--publish", "--output", new).code == 0
    assert path.read_bytes() == before
    digest = hashlib.sha256(new.read_bytes()).hexdigest()
    assert (new.parent / "SHA256SUMS").read_text() == f"{digest}  n.gguf\n"
    assert sorted(p.name for p in new.parent.iterdir()) == ["SHA256SUMS", "n.gguf", "n.gguf.manifest"]


def test_a_list_that_cannot_be_read_stays(cli, tmp_path: Path):
    path = worked_on(tmp_path)
    (tmp_path / "SHA256SUMS").write_text("no list\n")
    done = cli("fix", path, "--publish")
    assert done.code == 4
    assert "SHA256SUMS" in done.err
    assert (tmp_path / "SHA256SUMS").read_text() == "no list\n"


def test_of_a_set_every_file_is_listed(cli, tmp_path: Path):
    whole = zeroed(llama()).kv("gguftool.version", "1", "str").write(tmp_path / "w.gguf")
    gguftool.split(whole, tmp_path / "s.gguf", max_tensors=4)
    whole.unlink()
    first, *more = sorted(tmp_path.glob("*.gguf"))
    assert cli("fix", first, "--publish", "--no-undo").code == 0
    lines = {f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}" for p in (first, *more)}
    assert set((tmp_path / "SHA256SUMS").read_text().splitlines()) == lines
    assert more
