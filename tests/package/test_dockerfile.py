"""The Dockerfile of the checkout: its parts, what hadolint says, and that it builds the very wheel of the tree."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts" / "package"))
import making  # noqa: E402

TEXT = (ROOT / "Dockerfile").read_text()
STAGES = dict(re.findall(r"^FROM \S+ AS (\w+)\n(.*?)(?=^FROM |\Z)", TEXT, re.M | re.S))
SERVED = ("docker-compose", "k8s")


def test_its_parts() -> None:
    parser = pytest.importorskip("dockerfile_parse").DockerfileParser(fileobj=io.BytesIO(TEXT.encode()))
    assert list(STAGES) == ["wheel", "environment", "server", "gguftool"]
    # Every base is an argument, so that it can be named by its digest; each has a value that lets the others be built.
    bases = [re.split(r"\s+AS\s+", row["value"])[0] for row in parser.structure if row["instruction"] == "FROM"]
    assert bases == ["${PYTHON_IMAGE}", "${PYTHON_IMAGE}", "${LLAMA_SERVER_IMAGE}", "${PYTHON_IMAGE}"]
    for name in ("server", "gguftool"):
        stage = STAGES[name]
        assert re.findall(r"^USER (.*)", stage, re.M)[-1] == "10001:10001", "not root"
        assert json.loads(re.findall(r"^ENTRYPOINT (.*)", stage, re.M)[-1]) == ["gguftool"]
        assert 'PATH="/opt/gguftool/bin:' in stage
    assert re.search(r"HEALTHCHECK .*?CMD \[.*http://127\.0\.0\.1:8080/health\"\]", STAGES["server"], re.S)
    assert "HEALTHCHECK" not in STAGES["gguftool"], "it serves nothing"


def test_hadolint_finds_nothing() -> None:
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{ROOT / '.venv-package/bin'}")
    if program is None:
        pytest.skip("no hadolint: ./dev package brings it")
    done = subprocess.run([program, ROOT / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_it_builds_the_wheel_of_the_tree(tmp_path: Path) -> None:
    """What .dockerignore lets in makes the same bytes as the whole tree, and nothing else is let in."""
    build = pytest.importorskip("docker.utils.build")
    pytest.importorskip("hatchling")
    tree = making.copy(ROOT, tmp_path / "tree")
    lines = (line.strip() for line in (ROOT / ".dockerignore").read_text().splitlines())
    let_in = build.exclude_paths(str(tree), [line for line in lines if line and not line.startswith("#")])
    inside = tmp_path / "context"
    for name in let_in:
        if (tree / name).is_file():
            (inside / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tree / name, inside / name)
    top = {p.name for p in inside.iterdir()}
    assert {"gguftool", "pyproject.toml", "LICENSES"} <= top
    assert not top & {"tests", "docs", ".git", "fixtures", "benchmarks"}
    for folder in (tree, inside):
        making.make(folder, tmp_path / f"{folder.name}-wheel", targets="wheel")
    (one,), (other,) = (tuple((tmp_path / f"{n}-wheel").glob("*.whl")) for n in ("tree", "context"))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("kind", SERVED)
def test_the_emitted_files_say_how_their_image_is_built(kind: str, cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """The command that they print names a target and an argument that are there; they ask for what it has."""
    shutil.copy(ROOT / "fixtures" / "tiny-llama.gguf", tmp_path)
    done = cli("launch", tmp_path / "tiny-llama.gguf", "--ctx", "512", "--ram", "8GiB", "--force", "--emit", kind)
    assert done.code == 0, done.err
    (words,) = re.findall(r"^#   (docker build .*)$", done.out, re.M)
    target = words.split("--target ")[1].split()[0]
    argument = words.split("--build-arg ")[1].partition("=")[0]
    assert f"FROM ${{{argument}}} AS {target}\n" in TEXT
    made = next(iter(yaml.safe_load_all(done.out)))
    if kind == "docker-compose":
        check = made["services"]["preflight"]
        program = check["command"][0]
        assert check["entrypoint"] == []
    else:
        (check,) = made["spec"]["template"]["spec"]["initContainers"]
        (program,) = check["command"]
    assert program == "gguftool"
    # Both programs are found by their names: the folder of the environment, and that of the images of llama.cpp.
    assert 'ENV PATH="/opt/gguftool/bin:/app:${PATH}"' in STAGES[target]
