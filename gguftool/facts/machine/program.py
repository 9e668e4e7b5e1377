"""Runs the rows of `load_maps.json`: which keys an architecture reads and which tensors it asks for, in order.

A row is a list whose first word says what it is::

    ["key", key, type, destination, required]      read a scalar
    ["tensor", name, index, shape, flags, slot]    ask for a tensor; slot remembers that it is there
    ["let"/"set", name, expression]                a local name (to the end of the block) / a new value
    ["item", array, index, expression]             one element
    ["if", condition, rows, rows]
    ["for", name, from, to, rows]   ["foreach", name, array, rows]   ["continue"]   ["return"]
    ["proc", name, parameters, rows]   ["call", name, arguments]   ["do", expression]
    ["slot", name, layer, expression]   ["alias", layer, source layer]
    ["warn", text]   ["fail", text]   ["assert", condition, words]   ["unknown", why]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import proxy

from gguftool.facts.enums import words
from gguftool.facts.machine.ends import Refusal, Unknown
from gguftool.facts.machine.expressions import Names, compiled
from gguftool.facts.machine.reader import Reader

Row = list[Any]
MAX_LAYERS = 512
MOST_ROUNDS = 8_000
"""Rounds of loops in one run; no healthy model comes near, a number made up by somebody can ask for 2³¹."""
OPTIONAL, DUPLICATED, SKIP, RESHAPE = 1, 2, 4, 8
"""How a tensor is asked for (`llama-model-loader.h`): may be absent, seen before, not used, any shape of that size."""
_FLAGS = {"": 0, "optional": OPTIONAL, "duplicated": DUPLICATED}
Ask = Callable[[str, list[int], list[int], int, str, int, Row], bool]


class _Continue(Exception):
    """Leaves one round of a loop."""


class _Return(Exception):
    """Leaves the rows."""


class Machine:
    """State of one run: hyperparameters, local names, which tensors are there."""

    def __init__(self, reader: Reader, h: dict[str, Any], ask: Ask | None = None) -> None:
        self.reader = reader
        self.h = h
        self.ask = ask
        self.warnings: list[str] = []
        self.layer = -1
        self.rounds = 0
        self.slots: set[tuple[str, int]] = set()
        self.stored: Callable[[str], tuple[int, ...] | None] = lambda name: None
        self.includes: Callable[[str, str], list[Row]] = lambda family, part: []
        self.procs: dict[str, tuple[list[str], list[Row]]] = {}
        self.names: Names = {"hparams": h, "arch": reader.arch, "OPTIONAL": OPTIONAL, "DUPLICATED": DUPLICATED}
        self.names |= {"SKIP": SKIP, "RESHAPE": RESHAPE}
        from gguftool.facts.machine.hparams import functions

        self.names |= {f"{name}()": f for name, f in functions(h).items()}
        self.names |= {f"{name}()": f for name, f in _own(proxy(self)).items()}

    def value(self, expression: str) -> Any:
        """Value of one expression now."""
        return compiled(expression)(self.names)

    def run(self, rows: list[Row]) -> None:
        """All rows of one part of an architecture."""
        try:
            self._block(rows)
        except _Return:
            return

    def _block(self, rows: list[Row]) -> None:
        saved: dict[str, Any] = {}
        missing = object()
        for row in rows:
            if row[0] == "let":
                saved.setdefault(row[1], self.names.get(row[1], missing))
                self.names[row[1]] = self.value(row[2])
            else:
                _STEPS[row[0]](self, row)
        for name, old in saved.items():
            if old is missing:
                del self.names[name]
            else:
                self.names[name] = old

    def store(self, name: str, value: Any) -> None:
        """Give a name a new value; ``h.x`` is a hyperparameter."""
        if name.startswith("h."):
            self.h[name[2:]] = value
        elif name:
            self.names[name] = value

    # -- keys

    def _key(self, key: str, type_name: str, target: str, required: bool) -> bool:
        value = self.reader.scalar(key, type_name, required)
        if value is None:
            return False
        self.store(target, value)
        return True

    def _array(self, key: str, element: str, most: int, target: str, required: bool) -> bool:
        values = self.reader.array(key, element, most, required)
        if values is None:
            return False
        self._keep(target, values, most)
        return True

    def _each(self, key: str, element: str, n: int, most: int, target: str, required: bool) -> bool:
        values = self.reader.per_layer(key, element, n, most, required)
        if values is None:
            return False
        self._keep(target, values, most)
        return True

    def _keep(self, target: str, values: list[Any], most: int) -> None:
        """A shorter array overwrites only the front of a fixed one."""
        if most and target.startswith("h."):
            old = self.h.get(target[2:])
            rest = list(old) if isinstance(old, list) else [0] * most
            values = values + rest[len(values) :]
        self.store(target, values)

    def _array_length(self, key: str, target: str, required: bool) -> bool:
        n = self.reader.array_length(key, required)
        if n is None:
            return False
        self.store(target, n)
        return True

    def _scalar(self, key: str, target: str, required: bool) -> bool:
        value = self.reader.scalar_only(key, required)
        if value is None:
            return False
        self.store(target, value)
        return True

    def _swa_pattern(self, period: int, dense_first: bool) -> None:
        """`llama-model.cpp:load_swa_pattern`: an array as it is, else a period."""
        key = "attention.sliding_window_pattern"
        if self._array(key, "u32", MAX_LAYERS, "h.is_swa_impl", False):
            return
        found = self.reader.scalar(key, "u32")
        n = period if found is None else found
        self.names["set_swa_pattern()"](n, dense_first)

    # -- tensors

    def tensor(
        self, name: str, index: list[int], shape: list[int], flags: int, slot: str, layer: int, row: Row
    ) -> bool:
        """Ask for a tensor; True when llama.cpp has it afterwards."""
        if self.ask is None:
            raise Unknown("tensors are asked for outside their stage")
        there = self.ask(filled_name(name, index), index, shape, flags, name, layer, row)
        if slot:
            (self.slots.add if there else self.slots.discard)((slot, layer))
        return there

    def _t(self, tensor: str, i: int, shape: list[int], expressions: list[str], flags: int, slot: str = "") -> bool:
        row: Row = ["tensor", f"blk.%d.{tensor}", "i", expressions, "", slot]
        layer = i if self.layer < 0 else self.layer
        return self.tensor(f"blk.%d.{tensor}", [i], shape, flags, slot, layer, row)

    def _qkv(self, i: int, n: int, q: int, k: int, v: int, flags: int, layer: int = -1) -> None:
        """`llama-model.cpp:create_tensor_qkv`: fused, or three apart."""
        self.layer = layer
        try:
            self._apart_or_fused(i, n, q, k, v, flags)
        finally:
            self.layer = -1

    def _apart_or_fused(self, i: int, n: int, q: int, k: int, v: int, flags: int) -> None:
        skip = flags & SKIP
        may = OPTIONAL | skip
        fused = self._t("attn_qkv.weight", i, [n, q + k + v], ["n_embd", "q + k + v"], may, "wqkv")
        if skip:
            self._t("attn_qkv.bias", i, [q + k + v], ["q + k + v"], may)
        elif fused and self._t("attn_qkv.bias", i, [q + k + v], ["q + k + v"], may, "wqkv_b"):
            return
        if not fused:
            own = may if skip else flags
            for name, size in (("q", q), ("k", k), ("v", v)):
                self._t(f"attn_{name}.weight", i, [n, size], ["n_embd", f"n_embd_{name}"], own, f"w{name}")
        for name, size in (("q", q), ("k", k), ("v", v)):
            self._t(f"attn_{name}.bias", i, [size], [f"n_embd_{name}"], may, f"w{name}_b")

    def _gate_up_exps(self, i: int, n: int, ff: int, experts: int, flags: int) -> None:
        """`llama-model.cpp:create_tensor_gate_up_exps`: fused, or two apart."""
        skip = flags & SKIP
        may = OPTIONAL | skip
        names = ["n_embd", "n_ff_exp", "n_expert"]
        fused = self._t("ffn_gate_up_exps.weight", i, [n, ff * 2, experts], names, may, "ffn_gate_up_exps")
        if fused:
            return
        own = may if skip else flags
        for part in ("gate", "up"):
            self._t(f"ffn_{part}_exps.weight", i, [n, ff, experts], names, own, f"ffn_{part}_exps")


def filled_name(name: str, index: Sequence[int]) -> str:
    """``blk.%d.attn_q.weight`` with its numbers; too many are ignored, as printf ignores them.

    Some older builds ask for a tensor they have no name for by the bare pattern: without any number it stays.
    """
    n = name.count("%d")
    return name % tuple(index[:n]) if n and index else name


def printf(template: str, *values: object) -> str:
    """C's format for the specifiers llama.cpp uses."""
    for spec in ("%zu", "%u", "%lu", "%lld", "%ld", "%i"):
        template = template.replace(spec, "%d")
    return template % values


def _step_key(m: Machine, row: Row) -> None:
    m._key(row[1], row[2], row[3], bool(row[4]))


def _step_tensor(m: Machine, row: Row) -> None:
    names = m.names
    index = [compiled(x)(names) for x in row[2].split(", ")] if row[2] else []
    shape = [compiled(x)(names) for x in row[3]]
    flags = _FLAGS[row[4]] if row[4] in _FLAGS else m.value(row[4])
    layer = m.value(row[6]) if len(row) > 6 else index[0] if index else -1
    m.tensor(row[1], index, shape, flags, row[5], layer, row)


def _step_if(m: Machine, row: Row) -> None:
    if m.value(row[1]):
        m._block(row[2])
    elif len(row) > 3:
        m._block(row[3])


def _step_for(m: Machine, row: Row) -> None:
    _loop(m, row[1], range(m.value(row[2]), m.value(row[3])), row[4])


def _loop(m: Machine, name: str, values: Sequence[Any], rows: list[Row]) -> None:
    old = m.names.get(name)
    for value in values:
        m.rounds += 1
        if m.rounds > MOST_ROUNDS:
            raise Unknown(f"the keys make llama.cpp loop more than {MOST_ROUNDS:,} times over {name}")
        m.names[name] = value
        try:
            m._block(rows)
        except _Continue:
            continue
    m.names[name] = old


def _step_proc(m: Machine, row: Row) -> None:
    m.procs[row[1]] = (row[2], row[3])


def _step_call(m: Machine, row: Row) -> None:
    parameters, rows = m.procs[row[1]]
    saved = {p: m.names.get(p) for p in parameters}
    m.names.update(zip(parameters, [m.value(a) for a in row[2]], strict=True))
    m._block(rows)
    m.names.update(saved)


def _step_item(m: Machine, row: Row) -> None:
    values = list(m.h.get(row[1][2:], ())) if row[1].startswith("h.") else list(m.names.get(row[1], ()))
    i = m.value(row[2])
    values += [0] * (i + 1 - len(values))
    values[i] = m.value(row[3])
    m.store(row[1], values)


def _step_slot(m: Machine, row: Row) -> None:
    place = (row[1], m.value(row[2]))
    (m.slots.add if m.value(row[3]) else m.slots.discard)(place)


def _step_alias(m: Machine, row: Row) -> None:
    """A layer that shares another one's tensors."""
    to, source = m.value(row[1]), m.value(row[2])
    m.slots |= {(slot, to) for slot, layer in m.slots if layer == source}


def _step_fail(m: Machine, row: Row) -> None:
    m.reader.refuse(str(m.value(row[1])))


def _step_assert(m: Machine, row: Row) -> None:
    if not m.value(row[1]):
        m.reader.abort(row[2])


def _step_unknown(m: Machine, row: Row) -> None:
    raise Unknown(f"what llama.cpp does here is not in our map of {m.reader.arch} ({row[1]})")


def _step_try(m: Machine, row: Row) -> None:
    try:
        m._block(row[1])
    except Refusal:
        m._block(row[2])


def _raise(error: type[Exception]) -> Callable[[Machine, Row], None]:
    def step(m: Machine, row: Row) -> None:
        raise error

    return step


def _step_abort(m: Machine, row: Row) -> None:
    m.reader.abort(row[1])


_STEPS: dict[str, Callable[[Machine, Row], None]] = {
    "key": _step_key,
    "tensor": _step_tensor,
    "set": lambda m, row: m.store(row[1], m.value(row[2])),
    "do": lambda m, row: m.value(row[1]),
    "if": _step_if,
    "for": _step_for,
    "foreach": lambda m, row: _loop(m, row[1], list(m.value(row[2])), row[3]),
    "proc": _step_proc,
    "call": _step_call,
    "item": _step_item,
    "slot": _step_slot,
    "alias": _step_alias,
    "fail": _step_fail,
    "assert": _step_assert,
    "abort": _step_abort,
    "try": _step_try,
    "unknown": _step_unknown,
    "warn": lambda m, row: m.warnings.append(row[1]),
    "include": lambda m, row: m.run(m.includes(row[1], row[2])),
    "continue": _raise(_Continue),
    "return": _raise(_Return),
}


def _own(machine: Machine) -> dict[str, Callable[..., Any]]:
    """Functions that rows call; ``machine`` is a weak reference, for the machine holds them, and a circle lives on."""

    def method(name: str) -> Callable[..., Any]:
        return lambda *given, **named: getattr(machine, name)(*given, **named)

    return {
        "key": method("_key"),
        "arr": method("_array"),
        "arr_n": method("_array_length"),
        "each": method("_each"),
        "scalar": method("_scalar"),
        "swa_pattern": method("_swa_pattern"),
        "has": lambda slot, layer: (slot, layer) in machine.slots,
        "stored": lambda name, index: machine.stored(filled_name(name, index)),
        "ne": lambda shape, i: shape[i],
        "qkv": method("_qkv"),
        "gate_up_exps": method("_gate_up_exps"),
        "full": machine.reader.full,
        "text": printf,
        "max": max,
        "min": min,
        "len": len,
        "str": str,
        "bool": bool,
        "u32": lambda v: v & 0xFFFFFFFF,
        "i32": lambda v: (v & 0xFFFFFFFF) - ((v & 0x80000000) << 1),
        "filled": lambda v: [int(v)] * MAX_LAYERS,
        "unique_count": lambda v: len({x for x in v if x >= 0}),
        "rope_scaling_of": lambda v: v if v in words("rope.scaling.type") else "unspecified",
        "vocabulary_size": lambda: 0,  # the vocabulary is read later
        "largest": lambda v: max(v, default=-1),
    }
