"""The functions that quantise rows: ggml's own out of the ``libggml-python`` wheel, or those of the ``gguf`` package.

ggml's are C and release the GIL, so threads use all cores; they may end the process with an assertion, so they are
called in children (`gguftool.build.rowworker`, `gguftool.build.distancechild`) only. The ``gguf`` package's are numpy,
give the same bytes and know fewer types; they serve where the wheel is missing.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

from gguftool.errors import ToolFailed
from gguftool.format.types import TENSOR_TYPE_BY_NAME, TENSOR_TYPES
from gguftool.records import dataclass

HOW_TO_GET = "pip install 'gguftool[quant]'"
_NUMPY_TYPES = frozenset("F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 TQ1_0 TQ2_0 MXFP4".split())
_GGML_TYPES = frozenset(
    "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S "
    "IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4 Q1_0 Q2_0".split()
)

Convert = Callable[["bytes | memoryview", str, str, int, int, "bytes | None"], "bytes | memoryview"]
"""(data, source type, new type, rows, elements of a row, f32 importances of one row or None) -> new data.

The result is valid until the next call of the same thread.
"""
Valid = Callable[[str, "bytes | memoryview"], bool]
"""(tensor type, data) -> whether llama.cpp takes the data (`ggml-quants.c:ggml_validate_row_data`)."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """A set of quantising functions.

    Attributes:
        name: what to call it: ``libggml 0.20.2``, ``gguf 0.19.0 (numpy)``.
        writes: tensor types it can make.
        convert: see `Convert`.
        valid: see `Valid`.
        library: the C library they are in; None for numpy's.
        reads: tensor types that ``convert`` turns into F32 faster than `gguftool.model.arrays.floats` does; that never
            ends the process.
    """

    name: str
    writes: frozenset[str]
    convert: Convert
    valid: Valid
    library: str | None = None
    reads: frozenset[str] = frozenset()

    @property
    def parallel(self) -> bool:
        """Whether threads help."""
        return self.library is not None


def find() -> Kernels:
    """The best kernels that are installed; the ``gguf`` package's are always there."""
    return load(library_path())


def load(library: str | None) -> Kernels:
    """The kernels of a library; numpy's where there is none, or it is not what we know."""
    found = _ggml(library) if library is not None else None
    return found or _numpy()


def tell_before_abort(library: str, tell: Callable[[str], None]) -> object:
    """Let ``tell`` have the words of an assertion before it ends the process, in the thread that it ends in.

    Returns:
        What must be kept as long as it is to work.
    """
    set_callback = getattr(ctypes.CDLL(library), "ggml_set_abort_callback", None)
    if set_callback is None:
        return None
    callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(lambda text: tell((text or b"").decode("utf-8", "replace")))
    set_callback.restype, set_callback.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    set_callback(ctypes.cast(callback, ctypes.c_void_p))
    return callback


def library_path() -> str | None:
    """The ggml-base library of the ``libggml-python`` wheel; None when it is not installed."""
    spec = find_spec("libggml")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        for folder in ("lib64", "lib", "bin"):
            for name in ("libggml-base.so", "libggml-base.dylib", "ggml-base.dll"):
                path = os.path.join(root, folder, name)
                if os.path.isfile(path):
                    return path
    return None


class _Traits(ctypes.Structure):
    """`ggml.h:ggml_type_traits`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("block_size", ctypes.c_int64),
        ("block_size_interleave", ctypes.c_int64),
        ("type_size", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", ctypes.c_void_p),
        ("from_float_ref", ctypes.c_void_p),
    )


_ROW = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class _Buffers(threading.local):
    """Memory of one thread, kept between calls."""

    floats: ctypes.Array[ctypes.c_char] | None = None
    result: ctypes.Array[ctypes.c_char] | None = None

    def get(self, which: str, size: int) -> ctypes.Array[ctypes.c_char]:
        found = getattr(self, which)
        if found is None or len(found) < size:
            found = ctypes.create_string_buffer(size)
            setattr(self, which, found)
        return found  # type: ignore[no-any-return]


@cache
def _ggml(path: str) -> Kernels | None:
    """Kernels of a ggml library; None when it does not load or is not what we know."""
    try:
        lib = ctypes.CDLL(path)
        quantize, valid, traits = lib.ggml_quantize_chunk, lib.ggml_validate_row_data, lib.ggml_get_type_traits
        init, version = lib.ggml_quantize_init, lib.ggml_version
    except (OSError, AttributeError):
        return None
    quantize.restype = ctypes.c_size_t
    p, i64 = ctypes.c_void_p, ctypes.c_int64
    quantize.argtypes = (ctypes.c_int, p, p, i64, i64, i64, p)
    valid.restype, valid.argtypes = ctypes.c_bool, (ctypes.c_int, p, ctypes.c_size_t)
    traits.restype, traits.argtypes = ctypes.POINTER(_Traits), (ctypes.c_int,)
    init.restype, init.argtypes = None, (ctypes.c_int,)
    version.restype = ctypes.c_char_p
    readers: dict[str, Callable[[int, int, int], None]] = {}
    known = set()
    for t in TENSOR_TYPES.values():
        row = traits(t.id).contents
        alike = row.type_size == t.block_bytes and row.block_size == t.block_size
        if t.name in _GGML_TYPES and not alike:
            return None
        if alike:
            known.add(t.name)
        if row.to_float and t.name != "F32":
            readers[t.name] = _ROW(row.to_float)
    init_once = cache(init)
    buffers = _Buffers()

    def convert(
        data: bytes | memoryview, source: str, new: str, rows: int, row: int, imatrix: bytes | None
    ) -> memoryview:
        kind, n = TENSOR_TYPE_BY_NAME[new], rows * row
        at = _address(data)
        if source != "F32":
            floats = buffers.get("floats", 4 * n)
            readers[source](at, ctypes.addressof(floats), n)
            at = ctypes.addressof(floats)
        out = buffers.get("result", n // kind.block_size * kind.block_bytes)
        init_once(kind.id)
        size = quantize(kind.id, at, ctypes.addressof(out), 0, rows, row, imatrix)
        return memoryview(out)[:size]

    def is_valid(name: str, data: bytes | memoryview) -> bool:
        if name not in known:
            return finite(name, data)
        return bool(valid(TENSOR_TYPE_BY_NAME[name].id, _address(data), len(data)))

    return Kernels(f"libggml {version().decode()}", _GGML_TYPES, convert, is_valid, path, frozenset(readers))


def _address(data: bytes | memoryview) -> int:
    """Where the bytes lie, for as long as they are there; a view must be one of memory that may be written."""
    if isinstance(data, bytes):
        return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
    return ctypes.addressof(ctypes.c_char.from_buffer(data)) if len(data) else 0


def finite(name: str, data: bytes | memoryview) -> bool:
    """What the library says of data, by numpy."""
    import numpy as np

    from gguftool.verify.blocks import NUMBERS, any_special

    if name not in NUMBERS:
        return False
    blocks = np.frombuffer(data, np.uint8).reshape(-1, TENSOR_TYPE_BY_NAME[name].block_bytes)
    return not any(any_special(blocks, name, number, False) for number in NUMBERS[name])


def _numpy() -> Kernels:
    from importlib.metadata import version

    def convert(data: bytes | memoryview, source: str, new: str, rows: int, row: int, imatrix: bytes | None) -> bytes:
        import numpy as np
        from gguf import GGMLQuantizationType, quants

        if new not in _NUMPY_TYPES:
            raise ToolFailed(f"the numpy kernels cannot make {new}", HOW_TO_GET)
        raw = np.frombuffer(data, np.uint8).reshape(rows, -1)
        with np.errstate(all="ignore"):
            floats = quants.dequantize(raw, GGMLQuantizationType[source])
        if new == "F32":
            return bytes(floats.astype(np.float32))
        with np.errstate(all="ignore"):  # a row of denormals has a scale whose inverse is infinite
            return bytes(quants.quantize(floats.astype(np.float32), GGMLQuantizationType[new]))

    return Kernels(f"gguf {version('gguf')} (numpy)", _NUMPY_TYPES, convert, finite)
