"""The GGUF files that a command names beside the model: what they take, and whether they fit it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.hub import open_any
from gguftool.memory.devices import HOST
from gguftool.memory.plan import Machine
from gguftool.memory.use import PROJECTOR, Side
from gguftool.model import Model
from gguftool.model.headers import headers_beside
from gguftool.records import dataclass, field
from gguftool.run import speculative
from gguftool.run.lying import note
from gguftool.run.options.table import by_field
from gguftool.run.wishes import Wishes
from gguftool.shell import gguftool, path_word

if TYPE_CHECKING:
    from gguftool.predict.pairs import Misfit

ROLES = {
    "mmproj": "mmproj",
    "lora": "adapter",
    "lora_scaled": "adapter",
    "control_vector": "control-vector",
    "control_vector_scaled": "control-vector",
    "draft": "draft",
}
"""Field of `Wishes` -> role of the files it names (`gguftool.predict.pairs.BESIDE`)."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """A file that does not go with the model.

    Attributes:
        option: the option that names it.
        path: the file.
        misfit: why.
    """

    option: str
    path: str
    misfit: Misfit

    __repr__ = short_repr

    @property
    def text(self) -> str:
        """What is wrong, with llama.cpp's own words where they say more."""
        # What keeps a file from loading is told in llama.cpp's words already.
        said = self.misfit.said[0] if self.misfit.said and self.misfit.rule != "pair-load" else ""
        return f"{self.option} {self.path}: {self.misfit.message}" + (f" (llama.cpp: {said})" if said else "")

    @property
    def remedy(self) -> str:
        """What helps."""
        return self.misfit.hint or gguftool("lint", path_word(self.path))


@dataclass(slots=True)
class Beside:
    """What stands beside a model.

    Attributes:
        sides, drafts: for the memory plan.
        unfit: what does not go with it.
        doubts: what llama.cpp would do with them, though hardly as meant: what is wrong, and what helps.
        notes: what is worth knowing.
    """

    sides: list[Side] = field(default_factory=list)
    drafts: list[speculative.Draw] = field(default_factory=list)
    unfit: list[Unfit] = field(default_factory=list)
    doubts: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def named(w: Wishes) -> Iterator[tuple[str, str]]:
    """Every such file: the field of `Wishes` that names it, and its path."""
    for name in ROLES:
        value = getattr(w, name)
        for item in (value,) if isinstance(value, str) else value or ():
            yield name, item if isinstance(item, str) else item[0]


def beside(model: Model, w: Wishes, machine: Machine, build: int | None = None) -> Beside:
    """Look at the files that wishes name; only their headers are read.

    Args:
        model: the model itself.
        w: the wishes, with absolute paths.
        machine: where it shall run.
        build: number of the build that will serve, where it is older than the newest known.

    Raises:
        NotGguf, MissingFile: one of them is none at all.
    """
    out = Beside()
    for name, path in named(w):
        with open_any(path, strict=False, known=headers_beside(model.kept)) as m:
            if name == "draft":
                _drafting(model, m, w, machine, out)
                continue
            from gguftool.predict.pairs import misfits

            option = by_field()[name].ours
            out.unfit += [Unfit(option, path, one) for one in misfits(model, m, ROLES[name], build)]
            again = any(x.what == ROLES[name] for x in out.sides)
            out.sides.append(_side(m, name, w, model, again=again))
    if w.draft is None:
        _drafting(model, None, w, machine, out)
    if found := speculative.tables(w):
        out.sides.append(found)
    if w.mmproj is None and (lies := note(model)):
        out.notes.append(lies)
    return out


def media(model: Model, w: Wishes) -> tuple[str, ...]:
    """What the projector of these wishes lets the server take, as its ``/props`` name it: ``vision``, ``audio``."""
    if w.mmproj is None:
        return ()
    from gguftool.facts.machine.clip import AUDIO, VISION
    from gguftool.model.projector import projector

    with open_any(w.mmproj, strict=False, known=headers_beside(model.kept)) as m:
        return tuple(e.modality for e in projector(m).encoders if e.modality in (VISION, AUDIO))


def _drafting(model: Model, draft: Model | None, w: Wishes, machine: Machine, out: Beside) -> None:
    for kind, one in speculative.unfit(model, draft, w):
        option = by_field()["spec_type" if kind else "draft"].ours
        out.unfit.append(Unfit(option, kind or w.draft or "", one))
    out.doubts += speculative.useless(model, w)
    draw = speculative.context_of(model, draft, w, machine)
    if draw is not None:
        out.drafts.append(draw)


def _layer(tensor: str, model: Model) -> int:
    """The layer of a tensor; -1 for the token embedding, and one more than there are for the output."""
    found = re.match(r"blk\.(\d{1,9})\.", tensor)
    if found:
        return int(found[1])
    return -1 if tensor.startswith("token_embd") else model.arch.block_count


def _side(m: Model, name: str, w: Wishes, model: Model, *, again: bool) -> Side:
    if ROLES[name] == "adapter":
        parts = tuple((_layer(t.name, model), t.nbytes or 0) for t in m.tensors.values())
        return Side("lora", _weight(m), layers=parts)
    if name != PROJECTOR:
        # One row for every layer but the first, of all such files together, whatever they hold
        # (`llama-adapter.cpp:llama_adapter_cvec::init`).
        row = 0 if again else model.arch.embedding_length * 4
        rows = tuple((n, row) for n in range(1, model.arch.block_count))
        return Side(ROLES[name], row * len(rows), layers=rows)
    from gguftool.memory.pictures import graphs

    host = not w.mmproj_offload or w.mmproj_device == "none"
    use = graphs(m)
    return Side(
        PROJECTOR, _weight(m), HOST if host else w.mmproj_device or "", use.start, use.most - use.start, use.inputs
    )  # fmt: skip


def _weight(m: Model) -> int:
    """Bytes of a file's tensors."""
    return sum(t.nbytes or 0 for t in m.tensors.values())
