"""Names that training leaves in front of or inside the names of a model's tensors."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.build.folder import quantised
from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import Seen
from gguftool.facts.tensornames import called, only_by_map
from gguftool.regex import regex

_ADAPTER = regex(
    r"\.(?:lora_[AB]|lora_embedding_[AB]|lora_magnitude_vector|base_layer|modules_to_save|original_module"
    r"|ia3_l|hada_w[12]_[ab]|oft_[rs]|vera_lambda_[bd]|lokr_w[12])(?:\.|$)"
)
"""What peft writes into the names of layers that it has wrapped."""
_ADAPTER_WORDS = (
    ".lora_",
    ".base_layer",
    ".modules_to_save",
    ".original_module",
    ".ia3_l",
    ".hada_",
    ".oft_",
    ".vera_",
    ".lokr_",
)
_WRAPPERS = (
    ("_fsdp_wrapped_module.", "PyTorch's FSDP"),
    ("_orig_mod.", "torch.compile"),
    ("_checkpoint_wrapped_module.", "PyTorch's activation checkpointing"),
    ("base_model.model.", "peft"),
    ("_forward_module.", "Lightning"),
    ("_dp_module.", "a data-parallel wrapper"),
    ("module.", "DistributedDataParallel or DeepSpeed"),
    ("pretrained_model.", "trl's value head"),
    ("policy.", "a trainer of rewards"),
    ("actor.", "a trainer of rewards"),
)
_DOUBLED = ("model.model.", "transformer.transformer.")


def foreign(seen: Seen) -> bool:
    """Whether it has been said that the names are not the model's own."""
    return bool(seen.once(adapters) or seen.once(wrappers))


def adapters(seen: Seen) -> Iterator[Problem]:
    """Layers of an adapter that has not been merged."""
    if not any(word in seen.joined for word in _ADAPTER_WORDS):
        return
    found = [n for n in seen.tensors if _ADAPTER.search(n)]
    if found:
        yield Problem(
            "unmerged-adapter",
            f"{seen.path}: an adapter in the weights is not merged: {len(found):,} tensors, for example {found[0]}",
            "merge it and save again (peft: model.merge_and_unload().save_pretrained(OTHER))",
        )


def beside(seen: Seen) -> Iterator[Problem]:
    """An adapter that lies beside a model: transformers applies it, the converter passes it over."""
    files = [n for n in ("adapter_model.safetensors", "adapter_model.bin") if n in seen.sizes]
    if files and seen.has("adapter_config.json") and seen.files:
        yield Problem(
            "adapter-beside",
            f"{seen.path}: {files[0]} lies beside the model: transformers applies it, the converter passes it over",
            "merge it first (peft: merge_and_unload), or move it away if it is merged already",
            fatal=False,
        )


def wrappers(seen: Seen) -> Iterator[Problem]:
    """Names of a wrapper in front of the names of the model, or inside them."""
    for prefix, who in _WRAPPERS:
        inside = prefix.startswith("_") and f".{prefix}" in seen.joined
        if not inside and f"\n{prefix}" not in seen.joined:
            continue
        names = (n for n in seen.tensors if not _ADAPTER.search(n))
        found = [n for n in names if n.startswith(prefix) or (inside and f".{prefix}" in n)]
        if found:
            yield _wrapped(seen, found, prefix, who)
            return
    for prefix in _DOUBLED:
        if 2 * seen.joined.count(f"\n{prefix}") > len(seen.tensors):
            found = [n for n in seen.tensors if n.startswith(prefix)]
            yield _wrapped(seen, found, prefix[: len(prefix) // 2], "a model inside a model")
            return


def _wrapped(seen: Seen, found: list[str], prefix: str, who: str) -> Problem:
    return Problem(
        "wrapped-names",
        f"{seen.path}: {len(found):,} names carry {prefix} of {who}, for example {found[0]}",
        f"save the model without its wrapper (the inner module's save_pretrained), or take {prefix} out of the names",
    )


def unmapped(seen: Seen) -> Iterator[Problem]:
    """Names that the converter has no name for, where nothing but its map decides."""
    architecture = seen.config.architecture
    if not only_by_map(architecture) or not quantised.plain(seen) or foreign(seen) or quantised.refused(seen):
        return
    if "draft_vocab_size" in seen.config.text:
        return  # a draft model under the name of its target
    strange = [n for n in seen.text if ".experts." not in n and called(architecture, n) is None]
    if not strange:
        return
    few = len(strange) * 2 < len(seen.text)
    yield Problem(
        "unknown-tensors" if few else "other-names",
        f"{seen.path}: {len(strange):,} tensors are called as in no {architecture}, for example {strange[0]}",
        "a head or another part that was trained beside the model is not converted: save the language model alone"
        if few
        else "is it the model that config.json describes?",
    )
