"""Files for service managers are what those read: YAML that parses, units whose words come apart again."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gguftool.errors import UsageError
from gguftool.model import from_source
from gguftool.run.emit import emit, own_command
from gguftool.run.launch import LaunchPlan, plan_launch
from gguftool.run.wishes import Wishes
from gguftool.source import Memory
from tests.build import GGUF

NASTY = '/srv/models/my "odd" $HOME %h\'s model.gguf'


def tiny() -> bytes:
    g = GGUF().kv("general.architecture", "llama").kv("llama.context_length", 4096).kv("llama.block_count", 1)
    g = g.kv("llama.embedding_length", 64).kv("llama.attention.head_count", 1)
    return g.tensor("token_embd.weight", (64, 32), "f32").bytes()


def planned(path: str = "/srv/models/qwen-00001-of-00003.gguf", **wishes: object) -> LaunchPlan:
    model = from_source(Memory(tiny(), path))
    return replace(plan_launch(model, Wishes(**wishes)), model=path)  # type: ignore[arg-type]


def unit(text: str) -> dict[str, list[str]]:
    """Settings of a unit by name."""
    out: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            out.setdefault(name, []).append(value)
    return out


def unit_words(line: str) -> list[str]:
    """As systemd takes a command line apart: quotes as a shell does, %% and $$ for one."""
    return [w.replace("%%", "%").replace("$$", "$") for w in shlex.split(line)]


@pytest.mark.parametrize("path", ["/srv/models/qwen-00001-of-00003.gguf", NASTY])
def test_systemd(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/usr/bin/env")
    # Where this checkout lies is no matter.
    monkeypatch.setattr("gguftool.run.emit.services.installed", lambda: "/usr/bin/env")
    plan = planned(path, cache_type=("q8_0", "q8_0"), load_mode="mlock")
    settings = unit(emit("systemd", plan))
    started = unit_words(settings["ExecStart"][0])
    assert started[1:3] == ["launch", path]
    assert "--exec" in started
    # What stops a loop: systemd looks at the main process alone, and counts starts within an interval that is longer
    # than all of them take.
    assert "ExecStartPre" not in settings
    assert set(settings["RestartPreventExitStatus"][0].split()) >= {"1", "2", "3"}
    burst, interval, pause = (int(settings[k][0]) for k in ("StartLimitBurst", "StartLimitIntervalSec", "RestartSec"))
    assert burst * pause < interval
    assert settings["LimitMEMLOCK"] == ["infinity"]
    assert settings["DynamicUser"] == ["yes"]
    assert not re.search(r"(?<!%)%(?!%)", settings["ExecStart"][0])


def test_a_model_in_a_home_needs_a_user() -> None:
    text = emit("systemd", planned("/home/ann/m.gguf"))
    assert "DynamicUser" not in text
    assert "#User=" in text


@pytest.mark.parametrize("path", ["/srv/models/qwen-00001-of-00003.gguf", NASTY])
def test_compose(path: str) -> None:
    found = yaml.safe_load(emit("docker-compose", planned(path), force=True))
    hook, server = found["services"]["preflight"], found["services"]["llama-server"]
    inside = "/models/" + path.rsplit("/", 1)[1]
    assert [w.replace("$$", "$") for w in hook["command"]][:3] == ["gguftool", "launch", inside]
    assert "--force" in hook["command"]
    words = [w.replace("$$", "$") for w in server["command"]]
    assert words[words.index("-m") + 1] == inside
    assert words[words.index("--host") + 1] == "0.0.0.0"
    assert server["ports"] == ["127.0.0.1:8080:8080"]
    assert server["depends_on"]["preflight"]["condition"] == "service_completed_successfully"
    assert not any(re.search(r"(?<!\$)\$(?!\$)", w) for w in server["command"])


def test_k8s() -> None:
    deployment, service = yaml.safe_load_all(emit("k8s", planned(port=9000)))
    pod = deployment["spec"]["template"]["spec"]
    assert pod["initContainers"][0]["args"][:2] == ["launch", "/models/qwen-00001-of-00003.gguf"]
    container = pod["containers"][0]
    assert container["args"][container["args"].index("--port") + 1] == "9000"
    assert container["startupProbe"]["httpGet"] == {"path": "/health", "port": 9000}
    assert service["spec"]["ports"][0]["targetPort"] == 9000
    assert re.fullmatch(r"[a-z][a-z0-9-]{0,59}[a-z0-9]", deployment["metadata"]["name"])


def test_llama_swap() -> None:
    found = yaml.safe_load(emit("llama-swap", planned(alias="qwen")))
    words = shlex.split(found["models"]["qwen"]["cmd"])
    assert words[words.index("--port") + 1] == "${PORT}"
    assert "--exec" in words


def test_no_other_kind() -> None:
    with pytest.raises(UsageError):
        emit("upstart", planned())


def test_the_command_plans_the_same_again(cli, smollm2: Path) -> None:
    from gguftool.model import open_model

    wishes = Wishes(
        ctx=4096,
        cache_type=("q8_0", "q4_0"),
        parallel=3,
        kv_unified=True,
        ubatch=256,
        swa_full=True,
        kv_offload=False,
        cpu_moe=2,
        overrides=(("ffn_.*", "CPU"),),
    )
    with open_model(smollm2) as model:
        plan = plan_launch(model, wishes)
    again = cli(*own_command(plan, "--print", "--engine", "llama-server")[1:], "--format", "json")
    assert again.json["command"][1:] == list(plan.command.args)


def test_command_line(cli, smollm2: Path) -> None:
    result = cli("launch", smollm2, "--emit", "k8s", "--ctx", 512)
    assert result.code == 0
    assert len(list(yaml.safe_load_all(result.out))) == 2
