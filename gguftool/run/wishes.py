"""What a user asks of a launch, and what stands in its way."""

from __future__ import annotations

from gguftool.brief import line, short_repr, shown
from gguftool.records import dataclass, fields
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

    def __repr__(self) -> str:
        """What was asked for; no secret is shown."""
        asked = ((f, getattr(self, f.name)) for f in fields(self))
        said = ((f, value) for f, value in asked if value != f.default)
        parts = [f"{f.name}={'…' if f.metadata['option'].secret else shown(value)}" for f, value in said if f.metadata]
        return line("Wishes", [*parts, *([f"extra={shown(self.extra)}"] if self.extra else [])])


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A reason not to start.

    Attributes:
        where: ``model``, ``cache``, ``context``, ``room`` (memory), ``build``, ``network``, ``pair`` (a
            file beside the model), ``lint``, ``verify``.
        message: what is wrong.
        remedy: what helps, a command where there is one.
        severity: ``error``: llama.cpp would refuse or do something else; ``warning``: it would start.
    """

    where: str
    message: str
    remedy: str = ""
    severity: str = "error"

    __repr__ = short_repr
