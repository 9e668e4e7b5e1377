"""One load in progress: what a stage learns the later ones use."""

from __future__ import annotations

from gguftool.facts.machine.program import Machine
from gguftool.model import Model
from gguftool.predict.tensors import Asked, Wanted
from gguftool.predict.vocab import Loaded
from gguftool.records import dataclass, field


@dataclass(slots=True)
class Run:
    """One load in progress; what a stage learns the later ones use.

    Attributes:
        model: the model.
        stage: name of the stage that runs.
        machine: evaluator with the hyperparameters, after the stage of that name.
        vocab: after the vocabulary stage.
        asked: the tensors asked for.
        warnings: llama.cpp's warning lines so far.
        not_evaluated: open questions so far.
        type_faults: stage, words, tensor and type where a type ends the process; None: not looked for yet.
    """

    model: Model
    stage: str = "file"
    machine: Machine | None = None
    vocab: Loaded | None = None
    asked: Asked | None = None
    warnings: list[str] = field(default_factory=list)
    not_evaluated: list[str] = field(default_factory=list)
    type_faults: list[tuple[str, str, Wanted, int]] | None = None

    def close(self) -> None:
        """Let go of what was read: the names of an evaluator are functions of it, a circle that would live on."""
        if self.machine is not None:
            self.machine.names.clear()
            self.machine = None

    def layers(self) -> int | None:
        """Layers that the graph of every token runs through; None before the hyperparameters are read."""
        return None if self.machine is None else int(self.machine.names["n_layer()"]())

    def left_aside(self) -> tuple[str, ...]:
        """Tensors of the file that llama.cpp knows and does not use, in its order."""
        if self.asked is None:
            return ()
        stored = self.asked.stored
        return tuple(name for name, wanted in self.asked.wanted.items() if name in stored and not wanted.used)
