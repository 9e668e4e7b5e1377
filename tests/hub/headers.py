"""Headers of every size and order, for what it costs to read them; and a source that counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from random import Random
from typing import Any

from tests.build import GGUF


class Counting:
    """A large file that begins with ``header``, read as a remote one is: what was fetched is kept, the rest costs."""

    def __init__(self, header: bytes, size: int = 1 << 34) -> None:
        self.name = "x.gguf"
        self.header, self.size = header, size
        self.fetched = 0
        self.requests = 0

    def read_at(self, offset: int, n: int) -> bytes:
        end = min(offset + n, self.size)
        if end > self.fetched:
            self.fetched, self.requests = end, self.requests + 1
        data = self.header[offset:end]
        return data + bytes(end - offset - len(data))

    def close(self) -> None:
        pass


def bpe(n: int, seed: int = 1) -> tuple[list[str], list[str]]:
    """A vocabulary that is really joined of pieces, as byte-pair encodings are: tokens and merges."""
    rng = Random(seed)
    tokens = [chr(0x100 + i) if i < 0x21 else chr(i) for i in range(256)]
    seen, merges = set(tokens), []
    while len(tokens) < n:
        reach = max(256, len(tokens) // 2)
        left, right = tokens[int(rng.random() ** 2 * reach)], tokens[int(rng.random() ** 3 * reach)]
        if left + right not in seen and len(left + right) < 24:
            tokens.append(left + right)
            seen.add(left + right)
            merges.append(f"{left} {right}")
    return tokens[:n], merges


def pieces(n: int, seed: int = 1) -> list[str]:
    """A vocabulary of SentencePiece's looks."""
    rng = Random(seed)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["▁" * (rng.random() < 0.6) + "".join(rng.choices(letters, k=rng.randint(1, 12))) for _ in range(n)]
    return (["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + words)[:n]


Fields = list[tuple[str, object, str | None]]


@lru_cache(2)
def vocabulary(kind: str, n: int) -> Fields:
    """The tokenizer's fields of a model with ``n`` tokens."""
    types: tuple[str, object, str | None] = ("tokenizer.ggml.token_type", [1] * n, "[i32]")
    scores: tuple[str, object, str | None] = ("tokenizer.ggml.scores", [0.5] * n, "[f32]")
    if kind == "gpt2":
        tokens, merges = bpe(n)
        model = [("tokenizer.ggml.model", "gpt2", None), ("tokenizer.ggml.tokens", tokens, "[str]"), types]
        return [*model, ("tokenizer.ggml.merges", merges, "[str]")]
    if kind == "llama":
        model = [("tokenizer.ggml.model", "llama", None), ("tokenizer.ggml.tokens", pieces(n), "[str]")]
        return [*model, scores, types]
    names = {
        "numbered": [f"token_{i}" for i in range(n)],
        "long first": [("x" * 60 if i < n // 50 else "y") + str(i) for i in range(n)],
        "long": [f"{i:060d}" for i in range(n)],
        "empty": [""] * n,
    }[kind]
    # Of a known kind, and with nothing of what usually follows.
    return [("tokenizer.ggml.model", "gpt2", None), ("tokenizer.ggml.tokens", names, "[str]")]


def header(
    fields: Fields, tensors: int = 0, *, order: str = "usual", template: int = 0, before: int = 0, arrays: int = 0
) -> bytes:
    """The bytes of a header.

    Args:
        fields: of the tokenizer.
        tensors: how many.
        order: of those fields: ``usual``, ``reversed``, ``first`` (in front of everything).
        template: bytes of the chat template, behind the vocabulary.
        before: bytes of a text in front of the vocabulary.
        arrays: as many arrays of 100 kB of numbers behind it.
    """
    rest: Fields = [("general.architecture", "llama", None), ("general.name", "a model", None)]
    rest += [(f"llama.key_{i}", i, None) for i in range(20)]
    if before:
        rest.append(("general.description", "d" * before, None))
    behind: Fields = [("tokenizer.ggml.bos_token_id", 1, None)]
    if template:
        behind.append(("tokenizer.chat_template", "{{ x }}" + "t" * template, None))
    behind += [(f"llama.list_{i}", [1] * 25_000, "[i32]") for i in range(arrays)]
    fields = fields[::-1] if order == "reversed" else fields
    g = GGUF()
    for row in (*fields, *rest, *behind) if order == "first" else (*rest, *fields, *behind):
        g.kv(*row)
    for i in range(tensors):
        g.tensor(f"blk.{i // 9}.ffn_gate_{i % 9}.weight", (32, 4), "f32", b"")
    return g.header()


def every() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Headers from 1 KB to 16 MB: their names, and what makes them."""
    yield "keys alone", lambda: header([])
    for tensors in (1, 30, 300, 1200, 3000, 40_000):
        yield f"no vocabulary, {tensors} tensors", partial(header, [], tensors)
    for kind in ("gpt2", "llama", "numbered", "long first", "long", "empty"):
        for n in (300, 3000, 12_000, 50_000):
            made = partial(_with, kind, n)
            yield f"{kind}, {n}", partial(made, 291, template=4000)
            if n in (3000, 50_000):
                yield f"{kind}, {n}, reversed", partial(made, 30, order="reversed")
                yield f"{kind}, {n}, first", partial(made, 2000, order="first", template=15_000)
                yield f"{kind}, {n}, behind a text", partial(made, 0, before=300_000)
    yield "llama, 250000", partial(_with, "llama", 250_000, 700)
    yield "gpt2, 150000", partial(_with, "gpt2", 150_000, 700)
    yield "few tensors, many arrays", partial(header, [], 3, arrays=30)
    yield "many of both", partial(_with, "llama", 32_000, 30_000, arrays=3)


def _with(kind: str, n: int, tensors: int, **more: Any) -> bytes:
    return header(vocabulary(kind, n), tensors, **more)
