"""What the tests of emitted files share: a folder with odd names, plans, and each file read as its program reads it."""

from __future__ import annotations

import csv
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import yaml

from gguftool.model import open_model
from gguftool.run.devices import HostMemory
from gguftool.run.launch import LaunchPlan, plan_launch
from gguftool.run.options.table import by_field
from gguftool.run.wishes import Wishes
from tests.build import GGUF
from tests.run.test_emit import tiny, unit

KINDS = ("systemd", "docker-compose", "k8s", "llama-swap", "dockerfile")
CREDENTIALS = "/run/credentials/x/"
ODD = "d $HOME ${PATH} $(id) $$x a:b 'q' \"d\" %h {path} é😀\n\t# x"
"""A folder whose name means something to everybody who reads these files."""


def filled(folder: Path) -> Path:
    """A folder with a model and one file of each sort."""
    (folder / "m.gguf").write_bytes(tiny())
    (folder / "mm.gguf").write_bytes(GGUF("clip").tensor("v.x", (32, 32), "f16").bytes())
    (folder / "file").write_text("key\n")
    return folder


def sample(field: str, value: Any, folder: Path) -> Any:
    """A value whose files are there."""
    if field not in ("log", "extra") and by_field()[field].path:
        file = str(folder / ("mm.gguf" if field in ("mmproj", "control_vector", "lora") else "file"))
        if field in ("lora_scaled", "control_vector_scaled"):
            # llama.cpp takes no colon in these.
            plain = folder.parent / "v.gguf"
            plain.write_bytes((folder / "mm.gguf").read_bytes())
            return ((str(plain), 0.5),)
        if field == "draft":
            return str(folder / "m.gguf")
        return (file,) if isinstance(value, tuple) else file
    named = {"log": "server.log", "against": "file"}.get(field)
    return str(folder / named) if named else value


def planned(folder: Path, **wishes: Any) -> LaunchPlan:
    with open_model(folder / "m.gguf") as model:
        return plan_launch(model, Wishes(**wishes), host=HostMemory(64 << 30, 60 << 30))


def unit_words(line: str) -> list[str]:
    """As systemd takes a command line apart (`extract-word.c`): quotes, escapes as in C, %% and $$ for one."""
    out = []
    for quoted, bare in re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line):
        word = re.sub(
            rb"\\(?:x([0-9a-f]{2})|(.))", lambda m: bytes([int(m[1], 16)]) if m[1] else m[2], (quoted or bare).encode()
        ).decode()
        out.append(word.replace("%%", "%").replace("$$", "$"))
    return out


def compose_words(words: list[str]) -> list[str]:
    assert not any(re.search(r"(?<!\$)(\$\$)*\$(?!\$)", w) for w in words), "a variable of Compose"
    return [w.replace("$$", "$") for w in words]


def k8s_words(words: list[str]) -> list[str]:
    """As Kubernetes expands them (`expansion.go`): ``$$`` is one ``$``, ``$(NAME)`` a variable."""
    out = []
    for word in words:
        text, i = "", 0
        while i < len(word):
            two = word[i : i + 2]
            assert two != "$(", word
            text += "$" if two == "$$" else word[i]
            i += 2 if two == "$$" else 1
        out.append(text)
    return out


def read(kind: str, text: str) -> tuple[list[str], list[str], dict[str, str]]:
    """Of an emitted file: our own command, that of the server, and what is mounted (target: source)."""
    if kind == "systemd":
        settings = unit(text)
        named = dict(line.replace("%%", "%").split(":", 1) for line in settings.get("LoadCredential", ()))
        words = unit_words(settings["ExecStart"][0].replace("%d/", CREDENTIALS))
        return [re.sub(f"{CREDENTIALS}([a-z0-9-]+)", lambda m: named[m[1]], w) for w in words], [], {}
    if kind == "llama-swap":
        [entry] = yaml.safe_load(text)["models"].values()
        words = shlex.split(entry["cmd"])
        at = words.index("--port")
        assert words[at + 1] == "${PORT}"
        return [*words[:at], *words[at + 2 :]], [], {}
    if kind == "dockerfile":
        return read_dockerfile(text)
    if kind == "docker-compose":
        services = yaml.safe_load(text)["services"]
        both = services["preflight"], services["llama-server"]
        assert both[0]["entrypoint"] == []
        assert both[0]["volumes"] == both[1]["volumes"]
        mounts = {v["target"]: v["source"] for v in both[1]["volumes"]}
        assert all(v["type"] == "bind" for v in both[1]["volumes"])
        assert both[0].get("secrets") == both[1].get("secrets")
        files = {k: v["file"] for k, v in yaml.safe_load(text).get("secrets", {}).items()}
        mounts |= {v["target"]: files[v["source"]] for v in both[1].get("secrets", ())}
        hook, served = (compose_words(s["command"]) for s in both)
        names = compose_words([*mounts, *mounts.values()])
        return hook, served, dict(zip(names[: len(mounts)], names[len(mounts) :], strict=True))
    deployment, _ = yaml.safe_load_all(text)
    pod = deployment["spec"]["template"]["spec"]
    [first], [second] = pod["initContainers"], pod["containers"]
    volumes = {v["name"]: v.get("hostPath", {}).get("path") or v["secret"]["secretName"] for v in pod["volumes"]}
    assert first["volumeMounts"] == second["volumeMounts"]
    mounts = {m["mountPath"]: volumes[m["name"]] for m in second["volumeMounts"]}
    return [*first["command"], *k8s_words(first["args"])], k8s_words(second["args"]), mounts


def read_dockerfile(text: str) -> tuple[list[str], list[str], dict[str, str]]:
    """Lists as JSON, and the mounts of the command in its head, which a shell and then a reader of CSV take apart."""
    lines = dict(line.split(" ", 1) for line in text.splitlines() if line.startswith(("ENTRYPOINT ", "CMD ")))
    run = next(line for line in text.splitlines() if line.startswith("#   docker run"))[1:].strip()
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {run}"], capture_output=True, check=True)
    words = done.stdout.decode().split("\0")
    rows = [next(csv.reader([words[i + 1]])) for i, w in enumerate(words) if w == "--mount"]
    found = [dict(x.partition("=")[::2] for x in row) for row in rows]
    mounts = {m["target"]: m["source"] for m in found}
    return [*json.loads(lines["ENTRYPOINT"]), *json.loads(lines["CMD"])], [], mounts


def outside(path: str, mounts: dict[str, str]) -> str:
    """Where a path of a container lies on this machine."""
    for target in sorted(mounts, key=len, reverse=True):
        if path == target or path.startswith(target + "/"):
            return mounts[target] + path[len(target) :]
    raise AssertionError(f"{path} is not mounted")
