"""ggml's tensors without data: shapes, strides and views, and what their making asserts (`ggml.c`, b11434).

What an operation demands of its tensors is not here: those functions run as they stand (`cplus.py`). Here are the few
under them that are called by the thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gguftool.facts.machine.ends import Abort
from gguftool.facts.machine.expressions import DIVIDED_BY_ZERO
from gguftool.facts.machine.values import NULL_POINTER
from gguftool.format.types import TENSOR_TYPES

MOST_NODES = 8192
"""`clip_ctx.max_nodes`: as many nodes a graph of clip may have."""
_MOST = (1 << 63) - 1
_VIEW = "view_src == NULL || data_size == 0 || data_size + view_offs <= ggml_nbytes(view_src)"


class Tensor:
    """`ggml_tensor`: type, sizes, strides in bytes, what it is a view of, what it is made from."""

    __slots__ = ("flags", "name", "nb", "ne", "op", "src", "type", "view_offs", "view_src")

    def __init__(self, kind: int, ne: list[int], view: Tensor | None = None, offset: int = 0) -> None:
        self.type, self.ne = kind, ne
        size, block = sizes(kind)
        nb1 = size * (ne[0] // block if ne[0] >= 0 else -(-ne[0] // block))
        self.nb = [size, nb1, nb1 * ne[1], nb1 * ne[1] * ne[2]]
        self.op = 0
        self.src: list[Tensor | None] = [None] * 10
        self.flags = 0
        self.name = ""
        self.view_src, self.view_offs = view, offset


def sizes(kind: int) -> tuple[int, int]:
    """Bytes of a block and numbers in it."""
    known = TENSOR_TYPES.get(kind)
    return (known.block_bytes, known.block_size) if known is not None else (0, 1)


def nbytes(t: Tensor) -> int:
    """`ggml_nbytes`."""
    ne, nb = t.ne, t.nb
    if ne[0] <= 0 or ne[1] <= 0 or ne[2] <= 0 or ne[3] <= 0:
        return 0
    size, block = sizes(t.type)
    first = size + (ne[0] - 1) * nb[0] if block == 1 else ne[0] * nb[0] // block
    return first + (ne[1] - 1) * nb[1] + (ne[2] - 1) * nb[2] + (ne[3] - 1) * nb[3]


def row_size(kind: int, n: int) -> int:
    """`ggml_row_size`, whose assertion a release does not have."""
    size, block = sizes(kind)
    return (size * n & 0xFFFFFFFFFFFFFFFF) // block


def new_tensor(kind: int, ne: list[int], view: Tensor | None = None, offset: int = 0) -> Tensor:
    """`ggml_new_tensor_impl`.

    Raises:
        Abort: a failed assertion.
    """
    if view is not None and view.view_src is not None:
        offset, view = offset + view.view_offs, view.view_src
    count = ne[0]
    for n in ne[1:]:
        if n > 1:
            if not _MOST // n > count:
                raise Abort("GGML_ASSERT(INT64_MAX / ne[i] > current_nelements) failed")
            count *= n
    if view is not None:
        size = row_size(kind, ne[0])
        for n in ne[1:]:
            size = size * n & 0xFFFFFFFFFFFFFFFF
        if not (size == 0 or (size + offset) & 0xFFFFFFFFFFFFFFFF <= nbytes(view)):
            raise Abort(f"GGML_ASSERT({_VIEW}) failed")
    return Tensor(kind, [*ne, *[1] * (4 - len(ne))], view, offset)


def contiguous(t: Tensor, m: int = 0, n: int = 4) -> bool:
    """`ggml_is_contiguous_m_n`."""
    size, block = sizes(t.type)
    if t.ne[0] != block and t.nb[0] != size:
        return False
    following = size * (t.ne[0] // block)
    for i in range(1, n):
        if i > m:
            if t.ne[i] != 1 and t.nb[i] != following:
                return False
            following *= t.ne[i]
        else:
            following = t.ne[i] * t.nb[i]
    return True


def _view_tensor(_: Any, src: Tensor) -> Tensor:
    made = new_tensor(src.type, list(src.ne), src, 0)
    made.nb = list(src.nb)
    return made


def _can_repeat(a: Tensor, b: Tensor) -> bool:
    if 0 in a.ne:
        return 0 in b.ne
    return all(_divides(x, y) for x, y in zip(a.ne, b.ne, strict=True))


def _divides(x: int, y: int) -> bool:
    """``y % x == 0``."""
    if x == 0:
        raise Abort(DIVIDED_BY_ZERO)
    return y % x == 0


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors that dies of a null pointer as C does."""

    def call(*given: Any) -> Any:
        if given and given[0] is None:
            raise Abort(NULL_POINTER)
        return function(*given)

    return call


def _named(t: Any, name: Any = "", *_: Any) -> Any:
    if t is None:
        raise Abort(NULL_POINTER)
    if "%" not in str(name):
        t.name = name
    return t


def _first(ne: Any, n: int) -> list[int]:
    """Sizes behind a pointer, which may be one number."""
    return [ne] if isinstance(ne, int) else list(ne[:n])


def _prod(ne: list[int]) -> int:
    return ne[0] * ne[1] * ne[2] * ne[3]


def natives() -> dict[str, Callable[..., Any]]:
    """Ggml's functions by name that are not taken from its source."""
    of_tensors: dict[str, Callable[..., Any]] = {
        "ggml_nbytes": nbytes,
        "ggml_nelements": lambda t: _prod(t.ne),
        "ggml_nrows": lambda t: t.ne[1] * t.ne[2] * t.ne[3],
        "ggml_element_size": lambda t: sizes(t.type)[0],
        "ggml_n_dims": lambda t: max((i + 1 for i in range(4) if t.ne[i] > 1), default=1),
        "ggml_is_empty": lambda t: 0 in t.ne,
        "ggml_is_scalar": lambda t: t.ne == [1, 1, 1, 1],
        "ggml_is_vector": lambda t: t.ne[1:] == [1, 1, 1],
        "ggml_is_matrix": lambda t: t.ne[2:] == [1, 1],
        "ggml_is_3d": lambda t: t.ne[3] == 1,
        "ggml_is_transposed": lambda t: t.nb[0] > t.nb[1],
        "ggml_is_permuted": lambda t: t.nb[0] > t.nb[1] or t.nb[1] > t.nb[2] or t.nb[2] > t.nb[3],
        "ggml_is_contiguous": lambda t: contiguous(t, 0, 4),
        "ggml_is_contiguous_0": lambda t: contiguous(t, 0, 4),
        "ggml_is_contiguous_1": lambda t: contiguous(t, 1, 4),
        "ggml_is_contiguous_2": lambda t: contiguous(t, 2, 4),
        "ggml_is_contiguous_rows": lambda t: t.ne[0] == sizes(t.type)[1] or t.nb[0] == sizes(t.type)[0],
        "ggml_is_padded_1d": lambda t: (
            t.nb[0] == sizes(t.type)[0] and t.nb[2] == t.nb[1] * t.ne[1] and t.nb[3] == t.nb[2] * t.ne[2]
        ),
        "ggml_set_name": _named,
        "ggml_format_name": _named,
    }
    of_pairs: dict[str, Callable[..., Any]] = {
        "ggml_are_same_shape": lambda a, b: a.ne == b.ne,
        "ggml_are_same_stride": lambda a, b: a.nb == b.nb,
        "ggml_can_repeat": _can_repeat,
        "ggml_can_mul_mat": lambda a, b: (
            a.ne[0] == b.ne[0] and _divides(a.ne[2], b.ne[2]) and _divides(a.ne[3], b.ne[3])
        ),
    }

    def pair(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(a: Any, b: Any) -> Any:
            if a is None or b is None:
                raise Abort(NULL_POINTER)
            return function(a, b)

        return call

    nothing: Callable[..., None] = lambda *given: None  # noqa: E731 - a dozen names for it
    makers: dict[str, Callable[..., Any]] = {
        "ggml_new_tensor": lambda _, kind, n, ne: new_tensor(kind, _first(ne, n)),
        "ggml_new_tensor_impl": lambda _, kind, n, ne, view, offset: new_tensor(kind, _first(ne, n), view, offset),
        "ggml_new_tensor_1d": lambda _, kind, a: new_tensor(kind, [a]),
        "ggml_new_tensor_2d": lambda _, kind, a, b: new_tensor(kind, [a, b]),
        "ggml_new_tensor_3d": lambda _, kind, a, b, c: new_tensor(kind, [a, b, c]),
        "ggml_new_tensor_4d": lambda _, kind, a, b, c, d: new_tensor(kind, [a, b, c, d]),
        "ggml_dup_tensor": lambda _, t: _checked(lambda s: new_tensor(s.type, list(s.ne)))(t),
        "ggml_view_tensor": lambda _, t: _checked(lambda s: _view_tensor(_, s))(t),
        "ggml_row_size": row_size,
        "ggml_type_size": lambda kind: sizes(kind)[0],
        "ggml_blck_size": lambda kind: sizes(kind)[1],
        "ggml_is_quantized": lambda kind: sizes(kind)[1] > 1,
        "ggml_type_name": lambda kind: known.name.lower() if (known := TENSOR_TYPES.get(kind)) else None,
        "GGML_PAD": lambda n, to: (n + to - 1) & -to,
        "ggml_get_op_params_i32": lambda t, i: 0,
    }
    silent = (
        "ggml_set_input ggml_set_output ggml_set_op_params ggml_set_op_params_i32 ggml_set_op_params_f32 "
        "ggml_set_param cb"
    )
    return {
        **{name: _checked(f) for name, f in of_tensors.items()},
        **{name: pair(f) for name, f in of_pairs.items()},
        **makers,
        **dict.fromkeys(silent.split(), nothing),
    }
