"""Emitted files as the programs that read them take them: strict schemas, parsers, `docker compose config`."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gguftool.errors import UsageError
from gguftool.run.emit import emit
from tests.run.emitted import ODD, filled, planned

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "cuda": {"vram": (24 << 30, 24 << 30), "tensor_split": (1.0, 1.0)},
    "rocm": {"vram": (24 << 30,), "backend": "rocm"},
    "vulkan": {"vram": (24 << 30,), "backend": "vulkan"},
    "sycl": {"vram": (24 << 30,), "backend": "sycl"},
    "files": dict.fromkeys(("api_key_file", "template", "ssl_key_file", "ssl_cert_file"), "file"),
    "socket": {"host": "llm.sock"},
    "alias": {"alias": 'it\'s "me" $x'},
}


@pytest.fixture(params=["plain", ODD], ids=["plain", "odd"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / request.param).mkdir()
    return filled(tmp_path / request.param)


def text(kind: str, case: str, place: Path) -> str:
    wishes = {k: str(place / v) if v in ("file", "llm.sock") else v for k, v in CASES[case].items()}
    return emit(kind, planned(place, **wishes), image="llama-server:b11434")


@pytest.mark.parametrize("case", CASES)
def test_kubernetes_takes_it_strictly(case: str, place: Path) -> None:
    kubernetes = pytest.importorskip("kubernetes_validate")
    for document in yaml.safe_load_all(text("k8s", case, place)):
        for version in ("1.31", "1.37"):
            kubernetes.validate(document, version, strict=True)


@pytest.mark.parametrize("case", CASES)
def test_compose_takes_it(case: str, place: Path) -> None:
    written = text("docker-compose", case, place)
    docker, first = shutil.which("docker"), shutil.which("docker-compose")
    if docker and not subprocess.run([docker, "compose", "version"], capture_output=True).returncode:
        words = [docker, "compose", "-f", "-", "config"]
    elif first:
        # The first docker-compose (1.29) knows all but that.
        written, words = written.replace(", bind: {create_host_path: false}", ""), [first, "-f", "-", "config"]
    else:
        pytest.skip("no docker compose here")
    env = {"PATH": "/usr/bin:/bin", "GGUFTOOL_IMAGE": "a", "LLAMA_SERVER_IMAGE": "b"}
    done = subprocess.run(words, input=written, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    served = yaml.safe_load(done.stdout)["services"]["llama-server"]
    # What it prints is a file of its own again, with its own escapes.
    assert str(place) in {v["source"].replace("$$", "$") for v in served["volumes"]}


@pytest.mark.parametrize("case", CASES)
def test_hadolint_has_nothing_to_say(case: str, place: Path) -> None:
    program = shutil.which("hadolint")
    if program is None:
        pytest.skip("no hadolint here")
    done = subprocess.run([program, "-"], input=text("dockerfile", case, place), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("case", CASES)
def test_a_dockerfile_has_its_parts(case: str, place: Path) -> None:
    parser = pytest.importorskip("dockerfile_parse")
    made = parser.DockerfileParser(fileobj=io.BytesIO(text("dockerfile", case, place).encode()))
    found = made.structure
    names = [x["instruction"] for x in found if x["instruction"] != "COMMENT"]
    assert made.baseimage == "llama-server:b11434"
    assert names == [
        "FROM", "USER", "RUN", "COPY", "RUN", "ENV", "USER", *(["EXPOSE"] if case != "socket" else []), "HEALTHCHECK",
        "ENTRYPOINT", "CMD",
    ]  # fmt: skip
    users = [x["value"] for x in found if x["instruction"] == "USER"]
    assert users == ["0", "10001:10001"], "it does not run as root"
    last = {x["instruction"]: x["value"] for x in found}
    assert json.loads(last["ENTRYPOINT"]) == ["gguftool"]
    words = json.loads(last["CMD"])
    assert words[0] == "launch"
    assert "--exec" in words
    assert json.loads(last["HEALTHCHECK"].partition("CMD ")[2])[0] == "curl"


@pytest.mark.parametrize("image", ["", "a b", "a\nRUN x", "-x", "${X}"])
def test_an_image_is_a_name(image: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="image"):
        emit("dockerfile", planned(filled(tmp_path)), image=image)


def test_an_image_has_to_be_named(tmp_path: Path) -> None:
    made = emit("dockerfile", planned(filled(tmp_path)))
    assert "ARG LLAMA_SERVER_IMAGE\nFROM ${LLAMA_SERVER_IMAGE}\n" in made
