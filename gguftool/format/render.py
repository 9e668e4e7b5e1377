"""Header to bytes: fields and tensor infos are written back as the raw bytes they came from."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

from gguftool.errors import FormatError
from gguftool.format.header import Field, Header, TensorInfo, align
from gguftool.format.types import MAGIC, Layout
from gguftool.format.values import make_field


def render(header: Header) -> bytes:
    """The bytes of a header up to ``header.end`` (no padding). ``render(parse(f)) == f[:end]`` for readable files."""
    return render_parts(header.layout, header.fields, header.tensors)


def render_parts(layout: Layout, fields: Sequence[Field], tensors: Sequence[TensorInfo]) -> bytes:
    """Prelude, fields and tensor infos, without padding behind them.

    Fields made for another byte order or version are encoded anew; all others keep their raw bytes.
    """
    return b"".join(pieces(layout, fields, tensors))


def length(layout: Layout, fields: Sequence[Field], tensors: Sequence[TensorInfo]) -> int:
    """How many bytes `render_parts` gives, without a second copy of them."""
    front = len(MAGIC) + 4 + 2 * layout.length_size
    each = [len(f.buffer if f.layout == layout else translate(f, layout).buffer) for f in fields]
    return front + sum(each) + sum([len(t.buffer) for t in tensors])


def pieces(layout: Layout, fields: Sequence[Field], tensors: Sequence[TensorInfo]) -> Iterator[bytes | memoryview]:
    """What `render_parts` joins; most of it is views of the bytes that were read."""
    yield MAGIC
    yield struct.pack(f"{layout.order}I{layout.length_code * 2}", layout.version, len(tensors), len(fields))
    for f in fields:
        yield f.buffer if f.layout == layout else translate(f, layout).buffer
    for t in tensors:
        yield t.buffer


def translate(field: Field, layout: Layout) -> Field:
    """The same field for another version or byte order."""
    if field.layout == layout:
        return field
    name = field.type_name
    return make_field(field.key, name, field.value, layout)


def padding(end: int, alignment: int) -> bytes:
    """The zero bytes between ``end`` and the next multiple of ``alignment``."""
    return bytes(align(end, alignment) - end)


def make_tensor_info(
    name: str, shape: Iterable[int], type_id: int, offset: int, layout: Layout | None = None
) -> TensorInfo:
    """A new tensor info with its raw bytes.

    Args:
        name: tensor name.
        shape: sizes, fastest running dimension first.
        type_id: ggml tensor type id.
        offset: bytes from the start of the data section.
        layout: version and byte order; GGUF v3 little-endian when None.

    Raises:
        FormatError: a number that its field does not hold.
    """
    layout = layout or Layout()
    dims = tuple(shape)
    data = name.encode("utf-8", "surrogateescape")
    order, n = layout.order, layout.length_code
    try:
        rest = struct.pack(f"{order}I{len(dims)}{n}IQ", len(dims), *dims, type_id, offset)
    except struct.error:
        raise FormatError(f"{name}: a size or its place is a number of more than 64 bits", key=name) from None
    raw = struct.pack(order + n, len(data)) + data + rest
    return TensorInfo(name, dims, type_id, offset, (0, len(raw)), memoryview(raw))
