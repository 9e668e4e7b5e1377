"""Many files at a time before the real llama.cpp library (xllamacpp, b11549): what the load, the context and the first
decode do. One child holds the library and forks for every file, so that a file may take its process down.

    for path, judged in judge(paths): judged.verdict, judged.context, judged.use, judged.errors, judged.warnings

The library of another build (``library=``) is called with its own defaults, whose structures need not be known for it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROMPT = b"Hello world 123\n"
LIMIT = 20
"""Seconds a file may take."""
MEMORY = 8 << 30
"""Bytes of address space that a file may take with the library of another build."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What the library did with one file.

    ``verdict``: loads, refused, aborts, hangs; ``context``, ``use``: ok, refused, aborts, hangs, fails, or "" when not
    reached; lines of level error and warning of the load; ``stderr``: what the dying process said.
    """

    verdict: str
    context: str
    use: str
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    stderr: str


class _Any(ctypes.Structure):
    """Parameters of an unknown build: larger than any, given back as they came; what lies beyond is not read."""

    _fields_ = (("bytes", ctypes.c_uint64 * 64),)


def judge(paths: Iterable[str], n_ctx: int = 512, library: Path | None = None) -> Iterator[Judged]:
    """Ask for each path in turn; a ``library`` of another build makes contexts of its own default, 512."""
    env = {**os.environ, "GGML_NO_BACKTRACE": "1", "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.oracle.verdicts", *([str(library)] if library else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
        cwd=ROOT,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        for path in paths:
            child.stdin.write(json.dumps({"path": path, "n_ctx": n_ctx}) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
            if not line:
                raise AssertionError("the oracle process ended")
            yield Judged(**{k: tuple(v) if isinstance(v, list) else v for k, v in json.loads(line).items()})
    finally:
        child.stdin.close()
        child.wait(timeout=30)


class _Library:
    def __init__(self, file: str | None = None) -> None:
        from gguftool.run import abi
        from tests.oracle.llama import _Batch

        folder = next(Path(p) / "xllamacpp" for p in sys.path if (Path(p) / "xllamacpp").is_dir())
        lib = self.lib = ctypes.CDLL(file or str(next(folder.glob("xllamacpp.*.so"))))
        self.own = file is None
        LogCallback = abi.LogCallback
        ModelParams, ContextParams = (abi.ModelParams, abi.ContextParams) if self.own else (_Any, _Any)
        pointer, flag, number = ctypes.c_void_p, ctypes.c_bool, ctypes.c_int32
        for name, result, arguments in (
            ("llama_model_default_params", ModelParams, ()),
            ("llama_context_default_params", ContextParams, ()),
            ("llama_model_load_from_file", pointer, (ctypes.c_char_p, ModelParams)),
            ("llama_init_from_model", pointer, (pointer, ContextParams)),
            ("llama_log_set", None, (LogCallback, pointer)),
            ("llama_model_get_vocab", pointer, (pointer,)),
            ("llama_vocab_n_tokens", number, (pointer,)),
            ("llama_tokenize", number, (pointer, ctypes.c_char_p, number, pointer, number, flag, flag)),
            ("llama_batch_get_one", _Batch, (pointer, number)),
            ("llama_decode", number, (pointer, _Batch)),
            ("llama_encode", number, (pointer, _Batch)),
            ("llama_model_has_encoder", flag, (pointer,)),
            ("llama_model_has_decoder", flag, (pointer,)),
            ("llama_model_decoder_start_token", number, (pointer,)),
            ("llama_backend_init", None, ()),
        ):
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        self.level = 2
        self.say: Any = None
        self.callback = LogCallback(self.heard)
        lib.llama_log_set(self.callback, None)
        lib.llama_backend_init()

    def heard(self, level: int, text: bytes, _: object) -> None:
        self.level = self.level if level == 5 else level
        if self.say is not None and self.level in (3, 4):
            self.say(log=[self.level, text.decode("utf-8", "replace").rstrip("\n")])

    def run(self, path: str, n_ctx: int, say: Any) -> None:
        """In the forked process: say each stage before the next begins."""
        self.say = say
        lib = self.lib
        params = lib.llama_model_default_params()
        if self.own:
            params.n_gpu_layers = 0
        model = lib.llama_model_load_from_file(os.fsencode(path), params)
        say(verdict="loads" if model else "refused")
        if not model:
            return
        wanted = lib.llama_context_default_params()
        if self.own:
            wanted.n_ctx, wanted.n_threads, wanted.n_threads_batch = n_ctx, 1, 1
        context = lib.llama_init_from_model(model, wanted)
        say(context="ok" if context else "refused")
        if context:
            say(use=self.use(model, context))

    def use(self, model: Any, context: Any) -> str:
        lib = self.lib
        vocab = lib.llama_model_get_vocab(model)
        ids = (ctypes.c_int32 * 64)()
        n = lib.llama_tokenize(vocab, PROMPT, len(PROMPT), ctypes.addressof(ids), 64, True, True)
        if n <= 0:
            return "no tokens"
        batch = lib.llama_batch_get_one(ctypes.addressof(ids), n)
        if lib.llama_model_has_encoder(model):
            code = lib.llama_encode(context, batch)
            if code == 0 and lib.llama_model_has_decoder(model):
                start = (ctypes.c_int32 * 1)(max(0, lib.llama_model_decoder_start_token(model)))
                code = lib.llama_decode(context, lib.llama_batch_get_one(ctypes.addressof(start), 1))
        else:
            code = lib.llama_decode(context, batch)
        return "ok" if code == 0 else "fails"


def _one(library: _Library, path: str, n_ctx: int) -> dict[str, Any]:
    read, write = os.pipe()
    err_read, err_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(err_write, 2)

        def say(**line: Any) -> None:
            os.write(write, json.dumps(line).encode() + b"\n")

        if not library.own:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            library.run(path, n_ctx, say)
            say(done=True)
        finally:
            os._exit(0)
    os.close(write)
    os.close(err_write)
    out, err, hung = _collect(pid, read, err_read)
    facts: dict[str, Any] = {"verdict": "", "context": "", "use": "", "errors": [], "warnings": [], "stderr": err}
    done = False
    for line in out.splitlines():
        said = json.loads(line)
        done = done or "done" in said
        if "log" in said:
            if not facts["verdict"]:
                facts["errors" if said["log"][0] == 4 else "warnings"].append(said["log"][1])
        else:
            facts.update({k: v for k, v in said.items() if k != "done"})
    if not done:
        stage = next(k for k in ("verdict", "context", "use") if not facts[k])
        facts[stage] = "hangs" if hung else "aborts"
    return facts


def _collect(pid: int, *pipes: int) -> tuple[str, str, bool]:
    """What both pipes say until the process ends or the time is up."""
    texts: dict[int, bytes] = dict.fromkeys(pipes, b"")
    still = list(pipes)
    end = time.monotonic() + LIMIT
    hung = False
    while still:
        ready, _, _ = select.select(still, [], [], max(0.0, end - time.monotonic()))
        if not ready:
            hung = True
            os.kill(pid, signal.SIGKILL)
            break
        for pipe in ready:
            data = os.read(pipe, 1 << 16)
            texts[pipe] += data
            if not data:
                still.remove(pipe)
    os.waitpid(pid, 0)
    for pipe in pipes:
        os.close(pipe)
    return texts[pipes[0]].decode("utf-8", "replace"), texts[pipes[1]].decode("utf-8", "replace"), hung


def _serve() -> None:
    library = _Library(*sys.argv[1:2])
    for line in sys.stdin:
        request = json.loads(line)
        sys.stdout.write(json.dumps(_one(library, request["path"], request["n_ctx"])) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
