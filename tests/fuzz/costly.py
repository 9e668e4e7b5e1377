"""The worst cases: files that make a careless reader decode, count, list, escape or compute without end.

Some are named, each for one thing that is big in it; others are made of chance: a model, projector, adapter, importance
matrix, control vector or shard in which some fields or tensors are as large as they get.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from tests import embedders, projectors, speculators
from tests.build import GGUF, llama
from tests.fuzz import gguf
from tests.fuzz.sparse import ON_DISK, TOKENS, File, M, base, dense, holed, long_keys, vocabulary
from tests.lint.samples_tokenizer import bpe

WIDE = "\U0001f600".encode()
"""One character that makes a text of Python four times as long."""

CASES: dict[str, Callable[[], File]] = {
    "nested": lambda: base().add(b"x.nested", struct.pack("<IIQ", 9, 9, 5 * M), 60 * M),
    "nested-few": lambda: base().add(b"x.nested", struct.pack("<IIQ", 9, 9, 4000), 48000),
    "nested-deep": lambda: base().add(
        b"x.nested", struct.pack("<IIQ", 9, 9, 1), struct.pack("<IQ", 9, 1) * 6, struct.pack("<IQ", 0, 8 * M), 8 * M
    ),
    "fields": lambda: File([*base().records, 13 * 5 * M // 2], 2 + 5 * M // 2),
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
    "string-newlines": lambda: base().string(b"general.description", b"\n" * 40_000, 60 * M),
    "string-broken": lambda: base().string(b"general.description", b"\xff" * 40_000, 60 * M),
    "strings": lambda: _strings(),
    "bools-odd": lambda: base().array(b"x.bools", 7, 8 * M, 1, b"\2"),
    "bools-layers": lambda: base().array(b"llama.rope.pattern", 7, 8 * M, 1, b"\1\2"),
    "floats-odd": lambda: base().array(b"llama.rope.scaling.short_factor", 6, 8 * M, 4, b"\0\0\xc0\x7f"),
    "scores-odd": lambda: vocabulary(M).array(b"tokenizer.ggml.scores", 6, M, 4, b"\0\0\xc0\x7f"),
    "scores-short": lambda: vocabulary(M + 9).array(b"tokenizer.ggml.scores", 6, M, 4, b"\0\0\x80\xbf"),
    "scores-long": lambda: vocabulary(M).array(b"tokenizer.ggml.scores", 6, M + 9, 4),
    "types-short": lambda: vocabulary(2 * M - 9).array(b"tokenizer.ggml.token_type", 5, M, 4, b"\1\0\0\0"),
    "types-u8": lambda: vocabulary(M).array(b"tokenizer.ggml.token_type", 0, 7 * M, 1, b"\1"),
    "suppress-odd": lambda: vocabulary(300).array(b"tokenizer.ggml.suppress_tokens", 5, 8 * M, 4, b"\xff" * 12),
    "suppress-all": lambda: vocabulary(300).array(b"tokenizer.ggml.suppress_tokens", 5, 8 * M, 4, b"\xff" * 20_000),
    "vocabulary-cut": lambda: vocabulary(2 * M).tensor(b"token_embd.weight", (64, M)),
    "name-list": lambda: base().array(b"general.name", 8, 2 * M, 8),
    "architecture-list": lambda: File().array(b"general.architecture", 8, 2 * M, 8),
    "template-list": lambda: vocabulary(300).array(b"tokenizer.chat_template", 8, 2 * M - 300, 8),
    "type-unknown-long": lambda: _unknown(44_000),
    "type-unknown-fields": lambda: _unknown(500, fields=2000),
    "alignment": lambda: holed(llama().kv("general.alignment", 1 << 31, "u32")),
    "controlvector-wide": lambda: _directions((1 << 31,)),
    "controlvector-layers": lambda: _directions((64,), (1 << 31) - 1),
    "shards": lambda: _shard("model-00001-of-65535.gguf"),
    "shards-small": lambda: _shard("model-00001-of-00118.gguf", 118),
    "shards-last": lambda: _shard("model-65535-of-65535.gguf", 65535, 65534),
    "shards-unnamed": lambda: _shard(""),
}
"""A file by its name: what is big in it."""


def _strings() -> File:
    """Every text that a model has, each of some megabytes, with one wide character."""
    out = File().string(b"general.architecture", b"llama").number(b"llama.block_count", 1)
    for i, key in enumerate(_TEXT_KEYS[:14]):
        out.string(key, WIDE if i < 7 else b"", 5 * M)
    return out


_TEXT_KEYS = (
    b"general.name general.type general.license general.author general.description general.basename general.url "
    b"general.finetune general.size_label tokenizer.ggml.model tokenizer.ggml.pre tokenizer.chat_template "
    b"tokenizer.huggingface.json tokenizer.chat_template.tool_use llama.rope.scaling.type adapter.type "
    b"general.quantized_by general.base_model.0.name clip.projector_type quantize.imatrix.file"
).split()


def _unknown(size: int, fields: int = 1, tensors: int = 300) -> File:
    """Values of a type that nobody knows, with names behind them that could be the beginning of a record anywhere."""
    out = base()
    for i in range(fields):
        out.add(b"%d" % i, struct.pack("<I", 77))
    out.records[-1] += struct.pack("<QI", 1, 4) * (size // 12 // fields)
    for i in range(tensors):
        out.tensor(b"t%d" % i, (1,), offset=32 * i)
    out.behind = 32 * tensors + 64
    return out


def _directions(shape: tuple[int, ...], step: int = 1) -> File:
    out = File().string(b"general.architecture", b"controlvector").string(b"controlvector.model_hint", WIDE, 50 * M)
    out.number(b"controlvector.layer_count", (1 << 32) - 1)
    for i in range(900):
        out.tensor(b"direction.%d" % (1 + i * step), shape)
    return out


def _shard(name: str, count: int = 65535, no: int = 0) -> File:
    out = base().number(b"split.no", no, 2, "H").number(b"split.count", count, 2, "H")
    out.number(b"split.tensors.count", (1 << 31) - 1, 5)
    out.name = name
    return out


SOUND: dict[str, Callable[[], GGUF]] = {
    "llama": llama,
    "bpe": bpe,
    **{
        name: partial(llama, arch=name)
        for name in "deepseek2 mamba qwen3moe llama4 rwkv7 gemma3n granitehybrid".split()
    },
    "bert": embedders.bert,
    "qwen3-embedding": embedders.qwen3,
    "eagle3": speculators.eagle3,
    "mmproj-mlp": lambda: projectors.mlp().gguf(),
    "mmproj-qwen": lambda: projectors.qwen3vl().gguf(),
    "mmproj-resampler": lambda: projectors.resampler().gguf(),
    "mmproj-gemma4": lambda: projectors.gemma4v().gguf(),
    "mmproj-audio": lambda: projectors.ultravox().gguf(),
    "mmproj-pixtral": lambda: projectors.pixtral().gguf(),
}
"""Sound files, in which one number is made as large as it gets."""

EXTREMES = (1 << 31) - 1, (1 << 32) - 1, 4096, 512


def numbers() -> Iterator[tuple[str, Callable[[], File]]]:
    """A small sound file, its weights zeros, in which one number, or each, is as large as it gets."""
    sound = llama()
    more = "expert_count expert_used_count ssm.state_size ssm.inner_size attention.sliding_window vocab_size".split()
    more += ["attention.key_length", "rope.scaling.original_context_length", "nextn_predict_layers", "pooling_type"]
    others = [*(f"llama.{k}" for k in more), "general.alignment", "general.quantization_version"]
    for key in [*whole_keys(sound), *others]:
        for n in EXTREMES:
            yield f"{key}={n}", partial(_with, sound, (key,), n)
    for name, make in SOUND.items():
        for n in EXTREMES:
            yield f"{name}-every={n}", lambda make=make, n=n: _with(g := make(), whole_keys(g), n)


def whole_keys(g: GGUF) -> tuple[str, ...]:
    """Keys of a file that hold whole numbers."""
    return tuple(e[0] for e in g._kv if isinstance(e, tuple) and type(e[1]) is int)


def _with(g: GGUF, keys: tuple[str, ...], n: int) -> File:
    out = g.copy()
    for key in keys:
        out.replace(key, n, "u32")
    return holed(out)


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
        yield f"{kind}-string", lambda head=head: head().string(b"general.name", WIDE, 100 * M)


def every() -> dict[str, Callable[[], File]]:
    """All that have a name."""
    return CASES | dict(others()) | dict(numbers())


ARRAYS = {8: 8, 9: 12, **gguf.SIZES}
"""Bytes that an element of an array takes at least, by its type."""


def chance(rng: Random) -> File:
    """A file in which some things are as large as they get."""
    if rng.random() < 0.3:
        fields, tensors, data = [], [], b""
        out = rng.choice([base, partial(vocabulary, 300), partial(base, b"clip"), partial(base, b"controlvector")])()
    else:
        fields, tensors, data = gguf.take(rng.choice(_sound()))
        out = File(behind=len(data))
    arch = next((f[2][8:] for f in fields if f[0] == b"general.architecture" and f[1] == 8), b"llama")
    places = rng.sample(range(len(fields)), min(len(fields), rng.choice((0, 1, 1, 2, 3))))
    for i, (key, kind, value) in enumerate(fields):
        if i in places:
            _large(out, rng, key, kind)
        else:
            out.add(key, struct.pack("<I", kind), value)
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        _large(out, rng, rng.choice(_keys(arch.decode("utf-8", "replace"))).encode(), None)
    odd = rng.random() < 0.4
    for name, shape, kind, offset in tensors:
        if odd and rng.random() < 0.2:
            shape = [rng.choice(gguf.WHOLE) for _ in range(rng.choice((0, 1, 2, 3, 4, 5, 60)))]
            kind, offset = rng.choice((kind, rng.choice(gguf.TYPES))), rng.choice((offset, rng.choice(gguf.WHOLE)))
        out.tensor(name, tuple(shape), kind & 0xFFFFFFFF, offset)
    out.behind += rng.choice((0, 0, 1, 1 << 30, 1 << 40))
    return out


def _large(out: File, rng: Random, key: bytes, kind: int | None) -> None:
    """A value of that type, or of another, that is large."""
    kind = rng.choice((8, 9, 9, 4, 4, 5, 10, 6, 2)) if kind is None or rng.random() < 0.3 else kind
    first = rng.choice((b"", WIDE, b"\xff", b"\1", rng.randbytes(rng.choice((1, 7, 300)))))
    if kind == 8:
        out.string(key, first, rng.choice((M, 5 * M, 30 * M, 100 * M)))
    elif kind == 9:
        element = rng.choice((8, 8, 9, *gguf.SIZES))
        count = rng.choice((1000, 1 << 16, M, 2 * M, 8 * M))
        size = ARRAYS[element]
        out.array(key, element, count, size, b"" if element in (8, 9) else first[: size * count])
    elif kind in gguf.SIZES:
        out.add(key, struct.pack("<I", kind), gguf.scalar(rng, kind))
    else:
        out.add(key, struct.pack("<I", kind), b"")


def _keys(arch: str) -> list[str]:
    """Keys that somebody reads in a file of that architecture."""
    from gguftool.facts.keys import read_keys

    general = [k.decode() for k in _TEXT_KEYS] + ["general.tags", "general.languages", "general.file_type"]
    general += ["tokenizer.ggml." + k for k in "tokens scores token_type merges suppress_tokens eos_token_id".split()]
    clip = ["clip.vision." + k for k in "image_mean image_size feature_layer is_deepstack_layers wa_pattern".split()]
    side = ["adapter.alora.invocation_tokens", "adapter.lora.alpha", "imatrix.datasets", "imatrix.chunk_count"]
    return [*general, *clip, *side, "split.count", "split.no", "general.alignment", *read_keys(arch)]


def _sound() -> list[bytes]:
    made = [make().bytes() for make in SOUND.values()]
    return [data for data in [*made, *gguf.corpus()] if len(data) < ON_DISK and data[:4] == b"GGUF" and _whole(data)]


def _whole(data: bytes) -> bool:
    try:
        gguf.take(data)
    except (ValueError, KeyError, struct.error, RecursionError, OverflowError):
        return False
    return True
