"""What a command can do, as one call of the library: over a path, an address or an open model."""

from __future__ import annotations

import hashlib
import os
import textwrap
from pathlib import Path

import pytest

import gguftool
from gguftool.predict import Prediction
from tests.build import llama


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return llama().write(tmp_path / "m.gguf")


def test_paths_and_open_models_are_the_same_question(path: Path, tmp_path: Path) -> None:
    other = llama().kv("my.key", 1).write(tmp_path / "other.gguf")
    with gguftool.open(path) as m, gguftool.open(other) as n:
        for given in (path, str(path)):
            assert gguftool.memory(given, 1024, "q8_0") == gguftool.memory(m, 1024, ("q8_0", "q8_0"))
            assert gguftool.overview(given) == gguftool.overview(m)
            assert gguftool.predict(given) == gguftool.predict(m)
            assert len(gguftool.diff(given, other).keys) == len(gguftool.diff(m, n).keys) == 1
            assert gguftool.lint(given).findings == gguftool.lint(m).findings
            assert gguftool.verify(given).ok
            assert gguftool.fixes(given) == gguftool.fixes(m)
            assert gguftool.hash_tensors(given) == gguftool.hash_tensors(m)
        assert m.read("output_norm.weight")  # still open


def test_predict_takes_what_is_no_gguf(tmp_path: Path) -> None:
    wrong = tmp_path / "m.gguf"
    wrong.write_bytes(b"<html>not found</html>")
    p: Prediction = gguftool.predict(wrong)
    assert p.verdict == "refused"
    assert "invalid magic characters: '<htm'" in p.first_error
    assert gguftool.predict(b"<html>").verdict == "refused"
    with pytest.raises(gguftool.MissingFile):
        gguftool.predict(tmp_path / "nothing.gguf")


def test_hash_tensors_is_that_of_the_data(path: Path) -> None:
    found = gguftool.hash_tensors(path)
    with gguftool.open(path) as m:
        assert {n: h.digests["sha256"] for n, h in found.items()} == {
            n: hashlib.sha256(m.read(n)).hexdigest() for n in m.tensors
        }


def test_fixes_are_done_by_edit(tmp_path: Path) -> None:
    path = llama(tokenizer__ggml__eos_token_id="2").write(tmp_path / "m.gguf")
    found = gguftool.fixes(path)
    assert found.operations
    with gguftool.edit(path) as e:
        e.do(*found.operations)
    assert not gguftool.fixes(path).operations


def test_check_log(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        textwrap.dedent("""
        gguf_init_from_file: failed to open GGUF file 'x.gguf' (No such file or directory)
        llama_model_load: error loading model: llama_model_loader: failed to load model from x.gguf
    """)
    )
    found = gguftool.check_log(log)
    assert not found.ok
    assert found.judgement.error is not None
    assert gguftool.check_log(log.read_bytes()).judgement == found.judgement
    assert gguftool.judge_log(log.read_text()) == found.judgement


def test_plan_searches(path: Path) -> None:
    given: dict[str, object] = {"ctx": 4096, "cache_type": "q8_0", "vram": "8GiB", "ram": 8 << 30}
    found = gguftool.plan(path, **given)
    assert found.fits
    assert found.memory == found.advice.plan
    assert found.command[:3] == ("llama-server", "-m", str(path))
    assert "q8_0" in found.command
    assert found.memory.settings.ctx == 4096
    assert (
        gguftool.plan(path, gguftool.Wishes(ctx=4096, cache_type=("q8_0", "q8_0")), vram="8GiB", ram="8GiB").memory
        == found.memory
    )
    with gguftool.open(path) as m:
        assert gguftool.plan(m, **given).memory == found.memory
    assert gguftool.plan(path, ctx=4096, vram="1GiB", ram="1GiB").fits is False  # all of it is kept free
    assert gguftool.plan(path, max_context=True, vram="2GiB", ram="8GiB").memory.settings.ctx == 2048
    with pytest.raises(gguftool.UsageError, match="there is no wish 'contxt'") as wrong:
        gguftool.plan(path, contxt=5)
    assert wrong.value.hint is None or "ctx" in wrong.value.hint
    with pytest.raises(gguftool.UsageError, match="cache_type"):
        gguftool.plan(path, cache_type="q9_9")
    with pytest.raises(gguftool.UsageError, match="repack: is a switch"):
        gguftool.plan(path, repack="yes")


def test_plan_launch_with_keywords(path: Path) -> None:
    plan = gguftool.plan_launch(path, ctx=512, port=8099, check=False)
    argv = plan.argv
    assert argv[argv.index("-c") + 1] == "512"
    assert argv[argv.index("--port") + 1] == "8099"
    assert argv[argv.index("-m") + 1] == str(path)
    checked = gguftool.plan_launch(str(path), gguftool.Wishes(ctx=512, port=8099))
    assert checked.argv == argv
    assert {o.where for o in checked.obstacles} >= {o.where for o in plan.obstacles}
    assert "ExecStart=" in gguftool.emit("systemd", plan, force=True)


def test_translate_without_a_build() -> None:
    found = gguftool.translate("./main -m m.gguf --ctk q4_0")
    assert "-ctk" in found.argv or "--cache-type-k" in found.argv


def test_doctor(path: Path) -> None:
    found = gguftool.doctor(path)
    assert found.plan is not None
    assert found.plan.model == str(path)
    assert gguftool.doctor().plan is None


def test_launch_serves_and_ends(smollm2: Path, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    log = tmp_path / "server.log"
    with gguftool.launch(smollm2, ctx=512, engine="library", log=str(log), threads=2, force=True) as server:
        assert server.outcome.judged.status == "ready"
        assert server.url.startswith("http://127.0.0.1:")
        assert server.running.process.poll() is None
        plan = server.plan
    assert server.running.process.poll() is not None
    assert gguftool.check_log(log, plan).judgement.status == "ready"


def test_launch_refuses_what_cannot_load(tmp_path: Path) -> None:
    broken = llama().kv("llama.attention.head_count", 0).write(tmp_path / "m.gguf")
    with pytest.raises(gguftool.Refused, match="not started"), gguftool.launch(broken, ctx=512):
        pass


def test_prepare(path: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []
    out = tmp_path / "ready.gguf"
    made = gguftool.prepare(path, out, ctx=1024, cache_type="f16", fail_on="error", event=lambda *e: seen.append(e))
    assert made.ok
    assert [step.name for step in made.steps] == [
        "quantize",
        "fix",
        "lint",
        "verify",
        "known",
        "publish",
        "manifest",
        "plan",
    ]
    assert ("lint", "start") in seen
    with gguftool.open(out) as m:
        assert m["llama.context_length"] == 1024
    assert gguftool.verify(out, against=[f"{out}.manifest"]).ok
    assert made.steps[-1].data["context"] == 1024
    with pytest.raises(gguftool.UsageError):
        gguftool.prepare(path, tmp_path / "x.gguf", quantize="no-type")


def test_scan(path: Path, tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_bytes(b"<html>")
    rows = {Path(row["path"]).name: row for row in gguftool.scan(tmp_path, resume=tmp_path / "rows.jsonl")}
    assert {name: row["ok"] for name, row in rows.items()} == {"m.gguf": True, "page.gguf": False}
    assert rows["m.gguf"]["load"] == "loads"
    assert rows["page.gguf"]["error"]["code"] == "not-gguf"
    again = {Path(row["path"]).name: row for row in gguftool.scan([path], resume=tmp_path / "rows.jsonl")}
    assert again == {"m.gguf": rows["m.gguf"]}


def test_repair_and_manifest(path: Path, tmp_path: Path) -> None:
    good = path.read_bytes()
    gguftool.write_manifest(path, tmp_path / "m.manifest")
    donor = tmp_path / "donor.gguf"
    donor.write_bytes(good)
    bad = bytearray(good)
    bad[-100] ^= 0xFF
    path.write_bytes(bad)
    assert not gguftool.verify(path, against=[tmp_path / "m.manifest"]).ok
    with gguftool.open(donor) as m:
        (done,) = gguftool.repair(path, m, against=[tmp_path / "m.manifest"])
    assert done.proven
    assert path.read_bytes() == good
    assert gguftool.repair(path, donor, against=[tmp_path / "m.manifest"]) == []


def test_names_of_shards_and_raw_pieces(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    gguftool.split(path, str(tmp_path / "s"), max_tensors=4)
    parts = sorted(tmp_path.glob("s-*.gguf"))
    os.rename(parts[0], tmp_path / "first.gguf")
    planned = gguftool.rename_shards(tmp_path / "first.gguf", prefix="s", dry_run=True)
    assert planned.pairs == ((str(tmp_path / "first.gguf"), str(parts[0])),)
    assert not parts[0].exists()
    gguftool.rename_shards(tmp_path / "first.gguf", prefix="s")
    assert gguftool.verify(parts[0]).ok
    gguftool.merge(parts[1], output=tmp_path / "joined.gguf")
    assert gguftool.diff(tmp_path / "joined.gguf", path, data=True).same
    (tmp_path / "raw.gguf.part1of2").write_bytes(whole[:5000])
    (tmp_path / "raw.gguf.part2of2").write_bytes(whole[5000:])
    assert gguftool.join(tmp_path / "raw.gguf.part2of2", tmp_path / "raw.gguf") == len(whole)
    assert (tmp_path / "raw.gguf").read_bytes() == whole
    with pytest.raises(gguftool.UsageError):
        gguftool.join(path, tmp_path / "x.gguf")
