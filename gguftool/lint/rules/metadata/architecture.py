"""`general.architecture`: everything else depends on it."""

from __future__ import annotations

from gguftool.edit.ops import Rename, Set
from gguftool.facts import llama_cpp
from gguftool.facts.arch import facts, nearest
from gguftool.facts.keys import ALWAYS, read_keys
from gguftool.lint.converted import converted
from gguftool.lint.rule import Context, Drafts, Fix, Severity, edit, found, rule
from gguftool.model import Model
from gguftool.shell import blank

KEY = "general.architecture"


def _prefix(m: Model) -> str | None:
    """The architecture that the file's own keys name: the one prefix under which block_count stands."""
    heads = {k.partition(".")[0] for k in m.fields if k.partition(".")[2] in ("block_count", "embedding_length")}
    known = sorted(h for h in heads if facts(h) is not None)
    return known[0] if len(known) == 1 else None


@rule(Severity.ERROR)
def architecture_missing(m: Model, ctx: Context) -> Drafts:
    """The file must name its architecture.

    Why. llama.cpp builds every other key from `general.architecture`; without it the name is empty and unknown.
    Files with a handful of keys are often made for image programs, not for llama.cpp.
    Evidence. `llama-model-loader.cpp` (b11434): "unknown model architecture: ''"; llama.cpp issue 28050.
    Example. general.architecture is missing; the keys say qwen2
    Fix. `gguftool fix --set general.architecture=NAME`, when the other keys name it; else convert again.
    """
    f = m.fields.get(KEY)
    if f is not None and isinstance(f.told, str) and f.told:
        return
    told = _prefix(m)
    rest = f"; the keys of this file say {told}" if told else ""
    fix = Fix(f"set it to {told}, as the other keys say", (Set(KEY, told, "str"),)) if told else None
    if f is None or f.told == "":
        state = "is missing" if f is None else "is empty"
        yield found(f"{KEY} {state}{rest}", where=f"field:{KEY}", fix=fix, llama_cpp="unknown model architecture: ''")
    else:
        yield found(
            f"{KEY} is {f.type_name}, must be a string{rest}",
            where=f"field:{KEY}",
            fix=fix,
            llama_cpp=f"key {KEY} has wrong type {f.type_name} but expected type str",
        )


@rule(Severity.ERROR)
def architecture_unknown(m: Model, ctx: Context) -> Drafts:
    """The architecture must be one that llama.cpp knows.

    Why. llama.cpp refuses other names before it looks at anything else. Either the name is misspelt, or the model
    is newer than b11434 (then the program is too old, not the file broken). Rules that depend on the architecture
    are not evaluated then.
    Evidence. `llama-arch.cpp:LLM_ARCH_NAMES` (b11434, 154 names): "unknown model architecture: '…'".
    Example. architecture 'lama' is unknown to llama.cpp b11434; did you mean llama?
    Fix. `gguftool fix --set general.architecture=NAME` for a misspelling, a newer llama.cpp for a newer model.
    """
    name = m.architecture
    if not name or facts(name) is not None:
        return
    near = nearest(name)
    own = _prefix(m)
    guess = own if own is not None else near[0] if near else None
    said = f"unknown model architecture: '{name}'"
    if guess is not None and (own or f"{name}.block_count" not in m or guess == name.lower()):
        kin = tuple(Rename(key, guess + key[len(name) :]) for key in m.fields if key.startswith(f"{name}."))
        moved = "" if own is not None or not kin else f" and rename {name}.* with it"
        fix = Fix(f"set it to {guess}{moved}", (Set(KEY, guess, "str"), *(kin if moved else ())))
        hint = f"did you mean {guess}?"
    else:
        fix = None
        hint = "a newer llama.cpp may know it" + (f"; known names like it: {', '.join(near)}" if near else "")
    yield found(
        f"architecture {name!r} is unknown to {llama_cpp()}; {hint}",
        where=f"field:{KEY}",
        fix=fix,
        llama_cpp=said,
        near=near,
    )


@rule(Severity.ERROR, known_arch=True)
def architecture_unsupported(m: Model, ctx: Context) -> Drafts:
    """The architecture must be one that llama.cpp can run.

    Why. llama.cpp knows a few names without having a model class for them.
    Evidence. `llama-model.cpp:llama_model_create` (b11434): "unsupported model architecture: 'gptj'".
    Example. llama.cpp b11434 knows the name gptj but has no model for it
    Fix. None: convert the model to an architecture that is supported, or use another program.
    """
    known = facts(m.architecture)
    if known is not None and known.unsupported:
        yield found(
            f"{llama_cpp()} knows the name {known.name} but cannot run it: {known.unsupported}",
            where=f"field:{KEY}",
            llama_cpp=f"unsupported model architecture: '{known.name}'",
        )


@rule(Severity.ERROR, known_arch=True)
def required_key_missing(m: Model, ctx: Context) -> Drafts:
    """Every key that the architecture requires must be there.

    Why. llama.cpp stops at the first key it cannot find. `context_length` has its own rule.
    Evidence. `llama-model.cpp:load_hparams` and `models/*.cpp:load_arch_hparams` (b11434), the required keys of
    each architecture confirmed by deleting them one by one: "key not found in model: …".
    Example. llama.attention.layer_norm_rms_epsilon is missing
    Fix. `gguftool fix --set KEY=VALUE` with the value of `config.json`; it is never guessed. `lint --against FOLDER`
    writes what the converter would.
    """
    known = facts(m.architecture)
    if known is None or known.unsupported:
        return
    for key, r in read_keys(known.name).items():
        # The keys of every tokenizer belong to the tokenizer family.
        if key in m or r.required != ALWAYS or key.endswith(".context_length") or key.startswith("tokenizer."):
            continue
        kind = r.kind
        command = None if kind.endswith("arr") and "or" not in kind else edit("--set", blank(f"{key}="))
        there = converted(m, ctx).get(key.removeprefix(f"{known.name}."))
        fix = Fix("set it to the value of config.json", command=command) if command else None
        if there is not None:
            fix = Fix("write the value of config.json", (Set(key, there.value, there.type),))
        yield found(
            f"{key} is missing: llama.cpp refuses the file",
            where=f"field:{key}",
            fix=fix,
            llama_cpp=f"error loading model hyperparameters: key not found in model: {key}",
        )
