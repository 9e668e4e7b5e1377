"""Options that name files beside the model: projector, adapters, a draft model, a chat template."""

from __future__ import annotations

from gguftool.records import dataclass
from gguftool.run.options.kinds import CACHE_TYPE, DEVICES, FILE, FILES, LAYERS, SCALED, SWITCH, TEXT, numbers, words
from gguftool.run.options.placement import PlacementWishes
from gguftool.run.options.row import LAUNCH, Constant, option

SPEC_TYPES = (
    "none", "draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark", "ngram-simple", "ngram-map-k",
    "ngram-map-k4v", "ngram-mod", "ngram-cache",
)  # fmt: skip
"""`speculative.cpp:common_speculative_type_from_name_map` (b11434)."""
_DRAFT = "draft"


@dataclass(frozen=True, slots=True)
class SideWishes(PlacementWishes):
    """What is to be loaded beside the model."""

    mmproj: str | None = option(
        FILE, help="Multimodal projector to load beside the model.", names=("-mm", "--mmproj"), path="read", plan=True
    )
    mmproj_offload: bool = option(
        SWITCH, True, names=("--mmproj-offload",), plan=True, needs="mmproj", library="mmproj_use_gpu",
        constants=(Constant(("--no-mmproj-offload",), False, "The projector stays on the host."),),
    )  # fmt: skip
    mmproj_device: str | None = option(TEXT, names=("-mmdev", "--mmproj-device"), plan=True, needs="mmproj")
    lora: tuple[str, ...] = option(FILES, (), "LoRA adapters.", names=("--lora",), path="read", plan=True)
    lora_scaled: tuple[tuple[str, float], ...] = option(SCALED, (), names=("--lora-scaled",), path="read", plan=True)
    control_vector: tuple[str, ...] = option(FILES, (), names=("--control-vector",), path="read", plan=True)
    control_vector_scaled: tuple[tuple[str, float], ...] = option(
        SCALED, (), names=("--control-vector-scaled",), path="read", plan=True
    )
    draft: str | None = option(
        FILE, help="Draft model for speculative decoding; --spec-type is what the file needs, unless you say another.",
        names=("-md", "--spec-draft-model", "--model-draft"), ours="--model-draft", former=("--draft-model",),
        path="read", plan=True,
    )  # fmt: skip
    spec_type: tuple[str, ...] = option(
        words(*SPEC_TYPES), (), "Kinds of speculative decoding: draft-simple, draft-mtp, ngram-mod …",
        names=("--spec-type",), plan=True,
        constants=(Constant(("--spec-default",), ("ngram-mod",), "The same as --spec-type ngram-mod."),),
    )  # fmt: skip
    draft_max: int | None = option(
        numbers(0), names=("--spec-draft-n-max",), former=("--draft-max", "--draft-n", "--draft"), plan=True,
        needs="spec_type",
    )  # fmt: skip
    draft_min: int | None = option(
        numbers(0), names=("--spec-draft-n-min",), former=("--draft-min", "--draft-n-min"), needs="spec_type"
    )
    draft_type_k: str | None = option(
        CACHE_TYPE, names=("-ctkd", "--spec-draft-type-k", "--cache-type-k-draft"), plan=True, needs="spec_type"
    )
    draft_type_v: str | None = option(
        CACHE_TYPE, names=("-ctvd", "--spec-draft-type-v", "--cache-type-v-draft"), plan=True, needs="spec_type"
    )
    draft_gpu_layers: int | None = option(
        LAYERS, names=("-ngld", "--spec-draft-ngl", "--gpu-layers-draft", "--n-gpu-layers-draft"), plan=True,
        needs=_DRAFT,
    )  # fmt: skip
    draft_device: tuple[str, ...] = option(
        DEVICES, (), names=("-devd", "--spec-draft-device", "--device-draft"), plan=True, needs=_DRAFT
    )
    ngram_mod_max: int | None = option(
        numbers(0, 1024), names=("--spec-ngram-mod-n-max",), plan=True, needs="spec_type"
    )
    ngram_simple_m: int | None = option(
        numbers(1, 1024), names=("--spec-ngram-simple-size-m",), plan=True, needs="spec_type"
    )
    ngram_map_k_m: int | None = option(
        numbers(1, 1024), names=("--spec-ngram-map-k-size-m",), plan=True, needs="spec_type"
    )
    ngram_map_k4v_m: int | None = option(
        numbers(1, 1024), names=("--spec-ngram-map-k4v-size-m",), plan=True, needs="spec_type"
    )
    lookup_static: str | None = option(
        FILE, names=("-lcs", "--lookup-cache-static"), path="read", plan=True, needs="spec_type"
    )
    lookup_dynamic: str | None = option(
        FILE, names=("-lcd", "--lookup-cache-dynamic"), path="read", plan=True, needs="spec_type"
    )
    template: str | None = option(
        FILE, help="Chat template instead of the file's own.", names=("--chat-template-file",), path="read",
        shown=(LAUNCH,), plan=True,
    )  # fmt: skip
