"""What was asked for is in every emitted file, and every file that is named is there, mounted, and found."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gguftool.errors import GgufToolError, MissingFile, UsageError
from gguftool.model import open_model
from gguftool.programs import find
from gguftool.run.capabilities import capabilities, known
from gguftool.run.emit import emit
from gguftool.run.launch import plan_launch
from gguftool.run.options.extra import roles
from gguftool.run.options.table import options
from gguftool.run.sidefiles import side_files
from gguftool.run.wishes import Wishes
from tests.build import llama
from tests.run.emitted import KINDS, ODD, filled, outside, planned, read, sample
from tests.run.test_options import CASES, parsed


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / ODD).mkdir()
    return filled(tmp_path / ODD)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("field", "value"), [*CASES, ("extra", ("--log-file", "x.log", "--seed", "1"))])
def test_what_was_asked_for_is_in_the_file(kind: str, field: str, value: Any, place: Path) -> None:
    value = sample(field, value, place)
    more = {"vram": (24 << 30, 24 << 30)} if field in ("device", "mmproj_device", "main_gpu", "overrides") else {}
    if field == "main_gpu":
        more["split_mode"] = "none"
    if field == "ctx" and not value:
        value = 4096
    if field == "extra" and "--log-file" in value:
        value = ("--log-file", str(place / "x.log"), "--seed", "1")
    plan = planned(place, **{field: value, **more})
    if field == "api_key":
        with pytest.raises(UsageError, match="everybody"):
            emit(kind, plan)
        return
    text = emit(kind, plan)
    hook, served, mounts = read(kind, text)
    assert hook[1] == "launch"
    found = parsed([w for w in hook[3:] if w not in ("--print", "--exec")])
    # What a proof is held against: a service proves nothing.
    wanted = replace(plan.wishes, against=None)
    container = kind in ("docker-compose", "k8s", "dockerfile")
    if kind != "llama-swap":
        # It judges the memory there is when the server starts.
        wanted = replace(wanted, ram="auto" if wanted.ram is None else wanted.ram)
    if kind == "llama-swap":
        # It names the port itself.
        wanted = replace(wanted, port=8080)
    if kind == "dockerfile":
        # It is the server itself that listens.
        assert (found.host, found.port) == ("0.0.0.0", wanted.port or 8080)
        wanted = replace(wanted, host=found.host, port=found.port)
    if container:
        wanted = replace(wanted, server=None, engine="auto", log=None)
        for file, inside in zip(side_files(wanted), side_files(found), strict=True):
            there = outside(inside.path, mounts)
            if kind == "k8s" and file.secret:
                assert there.startswith("llama-m-keys"), "a Secret, not a file of this machine"
                line = next(x for x in text.splitlines() if "kubectl" in x and there in x).partition("kubectl ")[2]
                made = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True).stdout
                key = os.path.basename(inside.path)
                assert made.split("\0")[3:5] == [there, f"--from-file={key}={os.path.realpath(file.path)}"]
            else:
                assert os.path.realpath(there) == os.path.realpath(file.path)
            if served:
                assert any(inside.path in word for word in served)
        assert outside(hook[2], mounts) == os.path.realpath(place / "m.gguf")
        same = {o.field: getattr(wanted, o.field) for o in options() if o.path}
        assert replace(found, **same, extra=wanted.extra) == wanted
        assert len(found.extra) == len(wanted.extra)
    else:
        assert found == wanted
        assert all(os.path.isabs(f.path) for f in side_files(found))


@pytest.mark.parametrize("kind", ["docker-compose", "k8s"])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("shards", [1, 2])
def test_links_lead_somewhere(kind: str, absolute: bool, shards: int, tmp_path: Path) -> None:
    """The cache of Hugging Face: a name that is a link to a file named by its hash."""
    from tests.build import GGUF as Builder

    root = tmp_path / "hub" / "models--a--b"
    (root / "blobs").mkdir(parents=True)
    (root / "snapshots" / "abc").mkdir(parents=True)
    for no in range(shards):
        g = Builder("llama") if not no else Builder()
        if not no:
            g.kv("llama.context_length", 512).kv("llama.embedding_length", 32).kv("llama.block_count", 1)
            g.kv("llama.attention.head_count", 1)
        if shards > 1:
            g.shard(no, shards, tensors=shards)
        blob = root / "blobs" / f"{no}{'f' * 63}"
        blob.write_bytes(g.tensor(f"blk.0.w{no}.weight", (32, 32)).bytes())
        name = "m.gguf" if shards == 1 else f"m-{no + 1:05}-of-{shards:05}.gguf"
        link = root / "snapshots" / "abc" / name
        link.symlink_to(blob if absolute else Path("..", "..", "blobs", blob.name))
    first = sorted((root / "snapshots" / "abc").iterdir())[0]
    with open_model(first) as model:
        plan = plan_launch(model, Wishes(ctx=512))
    hook, served, mounts = read(kind, emit(kind, plan))
    inside = served[served.index("-m") + 1]
    assert hook[2] == inside
    # As in the container: the mounts laid out under another root, and the links followed there.
    for no in range(shards):
        path = re.sub(r"-00001-of", f"-{no + 1:05}-of", inside)
        here = Path(outside(path, mounts))
        assert here.is_file()
        if here.is_symlink():
            to = os.readlink(here)
            there = to if os.path.isabs(to) else os.path.normpath(os.path.join(os.path.dirname(path), to))
            assert Path(outside(there, mounts)).resolve() == here.resolve()
    assert str(tmp_path / "hub") not in mounts.values()


@pytest.mark.parametrize("action", [["--print"], ["--emit", "systemd"], ["--emit", "k8s"], ["--check-only"]])
def test_a_file_that_is_not_there_is_refused(cli, place: Path, action: list[str]) -> None:
    gone = place / "gone"
    words = []
    for o in options():
        if o.path == "read":
            words.append([o.ours, f"{gone}:0.5" if o.field.endswith("scaled") else gone])
    assert len(words) >= 9
    tool = find("llama-server")
    takes = (capabilities(tool) if tool else known()).takes
    for name, role in roles().items():
        if role.path and name.startswith("--") and takes(name):
            words.append(["--", name, gone if role.path in ("read", "folder") else gone / "x" / "y"])
    words.append(["--log", gone / "x.log"])
    words.append(["--", "--lora", gone])
    for more in words:
        if more[0].endswith("scaled"):
            continue
        result = cli("launch", place / "m.gguf", *action, "--force", *more)
        assert result.code == 2, (more, result.err)
        assert "no such" in result.err or "no folder" in result.err, (more, result.err)
    plan = cli("plan", place / "m.gguf", "--lora", gone)
    assert plan.code == 2


def test_a_folder_is_no_file(place: Path) -> None:
    with pytest.raises(UsageError, match="folder"):
        planned(place, template=str(place))
    with pytest.raises(UsageError, match="not a folder"):
        planned(place, extra=("--media-path", str(place / "file")))
    with pytest.raises(MissingFile):
        planned(place, lora_scaled=((str(place.parent / "nosuch.gguf"), 1.0),))
    with pytest.raises(GgufToolError):
        planned(place, mmproj="hf://owner/repo/mmproj.gguf")


def test_paths_are_absolute_wherever_they_are_used(cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    result = cli(
        "launch", "m.gguf", "--mmproj", "mm.gguf", "--chat-template-file", "file", "--api-key-file", "file",
        "--emit", "systemd", "--force", "--", "--grammar-file", "file",
    )  # fmt: skip
    assert result.code == 0, result.err
    hook, _, _ = read("systemd", result.out)
    for words in (hook,):
        files = [w for w in words if w.endswith(("mm.gguf", "/file", "m.gguf"))]
        assert len(files) == 5
        assert all(os.path.isabs(f) and os.path.isfile(f) for f in files)


def test_nobody_reads_a_key(cli, place: Path) -> None:
    """Not in the printed command, not in JSON, not in a file; and there is a word about it."""
    for words in (["--api-key", "sekrit"], ["--", "--api-key", "sekrit"], ["--", "--hf-token", "sekrit"]):
        for form in ("text", "json"):
            for command in ("launch", "plan"):
                action = ["--print", "--force"] if command == "launch" else []
                result = cli(command, place / "m.gguf", *action, "--format", form, *words)
                assert result.code == 0, result.err
                assert "sekrit" not in result.out + result.err
        for kind in KINDS:
            result = cli("launch", place / "m.gguf", "--emit", kind, "--force", *words)
            assert result.code == 2
            assert "sekrit" not in result.out + result.err
            assert "--api-key-file" in result.err
    printed = cli("launch", place / "m.gguf", "--print", "--force", "--", "--api-key", "sekrit")
    assert "--api-key-file" in printed.err
    line = printed.out.strip().partition(" ")[2]
    shown = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {line}"],
        capture_output=True,
        text=True,
        env={"LLAMA_API_KEY": "a b", "PATH": "/bin:/usr/bin"},
    )
    assert "a b" in shown.stdout.splitlines(), "the shell puts it in"
    without = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, env={"PATH": "/bin:/usr/bin"}
    )
    assert without.returncode != 0, "never a server without its key"


def test_an_open_service_says_so(place: Path) -> None:
    assert "Everybody" in emit("k8s", planned(place))
    assert "Everybody" not in emit("k8s", planned(place, api_key_file=str(place / "file")))


def test_probes_know_prefix_and_scheme(place: Path) -> None:
    plan = planned(place, api_prefix="/llm", ssl_key_file=str(place / "file"), ssl_cert_file=str(place / "file"))
    deployment = next(iter(yaml.safe_load_all(emit("k8s", plan))))
    probe = deployment["spec"]["template"]["spec"]["containers"][0]["startupProbe"]["httpGet"]
    assert (probe["path"], probe["scheme"]) == ("/llm/health", "HTTPS")
    check = yaml.safe_load(emit("docker-compose", plan))["services"]["llama-server"]["healthcheck"]["test"]
    assert check[-1] == "https://127.0.0.1:8080/llm/health"


@pytest.mark.parametrize("how", ["--llama-cpp", "LLAMA_CPP_DIR"])
def test_the_program_of_an_emitted_file_is_found_from_anywhere(
    how: str, cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path, and a variable that no service manager has: the unit could not start, or started another."""
    folder = tmp_path / "mine"
    folder.mkdir()
    program = folder / "llama-server"
    listed = ("-m,  --model FNAME  x", "-c,  --ctx-size N  x", "--host HOST  x", "--port PORT  x")
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in listed))
    program.chmod(0o755)
    model = llama().write(tmp_path / "m.gguf")
    monkeypatch.chdir(tmp_path)
    words = ["--llama-cpp", "mine"] if how == "--llama-cpp" else []
    if not words:
        monkeypatch.setenv("LLAMA_CPP_DIR", "mine")
    unit = cli("launch", model, "--ctx", "32", "--force", "--emit", "systemd", *words)
    assert f"--llama-cpp {folder}" in unit.out, unit.err
    swap = cli("launch", model, "--ctx", "32", "--force", "--emit", "llama-swap", *words)
    assert f"--llama-cpp {folder}" in swap.out, swap.err
    for kind in ("docker-compose", "k8s"):
        assert str(folder) not in cli("launch", model, "--ctx", "32", "--force", "--emit", kind, *words).out
