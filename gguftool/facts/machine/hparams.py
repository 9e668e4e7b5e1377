"""Hyperparameter stage: the keys every architecture reads, in order (`llama-model.cpp:load_hparams`, b11434)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gguftool.facts.data import load
from gguftool.facts.enums import words
from gguftool.facts.machine.ends import Abort, Unknown
from gguftool.facts.machine.expressions import divide
from gguftool.facts.machine.reader import Reader

MAX_LAYERS = 512
MAX_EXPERTS = 1024
EXACT_ROT = frozenset({"llama", "deci", "falcon", "llama-embed"})
"""`rope.dimension_count` must equal the head size here."""

DEFAULTS: dict[str, Any] = {
    "token_shift_count": 2,
    "n_layer_kv_from_start": -1,
    "router_layer": -1,
    "n_cls_out": 1,
    "n_layer_nextn": 0,
    "n_expert": 0,
    "n_expert_groups": 0,
    "n_group_used": 0,
    "pooling_type": -1,
    "swa_type": "none",
    "causal_attn": True,
    "rope_freq_base_train_swa": 10000.0,
    "n_no_rope_layer_step": 4,
    "n_altup": 4,
    "laurel_rank": 64,
    "n_embd_altup": 256,
    "indexer_kpool_row": 3,
    "f_final_logit_softcapping": 30.0,
    "kda_gate_lower_bound": float("-inf"),
    "pooling_type_cls": -1,
}
"""What `llama-hparams.h:llama_hparams` starts with where it is not 0."""

ARRAYS = (
    "n_head_arr",
    "n_head_kv_arr",
    "n_ff_arr",
    "is_swa_impl",
    "is_recr_impl",
    "is_indexer_full_impl",
    "is_ple_impl",
    "n_ff_exp_arr",
    "n_expert_used_arr",
)
"""Numbers by layer that start as 0."""

WINDOWED = {
    "n_embd_head_k_full": "n_embd_head_k_swa",
    "n_embd_head_v_full": "n_embd_head_v_swa",
    "n_rot_full": "n_rot_swa",
}
"""Numbers of layers, and what they are in layers with a window; the same in builds that know no others (to b8179)."""


def recurrent(arch: str) -> bool:
    """No layer attends (`llm_arch_is_recurrent`)."""
    return "recurrent" in load("architectures.json")["architectures"].get(arch, {}).get("flags", ())


def started(reader: Reader) -> dict[str, Any]:
    """The hyperparameters before any key is read."""
    h: dict[str, Any] = dict(DEFAULTS)
    for name in ARRAYS:
        h[name] = [0] * MAX_LAYERS
    h["is_recr_impl"] = [int(recurrent(reader.arch))] * MAX_LAYERS
    h["rope_pattern"] = [1] * MAX_LAYERS
    h["rope_sections"] = [0] * 4
    h["deepstack_mapping_arr"] = [-1] * MAX_LAYERS
    return h


def common(reader: Reader) -> dict[str, Any]:
    """Read what every architecture reads.

    Raises:
        Refusal: a required key is missing, or one has another type or length.
        Abort: a failed assertion ends the process.
    """
    h = started(reader)
    reader.scalar("=general.name", "str")
    if reader.arch == "clip":
        return h
    _size(reader, h)
    _experts(reader, h)
    _heads(reader, h)
    _rope(reader, h)
    _head_sizes(reader, h)
    labels = reader.array("classifier.output_labels", "str", 0, required=False)
    if labels:
        h["n_cls_out"] = len(labels)
    return h


def _check(reader: Reader, ok: bool, words: str, key: str) -> None:
    if not ok:
        reader.abort(f"GGML_ASSERT({words}) failed", f"field:{key}")


def _size(reader: Reader, h: dict[str, Any]) -> None:
    h["n_ctx_train"] = reader.scalar("context_length", "u32", True)
    h["n_embd"] = reader.scalar("embedding_length", "u32", True)
    h["n_embd_out_impl"] = reader.scalar("embedding_length_out", "u32") or 0
    causal = reader.scalar("attention.causal", "bool")
    h["causal_attn"] = True if causal is None else causal
    pooling = reader.scalar("pooling_type", "u32")
    h["pooling_type"] = -1 if pooling is None else pooling
    pooling = reader.scalar("classifier.pooling_type", "u32")
    h["pooling_type_cls"] = -1 if pooling is None else pooling
    n = h["n_layer_all"] = reader.scalar("block_count", "u32", True)
    words = "hparams.n_layer_all > 0 && hparams.n_layer_all <= LLAMA_MAX_LAYERS"
    _check(reader, 0 < n <= MAX_LAYERS, words, reader.full("block_count"))
    nextn = h["n_layer_nextn"] = reader.scalar("nextn_predict_layers", "u32") or 0
    _check(reader, nextn <= n, "hparams.n_layer_nextn <= hparams.n_layer_all", reader.full("nextn_predict_layers"))


def _held(h: dict[str, Any]) -> int:
    """Layers that there is room for; a reader that only looks goes on behind a number at which llama.cpp ends."""
    return max(0, min(int(h["n_layer_all"]), MAX_LAYERS))


def _experts(reader: Reader, h: dict[str, Any]) -> None:
    n_layers = _held(h)
    h["n_expert"] = reader.scalar("expert_count", "u32") or 0
    used = reader.per_layer("expert_used_count", "u32", n_layers, MAX_LAYERS, False) or [0] * n_layers
    h["n_expert_groups"] = reader.scalar("expert_group_count", "u32") or 0
    h["n_group_used"] = reader.scalar("expert_group_used_count", "u32") or 0
    if reader.arch in ("hunyuan_vl", "hunyuan-dense") and h["n_expert"] <= 1:
        h["n_expert"], used = 0, [0] * n_layers
    h["n_expert_used_arr"] = used + [0] * (MAX_LAYERS - n_layers)
    if reader.arch == "wavtokenizer-dec":
        _wavtokenizer(reader, h)
    experts, groups, most = h["n_expert"], h["n_expert_groups"], max(used)
    count, used_key = reader.full("expert_count"), reader.full("expert_used_count")
    group_key = reader.full("expert_group_count")
    _check(reader, experts <= MAX_EXPERTS, "hparams.n_expert <= LLAMA_MAX_EXPERTS", count)
    _check(reader, most <= experts, "n_expert_used_max <= hparams.n_expert", used_key)
    if not experts:
        _check(reader, groups == 0, "hparams.n_expert_groups == 0", group_key)
        return
    _check(reader, most > 0, "n_expert_used_max > 0", used_key)
    _check(reader, groups < experts, "hparams.n_expert_groups < hparams.n_expert", group_key)
    if groups > 1:
        used_group = reader.full("expert_group_used_count")
        _check(reader, experts % groups == 0, "hparams.n_expert % hparams.n_expert_groups == 0", group_key)
        _check(reader, h["n_group_used"] > 0, "hparams.n_group_used > 0", used_group)
        _check(reader, h["n_group_used"] < groups, "hparams.n_group_used < hparams.n_expert_groups", used_group)


def _wavtokenizer(reader: Reader, h: dict[str, Any]) -> None:
    h["n_embd"] = reader.scalar("features_length", "u32", True)
    h["n_embd_out_impl"] = reader.scalar("embedding_length", "u32", True)
    for part in ("posnet", "convnext"):
        h[f"{part}_n_embd"] = reader.scalar(f"{part}.embedding_length", "u32", True)
        h[f"{part}_n_layer"] = reader.scalar(f"{part}.block_count", "u32", True)
    for part in ("posnet", "convnext"):
        words = f"hparams.{part}.n_layer <= hparams.n_layer_all"
        _check(reader, h[f"{part}_n_layer"] <= h["n_layer_all"], words, reader.full(f"{part}.block_count"))


def _heads(reader: Reader, h: dict[str, Any]) -> None:
    n = _held(h)
    rest = [0] * (MAX_LAYERS - n)

    def each(key: str) -> list[int] | None:
        values = reader.per_layer(key, "u32", n, MAX_LAYERS, False)
        return None if values is None else values + rest

    h["n_ff_arr"] = each("feed_forward_length") or [0] * MAX_LAYERS
    h["n_head_arr"] = each("attention.head_count") or [0] * MAX_LAYERS
    h["n_head_kv_arr"] = each("attention.head_count_kv") or list(h["n_head_arr"])


def _rope(reader: Reader, h: dict[str, Any]) -> None:
    h["rope_finetuned"] = bool(reader.scalar("rope.scaling.finetuned", "bool"))
    original = reader.scalar("rope.scaling.original_context_length", "u32")
    h["n_ctx_orig_yarn"] = h["n_ctx_train"] if original is None else original
    base = reader.scalar("rope.freq_base", "f32")
    h["rope_freq_base_train"] = 10000.0 if base is None else base
    kind = reader.scalar("rope.scaling.type", "str")
    kind = "linear" if kind is None else kind
    said = "hparams.rope_scaling_type_train != LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED"
    _check(reader, kind in words("rope.scaling.type"), said, reader.full("rope.scaling.type"))
    h["rope_scaling_type_train"] = kind
    factor = reader.scalar("rope.scaling.factor", "f32")
    if factor is None:
        factor = reader.scalar("rope.scale_linear", "f32")
    h["rope_freq_scale_train"] = 1.0 / factor if factor else 1.0
    reader.scalar("rope.scaling.attn_factor", "f32")
    reader.scalar("rope.scaling.alpha", "f32")


def _head_sizes(reader: Reader, h: dict[str, Any]) -> None:
    heads = h["n_head_arr"][0]
    k = v = rot = 0
    if heads:
        k = v = h["n_embd"] // heads
        found = reader.scalar("attention.key_length", "u32")
        k = k if found is None else found
        found = reader.scalar("attention.value_length", "u32")
        v = v if found is None else found
        found = reader.scalar("rope.dimension_count", "u32")
        rot = k if found is None else found
        if reader.arch in EXACT_ROT and rot != k:
            reader.refuse(f"invalid n_rot: {rot}, expected {k}", f"field:{reader.full('rope.dimension_count')}")
    h["n_embd_head_k_full"], h["n_embd_head_v_full"], h["n_rot_full"] = k, v, rot
    for name, key, value in (
        ("n_embd_head_k_swa", "attention.key_length_swa", k),
        ("n_embd_head_v_swa", "attention.value_length_swa", v),
        ("n_rot_swa", "rope.dimension_count_swa", rot),
    ):
        found = reader.scalar(key, "u32")
        h[name] = value if found is None else found


def functions(h: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Methods of `llama_hparams` by name, over these hyperparameters."""

    def at(name: str) -> Callable[..., Any]:
        def get(layer: int = 0) -> Any:
            if not 0 <= layer < h["n_layer_all"]:
                raise Abort("fatal error: a layer number beyond block_count")
            if layer >= len(h[name]):
                raise Unknown("a layer beyond those that llama.cpp has room for")
            return h[name][layer]

        return get

    def number(name: str) -> Callable[..., Any]:
        """Of a layer; before 2024-08 (heads) and b11000 (experts used) one number for all."""
        by_layer = at(f"{name}_arr")
        return lambda layer=0: h.get(name, 0) or by_layer(layer)

    swa, heads_kv = at("is_swa_impl"), number("n_head_kv")

    def pick(full: str) -> Callable[..., Any]:
        window = WINDOWED[full]

        def get(layer: int = 0) -> Any:
            own = h.get(full, 0)
            windowed = h.get(window, own)
            # Where both are the same nobody need ask which layers have a window.
            if own == windowed and 0 <= layer < MAX_LAYERS and layer < h["n_layer_all"]:
                return own
            return windowed if swa(layer) else own

        return get

    head_k, head_v = pick("n_embd_head_k_full"), pick("n_embd_head_v_full")

    def n_layer() -> int:
        return int(h["n_layer_all"] - h["n_layer_nextn"])

    def is_mla() -> bool:
        return bool(h.get("n_embd_head_k_mla_impl") and h.get("n_embd_head_v_mla_impl"))

    def pattern(name: str) -> Callable[[int, bool], None]:
        def fill(period: int, dense_first: bool = False) -> None:
            n = n_layer()
            if dense_first:
                flags = [int(period == 0 or i % period != 0) for i in range(n)]
            else:
                flags = [int(period == 0 or i % period < period - 1) for i in range(n)]
            h[name] = flags + [0] * (MAX_LAYERS - n)

        return fill

    def has_kv(layer: int) -> bool:
        first = h["n_layer_kv_from_start"]
        return bool(first < 0 or layer < first)

    def n_embd_inp() -> int:
        return int(h.get("n_embd_inp_impl") or h["n_embd"] * (1 + h.get("n_deepstack_layers", 0)))

    return {
        "n_layer": n_layer,
        "n_head": number("n_head"),
        "n_head_kv": heads_kv,
        "n_ff": number("n_ff"),
        "n_ff_exp": at("n_ff_exp_arr"),
        "n_expert_used": number("n_expert_used"),
        "n_expert_used_max": lambda: max(h["n_expert_used_arr"]),
        "n_gqa": lambda layer=0: divide(number("n_head")(layer), heads_kv(layer)) if heads_kv(layer) else 0,
        "n_rot": pick("n_rot_full"),
        "n_embd_head_k": head_k,
        "n_embd_head_v": head_v,
        "n_embd_k_gqa": lambda layer=0: head_k(layer) * heads_kv(layer) & 0xFFFFFFFF,
        "n_embd_v_gqa": lambda layer=0: head_v(layer) * heads_kv(layer) & 0xFFFFFFFF,
        "n_embd_inp": n_embd_inp,
        "n_embd_inp_enc": lambda: h.get("n_embd_inp_enc_impl") or n_embd_inp(),
        "n_embd_out": lambda: h.get("n_embd_out_impl") or h["n_embd"],
        "is_recr": at("is_recr_impl"),
        "is_swa": swa,
        "is_swa_any": lambda: any(h["is_swa_impl"][: h["n_layer_all"]]),
        "is_mla": is_mla,
        "is_ple": at("is_ple_impl"),
        "is_indexer_full": at("is_indexer_full_impl"),
        "n_embd_head_k_mla": lambda: h["n_embd_head_k_mla_impl"] if is_mla() else head_k(),
        "n_embd_head_v_mla": lambda: h["n_embd_head_v_mla_impl"] if is_mla() else head_v(),
        "has_kv": has_kv,
        "has_rope": at("rope_pattern"),
        "use_mrope": lambda: h["rope_sections"][0] > 0 and h["rope_sections"][1] > 0,
        "set_swa_pattern": pattern("is_swa_impl"),
        "set_recr_pattern": pattern("is_recr_impl"),
    }
