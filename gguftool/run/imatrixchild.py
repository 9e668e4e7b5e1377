"""The child of `gguftool.run.imatrix`: loads a model, reads a text, and adds up what its matrices are multiplied with.

Reads one JSON request from stdin, writes lines of JSON to stdout: notes about progress, files with what is summed up so
far, then the answer. The library shows every product of a graph before it is freed (``cb_eval``); which of them count,
and how, is `imatrix.cpp:collect_imatrix` (b11434).
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import sys
import time
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any

from gguftool.files.small import new_file
from gguftool.records import dataclass
from gguftool.run.abi import FLASH, ContextParams, Library
from gguftool.run.divergencechild import Batch, Model, Unable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH, SMALL_BATCH = 512, 128
"""Tokens that are read at once; fewer where the vocabulary makes the logits of so many too large."""
LARGE_VOCABULARY = 100_000
LEAST_ROWS = 16
"""Products of fewer rows do not count, as in llama-imatrix."""
TEXT_BYTES = 1 << 30
_F32 = 0


class Tensor(Structure):
    """`ggml.h:ggml_tensor`."""


Tensor._fields_ = (
    ("type", c_int),
    ("buffer", c_void_p),
    ("ne", c_int64 * 4),
    ("nb", c_size_t * 4),
    ("op", c_int),
    ("op_params", c_int32 * 16),
    ("flags", c_int32),
    ("src", POINTER(Tensor) * 10),
    ("view_src", POINTER(Tensor)),
    ("view_offs", c_size_t),
    ("data", c_void_p),
    ("name", c_char * 64),
    ("extra", c_void_p),
)


class InitParams(Structure):
    """`ggml.h:ggml_init_params`."""

    _fields_ = (("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool))


Seen = CFUNCTYPE(c_bool, POINTER(Tensor), c_bool, c_void_p)
"""`ggml-backend.h:ggml_backend_sched_eval_callback`."""


@dataclass(slots=True)
class Sums:
    """What was added up for one weight: a row for each expert."""

    squares: NDArray[np.float32]
    plain: NDArray[np.float32]
    counts: NDArray[np.int64]


class Collector:
    """Takes part in the evaluation of a graph."""

    def __init__(self, lib: Any, *, output: bool) -> None:
        self.lib, self.output = lib, output
        self.sums: dict[str, Sums] = {}
        self.fault = ""
        for name, result, arguments in (
            ("ggml_init", c_void_p, (InitParams,)),
            ("ggml_free", None, (c_void_p,)),
            ("ggml_new_tensor_2d", POINTER(Tensor), (c_void_p, c_int, c_int64, c_int64)),
            ("ggml_new_tensor_3d", POINTER(Tensor), (c_void_p, c_int, c_int64, c_int64, c_int64)),
            ("ggml_mul_mat", POINTER(Tensor), (c_void_p, POINTER(Tensor), POINTER(Tensor))),
            ("ggml_mul_mat_id", POINTER(Tensor), (c_void_p, POINTER(Tensor), POINTER(Tensor), POINTER(Tensor))),
            ("ggml_set_name", POINTER(Tensor), (POINTER(Tensor), c_char_p)),
            ("ggml_nbytes", c_size_t, (POINTER(Tensor),)),
            ("ggml_backend_buffer_is_host", c_bool, (c_void_p,)),
            ("ggml_backend_tensor_get", None, (POINTER(Tensor), c_void_p, c_size_t, c_size_t)),
        ):
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        self.mul_mat, self.mul_mat_id = self._operations()
        self.callback = Seen(self._seen)

    def _operations(self) -> tuple[int, int]:
        """The numbers of the two products; proves on products that are never computed that `Tensor` is the structure.

        Raises:
            Unable: the library has another one.
        """
        room = self.lib.ggml_init(InitParams(1 << 16, None, True))
        try:
            i32 = 26
            weight = self.lib.ggml_new_tensor_2d(room, _F32, 32, 5)
            experts = self.lib.ggml_new_tensor_3d(room, _F32, 32, 7, 3)
            rows = self.lib.ggml_new_tensor_2d(room, _F32, 32, 9)
            spread = self.lib.ggml_new_tensor_3d(room, _F32, 32, 1, 9)
            ids = self.lib.ggml_new_tensor_2d(room, i32, 2, 9)
            self.lib.ggml_set_name(weight, b"CPU#blk.0.attn_q.weight#0")
            one = self.lib.ggml_mul_mat(room, weight, rows).contents
            other = self.lib.ggml_mul_mat_id(room, experts, spread, ids).contents
            first = one.src[0].contents
            told = (
                first.name, tuple(first.ne), tuple(first.nb), tuple(one.ne), one.type, one.src[1].contents.ne[1],
                tuple(other.ne), other.src[2].contents.type, tuple(other.src[0].contents.ne), one.data,
                bool(one.view_src),
            )  # fmt: skip
            known = (
                b"CPU#blk.0.attn_q.weight#0", (32, 5, 1, 1), (4, 128, 640, 640), (5, 9, 1, 1), _F32, 9,
                (7, 2, 9, 1), i32, (32, 7, 3, 1), None, False,
            )  # fmt: skip
            if told != known or one.op == other.op:
                raise Unable("its structures are not those of the build we know")
            return one.op, other.op
        finally:
            self.lib.ggml_free(room)

    def _seen(self, at: Any, ask: bool, _: object) -> bool:
        """Asked whether a result is wanted, then shown it. Nothing may be raised through the library."""
        if self.fault:
            return not ask
        try:
            return self._wanted(at.contents) if ask else self._take(at.contents)
        except (Unable, ValueError, MemoryError) as error:
            self.fault = str(error) or type(error).__name__
            return False

    def _wanted(self, t: Tensor) -> bool:
        if t.op == self.mul_mat_id:
            return True
        if t.op != self.mul_mat:
            return False
        rows = t.src[1].contents
        if rows.ne[1] < LEAST_ROWS or rows.type != _F32:
            return False
        name = plain_name(t.src[0].contents.name)
        return name.startswith("blk.") or (self.output and name in ("output.weight", "token_embd.weight"))

    def _take(self, t: Tensor) -> bool:
        weight, rows = t.src[0].contents, t.src[1].contents
        name = plain_name(weight.name)
        width = rows.ne[0]
        if rows.type != _F32 or rows.nb[0] != 4:
            raise Unable(f"{name} is multiplied with something other than rows of f32")
        values = self._array(t.src[1], "<f4")
        if t.op == self.mul_mat_id:
            self._take_experts(name, weight.ne[2], width, values, self._array(t.src[2], "<i4"))
        else:
            self._take_rows(name, weight.ne[2], weight.ne[3], width, values)
        return True

    def _array(self, at: Any, kind: str) -> NDArray[Any]:
        """The numbers of a tensor, shaped (ne3, ne2, ne1, ne0), wherever its memory is."""
        import numpy as np

        t = at.contents
        size = self.lib.ggml_nbytes(at)
        if t.buffer and self.lib.ggml_backend_buffer_is_host(t.buffer):
            raw = (ctypes.c_char * size).from_address(t.data)
        else:
            raw = (ctypes.c_char * size)()
            self.lib.ggml_backend_tensor_get(at, raw, 0, size)
        return np.ndarray(tuple(reversed(t.ne)), kind, raw, strides=tuple(reversed(t.nb)))

    def _sums(self, name: str, experts: int, counts: int, width: int) -> Sums:
        import numpy as np

        found = self.sums.get(name)
        if found is None:
            shape = (experts, width)
            found = Sums(np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(counts, np.int64))
            self.sums[name] = found
        if found.squares.shape != (experts, width) or len(found.counts) not in (1, experts):
            raise Unable(f"{name} is used in two shapes")
        return found

    def _take_rows(self, name: str, second: int, third: int, width: int, values: NDArray[Any]) -> None:
        """A plain product; one of several matrices takes the rows of its own number."""
        matrices = second * third
        sums = self._sums(name, matrices, 1, width)
        rows = 0
        for i3 in range(values.shape[0]):
            for i2 in range(values.shape[1]):
                _add(sums, (i3 % third) * second + i2 % second, values[i3, i2], name)
                rows += values.shape[2]
        sums.counts += rows // matrices

    def _take_experts(self, name: str, experts: int, width: int, values: NDArray[Any], ids: NDArray[Any]) -> None:
        """A product in which every token goes through some of the experts."""
        import numpy as np

        rows, chosen = values[0], ids[0, 0]
        if chosen.shape[0] != rows.shape[0] or values.shape[0] != 1:
            raise Unable(f"{name} has more dimensions than a matrix can hold")
        sums = self._sums(name, experts, experts, width)
        if len(sums.counts) != experts:
            raise Unable(f"{name} is used in two shapes")
        for expert in np.unique(chosen):
            if not 0 <= expert < experts:
                raise Unable(f"{name}: a token went to expert {expert} of {experts}")
            token, slot = np.nonzero(chosen == expert)
            _add(sums, int(expert), rows[token, slot % rows.shape[1]], name)
            sums.counts[expert] += len(token)


def _add(sums: Sums, row: int, values: NDArray[Any], name: str) -> None:
    """Add rows up: within a batch in double precision, over batches in f32 as the file holds it."""
    import numpy as np

    wide = values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        sums.squares[row] += np.einsum("ij,ij->j", wide, wide)
        sums.plain[row] += wide.sum(axis=0)
    if not np.isfinite(sums.squares[row]).all():
        raise Unable(f"the model computes NaN or infinity: what {name} is multiplied with is not finite")


def plain_name(name: bytes) -> str:
    """The weight's own name: ``CUDA0#blk.0.attn_k.weight#0`` is a copy on a device."""
    parts = name.split(b"#")
    return (parts[1] if len(parts) > 1 else parts[0]).decode("utf-8", "surrogateescape")


class Reader:
    """A model with one context, read chunk by chunk."""

    def __init__(self, request: dict[str, Any]) -> None:
        try:
            library = Library()
        except (OSError, AttributeError, IndexError) as error:
            raise Unable(f"the library cannot be used: {error}") from None
        self.model = model = Model(request["path"], library)
        lib = model.lib
        self.collector = Collector(lib, output=bool(request["output"]))
        self.chunk = chunk = int(request["chunk"])
        most = SMALL_BATCH if model.size > LARGE_VOCABULARY else BATCH
        # Parts as equal as can be: a short rest of a chunk would not count.
        self.part = -(-chunk // -(-chunk // most))
        params: ContextParams = lib.llama_context_default_params()
        if (params.n_batch, params.n_ubatch, params.n_seq_max, params.type_k, params.type_v) != (2048, 512, 1, 1, 1):
            raise Unable("its structures are not those of the build we know")
        params.n_ctx, params.n_batch, params.n_ubatch = chunk, self.part, self.part
        params.n_outputs_max = self.part
        params.n_threads = params.n_threads_batch = int(request["threads"])
        params.flash_attn_type = FLASH["auto"]
        params.cb_eval = ctypes.cast(self.collector.callback, c_void_p)
        model.library.log.clear()
        self.ctx = lib.llama_init_from_model(model.model, params)
        if not self.ctx:
            said = [line.strip() for line in model.library.log if line.strip()]
            raise Unable(said[0].split(": ", 1)[-1] if said else "llama.cpp refused a context")
        self.surprise, self.squared, self.scored = 0.0, 0.0, 0

    def read(self, ids: list[int]) -> None:
        """One chunk; its second half is scored."""
        lib = self.model.lib
        lib.llama_memory_clear(lib.llama_get_memory(self.ctx), True)
        begin = self.model.begin
        fed = ids if begin is None else [begin, *ids[1:]]
        for start in range(0, len(fed), self.part):
            part = fed[start : start + self.part]
            tokens = (c_int32 * len(part))(*part)
            batch: Batch = lib.llama_batch_get_one(tokens, len(part))
            if batch.n_tokens != len(part) or ctypes.addressof(batch.token.contents) != ctypes.addressof(tokens):
                raise Unable("its structures are not those of the build we know")
            # All of them: the last layer is computed for tokens with an output only.
            batch.logits = (ctypes.c_int8 * len(part))(*[1] * len(part))
            code = lib.llama_decode(self.ctx, batch)
            lib.llama_synchronize(self.ctx)
            if self.collector.fault:
                raise Unable(self.collector.fault)
            if code != 0:
                raise Unable(f"decoding failed with code {code}")
            self._score(start, len(part), ids)

    def _score(self, start: int, count: int, ids: list[int]) -> None:
        import numpy as np

        for i in range(count):
            at = start + i
            if len(ids) // 2 <= at < len(ids) - 1:
                pointer = self.model.lib.llama_get_logits_ith(self.ctx, i)
                if not pointer:
                    raise Unable("the library gave no logits")
                row = np.ctypeslib.as_array(pointer, (self.model.size,)).astype(np.float64)
                row -= row.max()
                loss = math.log(float(np.exp(row).sum())) - float(row[ids[at + 1]])
                self.surprise, self.squared, self.scored = self.surprise + loss, self.squared + loss**2, self.scored + 1

    @property
    def perplexity(self) -> float | None:
        """Of the second halves so far."""
        mean = self.surprise / self.scored if self.scored else math.inf
        return math.exp(mean) if math.isfinite(mean) and mean < 700 else None

    def save(self, path: str) -> list[tuple[str, int, int, int]]:
        """Write the sums one behind the other; of each its name, experts, columns and number of counts."""
        with new_file(path, mine=lambda _: True, what="sums of this run") as put:
            for sums in self.collector.sums.values():
                for array in (sums.squares, sums.plain, sums.counts):
                    put(array.tobytes())
        return [(name, *s.squares.shape, len(s.counts)) for name, s in self.collector.sums.items()]


def measure(request: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """The whole measurement; ``say`` gets progress and names of files with what is summed up so far."""
    try:
        with open(request["text"], "rb") as file:
            text = file.read(TEXT_BYTES)
    except OSError as error:
        raise Unable(f"{request['text']}: {error.strerror or error}", usage=True) from None
    reader = Reader(request)
    chunk, first = reader.chunk, int(request["first"])
    ids = reader.model.tokens(text, special=bool(request["special"]))
    whole = len(ids) // chunk
    last = whole if request["chunks"] is None else min(whole, first + int(request["chunks"]))
    if last <= first:
        said = f"the text has {len(ids):,} tokens, which are {whole:,} chunks of {chunk:,}"
        raise Unable(f"{said}: give a longer one with --text, or a smaller --chunk", usage=True)
    every, began = int(request["every"]), time.monotonic()
    for n in range(first, last):
        reader.read(ids[n * chunk : (n + 1) * chunk])
        done = n + 1 - first
        left = (time.monotonic() - began) / done * (last - n - 1)
        say({"done": done, "of": last - first, "perplexity": reader.perplexity, "left": left})
        if every and done % every == 0 and n + 1 < last:
            path = f"{request['sums']}.{done}"
            say({"saved": path, "index": reader.save(path)})
    return {
        "index": reader.save(request["sums"]),
        "chunks": last - first,
        "whole": whole,
        "perplexity": reader.perplexity,
        "scored": reader.scored,
    }


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read the request, answer it, and leave without the library's own clean-up."""
    try:
        _say(measure(json.load(sys.stdin), lambda note: _say({"note": note})))
    except Unable as error:
        _say({"error": str(error), "usage": error.usage})
    except OSError as error:
        _say({"error": error.strerror or str(error), "room": error.errno in (28, 122)})
    os._exit(0)


if __name__ == "__main__":
    main()
