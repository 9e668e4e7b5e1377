"""What a user asks of a launch, and what stands in its way."""

from __future__ import annotations

from dataclasses import dataclass

from gguftool.run.options.kinds import RpcServer as RpcServer
from gguftool.run.options.ours import OwnWishes


@dataclass(frozen=True, slots=True)
class Wishes(OwnWishes):
    """What the user asks of a launch; None, or empty: the file's record, else llama.cpp's default.

    Every field but the last is one option, declared where it stands (`gguftool.run.options`).

    Attributes:
        extra: further arguments of llama-server, put last as they are.
    """

    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A reason not to start.

    Attributes:
        where: ``model``, ``cache``, ``context``, ``room`` (memory), ``build``, ``network``, ``lint``, ``verify``.
        message: what is wrong.
        remedy: what helps, a command where there is one.
        severity: ``error``: llama.cpp would refuse or do something else; ``warning``: it would start.
    """

    where: str
    message: str
    remedy: str = ""
    severity: str = "error"
