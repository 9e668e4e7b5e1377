"""Tensor stage: what the architecture asks for, in its order, against what the file has (b11434).

`llama-model-loader.cpp:create_tensor` compares name and shape; `done_getting_tensors` counts; the type of a tensor is
not looked at here (only RoPE factors are, by the test whether a buffer suits).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gguftool.brief import short_repr
from gguftool.facts.data import load
from gguftool.facts.machine.ends import Abort, Refusal
from gguftool.facts.machine.program import DUPLICATED, OPTIONAL, RESHAPE, SKIP, Machine, Row
from gguftool.facts.marks import bears
from gguftool.format.header import TensorInfo
from gguftool.records import dataclass, field
from gguftool.regex import regex

F32, NVFP4 = 0, 40


@dataclass(frozen=True, slots=True)
class Wanted:
    """One tensor an architecture asked for.

    Attributes:
        name: tensor name.
        shape: expected sizes in GGML order.
        required: the load fails without it.
        pattern: name with ``%d`` for the layer, as in the load map.
        formula: the expression of each size, in terms of `llama_hparams`.
        used: False when llama.cpp ignores the tensor though it knows the name.
        op: ggml operation it is made for (``MUL_MAT``, ``MUL``, ``GET_ROWS`` …).
        slot: llama.cpp's own name of the place, "" when there is none.
    """

    name: str
    shape: tuple[int, ...]
    required: bool
    pattern: str
    formula: tuple[str, ...]
    used: bool
    op: str
    slot: str

    __repr__ = short_repr


@dataclass(slots=True)
class Asked:
    """What happened so far: every wish, warnings, how many tensors were taken.

    With ``collect`` a fault does not end the run but is added to ``faults`` (for lint: all faults, not the first); so
    is one at a place that is ``forgiven``, and then the number of tensors does not count.
    """

    stored: Mapping[str, TensorInfo]
    collect: bool = False
    wanted: dict[str, Wanted] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    faults: list[Refusal | Abort] = field(default_factory=list)
    created: int = 0
    slots: dict[tuple[str, int], TensorInfo] = field(default_factory=dict)
    forgiven: frozenset[str] = frozenset()
    patterns: dict[str, tuple[bool, str]] = field(default_factory=dict)

    def __call__(
        self, name: str, index: list[int], shape: list[int], flags: int, pattern: str, layer: int, row: Row
    ) -> bool:
        """`create_tensor`: True when the tensor is there and used."""
        known = self.patterns.get(pattern)
        if known is None:
            base = pattern if pattern in _ops() else pattern.rsplit(".", 1)[0]
            known = self.patterns[pattern] = base.startswith("rope_f"), _op(pattern)
        factors, op = known
        required = not flags & OPTIONAL
        used = op != "NONE" and not flags & SKIP
        if name not in self.wanted or required:
            formula = tuple(row[3]) if not flags & RESHAPE else ()
            self.wanted[name] = Wanted(name, tuple(shape), required, pattern, formula, used, op, row[5])
        info = self.stored.get(name)
        if info is None:
            if required:
                words = "check_tensor_dims: tensor '{}' not found" if bears("dims-first") else "missing tensor '{}'"
                return self._fault(Refusal(words.format(name), f"tensor:{name}"))
            return False
        if info.shape != tuple(shape) and not self._fits(info, shape, flags) and (used or bears("dims-first")):
            have = padded(info.shape)
            text = f"check_tensor_dims: tensor '{name}' has wrong shape; expected {_dims(shape)}, got {_dims(have)}"
            fault = Refusal(text, f"tensor:{name}", expected=list(shape), got=list(info.shape))
            self._fault(fault)
        if not used:
            self.warnings.append(f"model has unused tensor {name} (size = {info.nbytes} bytes) -- ignoring")
            self.created += 1
            return False
        if factors and info.type_id != F32:
            self._fault(Abort("GGML_ASSERT(c->type == GGML_TYPE_F32) failed", f"tensor:{name}"))
        if not flags & DUPLICATED:
            self.created += 1
        if row[5]:
            self.slots[row[5], layer] = info
        return True

    def _fits(self, info: TensorInfo, shape: list[int], flags: int) -> bool:
        have, want = padded(info.shape), padded(tuple(shape))
        if flags & RESHAPE:
            return math.prod(have) == math.prod(shape)
        # Before b2500 the sizes behind those that were expected were not looked at.
        return have == want or (not bears("all-sizes") and padded(have[: len(shape)]) == want)

    def _fault(self, fault: Refusal | Abort) -> bool:
        if not self.collect and fault.where not in self.forgiven:
            try:
                raise fault
            finally:
                del fault  # else this frame, which the exception holds, would hold the exception
        self.faults.append(fault)
        return False


def _ops() -> Mapping[str, str]:
    ops: Mapping[str, str] = load("load_maps.json")["ops"]
    return ops


def _op(pattern: str) -> str:
    """The operation a tensor is made for; a bias is added."""
    ops = _ops()
    if pattern in ops:
        return ops[pattern]
    base, _, suffix = pattern.rpartition(".")
    op = ops.get(base, "MUL_MAT")
    if suffix == "bias" and op != "NONE":
        return "ADD_ID" if op == "MUL_MAT_ID" else "ADD"
    return op


def known(name: str) -> bool:
    """Whether a tensor of some model of llama.cpp's has this name, in whatever layer."""
    pattern = _pattern(name)
    return pattern in _ops() or pattern.rpartition(".")[0] in _ops()


def names_like(name: str) -> list[str]:
    """All names of weights in llama.cpp, those of layers with the numbers of this one."""
    numbers = _NUMBER.findall(name)
    return [f"{p.replace('%d', numbers[0]) if numbers else p}.weight" for p in _ops() if numbers or "%d" not in p]


def operation(name: str) -> str:
    """The ggml operation that a tensor of this name is made for (``MUL_MAT`` …)."""
    return _op(_pattern(name))


def adapted(arch: str, name: str) -> bool:
    """Whether the graph of an architecture asks adapters when it uses a weight; where that was not measured: yes.

    Some graphs multiply with a weight directly, so that an adapter for it loads and does nothing (measured, b11434).
    """
    op = operation(name)
    if op == "GET_ROWS":
        return name == "token_embd.weight"
    return op in MATRIX and _pattern(name).removesuffix(".weight") not in load("load_maps.json")["unadapted"].get(
        arch, ()
    )


MATRIX = ("MUL_MAT", "MUL_MAT_ID")


def _pattern(name: str) -> str:
    return _NUMBER.sub("%d", name)


# Between dots, as in blk.12.attn_q.
_NUMBER = regex(r"(?<=\.)[0-9]+(?=\.)")


def padded(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Four sizes, as ggml keeps them."""
    return (*shape, *[1] * (4 - len(shape)))


def _dims(shape: list[int] | tuple[int, ...]) -> str:
    width = 6 if bears("wide-sizes") else 5
    return ", ".join(f"{n:{width}d}" for n in shape)


def local_names(machine: Machine, n_vocab: int, n_token_types: int) -> dict[str, Any]:
    """The names every architecture starts with (`llama-model.h:LLAMA_LOAD_LOCALS`)."""
    call = {k[:-2]: v for k, v in machine.names.items() if k.endswith("()")}
    h = machine.h
    return {
        "n_layer": call["n_layer"](),
        "n_layer_all": h["n_layer_all"],
        "n_layer_nextn": h["n_layer_nextn"],
        "n_head": call["n_head"](),
        "n_head_kv": call["n_head_kv"](),
        "n_embd": h["n_embd"],
        "n_embd_k_gqa": call["n_embd_k_gqa"](),
        "n_embd_v_gqa": call["n_embd_v_gqa"](),
        "n_embd_head_k": call["n_embd_head_k"](),
        "n_embd_head_v": call["n_embd_head_v"](),
        "n_ff": call["n_ff"](),
        "n_embd_gqa": call["n_embd_v_gqa"](),
        "n_vocab": n_vocab,
        "n_token_types": n_token_types,
        "n_rot": call["n_rot"](),
        "n_expert": h["n_expert"],
        "n_expert_used": call["n_expert_used"](),
        "n_ctx_train": h["n_ctx_train"],
    }


def run(machine: Machine, rows: list[Row], asked: Asked) -> None:
    """Ask for all tensors of an architecture, then for the scales, then count.

    Raises:
        Refusal, Abort, Unknown: how it ends.
    """
    machine.ask = asked
    machine.stored = lambda name: padded(asked.stored[name].shape) if name in asked.stored else None
    machine.run(rows)
    _scales(machine, asked)
    count(asked)


def _scales(machine: Machine, asked: Asked) -> None:
    """Optional scales of weights that are there (`llama-model.cpp:load_tensors`)."""
    if not any(name.endswith("scale") for name in asked.stored):
        return
    n_expert = machine.h["n_expert"]
    for suffix in ("scale", "input_scale"):
        for layer in range(machine.h["n_layer_all"]):
            for slot, base in load("load_maps.json")["scales"]:
                name = f"blk.%d.{base}.{suffix}"
                mark = f"{slot}_{'s' if suffix == 'scale' else 'in_s'}"
                if (mark, layer) in machine.slots or (slot, layer) not in machine.slots:
                    continue
                size = n_expert if base.endswith("_exps") else 1
                row: Row = ["tensor", name, "i", ["n_expert" if size == n_expert else "1"], "optional", mark]
                machine.tensor(name, [layer], [size], OPTIONAL, mark, layer, row)
    output = asked.stored.get("output.weight") or asked.stored.get("token_embd.weight")
    if ("output", -1) in machine.slots and output is not None and output.type_id == NVFP4:
        for suffix in ("scale", "input_scale"):
            row = ["tensor", f"output.{suffix}", "", ["1"], "optional", f"output_{suffix}"]
            machine.tensor(f"output.{suffix}", [], [1], OPTIONAL, f"output_{suffix}", -1, row)


def count(asked: Asked) -> None:
    """`done_getting_tensors`: every tensor of the file was asked for."""
    total = len(asked.stored)
    if asked.created != total and not asked.forgiven:
        extra = [name for name in asked.stored if name not in asked.wanted]
        words = "too many tensors created" if asked.created > total and bears("too-many") else "wrong number of tensors"
        text = f"done_getting_tensors: {words}; expected {total}, got {asked.created}"
        where = f"tensor:{extra[0]}" if extra else "file"
        asked._fault(Refusal(text, where, extra=extra))
