"""The whole way in one command: what it makes, what it resumes, what it never does."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gguftool.build import pipeline
from gguftool.build.pipeline import Outcome, Step
from gguftool.lint.tokenized import Compared
from gguftool.model import open_model
from gguftool.run.known import Known
from tests.build import llama
from tests.building import hf
from tests.building.models import DENSE, model
from tests.conftest import Result
from tests.oracle.llama import greedy

Cli = Callable[..., Result]
STEPS = ["quantize", "fix", "lint", "verify", "known", "publish", "manifest", "plan"]
WISH = ("--quantize", "Q8_0", "--context-length", "2048", "--kv-cache-type", "q8_0", "--vram", "none", "--ram", "8GiB")


pytestmark = pytest.mark.usefixtures("built_in")


def test_without_llama_cpp_it_goes_the_whole_way(cli: Cli, source: Path, tmp_path: Path):
    output = tmp_path / "out.gguf"
    result = cli("prepare", source, "-o", output, *WISH, "--format", "json")
    assert result.code == 0, result.err
    steps = {s["name"]: s for s in result.json["steps"]}
    assert list(steps) == STEPS
    assert all(s["ok"] and not s["skipped"] for s in steps.values())
    assert steps["quantize"]["data"]["engine"].startswith("gguftool built-in, libggml")
    assert steps["lint"]["data"]["counts"] == {"error": 0, "warning": 0, "info": 0}, steps["lint"]["data"]
    assert steps["lint"]["data"]["load"] == "loads"
    command = result.json["command"]
    assert command[:3] == ["llama-server", "-m", str(output)]
    assert " ".join(command[3:]).startswith("-c 2048 -ctk q8_0 -ctv q8_0")
    with open_model(output) as made:
        assert made["llama.context_length"] == 2048
        assert made["llama.kv_cache_type"] == "q8_0"
        assert made["gguftool.quantize.type"] == "Q8_0"
        assert made["general.file_type"] == 7
        assert {t.type_name for t in made.tensors.values()} == {"Q8_0", "F32"}
    assert cli("verify", output, "--hash").code == 0
    assert steps["manifest"]["data"]["sha256"] in (tmp_path / "out.gguf.manifest").read_text()
    assert all(os.path.isfile(s["log"]) for s in steps.values())
    assert len(greedy(output, [1, 70, 71], 4)) == 4
    kept = sorted(os.listdir(tmp_path / "out.gguf.prepare"))
    assert kept == ["lock", "logs", "state.json"]


@pytest.mark.parametrize("more", [(), ("--quantized-by", "me", "--repo", "me/Foo-GGUF")])
def test_what_was_scored_is_what_is_published(
    cli: Cli, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
):
    """Nothing writes to the file after the known text; one that is broken gets no name."""
    scored: list[tuple[int, int, str]] = []
    verdict = "broken"

    def scores(path: str, **_: object) -> Known:
        found = os.stat(path)
        scored.append((found.st_ino, found.st_mtime_ns, hashlib.sha256(Path(path).read_bytes()).hexdigest()))
        return Known(verdict, "the text")

    monkeypatch.setattr("gguftool.api.known.known_text", scores)
    output = tmp_path / "out.gguf"
    stopped = cli("prepare", source, "-o", output, *WISH, *more, "--format", "json")
    assert stopped.code == 1
    assert stopped.json["steps"][-1]["name"] == "known"
    assert not output.exists()
    verdict = "knows"
    assert cli("prepare", source, "-o", output, *WISH, *more).code == 0
    found = os.stat(output)
    with open_model(output) as made:
        assert (made.get("general.quantized_by"), "general.repo_url" in made) == ("me" if more else None, bool(more))
    whole = hashlib.sha256(output.read_bytes()).hexdigest()
    assert scored[-1] == (found.st_ino, found.st_mtime_ns, whole)


def test_again_it_does_nothing(cli: Cli, source: Path, tmp_path: Path):
    output = tmp_path / "out.gguf"
    assert cli("prepare", source, "-o", output, *WISH).code == 0
    before = os.stat(output)
    result = cli("prepare", source, "-o", output, *WISH, "--format", "json")
    assert result.code == 0, result.err
    assert all(s["skipped"] for s in result.json["steps"])
    assert (os.stat(output).st_ino, os.stat(output).st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_another_wish_does_not_overwrite(cli: Cli, source: Path, tmp_path: Path):
    output = tmp_path / "out.gguf"
    assert cli("prepare", source, "-o", output, *WISH).code == 0
    result = cli("prepare", source, "-o", output, *WISH, "--context-length", "1024")
    assert result.code == 4
    assert "--overwrite" in result.err
    assert cli("prepare", source, "-o", output, *WISH, "--context-length", "1024", "--overwrite").code == 0
    with open_model(output) as made:
        assert made["llama.context_length"] == 1024


def test_another_source_counts_as_new(cli: Cli, source: Path, tmp_path: Path):
    output = tmp_path / "out.gguf"
    assert cli("prepare", source, "-o", output, *WISH).code == 0
    stat = os.stat(source)
    data = bytearray(source.read_bytes())
    data[-4] ^= 1
    source.write_bytes(data)
    # Size and time are as before: only the hash tells.
    os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    result = cli("prepare", source, "-o", output, *WISH, "--overwrite", "--format", "json")
    assert result.code == 0
    assert not any(s["skipped"] for s in result.json["steps"])


def test_a_damaged_draft_is_made_again(cli: Cli, source: Path, tmp_path: Path):
    output = tmp_path / "out.gguf"
    # A licence that restricts is worth a word, and no more.
    assert cli("fix", source, "--set", "general.license=gemma", "--no-undo").code == 0
    result = cli("prepare", source, "-o", output, *WISH, "--fail-on", "info", "--format", "json")
    assert result.code == 1
    assert [s["name"] for s in result.json["steps"]] == STEPS[:3]
    assert not output.exists()
    draft = tmp_path / "out.gguf.prepare" / "model.gguf"
    data = draft.read_bytes()
    draft.write_bytes(data[:-1])
    result = cli("prepare", source, "-o", output, *WISH, "--format", "json")
    assert result.code == 0, result.err
    assert [s["skipped"] for s in result.json["steps"]] == [False] * 8


def test_a_file_with_a_warning_is_not_ready(cli: Cli, tmp_path: Path):
    """Ready means no error and no warning; what only the user can know is asked for, not passed over."""
    built = llama(layers=2).replace("llama.attention.head_count", 2).replace("llama.attention.head_count_kv", 1)
    source = built.replace("llama.rope.dimension_count", 32).drop("llama.rope.freq_base").write(tmp_path / "in.gguf")
    result = cli("prepare", source, "-o", tmp_path / "out.gguf", *WISH)
    assert result.code == 1
    assert "rope-freq-base-missing" in result.out
    assert "--fail-on error" in result.out
    assert not (tmp_path / "out.gguf").exists()
    assert cli("prepare", source, "-o", tmp_path / "out.gguf", *WISH, "--fail-on", "error").code == 0
    base = cli("prepare", source, "-o", tmp_path / "other.gguf", *WISH, "--rope-freq-base", "500000")
    assert base.code == 0, base.out


def test_findings_stop_it_and_the_draft_is_kept(cli: Cli, source: Path, tmp_path: Path):
    output = tmp_path / "out.gguf"
    # A licence that restricts is worth a word, and no more.
    assert cli("fix", source, "--set", "general.license=gemma", "--no-undo").code == 0
    result = cli("prepare", source, "-o", output, *WISH, "--fail-on", "info")
    assert result.code == 1
    assert "stopped" in result.out
    assert "out.gguf.prepare/model.gguf" in result.out
    again = cli("prepare", source, "-o", output, *WISH, "--fail-on", "warning", "--format", "json")
    assert again.code == 0
    assert [s["skipped"] for s in again.json["steps"]] == [True, True, *[False] * 6]
    # The room that the edit of the source and our own have kept is not published.
    with open_model(source) as was, open_model(output) as made:
        assert "gguftool.pad" in was
        assert not [key for key in made if key.startswith("gguftool.pad")]


@pytest.mark.parametrize("step", ["quantize", "fix", "lint", "verify", "known", "publish", "manifest", "plan"])
def test_it_goes_on_after_being_killed(cli: Cli, source: Path, tmp_path: Path, step: str):
    """kill -9 at the beginning of each step; nothing half lies under the final name, and the next run finishes."""
    output = tmp_path / "out.gguf"
    script = (
        "import os, signal, sys; from gguftool.build import pipeline; from gguftool.cli.main import main\n"
        "tell = pipeline._tell\n"
        "def kill(event, name, what):\n"
        "    tell(event, name, what)\n"
        "    if (name, what) == (sys.argv[1], 'start'): os.kill(os.getpid(), signal.SIGKILL)\n"
        "pipeline._tell = kill\n"
        "main(sys.argv[2:])\n"
    )
    args = [sys.executable, "-c", script, step, "prepare", str(source), "-o", str(output), *WISH]
    assert subprocess.run(args, capture_output=True).returncode == -signal.SIGKILL
    if STEPS.index(step) <= STEPS.index("publish"):
        assert not output.exists()
    result = cli("prepare", source, "-o", output, *WISH, "--format", "json")
    assert result.code == 0, result.err
    assert [s["skipped"] for s in result.json["steps"]] == [s in STEPS[: STEPS.index(step)] for s in STEPS]
    assert cli("verify", output, "--hash").code == 0


@pytest.mark.parametrize("at", range(1, 9))
def test_killed_in_the_middle_of_an_edit(cli: Cli, source: Path, tmp_path: Path, at: int):
    """kill -9 at the first fsyncs and names of the edits in the fix step."""
    output = tmp_path / "out.gguf"
    script = (
        "import os, signal, sys; from gguftool.edit.oslayer import OsLayer; from gguftool.cli.main import main\n"
        "left = int(sys.argv[1])\n"
        "def watched(real):\n"
        "    def call(*args, **kwargs):\n"
        "        global left\n"
        "        left -= 1\n"
        "        if not left: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return real(*args, **kwargs)\n"
        "    return call\n"
        "for name in ('fsync', 'rename', 'pwrite'): setattr(OsLayer, name, watched(getattr(OsLayer, name)))\n"
        "main(sys.argv[2:])\n"
    )
    args = [sys.executable, "-c", script, str(at), "prepare", str(source), "-o", str(output), *WISH]
    done = subprocess.run(args, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not output.exists()
    result = cli("prepare", source, "-o", output, *WISH, "--format", "json")
    assert result.code == 0, result.err
    assert cli("verify", output, "--hash").code == 0
    with open_model(output) as made:
        assert (made["llama.context_length"], made["llama.kv_cache_type"]) == (2048, "q8_0")
    assert sorted(os.listdir(tmp_path / "out.gguf.prepare")) == ["lock", "logs", "state.json"]


def test_killed_between_the_name_and_the_record(cli: Cli, source: Path, tmp_path: Path):
    output = tmp_path / "out.gguf"
    script = (
        "import os, signal, sys; from gguftool.build import prepare; from gguftool.cli.main import main\n"
        "give = prepare.publish_beside\n"
        "def kill(*args, **kwargs):\n"
        "    give(*args, **kwargs)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "prepare.publish_beside = kill\n"
        "main(sys.argv[1:])\n"
    )
    args = [sys.executable, "-c", script, "prepare", str(source), "-o", str(output), *WISH]
    assert subprocess.run(args, capture_output=True).returncode == -signal.SIGKILL
    assert output.exists()
    result = cli("prepare", source, "-o", output, *WISH)
    assert result.code == 0, result.err
    assert os.stat(output).st_nlink == 1


def test_two_at_a_time_do_not_meet(cli: Cli, source: Path, tmp_path: Path):
    folder = tmp_path / "out.gguf.prepare"
    folder.mkdir()
    script = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(1, flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", script, str(folder / "lock")], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        result = cli("prepare", source, "-o", tmp_path / "out.gguf", *WISH)
        assert result.code == 7
        assert "another gguftool prepare" in result.err
    finally:
        holder.kill()
        holder.communicate()


def test_what_would_fail_late_fails_early(cli: Cli, source: Path, smollm2: Path, tmp_path: Path):
    quantised = cli("prepare", smollm2, "-o", tmp_path / "a.gguf", "--quantize", "Q4_K_M")
    assert (quantised.code, "--allow-requantize" in quantised.err) == (4, True)
    low = cli("prepare", model(DENSE, "f16").write(tmp_path / "b"), "-o", tmp_path / "a.gguf", "--quantize", "IQ2_XS")
    assert (low.code, "--imatrix FILE" in low.err) == (4, True)
    long = cli("prepare", source, "-o", tmp_path / "a.gguf", "--context-length", "100000000")
    assert long.code in (2, 4)
    assert not (tmp_path / "a.gguf.prepare").exists()


def test_a_file_of_the_users_where_the_manifest_goes_stays(cli: Cli, source: Path, tmp_path: Path):
    notes = tmp_path / "out.gguf.manifest"
    notes.write_text("mine\n")
    result = cli("prepare", source, "-o", tmp_path / "out.gguf", *WISH)
    assert result.code == 4
    assert notes.read_text() == "mine\n"
    assert not (tmp_path / "out.gguf").exists()


def test_a_broken_state_file_counts_as_none(cli: Cli, source: Path, tmp_path: Path):
    output = tmp_path / "out.gguf"
    (tmp_path / "out.gguf.prepare").mkdir()
    (tmp_path / "out.gguf.prepare" / "state.json").write_text('{"format": "gguftool.prepare-state/1", "steps": [1]}')
    assert cli("prepare", source, "-o", output, *WISH).code == 0


def test_without_quantize_the_types_stay(cli: Cli, source: Path, tmp_path: Path):
    output = tmp_path / "out.gguf"
    result = cli("prepare", source, "-o", output, "--context-length", "1024", "--kv-cache-type", "q8_0/q4_0")
    assert result.code == 0, result.err
    with open_model(source) as old, open_model(output) as new:
        assert all(old.read(name) == new.read(name) for name in old.tensors)
        assert new["llama.context_length"] == 1024


def test_rope_scale_as_fix_has_it(cli: Cli, source: Path, tmp_path: Path):
    with open_model(source) as old:
        trained = old["llama.context_length"]
    output = tmp_path / "out.gguf"
    result = cli("prepare", source, "-o", output, "--rope-freq-scale", "0.5", "-ctk", "q8_0", "-ctv", "q8_0")
    assert result.code == 0, result.err
    with open_model(output) as new:
        assert new["llama.rope.scaling.factor"] == 1 / new["llama.rope.freq_scale"] == 2
        assert new["llama.context_length"] == 2 * trained


@pytest.mark.oracle
def test_from_a_hugging_face_folder(cli: Cli, converter_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(converter_cache))
    monkeypatch.setattr(
        "gguftool.api.judged.comparison", lambda *_: lambda _: Compared(why_not="left out in this test")
    )
    folder, output = hf.folder(tmp_path / "qwen3", "qwen3"), tmp_path / "q.gguf"
    card = (
        "license: apache-2.0\nbase_model: Org/Qwen3-0.1B\nlanguage: [en]\npipeline_tag: text-generation\ntags: [chat]"
    )
    (folder / "README.md").write_text(f"---\n{card}\n---\n# A model\n")
    args = (
        "prepare",
        folder,
        "-o",
        output,
        "--quantize",
        "Q4_K_M",
        "--context-length",
        "2048",
        "--kv-cache-type",
        "q8_0",
    )
    result = cli(*args, "--pre", "qwen2", "--converter-arg=--no-lazy", "--format", "json")
    assert result.code == 0, result.err
    steps = {s["name"]: s for s in result.json["steps"]}
    assert list(steps) == ["convert", *STEPS]
    assert steps["lint"]["data"]["counts"]["error"] == steps["lint"]["data"]["counts"]["warning"] == 0
    looked = {c["name"]: c["verdict"] for c in steps["convert"]["data"]["checks"]}
    assert looked == {"counts": "ok", "template": "ok", "tokenizer": "unjudged", "data": "ok"}
    with open_model(output) as made:
        assert made["gguftool.convert.source"] == "qwen3"
        assert made["gguftool.quantize.source_type"] == "BF16"
        assert made["general.license"] == "apache-2.0"
        assert made["general.base_model.0.repo_url"] == "https://huggingface.co/Org/Qwen3-0.1B"
        assert (made["general.tags"], made["general.languages"]) == (["chat", "text-generation"], ["en"])
    assert len(greedy(output, [5, 6, 7], 4)) == 4
    assert not os.path.exists(steps["convert"]["data"]["path"])
    assert "Model successfully exported" in Path(steps["convert"]["log"]).read_text()
    # A file of the folder changes: all is made anew, and the old output is not replaced without being asked.
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "rope_theta": 500000.0}))
    assert cli(*args, "--pre", "qwen2", "--converter-arg=--no-lazy").code == 4


def test_steps_run_in_order_and_keep_what_they_left(tmp_path: Path):
    calls: list[str] = []

    def step(name: str, **settings: object) -> Step:
        def run(log: str, before: object) -> Outcome:
            calls.append(name)
            path = tmp_path / name
            path.write_text(str(time.monotonic_ns()))
            return Outcome(f"made {name}", (str(path),), {"path": str(path)})

        return Step(name, settings, run)

    folder = str(tmp_path / "work")
    pipeline.run([step("a"), step("b", x=1), step("c")], folder, "inputs")
    pipeline.run([step("a"), step("b", x=2), step("c")], folder, "inputs")
    assert calls == ["a", "b", "c", "b", "c"]
    os.unlink(tmp_path / "c")
    pipeline.run([step("a"), step("b", x=2), step("c")], folder, "inputs")
    assert calls[5:] == ["c"]
    os.unlink(tmp_path / "a")
    pipeline.run([step("a"), step("b", x=2), step("c")], folder, "inputs")
    assert calls[6:] == []
    pipeline.run([step("a"), step("b", x=2), step("c")], folder, "others")
    assert calls[6:] == ["a", "b", "c"]
