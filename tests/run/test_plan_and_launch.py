"""The same words mean the same for `plan` and `launch`: figures, refusal, exit code and command."""

from __future__ import annotations

import gzip
import re
from math import prod
from pathlib import Path
from typing import Any

import pytest

from gguftool.api.preflight import Preflight
from gguftool.memory.pictures import graphs
from gguftool.model import open_model
from gguftool.run.devices import host_memory
from tests.beside import projector
from tests.memory.giants import whole

DATA = Path(__file__).parent.parent / "data" / "llamacpp"
GIB = 1 << 30
MIB = 1 << 20
TWO = ("--vram", "24GiB,16GiB", "--ram", "64GiB")
GRID = [
    ["--ram", "64GiB"],
    ["--vram", "none", "--ram", "64GiB"],
    ["--vram", "none", "--ram", "1GiB"],
    ["--vram", "none", "--ram", "6GiB"],
    ["--vram", "none", "--ram", "64GiB", "-c", "0"],
    ["--vram", "none", "--ram", "64GiB", "-c", "1000", "-np", "3"],
    ["--vram", "none", "--ram", "64GiB", "-c", "16384", "-np", "auto"],
    ["--vram", "none", "--ram", "64GiB", "-c", "16384", "-np", "4", "-kvu", "-ctk", "q8_0", "-ctv", "q4_0"],
    ["--vram", "none", "--ram", "64GiB", "--cache-type", "q8_0", "-fa", "off"],
    ["--vram", "none", "--ram", "64GiB", "-c", "8192", "-nr"],
    ["--vram", "none", "--ram", "64GiB", "-c", "8192", "-lm", "none", "-ub", "128", "-b", "256"],
    ["--vram", "none", "--ram", "64GiB", "--embeddings", "-c", "2048"],
    ["--vram", "none", "--ram", "64GiB", "-c", "8192", "--device", "none"],
    ["--vram", "none", "--ram", "64GiB", "-c", "8192", "--device", "CUDA7"],
    ["--vram", "8GiB", "--ram", "64GiB"],
    ["--vram", "8GiB", "--ram", "64GiB", "--reserve", "0", "-c", "8192"],
    ["--vram", "3GiB", "--ram", "64GiB", "-c", "8192"],
    ["--vram", "3GiB", "--ram", "64GiB", "-c", "8192", "-ngl", "99"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-ngl", "0"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-ngl", "-1"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-ngl", "all"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-ngl", "auto"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-ngl", "20", "--no-host"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-ngl", "20", "--no-op-offload"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-nkvo"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "--backend", "vulkan", "-ncffn", "8"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-ot", "ffn_up=CPU"],
    [*TWO, "-c", "8192"],
    [*TWO, "-c", "8192", "-ts", "3/1"],
    [*TWO, "-c", "8192", "-ts", "1e0,3"],
    [*TWO, "-c", "8192", "-ts", "3,1", "-ngl", "20"],
    [*TWO, "-c", "8192", "--device", "CUDA1"],
    [*TWO, "-c", "8192", "--device", "cuda1,CUDA0"],
    [*TWO, "-c", "8192", "-dev", "CUDA0,CUDA9"],
    [*TWO, "-c", "8192", "-sm", "none"],
    [*TWO, "-c", "8192", "-sm", "none", "-mg", "1"],
    [*TWO, "-c", "8192", "-sm", "none", "-mg", "2"],
    [*TWO, "-c", "8192", "-sm", "none", "-mg", "-1"],
    [*TWO, "-c", "8192", "-sm", "row"],
    [*TWO, "-c", "8192", "--rpc", "10.0.0.7:50052=8GiB"],
    ["--vram", "none", "--ram", "64GiB", "-c", "8192", "--rpc", "a:1=8GiB, b:2=24GiB"],
    ["--vram", "none", "--ram", "64GiB", "-c", "8192", "--rpc", "a:1,b:2"],
    [*TWO, "-c", "8192", "--rpc", "a:1=8GiB", "--device", "RPC0"],
    [*TWO, "-c", "8192", "--", "-cmoe", "-np", "2", "--temp", "0.5"],
    [*TWO, "-c", "8192", "--", "--device", "none"],
    [*TWO, "-c", "8192", "--", "-c", "4096"],
    [*TWO, "-c", "8192", "--", "-sm", "graph"],
    [*TWO, "-c", "8192", "--", "-hf", "a/b"],
    [*TWO, "-c", "8192", "--", "-fitt", "2048"],
    [*TWO, "-c", "8192", "--kv-unified-per-slot", "2048", "-np", "2"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "--mmproj", "MMPROJ"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "--mmproj", "MMPROJ", "--no-mmproj-offload"],
    [*TWO, "-c", "8192", "--mmproj", "MMPROJ", "-mmdev", "CUDA1"],
    ["--vram", "none", "--ram", "64GiB", "-c", "8192", "--mmproj", "MMPROJ", "--lora", "MMPROJ"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-md", "MODEL", "--spec-type", "draft-simple"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-md", "MODEL", "--spec-type", "draft-simple", "-ngld", "0"],
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole("llama-3.1-8b", tmp_path_factory.mktemp("giants"))


EYES = projector("mlp", 4096)
EYES_BYTES = sum(prod(t["shape"]) * {"f16": 2, "f32": 4}[t["type"]] for t in EYES._tensors)


@pytest.fixture(scope="module")
def mmproj(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mm") / "mmproj.gguf"
    return EYES.write(path)


@pytest.mark.parametrize("words", GRID, ids=" ".join)
def test_plan_and_launch_say_the_same(
    cli, model: Path, mmproj: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gguftool.programs.find", lambda *args, **kwargs: None)
    # What else a launch looks at (lint, verify) is not about memory.
    monkeypatch.setattr("gguftool.api.launch.preflight", lambda *args: Preflight((), ()))
    said = [{"MMPROJ": str(mmproj), "MODEL": str(model)}.get(w, w) for w in words]
    at = said.index("--") if "--" in said else len(said)
    before, behind = said[:at], said[at:]
    plan = cli("plan", model, *before, "--format", "json", *behind)
    launch = cli("launch", model, "--print", *before, "--format", "json", *behind)
    assert plan.code == launch.code, (plan.err, launch.err)
    a, b = plan.json, launch.json
    for field in ("requested", "total", "per_slot", "usable", "slots", "unified"):
        assert a["context"][field] == b["context"][field], field
    assert (a["kv"]["type_k"], a["kv"]["type_v"], a["kv"]["bytes"]) == (
        b["kv"]["type_k"], b["kv"]["type_v"], b["kv"]["bytes"],
    )  # fmt: skip
    for field in ("devices", "placement", "fits", "expected"):
        assert a[field] == b[field], field
    for field in ("weights", "state", "compute", "total"):
        assert a[field]["bytes"] == b[field]["bytes"], field
    assert a["command"] == b["command"]


def test_what_the_grid_holds(cli, model: Path, mmproj: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values, worked out by hand or given by llama.cpp, so that both are not the same and wrong."""
    monkeypatch.setattr("gguftool.programs.find", lambda *args, **kwargs: None)

    def plan(*words: object, code: int = 0) -> Any:
        result = cli("plan", model, "-c", 8192, *words, "--format", "json")
        assert result.code == code, result.err
        return result.json

    one = plan(*TWO, "--device", "CUDA1")
    assert [(d["name"], d["memory"]) for d in one["devices"]] == [("CUDA1", 16 * GIB), ("CPU", 64 * GIB)]
    swapped = plan(*TWO, "--device", "CUDA1,CUDA0")
    assert [d["name"] for d in swapped["devices"]] == ["CUDA1", "CUDA0", "CPU"]
    assert plan(*TWO, "-sm", "none", "-mg", "1")["devices"][0]["name"] == "CUDA1"
    # 33 layers with the output's; `llama-model.cpp`: layer i goes to the first device whose share passes i / 33.
    shares = plan(*TWO, "-ts", "3/1")["placement"]["layer_devices"]
    assert shares == ["CUDA0" if i / 33 < 0.75 else "CUDA1" for i in range(33)]
    assert plan(*TWO, "-ts", "1e0,3")["placement"]["tensor_split"] == [1.0, 3.0]
    bare = plan("--vram", "8GiB", "--ram", "64GiB")
    seen = plan("--vram", "8GiB", "--ram", "64GiB", "--mmproj", mmproj)
    with open_model(mmproj, strict=False) as m:
        use = graphs(m)
    # Weights and graph on the device; the picture there once more, and on the host.
    there = EYES_BYTES + use.start + use.inputs
    assert [d["mmproj"] for d in seen["devices"]] == [there, use.inputs]
    assert seen["total"]["bytes"] - bare["total"]["bytes"] == there + use.inputs
    host = plan("--vram", "8GiB", "--ram", "64GiB", "--mmproj", mmproj, "--no-mmproj-offload")
    assert [d["mmproj"] for d in host["devices"]] == [0, EYES_BYTES + use.start]
    second = plan(*TWO, "--mmproj", mmproj, "-mmdev", "CUDA1")
    assert [d["mmproj"] for d in second["devices"]] == [0, there, use.inputs]
    # The header has no vocabulary, without which nothing is drafted; the sizes are those of a draft all the same.
    words = ("--vram", "8GiB", "--ram", "64GiB", "-md", model, "--spec-type", "draft-simple", "-ngld", 0)
    draft = plan(*words, code=1)
    assert "LLAMA_VOCAB_TYPE_NONE" in draft["refused"][0]
    # A second model of 32 layers with its own cache of 8192 tokens: 1 GiB in f16.
    assert draft["devices"][1]["beside"] > one["weights"]["tensors"] + GIB
    (second,) = draft["drafts"]
    assert (second["what"], second["context"], second["kv"], second["caches"][0]["layers"]) == ("draft", 8192, GIB, 32)
    assert second["total"] == draft["devices"][1]["beside"]
    assert plan("--vram", "none", "--ram", "1GiB", code=5)["fits"] is False
    assert plan(*TWO, "-dev", "CUDA0,CUDA9", code=1)["refused"]


@pytest.mark.parametrize(
    "words",
    [[], ["-c", "8192"], ["--device", "CUDA1"], ["--device", "cuda1,CUDA0"], ["--device", "CUDA2"],
     ["-sm", "none", "-mg", "1"],
     ["-c", "65536"], ["--", "-dev", "none"], ["--vram", "auto", "--ram", "auto"]],
    ids=" ".join,
)  # fmt: skip
def test_the_devices_of_the_program_are_those_of_both(
    cli, model: Path, tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `--list-devices` of the llama-server at hand says: nobody names a size."""
    # What is free of the host changes from one moment to the next.
    free = host_memory()
    monkeypatch.setattr("gguftool.run.devices.host_memory", lambda: free)
    help = tmp_path / "help.txt"
    help.write_bytes(gzip.decompress((DATA / "help.b11434.txt.gz").read_bytes()))
    server = tmp_path / "llama-server"
    listed = "Available devices:\\n  CUDA0: one (24564 MiB, 23000 MiB free)\\n  CUDA1: two (8192 MiB, 7000 MiB free)\\n"
    server.write_text(
        f"#!/bin/sh\ncase $1 in --help) cat '{help}';; --version) echo 'version: 11434 (7e4c0a9)';;\n"
        f"--list-devices) printf '{listed}';; *) exit 1;; esac\n"
    )
    server.chmod(0o755)
    plan = cli("plan", model, "--llama-cpp", server, "--format", "json", *words)
    launch = cli("launch", model, "--print", "--llama-cpp", server, "--force", "--format", "json", *words)
    a, b = plan.json, launch.json
    names = [d["name"] for d in a["devices"]]
    wanted = {
        "--device CUDA1": ["CUDA1", "CPU"], "--device cuda1,CUDA0": ["CUDA1", "CUDA0", "CPU"], "-- -dev none": ["CPU"],
        "-sm none -mg 1": ["CUDA1", "CPU"], "--device CUDA2": ["CPU"],
    }  # fmt: skip
    assert names == wanted.get(" ".join(words), ["CUDA0", "CUDA1", "CPU"])
    assert a["command"][1:] == b["command"][1:]
    for field in ("placement", "expected", "fits"):
        assert a[field] == b[field]
    for one, other in zip(a["devices"], b["devices"], strict=True):
        assert one == other
    refused = words == ["--device", "CUDA2"]
    assert plan.code == (1 if refused else 0)
    assert any("CUDA2" in o["message"] for o in b["obstacles"]) is refused


def test_the_processor_counts_for_both(cli, gemma3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch once planned every host as one with AVX2."""
    words = ("--vram", "none", "--ram", "64GiB", "-c", 4096, "--format", "json")
    totals = {}
    for machine in ("aarch64", "x86_64"):
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        plan = cli("plan", gemma3, *words).json["devices"]
        assert plan == cli("launch", gemma3, "--print", *words).json["devices"]
        totals[machine] = plan[0]["weights"]
    # A tied matrix of Q8_0 is rearranged on ARM only, and is there twice then.
    assert totals["aarch64"] > totals["x86_64"] + 100 * MIB


def test_check_log_expects_what_was_launched(cli, smollm2: Path, server: str, tmp_path: Path) -> None:
    """Finding: the plan of the same words was another, and every line differed."""
    plan, log = tmp_path / "p.json", tmp_path / "l.log"
    words = ("--cache-type", "q8_0", "--parallel", 2)
    plan.write_text(cli("plan", smollm2, *words, "--format", "json").out)
    started = cli("launch", smollm2, *words, "--check-only", "--port", 0, "--force", "--log", log)
    assert started.code == 0, started.out
    judged = cli("check-log", log, "--expect", plan, "--format", "json")
    assert judged.code == 0, judged.out
    seen = {c["what"]: c["ok"] for c in judged.json["checks"]}
    assert seen["context"] is True
    assert seen["KV cache"] is True
    assert seen["tensors"] is True


def test_the_documented_default_is_one(cli, smollm2: Path) -> None:
    plan = cli("plan", smollm2, "--format", "json").json
    launch = cli("launch", smollm2, "--print", "--format", "json").json
    assert plan["context"]["requested"] == launch["context"]["requested"] == plan["context"]["trained"]
    assert {d["reserve"] for d in plan["devices"]} == {GIB}
    for command in ("plan", "launch"):
        help = re.sub(r"\s+", " ", cli(command, "--help").out)
        assert "default, and 0: the file's context length" in help
        assert "Left free on each device. [default: 1GiB]" in help


def test_a_build_that_cannot_say_it_stops_plan_and_launch(cli, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`plan` looked at the build our facts are from alone, and found nothing in the way."""
    from gguftool.run.capabilities import Capabilities, parse_help
    from gguftool.run.engine import Engine

    text = gzip.decompress((DATA / "help.b10434.txt.gz").read_bytes()).decode()
    engine = Engine("llama-server", ("llama-server",), None, Capabilities(parse_help(text)))
    for module in ("api.plan", "api.launch", "cli.launch", "run.engine"):
        monkeypatch.setattr(f"gguftool.{module}.choose", lambda *args, **kwargs: engine, raising=False)
    monkeypatch.setattr("gguftool.api.launch.preflight", lambda *args: Preflight((), ()))
    words = ("--vram", "none", "--ram", "64GiB", "-c", "8192", "--n-cpu-ffn", "2", "--format", "json")
    plan, launch = cli("plan", model, *words), cli("launch", model, "--print", *words)
    assert (plan.code, launch.code) == (1, 1), (plan.err, launch.err)
    assert "this build has no --n-cpu-ffn 2" in plan.json["refused"]
    assert "this build has no --n-cpu-ffn 2" in [o["message"] for o in launch.json["obstacles"]]


def test_what_is_no_projector_stops_plan_and_launch(cli, model: Path) -> None:
    words = ("--vram", "none", "--ram", "64GiB", "-c", "8192", "--mmproj", model, "--format", "json")
    plan, launch = cli("plan", model, *words), cli("launch", model, "--print", *words)
    assert (plan.code, launch.code) == (1, 1), (plan.err, launch.err)
    assert any("is no multimodal projector: it is a language model" in x for x in plan.json["refused"])


@pytest.mark.parametrize("command", [["plan"], ["launch", "--print"]])
def test_an_ipv6_address_of_an_rpc_server_is_told(cli, model: Path, command: list[str]) -> None:
    """`ggml-rpc.cpp:parse_endpoint` (b11434) ends the host at the first colon."""
    result = cli(
        *command, model, "--vram", "none", "--ram", "64GiB", "-c", "8192", "--rpc", "[fe80::1%eth0]:50052=1GiB"
    )
    assert result.code == 1
    assert "takes no IPv6 address" in result.out + result.err


def test_a_context_above_the_trained_one_is_told_once(cli, model: Path) -> None:
    """llama-server starts and caps the slot (`server-context.cpp:n_ctx_slot`); YaRN of the command line raises it."""
    words = ("--vram", "none", "--ram", "640GiB", "-c", "262144")
    assert cli("plan", model, *words).code == 0
    launch = cli("launch", model, "--print", *words, "--format", "json")
    said = [(o["where"], o["severity"]) for o in launch.json["obstacles"] if "262144" in o["message"].replace(",", "")]
    assert said == [("context", "warning")]
    yarn = cli("launch", model, "--print", *words, "--", "--rope-scaling", "yarn", "--rope-scale", "2")
    assert "262,144 tokens, the file allows" not in yarn.err
