"""What the checks after the load share: outcomes, places, and the looks at rows of the load map."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gguftool.facts.data import load
from gguftool.facts.machine.ends import Abort, Unknown
from gguftool.predict.state import Run
from gguftool.predict.tensors import Asked, Wanted
from gguftool.predict.types import fault_of_type
from gguftool.predict.verdict import AfterLoad
from gguftool.predict.words import type_name

CONTEXT, DECODE = "context", "decode"
OK, REFUSED, ABORTS, HANGS, UNKNOWN = "ok", "refused", "aborts", "hangs", "unknown"


def machine_of(state: Run) -> Any:
    """The evaluator with the hyperparameters."""
    if state.machine is None:
        raise Unknown("the hyperparameters were not read")
    return state.machine


def field(state: Run, key: str) -> str:
    """``field:KEY`` under the file's architecture."""
    return f"field:{state.model.architecture}.{key}"


def attends(state: Run, layer: int) -> bool:
    """True for a layer with softmax attention; falcon-h1 has it beside the recurrent part of every layer."""
    return state.model.architecture == "falcon-h1" or not machine_of(state).names["is_recr()"](layer)


def int32(n: int) -> int:
    """A u32 as a C int."""
    return n - (1 << 32) if n >> 31 else n


def looks(state: Run, name: str) -> bool:
    """Whether the graph takes a number layer by layer (or has a norm): `scripts/facts/graph.py:OWN`."""
    return state.model.architecture in load("load_maps.json")["looks"][name]


def heads(state: Run, layer: int, kv: bool = False) -> int:
    """Heads (or KV heads) that the graph of a layer reckons with: most take those of the first layer for all."""
    name = "n_head_kv" if kv else "n_head"
    return int(machine_of(state).names[f"{name}()"](layer if looks(state, name) else 0))


def head_size(state: Run, layer: int, value: bool = False) -> int:
    """Size of a head of keys (or values) that the graph of a layer reckons with."""
    name = f"n_embd_head_{'v' if value else 'k'}()"
    return int(machine_of(state).names[name](layer if looks(state, "head_size") else 0))


def rotation(state: Run, layer: int) -> tuple[int, str]:
    """Width of the rotation that the graph of a layer asks for, and the key it comes from."""
    names = machine_of(state).names
    at = layer if looks(state, "n_rot") else 0
    if state.model.architecture == "laguna" and not names["is_swa()"](layer):
        at = 0
    return int32(names["n_rot()"](at)), "rope.dimension_count" + ("_swa" if names["is_swa()"](at) else "")


def asserts(state: Run, part: str, stage: str) -> Iterator[AfterLoad]:
    """Assertions of the architecture's graph about hyperparameters alone."""
    rows = load("load_maps.json")[part].get(state.model.architecture)
    if rows is None:
        return
    try:
        machine_of(state).run(rows)
    except Abort as fault:
        yield AfterLoad(stage, ABORTS, fault.text, field(state, _blame(fault.text)))
    except Unknown as gap:
        yield AfterLoad(stage, UNKNOWN, gap.why)


def _blame(words: str) -> str:
    """The key a failed head assertion most likely comes from."""
    for part, key in (
        ("n_rot", "rope.dimension_count"),
        ("n_embd_head_k", "attention.key_length"),
        ("n_embd_head_v", "attention.value_length"),
        ("token_shift_count", "token_shift_count"),
        ("n_group", "ssm.group_count"),
        ("sliding_window", "attention.sliding_window"),
        ("attn_temp_scale", "attention.sliding_window"),
        ("a->ne[d]", "ssm.inner_size"),
        ("ggml_nelements", "wkv.head_size"),
    ):
        if part in words:
            return key
    return "attention.head_count"


def missing(state: Run, stage: str) -> Iterator[AfterLoad]:
    """Tensors the graph uses without a look whether they are there (found by deleting each from real models)."""
    machine = machine_of(state)
    for slot, condition, when in load("load_maps.json")["needs"].get(state.model.architecture, ()):
        if when != stage:
            continue
        for layer in range(machine.names["n_layer()"]()):
            machine.names["il"] = layer
            if (slot, layer) not in machine.slots and machine.value(condition):
                yield AfterLoad(stage, ABORTS, f"a null pointer: the graph needs {slot} of layer {layer}")
                return


def types(state: Run, stage: str) -> Iterator[AfterLoad]:
    """Tensor types no kernel takes."""
    if state.asked is None:
        return
    if state.type_faults is None:
        state.type_faults = list(_type_faults(state.asked, state.model.architecture))
    for when, words, wanted, type_id in state.type_faults:
        if when == stage:
            yield AfterLoad(stage, ABORTS, words.format(type=type_name(type_id)), f"tensor:{wanted.name}")
            return


def _type_faults(asked: Asked, architecture: str) -> Iterator[tuple[str, str, Wanted, int]]:
    ignored = load("load_maps.json")["unused"].get(architecture, ())
    for wanted in asked.wanted.values():
        info = asked.stored.get(wanted.name)
        if info is None or not wanted.used or info.type_id == 0 or wanted.slot in ignored:
            continue
        when, words = fault_of_type(wanted, info.type_id)
        if when:
            yield when, words, wanted, info.type_id
