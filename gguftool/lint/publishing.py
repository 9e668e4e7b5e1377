"""What a model is to be published with: the folder it lies in as the repository it becomes.

Rules open no files: `gguftool.api.push` reads all of this before they run.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gguftool.brief import short_repr
from gguftool.model.card import Card
from gguftool.records import dataclass, field
from gguftool.verify.manifest import HashList


@dataclass(frozen=True, slots=True)
class CardCommand:
    """A command that stands in the card, and what is wrong with it; "" when nothing is."""

    line: str
    fault: str


@dataclass(frozen=True, slots=True)
class Publishing:
    """The folder that becomes a repository.

    Attributes:
        folder: its path; "" is the folder one works in.
        lead: the model that findings about the repository as a whole are told with.
        sizes: every file in it, by its name there, with its bytes.
        models: first file of every model in it, by its name there.
        repo: ``owner/name`` on the Hub; "" when nobody says it.
        card: its README.md; None when there is none.
        sums: its SHA256SUMS; None when there is none, or it cannot be read (``sums_fault`` says why).
        hashes: sha256 of model files by name there; a file that was not hashed is not in it.
        commands: what the card tells people to type.
    """

    folder: str
    lead: str
    sizes: Mapping[str, int]
    models: tuple[str, ...] = ()
    repo: str = ""
    card: Card | None = None
    sums: HashList | None = None
    sums_fault: str = ""
    hashes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    commands: tuple[CardCommand, ...] = ()

    __repr__ = short_repr
