"""The C structures of one build of llama.cpp (b11549, as in xllamacpp 2026.10.11549), for ctypes.

Only what `gguftool.run.measure` needs. llama.cpp changes these structures between builds without notice, so the
version is pinned and the defaults the library hands out are compared with the known ones before anything is called.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_size_t,
    c_uint32,
    c_void_p,
)
from typing import Any

TYPE_IDS = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20, "bf16": 30}
FLASH = {"auto": -1, "off": 0, "on": 1}
BREAKDOWN = "_Z26llama_get_memory_breakdownPK13llama_context"
"""`llama_get_memory_breakdown` is C++ and returns a std::map; its red-black tree is read in place (Itanium ABI)."""
WARN = 3


class ModelParams(Structure):
    """`llama.h:llama_model_params`."""

    _fields_ = (
        ("devices", c_void_p),
        ("tensor_buft_overrides", c_void_p),
        ("n_gpu_layers", c_int32),
        ("split_mode", c_int),
        ("load_mode", c_int),
        ("lazy_mode", c_int),
        ("main_gpu", c_int32),
        ("tensor_split", POINTER(c_float)),
        ("progress_callback", c_void_p),
        ("progress_callback_user_data", c_void_p),
        ("kv_overrides", c_void_p),
        ("vocab_only", c_bool),
        ("check_tensors", c_bool),
        ("use_extra_bufts", c_bool),
        ("no_host", c_bool),
        ("no_alloc", c_bool),
        ("load_mtp", c_bool),
        ("room", c_void_p * 8),
    )


class ContextParams(Structure):
    """`llama.h:llama_context_params`."""

    _fields_ = (
        ("n_ctx", c_uint32),
        ("n_batch", c_uint32),
        ("n_ubatch", c_uint32),
        ("n_seq_max", c_uint32),
        ("n_rs_seq", c_uint32),
        ("n_outputs_max", c_uint32),
        ("n_outputs_max_per_seq", c_uint32),
        ("n_threads", c_int32),
        ("n_threads_batch", c_int32),
        ("ctx_type", c_int),
        ("rope_scaling_type", c_int),
        ("pooling_type", c_int),
        ("attention_type", c_int),
        ("flash_attn_type", c_int),
        ("rope_freq_base", c_float),
        ("rope_freq_scale", c_float),
        ("yarn_ext_factor", c_float),
        ("yarn_attn_factor", c_float),
        ("yarn_beta_fast", c_float),
        ("yarn_beta_slow", c_float),
        ("yarn_orig_ctx", c_uint32),
        ("defrag_thold", c_float),
        ("cb_eval", c_void_p),
        ("cb_eval_user_data", c_void_p),
        ("type_k", c_int),
        ("type_v", c_int),
        ("abort_callback", c_void_p),
        ("abort_callback_data", c_void_p),
        ("later", c_void_p),  # eight bytes, zero by default, that b11434 does not have
        ("embeddings", c_bool),
        ("offload_kqv", c_bool),
        ("no_perf", c_bool),
        ("op_offload", c_bool),
        ("swa_full", c_bool),
        ("kv_unified", c_bool),
        ("samplers", c_void_p),
        ("n_samplers", c_size_t),
        ("ctx_other", c_void_p),
        ("room", c_void_p * 8),  # so that a longer structure is not written past our end
    )


LogCallback = CFUNCTYPE(None, c_int, c_char_p, c_void_p)


class Library:
    """The loaded library, one model in it."""

    def __init__(self) -> None:
        import importlib.util

        spec = importlib.util.find_spec("xllamacpp")
        folder = os.path.dirname(spec.origin) if spec and spec.origin else ""
        names = [n for n in os.listdir(folder) if n.startswith("xllamacpp.") and n.endswith(".so")]
        # Loaded as a plain library: importing the package would start more than we need.
        self.lib = ctypes.CDLL(os.path.join(folder, names[0]))
        for name, result, arguments in (
            ("llama_backend_init", None, ()),
            ("llama_log_set", None, (LogCallback, c_void_p)),
            ("llama_model_default_params", ModelParams, ()),
            ("llama_context_default_params", ContextParams, ()),
            ("llama_model_load_from_file", c_void_p, (c_char_p, ModelParams)),
            ("llama_init_from_model", c_void_p, (c_void_p, ContextParams)),
            ("llama_free", None, (c_void_p,)),
            ("ggml_backend_buft_name", c_char_p, (c_void_p,)),
            (BREAKDOWN, None, (c_void_p, c_void_p)),
        ):
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments
        self.log: list[str] = []
        self.model: int | None = None

        def heard(level: int, text: bytes, _: object) -> None:
            if level >= WARN:
                self.log.append(text.decode("utf-8", "replace").rstrip("\n"))

        self._heard = LogCallback(heard)
        self.lib.llama_log_set(self._heard, None)
        self.lib.llama_backend_init()

    def load(self, path: str, *, repack: bool) -> str | None:
        """Lay out the weights; returns why not, or None."""
        params = self.lib.llama_model_default_params()
        context = self.lib.llama_context_default_params()
        sizes = (context.n_batch, context.n_ubatch, context.n_seq_max, context.type_k, context.type_v)
        switches = (context.embeddings, context.offload_kqv, context.swa_full, context.kv_unified)
        weights = (params.n_gpu_layers, params.split_mode, params.use_extra_bufts, params.no_alloc)
        expected = (2048, 512, 1, 1, 1), (False, True, True, False), (-1, 1, True, False)
        if (sizes, switches, weights) != expected:
            return "its structures are not those of the build we know"
        params.no_alloc = True
        params.load_mode = 0  # no mmap: there may be no data to map
        params.use_extra_bufts = repack
        self.model = self.lib.llama_model_load_from_file(os.fsencode(path), params)
        if self.model:
            return None
        errors = [x for x in self.log if "error" in x.lower()]
        return (errors or self.log or ["it cannot load the model"])[0]

    def context(self, ask: Mapping[str, Any]) -> tuple[dict[str, dict[str, int]] | None, list[str]]:
        """Lay out one context: bytes by buffer type, or None when it was refused, and the log."""
        self.log.clear()
        params = self.lib.llama_context_default_params()
        for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_outputs_max", "swa_full", "kv_unified"):
            setattr(params, name, ask[name])
        params.type_k, params.type_v = TYPE_IDS[ask["type_k"]], TYPE_IDS[ask["type_v"]]
        params.flash_attn_type = FLASH[ask["flash_attn"]]
        made = self.lib.llama_init_from_model(self.model, params)
        if not made:
            return None, list(self.log)
        buffers = self._breakdown(made)
        self.lib.llama_free(made)
        return buffers, list(self.log)

    def _breakdown(self, made: int) -> dict[str, dict[str, int]]:
        head = (ctypes.c_uint64 * 8)()
        getattr(self.lib, BREAKDOWN)(ctypes.addressof(head), made)
        out: dict[str, dict[str, int]] = {}

        def walk(address: int) -> None:
            if not address:
                return
            # A node of libstdc++'s tree: colour, parent, left, right, then key and value.
            node = (ctypes.c_uint64 * 8).from_address(address)
            walk(node[2])
            name = self.lib.ggml_backend_buft_name(node[4]).decode()
            mine = out.setdefault(name, {"model": 0, "context": 0, "compute": 0})
            for part, value in zip(("model", "context", "compute"), node[5:8], strict=True):
                mine[part] += value
            walk(node[3])

        walk(head[2])
        return out
