"""The child of `gguftool.run.divergence`: reads a text with several models, or over several caches, at once.

Reads one JSON request from stdin, writes lines of JSON to stdout: notes about progress, then the answer. All contexts
go through the text in step, so nothing but one batch of logits has to be kept.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import sys
import time
from ctypes import POINTER, Structure, c_bool, c_char_p, c_float, c_int8, c_int32, c_uint32, c_void_p
from typing import TYPE_CHECKING, Any

from gguftool.records import dataclass, field
from gguftool.run.abi import FLASH, TYPE_IDS, ContextParams, Library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROWS = 32
"""Tokens of a batch: rows of logits that are held at once."""
WRITTEN = 16
"""Tokens written to measure the speed of writing."""


class Batch(Structure):
    """`llama.h:llama_batch`."""

    _fields_ = (
        ("n_tokens", c_int32),
        ("token", POINTER(c_int32)),
        ("embd", c_void_p),
        ("pos", c_void_p),
        ("n_seq_id", c_void_p),
        ("seq_id", c_void_p),
        ("logits", POINTER(c_int8)),
    )


class Unable(Exception):
    """The measurement cannot be made; ``usage``: the user asked for something impossible."""

    def __init__(self, message: str, *, usage: bool = False) -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(slots=True)
class Reading:
    """One model over a cache of one pair of types: its context, and what was seen at each position."""

    model: Model
    type_k: str
    type_v: str
    ctx: int = 0
    refused: str = ""
    cache_bytes: int = 0
    surprises: list[float] = field(default_factory=list)
    divergences: list[float] = field(default_factory=list)
    same: list[bool] = field(default_factory=list)
    seconds: float = 0.0
    write_seconds: float = 0.0


class Model:
    """A loaded model and the functions of the library."""

    def __init__(self, path: str, library: Library) -> None:
        self.library, self.lib = library, library.lib
        for name, result, arguments in (
            ("llama_model_get_vocab", c_void_p, (c_void_p,)),
            ("llama_vocab_bos", c_int32, (c_void_p,)),
            ("llama_vocab_get_add_bos", c_bool, (c_void_p,)),
            ("llama_vocab_n_tokens", c_int32, (c_void_p,)),
            ("llama_tokenize", c_int32, (c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool)),
            ("llama_batch_get_one", Batch, (POINTER(c_int32), c_int32)),
            ("llama_decode", c_int32, (c_void_p, Batch)),
            ("llama_get_logits_ith", POINTER(c_float), (c_void_p, c_int32)),
            ("llama_get_memory", c_void_p, (c_void_p,)),
            ("llama_memory_clear", None, (c_void_p, c_bool)),
            ("llama_n_ctx", c_uint32, (c_void_p,)),
            ("llama_model_has_encoder", c_bool, (c_void_p,)),
            ("llama_synchronize", None, (c_void_p,)),
        ):
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments
        library.log.clear()
        params = self.lib.llama_model_default_params()
        if (params.n_gpu_layers, params.split_mode, params.use_extra_bufts, params.no_alloc) != (-1, 1, True, False):
            raise Unable("its structures are not those of the build we know")
        self.model = self.lib.llama_model_load_from_file(os.fsencode(path), params)
        if not self.model:
            errors = [x for x in self.library.log if "error" in x.lower()]
            why = (errors or self.library.log or ["it cannot load the model"])[0]
            raise Unable(f"{os.path.basename(path)}: {why}")
        if self.lib.llama_model_has_encoder(self.model):
            raise Unable("this model has an encoder; only models that write left to right can be tested", usage=True)
        self.vocab = self.lib.llama_model_get_vocab(self.model)
        self.size = self.lib.llama_vocab_n_tokens(self.vocab)
        self.begin: int | None = self.lib.llama_vocab_bos(self.vocab)
        if not self.lib.llama_vocab_get_add_bos(self.vocab) or (self.begin or 0) < 0:
            self.begin = None

    def tokens(self, text: bytes, *, special: bool = False) -> list[int]:
        """Tokens of a text, with the begin token where the model wants one.

        Args:
            text: UTF-8.
            special: names of control tokens in it stand for these.
        """
        count, room = -(len(text) + 16), 0
        # A negative answer is the room that it wants: a letter may be more tokens than it has bytes.
        while count < -room:
            room = -count
            out = (c_int32 * room)()
            count = self.lib.llama_tokenize(self.vocab, text, len(text), out, room, True, special)
        if count <= 0:
            raise Unable("the tokenizer of this model makes nothing of the text")
        return list(out[:count])

    def open(self, r: Reading, chunk: int, threads: int) -> None:
        """Set up a context, or note why llama.cpp does not."""
        params: ContextParams = self.lib.llama_context_default_params()
        if (params.n_batch, params.n_ubatch, params.n_seq_max, params.type_k, params.type_v) != (2048, 512, 1, 1, 1):
            raise Unable("its structures are not those of the build we know")
        params.n_ctx, params.n_batch, params.n_ubatch = chunk + WRITTEN, ROWS, ROWS
        params.n_outputs_max = ROWS
        params.n_threads = params.n_threads_batch = threads
        params.type_k, params.type_v = TYPE_IDS[r.type_k], TYPE_IDS[r.type_v]
        params.flash_attn_type = FLASH["auto"]
        params.swa_full = False
        self.library.log.clear()
        r.ctx = self.lib.llama_init_from_model(self.model, params) or 0
        if not r.ctx:
            said = [x.strip() for x in self.library.log if x.strip()]
            r.refused = said[0].split(": ", 1)[-1] if said else "llama.cpp refused"
            return
        r.cache_bytes = sum(b["context"] for b in self.library._breakdown(r.ctx).values())

    def decode(self, r: Reading, tokens: list[int], *, outputs: bool) -> float:
        """Feed tokens; returns seconds.

        Raises:
            Unable: the library refuses.
        """
        ids = (c_int32 * len(tokens))(*tokens)
        batch = self.lib.llama_batch_get_one(ids, len(tokens))
        if batch.n_tokens != len(tokens) or ctypes.addressof(batch.token.contents) != ctypes.addressof(ids):
            raise Unable("its structures are not those of the build we know")
        flags = (c_int8 * len(tokens))(*([1] * len(tokens) if outputs else [0] * (len(tokens) - 1) + [1]))
        batch.logits = flags
        began = time.perf_counter()
        code = self.lib.llama_decode(r.ctx, batch)
        self.lib.llama_synchronize(r.ctx)
        if code != 0:
            raise Unable(f"decoding over a {r.type_k}/{r.type_v} cache failed with code {code}")
        return time.perf_counter() - began

    def row(self, r: Reading, index: int) -> NDArray[np.float32]:
        """Logits of one token of the last batch."""
        import numpy as np

        pointer = self.lib.llama_get_logits_ith(r.ctx, index)
        if not pointer:
            raise Unable("the library gave no logits")
        return np.ctypeslib.as_array(pointer, (self.size,))

    def clear(self, r: Reading) -> None:
        """Forget what was read."""
        self.lib.llama_memory_clear(self.lib.llama_get_memory(r.ctx), True)


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """The whole measurement."""
    try:
        library = Library()
    except (OSError, AttributeError, IndexError) as error:
        raise Unable(f"the library cannot be used: {error}") from None
    models: dict[str, Model] = {}
    for path, _, _ in request["readers"]:
        if path not in models:
            models[path] = Model(path, library)
            _note(f"{os.path.basename(path)} is loaded")
    chunk = int(request["chunk"])
    ids = _tokens(models, request["text"], chunk, int(request["tokens"]))
    readings = [Reading(models[path], k, v) for path, k, v in request["readers"]]
    for r in readings:
        r.model.open(r, chunk, int(request["threads"]))
        _note(f"{r.type_k}/{r.type_v}: " + (r.refused or "ready"))
    if readings[0].refused:
        raise Unable(f"nothing to compare with: {readings[0].refused}")
    live = [r for r in readings if r.ctx]
    for start in range(0, len(ids), chunk):
        _chunk(live, ids[start : start + chunk])
        _note(f"{start + chunk} of {len(ids)} tokens")
    for r in live if request["write"] else ():
        _write(r)
    return {"tokens": len(ids), "results": [_result(r, len(ids)) for r in readings]}


def _tokens(models: dict[str, Model], path: str, chunk: int, wanted: int) -> list[int]:
    """Whole chunks of the text, which all models must cut in the same way."""
    try:
        with open(path, "rb") as file:
            text = file.read(64 << 20)
    except OSError as error:
        raise Unable(f"{path}: {error.strerror or error}", usage=True) from None
    (first, model), *others = models.items()
    ids = model.tokens(text)
    for name, other in others:
        if other.size != model.size or other.begin != model.begin or other.tokens(text) != ids:
            raise Unable(f"{name} cuts the text into other tokens than {first}", usage=True)
    if len(ids) < chunk:
        raise Unable(f"the text has {len(ids)} tokens, a chunk is {chunk}: give a longer one with --text", usage=True)
    whole = min(wanted, len(ids))
    return ids[: whole - whole % chunk]


def _chunk(live: list[Reading], ids: list[int]) -> None:
    """One chunk with all; the second half is compared, so that each position has seen something."""
    begin = live[0].model.begin
    # As `perplexity.cpp:perplexity` (b11434) has it: each chunk begins as a text does.
    given = ids if begin is None else [begin, *ids[1:]]
    for r in live:
        r.model.clear(r)
    first = len(ids) // 2
    for start in range(0, len(ids), ROWS):
        part = given[start : start + ROWS]
        for r in live:
            r.seconds += r.model.decode(r, part, outputs=start + len(part) > first)
        for i in range(len(part)):
            at = start + i
            if first <= at < len(ids) - 1:
                _compare(live, i, ids[at + 1])


def _compare(live: list[Reading], index: int, following: int) -> None:
    """One position: surprise by the token that follows, and divergence from the first."""
    import numpy as np

    base = log_softmax(live[0].model.row(live[0], index))
    weights = np.exp(base)
    choice = int(base.argmax())
    for r in live:
        log = base if r is live[0] else log_softmax(r.model.row(r, index))
        r.surprises.append(-float(log[following]))
        r.same.append(int(log.argmax()) == choice)
        r.divergences.append(0.0 if r is live[0] else divergence_of(weights, base, log))


def divergence_of(weights: NDArray[np.float64], base: NDArray[np.float64], log: NDArray[np.float64]) -> float:
    """Nats; what the first finds impossible counts nothing, and what is no number stays none."""
    import numpy as np

    with np.errstate(invalid="ignore"):
        apart = base - log
    apart[weights == 0] = 0.0
    found = float(np.einsum("i,i->", weights, apart))
    return 0.0 if found < 0 else found


def log_softmax(row: NDArray[np.float32]) -> NDArray[np.float64]:
    """Logarithms of the probabilities, of logits."""
    import numpy as np

    x = row.astype(np.float64)
    x -= x.max()
    x -= math.log(float(np.exp(x).sum()))
    return x


def _write(r: Reading) -> None:
    """Write some tokens, the most likely each time."""
    model = r.model
    token = int(model.row(r, -1).argmax())
    for _ in range(WRITTEN):
        r.write_seconds += model.decode(r, [token], outputs=True)
        token = int(model.row(r, 0).argmax())


def _result(r: Reading, tokens: int) -> dict[str, Any]:
    if r.refused:
        return {"refused": r.refused}
    return {
        "cache_bytes": r.cache_bytes,
        "surprises": r.surprises,
        "divergences": r.divergences,
        "same": r.same,
        "prompt_speed": tokens / r.seconds if r.seconds else 0.0,
        "write_speed": WRITTEN / r.write_seconds if r.write_seconds else 0.0,
    }


def _note(text: str) -> None:
    _say({"note": text})


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read the request, answer it, and leave without the library's own clean-up."""
    try:
        _say(measure(json.load(sys.stdin)))
    except Unable as error:
        _say({"error": str(error), "usage": error.usage})
    os._exit(0)


if __name__ == "__main__":
    main()
