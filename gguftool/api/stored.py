"""What the programs of this machine keep: what ``gguftool scan --stores`` shows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gguftool.brief import short_repr
from gguftool.fleet.hfprogram import hf_program
from gguftool.fleet.offers import Offers, offers
from gguftool.fleet.scan import rows
from gguftool.fleet.stores import Inventory, inventory
from gguftool.fleet.want import Want
from gguftool.records import dataclass

if TYPE_CHECKING:
    from gguftool.verify.stream import Progress


@dataclass(frozen=True, slots=True)
class Stored:
    """The models of a machine.

    Attributes:
        found: the stores, their files, what is there twice or gone.
        offers: commands that free room; none is run.
    """

    found: Inventory
    offers: Offers

    __repr__ = short_repr

    @property
    def ok(self) -> bool:
        """Every model is whole, and its data is there."""
        return not self.found.broken

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        """The rows of its models, as `scan` has them, each set once."""
        return list({row["path"]: row for h in self.found.holdings if (row := h.row) is not None}.values())


def stored_models(
    folders: Sequence[str | os.PathLike[str]] = (),
    *,
    read: bool = False,
    lint: bool = True,
    build: int | None = None,
    jobs: int | None = None,
) -> Stored:
    """Look at what Hugging Face, Ollama, LM Studio, llama.cpp, jan and GPT4All keep on this machine.

    Nothing is written, nothing is asked of the network.

    Args:
        folders: further folders of models.
        read: read the data of files that may be the same, so that it is proven.
        lint: run the rules too, and predict what llama.cpp does.
        build: number of the build of llama.cpp to judge by; None: the newest that is known.
        jobs: models at a time; the number of processors when None.

    Raises:
        MissingFile: a folder that does not exist.
    """
    progress = (lambda _: lambda _: None) if read else None
    return look([os.fspath(f) for f in folders], Want(lint=lint, build=build), jobs=jobs, read=progress)


def look(
    folders: Sequence[str],
    want: Want,
    *,
    jobs: int | None = None,
    resume: str = "",
    read: Callable[[int], Progress] | None = None,
) -> Stored:
    """As `stored_models`, with what a row shall hold.

    Args:
        folders: further folders.
        want: what is to be made of each model.
        jobs: models at a time.
        resume: file that keeps the rows; "" keeps none.
        read: as of `gguftool.fleet.copies.compare`.
    """

    def judge(files: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        yield from rows(files, want, jobs=jobs, resume=resume)

    found = inventory(judge, more=folders, read=read)
    return Stored(found, offers(found, hf_program()))
