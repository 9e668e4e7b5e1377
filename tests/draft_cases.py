"""Pairs of a target and what drafts for it, made from scratch, and what the real server does with each.

The record, `tests/data/llamacpp/drafts.jsonl`, was made with a llama-server built from release b11434, on a processor:
``python -m tests.draft_cases LLAMA_SERVER > tests/data/llamacpp/drafts.jsonl`` makes it anew.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.build import GGUF, llama
from tests.predict.recipes import ARR, NAMES, _Header, bases, built
from tests.speculators import WIDTH, dflash, eagle3, gemma4_assistant, glm, glm4, tokens_of

Pair = tuple[Callable[[], GGUF], Callable[[], GGUF] | None, str]
"""Target, draft (None: the target alone), value of ``--spec-type`` ("": none is given)."""
T = "tokenizer.ggml."


class Base(GGUF):
    """A header of the recorded bases, its data a hole of zeros."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.file = built({"base": name, "ops": []})
        for key, kind, value in _Header(*bases()[name]).kv:
            if key.startswith(b"tokenizer."):
                of = f"[{NAMES[value.element]}]" if kind == ARR else NAMES[kind]
                self.kv(key.decode(), list(value) if kind == ARR else value, of)

    def bytes(self) -> bytes:
        return self.file.data + bytes(self.file.size - len(self.file.data))


def target() -> GGUF:
    return llama(layers=2)


def gemma4() -> GGUF:
    return Base("tiny/gemma4")


def _words(g: GGUF, change: Callable[[list[str]], list[str]]) -> GGUF:
    """Other tokens; the embedding and the lists follow."""
    words = change(tokens_of(g))
    g.replace(T + "tokens", words).replace(T + "scores", [0.0] * len(words))
    g.replace(T + "token_type", ([2, 3, 3] + [6] * 256 + [1] * len(words))[: len(words)], "[i32]")
    return g.retensor("token_embd.weight", shape=(WIDTH, len(words)))


def _at(i: int, text: str) -> Callable[[list[str]], list[str]]:
    return lambda words: [text if j == i else w for j, w in enumerate(words)]


def _set(key: str, value: object) -> Callable[[], GGUF]:
    return lambda: llama().replace(T + key, value)


def _bpe(g: GGUF, pre: str = "gpt-2") -> GGUF:
    return g.replace(T + "model", "gpt2").kv(T + "pre", pre).kv(T + "merges", ["a b"])


def _unigram() -> GGUF:
    return llama().replace(T + "model", "t5").replace(T + "bos_token_id", 1)


S, E, M, F, D = "draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark"
PAIRS: dict[str, Pair] = {
    # vocabularies
    "a smaller model": (target, llama, S),
    "itself": (target, target, S),
    "no type given": (target, llama, ""),
    "other kind": (target, lambda: _bpe(llama()), S),
    "other kind, both ways": (lambda: _bpe(target()), llama, S),
    "unigram": (target, _unigram, S),
    "both byte pairs": (lambda: _bpe(target()), lambda: _bpe(llama()), S),
    "byte pairs, other pre": (lambda: _bpe(target()), lambda: _bpe(llama(), "qwen2"), S),
    "byte pairs, pre adds bos": (lambda: _bpe(target()), lambda: _bpe(llama(), "llama-bpe"), S),
    "add_bos off": (target, _set("add_bos_token", False), S),
    "add_bos off in both": (lambda: target().kv(T + "add_bos_token", False), _set("add_bos_token", False), S),
    "other bos": (target, _set("bos_token_id", 5), S),
    "other bos, added by neither": (
        lambda: target().kv(T + "add_bos_token", False),
        lambda: llama().kv(T + "add_bos_token", False).replace(T + "bos_token_id", 5), S,
    ),
    "bos out of range": (target, _set("bos_token_id", 99999), S),
    "add_eos on": (target, _set("add_eos_token", True), S),
    "other eos": (target, _set("eos_token_id", 5), S),
    "other eos, added by both": (
        lambda: target().kv(T + "add_eos_token", True),
        lambda: llama().kv(T + "add_eos_token", True).replace(T + "eos_token_id", 5), S,
    ),
    "same eos, added by both": (
        lambda: target().kv(T + "add_eos_token", True), _set("add_eos_token", True), S,
    ),
    "128 tokens more": (target, lambda: llama(tokens=160), S),
    "129 tokens more": (target, lambda: llama(tokens=161), S),
    "128 tokens fewer": (lambda: llama(tokens=160, layers=2), llama, S),
    "129 tokens fewer": (lambda: llama(tokens=161, layers=2), llama, S),
    "token 4 differs": (target, lambda: _words(llama(), _at(4, "<0xZZ>")), S),
    "token 5 differs": (target, lambda: _words(llama(), _at(5, "<0xZZ>")), S),
    "the last token differs": (target, lambda: _words(llama(), _at(290, "other")), S),
    "only a token beyond the shorter one": (target, lambda: _words(llama(tokens=40), _at(295, "other")), S),
    "tokens equal up to a NUL": (
        lambda: _words(target(), _at(290, "same\0one")), lambda: _words(llama(), _at(290, "same\0two")), S,
    ),
    "no vocabulary": (target, lambda: _without_vocabulary(llama()), S),
    "no vocabulary in either": (
        lambda: _without_vocabulary(target()), lambda: _without_vocabulary(llama()), S,
    ),
    "unknown architecture": (target, lambda: llama(arch="nothing"), S),
    # what is asked for and what the file is
    "simple without a draft": (target, None, S),
    "eagle3 without a draft": (target, None, E),
    "mtp without layers": (target, None, M),
    "mtp of a model without layers": (target, llama, M),
    "eagle3 of a plain model": (target, llama, E),
    "dflash of a plain model": (target, llama, F),
    "a head without a trunk as simple": (lambda: glm(heads=False), lambda: glm(trunk=False), S),
    # eagle3
    "eagle3": (target, eagle3, E),
    "eagle3 borrows": (target, lambda: eagle3(own=False), E),
    "eagle3 no type given": (target, eagle3, ""),
    "eagle3 as simple": (target, eagle3, S),
    "eagle3 reads the output": (target, lambda: eagle3(layers=(0, 1, 2)), E),
    "eagle3 reads beyond": (target, lambda: eagle3(layers=(0, 1, 3)), E),
    "eagle3 two layers": (target, lambda: eagle3(layers=(0, 1)), E),
    "eagle3 of a wider target": (target, lambda: eagle3(hidden=96), E),
    "eagle3 of a narrower target": (target, lambda: eagle3(hidden=32), E),
    "eagle3 of another vocabulary": (target, lambda: eagle3(llama(tokens=400)), E),
    "eagle3 of a smaller vocabulary": (lambda: llama(tokens=400, layers=2), eagle3, E),
    "eagle3 with fewer rows": (target, lambda: eagle3(rows=tuple(range(259, 291))), E),
    "eagle3 with a row beyond": (target, lambda: eagle3(rows=(*range(259, 290), 291)), E),
    "eagle3 with rows of 32 bits": (
        target, lambda: eagle3(rows=tuple(range(32))).retensor("d2t", type="i32", data=bytes(128)), E,
    ),
    "eagle3 for glm4moe": (glm, eagle3, E),
    "eagle3 borrows from a wider one": (
        lambda: glm(width=96), lambda: eagle3(hidden=96, own=False, layers=(2, 2, 2)), E,
    ),
    # dflash and dspark
    "dflash": (target, dflash, ""),
    "dflash borrows": (target, lambda: dflash(own=False), F),
    "dflash without block size": (target, lambda: dflash(block=None), F),
    "dflash of another width": (target, lambda: dflash(width=32), F),
    "dflash reads the output": (target, lambda: dflash(layers=(0, 2)), F),
    "dflash reads beyond": (target, lambda: dflash(layers=(0, 3)), F),
    "dflash no layers": (target, lambda: dflash().replace("dflash.target_layers", [], "[u32]"), F),
    "dflash for glm4moe": (glm, dflash, F),
    "dflash of another vocabulary": (target, lambda: dflash(llama(tokens=400)), F),
    "dflash as simple": (target, dflash, S),
    "dspark": (target, lambda: dflash(markov=True), ""),
    "dspark as dflash": (target, lambda: dflash(markov=True), F),
    "dflash as dspark": (target, dflash, D),
    "dspark without block size": (target, lambda: dflash(markov=True, block=None), D),
    # layers that predict
    "mtp": (glm, None, M),
    "mtp as draft too": (glm, glm, ""),
    "mtp head": (lambda: glm(heads=False), lambda: glm(trunk=False), M),
    "mtp head, no type given": (lambda: glm(heads=False), lambda: glm(trunk=False), ""),
    "mtp key without layers": (lambda: glm(heads=False), None, M),
    "mtp head of another width": (lambda: glm(heads=False, width=96), lambda: glm(trunk=False), M),
    "mtp head of another model": (target, lambda: glm(trunk=False), M),
    "mtp head of a larger vocabulary": (lambda: glm(heads=False), lambda: glm(trunk=False, tokens=400), M),
    "mtp head of a smaller vocabulary": (lambda: glm(heads=False, tokens=400), lambda: glm(trunk=False), M),
    "mtp of glm4": (glm4, None, M),
    "mtp with two layers": (lambda: glm(two=True), None, M),
    "gemma4-assistant": (gemma4, lambda: gemma4_assistant(gemma4()), M),
    "gemma4-assistant, no type given": (gemma4, lambda: gemma4_assistant(gemma4()), ""),
    "gemma4-assistant of another width": (gemma4, lambda: gemma4_assistant(gemma4(), width=96), M),
    "gemma4-assistant for llama": (target, gemma4_assistant, M),
    # text alone
    "ngram": (target, None, "ngram-simple"),
    "ngram and a draft": (target, llama, "ngram-simple,draft-simple"),
}  # fmt: skip


def _without_vocabulary(g: GGUF) -> GGUF:
    n = len(tokens_of(g))
    for e in [e[0] for e in g._kv if isinstance(e, tuple) and e[0].startswith(T)]:
        g.drop(e)
    return g.kv(T + "model", "no_vocab").kv("llama.vocab_size", n)


def start(server: str, words: list[str], log: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A server on a free port of this machine."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    argv = [server, "-c", "512", "-np", "1", "-t", "1", "--port", str(port), "-lv", "5", *words]
    with log.open("wb") as file:
        env = {**os.environ, "GGML_NO_BACKTRACE": "1"}
        return subprocess.Popen(argv, stdout=file, stderr=subprocess.STDOUT, env=env), port


def ask(port: int, path: str, body: dict[str, Any] | None = None) -> Any:
    """The answer, None without one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        return found if answer.status == 200 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def waited(process: subprocess.Popen[bytes], port: int) -> bool:
    """Whether the server is ready within 30 s, before it ends."""
    until = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < until:
        if ask(port, "/health") is not None:
            return True
        time.sleep(0.05)
    return False


SAID = re.compile(
    r"must (?:closely )?match target|vocabs are not compatible|failed to initialize spec|no implementations|MTP context"
    r"|context type MTP|auto-detected|GGML_ASSERT|EAGLE3: target|embedding size mismatch|failed to add token"
    r"|error loading model:"
)


def run(server: str, folder: Path, pair: Pair) -> dict[str, Any]:
    """What the server does: how it ended, what it drafted, what it said of it."""
    make_target, make_draft, kind = pair
    words = ["-m", str(make_target().write(folder / "target.gguf"))]
    words += ["-md", str(make_draft().write(folder / "draft.gguf"))] if make_draft else []
    process, port = start(server, [*words, *(["--spec-type", kind] if kind else [])], folder / "log")
    ready = False
    try:
        ready = waited(process, port)
        prompt = {"prompt": "t1t2t3" * 3, "n_predict": 24, "temperature": 0, "ignore_eos": True}
        answer = ask(port, "/completion", prompt) if ready else None
        time.sleep(0.2)
        code = process.poll()
    finally:
        process.terminate()
        process.wait()
    timings = (answer or {}).get("timings", {})
    text = (folder / "log").read_text(errors="replace")
    plain = re.sub(r"^[\d.]+ [A-Z] |^/\S+?:\d+: ", "", text, flags=re.M)
    lines = [re.sub(r"\s+", " ", x).strip() for x in plain.splitlines() if SAID.search(x)]
    drafted = timings.get("draft_n"), timings.get("draft_n_accepted")
    return {
        "ready": ready,
        "code": code,
        "drafted": drafted[0],
        "accepted": drafted[1],
        "said": list(dict.fromkeys(lines)),
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for title, case in PAIRS.items():
            print(json.dumps({"pair": title, **run(sys.argv[1], Path(name), case)}), flush=True)
