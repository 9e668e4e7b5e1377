"""The first decode: types of tensors, the width of the rotation, and what a prompt needs (llama.cpp b11434)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from gguftool.facts.arch import facts
from gguftool.facts.machine.ends import Refusal
from gguftool.facts.machine.reader import Reader
from gguftool.model.vocab import vocabulary
from gguftool.predict.graph import (
    ABORTS,
    CONTEXT,
    DECODE,
    HANGS,
    asserts,
    attends,
    field,
    head_size,
    heads,
    int32,
    looks,
    machine_of,
    missing,
    rotation,
    types,
)
from gguftool.predict.state import Run
from gguftool.predict.texts import charsmap
from gguftool.predict.verdict import AfterLoad


def _decode_missing(state: Run) -> Iterator[AfterLoad]:
    yield from missing(state, DECODE)


def _decode_asserts(state: Run) -> Iterator[AfterLoad]:
    yield from asserts(state, "decode", DECODE)


def _decode_types(state: Run) -> Iterator[AfterLoad]:
    yield from types(state, DECODE)


def _epsilon(state: Run) -> Iterator[AfterLoad]:
    """Normalisation wants an epsilon that is not negative; most graphs have one of the two norms."""
    h = machine_of(state).h
    for look, name, key in (
        ("norm", "f_norm_eps", "attention.layer_norm_epsilon"),
        ("norm_rms", "f_norm_rms_eps", "attention.layer_norm_rms_epsilon"),
    ):
        value = h.get(name)
        idle = state.model.architecture in _EITHER and look == "norm" and h.get("f_norm_rms_eps", 0) != 0
        if looks(state, look) and not idle and isinstance(value, float) and (math.isnan(value) or value < 0):
            yield AfterLoad(DECODE, ABORTS, "GGML_ASSERT(eps >= 0.0f) failed", field(state, key))
            return


_EITHER = frozenset({"cohere2moe"})
"""Architectures with the plain norm only where the epsilon of the other one is 0."""


_OFFSET = frozenset({"deepseek4"})
"""Architectures that rotate the last numbers of a head; a rotation of nothing leaves them as they are."""
_WINDOWS_ROTATE = frozenset({"maple", "muse-glimmer", "exaone4", "exaone-moe"})
"""Architectures that rotate only where a sliding window is, if there is one at all."""


def _rotates(state: Run, layer: int) -> bool:
    machine = machine_of(state)
    windows = state.model.architecture in _WINDOWS_ROTATE and machine.h["swa_type"] != "none"
    return bool(machine.names["has_rope()"](layer)) and (not windows or bool(machine.names["is_swa()"](layer)))


def _rope(state: Run) -> Iterator[AfterLoad]:
    """Width of the rotation against the head size (`ops.cpp:ggml_compute_forward_rope_flt`)."""
    machine, arch = machine_of(state), facts(state.model.architecture)
    ropes = arch is not None and arch.ropes and any(machine.h.get("rope_pattern", (1,)))
    if arch is None or not ropes or machine.names["is_mla()"]() or arch.memory == "mla":
        return
    names = machine.names
    for layer in range(names["n_layer()"]()):
        if not heads(state, layer) or not attends(state, layer) or not _rotates(state, layer):
            continue
        (rot, key), head = rotation(state, layer), head_size(state, layer)
        where = field(state, key)
        if state.model.architecture in _OFFSET:
            if rot <= head and rot % 2 == 0:
                continue
            beyond = AfterLoad(CONTEXT, ABORTS, "GGML_ASSERT(n_offs >= 0) failed", where)
            yield beyond if rot > head else AfterLoad(DECODE, ABORTS, "GGML_ASSERT(n_dims % 2 == 0) failed", where)
        elif rot == 0:
            yield AfterLoad(DECODE, HANGS, "a rotation of width 0 never ends", where)
        elif rot > head:
            yield AfterLoad(DECODE, ABORTS, "GGML_ASSERT(n_dims <= ne0) failed", where)
        elif rot % 2:
            yield AfterLoad(DECODE, ABORTS, "GGML_ASSERT(n_dims % 2 == 0) failed", where)
        else:
            continue
        return
    if arch.rope in ("mrope", "imrope") and not any(v > 0 for v in machine.h["rope_sections"][:3]):
        words = "GGML_ASSERT(sections[0] > 0 || sections[1] > 0 || sections[2] > 0) failed"
        yield AfterLoad(DECODE, ABORTS, words, field(state, "rope.dimension_sections"))


def _start_token(state: Run) -> Iterator[AfterLoad]:
    """The token a decoder starts with."""
    if state.model.architecture != "t5":
        return
    start = state.model.get("t5.decoder_start_token_id")
    if isinstance(start, int) and state.vocab is not None and int32(start) >= state.vocab.n_tokens:
        words = f"init: invalid token[0] = {int32(start)}"
        yield AfterLoad(DECODE, "fails", words, field(state, "decoder_start_token_id"))


SAMPLE = b"Hello world 123\n"
"""Stands for what a user may write."""


def _prompt(state: Run) -> Iterator[AfterLoad]:
    """Tokens that a prompt needs."""
    vocab = state.vocab
    if vocab is None:
        return
    if vocab.kind == "none":
        words = (
            'GGML_ASSERT(tokenizer && "Tokenizer not initialized. Call llama_vocab::init_tokenizer() first.") failed'
        )
        yield AfterLoad(DECODE, ABORTS, words, "field:tokenizer.ggml.model")
        return
    ids = vocab.ids
    words = "GGML_ASSERT(special_{}_id != LLAMA_TOKEN_NULL) failed"
    if vocab.kind in ("SPM", "UGM", "PLaMo2", "BPE"):
        if vocab.add_bos and ids["bos"] < 0:
            yield AfterLoad(DECODE, ABORTS, words.format("bos"), "field:tokenizer.ggml.bos_token_id")
        elif vocab.add_eos and ids["eos"] < 0:
            yield AfterLoad(DECODE, ABORTS, words.format("eos"), "field:tokenizer.ggml.eos_token_id")
    elif vocab.kind == "WPM":
        for role, key in (("bos", "bos_token_id"), ("sep", "seperator_token_id")):
            if ids[role] < 0:
                yield AfterLoad(DECODE, ABORTS, words.format(role), f"field:tokenizer.ggml.{key}")
                return
    if vocab.kind == "RWKV":
        from gguftool.predict.rwkv import rwkv_gaps

        for number, endless in rwkv_gaps(vocabulary(state.model), SAMPLE):
            lacks = f"a letter of {SAMPLE.decode().strip()!r} has no token"
            if endless:
                yield AfterLoad(DECODE, HANGS, f"the tokenizer never ends: {lacks}", "field:tokenizer.ggml.model")
            elif ids["unk"] < 0:
                words = f"init: invalid token[{number}] = -1 ({lacks})"
                yield AfterLoad(DECODE, "fails", words, "field:tokenizer.ggml.model")
    if vocab.kind == "UGM":
        from gguftool.predict.unigram import normalised

        try:
            normalised(vocabulary(state.model), charsmap(Reader(state.model.fields, "")), SAMPLE)
        except Refusal as fault:
            text = f"terminate called after throwing an instance of 'std::runtime_error': {fault.text}"
            yield AfterLoad(DECODE, ABORTS, text, fault.where)
    if vocab.kind == "SPM" and not vocab.newline:
        text = "terminate called after throwing an instance of 'std::out_of_range' (a prompt with a line feed)"
        yield AfterLoad(DECODE, ABORTS, text, "field:tokenizer.ggml.tokens")


Check = Callable[[Run], Iterator[AfterLoad]]
CHECKS: tuple[Check, ...] = (_decode_missing, _decode_asserts, _decode_types, _epsilon, _rope, _start_token, _prompt)
