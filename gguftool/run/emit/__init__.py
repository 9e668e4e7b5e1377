"""Ready files for service managers and other programs, each with our own check in front of the server where it can be.

The check is ``gguftool launch … --print``, which ends with an error code when something stands in the way, or
``--exec``, which checks and then becomes the server.
"""

from __future__ import annotations

from collections.abc import Callable

from gguftool.errors import UsageError
from gguftool.run.emit.compose import compose
from gguftool.run.emit.dockerfile import dockerfile
from gguftool.run.emit.kubernetes import k8s
from gguftool.run.emit.ollama import ollama
from gguftool.run.emit.preset import preset
from gguftool.run.emit.services import llama_swap, systemd
from gguftool.run.emit.words import no_secrets
from gguftool.run.emit.words import own_command as own_command
from gguftool.run.launch import LaunchPlan

_KINDS: dict[str, Callable[[LaunchPlan, tuple[str, ...], str | None], str]] = {
    "systemd": systemd,
    "docker-compose": compose,
    "k8s": k8s,
    "llama-swap": llama_swap,
    "dockerfile": dockerfile,
    "preset": preset,
    "ollama": ollama,
}
KINDS = tuple(_KINDS)


def emit(kind: str, plan: LaunchPlan, *, force: bool = False, image: str | None = None) -> str:
    """The file as text.

    Args:
        kind: one of `KINDS`.
        plan: what is to run.
        force: the check of the file goes on in spite of what it finds, too.
        image: of containers, the image of llama-server; None: a name that has to be put in.

    Raises:
        UsageError: no such kind, a plan that such a file cannot hold, or a secret would stand in it for everybody to
            read.
    """
    if kind not in _KINDS:
        raise UsageError(f"{kind!r} cannot be emitted", "one of " + ", ".join(_KINDS))
    no_secrets(plan.wishes)
    return _KINDS[kind](plan, ("--force",) if force else (), image)
