"""How a source wants its answers sampled: `generation_config.json`, and what of it a GGUF file has a key for.

llama.cpp takes each `general.sampling.*` as the default of an option (`common.cpp:common_init_sampler_from_model`,
b11434); the converter writes them (`gguf-py/gguf/metadata.py`, b11434; that of 2026-08 forgets ``repetition_penalty``).
"""

from __future__ import annotations

from collections.abc import Mapping

from gguftool.records import dataclass

PREFIX = "general.sampling."


@dataclass(frozen=True, slots=True)
class Setting:
    """A key and where its value comes from.

    Attributes:
        key: behind `PREFIX`.
        type: as `gguftool fix` takes it.
        names: in generation_config.json; the first that is there counts.
        idle: the value that llama.cpp takes without the key, where it is one that changes nothing; else None.
    """

    key: str
    type: str
    names: tuple[str, ...]
    idle: float | None = None


SETTINGS = (
    Setting("sequence", "str", ("sequence",)),
    Setting("top_k", "i32", ("top_k",)),
    Setting("top_p", "f32", ("top_p",)),
    Setting("min_p", "f32", ("min_p",)),
    Setting("xtc_probability", "f32", ("xtc_probability",), 0.0),
    Setting("xtc_threshold", "f32", ("xtc_threshold",)),
    Setting("temp", "f32", ("temperature",)),
    Setting("penalty_last_n", "i32", ("penalty_last_n",)),
    Setting("penalty_repeat", "f32", ("penalty_repeat", "repetition_penalty"), 1.0),
    Setting("mirostat", "i32", ("mirostat",), 0.0),
    Setting("mirostat_tau", "f32", ("mirostat_tau",)),
    Setting("mirostat_eta", "f32", ("mirostat_eta",)),
)
"""In the order of `llama-model.cpp:llama_model_meta_key_str` (b11434)."""

WITHOUT_KEY: Mapping[str, tuple[object, ...]] = {
    "bad_words_ids": (None, []),
    "begin_suppress_tokens": (None, []),
    "diversity_penalty": (None, 0),
    "encoder_repetition_penalty": (None, 1),
    "epsilon_cutoff": (None, 0),
    "eta_cutoff": (None, 0),
    "exponential_decay_length_penalty": (None,),
    "forced_bos_token_id": (None,),
    "forced_eos_token_id": (None,),
    "guidance_scale": (None, 1),
    "length_penalty": (None, 1),
    "no_repeat_ngram_size": (None, 0),
    "num_beams": (None, 1),
    "penalty_alpha": (None, 0),
    "sequence_bias": (None, {}, []),
    "stop_strings": (None, []),
    "suppress_tokens": (None, []),
    "top_h": (None,),
    "typical_p": (None, 1),
}
"""Settings that change an answer and have no key -> values that change none
(`transformers/generation/configuration_utils.py`, 5.24)."""


def written(config: Mapping[str, object]) -> dict[Setting, str | int | float]:
    """The keys that a generation_config.json comes to."""
    found: dict[Setting, str | int | float] = {}
    for setting in SETTINGS:
        value = next((config[name] for name in setting.names if name in config), None)
        if setting.type == "str":
            if isinstance(value, str) and value:
                found[setting] = value
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            if setting.type == "f32":
                found[setting] = float(value)
            elif value == int(value):
                found[setting] = int(value)
    return found


def without_key(config: Mapping[str, object]) -> dict[str, object]:
    """What of a generation_config.json changes answers and has no key."""
    return {name: config[name] for name, idle in WITHOUT_KEY.items() if name in config and config[name] not in idle}
