"""Shapes of the weights against config.json, for models whose layers are built as Llama's.

Only numbers that config.json states are compared: what a configuration class would fill in is not known here. llama.cpp
refuses a file whose shapes are not what its keys come to (`llama-model-loader.cpp:check_tensor_dims`, b11434).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gguftool.build.folder import names, quantised
from gguftool.build.folder.layers import by_layer, experts, number
from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import Seen
from gguftool.build.folder.weights import shown
from gguftool.build.safetensors import FLOATS, Entry
from gguftool.facts.tensornames import called
from gguftool.records import dataclass
from gguftool.regex import regex

_DENSE = frozenset(
    "LlamaForCausalLM MistralForCausalLM Qwen2ForCausalLM Qwen3ForCausalLM GemmaForCausalLM Gemma2ForCausalLM "
    "Gemma3ForCausalLM Phi3ForCausalLM OlmoForCausalLM Olmo2ForCausalLM Olmo3ForCausalLM SmolLM3ForCausalLM "
    "GraniteForCausalLM SeedOssForCausalLM Ernie4_5ForCausalLM Exaone4ForCausalLM ArceeForCausalLM "
    "InternLM3ForCausalLM GlmForCausalLM Glm4ForCausalLM".split()
)
"""Architectures with layers that are all alike."""
_BARE_NORM = frozenset({"OlmoForCausalLM"})
"""Of these those whose last norm has no weights."""
PLAIN = _DENSE | frozenset(
    "MixtralForCausalLM Qwen2MoeForCausalLM Qwen3MoeForCausalLM OlmoeForCausalLM Gemma3ForConditionalGeneration "
    "Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration Mistral3ForConditionalGeneration "
    "ApertusForCausalLM CohereForCausalLM Cohere2ForCausalLM Ernie4_5_MoeForCausalLM Glm4MoeForCausalLM "
    "GptOssForCausalLM GraniteMoeForCausalLM GraniteMoeSharedForCausalLM HunYuanDenseV1ForCausalLM Jais2ForCausalLM "
    "NemotronForCausalLM PhiForCausalLM StableLmForCausalLM Starcoder2ForCausalLM Ministral3ForCausalLM "
    "ExaoneMoeForCausalLM MiniMaxM2ForCausalLM Llama4ForCausalLM SolarOpenForCausalLM".split()
)
"""Those, and others whose projections have the same names and sizes."""
_BY_WIDTH = frozenset(
    "LlamaForCausalLM MistralForCausalLM MixtralForCausalLM Qwen2ForCausalLM Qwen2MoeForCausalLM OlmoForCausalLM "
    "Olmo2ForCausalLM Olmo3ForCausalLM OlmoeForCausalLM Phi3ForCausalLM PhiForCausalLM GraniteForCausalLM "
    "GraniteMoeForCausalLM SmolLM3ForCausalLM StableLmForCausalLM Starcoder2ForCausalLM CohereForCausalLM "
    "ArceeForCausalLM ApertusForCausalLM Exaone4ForCausalLM Qwen2VLForConditionalGeneration "
    "Qwen2_5_VLForConditionalGeneration".split()
)
"""Where no head_dim is stated, hidden_size divided by the heads."""
_NAME = regex(r"model\.(?:layers\.[0-9]{1,6}\.)?(.+)\.weight")


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a size must be.

    Attributes:
        ends: names of the weights, behind the layer.
        axis: which of their sizes.
        kind: of the problem.
        terms: names of the sizes whose product it is.
        times: and a factor, where several matrices lie in one.
    """

    ends: tuple[str, ...]
    axis: int
    kind: str
    terms: tuple[str, ...]
    times: int = 1


_RULES = (
    _Rule(("self_attn.q_proj",), 0, "heads", ("num_attention_heads", "head_dim")),
    _Rule(("self_attn.o_proj",), 1, "heads", ("num_attention_heads", "head_dim")),
    _Rule(("self_attn.k_proj", "self_attn.v_proj"), 0, "kv-heads", ("num_key_value_heads", "head_dim")),
    _Rule(("self_attn.q_proj", "self_attn.k_proj", "self_attn.qkv_proj"), 1, "hidden-size", ("hidden_size",)),
    _Rule(("embed_tokens",), 1, "hidden-size", ("hidden_size",)),
    _Rule(("self_attn.o_proj",), 0, "hidden-size", ("hidden_size",)),
    _Rule(("self_attn.qkv_proj",), 0, "heads", ("all_heads", "head_dim")),
    _Rule(("mlp.gate_proj", "mlp.up_proj", "mlp.fc1", "mlp.c_fc"), 0, "intermediate-size", ("intermediate_size",)),
    _Rule(("mlp.down_proj", "mlp.fc2", "mlp.c_proj"), 1, "intermediate-size", ("intermediate_size",)),
    _Rule(("mlp.gate_up_proj",), 0, "intermediate-size", ("intermediate_size",), 2),
    _Rule(("input_layernorm", "post_attention_layernorm"), 0, "hidden-size", ("hidden_size",)),
    _Rule(("mlp.gate", "block_sparse_moe.gate"), 0, "experts", ("experts",)),
)  # fmt: skip
_EXPERTS = (
    _Rule(("gate_proj", "up_proj", "w1", "w3"), 0, "intermediate-size", ("expert_size",)),
    _Rule(("down_proj", "w2"), 1, "intermediate-size", ("expert_size",)),
)


def shapes(seen: Seen) -> Iterator[Problem]:
    """The first size of each kind that is not what config.json comes to."""
    if seen.config.architecture not in PLAIN or _said(seen, "kv_lora_rank"):
        return
    sizes = _sizes(seen)
    wrong: dict[str, tuple[_Rule, Entry, int]] = {}
    for name, entry in seen.text.items():
        found = _NAME.fullmatch(name)
        if found is None or not (entry.dtype in FLOATS or entry.dtype.startswith("F8_")) or 0 in entry.shape:
            continue
        for rule in _rules(found[1]):
            wanted = _wanted(rule, sizes)
            if wanted is None or not rule.axis < len(entry.shape) <= 2 or rule.kind in wrong:
                continue
            if entry.shape[rule.axis] != wanted:
                wrong[rule.kind] = (rule, entry, wanted)
    if (one := _head_dim(wrong, sizes)) is not None:
        wrong = {k: v for k, v in wrong.items() if k not in ("heads", "kv-heads")}
        yield Problem("head-dim", f"{seen.path}: {one}", _HINT)
    if "experts" in wrong and any(True for _ in experts(seen)):
        del wrong["experts"]  # told by the experts themselves
    for kind, (rule, entry, wanted) in wrong.items():
        terms = " × ".join(f"{sizes[t][0]} {sizes[t][1]:,}" for t in rule.terms)
        twice = f"{rule.times} × " if rule.times > 1 else ""
        come = f", which comes to {wanted:,}" if len(rule.terms) > 1 or twice else ""
        words = f"{seen.path}: config.json has {twice}{terms}{come}; {entry.name} is {shown(entry.shape)}"
        yield Problem(kind, words, _HINT)


_HINT = "config.json and weights belong to different models, or sizes of one: take the config.json of these weights"


def _rules(end: str) -> Iterator[_Rule]:
    if ".experts." in end:
        last = end.rpartition(".")[2]
        yield from (r for r in _EXPERTS if last in r.ends)
    elif "shared" not in end:
        yield from (r for r in _RULES if end in r.ends)


def _sizes(seen: Seen) -> Mapping[str, tuple[str, int]]:
    """Sizes by the names of the rules -> how config.json calls them, and how much it says."""
    out: dict[str, tuple[str, int]] = {}
    architecture = seen.config.architecture
    for name in ("num_attention_heads", "hidden_size", "intermediate_size", "head_dim", "num_key_value_heads"):
        if (value := number(seen, name)) is not None and value > 0:
            out[name] = (name, value)
    if count := number(seen, "num_local_experts", "num_experts"):
        out["experts"] = ("num_local_experts" if _said(seen, "num_local_experts") else "num_experts", count)
    if count := number(seen, "moe_intermediate_size"):
        out["expert_size"] = ("moe_intermediate_size", count)
    if architecture.startswith(("Mixtral", "Olmoe")) and "intermediate_size" in out:
        out["expert_size"] = out["intermediate_size"]
    heads, width = out.get("num_attention_heads"), out.get("hidden_size")
    if (
        "num_key_value_heads" not in out
        and heads
        and architecture in _BY_WIDTH
        and not _said(seen, "num_key_value_heads")
    ):
        out["num_key_value_heads"] = heads
    if heads and (kv := out.get("num_key_value_heads")):
        out["all_heads"] = ("num_attention_heads + 2 num_key_value_heads", heads[1] + 2 * kv[1])
    if "head_dim" not in out and heads and width and architecture in _BY_WIDTH and width[1] % heads[1] == 0:
        out["head_dim"] = ("hidden_size / num_attention_heads", width[1] // heads[1])
    return out


def _said(seen: Seen, name: str) -> bool:
    return seen.config.text.get(name) is not None


def _wanted(rule: _Rule, sizes: Mapping[str, tuple[str, int]]) -> int | None:
    wanted = rule.times
    for term in rule.terms:
        if term not in sizes:
            return None
        wanted *= sizes[term][1]
    return wanted


def _head_dim(wrong: Mapping[str, tuple[_Rule, Entry, int]], sizes: Mapping[str, tuple[str, int]]) -> str | None:
    """Whether queries and keys are off by the same factor: then it is the size of a head."""
    if not {"heads", "kv-heads"} <= set(wrong) or "head_dim" not in sizes:
        return None
    (q_rule, q, q_wanted), (k_rule, k, k_wanted) = wrong["heads"], wrong["kv-heads"]
    rows, keys = q.shape[q_rule.axis], k.shape[k_rule.axis]
    name, size = sizes["head_dim"]
    if rows * k_wanted != keys * q_wanted or rows * size % q_wanted:
        return None
    return (
        f"config.json has {name} {size}, the weights heads of {rows * size // q_wanted}: {q.name} is {shown(q.shape)}"
    )


def alike(seen: Seen) -> Iterator[Problem]:
    """Layers that lack what the others have, and the last norm."""
    architecture, have = seen.config.architecture, by_layer(seen)
    if architecture not in PLAIN or not have or not seen.whole or not quantised.plain(seen):
        return
    if names.foreign(seen) or seen.once(names.unmapped):
        return
    # Where layers have experts or have none, what is before them is the same in all.
    begin = "" if architecture in _DENSE else "self_attn."
    whole = {end for ends in have.values() for end in ends if end.endswith("weight") and end.startswith(begin)}
    common = {end for end in whole if 2 * sum(end in ends for ends in have.values()) > len(have)}
    for layer, ends in sorted(have.items()):
        if gone := sorted(common - ends):
            more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            yield Problem(
                "missing-tensors",
                f"{seen.path}: layer {layer} has no {gone[0]}{more}, which other layers have",
                "files are missing or were saved in part: download them again",
            )
            break
    outside = {called(architecture, name) for name in seen.text if ".layers." not in name}
    if architecture in _DENSE and "output_norm.weight" not in outside and architecture not in _BARE_NORM:
        yield Problem(
            "missing-tensors",
            f"{seen.path}: model.norm.weight is in none of the files",
            "files are missing or were saved in part: download them again",
        )
