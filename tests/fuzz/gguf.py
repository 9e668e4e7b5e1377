"""GGUF files, taken apart and put together wrongly: keys, types, values, shapes and places, or bytes anywhere."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

from tests.build import llama
from tests.lint import samples
from tests.lint.badfiles import files
from tests.lint.samples_tokenizer import CHATML, bpe, llama3, spm, t5

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
WHOLE = [
    0, 1, 2, 3, 7, 8, 31, 32, 33, 127, 128, 255, 256, 1 << 15, 1 << 16, 65537, 1 << 20, (1 << 31) - 1, 1 << 31,
    (1 << 32) - 1, 1 << 32, 1 << 53, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 31, (1 << 64) - 1,
]  # fmt: skip
REAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 3.4e38, 1e4, 5e5, float("inf"), float("-inf"), float("nan")]
TEXTS = [
    b"", b"\x1b[31mred\x1b]0;t\x07", b"\xff\xfe", b"a" * 70_000, "\u202eevil\u2066".encode(), b"'; touch PWNED #",
    b"$(touch PWNED)", b"%s%n{0}{0.__class__}", b"\n::error::x", b"\r\n", b"../../../etc/passwd", b"\x00\x00",
    b"{{ messages }}", b"{% for i in range(10**9) %}{{i}}{% endfor %}", b"{%" * 300, b"{{" * 300 + b"}}" * 300,
    b"<|im_end|>", b"llama", b"gpt2", b"bert", b"q8_0/q4_0", b"yarn", b"https://x/\x1b[2J", b"[" * 500, b"1e999", b"-1",
    b"nan", CHATML.encode(), b"\xed\xa0\x80", "\u0661\u0662\u00b2".encode(), b"mmproj", b"adapter", b"clip",
]  # fmt: skip
TYPES = [0, 1, 2, 3, 6, 7, 8, 9, 10, 12, 14, 15, 16, 20, 23, 24, 26, 28, 30, 34, 39, 40, 41, 42, 99, 255, (1 << 32) - 1]

Parts = tuple[list[list], list[list], bytes]


def take(data: bytes) -> Parts:
    """Fields (key, type, bytes), tensors (name, shape, type, offset) and what is behind them."""
    at = 24
    n_tensors, n_fields = struct.unpack_from("<QQ", data, 8)
    if data[:4] != b"GGUF" or max(n_tensors, n_fields) > 10_000:
        raise ValueError

    def text() -> bytes:
        nonlocal at
        (n,) = struct.unpack_from("<Q", data, at)
        if n > len(data):
            raise ValueError
        at += 8 + n
        return data[at - n : at]

    def skip(kind: int) -> None:
        nonlocal at
        if kind == 8:
            text()
        elif kind == 9:
            element, n = struct.unpack_from("<IQ", data, at)
            at += 12
            if element in SIZES:
                at += SIZES[element] * n
            else:
                for _ in range(n):
                    skip(element)
        else:
            at += SIZES[kind]

    fields, tensors = [], []
    for _ in range(n_fields):
        key = text()
        (kind,) = struct.unpack_from("<I", data, at)
        at += 4
        start = at
        skip(kind)
        fields.append([key, kind, data[start:at]])
    for _ in range(n_tensors):
        name = text()
        (dims,) = struct.unpack_from("<I", data, at)
        shape = list(struct.unpack_from(f"<{dims}Q", data, at + 4))
        at += 4 + 8 * dims
        tensors.append([name, shape, *struct.unpack_from("<IQ", data, at)])
        at += 12
    return fields, tensors, data[at:]


def put(fields: list[list], tensors: list[list], data: bytes, more: int = 0) -> bytes:
    """A file of them; ``more`` fields are promised than there are."""
    mask = (1 << 64) - 1
    out = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), max(0, len(fields) + more))]
    for key, kind, value in fields:
        out += [struct.pack("<Q", len(key)), key, struct.pack("<I", kind & 0xFFFFFFFF), value]
    for name, shape, kind, offset in tensors:
        out += [struct.pack("<Q", len(name)), name, struct.pack("<I", len(shape))]
        out += [struct.pack(f"<{len(shape)}Q", *(n & mask for n in shape))]
        out += [struct.pack("<IQ", kind & 0xFFFFFFFF, offset & mask)]
    head = b"".join(out)
    return head + bytes(-len(head) % 32) + data


def corpus() -> Sequence[bytes]:
    """Small files of many kinds, sound and broken."""
    good = [llama(), llama(arch="qwen2"), bpe(template=CHATML), llama3("llama-bpe"), spm(), t5(), samples.ready()]
    archs = ("gemma3", "deepseek2", "mamba", "qwen3moe", "bert", "llama4", "rwkv7", "gpt-oss", "granitehybrid")
    good += [llama(arch=name) for name in archs]
    here = Path(__file__).parents[2] / "fixtures" / "tiny-llama.gguf"
    return [g.bytes() for g in good] + [here.read_bytes()] + [d for d in files().values() if len(d) < 60_000]


@cache
def _apart(given: tuple[bytes, ...]) -> tuple[Parts, ...]:
    found = []
    for data in given:
        try:
            fields, tensors, rest = take(data)
        except (ValueError, KeyError, struct.error, RecursionError, OverflowError):
            continue
        found.append((fields, tensors, rest[-200_000:]))
    return tuple(found)


@cache
def architectures() -> tuple[str, ...]:
    """Names of all that the product knows."""
    from gguftool.facts.arch import names

    return tuple(sorted(names()))


def scalar(rng: Random, kind: int) -> bytes:
    """A number of that value type."""
    if kind in (6, 12):
        return struct.pack("<f" if kind == 6 else "<d", rng.choice(REAL))
    n = SIZES[kind]
    return (rng.choice(WHOLE) & ((1 << 8 * n) - 1)).to_bytes(n, "little")


def text(rng: Random) -> bytes:
    """A text with its length."""
    s = rng.choice(TEXTS) if rng.random() < 0.8 else rng.randbytes(rng.randrange(20))
    return struct.pack("<Q", len(s)) + s


def value(rng: Random, kind: int | None = None) -> tuple[int, bytes]:
    """A type and a value."""
    if kind is None:
        kind = rng.choice([0, 1, 2, 3, 4, 4, 4, 5, 5, 6, 6, 7, 8, 8, 8, 9, 9, 10, 11, 12, 13])
    if kind == 8:
        return kind, text(rng)
    if kind == 9:
        element = rng.choice([0, 1, 4, 5, 6, 7, 8, 8, 10, 12, 9])
        n = rng.choice([0, 1, 2, 3, 4, 5, 32, 100, 1000])
        if element == 9:
            n = min(n, 5)
            return kind, struct.pack("<IQ", 9, n) + (struct.pack("<IQ", 4, 1) + b"\1\0\0\0") * n
        if element == 8:
            return kind, struct.pack("<IQ", 8, n) + b"".join(
                text(rng)[:300] if i < 3 else b"\1" + bytes(7) + b"x" for i in range(n)
            )
        return kind, struct.pack("<IQ", element, n) + b"".join(scalar(rng, element) for _ in range(n))
    return (kind, scalar(rng, kind)) if kind in SIZES else (kind, b"abcd")


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """Another file."""
    return anywhere(rng, rng.choice(given)) if rng.random() < 0.25 else structured(rng, tuple(given))


def anywhere(rng: Random, data: bytes) -> bytes:
    """Bytes changed, taken out and doubled, mostly in front."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if len(out) < 9:
            break
        at = rng.randrange(4, max(5, min(len(out), rng.choice((64, 2000, len(out))))))
        how = rng.random()
        if how < 0.5:
            out[at : at + 1] = bytes([rng.choice((0, 1, 255, 128, 127, rng.randrange(256)))])
        elif how < 0.7:
            out[at : at + 8] = struct.pack("<Q", rng.choice(WHOLE))
        elif how < 0.8:
            del out[at : at + rng.choice((1, 4, 8, 100))]
        elif how < 0.9:
            out[at:at] = out[at : at + rng.choice((1, 4, 8, 100))]
        else:
            del out[at:]
    return bytes(out)


def structured(rng: Random, given: tuple[bytes, ...]) -> bytes:
    """Fields and tensors changed, each by itself well formed."""
    apart = _apart(given)
    if not apart:
        return anywhere(rng, rng.choice(given))
    base = rng.choice(apart)
    fields, tensors, data = [list(f) for f in base[0]], [[t[0], list(t[1]), *t[2:]] for t in base[1]], base[2]
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        how = rng.random()
        if how < 0.35 and fields:
            one = rng.choice(fields)
            one[1], one[2] = value(rng, one[1] if rng.random() < 0.6 else None)
        elif how < 0.5:
            other = rng.choice(rng.choice(apart)[0] or [[b"general.name", 8, b""]])
            fields.insert(rng.randrange(len(fields) + 1), [other[0], *value(rng, other[1] if how < 0.43 else None)])
        elif how < 0.55 and fields:
            del fields[rng.randrange(len(fields))]
        elif how < 0.58 and fields:
            fields.append(list(rng.choice(fields)))
        elif how < 0.61 and fields:
            rng.choice(fields)[0] = text(rng)[8:]
        elif how < 0.66:
            _rename(fields, rng.choice(architectures()).encode())
        elif how < 0.70:
            fields.append([b"general.alignment", *value(rng, rng.choice([4, 4, 4, 10, 8]))])
        elif how < 0.78 and tensors:
            rng.choice(tensors)[1] = [rng.choice(WHOLE) for _ in range(rng.choice((0, 1, 2, 3, 4, 5, 6, 60)))]
        elif how < 0.84 and tensors:
            rng.choice(tensors)[2] = rng.choice(TYPES)
        elif how < 0.89 and tensors:
            rng.choice(tensors)[3] = rng.choice(WHOLE)
        elif how < 0.92 and tensors:
            rng.choice(tensors)[0] = rng.choice(
                (text(rng)[8:208], b"blk." + b"9" * 5000 + b".attn_q.weight", b"blk.99999.x")
            )
        elif how < 0.94 and tensors:
            tensors.append(list(rng.choice(tensors)))
        elif how < 0.96 and tensors:
            del tensors[rng.randrange(len(tensors))]
        elif how < 0.98:
            fields.append([b"tokenizer.chat_template", *value(rng, 8)])
        else:
            data = rng.randbytes(rng.choice((0, 10, 5000)))
    out = put(fields, tensors, data, rng.choice((0,) * 20 + (1, -1)))
    return out[: rng.randrange(len(out) + 1)] if rng.random() < 0.05 else out


def _rename(fields: list[list], new: bytes) -> None:
    """Another architecture, with its keys."""
    for one in fields:
        if one[0] == b"general.architecture" and one[1] == 8:
            old = one[2][8:] + b"."
            one[2] = struct.pack("<Q", len(new)) + new
            for other in fields:
                if other[0].startswith(old):
                    other[0] = new + b"." + other[0][len(old) :]
