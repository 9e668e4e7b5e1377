"""Hooks and units: each example of docs/hooks.md is run where it can be run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tests.build import GGUF
from tests.lint.hooked import HOOKS, ROOT, run
from tests.lint.samples import ready


def git(folder: Path, *args: str) -> None:
    """A git command in a repository that no global configuration reaches."""
    done = run(
        "git", "-c", "user.name=t", "-c", "user.email=t@example.org", *args, cwd=folder, GIT_CONFIG_GLOBAL="/dev/null"
    )
    assert done.returncode == 0, done.stderr


# -- pre-commit


def definitions() -> dict[str, dict[str, object]]:
    return {h["id"]: h for h in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}


def test_hook_definitions() -> None:
    from gguftool.cli.group import TABLE

    commands = {entry.name for entry in TABLE}
    for hook in definitions().values():
        program, command = str(hook["entry"]).split()
        assert program == "gguftool"
        assert command in commands
        assert re.search(str(hook["files"]), "models/m-00001-of-00002.gguf")
        assert not re.search(str(hook["files"]), "m.gguf.txt")
        assert hook["require_serial"] is True
        assert hook["args"] == ["--"]


def test_pre_commit_runs_the_hook(where: Path) -> None:
    """A real pre-commit runs the hook as it is defined, with the gguftool that is installed."""
    git(where, "init", "-q", ".")
    hook = {**definitions()["gguftool-lint"], "language": "system"}
    (where / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [{"repo": "local", "hooks": [hook]}]}))
    git(where, "add", "good.gguf", ".pre-commit-config.yaml")
    pre_commit = (sys.executable, "-m", "pre_commit", "run", "--files")
    home = {"PRE_COMMIT_HOME": str(where / "home"), "GIT_CONFIG_GLOBAL": "/dev/null"}
    good = run(*pre_commit, "good.gguf", cwd=where, **home)
    assert good.returncode == 0, good.stdout + good.stderr
    assert "Passed" in good.stdout
    bad = run(*pre_commit, "good.gguf", "bad.gguf", cwd=where, **home)
    assert bad.returncode == 1
    assert "llama.block_count is 2" in bad.stdout
    # A file of that name would leave the findings out, were it an option.
    shutil.move(where / "bad.gguf", where / "--ignore=deploy,layout,load.gguf")
    git(where, "add", "-A", ".")
    every = run(*pre_commit[:-1], "--all-files", cwd=where, **home)
    assert "llama.block_count is 2" in every.stdout
    other = run(*pre_commit, ".pre-commit-config.yaml", cwd=where, **home)
    assert other.returncode == 0
    assert "Skipped" in other.stdout


@pytest.mark.slow
def test_pre_commit_installs_from_the_repository(where: Path) -> None:
    """`pre-commit try-repo` makes an environment of its own from this repository and runs the hook in it."""
    git(where, "init", "-q", ".")
    git(where, "add", "bad.gguf")
    home = {"PRE_COMMIT_HOME": str(where / "home")}
    done = run(
        sys.executable, "-m", "pre_commit", "try-repo", ROOT, "gguftool-lint", "--files", "bad.gguf", cwd=where, **home
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "llama.block_count is 2" in done.stdout


# -- git alone


def test_pre_push(where: Path) -> None:
    remote = where / "remote.git"
    git(where, "init", "-q", "--bare", str(remote))
    repo = where / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main", ".")
    shutil.copy(HOOKS / "pre-push", repo / ".git" / "hooks" / "pre-push")
    # A file in the repository is no option of the check.
    for name in ("a model.gguf", "--config=good.gguf", "[x].gguf"):
        shutil.copy(where / "good.gguf", repo / name)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "good")
    git(repo, "push", "-q", str(remote), "main")
    shutil.copy(where / "bad.gguf", repo / "bad.gguf")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "bad")
    push = run("git", "push", "-q", remote, "main", cwd=repo, GIT_CONFIG_GLOBAL="/dev/null")
    assert push.returncode != 0
    assert "llama.block_count is 2" in push.stdout + push.stderr
    # An older build knows no gemma3 (b4875); the newest does.
    hook, known = os.fspath(HOOKS / "pre-push"), repo / "bad.gguf"
    known.write_bytes(GGUF("gemma3").bytes())
    for build, said in (("b4800", "llama.cpp b4800 refuses it"), ("", "unknown model architecture")):
        done = run("sh", hook, cwd=repo, LLAMA_CPP_BUILD=build)
        assert (said in done.stdout + done.stderr) is bool(build)


# -- systemd


def unit_lines(key: str) -> list[str]:
    text = (HOOKS / "llama-server.service").read_text()
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(key + "=")]


def test_systemd_checks(where: Path) -> None:
    """The command of the unit, with its variable set; the unit stays failed on its exit codes."""
    assert not unit_lines("ExecStartPre"), "what fails there is started again for ever"
    (line,) = unit_lines("ExecStart")
    (codes,) = unit_lines("RestartPreventExitStatus")
    program = where / "llama-server"
    options = ("-m N  x", "-c N  x", "--host N  x", "--port N  x", "-ctk N  x", "-ctv N  x", "-fa N  x", "-np N  x")
    listed = "".join(f"echo '{option}'\n" for option in options)
    program.write_text(f'#!/bin/sh\ncase "$1" in -m) echo "started: $*"; exit;; esac\n{listed}')
    program.chmod(0o755)
    good = ready().replace("llama.context_length", 32768).kv("llama.attention.key_length", 64)
    good.kv("llama.attention.value_length", 64).replace("llama.rope.dimension_count", 64)
    good.retensor("blk.0.attn_q.weight", shape=(64, 256)).retensor("blk.0.attn_k.weight", shape=(64, 128))
    good.retensor("blk.0.attn_v.weight", shape=(64, 128)).retensor("blk.0.attn_output.weight", shape=(256, 64))
    good.replace("llama.kv_cache_type", "q8_0").write(where / "served.gguf")
    for model, code in (("served.gguf", 0), ("bad.gguf", 1), ("none.gguf", 2)):
        argv = shlex.split(line.replace("${MODEL}", model).replace("/usr/local/bin/", ""))
        done = run(*argv, "--llama-cpp", program, "--port", "0", cwd=where)
        assert done.returncode == code, (model, done.stdout, done.stderr)
        assert ("started: -m" in done.stdout) is (code == 0)
        assert not code or str(code) in codes.split()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
def test_systemd_unit_is_valid(where: Path) -> None:
    text = (HOOKS / "llama-server.service").read_text()
    unit = where / "llama-server.service"
    unit.write_text(text.replace("/usr/local/bin/gguftool", "/bin/true"))
    done = run("systemd-analyze", "verify", "--man=no", unit, cwd=where)
    assert done.returncode == 0, done.stderr


# -- containers


@pytest.fixture
def server(where: Path) -> Path:
    """A llama-server that only says how it was called."""
    (where / "bin").mkdir()
    program = where / "bin" / "llama-server"
    program.write_text('#!/bin/sh\necho "started: $*"\n')
    program.chmod(0o755)
    return program


def test_entrypoint(where: Path, server: Path) -> None:
    env = {"MODEL": "good.gguf", "CONTEXT_LENGTH": "2048", "CACHE_TYPE": "f16"}
    good = run("sh", HOOKS / "entrypoint.sh", "--port", "8081", cwd=where, **env)
    assert good.returncode == 0, good.stdout + good.stderr
    assert "started: --model good.gguf --ctx-size 2048 -ctk f16 -ctv f16 --port 8081" in good.stdout
    bad = run("sh", HOOKS / "entrypoint.sh", cwd=where, **{**env, "MODEL": "bad.gguf"})
    assert bad.returncode == 1
    assert "started" not in bad.stdout
    longer = run("sh", HOOKS / "entrypoint.sh", cwd=where, **{**env, "CONTEXT_LENGTH": "65536"})
    assert longer.returncode == 1
    assert "the file allows 2,048" in longer.stdout


def test_no_example_installs_from_an_index() -> None:
    """No index has gguftool: whoever takes the name there would be installed."""
    for file in (*HOOKS.iterdir(), *(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "action.yml"):
        for line in re.findall(r"pip install ([^\n`|]*)", file.read_text()):
            assert not re.search(r"""(^|\s)['"]?gguftool([=<>~@\s]|$)""", line.partition("#")[0]), (file, line)


def test_compose(where: Path) -> None:
    """The check is that of the pod, and a real docker compose takes the file where there is one."""
    text = (HOOKS / "compose.yaml").read_text()
    services = yaml.safe_load(text)["services"]
    check, server = services["check-model"], services["llama-server"]
    assert (HOOKS / check["build"]["context"]).resolve() == ROOT
    assert f"AS {check['build']['target']}\n" in (ROOT / "Dockerfile").read_text()
    build = check["command"][check["command"].index("--build") + 1]
    assert server["image"].endswith(f":server-{build}")
    assert server["depends_on"] == {"check-model": {"condition": "service_completed_successfully"}}
    assert check["volumes"] == server["volumes"]
    given = {"/models/model.gguf": "good.gguf", "32768": "2048", "q8_0": "f16"}
    for model, code in (("good.gguf", 0), ("bad.gguf", 1)):
        words = [({**given, "/models/model.gguf": model}).get(word, word) for word in check["command"]]
        assert run("gguftool", *words, cwd=where).returncode == code
    docker, first = shutil.which("docker"), shutil.which("docker-compose")
    if docker and not run(docker, "compose", "version", cwd=where).returncode:
        compose: tuple[str, ...] = (docker, "compose")
    elif first:
        compose = (first,)
    else:
        return
    words = (*compose, "-f", str(HOOKS / "compose.yaml"), "config")
    done = run(*words, cwd=where, MODELS="/srv/my models")
    assert done.returncode == 0, done.stderr
    assert "/srv/my models" in done.stdout
    assert run(*words, cwd=where, MODELS="").returncode != 0


def test_gitlab_job(where: Path) -> None:
    """The script of the job, with a pip that only says what it is to install."""
    job = yaml.safe_load((HOOKS / "gitlab-ci.yml").read_text())["models"]
    (where / "bin").mkdir()
    (where / "bin" / "pip").write_text('#!/bin/sh\necho "pip $*"\n')
    (where / "bin" / "pip").chmod(0o755)
    (where / "models").mkdir()
    shutil.move(where / "bad.gguf", where / "models" / "bad one.gguf")
    script = "\n".join(("set -e", *job["script"]))
    done = run("sh", "-c", script, cwd=where, GGUFTOOL="a b", CI_PROJECT_DIR=str(where))
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("pip install --quiet a b\n")
    reports = job["artifacts"]["reports"]
    (row, *_) = json.loads((where / reports["codequality"]).read_text())
    assert row["location"]["path"] == "models/bad one.gguf"
    assert "<failure " in (where / reports["junit"]).read_text()
    assert job["artifacts"]["when"] == "always"
    assert run("sh", "-c", script, cwd=where, GGUFTOOL="").returncode != 0


def test_pod(where: Path) -> None:
    pod = yaml.safe_load((HOOKS / "pod.yaml").read_text())
    for version in ("1.31", "1.37"):
        pytest.importorskip("kubernetes_validate").validate(pod, version, strict=True)
    (check,) = pod["spec"]["initContainers"]
    (server,) = pod["spec"]["containers"]
    assert check["volumeMounts"] == server["volumeMounts"]
    # Nothing of that name is ever fetched; it is what the documented command builds.
    assert check["imagePullPolicy"] == "Never"
    for page in ("Dockerfile", "docs/hooks.md"):
        assert f"docker build -t {check['image']} .\n" in (ROOT / page).read_text()
    assert all(m["readOnly"] for m in check["volumeMounts"])
    (script,) = check["args"]
    named = {e["name"]: e["value"] for e in check["env"]}
    assert server["image"].endswith(f":server-{named['LLAMA_CPP_BUILD']}")
    script = script.replace("/dev/termination-log", "message").replace("32768", "2048").replace("q8_0", "f16")
    for model, code in (("good.gguf", 0), ("bad.gguf", 1)):
        done = run(*check["command"], script.replace("/models/model.gguf", model), cwd=where, **named)
        assert done.returncode == code, done.stderr
    assert "llama.block_count is 2" in (where / "message").read_text()


# -- the page


def test_page_names_every_file() -> None:
    text = (ROOT / "docs" / "hooks.md").read_text()
    for file in HOOKS.iterdir():
        assert f"fixtures/hooks/{file.name}" in text, file.name
    for name in definitions():
        assert name in text
    inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    for name in re.findall(r"^          ([a-z-]+): ", text, re.M):
        assert name in inputs
