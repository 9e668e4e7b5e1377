"""Ready files for service managers, each with the preflight as its hook.

The hook is ``gguftool launch … --print``, which ends with an error code when something stands in the way, or
``--exec``, which checks and then becomes the server.
"""

from __future__ import annotations

from collections.abc import Callable

from gguftool.errors import UsageError
from gguftool.run.emit.containers import compose, k8s
from gguftool.run.emit.services import llama_swap, systemd
from gguftool.run.emit.words import own_command as own_command
from gguftool.run.launch import LaunchPlan
from gguftool.run.options.extra import secret_words

_KINDS: dict[str, Callable[[LaunchPlan, tuple[str, ...]], str]] = {
    "systemd": systemd,
    "docker-compose": compose,
    "k8s": k8s,
    "llama-swap": llama_swap,
}


def emit(kind: str, plan: LaunchPlan, *, force: bool = False) -> str:
    """The file as text.

    Args:
        kind: ``systemd``, ``docker-compose``, ``k8s`` or ``llama-swap``.
        plan: what is to run.
        force: the hook goes on in spite of what it finds, too.

    Raises:
        UsageError: no such kind, or a secret would stand in the file for everybody to read.
    """
    if kind not in _KINDS:
        raise UsageError(f"{kind!r} cannot be emitted", "one of " + ", ".join(_KINDS))
    if secret_words(plan.wishes):
        raise UsageError(
            "a key on the command line would stand in this file for everybody to read",
            "write it into a file that only the server may read, and name that: --api-key-file FILE",
        )
    return _KINDS[kind](plan, ("--force",) if force else ())
