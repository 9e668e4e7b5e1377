"""The output matrix: whether the model shares it with the embedding, as config.json says."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.build.folder import names
from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import Seen
from gguftool.facts.tensornames import called

_WRITES_TEXT = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
_HEADS = (
    "lm_head.",
    "output.",
    "embed_out.",
    "head.",
    "output_layer.",
    "unembed",
    "model.lm_head.",
    "transformer.ff_out.",
)
_UNTIED = frozenset(
    "LlamaForCausalLM MistralForCausalLM MixtralForCausalLM Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen3ForCausalLM "
    "Qwen3MoeForCausalLM Phi3ForCausalLM Olmo2ForCausalLM".split()
)
"""Architectures whose configuration says false where config.json says nothing (transformers 5)."""
_EMBEDDING = "model.embed_tokens.weight"
_LOOK = 1 << 14


def head(seen: Seen) -> Iterator[Problem]:
    """An output matrix that is said to be there and is not, or is there beside a shared one."""
    if (
        not seen.config.architecture.endswith(_WRITES_TEXT)
        or not seen.whole
        or names.foreign(seen)
        or seen.once(names.unmapped)
    ):
        return
    said = {c.get("tie_word_embeddings") for c in (seen.config.raw, seen.config.part)} - {None}
    tied = said.pop() if len(said) == 1 else None
    if tied is None and not said and seen.config.architecture in _UNTIED:
        tied = False
    own = next((n for n in seen.text if n.startswith(_HEADS) or ".output_layer." in n), None)
    embedding = seen.text.get(_EMBEDDING)
    if tied is False and own is None and (embedding is not None or _embeds(seen)):
        says = "tie_word_embeddings false" if "tie_word_embeddings" in seen.config.text else "no tie_word_embeddings"
        yield Problem(
            "no-head",
            f"{seen.path}: config.json has {says}, and there is no lm_head.weight: llama.cpp would take the "
            "embedding in its place",
            'set "tie_word_embeddings": true in config.json if the model shares the two; else files are missing, or it '
            "was saved without its head",
        )
    elif tied is True and own == "lm_head.weight" and embedding is not None:
        ours = seen.text[own]
        if ours.shape != embedding.shape or seen.some(ours, _LOOK) != seen.some(embedding, _LOOK):
            yield Problem(
                "tied-head",
                f"{seen.path}: config.json has tie_word_embeddings true, and lm_head.weight is not the embedding; "
                "llama.cpp uses it, transformers 4 does not",
                'set "tie_word_embeddings": false if the model was trained so; else remove lm_head.weight',
                fatal=False,
            )


def _embeds(seen: Seen) -> bool:
    """Whether a tensor is known to be the embedding."""
    few = (n for n in seen.text if ".layers." not in n and ("emb" in n or "wte" in n))
    return any(called(seen.config.architecture, n) == "token_embd.weight" for n in few)
