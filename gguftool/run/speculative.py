"""Speculative decoding as it is asked for: which kinds, whether the files can do it, what it takes.

llama.cpp drafts nothing unless ``--spec-type`` says how, but for dflash heads and files whose last layer predicts
(`speculative.cpp:common_speculative_types_from_gguf`, b11434): here the draft itself decides when nobody says it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gguftool.facts.cachetypes import DEFAULT
from gguftool.hub import open_any
from gguftool.memory.devices import HOST
from gguftool.memory.growth import NGRAMS, kept
from gguftool.memory.plan import Machine, Planner, weights_of
from gguftool.memory.settings import SERVER_SLOTS, Settings, context
from gguftool.memory.spread import over
from gguftool.memory.use import DraftContext, Side
from gguftool.memory.weights import Placement
from gguftool.model import Model
from gguftool.model.drafting import DFLASH, DSPARK, EAGLE3, KINDS, MTP, drafting, drafts_itself, prediction_layers
from gguftool.model.headers import headers_beside
from gguftool.model.role import sidecar_by_name
from gguftool.records import replace
from gguftool.run.wishes import Wishes

if TYPE_CHECKING:
    from gguftool.predict.pairs import Misfit

DRAFT_MAX = 3
"""llama.cpp's default of ``--spec-draft-n-max`` (b11434)."""
ROLLS_BACK = (MTP, EAGLE3, DFLASH, DSPARK)
"""Kinds for which a recurrent state is kept several times (`common.h:need_n_rs_seq`)."""
NGRAM_MOST: dict[str, tuple[str, int]] = {
    "ngram-simple": ("ngram_simple_m", 48),
    "ngram-map-k": ("ngram_map_k_m", 48),
    "ngram-map-k4v": ("ngram_map_k4v_m", 48),
    "ngram-mod": ("ngram_mod_max", 64),
    "ngram-cache": ("", 8),
}
"""Kind -> field of `Wishes` with the most it drafts at once, and llama.cpp's default (`common_speculative_n_max`)."""
_ENTRIES, _HASHES = 4 << 20, 262144
"""Entries of the table of ``ngram-mod``, and of each map of ``ngram-map-…``, 4 bytes each (`ngram-map.h`)."""
_KEY = 2 * 88
"""Bytes of an n-gram that was seen again, of ``ngram-map-…``, one a token of the context at most; the list doubles."""
_SEEN = 1000
"""Of the n-grams of one to four tokens that ``ngram-cache`` keeps of a token: 766 to 992 were measured."""
_READ = 9
"""Bytes of memory for one of a file of n-grams, which every slot gets a copy of: 8.7 to 8.9 were measured."""
NONE = "none"


def asked(w: Wishes) -> tuple[str, ...]:
    """The kinds that are asked for; one ``none`` among them means none at all."""
    return () if NONE in w.spec_type else tuple(dict.fromkeys(w.spec_type))


def kind_of(path: str, model: Model | None = None) -> str:
    """The ``--spec-type`` that a draft file is made for, by what is in it.

    Args:
        path: the draft.
        model: the model that it shall draft for, which keeps its header.

    Raises:
        NotGguf, MissingFile: it is none at all.
    """
    with open_any(path, strict=False, known=None if model is None else headers_beside(model.kept)) as m:
        return drafting(m).kind


def kind_by_name(path: str) -> str:
    """The same as far as the name tells, for a file that is not here."""
    name = path.rpartition("/")[2].lower()
    named = next((kind for part, kind in _NAMED if part in name), "")
    return named if sidecar_by_name(path) == "draft" else ""


_NAMED = (("mtp-", MTP), ("eagle3-", EAGLE3), ("dflash-", DFLASH), ("dspark-", DSPARK))


def chosen(model: Model, w: Wishes, notes: list[str]) -> Wishes:
    """The wishes with the kind that a draft needs, when nobody named one."""
    if w.draft is not None and not w.spec_type:
        kind = kind_of(w.draft, model)
        notes.append(
            f"--spec-type {kind}: that is how the draft model drafts; llama.cpp drafts nothing unless told how"
        )
        return replace(w, spec_type=(kind,))
    if not w.spec_type and drafts_itself(model):
        n = prediction_layers(model)
        layers = f"{n} prediction layers" if n > 1 else "a prediction layer"
        notes.append(f"the model can draft for itself with {layers}: --spec-type {MTP}")
    return w


def most(w: Wishes) -> int:
    """Tokens drafted at once at most, 0 when none are (`speculative.cpp:common_speculative_n_max`)."""
    out = 0
    for kind in asked(w):
        if kind in KINDS:
            out = max(out, DRAFT_MAX if w.draft_max is None else w.draft_max)
        else:
            field, default = NGRAM_MOST.get(kind, ("", 0))
            said = getattr(w, field) if field else None
            out = max(out, default if said is None else said)
    return out


def tables(w: Wishes) -> Side | None:
    """What finding repetitions takes on the host; None: nothing is looked for.

    A table for all slots, maps and files of n-grams for each, and what is kept of every token of a context
    (`ngram-map.h`, `ngram-cache.h`, `speculative.cpp:common_speculative_impl_ngram_cache`).
    """
    slots = SERVER_SLOTS if w.parallel is None else w.parallel
    kinds = asked(w)
    maps = sum(kind in ("ngram-map-k", "ngram-map-k4v") for kind in kinds)
    cached = "ngram-cache" in kinds
    files = sum(os.path.getsize(path) for path in (w.lookup_static, w.lookup_dynamic) if path and cached)
    start = 4 * (_ENTRIES * ("ngram-mod" in kinds) + _HASHES * maps * slots) + _READ * files * slots
    token = _KEY * maps + _SEEN * cached
    return Side(NGRAMS, start, HOST, token=token) if start or token else None


def snapshots(w: Wishes) -> int:
    """Copies of a recurrent state kept to roll back, beside the one in use."""
    if not any(kind in ROLLS_BACK for kind in asked(w)):
        return 0
    return DRAFT_MAX if w.draft_max is None else w.draft_max


def useless(model: Model, w: Wishes) -> Iterator[tuple[str, str]]:
    """A draft model that is loaded and never used: what is wrong, and what helps."""
    if w.draft is None or any(kind in KINDS for kind in asked(w)):
        return
    said = ",".join(w.spec_type) or NONE
    text = f"llama.cpp loads the draft model and never uses it: --spec-type {said} does not"
    yield text, "--spec-type " + ",".join([*asked(w), kind_of(w.draft, model)])


def unfit(model: Model, draft: Model | None, w: Wishes) -> list[tuple[str, Misfit]]:
    """Why the kinds asked for would not draft: each with the kind, "" where the file is at fault whatever the kind."""
    kinds = [kind for kind in asked(w) if kind in KINDS]
    if draft is None and not kinds:
        return []
    from gguftool.predict.pairs import misfits
    from gguftool.predict.pairs.draft import by_itself, misfits_as

    if draft is None:
        return [(kind, one) for kind in kinds for one in by_itself(model, kind)]
    alone = [m for m in misfits(model, draft, "draft") if m.rule in ("pair-role", "pair-load")]
    if alone or not kinds:
        return [("", m) for m in alone]
    return [("", one) for kind in kinds for one in misfits_as(model, draft, kind)]


Draw = Callable[[Settings, Placement], DraftContext]


def context_of(model: Model, draft: Model | None, w: Wishes, machine: Machine) -> Draw | None:
    """What draws up the context that drafts; None where there is none."""
    mtp = MTP in asked(w)
    types = (w.draft_type_k or DEFAULT, w.draft_type_v or DEFAULT)
    blocks = (w.draft_max if w.draft_max is not None else DRAFT_MAX) + 1
    slots = SERVER_SLOTS if w.parallel is None else w.parallel
    outputs = slots * blocks if {DFLASH, DSPARK} & set(asked(w)) else None
    if draft is None:
        if not mtp or not drafts_itself(model):
            return None
        planner = Planner(model.arch, (), machine, layers="draft")
        planner.weights.output_rows = Planner(model.arch, weights_of(model)).weights.output_rows
        where = Placement()
    else:
        by_name = {d.name.lower(): d for d in machine.devices}
        named = tuple(by_name[n.lower()] for n in w.draft_device if n.lower() in by_name)
        here = () if "none" in w.draft_device or w.draft_gpu_layers == 0 else named or machine.devices
        planner = Planner(draft.arch, weights_of(draft), replace(machine, devices=here), layers="draft" if mtp else "")
        n = w.draft_gpu_layers
        where = Placement(gpu_layers=None if n is None or n < 0 else n)
    what = "layers" if draft is None else "draft"

    def draw(s: Settings, p: Placement) -> DraftContext:
        # It is as long as the context of the model (`speculative.cpp:common_speculative_init_result`).
        own = replace(
            s, ctx=context(model.arch, s).total, type_k=types[0], type_v=types[1], snapshots=0, outputs=outputs
        )  # fmt: skip
        # A draft has its own devices and number of layers, and all else of the model it drafts for, shares, too
        # (`speculative.cpp:common_base_params_to_speculative`).
        theirs = replace(where, split=p.split, kv_offload=p.kv_offload, mmap=p.mmap, op_offload=p.op_offload)
        at = p if draft is None else theirs
        plan = planner.plan(own, at)
        known = planner.hp.facts is not None and not planner.hp.facts.unsupported
        written = kept(planner.hp, own, plan.cache, layers=planner.layers == "draft")
        refused = plan.refused if known else ()
        program = planner.own(plan.cache.context)
        return DraftContext(what, plan.cache, plan.devices, refused, written, program, over(plan))

    return draw
