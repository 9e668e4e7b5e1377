"""Token ids from llama.cpp's own tokenizer: the library in a child process, with the vocabulary alone loaded.

Run as ``python -m gguftool.run.tokens`` it reads one JSON request from stdin and writes lines of JSON to stdout.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from ctypes import POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_void_p
from typing import Any

from gguftool.brief import short_repr
from gguftool.endings import run
from gguftool.errors import ToolFailed
from gguftool.records import dataclass
from gguftool.run.measurer import PACKAGE, VERSION, available

TIMEOUT = 300.0
LONGEST_PIECE = 1 << 16


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
    path: str, texts: Sequence[str], *, specials: bool = True, begin_and_end: bool = True, timeout: float = TIMEOUT
) -> Tokens:
    """Tokenise texts with the real library.

    Args:
        path: a ``.gguf`` file (the first shard of a set); of its tensors nothing is read.
        texts: any; lone surrogates stand for bytes that are no UTF-8.
        specials: find special tokens in the text, as llama-server does with a prompt.
        begin_and_end: add BOS and EOS where the file says so.
        timeout: seconds for all of it.

    Raises:
        ToolFailed: the library is not installed, does not take the file, ended, or took too long.
    """
    request = {"texts": _hex(texts), "overrides": [{}], "specials": specials, "add": begin_and_end}
    [made] = _ask(path, request, timeout)
    if "error" in made:
        raise ToolFailed(f"llama.cpp does not take the vocabulary of {path}: {made['error']}")
    pieces = {int(i): bytes.fromhex(piece) for i, piece in made["pieces"].items()}
    return Tokens(tuple(tuple(ids) for ids in made["ids"]), pieces)


def agreeing(
    path: str,
    texts: Sequence[str],
    wanted: Sequence[Sequence[int]],
    overrides: Sequence[Mapping[str, str | bool]],
    *,
    most: int = 3,
    seconds: float = 120.0,
    timeout: float = TIMEOUT,
) -> list[int]:
    """Which settings make the tokenizer cut every text as wanted; one is given up at the first that differs.

    Args:
        path: see `tokenize`.
        texts: those first that tell most.
        wanted: the ids of each, without begin and end.
        overrides: keys that take other values than the file's, strings or booleans, one set each.
        most: stop when so many agree.
        seconds: begin no further one after so many.
        timeout: see `tokenize`.

    Returns:
        Places in ``overrides``.
    """
    request = {
        "texts": _hex(texts),
        "wanted": [list(ids) for ids in wanted],
        "overrides": [dict(one) for one in overrides],
        "specials": True,
        "add": False,
        "most": most,
        "seconds": seconds,
    }
    return [i for i, made in enumerate(_ask(path, request, timeout)) if made.get("agrees")]


def _hex(texts: Sequence[str]) -> list[str]:
    return [text.encode("utf-8", "surrogateescape").hex() for text in texts]


def _ask(path: str, request: Mapping[str, Any], timeout: float) -> list[dict[str, Any]]:
    if not available():
        raise ToolFailed(
            f"token ids need {PACKAGE} {VERSION}, which is not installed", "pip install 'gguftool[server]'"
        )
    asked = json.dumps({**request, "path": os.path.abspath(path)})
    argv = [sys.executable, "-m", "gguftool.run.tokens"]
    try:
        done = run(argv, timeout, stdin=asked, env={**os.environ, "GGML_NO_BACKTRACE": "1"})
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{PACKAGE} did not tokenise with {path} in {timeout:.0f} seconds") from None
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not answers:
        last = [x for x in done.stderr.splitlines() if x.strip()][-1:] or ["no message"]
        raise ToolFailed(f"{PACKAGE} {VERSION} ended while it read the vocabulary of {path}: {last[0]}")
    return answers


class _Value(ctypes.Union):
    _fields_ = (("i", c_int64), ("f", c_double), ("b", c_bool), ("s", c_char * 128))


class _Override(Structure):
    """`llama.h:llama_model_kv_override`; one without a key ends the list."""

    _fields_ = (("tag", c_int), ("key", c_char * 128), ("value", _Value))


_BOOL, _STRING = 2, 3
_FUNCTIONS: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
    ("llama_model_get_vocab", c_void_p, (c_void_p,)),
    ("llama_model_free", None, (c_void_p,)),
    ("llama_tokenize", c_int32, (c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool)),
    ("llama_token_to_piece", c_int32, (c_void_p, c_int32, c_char_p, c_int32, c_int32, c_bool)),
)


def answers(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The child's part: one line of JSON for each set of keys."""
    from gguftool.run.abi import Library

    library = Library()
    for name, result, arguments in _FUNCTIONS:
        function = getattr(library.lib, name)
        function.restype, function.argtypes = result, arguments
    begun, agreed = time.monotonic(), 0
    texts = [bytes.fromhex(text) for text in request["texts"]]
    for values in request["overrides"]:
        made = _one(library, texts, values, request)
        agreed += bool(made.get("agrees"))
        yield made
        if "wanted" in request and (agreed >= request["most"] or time.monotonic() - begun > request["seconds"]):
            return


def _one(library: Any, texts: list[bytes], values: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    lib = library.lib
    params = lib.llama_model_default_params()
    if (params.n_gpu_layers, params.split_mode, params.vocab_only, params.no_alloc) != (-1, 1, False, False):
        return {"error": "its structures are not those of the build we know"}
    params.vocab_only = True
    overrides = (_Override * (len(values) + 1))()
    for place, (key, value) in zip(overrides, values.items(), strict=False):
        place.key = key.encode()
        if isinstance(value, bool):
            place.tag, place.value.b = _BOOL, value
        else:
            place.tag, place.value.s = _STRING, value.encode()
    if values:
        params.kv_overrides = ctypes.addressof(overrides)
    library.log.clear()
    model = lib.llama_model_load_from_file(os.fsencode(request["path"]), params)
    if not model:
        errors = [line for line in library.log if "error" in line.lower()]
        return {"error": (errors or library.log or ["it gives no reason"])[0].split(": ", 1)[-1]}
    vocab = lib.llama_model_get_vocab(model)
    if "wanted" in request:
        pairs = zip(texts, request["wanted"], strict=True)
        agrees = all(_ids(lib, vocab, text, request) == ids for text, ids in pairs)
        lib.llama_model_free(model)
        return {"agrees": agrees}
    ids = [_ids(lib, vocab, text, request) for text in texts]
    pieces = {i: _piece(lib, vocab, i).hex() for i in {i for some in ids for i in some}}
    lib.llama_model_free(model)
    return {"ids": ids, "pieces": pieces}


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
    for line in answers(json.load(sys.stdin)):
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    # The library's own clean-up at exit is not ours to wait for.
    os._exit(0)
