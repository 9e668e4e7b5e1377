"""Files of at most 64 KB on the disk that cost a careless reader minutes or gigabytes, and what each command takes.

    python -m tests.fuzz.worst [--only PATTERN] [--commands WORD,WORD] [--folder FOLDER]

Every file is sparse: a few bytes that state much, and holes that are read as zeros. Each command runs in a child of its
own; the processor time and the largest memory that the kernel counted for it are held against the limits.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from tests.build import GGUF, llama

SECONDS = 5.0
"""Of the processor, a command."""
MIB = 300
ON_DISK = 64 << 10
"""Bytes that a file may take on the disk."""
M = 1 << 20

Piece = bytes | int
"""Bytes, or the length of a hole."""


@dataclass
class File:
    """A header in pieces; ``fields`` and ``tensors``: how many there are in ``records`` and ``infos``."""

    records: list[Piece] = field(default_factory=list)
    fields: int = 0
    infos: list[Piece] = field(default_factory=list)
    tensors: int = 0
    version: int = 3
    order: str = "<"
    behind: int = 0
    whole: bool = False

    def text(self, s: bytes | int) -> list[Piece]:
        """A string; a number for one of so many zero bytes."""
        n = s if isinstance(s, int) else len(s)
        return [struct.pack(self.order + ("I" if self.version == 1 else "Q"), n), s]

    def add(self, key: bytes | int, *value: Piece, many: int = 1) -> File:
        """A field: its type id and value as pieces."""
        self.records += [*self.text(key), *value]
        self.fields += many
        return self

    def string(self, key: bytes, value: bytes | int, more: Piece = b"") -> File:
        """A string that ends in a hole of ``more`` bytes."""
        n = (value if isinstance(value, int) else len(value)) + (more if isinstance(more, int) else len(more))
        return self.add(key, struct.pack(self.order + "IQ", 8, n), value, more)

    def array(self, key: bytes, kind: int, count: int, size: int) -> File:
        """An array of ``count`` zeros of ``size`` bytes each."""
        code = "I" if self.version == 1 else "Q"
        return self.add(key, struct.pack(self.order + "II" + code, 9, kind, count), size * count)

    def number(self, key: bytes, value: int) -> File:
        """A u32."""
        return self.add(key, struct.pack(self.order + "II", 4, value))

    def tensor(self, name: bytes, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> File:
        """One tensor."""
        head = struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in shape)
        self.infos += [*self.text(name), head + struct.pack("<IQ", kind, offset)]
        self.tensors += 1
        return self

    def write(self, path: Path) -> None:
        """The file, its zeros as holes."""
        code = "II" if self.version == 1 else "QQ"
        head = (
            b""
            if self.whole
            else b"GGUF" + struct.pack(self.order + "I" + code, self.version, self.tensors, self.fields)
        )
        with open(path, "wb") as f:
            for piece in (head, *self.records, *self.infos, self.behind):
                if isinstance(piece, int):
                    f.seek(piece, os.SEEK_CUR)
                else:
                    f.write(piece)
            f.truncate()


def base() -> File:
    """The least that is a model."""
    return File().string(b"general.architecture", b"llama").number(b"llama.block_count", 1)


TOKENS = b"tokenizer.ggml.tokens"


def vocabulary(n: int, model: bytes = b"llama") -> File:
    """A model with ``n`` empty tokens."""
    return base().string(b"tokenizer.ggml.model", model).array(TOKENS, 8, n, 8)


def long_keys(n: int, step: int) -> File:
    """Keys of zero bytes, each ``step`` longer than the one before: all are different."""
    out = base()
    for i in range(1, n):
        out.add(i * step, struct.pack("<IB", 0, 1))
    return out


def dense(n: int, *, tensors: bool) -> File:
    """As many short records as go into 64 KB."""
    out = base()
    for i in range(n):
        name = b"%x" % i
        if tensors:
            out.tensor(name, (1 << 62, 3), kind=i % 40, offset=(i & 0x3FFF) << 50)
        else:
            out.add(name, struct.pack("<IB", 0, 1))
    return out


CASES: dict[str, Callable[[], File]] = {
    "nested": lambda: base().add(b"x.nested", struct.pack("<IIQ", 9, 9, 5 * M), 60 * M),
    "nested-few": lambda: base().add(b"x.nested", struct.pack("<IIQ", 9, 9, 4000), 48000),
    "nested-deep": lambda: base().add(
        b"x.nested", struct.pack("<IIQ", 9, 9, 1), struct.pack("<IQ", 9, 1) * 6, struct.pack("<IQ", 0, 8 * M), 8 * M
    ),
    "fields": lambda: File(*base_and(13 * 5 * M // 2), infos=[], tensors=0),
    "tensors": lambda: File(base().records, 2, [24 * 5 * M // 4], 5 * M // 4),
    "tensors-100000": lambda: File(base().records, 2, [24 * 100_000], 100_000),
    "tensors-wide": lambda: File(base().records, 2, [struct.pack("<QI", 0, 1024), 60 * M], 1000),
    "keys-long": lambda: long_keys(14, 80_000),
    "keys-longer": lambda: long_keys(14, 1 << 20),
    "keys-dense": lambda: dense(4000, tensors=False),
    "tensors-dense": lambda: dense(1300, tensors=True),
    "tokens": lambda: vocabulary(2 * M),
    "tokens-beyond": lambda: vocabulary(12 * M),
    "tokens-bpe": lambda: vocabulary(M, b"gpt2").array(b"tokenizer.ggml.merges", 8, M, 8),
    "tokens-wpm": lambda: vocabulary(2 * M, b"bert"),
    "tokens-ugm": lambda: vocabulary(M, b"t5").array(b"tokenizer.ggml.precompiled_charsmap", 0, 4 * M, 1),
    "tokens-rwkv": lambda: vocabulary(2 * M, b"rwkv"),
    "tokens-plamo": lambda: vocabulary(2 * M, b"plamo2"),
    "tokens-gemma4": lambda: vocabulary(M, b"gemma4").array(b"tokenizer.ggml.merges", 8, M, 8),
    "tokens-types": lambda: (
        vocabulary(M).array(b"tokenizer.ggml.token_type", 5, M, 4).array(b"tokenizer.ggml.scores", 6, M, 4)
    ),
    "token-long": lambda: (
        base()
        .string(b"tokenizer.ggml.model", b"gpt2")
        .add(TOKENS, struct.pack("<IIQQ", 9, 8, 200, 30 * M), 30 * M + 8 * 199)
    ),
    "token-wide": lambda: (
        base()
        .string(b"tokenizer.ggml.model", b"gpt2")
        .add(TOKENS, struct.pack("<IIQQ", 9, 8, 200, 30 * M), "\U0001f600".encode(), 30 * M - 4 + 8 * 199)
    ),
    "types": lambda: base().array(b"tokenizer.ggml.token_type", 5, 8 * M, 4),
    "bools": lambda: base().array(b"llama.attention.sliding_window_pattern", 7, 8 * M, 1),
    "numbers": lambda: base().array(b"llama.attention.head_count", 4, 8 * M, 4),
    "numbers-beyond": lambda: base().array(b"x.numbers", 0, 100 * M, 1),
    "tags": lambda: base().array(b"general.tags", 8, 2 * M, 8),
    "suppress": lambda: base().array(b"tokenizer.ggml.suppress_tokens", 5, 8 * M, 4),
    "string": lambda: base().string(b"general.description", 100 * M),
    "string-wide": lambda: base().string(b"general.description", "\U0001f600".encode(), 100 * M),
    "string-beyond": lambda: base().string(b"general.description", 1000 * M),
    "name": lambda: base().string(b"general.name", "ab\U0001f600".encode(), 100 * M),
    "architecture": lambda: File().string(b"general.architecture", 100 * M).number(b"llama.block_count", 1),
    "architecture-wide": lambda: File().string(b"general.architecture", "\U0001f600".encode(), 100 * M),
    "type": lambda: base().string(b"general.type", "\U0001f600".encode(), 100 * M),
    "template": lambda: vocabulary(300).string(b"tokenizer.chat_template", 100 * M),
    "template-wide": lambda: vocabulary(300).string(b"tokenizer.chat_template", "{{\U0001f600".encode(), 100 * M),
    "template-5M": lambda: vocabulary(300).string(b"tokenizer.chat_template", b"{% if x %}", 5 * M),
    "pre": lambda: vocabulary(300, b"gpt2").string(b"tokenizer.ggml.pre", "\U0001f600".encode(), 100 * M),
    "tokenizer": lambda: vocabulary(300, b"gpt2").string(b"tokenizer.huggingface.json", b'{"a":', 100 * M),
    "unknown-type": lambda: File(base().records, 2, [24 * 100], 100).add(b"x", struct.pack("<I", 77), 60 * M),
    "unknown-array": lambda: File(base().records, 2, [24 * 9], 9).add(b"x", struct.pack("<IIQ", 9, 77, 3), 60 * M),
    "version-1": lambda: File(version=1).add(TOKENS, struct.pack("<III", 9, 8, 2 * M), 8 * M),
    "big-endian": lambda: File(order=">").add(TOKENS, struct.pack(">IIQ", 9, 8, 2 * M), 16 * M),
    "data-1TB": lambda: File(base().records, 2, [], 0, behind=1 << 40).tensor(b"a.weight", (1 << 38,)),
    "data-q8-1TB": lambda: File(base().records, 2, [], 0, behind=1 << 40).tensor(b"a.weight", (1 << 38,), kind=8),
    "trailing-1TB": lambda: File(base().records, 2, [], 0, behind=1 << 40),
    "split": lambda: (
        base()
        .add(b"split.no", struct.pack("<IH", 2, 0))
        .add(b"split.count", struct.pack("<IH", 2, 65535))
        .add(b"split.tensors.count", struct.pack("<Ii", 5, (1 << 31) - 1))
    ),
}
"""A file by its name: what is big in it."""


def base_and(zeros: int) -> tuple[list[Piece], int]:
    """The records of a model with fields of 13 zero bytes behind them."""
    return [*base().records, zeros], 2 + zeros // 13


def numbers() -> Iterator[tuple[str, File]]:
    """A small sound model, its weights zeros, in which one number, or each, is as large as it gets."""

    def holed(g: GGUF) -> File:
        whole = File(whole=True)
        whole.infos, whole.behind = [g.header()], len(g.bytes()) - len(g.header())
        return whole

    sound = llama()
    keys = [e[0] for e in sound._kv if isinstance(e, tuple) and isinstance(e[1], int) and not isinstance(e[1], bool)]
    more = "expert_count expert_used_count ssm.state_size ssm.inner_size attention.sliding_window vocab_size".split()
    more += ["attention.key_length", "rope.scaling.original_context_length", "nextn_predict_layers", "pooling_type"]
    for key in [*keys, *(f"llama.{k}" for k in more), "general.alignment", "general.quantization_version"]:
        for n in (1 << 31) - 1, (1 << 32) - 1, 4096, 512:
            yield f"{key}={n}", holed(sound.copy().replace(key, n, "u32"))
    every = sound.copy()
    for key in keys:
        every.replace(key, (1 << 32) - 1, "u32")
    yield "every-number", holed(every)


def others() -> Iterator[tuple[str, Callable[[], File]]]:
    """Projectors, adapters, importance matrices and shards with the same in them."""
    for kind, arch in (
        ("mmproj", b"clip"),
        ("adapter", b"llama"),
        ("imatrix", b""),
        ("controlvector", b"controlvector"),
    ):

        def head(kind: str = kind, arch: bytes = arch) -> File:
            out = File()
            if arch:
                out.string(b"general.architecture", arch)
            out.string(b"general.type", kind.encode())
            if kind == "mmproj":
                out.add(b"clip.has_vision_encoder", struct.pack("<IB", 7, 1)).string(b"clip.projector_type", b"mlp")
                for key in b"block_count", b"image_size", b"patch_size", b"embedding_length", b"projection_dim":
                    out.number(b"clip.vision." + key, (1 << 32) - 1)
                out.array(b"clip.vision.image_mean", 6, 4 * M, 4).array(b"clip.vision.feature_layer", 5, 4 * M - 9, 4)
            elif kind == "adapter":
                out.string(b"adapter.type", b"lora").array(b"adapter.alora.invocation_tokens", 4, 8 * M, 4)
            elif kind == "imatrix":
                out.array(b"imatrix.datasets", 8, 2 * M, 8).number(b"imatrix.chunk_count", (1 << 32) - 1)
            return out

        yield kind, head
        ends = {"adapter": (b".lora_a", b".lora_b"), "imatrix": (b".in_sum2", b".counts")}.get(kind, (b"", b""))

        def many(head: Callable[[], File] = head, ends: tuple[bytes, bytes] = ends) -> File:
            out = head()
            for i in range(400):
                for end in ends:
                    out.tensor(b"blk.%d.ffn_up.weight" % i + (end or b"%d" % len(out.infos)), (1 << 31, 1 << 31))
            return out

        yield f"{kind}-tensors", many
        yield f"{kind}-string", lambda head=head: head().string(b"general.name", "\U0001f600".encode(), 100 * M)


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("dump", "FILE"),
    ("dump", "--full", "FILE"),
    ("dump", "--format", "json", "FILE"),
    ("dump", "--format", "json", "--full", "FILE"),
    ("dump", "--format", "markdown", "FILE"),
    ("dump", "--overview", "FILE"),
    ("dump", "--layout", "FILE"),
    ("dump", "--tokens", "0:", "FILE"),
    ("dump", "--raw", "general.description", "FILE"),
    ("dump", "--raw", "tokenizer.ggml.tokens", "FILE"),
    ("dump", "--export", "-", "FILE"),
    ("lint", "FILE"),
    ("lint", "--format", "json", "FILE"),
    ("lint", "--format", "sarif", "FILE"),
    ("verify", "FILE"),
    ("verify", "--data", "FILE"),
    ("plan", "FILE"),
    ("compat", "FILE"),
    ("hash", "--data-section", "FILE"),
    ("diff", "FILE", "OTHER"),
    ("scan", "FILE"),
    ("fix", "--dry-run", "--set", "general.name=x", "FILE"),
)


@dataclass(frozen=True)
class Cost:
    """What one command took."""

    name: str
    command: str
    code: int
    seconds: float
    mib: int

    @property
    def over(self) -> bool:
        """More than is allowed, or ended by something else than the program."""
        return self.seconds > SECONDS or self.mib > MIB or not 0 <= self.code < 8


def run(name: str, args: list[str], out: str = os.devnull) -> Cost:
    """One command in a child; 20 seconds of the processor end it."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            import resource

            sink = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
            from gguftool.cli.main import main

            sys.argv[1:] = args
            code = main()
            sys.stdout.flush()
        finally:
            os._exit(code)
    _, status, used = os.wait4(child, 0)
    seconds = used.ru_utime + used.ru_stime
    return Cost(name, " ".join(args[:-1]), os.waitstatus_to_exitcode(status), seconds, used.ru_maxrss >> 10)


def files(folder: Path, only: str = "*") -> Iterator[Path]:
    """The files, written one after the other and removed behind."""
    makers = CASES | dict(others()) | {name: lambda file=file: file for name, file in numbers()}
    for name, make in makers.items():
        if fnmatch.fnmatch(name, only):
            make().write(path := folder / f"{name}.gguf")
            yield path
            path.unlink()


def measure(folder: Path, only: str = "*", commands: tuple[tuple[str, ...], ...] = COMMANDS) -> Iterator[Cost]:
    """Every command on every file."""
    other = folder / "other.gguf"
    llama().write(other)
    for path in files(folder, only):
        taken = path.stat().st_blocks * 512
        if taken > ON_DISK + 4096:
            raise SystemExit(f"{path.name} takes {taken:,} bytes on the disk")
        for command in commands:
            words = {"FILE": str(path), "OTHER": str(other)}
            yield run(path.stem, [words.get(word, word) for word in command])


def main() -> int:
    """Print the table; 1 when something costs more than it may."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="*", help="files whose name matches")
    options.add_argument("--commands", default="", help="commands that begin with one of these words")
    options.add_argument("--folder", default=None, help="where the files are made (it must know holes)")
    given = options.parse_args()
    import_module("gguftool.cli.boundary")  # what every command loads, once

    words = tuple(filter(None, given.commands.split(",")))
    commands = tuple(c for c in COMMANDS if not words or " ".join(c).startswith(words))
    over, count = 0, 0
    worst: dict[str, Cost] = {}
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        os.chdir(folder)
        for cost in measure(Path(folder), given.only, commands):
            count += 1
            over += cost.over
            old = worst.get(cost.command)
            worst[cost.command] = cost if old is None else max(old, cost, key=lambda c: (c.over, c.seconds))
            if cost.over:
                print(
                    f"OVER  {cost.name:32} {cost.command:60.60} {cost.code:3} {cost.seconds:6.1f} s {cost.mib:5} MiB",
                    flush=True,
                )
    print(f"{'command':60} {'slowest file':32} {'CPU':>8} {'memory':>9}")
    for cost in worst.values():
        print(f"{cost.command:60.60} {cost.name:32} {cost.seconds:6.2f} s {cost.mib:5} MiB")
    print(f"{count:,} runs, {over:,} over {SECONDS:g} s or {MIB} MiB")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
