"""What matters of a file in its role: one module for each role, each with a function ``about(m) -> Facts``.

A projector is told by what it takes and gives, an adapter by its base and rank; how long a context is says nothing
about either. `PAGES` says which module speaks for a role and which of the lines about a language model stay beside it.
To give a role its facts, write ``about/<role>.py`` and put it into the table; the first screen and JSON follow.
"""

from __future__ import annotations

from importlib import import_module

from gguftool.model.about.fact import Facts
from gguftool.model.model import Model
from gguftool.model.role import role
from gguftool.records import dataclass

GENERAL = ("model", "quant", "attention", "rope", "vocab", "memory", "deploy")
"""Lines about a language model, in the order of the first screen."""
LANGUAGE = ("model", "quant", "attention", "rope", "vocab")
"""Those that are true of a language model of another program, too."""


@dataclass(frozen=True, slots=True)
class Page:
    """How a role is shown.

    Attributes:
        home: module and function of its facts; the module is loaded when a file of that role is shown.
        keeps: lines of `GENERAL` that are true of it as well.
    """

    home: str
    keeps: tuple[str, ...] = ("quant",)

    def about(self, m: Model) -> Facts:
        """Its facts."""
        module, _, name = self.home.partition(".")
        found: Facts = getattr(import_module(f"{__name__}.{module}"), name)(m)
        return found


PAGES: dict[str, Page] = {
    "model": Page("model.about", GENERAL),
    "encoder": Page("encoder.about", GENERAL),
    "draft": Page("draft.about", GENERAL),
    "vocoder": Page("sound.vocoder"),
    "mmproj": Page("projector.about"),
    "adapter": Page("adapter.about"),
    "control-vector": Page("steering.about", ()),
    "imatrix": Page("imatrix.about", ()),
    "vocab": Page("vocab.about", ("vocab",)),
    "metadata": Page("vocab.metadata", ("vocab",)),
    "image": Page("strange.image"),
    "audio": Page("sound.about"),
    "foreign": Page("strange.about", LANGUAGE),
    "old": Page("strange.about", LANGUAGE),
    "nothing": Page("model.about", ()),
}
"""Role (`gguftool.model.role.ROLES`) -> how it is shown."""


def kept(m: Model) -> tuple[str, ...]:
    """The lines about a language model that are true of a file; few where llama.cpp does not know its architecture."""
    keeps = PAGES[role(m)].keeps
    return tuple(line for line in keeps if line == "quant") if keeps is LANGUAGE and m.arch.facts is None else keeps


def about(m: Model) -> Facts:
    """The facts that matter of a file in its role; works on a broken file as far as it was read."""
    return PAGES[role(m)].about(m)
