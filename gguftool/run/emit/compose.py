"""A file of Docker Compose."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gguftool.run.emit.inside import inside
from gguftool.run.emit.words import comment, flow, mib, which, yaml
from gguftool.run.launch import LaunchPlan
from gguftool.run.options.serving import LOOPBACK
from gguftool.run.sidefiles import Mount

_NODES = {"rocm": ("/dev/kfd", "/dev/dri"), "vulkan": ("/dev/dri",), "sycl": ("/dev/dri",)}
"""What the kernel calls the devices of a backend."""


def compose(plan: LaunchPlan, force: tuple[str, ...], image: str | None = None) -> str:
    """Two services of Docker Compose: the preflight, and the server that waits for it."""
    x = inside(plan, force)
    needs = _gpus(x.gpus)
    volumes = "\n".join(_volume(m) for m in x.mounts if not m.secret)
    uses, top = _secrets(x.mounts)
    ports = "" if x.port is None else f"    ports: [{yaml(f'{LOOPBACK}:{x.port}:{x.port}')}]\n"
    named = "${LLAMA_SERVER_IMAGE:?name an image with llama-server}" if image is None else _compose_word(image)
    return f"""\
# llama-server for {comment(os.path.basename(plan.model))}.
# Name the images: that of llama-server starts it with the arguments it is given (its entrypoint); that of gguftool has
# gguftool and llama-server on its PATH. In a checkout of gguftool the latter is built with
#   docker build -t gguftool:server --target server --build-arg LLAMA_SERVER_IMAGE={comment(image or "IMAGE")} .
# The options are spelled for {which(plan)}.
services:
  preflight:
    image: ${{GGUFTOOL_IMAGE:?name an image with gguftool}}
    entrypoint: []
    command: {_compose_words(x.check)}
    volumes:
{volumes}
{uses}    network_mode: none
    restart: "no"
  llama-server:
    image: {named}
    command: {_compose_words(x.serve)}
    depends_on:
      preflight:
        condition: service_completed_successfully
    volumes:
{volumes}
{uses}{needs}{ports}    mem_limit: {mib(plan)}m
    restart: unless-stopped
    healthcheck:
      test: {_compose_words(["CMD", *x.probe])}
      interval: 10s
      start_period: 600s
{top}"""


def nodes(gpus: dict[str, int]) -> list[str]:
    """The files of the kernel through which a container reaches such devices."""
    return list(dict.fromkeys(node for kind in gpus for node in _NODES.get(kind, ())))


def _gpus(gpus: dict[str, int]) -> str:
    """What a service needs to be given devices."""
    files = nodes(gpus)
    out = ""
    if files:
        out += "    # Where the image does not run as root, group_add: the numbers of groups video and render.\n"
        if "vulkan" in gpus:
            out += "    # Vulkan on NVIDIA: deploy … {driver: nvidia, count: 1, capabilities: [gpu, graphics]}\n"
        out += f"    devices: {flow([yaml(f'{node}:{node}') for node in files])}\n"
    if "cuda" in gpus:
        out += (
            "    deploy:\n      resources:\n        reservations:\n          devices:\n"
            f"            - {{driver: nvidia, count: {gpus['cuda']}, capabilities: [gpu]}}\n"
        )
    return out


def _volume(m: Mount) -> str:
    """The long form: a colon in a path parts nothing, and a folder that is not there is not made."""
    source, target = _compose_word(m.source), _compose_word(m.target)
    read_only = "" if m.writable else "read_only: true, "
    return f"      - {{type: bind, source: {source}, target: {target}, {read_only}bind: {{create_host_path: false}}}}"


def _secrets(mounts: Sequence[Mount]) -> tuple[str, str]:
    """The secrets as a service uses them, and as the file declares them."""
    secret = [m for m in mounts if m.secret]
    if not secret:
        return "", ""
    uses = "".join(f"      - {{source: keys-{i}, target: {_compose_word(m.target)}}}\n" for i, m in enumerate(secret))
    top = "".join(f"  keys-{i}: {{file: {_compose_word(m.source)}}}\n" for i, m in enumerate(secret))
    return f"    secrets:\n{uses}", f"secrets:\n{top}"


def _compose_word(word: str) -> str:
    """A string of Compose, which takes ``$`` for the beginning of a variable wherever it stands."""
    return yaml(word.replace("$", "$$"))


def _compose_words(words: Sequence[str]) -> str:
    return flow([_compose_word(w) for w in words])
