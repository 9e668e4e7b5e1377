"""The child process that quantises with a real llama library: ``python -m gguftool.build.libworker``.

It reads one JSON object from stdin and lets the library's log go to stderr. It is a process of its own because the
library may abort, and because nothing else can stop it in the middle.
"""

from __future__ import annotations

import ctypes
import glob
import json
import os
import signal
import sys
from typing import Any

_MAX_BUF_SIZE = 8 << 30
"""Default of the last member (`llama-quant.cpp:LLAMA_QUANT_MAX_BUF_SIZE`); libraries that have it take C structures."""


class _Params(ctypes.Structure):
    """`llama.h:llama_model_quantize_params`; ``spare`` takes what a newer library writes behind it."""

    _fields_ = (
        ("nthread", ctypes.c_int32),
        ("ftype", ctypes.c_int32),
        ("output_tensor_type", ctypes.c_int32),
        ("token_embedding_type", ctypes.c_int32),
        ("allow_requantize", ctypes.c_bool),
        ("quantize_output_tensor", ctypes.c_bool),
        ("only_copy", ctypes.c_bool),
        ("pure", ctypes.c_bool),
        ("keep_split", ctypes.c_bool),
        ("dry_run", ctypes.c_bool),
        ("imatrix", ctypes.c_void_p),
        ("kv_overrides", ctypes.c_void_p),
        ("tt_overrides", ctypes.c_void_p),
        ("prune_layers", ctypes.c_void_p),
        ("max_buf_size", ctypes.c_size_t),
        ("spare", ctypes.c_uint8 * 192),
    )


class _Value(ctypes.Union):
    """The value in an override."""

    _fields_ = (
        ("number", ctypes.c_int64),
        ("real", ctypes.c_double),
        ("truth", ctypes.c_bool),
        ("text", ctypes.c_char * 128),
    )


class _Override(ctypes.Structure):
    """`llama.h:llama_model_kv_override`."""

    _fields_ = (("tag", ctypes.c_int32), ("key", ctypes.c_char * 128), ("value", _Value))


class _TypeOverride(ctypes.Structure):
    """`llama.h:llama_model_tensor_override`."""

    _fields_ = (("pattern", ctypes.c_char_p), ("type", ctypes.c_int32))


class _Imatrix(ctypes.Structure):
    """`llama.h:llama_model_imatrix_data`."""

    _fields_ = (("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


_MEMBERS = {"int": (0, "number"), "float": (1, "real"), "bool": (2, "truth"), "str": (3, "text")}
"""Tag and member of each kind of override (`llama.h:llama_model_kv_override_type`)."""


def main() -> int:
    """Do the job on stdin; the exit code is the library's return value."""
    # The library is C: only the default action of the signal can stop it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    job = json.load(sys.stdin)
    lib = load(job["library"])
    keep: list[object] = []
    params = default_params(lib)
    if params is None:
        sys.stderr.write("gguftool: this library's llama_model_quantize_params is not one we know\n")
        return 65
    if params.max_buf_size != _MAX_BUF_SIZE:
        # An older library: overrides and importances were C++ objects then.
        if any(job.get(name) for name in ("imatrix", "tensor_types", "prune", "asked")):
            sys.stderr.write(
                "gguftool: this library is too old for --imatrix, --tensor-type, --prune-layers and keys\n"
            )
            return 65
        job["fields"] = []
    params.nthread = job["threads"]
    params.ftype = job["ftype"]
    for name in ("allow_requantize", "pure", "dry_run", "only_copy", "keep_split"):
        setattr(params, name, bool(job.get(name)))
    params.quantize_output_tensor = not job.get("leave_output")
    for name in ("output_tensor_type", "token_embedding_type"):
        if job.get(name) is not None:
            setattr(params, name, job[name])
    _extras(params, job, keep)
    lib.llama_model_quantize.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
    code: int = lib.llama_model_quantize(os.fsencode(job["input"]), os.fsencode(job["output"]), ctypes.byref(params))
    sys.stderr.flush()
    return 1 if code else 0


def load(path: str) -> Any:
    """The library, its CPU backends loaded when they are files of their own."""
    lib = ctypes.CDLL(path)
    folder = os.path.dirname(os.path.abspath(path))
    for other in sorted(glob.glob(os.path.join(glob.escape(folder), "libggml.*"))):
        backend = ctypes.CDLL(other)
        if hasattr(backend, "ggml_backend_load_all_from_path"):
            backend.ggml_backend_load_all_from_path.argtypes = (ctypes.c_char_p,)
            backend.ggml_backend_load_all_from_path(os.fsencode(folder))
            break
    lib.llama_backend_init()
    return lib


def default_params(lib: Any) -> _Params | None:
    """The library's defaults; None when their values show that they are not laid out as we know."""
    make = lib.llama_model_quantize_default_params
    make.restype = _Params
    made: _Params = make()
    types = made.output_tensor_type
    known = (
        made.nthread == 0
        and 0 <= made.ftype < 64
        and 30 < types < 256
        and made.token_embedding_type == types
        and not made.allow_requantize
        and made.quantize_output_tensor
        and not (made.only_copy or made.pure or made.keep_split)
        and not (made.imatrix or made.kv_overrides or made.tt_overrides or made.prune_layers)
    )
    return made if known else None


def _extras(params: _Params, job: dict[str, Any], keep: list[object]) -> None:
    """Overrides and importance matrix; ``keep`` holds their memory."""
    fields = job.get("fields") or []
    if fields:
        rows = (_Override * (len(fields) + 1))()
        for row, (key, kind, value) in zip(rows, fields, strict=False):
            row.key = os.fsencode(key)
            row.tag, member = _MEMBERS[kind]
            setattr(row.value, member, os.fsencode(value) if kind == "str" else value)
        params.kv_overrides = ctypes.addressof(rows)
        keep.append(rows)
    patterns = job.get("tensor_types") or []
    if patterns:
        types = (_TypeOverride * (len(patterns) + 1))()
        for entry, (pattern, type_id) in zip(types, patterns, strict=False):
            entry.pattern, entry.type = os.fsencode(pattern), type_id
        params.tt_overrides = ctypes.addressof(types)
        keep.append(types)
    if job.get("prune"):
        layers = (ctypes.c_int32 * (len(job["prune"]) + 1))(*job["prune"], -1)
        params.prune_layers = ctypes.addressof(layers)
        keep.append(layers)
    if job.get("imatrix"):
        from gguftool.build.imatrix import read

        chosen = read(job["imatrix"]).selected(job.get("include", ()), job.get("exclude", ()))
        entries = chosen.entries if chosen else {}
        data = (_Imatrix * (len(entries) + 1))()
        for item, (name, values) in zip(data, entries.items(), strict=False):
            buffer = ctypes.create_string_buffer(values, len(values))
            item.name, item.data, item.size = os.fsencode(name), ctypes.addressof(buffer), len(values) // 4
            keep.append(buffer)
        params.imatrix = ctypes.addressof(data)
        keep.append(data)


if __name__ == "__main__":
    sys.exit(main())
