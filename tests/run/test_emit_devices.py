"""Emitted files ask for the devices of the plan, reach the server as it listens, and hold no plan that does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gguftool.errors import UsageError
from gguftool.run.emit import emit
from gguftool.run.wishes import Wishes
from tests.run.emitted import KINDS, filled, planned, read
from tests.run.test_options import parsed

GPU = {"vram": (24 << 30, 24 << 30)}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return filled(tmp_path)


def container(place: Path, **wishes: Any) -> dict[str, Any]:
    deployment = next(iter(yaml.safe_load_all(emit("k8s", planned(place, **wishes)))))
    return deployment["spec"]["template"]["spec"]["containers"][0]  # type: ignore[no-any-return]


def service(place: Path, **wishes: Any) -> dict[str, Any]:
    return yaml.safe_load(emit("docker-compose", planned(place, **wishes)))["services"]["llama-server"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("backend", "resource"), [("cuda", "nvidia.com/gpu"), ("rocm", "amd.com/gpu"), ("sycl", "gpu.intel.com/xe")]
)
def test_kubernetes_gives_what_the_plan_uses(backend: str, resource: str, place: Path) -> None:
    one = container(place, vram=(24 << 30,), backend=backend)
    assert one["resources"]["limits"][resource] == 1
    assert resource not in container(place)["resources"]["limits"]
    assert resource not in container(place, vram=())["resources"]["limits"]


def test_compose_gives_what_the_plan_uses(place: Path) -> None:
    cuda = service(place, tensor_split=(1.0, 1.0), **GPU)
    assert cuda["deploy"]["resources"]["reservations"]["devices"] == [
        {"driver": "nvidia", "count": 2, "capabilities": ["gpu"]}
    ]
    assert service(place, vram=(24 << 30,), backend="rocm")["devices"] == ["/dev/kfd:/dev/kfd", "/dev/dri:/dev/dri"]
    assert service(place, vram=(24 << 30,), backend="vulkan")["devices"] == ["/dev/dri:/dev/dri"]
    assert "deploy" not in service(place)
    assert "devices" not in service(place)


def test_a_device_keeps_its_number(place: Path) -> None:
    """CUDA1 is the second one in the container, too."""
    cuda = service(place, device=("CUDA1",), **GPU)
    assert cuda["deploy"]["resources"]["reservations"]["devices"][0]["count"] == 2


def test_no_container_reaches_metal(place: Path) -> None:
    for kind in ("k8s", "docker-compose"):
        with pytest.raises(UsageError, match="Metal"):
            emit(kind, planned(place, vram=(24 << 30,), backend="metal"))


@pytest.mark.parametrize("kind", ["k8s", "docker-compose"])
def test_the_preflight_judges_the_planned_devices(kind: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its container has no GPU: what this machine was found to have is written out."""
    from gguftool.model import open_model
    from gguftool.run.devices import FoundDevice, HostMemory
    from gguftool.run.launch import plan_launch

    found = (FoundDevice("CUDA0", "cuda", "a card", 24 << 30, 23 << 30, "a test"),)
    with open_model(place / "m.gguf") as model:
        plan = plan_launch(model, Wishes(), devices=found, host=HostMemory(64 << 30, 60 << 30))
    hook, _, _ = read(kind, emit(kind, plan))
    said = parsed([w for w in hook[3:] if w != "--print"])
    assert (said.vram, said.backend) == ((23 << 30,), "cuda")


def test_a_socket_is_mounted_and_probed(place: Path) -> None:
    path = str(place / "llm.sock")
    k = container(place, host=path, api_prefix="/llm")
    told = k["args"][k["args"].index("--host") + 1]
    assert told.endswith("/llm.sock")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        words = ["curl", "-sf", "--unix-socket", told, "http://localhost/llm/health"]
        assert k[probe]["exec"]["command"] == words
    assert "ports" not in k
    text = emit("k8s", planned(place, host=path))
    assert "kind: Service" not in text
    mount = next(m for m in k["volumeMounts"] if told.startswith(m["mountPath"] + "/"))
    assert not mount.get("readOnly")
    c = service(place, host=path)
    assert c["healthcheck"]["test"][:4] == ["CMD", "curl", "-sf", "--unix-socket"]
    assert "ports" not in c


def test_llama_swap_speaks_to_the_prefix(place: Path) -> None:
    """What is asked is put behind `proxy`, and so is the check."""
    key = str(place / "file")
    plan = planned(place, api_prefix="/llm", ssl_key_file=key, ssl_cert_file=key)
    [entry] = yaml.safe_load(emit("llama-swap", plan))["models"].values()
    assert entry["proxy"] == "https://127.0.0.1:${PORT}/llm"
    assert entry["checkEndpoint"] == "/health"
    with pytest.raises(UsageError, match="socket"):
        emit("llama-swap", planned(place, host=str(place / "x.sock")))


def test_a_folder_to_write_to_has_its_own_name(tmp_path: Path) -> None:
    """systemd puts variables into commands alone: a doubled dollar elsewhere is two."""
    folder = tmp_path / "a $x %h"
    folder.mkdir()
    text = emit("systemd", planned(filled(folder), host=str(folder / "x.sock")))
    assert f'ReadWritePaths="{tmp_path}/a $x %%h"' in text


def test_keys_are_secrets(place: Path) -> None:
    key = str(place / "file")
    found = yaml.safe_load(emit("docker-compose", planned(place, api_key_file=key)))
    assert [s["file"] for s in found["secrets"].values()] == [key]
    assert all(v["source"] != key for v in found["services"]["llama-server"]["volumes"])
    text = emit("systemd", planned(place, api_key_file=key, ssl_key_file=key, ssl_cert_file=key))
    assert f"LoadCredential=key-0:{key}" in text
    assert "--api-key-file %d/key-0" in text


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_written_that_does_not_fit(cli, place: Path, kind: str) -> None:  # type: ignore[no-untyped-def]
    words = ("launch", place / "m.gguf", "--ram", "1MiB", "--reserve", 0, "--ctx", 4096, "--emit", kind)
    result = cli(*words)
    assert result.code in (1, 5)
    assert not result.out
    assert "no file" in result.err
    assert cli(*words, "--force").code == 0
