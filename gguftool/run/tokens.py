"""Token ids from llama.cpp's own tokenizer: the library in a child process, with the vocabulary alone loaded.

Run as ``python -m gguftool.run.tokens`` it reads one JSON request from stdin and writes one line of JSON to stdout.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from ctypes import POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from typing import Any

from gguftool.brief import short_repr
from gguftool.endings import run
from gguftool.errors import ToolFailed
from gguftool.run.measure import PACKAGE, VERSION, available

TIMEOUT = 300.0
LONGEST_PIECE = 1 << 16
PRE = "tokenizer.ggml.pre"


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the tokenizer makes of texts.

    Attributes:
        ids: of each text.
        pieces: the bytes that a token stands for, by id, of all that occur.
    """

    ids: tuple[tuple[int, ...], ...]
    pieces: Mapping[int, bytes]

    __repr__ = short_repr

    def piece(self, token: int) -> str:
        """A token's text; bytes that are no UTF-8 as lone surrogates."""
        return self.pieces.get(token, b"").decode("utf-8", "surrogateescape")


def tokenize(
    path: str,
    texts: Sequence[str],
    *,
    specials: bool = True,
    begin_and_end: bool = True,
    pre: str | None = None,
    timeout: float = TIMEOUT,
) -> Tokens:
    """Tokenise texts with the real library.

    Args:
        path: a ``.gguf`` file (the first shard of a set); of its tensors nothing is read.
        texts: any; lone surrogates stand for bytes that are no UTF-8.
        specials: find special tokens in the text, as llama-server does with a prompt.
        begin_and_end: add BOS and EOS where the file says so.
        pre: the pre-tokenizer in place of the file's.
        timeout: seconds for all of it.

    Raises:
        ToolFailed: the library is not installed, does not take the file, ended, or took too long.
    """
    if not available():
        raise ToolFailed(
            f"token ids need {PACKAGE} {VERSION}, which is not installed", "pip install 'gguftool[server]'"
        )
    request = {
        "path": os.path.abspath(path),
        "texts": [text.encode("utf-8", "surrogateescape").hex() for text in texts],
        "specials": specials,
        "add": begin_and_end,
        "pre": pre,
    }
    try:
        argv = [sys.executable, "-m", "gguftool.run.tokens"]
        done = run(argv, timeout, stdin=json.dumps(request), env={**os.environ, "GGML_NO_BACKTRACE": "1"})
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{PACKAGE} did not tokenise with {path} in {timeout:.0f} seconds") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        last = [x for x in done.stderr.splitlines() if x.strip()][-1:] or ["no message"]
        raise ToolFailed(f"{PACKAGE} {VERSION} ended while it read the vocabulary of {path}: {last[0]}")
    answer = json.loads(lines[-1])
    if "error" in answer:
        raise ToolFailed(f"llama.cpp does not take the vocabulary of {path}: {answer['error']}")
    pieces = {int(i): bytes.fromhex(piece) for i, piece in answer["pieces"].items()}
    return Tokens(tuple(tuple(ids) for ids in answer["ids"]), pieces)


class _Value(ctypes.Union):
    _fields_ = (("i", c_int64), ("f", c_double), ("b", c_bool), ("s", c_char * 128))


class _Override(Structure):
    """`llama.h:llama_model_kv_override`; one without a key ends the list."""

    _fields_ = (("tag", c_int), ("key", c_char * 128), ("value", _Value))


_STRING = 3
_FUNCTIONS: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
    ("llama_model_get_vocab", c_void_p, (c_void_p,)),
    ("llama_tokenize", c_int32, (c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool)),
    ("llama_token_to_piece", c_int32, (c_void_p, c_int32, c_char_p, c_int32, c_int32, c_bool)),
)


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """The child's part."""
    from gguftool.run.abi import Library

    library = Library()
    for name, result, arguments in _FUNCTIONS:
        function = getattr(library.lib, name)
        function.restype, function.argtypes = result, arguments
    params = library.lib.llama_model_default_params()
    if (params.n_gpu_layers, params.split_mode, params.vocab_only, params.no_alloc) != (-1, 1, False, False):
        return {"error": "its structures are not those of the build we know"}
    params.vocab_only = True
    overrides = (_Override * 2)()
    if request["pre"] is not None:
        overrides[0].tag, overrides[0].key = _STRING, PRE.encode()
        overrides[0].value.s = request["pre"].encode()
        params.kv_overrides = ctypes.addressof(overrides)
    model = library.lib.llama_model_load_from_file(os.fsencode(request["path"]), params)
    if not model:
        errors = [line for line in library.log if "error" in line.lower()]
        return {"error": (errors or library.log or ["it gives no reason"])[0].split(": ", 1)[-1]}
    vocab = library.lib.llama_model_get_vocab(model)
    ids = [_ids(library.lib, vocab, bytes.fromhex(text), request) for text in request["texts"]]
    return {"ids": ids, "pieces": {i: _piece(library.lib, vocab, i).hex() for i in {i for some in ids for i in some}}}


def _ids(lib: Any, vocab: int, text: bytes, request: Mapping[str, Any]) -> list[int]:
    room = len(text) + 16
    while True:
        out = (c_int32 * room)()
        count = lib.llama_tokenize(vocab, text, len(text), out, room, request["add"], request["specials"])
        if count >= 0:
            return list(out[:count])
        room = -count


def _piece(lib: Any, vocab: int, token: int) -> bytes:
    room = 256
    while room <= LONGEST_PIECE:
        out = ctypes.create_string_buffer(room)
        count = lib.llama_token_to_piece(vocab, token, out, room, 0, True)
        if count >= 0:
            return out.raw[:count]
        room = -count
    return b""


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answer(json.load(sys.stdin))) + "\n")
    sys.stdout.flush()
    # The library's own clean-up at exit is not ours to wait for.
    os._exit(0)
