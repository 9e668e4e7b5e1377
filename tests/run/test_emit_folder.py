"""`scan --emit`: one configuration for a folder, what is in it, what is left out, and that it runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from gguftool.api.serving import serve_folder
from gguftool.errors import UsageError
from gguftool.run.emit.folder import FOLDER_KINDS, emit_folder
from gguftool.run.emit.words import title
from tests.beside import projector
from tests.build import GGUF, llama
from tests.run.emitted import ODD
from tests.run.test_emit_live import status
from tests.run.test_emit_preset import ini
from tests.run.test_emit_systemd import free_port
from tests.shell_words import NASTY
from tests.speculators import eagle3

GIB = 1 << 30


def names(found: Any) -> list[str]:
    return [one.name for one in found.models]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Models with what lies beside them, and files that are none to be served."""
    root = tmp_path / "models"
    for sub in ("a", "b"):
        (root / sub).mkdir(parents=True)
    llama().write(root / "a/One.gguf")
    projector("mlp", 64).write(root / "a/mmproj-F16.gguf")
    projector("mlp", 128).write(root / "a/mmproj-other.gguf")
    llama(layers=2).write(root / "b/one.gguf")
    eagle3().write(root / "b/head.gguf")
    (root / "cut.gguf").write_bytes(llama(layers=3).bytes()[:-1000])
    llama(arch="nobody").write(root / "strange.gguf")
    g = GGUF("llama").kv("general.type", "adapter").kv("adapter.type", "lora")
    g.tensor("blk.0.attn_q.weight.lora_a", (64, 4)).tensor("blk.0.attn_q.weight.lora_b", (4, 64)).write(root / "l.gguf")
    return root


@pytest.mark.parametrize(("path", "own", "called"), [
    ("/m/SmolLM2-135M-Instruct.Q4_1.gguf", "x", "SmolLM2-135M-Instruct-Q4_1"),
    ("/m/Qwen2.5-7B-Instruct-Q4_K_M-00001-of-00003.gguf", "", "Qwen2.5-7B-Instruct-Q4_K_M"),
    ("/b/sha256-" + "0a" * 32, "Tiny Llama", "Tiny-Llama"),
    ("/b/" + "0a" * 32, "", "0a" * 32),
    ("/m/default.gguf", "", "default-model"), ("/m/].gguf", "", "model"), ("/m/a]; b.gguf", "", "a-b"),
])  # fmt: skip
def test_a_model_is_asked_for_by_the_words_of_its_file(path: str, own: str, called: str) -> None:
    assert title(path, own) == called


def plain(**more: Any) -> dict[str, Any]:
    return {"ctx": 512, "ram": 8 * GIB, "force": True, **more}


def test_what_is_served_and_what_is_not(folder: Path) -> None:
    found = serve_folder([folder], **plain())
    assert names(found) == ["One", "one-2"]
    one, two = (x.plan.wishes for x in found.models)
    assert (os.path.basename(one.mmproj or ""), one.draft) == ("mmproj-F16.gguf", None)
    assert (two.mmproj, os.path.basename(two.draft or ""), two.spec_type) == (None, "head.gguf", ("draft-eagle3",))
    why = {os.path.basename(x.path): (x.code, x.why) for x in found.left}
    assert set(why) == {"cut.gguf", "strange.gguf", "l.gguf"}
    assert why["l.gguf"][0] == "role"
    assert "LoRA adapter" in why["l.gguf"][1]
    assert why["strange.gguf"][0] == "load"
    assert "unknown model architecture: 'nobody'" in why["strange.gguf"][1]
    assert why["cut.gguf"][0] == "load"


def test_what_launch_would_refuse_is_left_out(folder: Path) -> None:
    """A slot that is longer than the file's context: it would start, and launch wants --force."""
    from gguftool.api.launch import plan_launch

    plan = plan_launch(folder / "a/One.gguf", ctx=8192, ram=8 * GIB)
    assert plan.obstacles
    found = serve_folder([folder / "a/One.gguf"], ctx=8192, ram=8 * GIB)
    assert [(x.code, x.why.partition(" (and")[0]) for x in found.left] == [
        (plan.obstacles[0].where, plan.obstacles[0].message)]  # fmt: skip


def test_what_has_no_room_is_left_out(folder: Path) -> None:
    found = serve_folder([folder / "a"], ctx=512, ram=GIB)
    assert found.models == ()
    assert any("are needed" in x.why for x in serve_folder([folder / "b"], ctx=512, ram=GIB, reserve=GIB).left)


def test_several_at_once_share_the_memory(smollm2: Path, gemma3: Path, tmp_path: Path) -> None:
    for path in (smollm2, gemma3):
        (tmp_path / path.name).symlink_to(path)
    alone = serve_folder([tmp_path], ctx=2048, ram=8 * GIB)
    assert (alone.at_once, alone.fit, len(alone.models)) == (1, 2, 2)
    both = serve_folder([tmp_path], ctx=2048, ram=8 * GIB, at_once=2)
    shares = {d.memory for one in both.models for d in one.plan.memory.devices}
    assert shares == {(8 * GIB - GIB) // 2 + GIB}
    assert sum(one.plan.memory.total for one in both.models) + GIB <= 8 * GIB
    text, _ = emit_folder("preset", both)
    assert "--models-max 2" in text
    assert "share of the machine, so that any 2 of them fit at once" in text
    assert "swap: false" in emit_folder("llama-swap", both)[0]
    assert "swap: true" in emit_folder("llama-swap", alone)[0]
    assert "OLLAMA_MAX_LOADED_MODELS=2" in emit_folder("ollama", both)[0]
    tight = serve_folder([tmp_path], ctx=2048, ram=GIB + 500 * (1 << 20))
    assert tight.fit == 1, "each fits alone, and no two of them"


def test_it_is_made_to_fit_this_machine(smollm2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody named a context or a cache: those of the file where they fit, and smaller ones where they do not."""
    from gguftool.run import devices

    (tmp_path / "m.gguf").symlink_to(smollm2)
    for free, as_asked in ((8 * GIB, True), (GIB + 250 * (1 << 20), False)):
        here = devices.HostMemory(16 * GIB, free)
        monkeypatch.setattr(devices, "host_memory", lambda here=here: here)
        [one] = serve_folder([tmp_path], parallel=1).models
        s = one.plan.memory.settings
        assert ((one.plan.memory.cache.context.total, s.type_k, s.type_v) == (8192, "f16", "f16")) is as_asked
        assert one.plan.memory.fits


def test_one_file_under_two_names_and_the_shards_of_a_set(tmp_path: Path) -> None:
    llama().write(tmp_path / "m.gguf")
    (tmp_path / "link.gguf").symlink_to("m.gguf")
    g = llama(layers=2)
    for no in (1, 2):
        part = GGUF("llama") if no == 2 else g
        if no == 2:
            part = GGUF().tensor("extra.weight", (32, 32))
        part.shard(no - 1, 2, tensors=len(g._tensors) + 1).write(tmp_path / f"set part {no}.gguf")
    found = serve_folder([tmp_path], **plain())
    served = [os.path.basename(one.plan.model) for one in found.models]
    assert sorted(served)[:1] == ["link.gguf"]
    assert [(os.path.basename(x.path), x.code) for x in found.left if x.code == "same"] == [("m.gguf", "same")]
    assert not any("part 2" in one.plan.model for one in found.models)


@pytest.mark.parametrize("kind", FOLDER_KINDS)
def test_a_name_that_is_not_utf8_is_left_out(kind: str, tmp_path: Path) -> None:
    llama().write(tmp_path / "m.gguf")
    llama().write(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.gguf")))
    text, found = emit_folder(kind, serve_folder([tmp_path], **plain()))
    text.encode()
    assert [(one.code, os.path.basename(one.path)) for one in found.left] == [("format", "\udcff.gguf")]


def test_the_machine_is_looked_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once a model: it is a program that is started."""
    from gguftool.run import devices

    asked: list[object] = []
    monkeypatch.setattr(devices, "devices", lambda tool: asked.append(tool) or [])
    serve_folder([folder], ctx=512, force=True)
    assert len(asked) == 1


def test_wishes_about_one_model_are_refused(folder: Path) -> None:
    for wish in ({"alias": "x"}, {"mmproj": "x"}, {"draft": "x"}, {"lora": ("x",)}):
        with pytest.raises(UsageError, match="about one model"):
            serve_folder([folder], **wish)
    with pytest.raises(UsageError, match="not on this machine"):
        serve_folder(["hf://o/r"])
    found = serve_folder([folder], api_key="secret", exclude=["b"], **plain())
    assert names(found) == ["One"]
    for kind in FOLDER_KINDS:
        with pytest.raises(UsageError, match="everybody"):
            emit_folder(kind, found)


def test_the_preset_says_what_was_planned(folder: Path) -> None:
    found = serve_folder([folder], cache_type="q8_0", port=9000, **plain())
    text, _ = emit_folder("preset", found)
    read = ini(text)
    assert read.pop("") == {"version": "1"}
    assert list(read) == ["One", "one-2"]
    for one in found.models:
        keys = read[one.name]
        assert keys["model"] == one.plan.model
        assert keys["ctx-size"] == "512"
        assert keys.get("mmproj") == one.plan.wishes.mmproj
        assert "port" not in keys
    assert "--models-max 1 --host 127.0.0.1 --port 9000" in text.splitlines()[0]
    assert "; Left out (3):" in text


SCHEMA = {
    "type": "object",
    "required": ["models"],
    "additionalProperties": False,
    "properties": {
        "models": {"type": "object", "additionalProperties": {
            "type": "object", "required": ["cmd"], "additionalProperties": False,
            "properties": {
                "cmd": {"type": "string", "minLength": 1}, "proxy": {"type": "string"},
                "checkEndpoint": {"type": "string", "pattern": "^/.*$|^none$"},
                "ttl": {"type": "integer", "minimum": -1},
            },
        }},
        "groups": {"type": "object", "additionalProperties": {
            "type": "object", "required": ["members"], "additionalProperties": False,
            "properties": {
                "swap": {"type": "boolean"}, "exclusive": {"type": "boolean"},
                "members": {"type": "array", "items": {"type": "string"}},
            },
        }},
    },
}  # fmt: skip
"""Of llama-swap's `config-schema.json` (0bdb3720) what these keys must be, and no others."""


def swap_words(cmd: str) -> list[str]:
    """The words of a command as llama-swap has them (`internal/config/{macros,commands}.go`)."""
    assert re.findall(r"\$\{(?:env\.)?([a-zA-Z0-9_-]+)\}", cmd) == ["PORT"], "anything else is an unknown macro"
    lines = [line for line in cmd.split("\n") if not line.strip().startswith("#")]
    joined = [line.strip().removesuffix("\\") + " " if line.strip().endswith("\\") else line for line in lines]
    return shlex.split("\n".join(joined))


def test_llama_swap(folder: Path) -> None:
    found = serve_folder([folder], **plain())
    text, _ = emit_folder("llama-swap", found, force=True)
    config = yaml.safe_load(text)
    Draft202012Validator(SCHEMA).validate(config)
    assert list(config["models"]) == names(found) == config["groups"]["models"]["members"]
    for one in found.models:
        words = swap_words(config["models"][one.name]["cmd"])
        assert words[1:3] == ["launch", one.plan.model]
        assert "--force" in words


def run_script(text: str, folder: Path) -> dict[str, str]:
    """Run it with a stand-in for ollama that keeps what it was given: name -> Modelfile."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "made").mkdir(exist_ok=True)
    script = f'#!/bin/sh\n[ "$1 $3" = "create -f" ] && cp "$4" "{folder}/made/$2"\n'
    (folder / "bin/ollama").write_text(script)
    (folder / "bin/ollama").chmod(0o755)
    (folder / "script").write_text(text)
    (folder / "inside").mkdir(exist_ok=True)
    env = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "TMPDIR": str(folder / "inside")}
    done = subprocess.run(["sh", folder / "script"], env=env, cwd=folder / "inside", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert os.listdir(folder / "inside") == []
    return {p.name: p.read_text() for p in (folder / "made").iterdir()}


def test_ollama(folder: Path, tmp_path: Path) -> None:
    found = serve_folder([folder], cache_type="q8_0", **plain())
    text, _ = emit_folder("ollama", found)
    made = run_script(text, tmp_path)
    assert set(made) == {"One", "one-2"}
    assert made["One"].startswith(f'FROM """{folder}/a/One.gguf"""\nFROM """{folder}/a/mmproj-F16.gguf"""\n')
    assert f'DRAFT """{folder}/b/head.gguf"""' in made["one-2"]
    assert "PARAMETER num_ctx 512" in made["One"]
    assert "OLLAMA_KV_CACHE_TYPE=q8_0" in text
    assert "OLLAMA_MAX_LOADED_MODELS=1" in text


HOSTILE = (
    ODD, NASTY.replace("/", "_"), "$(touch PWNED)", "`touch PWNED`", "'; touch PWNED; '", '"', "\\", "${HOME}",
    "${env.HOME}", "${PORT}", "a\n# b", "a\\\n b", "\nMODELFILE\ntouch PWNED", "] [x]\nmodel = /etc/passwd",
    "; x", "# x", "%h", "-rf", "--models-max", "\x1b[31m", '"""\nSYSTEM x', "é😀", "{{ .System }}",
)  # fmt: skip


@pytest.mark.parametrize("kind", FOLDER_KINDS)
def test_hostile_names_do_nothing(kind: str, tmp_path: Path) -> None:
    """A folder of each name: its model is in the file under its own path, or is left out and named in a comment."""
    root = tmp_path / "models"
    for no, name in enumerate(HOSTILE):
        (root / f"{no:02}{name}").mkdir(parents=True)
        llama(layers=1 + no % 2).write(root / f"{no:02}{name}" / f"m{no:02}.gguf")
    (root / "broken\ntouch PWNED").mkdir()
    (root / "broken\ntouch PWNED" / "x.gguf").write_bytes(llama().bytes()[:-999])
    text, found = emit_folder(kind, serve_folder([root], **plain()), force=True)
    assert len(found.models) + len(found.left) == len(HOSTILE) + 1
    paths = {one.name: one.plan.model for one in found.models}
    assert set(paths.values()) <= {str(p) for p in root.rglob("*.gguf")}
    if kind == "preset":
        read = ini(text)
        assert read.pop("") == {"version": "1"}
        assert {name: keys["model"] for name, keys in read.items()} == paths
    elif kind == "llama-swap":
        config = yaml.safe_load(text)
        Draft202012Validator(SCHEMA).validate(config)
        assert {name: swap_words(one["cmd"])[2] for name, one in config["models"].items()} == paths
        assert len(paths) == len(HOSTILE)
    else:
        made = run_script(text, tmp_path)
        assert {name: body.splitlines()[0] for name, body in made.items()} == {
            name: f'FROM """{path}"""'.splitlines()[0] for name, path in paths.items()}  # fmt: skip
    assert not list(tmp_path.rglob("PWNED"))
    assert len(paths) >= 12


def test_the_command(cli, folder: Path) -> None:  # type: ignore[no-untyped-def]
    result = cli("scan", "--emit", "preset", folder, "--ctx", 512, "--ram", "8GiB", "--force")
    assert result.code == 0, result.err
    assert "[One]" in result.out
    assert result.err.count("left out: ") == 3
    found = cli("scan", "--emit", "llama-swap", folder, "-c", 512, "--ram", "8GiB", "--force", "--format", "json").json
    assert [m["context"] for m in found["served"]] == [512, 512]
    assert {x["code"] for x in found["left_out"]} == {"role", "load"}
    assert yaml.safe_load(found["file"])["models"]
    assert cli("scan", "--emit", "ollama", folder / "cut.gguf").code == 1


@pytest.mark.parametrize("words", [
    ["--ctx", 512], ["--force"], ["--models-max", 2], ["--emit", "preset", "--stores"], ["--hash"],
    ["--emit", "preset", "--fail-on", "error"], ["--emit", "preset", "--resume", "x"], ["--stores", "--exclude", "x"],
    ["--emit", "preset", "--format", "markdown"], ["--emit", "preset", "--llama-cpp-python", "0.3.2"],
    ["--emit", "preset", "--alias", "x"],
])  # fmt: skip
def test_words_that_do_not_go_together(cli, folder: Path, words: list[object]) -> None:  # type: ignore[no-untyped-def]
    assert cli("scan", folder, *words).code == 2


def asked(port: int, path: str, body: Any) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.real
def test_the_router_serves_every_model(cli, smollm2: Path, server: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """llama-server's router on the file for three models, one with a projector: each answers."""
    models = tmp_path / "models $HOME 'x'"
    models.mkdir()
    llama().write(models / "tiny.gguf")
    projector("mlp", 64).write(models / "mmproj-tiny.gguf")
    (models / "b").mkdir()
    llama(layers=2).write(models / "b/tiny.gguf")
    (models / "smol").mkdir()
    (models / "smol" / smollm2.name).symlink_to(smollm2)
    result = cli(
        "scan", "--emit", "preset", models, "--ctx", 512, "--models-max", 2, "--ram", "6GiB", "--force",
        "--llama-cpp", server,
    )  # fmt: skip
    assert result.code == 0, result.err
    (tmp_path / "models.ini").write_text(result.out)
    port = free_port()
    words = shlex.split(result.out.splitlines()[0].partition("started as: ")[2])
    words[0], words[words.index("--port") + 1] = server, str(port)
    env = {**os.environ, "LLAMA_CACHE": str(tmp_path / "none"), "GGML_NO_BACKTRACE": "1"}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(words, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        assert status(port, "/health", until=60) == 200, (tmp_path / "log").read_text()[-2000:]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/models", timeout=10) as answer:
            listed = sorted(m["id"] for m in json.load(answer)["data"])
        assert listed == ["SmolLM2-135M-Instruct-Q4_1", "tiny", "tiny-2"]
        for name in listed:
            # Weights of noise say bytes that are no text, which the server refuses to pass on: letters are.
            said = asked(port, "/v1/chat/completions", {
                "model": name, "max_tokens": 3, "grammar": "root ::= [a-z]+",
                "messages": [{"role": "user", "content": "Hello"}],
            })  # fmt: skip
            assert said["choices"][0]["message"]["content"].isalpha(), (name, said)
    finally:
        process.terminate()
        process.wait(timeout=30)
