"""Which layer of a model holds what: KV heads, head sizes, sliding window, recurrent state.

llama.cpp decides this while it loads the hyperparameters of each architecture (`src/models/*.cpp:load_arch_hparams`,
`llama-model.cpp:load_hparams`, b11434). Two things in llama.cpp read it: the rules that admit a cache type, and the
sizes of the caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gguftool.facts.arch import Hparams

MAX_LAYERS = 512
READS_MLA_KEYS = frozenset(
    "deepseek2 mistral4 deepseek32 glm-dsa glm5-next hy_v4 dots3note kimi-linear kimi-k3 bailingmoe3".split()
)
"""Architectures that read `attention.key_length_mla`; for all others the key is dead."""
RECURRENT_WITHOUT_KV_HEADS = frozenset(
    "jamba plamo2 granitehybrid lfm2 lfm2moe kimi-linear kimi-k3 bailingmoe3 glm5-next".split()
)
"""A layer is recurrent exactly when its `head_count_kv` is 0."""
FULL_ATTENTION_INTERVAL = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "qwen4exp": 4, "clef": 4, "minimax-01": 8}
"""Every n-th layer is attention unless `attention.recurrent_layers` says which are not."""
LATENT_VALUE = frozenset({"glm5-next", "kimi-k3"})
"""The value width is `attention.kv_lora_rank`, whatever `value_length` says."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer as llama.cpp sees it after loading.

    Attributes:
        index: from 0; ``blk.N`` of the tensor names, but for looped layers.
        heads_kv: KV heads.
        key_length, value_length: head sizes of K and V in elements.
        swa: attends to a sliding window only.
        recurrent: keeps a state instead of, or beside, a KV cache.
        trunk: False for next-token prediction layers, which the main context leaves out.
        feed_forward: width of the feed-forward part, 0 when there is none.
    """

    index: int
    heads_kv: int
    key_length: int
    value_length: int
    swa: bool
    recurrent: bool
    trunk: bool
    feed_forward: int

    @property
    def k_width(self) -> int:
        """Elements of K a token, all KV heads together."""
        return self.heads_kv * self.key_length

    @property
    def v_width(self) -> int:
        """Elements of V a token, all KV heads together."""
        return self.heads_kv * self.value_length


def layers(hp: Hparams) -> tuple[Layer, ...]:
    """All layers, next-token prediction layers and the loops of looped models included."""
    n = hp.block_count
    trunk = n - nextn_layers(hp)
    heads = hp.head_count
    no_heads = not heads or heads[0] == 0
    k_full = 0 if no_heads and hp.arch != "plamo2" else hp.key_length
    v_full = 0 if no_heads and hp.arch != "plamo2" else hp.value_length
    k_swa, v_swa = hp.int("attention.key_length_swa", k_full), hp.int("attention.value_length_swa", v_full)
    if hp.arch in LATENT_VALUE:
        v_full = hp.int("attention.kv_lora_rank")
    kv, ff = hp.head_count_kv, hp.per_layer("feed_forward_length")
    swa = _swa(hp, n, trunk)
    recurrent = _recurrent(hp, n, trunk, kv, ff)
    one = tuple(
        Layer(
            i, kv[i], k_swa if swa[i] else k_full, v_swa if swa[i] else v_full, swa[i], recurrent[i], i < trunk, ff[i]
        )
        for i in range(n)
    )
    if hp.arch == "graniteswitch":
        return (*one, Layer(n, 1, k_full, v_full, False, False, False, 0))
    if hp.arch == "nanbeige":
        loops = max(1, min(hp.int("num_loops", 1), MAX_LAYERS // max(1, n)))
        return tuple(
            Layer(i + j * n, x.heads_kv, x.key_length, x.value_length, x.swa, x.recurrent, x.trunk, x.feed_forward)
            for j in range(loops)
            for i, x in enumerate(one)
        )
    return one


def nextn_layers(hp: Hparams) -> int:
    """Layers at the end that only predict further tokens (`nextn_predict_layers`)."""
    count: int = min(hp.int("nextn_predict_layers"), hp.block_count)
    return count


def is_mla(hp: Hparams) -> bool:
    """K is a latent and there is no V cache: both keys are there and this architecture reads them."""
    return hp.arch in READS_MLA_KEYS and hp.is_mla


def window(hp: Hparams) -> int:
    """Sliding window in tokens as llama.cpp applies it to the cache; 0 when there is none."""
    key: int = hp.int("attention.sliding_window", -1)
    match hp.arch:
        case "llama4":
            return 0 if key == 0 else 8192
        case "gemma2":
            return key if key >= 0 else 4096
        case "smallthinker":
            return 4096 if key > 0 else 0
        case "exaone4":
            if hp.block_count - nextn_layers(hp) != 64:
                return 0
            return key if key >= 0 else 4096
        case "dots3note" | "deepseek4":
            return max(0, key)
    memory = hp.facts.memory if hp.facts else "kv"
    return max(0, key) if memory in ("iswa", "iswa-if-window", "hybrid-iswa") else 0


def flags(hp: Hparams, key: str, count: int) -> list[bool] | None:
    """A per-layer yes/no key (array, or one value for all); None when absent."""
    raw = hp.raw(key)
    if isinstance(raw, int):
        return [bool(raw)] * count
    if not isinstance(raw, Sequence) or isinstance(raw, str):
        return None
    items = [bool(x) for x in list(raw)[:count]]
    return items + [False] * (count - len(items))


def _swa(hp: Hparams, n: int, trunk: int) -> list[bool]:
    if hp.arch == "deepseek4":
        return [True] * n
    if not window(hp):
        return [False] * n
    if hp.arch == "lfm2":
        return [k != 0 for k in hp.head_count_kv]
    raw = hp.raw("attention.sliding_window_pattern")
    if isinstance(raw, Sequence) and not isinstance(raw, str):
        return flags(hp, "attention.sliding_window_pattern", n) or [False] * n
    facts = hp.facts
    period = raw if isinstance(raw, int) and not isinstance(raw, bool) else (facts.swa_period if facts else 0)
    dense_first = facts is not None and facts.swa_dense_first
    return [i < trunk and _in_window(i, period, dense_first) for i in range(n)]


def _in_window(i: int, period: int, dense_first: bool) -> bool:
    if period == 0:
        return True
    return i % period != 0 if dense_first else i % period < period - 1


def _recurrent(hp: Hparams, n: int, trunk: int, kv: list[int], ff: list[int]) -> list[bool]:
    memory = hp.facts.memory if hp.facts else "kv"
    if memory == "recurrent" or hp.arch == "falcon-h1":
        return [True] * n
    if hp.arch in RECURRENT_WITHOUT_KV_HEADS:
        return [k == 0 for k in kv]
    if hp.arch in ("nemotron_h", "nemotron_h_moe"):
        return [i < trunk and kv[i] == 0 and ff[i] == 0 for i in range(n)]
    if hp.arch in FULL_ATTENTION_INTERVAL:
        said = flags(hp, "attention.recurrent_layers", n)
        if said is not None:
            return said
        interval = hp.int("full_attention_interval", FULL_ATTENTION_INTERVAL[hp.arch])
        return [i < trunk and interval > 0 and (i + 1) % interval != 0 for i in range(n)]
    return [False] * n
