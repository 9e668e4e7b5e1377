"""Values that no reader expects: bad text, odd booleans, numbers that are none."""

from __future__ import annotations

import math
from array import array

from gguftool.edit.ops import Delete, Set
from gguftool.facts.enums import numbers, words
from gguftool.facts.readers import STUMBLE_OVER_EMPTY_ARRAY
from gguftool.facts.reads import reads
from gguftool.format.header import Field
from gguftool.format.types import ARR, BOOL, STR
from gguftool.lint.rule import MOST_WRITTEN, Context, Drafts, Fix, Severity, edit, found, rule, to_choose
from gguftool.model import Model
from gguftool.regex import regex
from gguftool.shell import blank

_BAD = regex("[\udc80-\udcff]")


def _bad_utf8(text: str) -> bool:
    return not text.isascii() and _BAD.search(text) is not None


@rule(Severity.ERROR, role="any", whole=False)
def key_not_utf8(m: Model, ctx: Context) -> Drafts:
    r"""A key must be UTF-8.

    Why. llama.cpp takes any bytes, gguf-py and everything built on it stops with a UnicodeDecodeError.
    Evidence. Measured: gguf-py 0.19.0 dies on a bad key, b11434 loads it.
    Example. key bad\xff\xfekey is not UTF-8
    Fix. `gguftool fix --delete KEY`, where the shell can spell the key; else write the file anew.
    """
    for part in m.parts:
        for f in part.header.fields:
            if _bad_utf8(f.key):
                yield found(f"key {f.key} is not UTF-8", where=f"field:{f.key}", span=f.span, path=part.name)


@rule(Severity.WARNING, role="any", whole=False)
def value_not_utf8(m: Model, ctx: Context) -> Drafts:
    r"""Text values should be UTF-8.

    Why. llama.cpp takes any bytes; Python readers stop when they show the value, and llama-server's JSON answers
    may hold broken text.
    Evidence. Measured: gguf-dump 0.19.0 dies on such a value, b11434 loads it.
    Example. general.name is not UTF-8: caf\xe9
    Fix. `gguftool fix --set KEY=TEXT`.
    """
    for part in m.parts:
        for f in part.header.fields:
            if f.type == STR:
                text = f.told
                if isinstance(text, str) and _bad_utf8(text):
                    fixed = text.encode("utf-8", "surrogateescape").decode("latin-1")
                    fix = Fix("read the bytes as Latin-1 and write UTF-8", (Set(f.key, fixed, "str"),))
                    short = len(fixed) <= 200 and f.key not in ("tokenizer.chat_template", "general.architecture")
                    yield found(
                        f"{f.key} is not UTF-8: {text[:60]}",
                        where=f"field:{f.key}",
                        span=f.span,
                        path=part.name,
                        fix=fix if short else None,
                    )


@rule(Severity.ERROR, whole=False, role="any")
def bool_byte(m: Model, ctx: Context) -> Drafts:
    """A boolean must be the byte 0 or 1.

    Why. A C++ bool with another value is undefined behaviour: a build that copies the byte may take both
    branches, and arrays of such bytes made Gemma 4 fail on some builds.
    Evidence. GGUF specification ("anything other than 0 or 1 is invalid"); llama.cpp issue 21428. b11434 and
    gguf-py read 2 as true.
    Example. tokenizer.ggml.add_bos_token is the byte 2
    Fix. Writes 1, which is how it is read.
    """
    for f in m.header.fields:
        if f.type == BOOL and f.value_bytes[0] > 1:
            yield found(
                f"{f.key} is the byte {f.value_bytes[0]}, a boolean is 0 or 1",
                where=f"field:{f.key}",
                fix=Fix("write true, as it is read", (Set(f.key, True, "bool"),), safe=True),
            )
        elif f.type == ARR and f.element_type == BOOL and f.count and max(f.value_bytes) > 1:
            first = next(i for i, b in enumerate(f.value_bytes) if b > 1)
            few = f.count <= MOST_WRITTEN
            fix = Fix("write true, as they are read", (Set(f.key, f.value, "[bool]"),), safe=True) if few else None
            yield found(
                f"{f.key}[{first}] is the byte {f.value_bytes[first]}, a boolean is 0 or 1",
                where=f"field:{f.key}",
                fix=fix,
            )


@rule(Severity.INFO, role="any", whole=False)
def array_empty(m: Model, ctx: Context) -> Drafts:
    """An empty array says nothing, and tools drop it.

    Why. gguf-py's writers (gguf-new-metadata, the editor) refuse empty arrays, so that a later copy with them fails;
    some programs write them all the same.
    Evidence. llama.cpp issues 22189, 8769; llama.cpp and gguf-py read them. gguftool keeps them.
    Example. x.n is an empty array: gguf-py's writers refuse it
    Fix. `gguftool fix --delete KEY`; llama.cpp takes a key that is not there in the same way.
    """
    for f in m.header.fields:
        # An empty token list is a fault of its own, with its own rule.
        if f.type == ARR and f.count == 0 and not f.key.startswith("tokenizer.ggml."):
            yield found(
                f"{f.key} is an empty array: {STUMBLE_OVER_EMPTY_ARRAY}",
                where=f"field:{f.key}",
                fix=Fix(f"take {f.key} away", (Delete(f.key),)),
            )


@rule(Severity.ERROR, known_arch=True)
def float_not_finite(m: Model, ctx: Context) -> Drafts:
    """Numbers in the metadata must be finite, and epsilons not negative.

    Why. llama.cpp loads NaN and infinity without a word and computes with them: every answer is garbage, and a
    negative or NaN epsilon ends the process at the first token.
    Evidence. Measured on b11434: NaN in logit_scale and soft caps loads silently; eps NaN or negative aborts
    (`ggml-cpu/ops.cpp`).
    Example. llama.attention.layer_norm_rms_epsilon is -1e-05
    Fix. `gguftool fix --set KEY=VALUE` with the value of `config.json`.
    """
    for f in m.header.fields:
        # -inf is how a model says that there is no lower bound.
        if not f.key.startswith(m.architecture + ".") or f.key.endswith(".gate_lower_bound"):
            continue
        value = _worst(f)
        if value is None:
            continue
        epsilon = f.key.endswith("epsilon")
        if math.isfinite(value) and not (epsilon and value < 0):
            continue
        yield found(
            f"{f.key} is {value:g}",
            where=f"field:{f.key}",
            fix=to_choose("set it to the value of config.json", "--set", f.key),
        )


def _worst(f: Field) -> float | None:
    """A float field's value, of an array the first that is not finite."""
    if f.type_name in ("f32", "f64"):
        value = f.told
        return value if isinstance(value, float) else None
    if f.type_name in ("arr[f32]", "arr[f64]"):
        values = f.value
        return next((v for v in values if not math.isfinite(v)), None) if isinstance(values, array) else None
    return None


_SAMPLING = {
    "top_k": (0, 1 << 31),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1),
    "temp": (0, 5),
    "penalty_last_n": (-1, 1 << 31),
    "penalty_repeat": (0, 5),
    "mirostat": (0, 2),
    "mirostat_tau": (0, 100),
    "mirostat_eta": (0, 1),
}


@rule(Severity.WARNING, chat=True)
def sampling_odd(m: Model, ctx: Context) -> Drafts:
    """Sampling defaults in the file should be usable.

    Why. Every llama.cpp program applies `general.sampling.*` where the user gives no option of his own, also when
    the value makes no sense.
    Evidence. `common/common.cpp:common_init_sampler_from_model` (b11434).
    Example. general.sampling.top_p is 90, expected 0 to 1
    Fix. `gguftool fix --sampling top_p=0.9`.
    """
    for f in m.header.fields:
        name = f.key.removeprefix("general.sampling.")
        if name == f.key or name not in _SAMPLING:
            continue
        low, high = _SAMPLING[name]
        value = f.told
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if number and low <= value <= high:  # type: ignore[operator]
            continue
        shown = f"{value:g}" if isinstance(value, float) else repr(value)
        yield found(
            f"{f.key} is {shown}, expected {low:g} to {high:g}",
            where=f"field:{f.key}",
            fix=Fix("set a usable value", command=edit("--sampling", blank(f"{name}="))),
        )


SMALLEST_EPSILON, LARGEST_EPSILON = 1e-13, 1e-3
"""Models have 1e-6 to 1e-4, a few 1e-12."""


@rule(Severity.WARNING, known_arch=True)
def epsilon_odd(m: Model, ctx: Context) -> Drafts:
    """The epsilon of normalisation should be as small as models have it.

    Why. It is added to what is divided by: a large one flattens every layer, and the model loads, runs and talks
    nonsense; with 0 a layer of zeros divides by 0.
    Evidence. SmolLM2 with 0.1 instead of 1e-05: perplexity 25,060 instead of 20 (b11434).
    Example. llama.attention.layer_norm_rms_epsilon is 0.1, models have 1e-6 to 1e-4
    Fix. The value of `config.json`: rms_norm_eps or layer_norm_eps.
    """
    for name in ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"):
        key = f"{m.architecture}.{name}"
        # llama.cpp itself writes 0 for the one of the two that an architecture does not have.
        value = m.get(key) if name in reads(m.architecture) else None
        if isinstance(value, float) and (LARGEST_EPSILON < value < math.inf or 0 <= value < SMALLEST_EPSILON):
            yield found(
                f"{key} is {value:g}, models have 1e-6 to 1e-4",
                where=f"field:{key}",
                fix=to_choose("write the value of config.json", "--set", key),
                value=value,
            )


@rule(Severity.WARNING, known_arch=True)
def activation_unknown(m: Model, ctx: Context) -> Drafts:
    """The activation should be one that llama.cpp knows.

    Why. llama.cpp takes GeGLU for any other word, without one of its own: the file loads and computes something
    else.
    Evidence. `llama-model.cpp:llm_ffn_op_type_from_string` (b11434), read for modern-bert.
    Example. modern-bert.hidden_activation is "mish", which llama.cpp does not know: it computes geglu
    Fix. The word of `config.json` when it is one that llama.cpp knows; otherwise the model cannot run as it was
    trained.
    """
    key, known = f"{m.architecture}.hidden_activation", words("hidden_activation")
    value = m.get(key)
    if m.architecture == "modern-bert" and isinstance(value, str) and value not in known:
        yield found(
            f'{key} is "{value}", which llama.cpp does not know ({", ".join(known)}): it computes geglu',
            where=f"field:{key}",
            fix=to_choose("write one that llama.cpp knows, if the model has it", "--set", key),
        )


@rule(Severity.ERROR, known_arch=True)
def expert_gating_unknown(m: Model, ctx: Context) -> Drafts:
    """The function that chooses experts must be one that llama.cpp has.

    Why. Nothing looks at the number before the first graph is made; there the process aborts with "fatal error" and
    no word of the key.
    Evidence. `llama-graph.cpp:build_moe_ffn` (b11434); run with deepseek2 and 9: SIGABRT at the context.
    Example. deepseek2.expert_gating_func is 9, which llama.cpp does not have (softmax 1, sigmoid 2, softmax_weight 3,
    sqrt_softplus 4): it aborts
    Fix. The number of config.json's scoring_func: softmax 1, sigmoid 2.
    """
    key, known = f"{m.architecture}.expert_gating_func", numbers("expert_gating_func")
    value = m.get(key)
    if "expert_gating_func" not in reads(m.architecture) or not isinstance(value, int) or isinstance(value, bool):
        return
    if value not in known.values() and m.arch.int("expert_count"):
        ways = ", ".join(f"{name} {n}" for name, n in known.items() if n > 0)
        yield found(
            f"{key} is {value:,}, which llama.cpp does not have ({ways}): it aborts",
            where=f"field:{key}",
            fix=to_choose("write the one of config.json", "--set", key),
            llama_cpp="fatal error",
        )
