"""The GitHub Action: its lint step as GitHub runs it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import yaml

from tests.lint.hooked import ROOT, run
from tests.lint.samples import ready

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


def action(
    where: Path, models: str, env: dict[str, str] | None = None, **inputs: str
) -> subprocess.CompletedProcess[str]:
    """The lint step of the action, with its inputs in the environment as GitHub passes them."""
    step = ACTION["runs"]["steps"][-1]
    defaults = {name: str(i.get("default", "")) for name, i in ACTION["inputs"].items()}
    values = {**defaults, "models": models, **{k.replace("_", "-"): v for k, v in inputs.items()}}
    told = {
        name: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda m: values[m[1]], text)
        for name, text in step["env"].items()
    }
    return run("bash", "-c", step["run"], cwd=where, GITHUB_ACTION_PATH=str(ROOT), **told, **(env or {}))


def test_action_annotates(where: Path) -> None:
    done = action(where, "good.gguf\nbad.gguf", sarif="lint.sarif")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::error file=bad.gguf,title=gguftool%3A block-count-tensors::")
    assert '"version": "2.1.0"' in (where / "lint.sarif").read_text()
    assert action(where, "good.gguf").returncode == 0
    assert action(where, "bad.gguf", fail_on="never").returncode == 0
    assert action(where, "good.gguf", context_length="4096").returncode == 1
    assert action(where, "good.gguf", args="--ignore deploy", context_length="4096").returncode == 0
    assert action(where, "good.gguf", ctx="4k").returncode == 1
    assert action(where, "good.gguf", build="b8179").returncode == 0
    assert action(where, "good.gguf", build="latest").returncode == 2


def test_action_takes_names_patterns_and_folders(where: Path) -> None:
    """One name a line, with blanks in it; several where each is one; patterns, folders, a working directory."""
    models = where / "repo" / "my models"
    (models / "old").mkdir(parents=True)
    for name in ("a", "b c", "old/d"):
        shutil.copy(where / "good.gguf", models / f"{name}.gguf")
    shutil.copy(where / "bad.gguf", models / "bad one.gguf")

    def told(names: str, **inputs: str) -> tuple[int, set[str]]:
        done = action(where, names, **inputs)
        return done.returncode, set(re.findall(r"^::error file=([^,]*),", done.stdout, re.M))

    bad = {"repo/my models/bad one.gguf"}
    for names in ("repo/my models", "  repo/my models/bad one.gguf \r\n\n", "repo/**/*.gguf"):
        assert told(names) == (1, bad), names
    assert told("repo/my models/b c.gguf\nrepo/my models/old") == (0, set())
    assert told("good.gguf bad.gguf") == (1, {"bad.gguf"})
    assert told("none*.gguf") == (2, set())
    assert told("") == (2, set())
    # Annotations are of the checkout, paths of the working directory.
    env, inside = {"GITHUB_WORKSPACE": str(where)}, {"working_directory": "repo/my models"}
    done = action(where, "**", env=env, sarif="out file.sarif", **inside)
    assert "::error file=repo/my models/bad one.gguf," in done.stdout
    assert '"uri": "repo/my%20models/bad%20one.gguf"' in (models / "out file.sarif").read_text()


def test_action_takes_a_baseline_and_a_configuration(where: Path) -> None:
    known = run("gguftool", "lint", "--format", "json", "--exit-zero", "bad.gguf", cwd=where)
    (where / "known ones.json").write_text(known.stdout)
    assert action(where, "bad.gguf", baseline="known ones.json").returncode == 0
    (where / "my gate.toml").write_text('[lint.per-file-ignores]\n"bad*" = ["block-count-tensors", "load"]\n')
    done = action(where, "bad.gguf", config="my gate.toml", fail_on="error")
    assert (done.returncode, "block-count-tensors" in done.stdout) == (0, False)


def test_action_cannot_be_injected(where: Path) -> None:
    """Inputs are data: nothing in them is run or expanded, and none of them is part of a script."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
    done = action(where, "$(touch hit) `touch hit` ; touch hit *.gguf", policy="$(touch hit)")
    assert done.returncode == 2
    assert not (where / "hit").exists()
    made = where / "$(touch hit)" / "-a `touch hit`.gguf"
    made.parent.mkdir()
    ready().write(made)
    for models in ("$(touch hit)", "*/-a*.gguf", "$(touch hit)/-a `touch hit`.gguf"):
        assert action(where, models).returncode == 0, models
    assert not (where / "hit").exists()
    assert action(where, "--version").returncode == 2  # a name, not an option
