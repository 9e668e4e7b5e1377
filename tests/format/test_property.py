"""Properties: render inverts parse, and no flipped byte of a header gives anything but a `FormatError`."""

from __future__ import annotations

import random
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from gguftool.errors import FormatError, InterruptedEdit
from gguftool.format.parse import parse_bytes
from gguftool.format.render import render
from tests.build import GGUF, TENSOR, VALUE

INTEGERS = {n: (0, 2**b - 1) for n, b in (("u8", 8), ("u16", 16), ("u32", 32), ("u64", 64))}
INTEGERS |= {n: (-(2 ** (b - 1)), 2 ** (b - 1) - 1) for n, b in (("i8", 8), ("i16", 16), ("i32", 32), ("i64", 64))}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def scalars(type: str) -> st.SearchStrategy:
    if type in INTEGERS:
        return st.integers(*INTEGERS[type])
    if type == "bool":
        return st.booleans()
    if type == "str":
        return TEXT
    return st.floats(width=32 if type == "f32" else 64, allow_nan=False)


def pairs() -> st.SearchStrategy:
    plain = st.sampled_from([t for t in VALUE if t != "arr"])
    one = plain.flatmap(lambda t: st.tuples(TEXT, scalars(t), st.just(t)))
    many = plain.flatmap(lambda t: st.tuples(TEXT, st.lists(scalars(t), max_size=5), st.just(f"[{t}]")))
    return st.lists(st.one_of(one, many), max_size=8)


TENSORS = st.lists(
    st.tuples(TEXT, st.lists(st.integers(0, 3), max_size=4), st.sampled_from(sorted(TENSOR))), max_size=4
)


@settings(max_examples=150, deadline=None)
@given(pairs(), TENSORS, st.sampled_from([1, 2, 3]), st.booleans())
def test_values_and_bytes_survive(kvs, tensors, version, big) -> None:
    g = GGUF().version(version)
    if big:
        g.big_endian()
    for key, value, type in kvs:
        g.kv(key or "k", value, type)
    for name, shape, type in tensors:
        block = TENSOR[type][1]
        g.tensor(name, [s * (block if i == 0 else 1) for i, s in enumerate(shape)] or (block,), type)
    data = g.bytes()
    h = parse_bytes(data, strict=False)
    assert h.complete
    assert render(h) == data[: h.end]
    assert h.data_end() is not None
    assert h.data_end() <= len(data)  # type: ignore[operator]
    for field, (key, value, _) in zip(h.fields, kvs, strict=True):
        assert field.key == (key or "k")
        got = field.value
        assert (list(got) if isinstance(value, list) else got) == value  # type: ignore[call-overload]


def small() -> bytes:
    g = GGUF("llama").kv("n", 7).kv("s", "text").kv("a", ["x", "yy"]).kv("f", [1.0, 2.0]).kv("b", True)
    return g.kv("general.alignment", 32, "u32").tensor("w", (32, 2), "q8_0").tensor("v", (4,)).bytes()


def test_every_flipped_bit_of_a_header_is_survived() -> None:
    data = small()
    end = parse_bytes(data).end
    tracemalloc.start()
    for at in range(end):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            check(bytes(flipped))
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_random_bytes_behind_the_magic_are_survived() -> None:
    rng = random.Random(1)
    data = small()
    for _ in range(3000):
        noisy = bytearray(data)
        for _ in range(rng.randrange(1, 12)):
            noisy[rng.randrange(4, len(noisy))] = rng.randrange(256)
        check(bytes(noisy))


def check(data: bytes) -> None:
    """Strict raises or reads; collecting reads a prefix and every value in it can be decoded."""
    try:
        h = parse_bytes(data, strict=False)
    except (FormatError, InterruptedEdit):
        return
    for field in h.fields:
        _ = field.value
    _ = [t.nbytes for t in h.tensors], h.data_end()
    assert h.end <= len(data)
    if h.complete:
        assert render(h) == data[: h.end]
    error = strict_error(data)
    assert (error is not None) == bool(h.problems)
    assert error is None or error.offset is not None


def strict_error(data: bytes) -> FormatError | None:
    try:
        parse_bytes(data)
    except FormatError as error:
        return error
    return None


def test_the_short_way_through_a_tensor_finds_what_the_long_one_does(monkeypatch) -> None:
    """Whatever stands in a record: the fields, the first fault, and where it stands."""
    g = GGUF("llama").kv("a.b", "c").tensor("blk.0.ffn_gate.weight", (32, 4), "q4_0").tensor("höhe", (4, 2, 3), "f16")
    whole = g.tensor("s", (), "f32").tensor("five", (1, 1, 1, 1, 1), "f32").tensor("s", (8,), "f32").bytes()
    first = parse_bytes(whole).tensors[0].span[0]
    end = parse_bytes(whole).tensors[-1].span[1]
    cases = [whole[:n] for n in range(first, end)]
    for at in range(first, end):
        for byte in (0, 1, 5, 0xC3, 0xFF):
            cases.append(whole[:at] + bytes([byte]) + whole[at + 1 :])
    short = [parse_bytes(case, strict=False) for case in cases]
    monkeypatch.setattr("gguftool.format.parse._plain_tensor", lambda walk: None)
    for case, header in zip(cases, short, strict=True):
        assert parse_bytes(case, strict=False) == header
