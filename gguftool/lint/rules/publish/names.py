"""Names of files against what is in them: people choose by the name, and llama-server -hf does, too."""

from __future__ import annotations

import os

from gguftool.edit.ops import Set
from gguftool.format.types import TENSOR_TYPES
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule
from gguftool.model import Model
from gguftool.model.filename import agrees, holds, label, relabelled, resized, sizes, stem
from gguftool.model.overview import overview
from gguftool.model.role import ROLES, role, sidecar_by_name
from gguftool.shell import FILE, path_word

FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
FACTOR = 2.0
"""How far a name may be from the number of parameters: embeddings are counted by some and not by others."""


def renamed(m: Model, right: str) -> Fix:
    """A file, or the files of a set, under another name; ``right`` without ending and number."""
    if len(m.parts) > 1 or m.shard_count > 1:
        words = ("gguftool", "verify", "--repair-names", "--prefix", right, "--yes", FILE)
        return Fix(f"rename the files to {right}-…", command=words)
    target = path_word(os.path.join(os.path.dirname(m.name), f"{right}.gguf"))
    return Fix(f"rename it to {right}.gguf", command=("mv", "-n", FILE, target))


@rule(Severity.WARNING, role="any", changes_run=False)
def name_quantisation(m: Model, ctx: Context) -> Drafts:
    """The quantisation in the name must be that of the tensors.

    Why. People choose by the name, and `llama-server -hf REPO:Q8_0` takes the file whose name has the label: a file
    that holds something else is larger, or worse, than what was asked for.
    Evidence. `common/download.cpp` (b11434) finds the file by the label in its name; the tensors decide what it is.
    Example. SmolLM2-135M-Instruct-Q8_0.gguf says Q8_0, its tensors are Q4_1 (77 % of the bytes)
    Fix. Rename it; or publish the file that was meant.
    """
    # Beside a model the name is that of the model: what an importance matrix is for, say.
    if ctx.publishing is None or m.missing_shards or role(m) in ("imatrix", "control-vector", "vocab", "metadata"):
        return
    said = label(m.name)
    own, most, share = holds(m)
    if not most:
        return
    name = os.path.basename(m.name)
    if not said:
        if most not in FLOATS and not sidecar_by_name(m.name):
            text = f"{name} does not say how it is quantised ({own or most}): -hf REPO:{own or most} does not find it"
            fix = renamed(m, relabelled(m.name, own or most))
            yield found(text, where="file", severity=Severity.INFO, fix=fix)
        return
    if agrees(m, said):
        return
    # The file's own label is taken where the tensors bear it out: a recipe says more than a type.
    right = own if own and (own.startswith((most, "IQ")) or most.startswith(own)) else most
    if right not in {t.name for t in TENSOR_TYPES.values()} and not own:
        return
    yield found(
        f"{name} says {said}, its tensors are {most} ({share:.0%} of the bytes)"
        + (f", general.file_type {own}" if own else ""),
        where="file",
        fix=renamed(m, relabelled(m.name, right)),
        label=said,
        type=most,
    )


@rule(Severity.WARNING, changes_run=False)
def name_size(m: Model, ctx: Context) -> Drafts:
    """The number of parameters in the name must be near that of the tensors.

    Why. Whoever looks for a 7B model finds the file by its name, and plans memory by it.
    Evidence. Counted from the shapes of the tensors. Experts are counted by some in one way and by others in another,
    so that such models are not judged; neither are names with no number.
    Example. Foo-70B-Q4_K_M.gguf says 70B, its tensors have 6,738,415,616 parameters
    Fix. Rename it; `gguftool fix --set general.size_label=…` for the key.
    """
    if ctx.publishing is None or m.missing_shards or m.arch.int("expert_count") > 1:
        return
    has = overview(m).parameters
    if not has:
        return
    said = sizes(m.name)
    if said and not any(has / FACTOR <= n <= has * FACTOR for n in said):
        largest = max(said)
        # 1M behind the name of a 7B model is a context.
        if largest >= 10**9 or has < 2 * 10**9:
            text = f"{os.path.basename(m.name)} says {_short(largest)}, its tensors have {has:,} parameters"
            yield found(text, where="file", fix=renamed(m, resized(m.name, _short(has))))
    key = "general.size_label"
    own = m.get(key)
    for n in sizes(f"-{own}") if isinstance(own, str) and len(own) < 40 else ():
        if not has / FACTOR <= n <= has * FACTOR:
            fix = Fix(f"write {_short(has)}", (Set(key, _short(has), "str"),))
            yield found(f"{key} is {own}, the tensors have {has:,} parameters", where=f"field:{key}", fix=fix)
            break


def _short(n: int) -> str:
    """As the converter writes it (`gguf-py/gguf/utility.py:model_weight_count_rounded_notation`, b11434)."""
    for unit, step in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if n > step or unit == "K":
            value = n / step
            places = max(2 - len(str(round(value)).lstrip("0")), 0)
            return f"{value:.{places}f}{unit}".replace(".0", "")
    return str(n)


@rule(Severity.WARNING, role="any", changes_run=False)
def name_role(m: Model, ctx: Context) -> Drafts:
    """The name must say what the file is: a projector, a draft, an importance matrix, or none of them.

    Why. `llama-server -hf` and most programs tell a projector from a model by `mmproj` in its name: without it the
    model is loaded without eyes, or the projector in the model's place; with it a model is never found.
    Evidence. `common/download.cpp:gguf_filename_is_model` (b11434).
    Example. vision-F16.gguf is a multimodal projector (for --mmproj), and its name does not say mmproj
    Fix. Rename it.
    """
    if ctx.publishing is None:
        return
    is_a: str = ctx.once("role", lambda: role(m))
    by_name = sidecar_by_name(m.name)
    name = os.path.basename(m.name)
    if is_a in ("mmproj", "imatrix") and by_name != is_a:
        text = f"{name} is {ROLES[is_a].what}, and its name does not say {is_a}"
        yield found(text, where="file", fix=renamed(m, f"{is_a}-{stem(m.name)}"))
    elif by_name and is_a in ("model", "encoder"):
        text = f"{name} is {ROLES[is_a].what}, and its name says {by_name}: -hf never takes it for the model"
        yield found(text, where="file")


@rule(Severity.INFO, role="any", whole=False, changes_run=False)
def name_odd(m: Model, ctx: Context) -> Drafts:
    """The name should be one that every shell, address and program takes as it stands.

    Why. The Hub and llama-server find models by `.gguf`; blanks and other letters than those of ASCII must be quoted
    in every command and escaped in every address.
    Evidence. `common/download.cpp` (b11434) and the Hub's viewer look for names that end in .gguf.
    Example. My Model Q4.gguf: blanks have to be quoted in every command
    Fix. Rename it.
    """
    if ctx.publishing is None:
        return
    name = os.path.basename(m.name)
    if not name.endswith(".gguf"):
        text = f"{name} does not end in .gguf: neither the Hub nor llama-server -hf finds it"
        yield found(text, where="file", severity=Severity.WARNING, fix=renamed(m, stem(m.name)))
        return
    odd = sorted({c for c in name if not (c.isascii() and (c.isalnum() or c in "._-+"))})
    if odd:
        right = "".join(c if c not in odd else "-" for c in stem(m.name)).strip("-") or "model"
        shown = ", ".join("blanks" if c == " " else repr(c) for c in odd[:5])
        yield found(f"{name}: {shown} must be quoted or escaped wherever it is named", where="file",
                    fix=renamed(m, right))  # fmt: skip
