"""Texts of any kind with something wrong in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

BITS = [
    b"\x1b[31m", b"\xff\xfe", b"1e999", b"-1", b"9" * 5000, b"NaN", b"Infinity", b"null", b"{}", b"[]", b"[",
    b"[" * 3000,
    b'{"a":' * 3000, b'"', b"\n", b"\r", b"\0", b"\xe2\x80\xa8", b"inf MiB", b"9" * 26 + b" MiB", b"0x", b"..",
    b"/", b"=",
    b":", b" ", b"%", b"\\", b"'", b"$(x)", b"true", b"\x85", b"\\ud800", b"\\u0000", b"#", b"---", b"| ",
]  # fmt: skip
NUMBERS = [
    b"0", b"-1", b"1e999", b"-1e999", b"9" * 30, b"9" * 5000, b"4294967296", b"18446744073709551616", b"0.0", b"nan",
    b"inf", b"1_0", "\u0661".encode(), "\u00b2".encode(), b'"1"', b"[1]", b"null", b"true", b"1.5", b"1e18", b"0x10",
]  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """Another text."""
    out = bytearray(rng.choice(given))
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        how, at = rng.random(), rng.randrange(len(out) + 1)
        if how < 0.25:
            out[at:at] = rng.choice(BITS)
        elif how < 0.4:
            del out[at : at + rng.choice((1, 2, 5, 20, 100))]
        elif how < 0.5:
            out[at : at + rng.choice((1, 5))] = rng.choice(BITS)
        elif how < 0.6 and out:
            out[at - 1] = rng.randrange(256)
        elif how < 0.85:
            if numbers := list(_NUMBER.finditer(bytes(out[:20_000]))):
                m = rng.choice(numbers)
                out[m.start() : m.end()] = rng.choice(NUMBERS)
        else:
            lines = bytes(out).split(b"\n")
            if rng.random() < 0.3:
                rng.shuffle(lines)
            else:
                lines += rng.sample(lines, min(3, len(lines)))
            out = bytearray(b"\n".join(lines))
    return bytes(out)
