"""How many layers, experts and rows the weights have, and config.json says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from gguftool.build.folder import names, quantised
from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import Seen
from gguftool.regex import regex

_LAYER = regex(r"((?:model\.|transformer\.|gpt_neox\.|backbone\.)?(?:layers|h|blocks))\.([0-9]{1,6})\.")
_EXPERT = regex(r"(.+\.experts)\.([0-9]{1,6})\.")
LAYERS = ("n_layers", "num_hidden_layers", "n_layer", "num_layers")
"""Names of the number of layers, in the converter's order (`TextModel.__init__`, b11434)."""
EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
_FUSED = ("experts.gate_up_proj", "experts.down_proj", "experts.up_proj", "experts.gate_proj")
"""Endings of names of all experts of a layer in one tensor."""
_MORE = ("nextn", "mtp", "next_n", "draft")
"""Parts of names in config.json that tell of layers behind the last, which predict further tokens."""
_OTHER_COUNT = ("DeciLM", "HrmText", "Zamba", "Ouro", "Mllama", "T5", "UMT5", "Bart")
"""Beginnings of architectures whose layers are run more than once, or are of two kinds with a count each, or of
which some hold nothing."""
_OTHER_ROWS = ("Mamba", "FalconMamba", "GraniteMoeHybrid", "Bamba", "NemotronH", "MiniMax", "Gemma3n", "Gemma4", "Grok")
"""Beginnings of architectures whose converter adds or takes away rows."""
_MORE_ROWS = "Gemma3"
"""Of these models the converter leaves out rows behind the last token."""
_EMBEDDING = (
    "model.embed_tokens.weight",
    "embed_tokens.weight",
    "transformer.wte.weight",
    "wte.weight",
    "gpt_neox.embed_in.weight",
    "transformer.word_embeddings.weight",
    "word_embeddings.weight",
)
_AGAIN = "the number in config.json must be that of the weights; or the weights of another model lie here"


def number(seen: Seen, *names: str) -> int | None:
    """The first of these names in config.json, when it is a whole number."""
    for name in names:
        value = seen.config.text.get(name)
        if value is not None:
            return value if type(value) is int else None
    return None


def by_layer(seen: Seen) -> Mapping[int, set[str]]:
    """Layers of the language model -> what follows in the names of their tensors."""
    found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name in seen.text:
        if layer := _LAYER.match(name):
            found[layer[1]][int(layer[2])].add(name[layer.end() :])
    return max(found.values(), key=len, default={})


def counted(seen: Seen) -> Iterator[Problem]:
    """Whether config.json counts the layers, or names a configuration class of transformers that does."""
    text = seen.config.text
    if not seen.takes(seen.config.architecture) or not by_layer(seen) or any(text.get(n) is not None for n in LAYERS):
        return
    if not isinstance(text.get("model_type") or seen.config.raw.get("model_type"), str):
        yield Problem(
            "no-layer-count",
            f"{seen.path}: config.json has no {LAYERS[1]}, without which the converter stops",
            f"take the config.json of these weights; they have {max(by_layer(seen)) + 1} layers",
        )


def layers(seen: Seen) -> Iterator[Problem]:
    """Layers that config.json counts and the weights lack, and the other way round."""
    said, have = number(seen, *LAYERS), by_layer(seen)
    if said is None or not have or not seen.whole or seen.config.architecture.startswith(_OTHER_COUNT):
        return
    name = next(n for n in LAYERS if seen.config.text.get(n) is not None)
    last = max(have)
    gaps = [i for i in range(min(last, said)) if i not in have]
    if gaps:
        more = f" and {len(gaps) - 1} more" if len(gaps) > 1 else ""
        yield Problem(
            "layers",
            f"{seen.path}: layer {gaps[0]}{more} is in none of the files; layers up to {last} are",
            "files are missing, or layers were taken out without counting the others anew",
        )
    if last + 1 < said:
        yield Problem(
            "layers",
            f"{seen.path}: config.json has {name} {said}, the weights {last + 1} layers",
            f"set {name} to {last + 1} if the model was cut; else files are missing: download them",
        )
    elif last + 1 > said and (last + 1 > said + _behind(seen) or have[last] <= have.get(said - 1, set())):
        yield Problem(
            "layers",
            f"{seen.path}: config.json has {name} {said}, the weights {last + 1} layers",
            f"set {name} to {last + 1} if the model was made longer; else config.json is another model's",
        )


def _behind(seen: Seen) -> int:
    """Layers behind the last that predict further tokens, as config.json tells."""
    found = 0
    for name, value in seen.config.text.items():
        if any(part in name.lower() for part in _MORE) and name not in LAYERS:
            found = max(found, value if type(value) is int else 1 if value else 0)
    return found


def experts(seen: Seen) -> Iterator[Problem]:
    """Experts that config.json counts and a layer lacks, and the other way round."""
    said = number(seen, *EXPERTS)
    if not said or not seen.whole:
        return
    have: dict[str, set[int]] = defaultdict(set)
    each = quantised.plain(seen)
    for name in seen.text:
        if name.endswith(_FUSED) and len(seen.text[name].shape) == 3:
            have[name].update(range(min(seen.text[name].shape[0], 1 << 16)))
        elif ".experts." in name and (expert := _EXPERT.match(name)):
            have[f"{expert[1]}.*.{name[expert.end() :]}" if each else expert[1]].add(int(expert[2]))
    name = next(n for n in EXPERTS if seen.config.text.get(n) is not None)
    for place, numbers in have.items():
        if len(numbers) != said or max(numbers) != said - 1:
            yield Problem(
                "experts",
                f"{seen.path}: config.json has {name} {said}, of {place} there are {len(numbers)}"
                + (f", numbered up to {max(numbers)}" if max(numbers) + 1 != len(numbers) else ""),
                f"{name} must be the number of experts in every layer; files may be missing",
            )
            return


def rows(seen: Seen) -> Iterator[Problem]:
    """Rows of the embedding and of the output, of which llama.cpp wants one for each token."""
    said = number(seen, "vocab_size")
    if said is None or seen.config.architecture.startswith(_OTHER_ROWS) or number(seen, "draft_vocab_size"):
        return
    wrong = [
        entry
        for name in (*_EMBEDDING, "lm_head.weight")
        if (entry := seen.text.get(name)) is not None and len(entry.shape) == 2 and entry.shape[0] not in (said, 0)
    ]
    if seen.config.architecture.startswith(_MORE_ROWS):
        wrong = [e for e in wrong if e.shape[0] < said]
    if wrong and not all(_padded(seen, entry.shape[0], said) for entry in wrong):
        entry = wrong[0]
        yield Problem(
            "rows",
            f"{seen.path}: config.json has vocab_size {said:,}, {entry.name} has {entry.shape[0]:,} rows"
            + (f", {wrong[1].name} {wrong[1].shape[0]:,}" if len(wrong) > 1 else ""),
            f"set vocab_size to {entry.shape[0]}, if the tokenizer has no more tokens; else save the model again after "
            "resize_token_embeddings",
        )


def _padded(seen: Seen, rows: int, said: int) -> bool:
    """Whether config.json itself tells of rows that fill up the vocabulary."""
    step = number(seen, "pad_vocab_size_multiple", "pad_to_multiple_of")
    return rows == number(seen, "padded_vocab_size") or bool(step and rows == -(-said // step) * step)


def embedding(seen: Seen) -> Iterator[Problem]:
    """Whether anything has a row for each token, besides the output."""
    said = number(seen, "vocab_size")
    if not said or not seen.whole or not quantised.plain(seen) or not seen.config.architecture.endswith("ForCausalLM"):
        return
    if not by_layer(seen) or seen.once(names.adapters) or number(seen, "draft_vocab_size"):
        return
    heads = ("lm_head.", "output.", "embed_out.")
    least = said * 9 // 10
    outside = [e for n, e in seen.text.items() if not n.startswith(heads) and not _LAYER.match(n)]
    if not any(len(e.shape) == 2 and e.shape[0] >= least for e in outside):
        yield Problem(
            "missing-tensors",
            f"{seen.path}: no tensor has a row for each of the {said:,} tokens: the embedding is in none of the files",
            "files are missing or were saved in part: download them again",
        )
