"""What a prediction says, and how a stage ends the load."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gguftool.brief import short_repr, table
from gguftool.facts import NUMBER
from gguftool.records import dataclass, field

LOADS, WARNS, REFUSED, ABORTS, UNKNOWN = "loads", "warns", "refused", "aborts", "unknown"


@dataclass(frozen=True, slots=True)
class AfterLoad:
    """What follows a load that succeeds.

    Attributes:
        stage: ``context`` (creation of a context of 512 tokens), ``template`` (llama-server reads the chat template)
            or ``decode`` (the first tokens).
        outcome: ``ok``, ``refused``, ``aborts``, ``hangs`` or ``unknown``.
        message: llama.cpp's own words, or what is known of the place; "" when all is well.
        where: ``field:KEY`` or ``tensor:NAME`` that it follows from, else "".
    """

    stage: str
    outcome: str
    message: str = ""
    where: str = ""

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a build of llama.cpp does with a file.

    Attributes:
        verdict: ``loads``, ``warns`` (loads with warnings, or is left out: ``skipped``), ``refused`` (an error),
            ``aborts`` (the process dies) or ``unknown`` (the header cannot tell; ``not_evaluated`` says why).
        stage: where it ends: ``file``, ``architecture``, ``splits``, ``hyperparameters``, ``vocabulary``, ``tensors``,
            ``data``, or ``done``.
        messages: llama.cpp's error lines in order, of an abort the failed assertion.
        warnings: llama.cpp's warning lines, in order.
        where: ``field:KEY``, ``tensor:NAME`` or ``file``: what the end follows from.
        layers: layers that the graph of every token runs through; None when it does not load.
        tensors: tensors that are loaded and used; None when it does not load.
        left_aside: tensors of the file that llama.cpp knows and does not use, in its order.
        after_load: what the first context and the first decode do; None when it does not load.
        not_evaluated: questions the header leaves open.
        data: details for programs (expected and stored shape, …).
        build: number of the build whose loading code was run.
    """

    verdict: str
    stage: str
    messages: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    where: str = "file"
    after_load: AfterLoad | None = None
    not_evaluated: tuple[str, ...] = ()
    data: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    layers: int | None = None
    tensors: int | None = None
    left_aside: tuple[str, ...] = ()
    build: int | None = NUMBER

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        said = [*(("error", text) for text in self.messages), *(("warning", text) for text in self.warnings)]
        if self.after_load is not None:
            said.append((self.after_load.stage, f"{self.after_load.outcome} {self.after_load.message}"))
        return table(f"{self.verdict}, stage {self.stage}", (), said)

    @property
    def skipped(self) -> bool:
        """True when llama.cpp goes on without the file, which stands beside a model: ``warnings`` say why."""
        return bool(self.data.get("skipped"))

    @property
    def ends(self) -> bool:
        """True when the load ends in an error, or with the process."""
        return self.verdict in (REFUSED, ABORTS)

    @property
    def loads(self) -> bool:
        """True when the file is loaded and used, with or without warnings."""
        return self.verdict in (LOADS, WARNS) and not self.skipped

    @property
    def first_error(self) -> str:
        """The first line of the error that ends it, at the load or after it; "" when none is predicted."""
        if self.messages or self.skipped:
            return (*self.messages, *self.warnings)[0]
        after = self.after_load
        return after.message if after is not None and after.outcome not in ("ok", "unknown") else ""

    @property
    def reason(self) -> str:
        """As `first_error`; of an end whose words are not known, what is known of it."""
        return self.first_error or (self.not_evaluated[0] if self.ends and self.not_evaluated else "")

    @property
    def ok(self) -> bool:
        """True when the model loads, makes a context and decodes."""
        return self.loads and (self.after_load is None or self.after_load.outcome == "ok")


class LoadEnds(Exception):
    """A stage ends the load. Never leaves `predict`.

    Args:
        messages: error lines; for a refusal the last one says ``llama_model_load: error loading model: …``.
        verdict: ``refused``, ``aborts`` or ``unknown``.
        where: what it follows from.
    """

    def __init__(
        self, messages: tuple[str, ...], *, verdict: str = REFUSED, where: str = "file", **data: object
    ) -> None:
        super().__init__(messages[0] if messages else verdict)
        self.messages = messages
        self.verdict = verdict
        self.where = where
        self.data = data


LOAD_ERROR = "llama_model_load: error loading model: "
