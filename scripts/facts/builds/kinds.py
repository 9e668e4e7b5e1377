"""Which kinds of names the timeline has: how each is read, and which files can change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from builds import names, options, required, wordings
from builds.trees import Tree

ARCH = r"(?:src/)?llama(?:-arch)?\.cpp$"
VOCAB = r"(?:src/)?llama(?:-vocab)?\.cpp$"
CLIP = names.CLIP


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind.

    Attributes:
        read: names of one tree; raises `Unread` where it has them in a way that is not known.
        files: paths that can change them.
        every: a clone is read at every so many builds first, then halved between two that differ; 1: at every commit.
    """

    read: Callable[[Tree], set[str]]
    files: str
    every: int = 1


KINDS: dict[str, Kind] = {
    "architecture": Kind(names.architectures, ARCH),
    "loaded_architecture": Kind(names.loaded, rf"{ARCH}|src/llama-model\.cpp$"),
    "pre_tokenizer": Kind(names.pre_tokenizers, VOCAB),
    "tokenizer_model": Kind(names.tokenizer_models, VOCAB),
    "tensor_type": Kind(names.tensor_types, r"(?:ggml/(?:include|src)/)?ggml\.[ch]$"),
    "key": Kind(names.keys, rf"{ARCH}|{CLIP}"),
    "tensor_name": Kind(names.tensor_names, rf"{ARCH}|{CLIP}"),
    "projector": Kind(names.projectors, CLIP),
    "template_engine": Kind(names.template_engines, r"(?:include/)?llama\.h$|(?:common|vendor)/(?:minja|jinja)/"),
    "required_key": Kind(required.required_keys, required.FILES),
    "option": Kind(options.names, options.FILES),
    "option_value": Kind(options.values, rf"{options.FILES}|src/llama(?:-chat)?\.cpp$"),
    "default": Kind(options.defaults, options.FILES),
    "log": Kind(wordings.wordings, wordings.FILES, every=100),
}
