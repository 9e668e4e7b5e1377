"""What llama-server takes after the start: prompts seen before, checkpoints, larger pictures than it warmed up with.

All of it but the pictures lies on the host (`tools/server/server-task.cpp:server_prompt_cache`,
`server-context.cpp:create_checkpoint`, b11434). A prompt that is put away is the whole state of its slot, as
`llama_state_seq_get_data_ext` writes it; a checkpoint is the part that cannot be rolled back: the recurrent state, the
cells of the windows, and of a context that drafts with a plain cache all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.brief import short_repr
from gguftool.facts.arch import Hparams
from gguftool.facts.cachetypes import CACHE_TYPES
from gguftool.facts.layers import window
from gguftool.memory.devices import HOST
from gguftool.memory.kv import Cache, CachePlan
from gguftool.memory.settings import Context, Settings
from gguftool.memory.state import F32
from gguftool.quantity import human
from gguftool.records import dataclass

MIB = 1 << 20
CELL = 12
"""A cell's position, its number of slots, and the slot (`llama-kv-cache.cpp:state_write_meta`)."""
PROMPTS, CHECKPOINTS, DRAFTING, PICTURES, NGRAMS = "prompt cache", "checkpoints", "drafting", "pictures", "n-grams"


@dataclass(frozen=True, slots=True)
class Growth:
    """One thing that grows after the start.

    Attributes:
        what: `PROMPTS`, `CHECKPOINTS`, `DRAFTING`, `PICTURES` or `NGRAMS`.
        bytes: the most it comes to.
        basis: ``bounded``: never more; ``estimated``.
        why: how it comes about, with the option that bounds it.
        device: where.
        count: how many there are at most, 0 where that is not what bounds it.
        each: bytes of one at most.
    """

    what: str
    bytes: int
    basis: str
    why: str
    device: str = HOST
    count: int = 0
    each: int = 0

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Kept:
    """What one slot of a context comes to when it is written out, in bytes.

    Attributes:
        prompt: all of it, the slot full.
        checkpoint: the part that is written for a checkpoint, the slot full.
        needed: a prompt cannot be cut anywhere: checkpoints are made.
        whole: nothing of it can be taken back, so that drafting keeps one more.
    """

    prompt: int = 0
    checkpoint: int = 0
    needed: bool = False
    whole: bool = False

    __repr__ = short_repr


NOTHING = Kept()


def kept(hp: Hparams, s: Settings, plan: CachePlan, *, layers: bool = False) -> Kept:
    """What one slot of a context is when it is written out.

    Args:
        hp: hyperparameters.
        s: settings.
        plan: its caches.
        layers: the context holds prediction layers alone.
    """
    state = sum(n * F32 for x in plan.state for n in x.tensors)
    visible = window(hp)
    prompt = state + sum(_cells(c, visible) for c in plan.caches)
    windows = [c for c in plan.caches if c.name == "window"]
    memory = hp.facts.memory if hp.facts else "kv"
    # `llama_memory_hybrid_idx` writes nothing of its caches either when only a part is asked for.
    parted = bool(windows or plan.state or memory == "hybrid-indexer") and not (layers and _plain(hp, windows))
    part = state + sum(_cells(c, visible) for c in windows) if parted else prompt
    needed = bool(plan.state or (windows and not s.swa_full))
    return Kept(prompt, part, needed, bool(plan.state) and not s.snapshots)


def _plain(hp: Hparams, windows: Sequence[Cache]) -> bool:
    """Whether prediction layers have one cache that knows no parts (`llama-model.cpp:create_memory`)."""
    return not windows and (hp.facts is None or hp.facts.memory != "hybrid-indexer")


def _cells(c: Cache, visible: int) -> int:
    """Bytes of one slot's cells, all it may hold; of a window those that are still looked at."""
    k, v = CACHE_TYPES[c.type_k], CACHE_TYPES[c.type_v]
    row = sum(k.row_bytes(x.k_width) + (v.row_bytes(x.v_width) if x.v_width else 0) for x in c.layers)
    return (min(visible, c.cells) if c.name == "window" else c.cells) * (row + CELL)


def growth(s: Settings, c: Context, target: Kept, drafts: Sequence[Kept]) -> tuple[Growth, ...]:
    """What grows on the host.

    Args:
        s: settings.
        c: the model's own context.
        target: a slot of it.
        drafts: a slot of each context that drafts.
    """
    slots = s.slots
    prompt = target.prompt + sum(x.prompt for x in drafts)
    part = target.checkpoint + sum(x.checkpoint for x in drafts)
    out = []
    count = s.checkpoints * slots if target.needed else 0
    if count and part:
        why = f"{s.checkpoints} of each slot, up to {human(part)} each (--ctx-checkpoints)"
        out.append(Growth(CHECKPOINTS, count * part, "bounded", why, count=count, each=part))
    if s.drafting and target.whole and part:
        why = "one more of each slot while it drafts"
        out.append(Growth(DRAFTING, slots * part, "bounded", why, count=slots, each=part))
    held = prompt + (s.checkpoints * part if target.needed else 0)
    if s.cache_ram and prompt:
        if s.cache_ram > 0:
            longer = ", too large to keep" if held > s.cache_ram * MIB else ""
            why = f"prompts seen before; a full slot is {human(held)}{longer} (--cache-ram)"
            out.append(Growth(PROMPTS, s.cache_ram * MIB, "bounded", why, each=held))
        else:
            # Without a limit of bytes there is one of tokens: those of the context (`server_prompt_cache::update`).
            full = 1 + -(-c.total // max(1, c.per_slot))
            why = "prompts seen before, as many tokens as the context has (--cache-ram -1)"
            out.append(Growth(PROMPTS, full * held, "estimated", why, each=held))
    return tuple(out)
