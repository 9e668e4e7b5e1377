"""`{arch}.context_length`."""

from __future__ import annotations

from gguftool.edit.ops import Operation, Rename, Set
from gguftool.lint.rule import Context, Drafts, Fix, Severity, edit, found, rule
from gguftool.lint.rules.deploy.prefix import misplaced
from gguftool.model import Model
from gguftool.model.positions import learnt_positions
from gguftool.shell import blank

LARGEST = 1 << 31


@rule(Severity.ERROR, known_arch=True)
def context_length_missing(m: Model, ctx: Context) -> Drafts:
    """The trained context length must be in the file.

    Why. llama.cpp refuses a model without `{arch}.context_length`; it is also the default of `--ctx-size` and the
    cap of every slot of llama-server.
    Evidence. `llama-model.cpp:load_hparams` (b11434): "key not found in model: llama.context_length".
    Example. qwen2.context_length is missing
    Fix. `gguftool fix --context-length N`, with N from the model's card or `config.json`
    (max_position_embeddings); it is never guessed. `lint --against FOLDER` or `lint --ctx N` fills it in.
    """
    key = f"{m.architecture}.context_length"
    if key in m:
        return
    wanted = ctx.wish.context_length or _told(m, ctx)
    other = next((k for k, right in misplaced(m) if right == key), None)
    fix = Fix("set the context length (from the model's card)", command=edit("--context-length", blank()))
    if other is not None:
        fix = Fix(f"rename {other} to {key}", (Rename(other, key),), safe=True)
    elif wanted:
        fix = Fix(f"set the context length to {wanted:,}", (Set(key, wanted, "u32"),), safe=True)
    yield found(
        f"{key} is missing: llama.cpp refuses the file",
        where=f"field:{key}",
        fix=fix,
        llama_cpp=f"error loading model hyperparameters: key not found in model: {key}",
    )


def _told(m: Model, ctx: Context) -> int | None:
    """The context length of the source folder."""
    if ctx.against is None:
        return None
    from gguftool.lint.rules.source.numbers import same_model

    return ctx.against.context_length if same_model(m, ctx) else None


@rule(Severity.ERROR)
def context_length_odd(m: Model, ctx: Context) -> Drafts:
    """The context length must be a real number of tokens.

    Why. llama.cpp loads a file with a context length of 0 or 4,294,967,295 without a word; the first makes
    llama-server's slots useless, the second makes it reserve memory for all of it when no `-c` is given.
    Evidence. Measured on b11434: context_length 0, 1 and 2^32-1 load silently.
    Example. llama.context_length is 0
    Fix. `gguftool fix --context-length N`.
    """
    value = m.arch.raw("context_length")
    if isinstance(value, bool) or not isinstance(value, int) or 16 <= value <= LARGEST:
        return
    key = f"{m.architecture}.context_length"
    yield found(
        f"{key} is {value:,}, which no model has",
        where=f"field:{key}",
        fix=Fix("set the context length", command=edit("--context-length", blank())),
    )


@rule(Severity.ERROR)
def context_length_too_small(m: Model, ctx: Context) -> Drafts:
    """The file must reach the context that is wanted.

    Why. llama-server caps every slot at `{arch}.context_length`, whatever `-c` says, and still pays memory for
    all of `-c`. A longer context than the model was trained for needs RoPE scaling, which costs quality on short
    texts. A model that has learnt its positions (BERT, GPT-2, StarCoder) has a table of them that nothing makes
    longer.
    Evidence. `server-context.cpp` (b11434): "exceeds the training context … capping"; checked only with
    `lint --ctx N`.
    Example. wanted 32,768 tokens, the file allows 4,096
    Fix. `gguftool fix --context-length N --rope-scaling yarn --rope-scale-factor F` with RoPE, or ask for less.
    """
    wanted, has = ctx.wish.context_length, m.arch.context_length
    if not wanted or not has or wanted <= has:
        return
    rows = learnt_positions(m)
    if rows is not None:
        yield found(
            f"wanted {wanted:,} tokens, its table of positions has {rows:,} rows: this model cannot have more",
            where=f"field:{m.architecture}.context_length",
            wanted=wanted,
            allowed=rows,
        )
        return
    arch = m.architecture
    origin = m.arch.int("rope.scaling.original_context_length") or has
    factor = wanted / origin
    grown = (Set(f"{arch}.context_length", wanted, "u32"),)
    ops: tuple[Operation, ...] = grown
    title = f"raise the context length to {wanted:,}"
    command = edit("--context-length", str(wanted))
    if m.arch.ropes:
        title += f" with YaRN, factor {factor:g} (short texts may suffer)"
        command += ("--rope-scaling", "yarn", "--rope-scale-factor", f"{factor:g}")
        ops = (
            *grown,
            Set(f"{arch}.rope.scaling.type", "yarn", "str"),
            Set(f"{arch}.rope.scaling.factor", factor, "f32"),
            Set(f"{arch}.rope.scaling.original_context_length", origin, "u32"),
            *((Set(f"{arch}.rope.freq_scale", 1 / factor, "f32"),) if f"{arch}.rope.freq_scale" in m else ()),
        )
    yield found(
        f"wanted {wanted:,} tokens, the file allows {has:,}: llama-server caps every slot there",
        where=f"field:{arch}.context_length",
        fix=Fix(title, ops, command=command if m.arch.ropes else None),
        wanted=wanted,
        allowed=has,
    )


KNOWN: dict[tuple[str, int, int], tuple[str, int, int]] = {("falcon", 60, 4096): ("Falcon2 11B", 2048, 8192)}
"""Architecture, layers, width -> model, the context its converter writes, the context it has."""


@rule(Severity.WARNING, known_arch=True)
def context_length_suspect(m: Model, ctx: Context) -> Drafts:
    """Some converters write a constant instead of the context length.

    Why. The Falcon converter writes 2,048 because `config.json` has no such field; Falcon2 11B has 8,192.
    Evidence. `conversion/falcon.py` (b11434); llama.cpp issue 8330. Known by the number of layers and the width.
    Example. falcon.context_length is 2,048, Falcon2 11B has 8,192
    Fix. `gguftool fix --context-length 8192`.
    """
    known = KNOWN.get((m.architecture, m.arch.int("block_count"), m.arch.embedding_length))
    if known is None or m.arch.context_length != known[1]:
        return
    name, written, real = known
    yield found(
        f"{m.architecture}.context_length is {written:,}, {name} has {real:,}: its converter writes a constant",
        where=f"field:{m.architecture}.context_length",
        fix=Fix(f"set it to {real:,}", command=edit("--context-length", str(real))),
    )
