"""Find settings that fit, giving up first what users miss least.

The context is what was asked for; one that nobody asked for gives way first. Then: a smaller cache type (f16, q8_0,
q4_0), a smaller `-ub`, experts on the host, layers on the host, in this order; what turns out not to be needed is given
back at the end. Where experts can move, they move before the cache goes below q8_0: they cost speed, it costs quality.
Nothing is proposed that llama.cpp refuses or that runs on a slow path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gguftool.facts.arch import Hparams
from gguftool.facts.cachetypes import CACHE_TYPES, refusals, shown, slow_pairs
from gguftool.facts.layers import is_mla, layers
from gguftool.memory.fit import CAREFUL, PAIRS, Fit, Free, Step, as_asked, largest_context, over, shared, spare
from gguftool.memory.plan import MemoryPlan, Planner
from gguftool.memory.settings import Settings
from gguftool.memory.weights import Placement
from gguftool.quantity import human
from gguftool.records import replace

UBATCHES = (256, 128)
SMALLEST_CONTEXT = 8192
"""A context nobody asked for is not made smaller than this before something else gives way."""
FLASH_HEADS = frozenset(
    {(n, n) for n in (40, 64, 72, 80, 96, 112, 128, 256, 512)} | {(192, 128), (320, 256), (576, 512)}
)
"""Head sizes of K and V that FlashAttention on CUDA takes (`fattn.cu:ggml_cuda_get_best_fattn_kernel`, b11434)."""


def search(planner: Planner, s: Settings, p: Placement, free: Free | None = None) -> Fit:
    """The best settings that fit, or the ones that come nearest.

    Args:
        planner: the model on its machine.
        s: settings asked for.
        p: placement asked for.
        free: what may be changed.
    """
    return _Search(planner, free or Free()).run(s, p)


def admissible(hp: Hparams, pair: tuple[str, str], flash_attn: str, kinds: set[str]) -> str | None:
    """Why a pair of cache types is not to be proposed for this model and these devices; None: it may be."""
    why = refusals(hp, *pair, flash_attn)
    if why:
        return why[0]
    if kinds & {"cuda", "rocm"}:
        slow = slow_pairs(*pair)
        if slow:
            return slow[0]
        quantized = any(CACHE_TYPES[t].quantized for t in pair)
        sizes = {(x.key_length, x.value_length) for x in layers(hp) if x.trunk and x.heads_kv and not x.recurrent}
        odd = sorted(sizes - FLASH_HEADS) if quantized and not is_mla(hp) else []
        if odd:
            return f"FlashAttention on this device does not take heads of {odd[0][0]} and {odd[0][1]}"
    return None


class _Search:
    def __init__(self, planner: Planner, free: Free) -> None:
        self.planner = planner
        self.free = free
        self.steps: list[Step] = []
        self.split: tuple[float, ...] = ()
        self.kinds = {d.kind for d in planner.machine.devices}
        self.pairs: tuple[tuple[str, str], ...] = PAIRS

    def run(self, s: Settings, p: Placement) -> Fit:
        self.split = p.split
        fit = as_asked(self.planner, s, p)
        if fit.fits is not False:
            return fit
        plan = asked = fit.plan
        self.steps += fit.steps
        stages = (self._context, self._cache_types, self._ubatch, self._experts, self._layers)
        for pairs, these in ((CAREFUL, stages[:-1]), (PAIRS, stages)) if self._experts_can_move else ((PAIRS, stages),):
            # What the first round tried is tried again by the second, with more to give up.
            self.pairs, self.steps, plan = pairs, self.steps[:1], asked
            for stage in these:
                plan = stage(plan)
                if plan.fits:
                    return Fit(self._give_back(plan, s), tuple(self.steps))
        # Nothing was enough, so nothing is given up.
        return Fit(asked, tuple(replace(x, kept=i == 0) for i, x in enumerate(self.steps)))

    @property
    def _experts_can_move(self) -> bool:
        return bool(self.free.cpu_moe and self.kinds and self.planner.hp.int("expert_count"))

    def _plan(self, s: Settings, p: Placement) -> MemoryPlan:
        """A plan whose devices are filled alike, unless their shares were named."""
        return self.planner.plan(s, shared(self.planner, s, replace(p, split=self.split)))

    def _try(self, plan: MemoryPlan, what: str, changed: str = "") -> MemoryPlan:
        result = spare(plan) if plan.fits else over(plan)
        self.steps.append(Step(what, f"{changed}; {result}" if changed else result, bool(plan.fits)))
        return plan

    def _context(self, plan: MemoryPlan) -> MemoryPlan:
        """A context nobody named gives way first, as it does in llama.cpp's own fit."""
        asked = plan.cache.context.requested
        if not self.free.ctx or asked <= SMALLEST_CONTEXT:
            return plan
        most = largest_context(self.planner, plan.settings, plan.placement, asked)
        if most is None:
            return plan
        tokens = max(SMALLEST_CONTEXT, most // 1024 * 1024)
        if tokens >= asked:
            return plan
        return self._try(self._plan(replace(plan.settings, ctx=tokens), plan.placement), f"context {tokens:,}")

    def _cache_types(self, plan: MemoryPlan) -> MemoryPlan:
        if not self.free.cache_type or not plan.cache.caches:
            return plan
        for pair in self.pairs:
            s = plan.settings.with_types(pair)
            if pair_bytes(pair) >= pair_bytes((plan.settings.type_k, plan.settings.type_v)):
                continue
            why = admissible(self.planner.hp, pair, s.flash_attn, self.kinds)
            if why:
                self.steps.append(Step(f"cache type {shown(*pair)}", f"out: {why}", False, kept=False))
                continue
            smaller = self._plan(s, plan.placement)
            plan = self._try(smaller, f"cache type {shown(*pair)}", f"KV {human(plan.kv)} → {human(smaller.kv)}")
            if plan.fits:
                break
        return plan

    def _ubatch(self, plan: MemoryPlan) -> MemoryPlan:
        """A smaller batch is slower for prompts, so it is taken only when it is what makes the difference."""
        if not self.free.ubatch:
            return plan
        for ubatch in UBATCHES:
            if ubatch >= plan.cache.context.ubatch:
                continue
            smaller = self._plan(replace(plan.settings, ubatch=ubatch), plan.placement)
            changed = f"compute {human(plan.compute)} → {human(smaller.compute)}"
            if smaller.fits:
                return self._try(smaller, f"-ub {ubatch}", changed)
            if ubatch == UBATCHES[-1]:
                self.steps.append(Step(f"-ub {ubatch}", f"{changed}; not enough by itself", False, kept=False))
        return plan

    def _experts(self, plan: MemoryPlan) -> MemoryPlan:
        count = self.planner.weights.layer_count
        if not self._experts_can_move:
            return plan

        def with_experts(n: int) -> MemoryPlan:
            return self._plan(plan.settings, replace(plan.placement, cpu_moe=n))

        # The more experts on the host, the less on the devices; the smallest number that suffices.
        n = _smallest(1, count, lambda n: _devices_fit(with_experts(n)))
        moved = with_experts(n or count)
        label = f"experts of {n or count} of {count} layers on the host"
        return self._try(moved, label, f"{human(moved.placed.experts_on_host)} of weights move")

    def _layers(self, plan: MemoryPlan) -> MemoryPlan:
        count = self.planner.weights.layer_count + 1
        if not self.free.gpu_layers or not self.kinds or _devices_fit(plan):
            return plan  # when only the host is over, layers on the host do not help

        def with_layers(n: int) -> MemoryPlan:
            return self._plan(plan.settings, replace(plan.placement, gpu_layers=n))

        fewer = _smallest(1, count, lambda gone: _devices_fit(with_layers(count - gone)))
        n = count - (fewer or count)
        return self._try(with_layers(n), f"{n} of {count} layers on the device", "the rest run on the host")

    def _give_back(self, plan: MemoryPlan, asked: Settings) -> MemoryPlan:
        """Undo what a later, larger step made unnecessary: first the batch, then the cache types, best first."""
        for better in self._better(plan.settings, asked):
            again = self._plan(better, plan.placement)
            if again.fits:
                kept = {f"cache type {shown(better.type_k, better.type_v)}", f"-ub {better.ubatch}"}
                self.steps = [
                    replace(x, kept=x.what in kept) if x.what.startswith(("cache type", "-ub")) else x
                    for x in self.steps
                ]
                undone = [x for x in (*_types_undone(plan, better), *_batch_undone(plan, better)) if x]
                return self._try(again, "given back: " + ", ".join(undone))
        return plan

    def _better(self, s: Settings, asked: Settings) -> Iterator[Settings]:
        pairs = [(asked.type_k, asked.type_v), *PAIRS]
        now = pair_bytes((s.type_k, s.type_v))
        better = [
            x
            for x in pairs
            if pair_bytes(x) > now
            and (x == pairs[0] or admissible(self.planner.hp, x, s.flash_attn, self.kinds) is None)
            and pair_bytes(x) <= pair_bytes(pairs[0])
        ]
        for pair in [*sorted(set(better), key=pair_bytes, reverse=True), (s.type_k, s.type_v)]:
            for ubatch in sorted({asked.ubatch, s.ubatch}, reverse=True):
                candidate = replace(s, type_k=pair[0], type_v=pair[1], ubatch=ubatch)
                if candidate != s:
                    yield candidate


def _types_undone(plan: MemoryPlan, better: Settings) -> list[str]:
    now = (better.type_k, better.type_v)
    return [f"cache type {shown(*now)}"] if now != (plan.settings.type_k, plan.settings.type_v) else []


def _batch_undone(plan: MemoryPlan, better: Settings) -> list[str]:
    return [f"-ub {better.ubatch}"] if better.ubatch != plan.settings.ubatch else []


def pair_bytes(pair: tuple[str, str]) -> float:
    """Bytes of an element of K and of one of V."""
    return CACHE_TYPES[pair[0]].bytes_per_element + CACHE_TYPES[pair[1]].bytes_per_element


def _devices_fit(plan: MemoryPlan) -> bool:
    return all(d.fits is not False for d in plan.devices[:-1])


def _smallest(low: int, high: int, enough: Callable[[int], bool]) -> int | None:
    """The smallest number from ``low`` to ``high`` that is enough, by bisection; None when none is."""
    if not enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low
