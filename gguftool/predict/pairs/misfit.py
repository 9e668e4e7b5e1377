"""One reason why a file does not go with a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from gguftool.brief import short_repr
from gguftool.model import Model
from gguftool.records import dataclass, field
from gguftool.shell import Words

ABORTS, REFUSED, IGNORED, HARM, DOUBT = "aborts", "refused", "ignored", "harm", "doubt"
OUTCOMES = (ABORTS, REFUSED, IGNORED, HARM, DOUBT)
"""What comes of it, the worst first."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """Two files that do not go together.

    Attributes:
        rule: id of the lint rule that reports it; "" where only a command has what it is about.
        outcome: ``aborts`` (the process dies), ``refused`` (an error ends the start), ``ignored`` (llama.cpp goes on
            without what was asked for), ``harm`` (it runs, with worse answers or for nothing) or ``doubt`` (nothing
            keeps it from running as meant, and something speaks against it).
        message: what is wrong, one sentence with the values that matter; the file beside the model is "it".
        said: llama.cpp's own lines (b11434), in order, without what stands before them in a log.
        hint: what helps, in words.
        command: what helps, as words of a command (`gguftool.shell`), when there is one.
        where: ``field:KEY``, ``tensor:NAME`` or ``file``, in the file beside the model.
        data: values for programs.
    """

    rule: str
    outcome: str
    message: str
    said: tuple[str, ...] = ()
    hint: str = ""
    command: Words | None = None
    where: str = "file"
    data: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))

    __repr__ = short_repr

    @property
    def stops(self) -> bool:
        """Whether what was asked for would not happen."""
        return self.outcome not in (HARM, DOUBT)

    @property
    def ends(self) -> bool:
        """Whether llama.cpp would not start with it."""
        return self.outcome in (ABORTS, REFUSED)

    @property
    def left_out(self) -> bool:
        """Whether llama.cpp would go on without it."""
        return self.outcome == IGNORED

    @property
    def doubtful(self) -> bool:
        """Whether nothing keeps it from running as meant, though something speaks against it."""
        return self.outcome == DOUBT


Check = Callable[[Model, Model], Iterable[Misfit]]
"""(model, the file beside it) -> what is wrong."""
