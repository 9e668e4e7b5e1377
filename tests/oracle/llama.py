"""The real llama.cpp library as an oracle: loads a file, says what it said, decodes greedily.

It is the library inside the xllamacpp wheel (build b11549), called through ctypes, always in a child process, because a
GGML_ASSERT ends the process it happens in::

    answer = load(path)                    # answer.ok, answer.verdict, answer.errors, answer.log
    tokens = greedy(path, [2, 651], 8)     # ids, or AssertionError with the log
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the library did with a file.

    ``verdict``: loads, refused, or aborts (the process died or hung); ``context``: ok, refused, aborts or None when it
    was not asked for; ``log``: every line with its level (1 debug, 2 info, 3 warning, 4 error).
    """

    verdict: str
    context: str | None
    tokens: tuple[int, ...]
    logits: tuple[float, ...]
    log: tuple[tuple[int, str], ...]
    stderr: str

    @property
    def ok(self) -> bool:
        """True when the model was loaded, and a context made if one was asked for."""
        return self.verdict == "loads" and self.context in (None, "ok")

    @property
    def errors(self) -> tuple[str, ...]:
        """Lines of level error."""
        return tuple(text for level, text in self.log if level == 4)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines of level warning."""
        return tuple(text for level, text in self.log if level == 3)


def ask(path: Path | str, timeout: float = 120, **request: Any) -> Answer:
    """One question to a fresh child; see `_main` for what it may hold."""
    env = {**os.environ, "GGML_NO_BACKTRACE": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.oracle.llama"]
    text = json.dumps({"path": str(path), **request})
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout, env=env, cwd=ROOT)
        out, err = done.stdout, done.stderr
    except subprocess.TimeoutExpired as e:
        out = (e.stdout or b"").decode("utf-8", "replace") if isinstance(e.stdout, bytes) else (e.stdout or "")
        err = "timeout"
    facts: dict[str, Any] = {}
    log: list[tuple[int, str]] = []
    for line in out.splitlines():
        if line.startswith('{"log"'):
            log.append(tuple(json.loads(line)["log"]))
        elif line.startswith("{"):
            facts.update(json.loads(line))
    return Answer(
        verdict=facts.get("verdict", "aborts"),
        context=facts.get("context", "aborts" if request.get("n_ctx") and facts.get("verdict") == "loads" else None),
        tokens=tuple(facts.get("tokens", ())),
        logits=tuple(facts.get("logits", ())),
        log=tuple(log),
        stderr=err,
    )


def load(path: Path | str, *, n_ctx: int = 0, check_tensors: bool = False, **more: Any) -> Answer:
    """Load a model, with ``n_ctx`` also make a context of that many tokens."""
    return ask(path, n_ctx=n_ctx, check_tensors=check_tensors, **more)


def greedy(path: Path | str, prompt: list[int], n: int, *, n_ctx: int = 256, **more: Any) -> list[int]:
    """The ``n`` most likely next tokens after a prompt of token ids, one after the other."""
    answer = ask(path, n_ctx=n_ctx, prompt=prompt, n=n, **more)
    if len(answer.tokens) != n:
        raise AssertionError(
            f"{path}: {answer.verdict}, context {answer.context}: {answer.errors or answer.stderr[-500:]}"
        )
    return list(answer.tokens)


class _Batch(ctypes.Structure):
    """`llama.h:llama_batch`."""

    _fields_ = (
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.c_void_p),
        ("embd", ctypes.c_void_p),
        ("pos", ctypes.c_void_p),
        ("n_seq_id", ctypes.c_void_p),
        ("seq_id", ctypes.c_void_p),
        ("logits", ctypes.c_void_p),
    )


def _say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _main(request: dict[str, Any]) -> None:
    """The child: path; n_ctx; type_k, type_v; check_tensors; prompt and n."""
    from gguftool.run.abi import TYPE_IDS, ContextParams, LogCallback, ModelParams

    spec_folder = next(Path(p) / "xllamacpp" for p in sys.path if (Path(p) / "xllamacpp").is_dir())
    lib = ctypes.CDLL(str(next(spec_folder.glob("xllamacpp.*.so"))))
    pointer = ctypes.c_void_p
    for name, result, arguments in (
        ("llama_model_default_params", ModelParams, ()),
        ("llama_context_default_params", ContextParams, ()),
        ("llama_model_load_from_file", pointer, (ctypes.c_char_p, ModelParams)),
        ("llama_init_from_model", pointer, (pointer, ContextParams)),
        ("llama_log_set", None, (LogCallback, pointer)),
        ("llama_model_get_vocab", pointer, (pointer,)),
        ("llama_vocab_n_tokens", ctypes.c_int32, (pointer,)),
        ("llama_batch_get_one", _Batch, (pointer, ctypes.c_int32)),
        ("llama_decode", ctypes.c_int32, (pointer, _Batch)),
        ("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float), (pointer, ctypes.c_int32)),
        ("llama_backend_init", None, ()),
    ):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    level_now = [2]

    def heard(level: int, text: bytes, _: object) -> None:
        level_now[0] = level_now[0] if level == 5 else level  # 5: the line goes on
        _say(log=[level_now[0], text.decode("utf-8", "replace").rstrip("\n")])

    callback = LogCallback(heard)
    lib.llama_log_set(callback, None)
    lib.llama_backend_init()
    params = lib.llama_model_default_params()
    params.check_tensors = bool(request.get("check_tensors"))
    params.n_gpu_layers = 0
    if request.get("no_alloc"):
        params.no_alloc, params.load_mode = True, 0
    model = lib.llama_model_load_from_file(os.fsencode(request["path"]), params)
    _say(verdict="loads" if model else "refused")
    if not model or not request.get("n_ctx"):
        return
    wanted = lib.llama_context_default_params()
    if (wanted.n_batch, wanted.n_ubatch, wanted.n_seq_max, wanted.type_k) != (2048, 512, 1, 1):
        raise RuntimeError("the structures of this build are not those we know")
    wanted.n_ctx, wanted.n_threads, wanted.n_threads_batch = request["n_ctx"], 2, 2
    wanted.type_k = TYPE_IDS[request.get("type_k", "f16")]
    wanted.type_v = TYPE_IDS[request.get("type_v", "f16")]
    context = lib.llama_init_from_model(model, wanted)
    _say(context="ok" if context else "refused")
    if not context or not request.get("prompt"):
        return
    size = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    ids = list(request["prompt"])
    found: list[int] = []
    for step in range(request["n"]):
        array = (ctypes.c_int32 * len(ids))(*ids)
        code = lib.llama_decode(context, lib.llama_batch_get_one(ctypes.addressof(array), len(ids)))
        if code:
            _say(decode=code)
            return
        logits = lib.llama_get_logits_ith(context, -1)
        row = logits[:size]
        if step == 0:
            _say(logits=[round(x, 6) for x in row[:64]])
        ids = [max(range(size), key=row.__getitem__)]
        found += ids
    _say(tokens=found)


if __name__ == "__main__":
    _main(json.load(sys.stdin))
    sys.stdout.flush()
    os._exit(0)
