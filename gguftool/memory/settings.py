"""How a model is to be run, and what llama.cpp makes of it.

`Settings` are the options of a launch; `Context` is what is left of them after `llama-context.cpp:llama_context`
(b11434) has rounded, padded and divided.
"""

from __future__ import annotations

from operator import attrgetter

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.facts.arch import Hparams
from gguftool.facts.cachetypes import CACHE_TYPES
from gguftool.records import dataclass, fields, replace

SERVER_SLOTS = 4
"""Slots llama-server opens, sharing one context, when it is not told `-np` (`server.cpp:main`)."""
MAX_SEQUENCES = 256
"""`llama-cparams.h:LLAMA_MAX_SEQ`."""
UBATCH, BATCH = 512, 2048
"""llama.cpp's defaults of `-ub` and `-b` (`common/common.h`)."""
PROMPT_CACHE = 8192
"""MiB of host memory for prompts seen before that llama-server takes when it is not told (`-cram`)."""
CHECKPOINTS = 32
"""Most checkpoints of a slot (`-ctxcp`)."""
CELL_PAD = 256
FLASH = ("on", "off", "auto")


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that decide about memory, as `llama-server` takes them.

    Attributes:
        ctx: `-c`, tokens of all slots together; 0 or None: the file's context length.
        type_k, type_v: `-ctk`, `-ctv`.
        parallel: `-np`; None: llama-server's own choice, 4 slots that share the context.
        kv_unified: `-kvu`; None: only when `parallel` is None.
        ubatch, batch: `-ub`, `-b`.
        flash_attn: `-fa`: ``on``, ``off`` or ``auto``.
        swa_full: `--swa-full`, windows as large as the context.
        snapshots: speculative draft length of models that can roll back a state, else 0.
        outputs: most rows of logits a batch asks for: None: one a slot, as llama-server does.
        cache_ram: `-cram`, MiB of the host for prompts seen before; 0: none, negative: without limit.
        checkpoints: `-ctxcp`, most checkpoints of a slot.
        drafting: tokens are drafted, whatever with.
    """

    ctx: int | None = None
    type_k: str = "f16"
    type_v: str = "f16"
    parallel: int | None = 1
    kv_unified: bool | None = None
    ubatch: int = UBATCH
    batch: int = BATCH
    flash_attn: str = "auto"
    swa_full: bool = False
    snapshots: int = 0
    outputs: int | None = None
    cache_ram: int = PROMPT_CACHE
    checkpoints: int = CHECKPOINTS
    drafting: bool = False

    __repr__ = short_repr

    def __post_init__(self) -> None:
        for name in (self.type_k, self.type_v):
            if name not in CACHE_TYPES:
                raise UsageError(f"{name!r} is not a cache type", "one of " + ", ".join(CACHE_TYPES))
        if self.flash_attn not in FLASH:
            raise UsageError(f"{self.flash_attn!r} is not a flash attention setting", "one of " + ", ".join(FLASH))
        if self.ctx is not None and not 0 <= self.ctx < 2**31:
            raise UsageError(f"a context of {self.ctx} tokens is out of range")
        if self.parallel is not None and not 1 <= self.parallel <= MAX_SEQUENCES:
            raise UsageError(f"{self.parallel} slots are out of range", f"llama.cpp takes 1 to {MAX_SEQUENCES}")
        for label, value in (("batch", self.batch), ("ubatch", self.ubatch)):
            if not 0 <= value < 2**31:
                raise UsageError(f"a {label} of {value} tokens is out of range")

    def with_types(self, pair: tuple[str, str]) -> Settings:
        """The same with other cache types."""
        return replace(self, type_k=pair[0], type_v=pair[1])

    @property
    def slots(self) -> int:
        """Number of slots (sequences)."""
        return SERVER_SLOTS if self.parallel is None else self.parallel

    @property
    def unified(self) -> bool:
        """Whether all slots share one context."""
        return self.parallel is None if self.kv_unified is None else self.kv_unified


of_a_graph = attrgetter(
    *sorted({f.name for f in fields(Settings)} - {"ctx", "cache_ram", "checkpoints", "type_k", "type_v"})
)
"""The settings that a graph depends on, its cache types apart."""


@dataclass(frozen=True, slots=True)
class Context:
    """A context as llama.cpp sets it up.

    Attributes:
        requested: tokens asked for, before padding.
        total: `n_ctx`, tokens of all slots together.
        per_slot: `n_ctx_seq`, tokens one slot can hold (unified: all of them).
        trained: the file's context length; llama-server lets no slot pass it. 0 when unknown.
        slots, unified: as in the settings.
        streams: caches side by side: 1 when unified, else one a slot.
        batch, ubatch: as llama.cpp clips them.
    """

    requested: int
    total: int
    per_slot: int
    trained: int
    slots: int
    unified: bool
    streams: int
    batch: int
    ubatch: int

    __repr__ = short_repr

    @property
    def usable(self) -> int:
        """Tokens a slot of llama-server takes: no more than trained for (`server-context.cpp:load_model`)."""
        return min(self.per_slot, self.trained) if self.trained else self.per_slot


def context(hp: Hparams, s: Settings) -> Context:
    """What becomes of the settings for this model.

    Raises:
        UsageError: neither the file nor the settings name a context length.
    """
    trained = hp.context_length or 0
    asked = s.ctx or trained
    if not asked:
        raise UsageError("n_ctx and model->hparams.n_ctx_train cannot both be zero", "name a context with --ctx")
    # A model that attends both ways needs its whole batch at once.
    causal = bool(hp.shape.machine.h.get("causal_attn", True))
    batch = min(asked, s.batch) if causal else s.batch
    ubatch = min(batch, s.ubatch or s.batch)
    total = pad(asked, CELL_PAD)
    if s.unified:
        per_slot, streams = total, 1
    else:
        per_slot, streams = pad(total // s.slots, CELL_PAD), s.slots
        total = per_slot * s.slots
    return Context(asked, total, per_slot, trained, s.slots, s.unified, streams, batch, ubatch)


def pad(x: int, n: int) -> int:
    """``x`` rounded up to a multiple of ``n`` (`ggml.h:GGML_PAD`)."""
    return -(-x // n) * n
