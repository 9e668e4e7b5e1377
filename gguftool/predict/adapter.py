"""What llama.cpp does with a LoRA adapter, alone or beside its base (`llama-adapter.cpp`, b11434).

A server that is given an adapter which is refused ends. What needs the base (does the weight exist, are the sizes its
sizes) is asked when there is one; alone an adapter is refused only for what no base could mend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gguftool.facts.arch import facts
from gguftool.facts.machine.ends import Abort, Refusal
from gguftool.facts.machine.taken import taken
from gguftool.format.types import ARR, value_type_name
from gguftool.model import Model
from gguftool.model.adapter import ALPHA, INVOCATION, TYPE, Adapter, Pair, adapter, size
from gguftool.predict.file import check_file, keys_as_c
from gguftool.predict.loaded import Weight, loaded
from gguftool.predict.tensors import adapted, known, padded
from gguftool.predict.types import MATRIX_OPS, NOT_WEIGHTS
from gguftool.predict.verdict import ABORTS, LOADS, REFUSED, UNKNOWN, AfterLoad, LoadEnds, Prediction
from gguftool.predict.words import APPLY, own_lines, type_name
from gguftool.records import dataclass
from gguftool.source import Source

_BASE = "(hint: maybe wrong base model?)"
_NO_BASE = "whether the base model has these weights, in these sizes"


@dataclass(slots=True)
class _Load:
    """One load in progress: the file, its base if there is one, and how far it got."""

    model: Model
    base: Model | None
    stage: str = "file"
    weights: Mapping[str, Weight] | None = None


def predict(m: Model, base: Model | None = None) -> Prediction:
    """What llama.cpp does with an adapter.

    Args:
        m: the adapter, opened with ``strict=False``.
        base: the model that it is given beside; None: what can be told without it.
    """
    load = _Load(m, base)
    try:
        it, gaps = _run(load)
    except LoadEnds as end:
        return unread(end, m.name, m.parts[0].source)
    except Refusal as fault:
        return Prediction(REFUSED, load.stage, (APPLY + fault.text,), where=fault.where, data=fault.data)
    except Abort as fault:
        return Prediction(ABORTS, load.stage, (fault.text,), where=fault.where, data=fault.data)
    after = _after(it, load.weights) if load.weights is not None else None
    return Prediction(LOADS, "done", after_load=after, not_evaluated=gaps, tensors=2 * len(it.pairs))


def unread(end: LoadEnds, path: str, source: Source) -> Prediction:
    """A file that is not read as GGUF, given as an adapter."""
    if end.verdict == UNKNOWN:
        return Prediction(UNKNOWN, "file", where=end.where, not_evaluated=end.messages)
    lines = (*own_lines(end.messages), APPLY + "failed to load lora adapter from file")
    return Prediction(end.verdict, "file", lines, where=end.where, data=end.data)


def _run(load: _Load) -> tuple[Adapter, tuple[str, ...]]:
    """All checks in order; the adapter, and what was left open.

    Raises:
        LoadEnds, Refusal, Abort: how it ends.
    """
    m = load.model
    check_file(m.parts[0])
    m = keys_as_c(m)
    load.stage = "architecture"
    _keys(m, load.base)
    load.stage = "tensors"
    it = adapter(m)
    if it.strangers:
        name = it.strangers[0]
        raise Refusal(f"LoRA tensor '{name}' has unexpected suffix", f"tensor:{name}")
    load.weights, gap = loaded(load.base) if load.base is not None else (None, _NO_BASE)
    for pair in it.pairs:
        _pair(pair, load.weights)
    if it.pairs and not any(half.nbytes for pair in it.pairs for half in (pair.a, pair.b) if half is not None):
        raise Refusal("failed to allocate buffer for lora adapter", f"tensor:{it.pairs[0].name}.lora_a")
    load.stage = "data"
    _bounds(m, it)
    return it, (gap,) if gap else ()


def _keys(m: Model, base: Model | None) -> None:
    """The metadata, in the order it is asked for."""
    fields = m.fields
    kind = taken(fields, "general.type", "str") or ""
    if kind != "adapter":
        raise Refusal(f"expect general.type to be 'adapter', but got: {kind}", "field:general.type")
    arch = taken(fields, "general.architecture", "str") or ""
    if facts(arch) is None or (base is not None and arch != base.architecture.partition("\0")[0]):
        data = {} if base is None else {"base": base.architecture}
        raise Refusal("model arch and LoRA arch mismatch", "field:general.architecture", **data)
    kind = taken(fields, TYPE, "str") or ""
    if kind != "lora":
        raise Refusal(f"expect adapter.type to be 'lora', but got: {kind}", f"field:{TYPE}")
    taken(fields, ALPHA, "f32")
    tokens = fields.get(INVOCATION)
    if tokens is None:
        return
    if tokens.type != ARR:
        raise Refusal(f"invalid gguf type for {INVOCATION}", f"field:{INVOCATION}", got=tokens.type_name)
    if value_type_name(tokens.element_type if tokens.element_type is not None else -1) != "u32":
        raise Refusal(f"invalid gguf element type for {INVOCATION}", f"field:{INVOCATION}", got=tokens.type_name)


def _pair(pair: Pair, weights: Mapping[str, Weight] | None) -> None:
    """Both halves, the weight of the base, and the sizes of all three."""
    if pair.a is None or pair.b is None:
        there = pair.a or pair.b
        where = f"tensor:{there.name}" if there is not None else "file"
        raise Refusal(f"LoRA tensor pair for '{pair.name}' is missing one component", where)
    where = f"tensor:{pair.a.name}"
    if weights is None and not known(pair.name):
        raise Refusal(f"LoRA tensor '{pair.name}' does not exist in base model {_BASE}", where)
    if weights is not None:
        weight = weights.get(pair.name)
        if weight is None:
            raise Refusal(f"LoRA tensor '{pair.name}' does not exist in base model {_BASE}", where)
        if pair.base_shape != weight.shape[:2]:
            data = {"expected": list(weight.shape), "got": list(pair.base_shape or ())}
            raise Refusal(f"tensor '{pair.name}' has incorrect shape {_BASE}", where, **data)
    if not pair.embedding and size(pair.a, 1) != size(pair.b, 0):
        example = '(hint: adapter from "finetune" example is no longer supported)'
        raise Refusal(f"lora_a tensor is not transposed {example}", where)


def _bounds(m: Model, it: Adapter) -> None:
    """The data of every pair inside the file; llama.cpp goes through the pairs in no order that could be told."""
    start, end = m.header.data_offset, m.parts[0].size
    halves = [half for pair in it.pairs for half in (pair.a, pair.b) if half is not None]
    out = [half for half in halves if start + half.offset + (half.nbytes or 0) > end]
    if out:
        text = f"LoRA tensor '{out[0].name}' data is not within the file bounds, file is corrupted or incomplete"
        missing = max(start + half.offset + (half.nbytes or 0) for half in out) - end
        raise Refusal(text, f"tensor:{out[0].name}", missing=missing, tensors=[half.name for half in out])


def _after(it: Adapter, weights: Mapping[str, Weight]) -> AfterLoad:
    """The first decode with the adapter (`llama-graph.cpp:build_lora_mm`, `build_inp_embd`, b11434)."""
    for pair in it.pairs:
        for outcome, text in _used(pair, weights[pair.name]):
            return AfterLoad("decode", outcome, text, f"tensor:{pair.name}.lora_a")
    return AfterLoad("decode", "ok")


def in_vain(arch: str, it: Adapter) -> tuple[tuple[Pair, ...], str]:
    """Pairs that the graph of an architecture never asks for, and what that comes to; names unknown to it are left out.

    Returns:
        the pairs, none where all is used; and a sentence.
    """
    pairs = [p for p in it.pairs if known(p.name)]
    idle = tuple(p for p in pairs if not adapted(arch, p.name))
    what = ", ".join(dict.fromkeys(p.target for p in idle))
    rest = f"{len(idle):,} of {len(pairs):,} pairs do nothing" if len(idle) < len(pairs) else "the adapter does nothing"
    return idle, f"llama.cpp does not ask an adapter for {what} of {arch}: {rest}"


_PRODUCT = "GGML_ASSERT(ggml_can_mul_mat(a, b)) failed"


def _used(pair: Pair, weight: Weight) -> Iterator[tuple[str, str]]:
    """What goes wrong with one pair in the graph."""
    if pair.a is None or pair.b is None or not weight.adapted:
        return
    a, b = padded(pair.a.shape), padded(pair.b.shape)
    if weight.op == "MUL_MAT_ID":
        if a[3] != 1 or b[3] != 1:
            yield ABORTS, "GGML_ASSERT(as->ne[3] == 1) failed"
        elif (experts := min(a[2], b[2])) < weight.shape[2]:
            text = f"reads past the end: {weight.shape[2]} experts, {experts} in the adapter"
            yield UNKNOWN if experts else ABORTS, text
    elif weight.op == "MUL_MAT" and (*a[2:], *b[2:]) != (1, 1, 1, 1):
        yield ABORTS, _PRODUCT
    elif weight.op == "GET_ROWS" and pair.embedding:
        if (a[2], a[3]) != (1, 1):
            yield ABORTS, f"GGML_ASSERT(a->ne[{2 if a[2] != 1 else 3}] == b->ne[{1 if a[2] != 1 else 2}]) failed"
        elif a[0] != b[0] or (b[2], b[3]) != (1, 1) or weight.tied:
            # The output is computed with the same weight, and there lora_a lies the wrong way round.
            yield ABORTS, _PRODUCT
    if not pair.rank and weight.op in MATRIX_OPS:
        # A row of no numbers has no stride.
        yield ABORTS, f"GGML_ASSERT(!ggml_is_transposed({'as' if weight.op == 'MUL_MAT_ID' else 'a'})) failed"
    if weight.op in MATRIX_OPS:
        for half in (pair.a, pair.b):
            if half.type_id in NOT_WEIGHTS:
                rows = half is pair.a and weight.op == "GET_ROWS"
                kind = "row lookup" if rows else "matrix product"
                yield ABORTS, f"a null pointer: no {kind} for {type_name(half.type_id)}"
