"""The record `{arch}.kv_cache_type`: which KV cache types the file is meant to run with."""

from __future__ import annotations

from gguftool.edit.ops import Set
from gguftool.errors import FormatError
from gguftool.facts.cachetypes import CACHE_TYPES, DEFAULT, RECORD_KEY, has_cache, recorded, refusals, shown, slow_pairs
from gguftool.lint.rule import Context, Drafts, Fix, Severity, edit, found, not_evaluated, rule
from gguftool.lint.rules.deploy.prefix import misplaced
from gguftool.model import Model
from gguftool.model.biases import LARGE, largest_k_bias
from gguftool.source import LocalFile, Memory


def _key(m: Model) -> str:
    return f"{m.architecture}.{RECORD_KEY}"


@rule(Severity.WARNING, known_arch=True, changes_run=False)
def kv_cache_type_missing(m: Model, ctx: Context) -> Drafts:
    """The KV cache type should be recorded.

    Why. `{arch}.kv_cache_type` is gguftool's record of the cache types the file is meant to run with; `gguftool
    plan` and `launch` turn it into `-ctk` and `-ctv`. llama.cpp reads no such key: without the options it takes
    f16. Silent for architectures without a KV cache.
    Evidence. No key string `kv_cache_type` in the sources of b11434; `docs/myths.md`.
    Example. llama.kv_cache_type is not recorded: llama.cpp takes f16 (it does not read this key)
    Fix. Records f16, which is what llama.cpp does anyway; q8_0, the usual choice, with `gguftool fix
    --cache-type q8_0`.
    """
    key = _key(m)
    if key in m or not has_cache(m.arch):
        return
    if any(right == key for _, right in misplaced(m)):
        yield found(f"{key} is not recorded", where=f"field:{key}")
        return
    wish = ctx.wish.cache_type
    value = shown(*wish) if wish and not refusals(m.arch, *wish) else DEFAULT
    title = f"record {value}, as wanted" if value != DEFAULT else "record f16, what llama.cpp takes anyway"
    usual = "" if wish or refusals(m.arch, "q8_0", "q8_0") else "; the usual choice: --cache-type q8_0"
    yield found(
        f"{key} is not recorded: without -ctk/-ctv llama.cpp takes f16 (it does not read this key){usual}",
        where=f"field:{key}",
        fix=Fix(title, (Set(key, value, "str"),), safe=True),
    )


@rule(Severity.ERROR, known_arch=True)
def kv_cache_type_invalid(m: Model, ctx: Context) -> Drafts:
    """The recorded KV cache type must be one that llama.cpp takes.

    Why. `gguftool launch` passes it on, and llama-server exits on a name it does not know. Names are lower case,
    one for both or K/V: f32 f16 bf16 q8_0 q4_0 q4_1 iq4_nl q5_0 q5_1.
    Evidence. `common/arg.cpp:kv_cache_type_from_str` (b11434): "Unsupported cache type: …".
    Example. llama.kv_cache_type is "Q8_0", write q8_0
    Fix. `gguftool fix --cache-type q8_0`.
    """
    key = _key(m)
    value = m.arch.raw(RECORD_KEY)
    if value is None:
        return
    names = " ".join(CACHE_TYPES)
    if not isinstance(value, str):
        yield found(
            f"{key} is {m.fields[key].type_name}, must be a string such as q8_0 or q8_0/q4_0",
            where=f"field:{key}",
            fix=Fix("record a cache type", command=edit("--cache-type", "q8_0")),
        )
        return
    pair = recorded(m.arch)
    if pair is not None and value in ("/".join(pair), shown(*pair)):
        return
    if pair is not None:
        right = shown(*pair)
        yield found(
            f'{key} is "{value}", write {right}',
            where=f"field:{key}",
            fix=Fix(f"write {right}", (Set(key, right, "str"),), safe=True),
        )
        return
    yield found(
        f'{key} is "{value}", which is no cache type of llama.cpp ({names})',
        where=f"field:{key}",
        fix=Fix("record a cache type", command=edit("--cache-type", "q8_0")),
        llama_cpp=f"Unsupported cache type: {value}",
    )


@rule(Severity.ERROR, known_arch=True)
def kv_cache_type_impossible(m: Model, ctx: Context) -> Drafts:
    """The model must be able to run with the recorded or wanted KV cache types.

    Why. Blocks hold 32 elements, so head sizes must divide; MLA models need K and V alike; a quantised V needs
    flash attention, which grok has not. llama.cpp creates no context then.
    Evidence. `llama-context.cpp:llama_init_from_model` (b11434), in its order and its words.
    Example. q8_0/q4_0: model does not support different K (q8_0) and V (q4_0) cache types
    Fix. Choose types the model can run: `gguftool plan` lists what fits.
    """
    key = _key(m)
    own = recorded(m.arch)
    if own is not None:
        for said in refusals(m.arch, *own):
            yield found(
                f"{key} records {shown(*own)}, which this model cannot run: {said}",
                where=f"field:{key}",
                fix=Fix("record f16, which every model can run", (Set(key, DEFAULT, "str"),)),
                llama_cpp=said,
            )
    wish = ctx.wish.cache_type
    if wish is not None and wish != own and has_cache(m.arch):
        for said in refusals(m.arch, *wish):
            yield found(
                f"the wanted cache type {shown(*wish)} is impossible for this model: {said}",
                where=f"field:{key}",
                llama_cpp=said,
            )


@rule(Severity.WARNING, known_arch=True, changes_run=False)
def kv_cache_type_differs(m: Model, ctx: Context) -> Drafts:
    """The recorded KV cache type should be the one that is wanted.

    Why. `gguftool launch` without options follows the record. Checked only with `--cache-type`.
    Evidence. `docs/deploy.md`; llama.cpp itself reads no such key.
    Example. llama.kv_cache_type records f16, wanted q8_0
    Fix. `gguftool fix --cache-type q8_0`.
    """
    own, wish = recorded(m.arch), ctx.wish.cache_type
    if own is None or wish is None or own == wish or not has_cache(m.arch) or refusals(m.arch, *wish):
        return
    yield found(
        f"{_key(m)} records {shown(*own)}, wanted {shown(*wish)}",
        where=f"field:{_key(m)}",
        fix=Fix(f"record {shown(*wish)}, as wanted", (Set(_key(m), shown(*wish), "str"),), safe=True),
    )


@rule(Severity.INFO, known_arch=True)
def kv_cache_type_slow(m: Model, ctx: Context) -> Drafts:
    """Unequal and odd cache types are slow on CUDA builds as they come.

    Why. Such a build has attention kernels for f16, bf16, q8_0 and q4_0 with K equal to V; other pairs are
    converted to f16 at every step, and iq4_nl runs on the CPU.
    Evidence. `ggml-cuda/fattn.cu` and the build option GGML_CUDA_FA_QUANTS (b11434); llama.cpp issues 27109,
    28455, 28633.
    Example. q8_0/q4_0: no FlashAttention vector kernel in a CUDA build as it comes
    Fix. `gguftool fix --cache-type q8_0`, or a build with GGML_CUDA_FA_QUANTS that names the pair.
    """
    pair = ctx.wish.cache_type or recorded(m.arch)
    if pair is None or not has_cache(m.arch) or refusals(m.arch, *pair):
        return
    for said in slow_pairs(*pair):
        yield found(f"{shown(*pair)}: {said}", where=f"field:{_key(m)}")


@rule(Severity.WARNING, known_arch=True)
def kv_cache_type_weak_k(m: Model, ctx: Context) -> Drafts:
    """K below q8_0 hurts models with large K biases.

    Why. Qwen2 and its kin add a large bias to K. Four or five bits cannot hold both the bias and what varies, and
    the answers fall apart while the same type for V is harmless. Only the biases tell: not every model of these
    families has large ones.
    Evidence. Reports on q4_0 K caches with Qwen2 and 2.5; `gguftool kv-test` measures it for this file. The biases
    are read, a few kilobytes, where the file lies here (else with --data).
    Example. q4_0 for K, and the keys have biases up to 130: below q8_0 the answers suffer
    Fix. `gguftool fix --cache-type q8_0/q4_0`, or q8_0 for both.
    """
    pair = ctx.wish.cache_type or recorded(m.arch)
    if pair is None or CACHE_TYPES[pair[0]].bytes_per_element >= CACHE_TYPES["q8_0"].bytes_per_element:
        return
    if not any(name.endswith(".attn_k.bias") for name in m.tensors):
        return
    if not (ctx.data or all(isinstance(part.source, LocalFile | Memory) for part in m.parts)):
        yield not_evaluated("the biases of the keys are not read from afar; --data reads them")
        return
    try:
        bias = largest_k_bias(m)
    except FormatError as e:
        yield not_evaluated(f"the biases of the keys cannot be read: {e}")
        return
    if bias is None:
        yield not_evaluated("the biases of the keys are quantised, or too many")
    elif bias > LARGE:
        better = shown("q8_0", pair[1])
        yield found(
            f"{pair[0]} for K, and the keys have biases up to {bias:.0f}: below q8_0 the answers suffer",
            where=f"field:{_key(m)}",
            fix=Fix(f"record {better}", (Set(_key(m), better, "str"),)),
            bias=round(bias, 3),
        )
