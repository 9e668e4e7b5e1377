"""The GGUF files that a command names beside the model: what they take, and whether they fit it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.facts.cachetypes import DEFAULT
from gguftool.hub import open_any
from gguftool.memory.devices import HOST
from gguftool.memory.plan import Planner, Side, weights_of
from gguftool.memory.settings import Settings
from gguftool.model import Model
from gguftool.predict.pairs import Misfit, misfits
from gguftool.predict.pairs.lying import note
from gguftool.run.options.table import by_field
from gguftool.run.wishes import Wishes

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
        said = next((line for line in self.misfit.said[:1] if line not in self.misfit.message), "")
        return f"{self.option} {self.path}: {self.misfit.message}" + (f" (llama.cpp: {said})" if said else "")


@dataclass(slots=True)
class Beside:
    """What stands beside a model.

    Attributes:
        sides: for the memory plan.
        unfit: what does not go with it.
        doubts: what llama.cpp would do with them, though hardly as meant: what is wrong, and what helps.
        notes: what is worth knowing.
    """

    sides: tuple[Side, ...] = ()
    unfit: tuple[Unfit, ...] = ()
    doubts: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def named(w: Wishes) -> Iterator[tuple[str, str]]:
    """Every such file: the field of `Wishes` that names it, and its path."""
    for name in ROLES:
        value = getattr(w, name)
        for item in (value,) if isinstance(value, str) else value or ():
            yield name, item if isinstance(item, str) else item[0]


def beside(model: Model, w: Wishes, s: Settings) -> Beside:
    """Look at the files that wishes name; only their headers are read.

    Args:
        model: the model itself.
        w: the wishes, with absolute paths.
        s: how the model is to run, which a draft model does likewise.

    Raises:
        NotGguf, MissingFile: one of them is none at all.
    """
    out, sides, unfit = Beside(), [], []
    for name, path in named(w):
        with open_any(path, strict=False) as m:
            found = misfits(model, m, ROLES[name])
            unfit += [Unfit(by_field()[name].ours, path, one) for one in found]
            sides.append(_draft(m, w, s, out) if name == "draft" else _side(m, name, w))
    if w.draft is None and "draft-mtp" in w.spec_type:
        out.notes.append("draft-mtp loads prediction layers and a second cache, which are not in the plan")
    if w.mmproj is None and (lies := note(model)):
        out.notes.append(lies)
    out.sides, out.unfit = tuple(sides), tuple(unfit)
    return out


def _side(m: Model, name: str, w: Wishes) -> Side:
    if name != "mmproj":
        return Side("lora" if ROLES[name] == "adapter" else ROLES[name], _weight(m))
    host = not w.mmproj_offload or w.mmproj_device == "none"
    return Side("mmproj", _weight(m), HOST if host else w.mmproj_device or "")


def _weight(m: Model) -> int:
    """Bytes of a file's tensors."""
    return sum(t.nbytes or 0 for t in m.tensors.values())


def _draft(m: Model, w: Wishes, s: Settings, out: Beside) -> Side:
    """The draft model, with a cache as long as the model's own (`server-context.cpp:load_model`)."""
    asked = replace(
        s, type_k=w.draft_type_k or DEFAULT, type_v=w.draft_type_v or DEFAULT, snapshots=0, outputs=None
    )  # fmt: skip
    if not w.spec_type and not names_its_kind(m):
        unused = "llama.cpp loads the draft model and never uses it: no --spec-type is given"
        out.doubts.append((unused, "--spec-type draft-simple"))
    try:
        size = Planner(m.arch, weights_of(m)).plan(asked).total
    except (UsageError, KeyError):
        size = _weight(m)
    out.notes.append("the draft model is counted whole, with a cache as long as the model's, on one device")
    on_host = w.draft_gpu_layers == 0 or "none" in w.draft_device
    return Side("draft", size, HOST if on_host else next(iter(w.draft_device), ""))


def names_its_kind(draft: Model) -> bool:
    """Whether a draft model says itself how it drafts (`speculative.cpp:common_speculative_types_from_gguf`)."""
    if draft.architecture == "dflash":
        return True
    return f"blk.{draft.arch.block_count - 1}.nextn.eh_proj.weight" in draft.tensors
