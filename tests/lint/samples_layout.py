"""Layout: the table of bad files in llama.cpp's own tests (`tests/test-gguf.cpp`, b11434) and what lint adds."""

from __future__ import annotations

import struct

from gguftool.format.parse import parse_bytes
from tests.build import GGUF, llama
from tests.lint.samples import Sample, ready

INT_MAX = 2147483647


def two(type: str = "f32", **levers: object) -> GGUF:
    """Two small tensors under a whole set of keys."""
    return ready().tensor("a.weight", (32, 4), type).tensor("b.weight", (32, 4), type)


def small() -> GGUF:
    """A header with an architecture and one tensor: quick to break."""
    return GGUF("llama").kv("llama.block_count", 1).tensor("a.weight", (32, 4)).tensor("b.weight", (32, 4))


def patched(g: GGUF, at: int, data: bytes) -> bytes:
    """The file with some bytes replaced."""
    raw = bytearray(g.bytes())
    raw[at : at + len(data)] = data
    return bytes(raw)


def info(name: str, shape: tuple[int, ...], type_id: int = 0, offset: int = 0) -> bytes:
    """A whole file with one tensor record, as bytes, and a little data."""
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0)
    record = struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape))
    record += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", type_id, offset)
    raw = head + record
    return raw + bytes(-len(raw) % 32) + bytes(512)


def raw_key(value_type: int, body: bytes, key: bytes = b"x.y") -> GGUF:
    return small().raw_kv(struct.pack("<Q", len(key)) + key + struct.pack("<I", value_type) + body)


def nested() -> GGUF:
    inner = struct.pack("<IQ2I", 4, 2, 1, 2)
    return raw_key(9, struct.pack("<IQ", 9, 2) + inner + inner, b"x.nested")


def padded_to(g: GGUF, alignment: int) -> bytes:
    """The header padded to another alignment than the key says, the data as it was."""
    raw = g.bytes()
    header = parse_bytes(raw)
    end = header.end
    return raw[:end] + bytes(-end % alignment) + raw[header.data_offset :]


OK = small()
SAMPLES = [
    # HEADER_BAD_VERSION_0, _FUTURE, _1
    Sample("version-unsupported", OK.copy().version(0), "header", "0 is not a version", OK, fix=""),
    Sample("version-unsupported", OK.copy().version(4), "header", "version 4 is newer", OK),
    Sample("version-unsupported", OK.copy().version(1), "header", "version 1", OK),
    Sample("version-old", OK.copy().version(2), "header", "version 2", OK, severity="info"),
    Sample("byte-order", OK.copy().big_endian(), "header", "big-endian", OK, fix="gguf-convert-endian m.gguf little"),
    # HEADER_BAD_N_TENSORS, HEADER_BAD_N_KV
    Sample("count-impossible", patched(OK, 8, struct.pack("<q", -1)), "header", "tensors cannot fit", OK),
    Sample("count-impossible", patched(OK, 16, struct.pack("<q", -1)), "header", "metadata fields cannot fit", OK),
    Sample("count-impossible", patched(OK, 16, struct.pack("<Q", 1 << 29)), "header", "cannot fit", OK),
    # KV_BAD_KEY_SIZE, a string longer than the file, an array longer than the file, a file cut in its header
    Sample("header-breaks-off", patched(OK, 24, b"\xff" * 8), "header", "key needs 18,446,744,073,709,551,615", OK),
    Sample("header-breaks-off", raw_key(8, struct.pack("<Q", 1 << 40)), "header", "in 'x.y'", OK),
    Sample("header-breaks-off", raw_key(9, struct.pack("<IQ", 4, 1 << 29)), "header", "array of 536,870,912", OK),
    Sample("header-breaks-off", ready().truncate(700), "header", "keys and 0 of 11 tensors read"),
    # KV_BAD_TYPE
    Sample("value-type-unknown", raw_key(13, b"\0" * 8), "field:x.y", "value type 13", OK),
    Sample("nested-array", nested(), "field:x.nested", "array of arrays", OK),
    Sample("key-empty", OK.copy().kv("", 1), "header", "key 2 is empty", OK),
    # KV_DUPLICATE_KEY
    Sample(
        "key-duplicate",
        ready().kv("llama.block_count", 2),
        "field:llama.block_count",
        "1 first, then 2",
        fix="--dedupe",
        safe=False,
    ),
    Sample(
        "key-duplicate",
        ready().kv("llama.block_count", 1),
        "field:llama.block_count",
        "the same value",
        fix="--dedupe",
        safe=True,
    ),
    Sample("key-too-long", OK.copy().kv("k" * 65536, 1), "header", "65,536 bytes", OK.copy().kv("k" * 65535, 1)),
    # KV_BAD_ALIGN, KV_WRONG_TYPE_ALIGN
    Sample(
        "alignment-invalid",
        ready().kv("general.alignment", 48),
        "field:general.alignment",
        "48, not a power of 2",
        fix="--delete general.alignment",
    ),
    Sample("alignment-invalid", ready().kv("general.alignment", 0), "field:general.alignment", "0, not a power of 2"),
    Sample("alignment-invalid", ready().kv("general.alignment", 32, "i32"), "field:general.alignment", "must be u32"),
    Sample("alignment-invalid", ready().kv("general.alignment", 32, "u64"), "field:general.alignment", "is u64"),
    Sample(
        "data-start-misaligned",
        GGUF("llama").align(8).tensor("a", (8,)),
        "field:general.alignment",
        "aborts",
        OK.copy().align(64),
        fix="--realign 32",
    ),
    Sample(
        "alignment-unusual",
        ready().kv("general.alignment", 32),
        "field:general.alignment",
        "need not be written down",
        fix="--delete general.alignment",
        severity="info",
    ),
    Sample(
        "data-start-elsewhere",
        padded_to(ready().align(4096), 32),
        "header",
        "written with an alignment of 32, the key says 4,096",
        ready().align(4096),
        fix="--realign 4096",
        severity="error",
    ),
    Sample("alignment-unusual", ready().align(64), "field:general.alignment", "is 64", severity="info"),
    Sample("alignment-unusual", ready().align(16), "field:general.alignment", "is 16", severity="warning"),
    Sample(
        "alignment-unusual",
        patched(GGUF("llama").kv("general.alignment", 1 << 31), 0, b"GGUF"),
        "field:general.alignment",
        "more than 1 MiB",
        severity="warning",
    ),
    Sample(
        "filler-present", ready().kv("gguftool.pad", " " * 100), "field:gguftool.pad", "of room", fix="--strip-padding"
    ),
    # TENSORS_BAD_NAME_SIZE
    Sample("tensor-name-too-long", OK.copy().tensor("n" * 64), message="64 bytes", silent=OK.copy().tensor("n" * 63)),
    # TENSORS_DUPLICATE_NAME
    Sample("tensor-duplicate", OK.copy().tensor("a.weight"), "tensor:a.weight", "records 0 and 2", OK),
    Sample("tensor-name-odd", OK.copy().tensor("blk.0.\x1b[31mffn"), message="control character", silent=OK),
    Sample("tensor-name-odd", OK.copy().tensor("../../etc/passwd"), message="path separator", silent=OK),
    Sample("tensor-name-odd", OK.copy().tensor("a\udcff", data=bytes(512)), message="not UTF-8", silent=OK),
    Sample("tensor-name-odd", OK.copy().tensor(""), message="is empty", silent=OK),
    # TENSORS_BAD_N_DIMS, TENSORS_BAD_SHAPE, TENSORS_ZERO_DIM, TENSORS_NE_TOO_BIG, TENSORS_NBYTES_TOO_BIG
    Sample("tensor-dims", info("w", (1, 1, 1, 1, 1)), "tensor:w", "5 dimensions", OK),
    Sample("tensor-size-overflow", info("w", ((1 << 64) - 1,)), "tensor:w", "dimension 0 is -1 (negative)", OK),
    Sample("tensor-dim-zero", info("w", (4, 0)), "tensor:w", "4 × 0", OK, severity="warning"),
    Sample("tensor-size-overflow", info("w", (4 * INT_MAX, 4 * INT_MAX)), "tensor:w", "elements", OK),
    Sample("tensor-size-overflow", info("w", (1 << 33, 1 << 33)), "tensor:w", "elements", OK),
    Sample("tensor-size-overflow", info("w", (1 << 31, (1 << 31) - 1), 27), "tensor:w", "bytes", OK),
    # TENSORS_BAD_TYPE, and a type that was removed
    Sample("tensor-type-unknown", info("w", (32,), 43), "tensor:w", "type 43", OK),
    Sample("tensor-type-unknown", info("w", (32,), 31), "tensor:w", "Q4_0_4_4", OK),
    Sample("tensor-row-blocks", info("w", (48, 2), 2), "tensor:w", "rows of 48", OK),
    # TENSORS_BAD_OFFSET, DATA_BAD offsets: gap, overlap, misaligned
    Sample(
        "tensor-offset-gap",
        small().gap("b.weight", 32).trailing(bytes(32)),
        "tensor:b.weight",
        "expected 512",
        OK,
        fix="--repack",
        safe=False,
    ),
    Sample("tensor-offset-misaligned", small().gap("a.weight", -1), "tensor:a.weight", "not a multiple of 32", OK),
    Sample("tensor-offset-overlap", small().gap("b.weight", -256), "tensor:b.weight", "which ends at 512", OK, fix=""),
    Sample("tensor-offset-misaligned", small().gap("b.weight", 4), "tensor:b.weight", "starts at 516", OK),
    # DATA_NOT_ENOUGH_DATA
    Sample("data-truncated", llama().truncate(-16), "tensor:blk.0.ffn_up.weight", "ends 16 bytes early (99 % of"),
    Sample(
        "data-truncated", GGUF("llama").tensor("w", (32, 32)).truncate(128), "tensor:w", "no tensor data at all", OK
    ),
    Sample("trailing-bytes", ready().trailing(b"\0" * 1000), "file", "1,000 bytes follow", fix="--repack"),
    Sample(
        "trailing-bytes",
        ready().trailing(GGUF("llama").bytes()),
        "file",
        "joined with cat",
        severity="error",
        fix="head -c",
    ),
    Sample(
        "final-padding-missing",
        GGUF("llama").tensor("w", (5,)).truncate(-12),
        "file",
        "12 bytes of padding",
        OK,
        severity="info",
    ),
    # `gguf_init_from_file` reads the data in one piece, padding included (b11434).
    Sample(
        "final-padding-missing",
        GGUF("controlvector").tensor("direction.1", (5,)).truncate(-12),
        "file",
        "does not take the file",
        GGUF("controlvector").tensor("direction.1", (5,)),
        severity="error",
        fix="--repack",
        safe=True,
    ),
    Sample(
        "data-start-misaligned",
        ready().align(1),
        "field:general.alignment",
        "llama.cpp aborts",
        # What stands beside a model is read, not mapped: b11434 takes it.
        GGUF("controlvector").tensor("direction.1", (5,)).align(1),
    ),
]
