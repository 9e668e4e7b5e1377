"""Tensors that are missing, too many, or left aside."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.facts.data import load
from gguftool.lint.predicted import surveyed
from gguftool.lint.root import root
from gguftool.lint.rule import Context, Draft, Drafts, Severity, found, rule
from gguftool.lint.rules.metadata.blocks import MAX_LAYERS, block_of, layers_of_tensors
from gguftool.lint.rules.tensors.groups import MOST, blocked, dims, grouped, limited, several
from gguftool.model import Model
from gguftool.near import near_names
from gguftool.predict import Survey
from gguftool.predict.disagree import LOOPED


@rule(Severity.ERROR, known_arch=True)
def tensor_missing(m: Model, ctx: Context) -> Drafts:
    """A tensor that the architecture needs is not there.

    Why. llama.cpp refuses the file at the first tensor it does not find. The file was converted by an old or broken
    script, cut by a tool that read only one shard, or carries another program's names.
    Evidence. `llama-model-loader.cpp:check_tensor_dims` (b11434): "tensor 'output_norm.weight' not found".
    Example. output_norm.weight (64) is missing; the file has output_norm.weightx
    Fix. None: get the whole file, or convert it again.
    """
    s = surveyed(m, ctx)
    if s.machine is None:
        yield blocked(s)
        return
    # A wrong key that explains all is told where that key is told.
    cause = root(m, ctx)
    if cause.hopeless or not cause.readings:
        yield from limited(_missing(m, s))


def _missing(m: Model, s: Survey) -> Iterator[Draft]:
    # Layers that are missing altogether are one finding: block-count-tensors.
    have = layers_of_tensors(m) or MAX_LAYERS
    for i, names in enumerate(grouped(n for n in s.missing if block_of(n) < have).values()):
        wanted = s.wanted[names[0]]
        near = near_names(names[0], s.extra, 1, 0.8) if i < MOST else []
        hint = f"; the file has {near[0]}" if near else ""
        text = f"{names[0]} ({dims(wanted.shape)}) is missing{several(names)}{hint}"
        yield found(text, where=f"tensor:{names[0]}", tensors=names, shape=list(wanted.shape))


@rule(Severity.ERROR, known_arch=True)
def tensor_unexpected(m: Model, ctx: Context) -> Drafts:
    """The file has a tensor that the architecture does not know.

    Why. llama.cpp counts what it asked for and refuses the file when tensors are left over; its message names none.
    Evidence. `llama-model-loader.cpp:done_getting_tensors` (b11434): "wrong number of tensors; expected 12, got 11";
    llama.cpp issues 8650, 8676, 8761 (a new rope_freqs tensor under an old program).
    Example. blk.0.attn_q.biax is no tensor of llama; the nearest one is blk.0.attn_q.bias
    Fix. None: a newer llama.cpp may know it, else convert again.
    """
    s = surveyed(m, ctx)
    if s.machine is None or s.problem:
        yield blocked(s)
        return
    cause = root(m, ctx)
    if cause.hopeless or not cause.readings:
        yield from limited(_extra(m, s))


def _extra(m: Model, s: Survey) -> Iterator[Draft]:
    absent = [n for n in s.wanted if n not in s.stored]
    # Layers beyond block_count are one finding too: block-count-tensors.
    count = MAX_LAYERS if m.architecture in LOOPED else m.arch.block_count
    for i, names in enumerate(grouped(n for n in s.extra if block_of(n) < count).values()):
        near = near_names(names[0], absent, 1, 0.85) if i < MOST else []
        hint = f"; the nearest one is {near[0]}" if near else ""
        text = f"{names[0]} is no tensor of {m.architecture}{several(names)}{hint}"
        yield found(text, where=f"tensor:{names[0]}", tensors=names)


@rule(Severity.ERROR, known_arch=True)
def tensor_needed_by_graph(m: Model, ctx: Context) -> Drafts:
    """A tensor that the loader calls optional, but the computation needs.

    Why. The file loads; making a context then reads a null pointer and ends the process.
    Evidence. Found by deleting every optional tensor of 215 real model headers (llama.cpp b11549).
    Example. blk.0.ssm_conv1d.bias is not there; nemotron_h loads without it and dies when the context is made
    Fix. None: get the whole file, or convert it again.
    """
    s = surveyed(m, ctx)
    if s.machine is None or s.problem:
        yield blocked(s)
        return
    lost: list[str] = []
    for slot, condition, _ in load("load_maps.json")["needs"].get(m.architecture, ()):
        for layer in range(s.machine.names["n_layer()"]()):
            s.machine.names["il"] = layer
            if (slot, layer) not in s.machine.slots and s.machine.value(condition):
                lost += [n for n, w in s.wanted.items() if w.slot == slot and f"blk.{layer}." in n]
    for group in grouped(lost).values():
        text = f"{group[0]} is not there{several(group)}; {m.architecture} loads without it and dies afterwards"
        yield found(text, where=f"tensor:{group[0]}", tensors=group)


@rule(Severity.INFO, known_arch=True)
def tensor_ignored(m: Model, ctx: Context) -> Drafts:
    """Tensors that llama.cpp knows but does not use.

    Why. They take room on disk and in downloads; llama.cpp warns about each. Mostly layers for predicting several
    tokens at once.
    Evidence. `llama-model-loader.cpp:create_tensor` (b11434): "model has unused tensor … -- ignoring".
    Example. llama.cpp leaves 12 tensors (1.1 GB) aside: blk.46.nextn.eh_proj.weight …
    Fix. None needed.
    """
    s = surveyed(m, ctx)
    if s.machine is None:
        yield blocked(s)
        return
    if s.ignored and not root(m, ctx).readings:
        size = sum(s.stored[n].nbytes or 0 for n in s.ignored)
        text = f"llama.cpp leaves {len(s.ignored)} tensors ({size:,} bytes) aside: {s.ignored[0]} …"
        yield found(text, where=f"tensor:{s.ignored[0]}", tensors=list(s.ignored), bytes=size)
