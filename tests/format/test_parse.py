"""The reader: versions, byte orders, limits, prefixes. Expected values come from the builder's input and the format."""

from __future__ import annotations

import os
import struct
import tracemalloc

import pytest

from gguftool.errors import ChangedMeanwhile, FormatError, InterruptedEdit, MissingFile, NotGguf, Unreadable
from gguftool.format.parse import parse, parse_bytes
from gguftool.format.render import render
from gguftool.source import LocalFile, Memory
from tests.build import GGUF, llama

ALL = {
    "a.u8": (200, "u8"), "a.i8": (-5, "i8"), "a.u16": (65535, "u16"), "a.i16": (-3, "i16"), "a.u32": (1 << 31, "u32"),
    "a.i32": (-(1 << 31), "i32"), "a.f32": (0.5, "f32"), "a.bool": (True, "bool"), "a.str": ("höhe", "str"),
    "a.u64": ((1 << 64) - 1, "u64"), "a.i64": (-(1 << 63), "i64"), "a.f64": (0.1, "f64"),
    "b.str": (["a", "", "ccc"], "[str]"), "b.u32": ([1, 2, 3], "[u32]"), "b.f32": ([0.25, -1.0], "[f32]"),
    "b.bool": ([True, False], "[bool]"), "b.empty": ([], "[str]"), "b.i64": ([-1, 1 << 40], "[i64]"),
}  # fmt: skip


def everything() -> GGUF:
    g = GGUF("llama")
    for key, (value, type) in ALL.items():
        g.kv(key, value, type)
    return g.tensor("w", (32, 4), "q4_0").tensor("v", (4, 2, 3), "f16").tensor("s", (), "f32")


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("big", [False, True])
def test_every_type_in_every_version_and_byte_order(version: int, big: bool) -> None:
    g = everything().version(version)
    data = (g.big_endian() if big else g).bytes()
    h = parse_bytes(data)
    assert (h.version, h.big_endian) == (version, big)
    for key, (value, _) in ALL.items():
        field = h.get(key)
        assert field is not None
        got = field.value
        assert (list(got) if isinstance(value, list) else got) == value, key  # type: ignore[call-overload]
    assert [(t.name, t.shape, t.type_name, t.offset) for t in h.tensors] == [
        ("w", (32, 4), "Q4_0", 0),
        ("v", (4, 2, 3), "F16", 96),
        ("s", (), "F32", 160),
    ]
    assert [t.nbytes for t in h.tensors] == [72, 48, 4]
    assert h.data_end() == h.data_offset + 164
    assert h.data_offset % 32 == 0
    assert h.data_offset >= h.end > h.data_offset - 32
    assert render(h) == data[: h.end]


def test_part_of_an_array_without_the_rest() -> None:
    h = parse_bytes(GGUF().kv("t", [f"token{i}" for i in range(1000)]).kv("n", list(range(1000)), "[i32]").bytes())
    assert h.get("t").head(3, 500) == ["token500", "token501", "token502"]  # type: ignore[union-attr]
    assert h.get("n").head(2, 998) == [998, 999]  # type: ignore[union-attr]
    assert h.get("n").head(5, 998) == [998, 999]  # type: ignore[union-attr]


def test_bad_utf8_and_duplicates_survive() -> None:
    g = GGUF("llama")
    data = g.raw_kv(g.record(b"k\xff", b"v\xfe", "str")).kv("x", 1).kv("x", 2).bytes()
    h = parse_bytes(data)
    assert render(h) == data[: h.end]
    assert h.fields[1].key.encode("utf-8", "surrogateescape") == b"k\xff"
    assert h.fields[1].value == "v\udcfe"
    assert [f.value for f in h.duplicates()] == [2]


def test_truncated_at_every_offset() -> None:
    data = everything().bytes()
    end = parse_bytes(data).end
    for cut in range(end):
        if cut < 4:
            with pytest.raises(NotGguf):
                parse_bytes(data[:cut])
            continue
        with pytest.raises(FormatError) as e:
            parse_bytes(data[:cut])
        assert e.value.exit_code == 3
        assert e.value.offset is not None
        assert e.value.offset <= cut
        h = parse_bytes(data[:cut], strict=False)
        assert not h.complete
        assert h.end <= cut
        full = parse_bytes(data)
        assert [f.raw for f in h.fields] == [f.raw for f in full.fields[: len(h.fields)]]


def head(n_tensors: int, n_kv: int, version: int = 3, order: str = "<") -> bytes:
    return b"GGUF" + struct.pack(order + "IQQ", version, n_tensors, n_kv)


S = struct.Struct("<Q")
KEY = S.pack(1) + b"k"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (head(0, 1 << 63), "bad-count"),
        (head(1 << 63, 0), "bad-count"),
        (head(0, 2**64 - 1), "bad-count"),
        (head(0, 1) + S.pack(2**64 - 1) + b"x" * 40, "truncated"),
        (head(0, 1) + KEY + struct.pack("<I", 8) + S.pack(2**64 - 1) + b"x" * 40, "truncated"),
        (head(0, 1) + KEY + struct.pack("<II", 9, 8) + S.pack(2**61) + b"x" * 40, "truncated"),
        (head(0, 1) + KEY + struct.pack("<II", 9, 8) + S.pack(2) + S.pack(2**64 - 8) + b"x" * 40, "truncated"),
        (head(0, 1) + KEY + struct.pack("<II", 9, 12) + S.pack(2**61) + b"x" * 40, "truncated"),
        (head(0, 1) + KEY + struct.pack("<II", 9, 9) + S.pack(2**61) + b"x" * 40, "truncated"),
        (head(0, 1) + KEY + struct.pack("<I", 13) + b"x" * 40, "unknown-value-type"),
        (head(0, 1) + KEY + struct.pack("<II", 9, 77) + S.pack(3) + b"x" * 40, "unknown-value-type"),
        (head(1, 0) + KEY + struct.pack("<I", 0xFFFFFFFF) + b"x" * 40, "bad-count"),
        (head(0, 0, version=0), "bad-version"),
        (head(0, 0, version=4), "bad-version"),
        (head(0, 0, version=99), "bad-version"),
        (head(0, 0)[:10], "truncated"),
    ],
)
def test_hostile_counts_and_lengths(data: bytes, kind: str) -> None:
    tracemalloc.start()
    with pytest.raises(FormatError) as e:
        parse_bytes(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert e.value.kind == kind
    assert peak < 1 << 20


def test_a_claimed_size_is_not_believed() -> None:
    # A sparse file may be huge; the walk stops at what the bytes say.
    data = head(0, 1) + KEY + struct.pack("<II", 9, 8) + S.pack(2**59) + bytes(100)
    with pytest.raises(FormatError):
        parse(Memory(data, size=1 << 62))


def test_nested_arrays_are_walked_and_deep_ones_refused() -> None:
    inner = struct.pack("<IQ2I", 4, 2, 1, 2) + struct.pack("<IQ", 8, 1) + S.pack(3) + b"abc"
    data = head(0, 1) + KEY + struct.pack("<IIQ", 9, 9, 2) + inner
    h = parse_bytes(data)
    assert h.fields[0].value == [[1, 2], ["abc"]]
    assert render(h) == data
    deep = head(0, 1) + KEY + struct.pack("<II", 9, 9) + (S.pack(1) + struct.pack("<I", 9)) * 100 + S.pack(0)
    with pytest.raises(FormatError) as e:
        parse_bytes(deep)
    assert e.value.kind == "nested-too-deep"


@pytest.mark.parametrize(("value", "type"), [(0, "u32"), (48, "u32"), (64, "i32"), (64, "u64")])
def test_unusable_alignment(value: int, type: str) -> None:
    data = GGUF("llama").kv("general.alignment", value, type).tensor("w").bytes()
    with pytest.raises(FormatError) as e:
        parse_bytes(data)
    assert e.value.key == "general.alignment"
    h = parse_bytes(data, strict=False)
    assert h.complete
    assert h.alignment == 32
    assert [t.name for t in h.tensors] == ["w"]


def test_custom_alignment() -> None:
    h = parse_bytes(GGUF("llama").align(64).tensor("w", (32,)).tensor("v", (32,)).bytes())
    assert h.alignment == 64
    assert h.data_offset % 64 == 0
    assert [t.offset for t in h.tensors] == [0, 128]


def test_a_long_vocabulary_needs_more_than_the_first_read() -> None:
    tokens = [f"{i:x}" * (1 + i % 40) for i in range(60_000)]
    data = llama().replace("tokenizer.ggml.tokens", tokens).bytes()
    h = parse_bytes(data)
    assert h.get("tokenizer.ggml.tokens").count == 60_000  # type: ignore[union-attr]
    assert h.get("tokenizer.ggml.tokens").value == tokens  # type: ignore[union-attr]
    cut = data.index(b"tokenizer.ggml.scores") - 10
    with pytest.raises(FormatError) as e:
        parse_bytes(data[:cut])
    assert e.value.key == "tokenizer.ggml.tokens"


GZ = b"\x1f\x8b\x08\0"
OTHERS = [
    (b"", "empty"),
    (bytes(100), "zeros"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"ab" * 32 + b"\nsize 4683073504\n", "lfs-pointer"),
    (b"<!DOCTYPE html><html><title>Sign in</title></html>", "html"),
    (b'  {"error":"Repository not found"}', "json"),
    (b"lmgg" + bytes(50), "ggml"),
    (b"tjgg" + bytes(50), "ggml"),
    (S.pack(20) + b'{"__metadata__":{} }' + bytes(10), "safetensors"),
    (b"PK\x03\x04" + bytes(50), "zip"),
    (GZ + bytes(50), "gzip"),
    (b"Entry not found", "text"),
    (b"\x00\x01\x02\x03\xff\xfe", "unknown"),
]


@pytest.mark.parametrize(("data", "kind"), OTHERS)
def test_what_is_no_gguf_is_named(data: bytes, kind: str) -> None:
    for strict in (True, False):
        with pytest.raises(NotGguf) as e:
            parse_bytes(data, strict=strict)
        assert e.value.kind == kind
        assert e.value.exit_code == 3


def test_lfs_pointer_tells_oid_and_size() -> None:
    with pytest.raises(NotGguf) as e:
        parse_bytes(OTHERS[2][0])
    assert e.value.facts == {"oid": "ab" * 32, "size": 4683073504}
    assert "4,683,073,504" in str(e.value)
    assert "git lfs pull" in str(e.value.hint)


def test_a_poisoned_file_names_the_way_out() -> None:
    with pytest.raises(InterruptedEdit) as e:
        parse_bytes(b"GGTX" + bytes(100), name="m.gguf")
    assert e.value.exit_code == 7
    assert "gguftool recover m.gguf" in str(e.value.hint)


def test_a_link_to_nothing_says_where_it_ends(tmp_path) -> None:
    (tmp_path / "m.gguf").symlink_to("blobs/gone")
    with pytest.raises(MissingFile, match=r"is a link to .*gone, and there is no such file") as e:
        LocalFile(tmp_path / "m.gguf")
    assert e.value.hint == "download it again"


def test_what_is_no_file(tmp_path) -> None:
    with pytest.raises(MissingFile):
        LocalFile(tmp_path / "none.gguf")
    llama().write(tmp_path / "model.gguf")
    with pytest.raises(MissingFile) as e:
        LocalFile(tmp_path / "modle.gguf")
    assert "model.gguf" in str(e.value.hint)
    with pytest.raises(Unreadable, match="folder"):
        LocalFile(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(Unreadable, match="pipe"):
        LocalFile(tmp_path / "fifo")
    with pytest.raises(Unreadable):
        LocalFile("/dev/null")


def test_a_file_cut_short_while_it_is_read(tmp_path) -> None:
    path = llama().write(tmp_path / "m.gguf")
    source = LocalFile(path)
    os.truncate(path, 100)
    with pytest.raises(ChangedMeanwhile):
        parse(source)


def test_no_descriptor_is_left_open(tmp_path) -> None:
    from gguftool.model import open_model

    path = llama().write(tmp_path / "m.gguf")
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(path.read_bytes()[:200])
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        open_model(path).close()
        with pytest.raises(FormatError):
            open_model(bad)
    assert len(os.listdir("/proc/self/fd")) == before
