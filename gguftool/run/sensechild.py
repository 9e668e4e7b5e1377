"""The child of `gguftool.run.sensitivity`: reads a text with a model, and again whenever the file was changed.

One line of JSON comes on stdin with what to read; for each line, the first as well, one goes to stdout. What the model
as it was would say stays in a file, so that memory holds one batch of logits.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from ctypes import c_int8, c_int32, c_void_p
from typing import TYPE_CHECKING, Any

from gguftool.files.small import scratch_file
from gguftool.run.abi import FLASH, Library
from gguftool.run.divergencechild import Model, Unable, divergence_of, log_softmax

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROWS = 128
"""Tokens of a batch: rows of logits that are held at once."""
UNSEEN = 8
"""The first part of a chunk is not compared, so that each position has seen something: one over this."""


class Reader:
    """Reads the same tokens with whatever the file holds."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.chunk = int(order["chunk"])
        self.ids: list[int] = []
        try:
            self.library = Library()
        except (OSError, AttributeError, IndexError) as error:
            raise Unable(f"the library cannot be used: {error}") from None

    def rows(self) -> Iterator[tuple[int, NDArray[np.float32], int]]:
        """Of each position that is compared: its number, the logits, and the token that follows."""
        model = Model(self.order["path"], self.library)
        lib = model.lib
        lib.llama_model_free.restype, lib.llama_model_free.argtypes = None, (c_void_p,)
        if not self.ids:
            self.ids = self._tokens(model)
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_outputs_max = self.chunk, ROWS, ROWS, ROWS
        params.n_threads = params.n_threads_batch = int(self.order["threads"])
        params.flash_attn_type = FLASH["auto"]
        ctx = lib.llama_init_from_model(model.model, params)
        if not ctx:
            raise Unable((model.library.log or ["llama.cpp refused"])[0])
        try:
            yield from self._through(model, ctx)
        finally:
            lib.llama_free(ctx)
            lib.llama_model_free(model.model)

    def _tokens(self, model: Model) -> list[int]:
        try:
            with open(self.order["text"], "rb") as file:
                text = file.read(64 << 20)
        except OSError as error:
            raise Unable(f"{self.order['text']}: {error.strerror or error}", usage=True) from None
        ids = model.tokens(text)[: int(self.order["tokens"])]
        ids = ids[: len(ids) - len(ids) % self.chunk]
        if not ids:
            raise Unable(
                f"the text has fewer than {self.chunk} tokens: give a longer one with --text, or say --tokens",
                usage=True,
            )
        return ids

    def _through(self, model: Model, ctx: int) -> Iterator[tuple[int, NDArray[np.float32], int]]:
        import numpy as np

        number, first = 0, self.chunk // UNSEEN
        for begin in range(0, len(self.ids), self.chunk):
            model.lib.llama_memory_clear(model.lib.llama_get_memory(ctx), True)
            for start in range(0, self.chunk, ROWS):
                part = self.ids[begin + start : begin + min(start + ROWS, self.chunk)]
                if start == 0 and model.begin is not None:
                    # Each chunk begins as a text does.
                    part = [model.begin, *part[1:]]
                ids = (c_int32 * len(part))(*part)
                batch = model.lib.llama_batch_get_one(ids, len(part))
                batch.logits = (c_int8 * len(part))(*[1] * len(part))
                if model.lib.llama_decode(ctx, batch):
                    raise Unable("decoding failed")
                for i in range(len(part)):
                    if first <= start + i < self.chunk - 1:
                        pointer = model.lib.llama_get_logits_ith(ctx, i)
                        if not pointer:
                            raise Unable("the library gave no logits")
                        yield number, np.ctypeslib.as_array(pointer, (model.size,)), self.ids[begin + start + i + 1]
                        number += 1


def serve(order: dict[str, Any]) -> None:
    """Answer the first line, and each that follows."""
    import numpy as np

    reader = Reader(order)
    surprise, count, size = 0.0, 0, 0
    with scratch_file() as kept:
        for _number, row, following in reader.rows():
            log = log_softmax(row)
            surprise -= float(log[following])
            size = len(log)
            kept.write(log.astype(np.float32).tobytes())
            count += 1
        kept.flush()
        _say({"tokens": len(reader.ids), "compared": count, "perplexity": math.exp(min(700.0, surprise / count))})
        base = np.memmap(kept, np.float32, "r", shape=(count, size))
        for _ in sys.stdin:
            found = np.empty(count)
            for i, row, _following in reader.rows():
                own = base[i].astype(np.float64)
                found[i] = divergence_of(np.exp(own), own, log_softmax(row))
            if not np.isfinite(found).all():
                raise Unable("the model says no numbers any more")
            deviation = float(found.std(ddof=1) / math.sqrt(count)) if count > 1 else 0.0
            _say({"divergence": float(found.mean()), "deviation": deviation})


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read the order, answer, and leave without the library's own clean-up."""
    try:
        serve(json.loads(sys.stdin.readline()))
    except Unable as error:
        _say({"error": str(error), "usage": error.usage})
    os._exit(0)


if __name__ == "__main__":
    main()
