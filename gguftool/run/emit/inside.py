"""A launch as it is inside a container: paths, address, devices and memory of there, for every file of containers."""

from __future__ import annotations

import re

from gguftool.errors import UsageError
from gguftool.records import dataclass, replace
from gguftool.run.args import server_command
from gguftool.run.emit.words import hook, path, scheme
from gguftool.run.launch import LaunchPlan
from gguftool.run.options.serving import DEFAULT_PORT, LOOPBACK
from gguftool.run.sidefiles import Mount, is_socket, mounted
from gguftool.run.wishes import Wishes

EVERYWHERE = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class Inside:
    """A launch as it is in containers.

    Attributes:
        model: its path there.
        check: the preflight, ``gguftool`` first.
        serve: the arguments of llama-server.
        mounts: what both need.
        port: where it listens; None: on a socket of the file system.
        wishes: with paths and address as they are there.
        gpus: how many devices of each backend it must be given.
    """

    model: str
    check: list[str]
    serve: list[str]
    mounts: tuple[Mount, ...]
    port: int | None
    wishes: Wishes
    gpus: dict[str, int]

    @property
    def url(self) -> str:
        """What a probe asks for, from inside."""
        host = "localhost" if self.port is None else f"{LOOPBACK}:{self.port}"
        return f"{scheme(self.wishes)}://{host}{path(self.wishes, '/health')}"

    @property
    def probe(self) -> list[str]:
        """The command that asks whether it is ready; images of llama-server have curl for it."""
        flags = "-skf" if scheme(self.wishes) == "https" else "-sf"
        socket = ["--unix-socket", self.wishes.host] if self.port is None else []
        return ["curl", flags, *socket, self.url]


def inside(plan: LaunchPlan, force: tuple[str, ...]) -> Inside:
    """The launch as it is in a container."""
    port = plan.wishes.port or DEFAULT_PORT
    socket = is_socket(plan.wishes.host)
    # The program and the log are those of this machine; in a container the image has the one, and keeps the other.
    host = plan.wishes.host if socket else EVERYWHERE
    here = replace(plan.wishes, server=None, engine="auto", log=None, host=host, port=port)
    model, there, mounts = mounted(plan.model, plan.files, here)
    # What the server listens on is not the business of the preflight, and its devices are those that are planned with:
    # the container of the preflight has none.
    judged = replace(_with_devices(plan, there), port=plan.wishes.port)
    if not socket:
        judged = replace(judged, host=plan.wishes.host)
    check = hook(replace(plan, model=model, wishes=judged), force)
    serve = list(server_command(model, there, plan.engine.build).args)
    return Inside(model, check, serve, mounts, None if socket else port, there, gpus(plan))


def gpus(plan: LaunchPlan) -> dict[str, int]:
    """How many devices of each backend the plan uses; those before one that is used are counted, they keep its name.

    Raises:
        UsageError: no container reaches them.
    """
    out: dict[str, int] = {}
    for d in plan.memory.devices:
        if d.kind not in ("cpu", "rpc") and d.total:
            out[d.kind] = max(out.get(d.kind, 0), _number(d.name) + 1)
    if "metal" in out:
        raise UsageError("no container reaches a GPU through Metal", "--vram none, or a kind without containers")
    return out


def _number(name: str) -> int:
    found = re.search(r"([0-9]+)$", name)
    return int(found[1]) if found else 0


def _with_devices(plan: LaunchPlan, w: Wishes) -> Wishes:
    """The wishes with the devices of this machine named, where nobody named any."""
    local = [d for d in plan.memory.devices if d.kind not in ("cpu", "rpc")]
    kinds = {d.kind for d in local}
    if isinstance(w.vram, tuple) or len(kinds) != 1 or any(d.memory is None for d in local):
        return w
    sizes = [0] * (1 + max(_number(d.name) for d in local))
    for d in local:
        sizes[_number(d.name)] = d.memory or 0
    return replace(w, vram=tuple(sizes), backend=kinds.pop())
