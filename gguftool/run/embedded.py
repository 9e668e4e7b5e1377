"""llama.cpp's server out of the ``xllamacpp`` wheel, run as a program of its own.

``python -m gguftool.run.embedded -m MODEL -c 8192 …`` takes the options of llama-server that stand in `FLAGS`,
spelled the same, and serves until it gets SIGTERM or SIGINT. A process of its own, because its log goes to file
descriptor 2 and because an assertion of llama.cpp ends the process it happens in.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from gguftool.endings import die_with_parent
from gguftool.run.capabilities import Capabilities, Option

PACKAGE = "xllamacpp"
MODULE = "gguftool.run.embedded"
_FLASH = {"auto": "AUTO", "on": "ENABLED", "off": "DISABLED"}
_LOAD_MODES = {
    "auto": "AUTO", "none": "NONE", "mmap": "MMAP", "mlock": "MLOCK", "mmap+mlock": "MMAP_MLOCK", "dio": "DIRECT_IO",
}  # fmt: skip


def available() -> str | None:
    """Version of the wheel, None when it is not installed; does not import it."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    if find_spec(PACKAGE) is None:
        return None
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return "?"


def _plain(name: str, convert: Callable[[str], Any] = int) -> Callable[[Any, Any, str], None]:
    def apply(x: Any, params: Any, value: str) -> None:
        setattr(params, name, convert(value))

    return apply


def _switch(name: str, value: bool = True) -> Callable[[Any, Any, str], None]:
    def apply(x: Any, params: Any, _: str) -> None:
        setattr(params, name, value)

    return apply


def _model(x: Any, params: Any, value: str) -> None:
    params.model.path = value


def _mmproj(x: Any, params: Any, value: str) -> None:
    params.mmproj.path = value


def _host(x: Any, params: Any, value: str) -> None:
    params.hostnames = [value]


def _flash(x: Any, params: Any, value: str) -> None:
    params.flash_attn_type = getattr(x.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{_FLASH[value]}")


def _load_mode(x: Any, params: Any, value: str) -> None:
    params.load_mode = getattr(x.llama_load_mode, f"LLAMA_LOAD_MODE_{_LOAD_MODES[value]}")


def _type(name: str) -> Callable[[Any, Any, str], None]:
    def apply(x: Any, params: Any, value: str) -> None:
        setattr(params, name, getattr(x.ggml_type, f"GGML_TYPE_{value.upper()}"))

    return apply


def _gpu_layers(x: Any, params: Any, value: str) -> None:
    params.n_gpu_layers = {"auto": -1, "all": -2}.get(value) or int(value)


def _split(x: Any, params: Any, value: str) -> None:
    shares = [float(part) for part in value.split(",")]
    params.tensor_split = [*shares, *[0.0] * (len(params.tensor_split) - len(shares))]


def _alias(x: Any, params: Any, value: str) -> None:
    params.model_alias = set(value.split(","))


def _template(x: Any, params: Any, value: str) -> None:
    with open(value, encoding="utf-8") as file:
        params.chat_template = file.read()


def _threads(x: Any, params: Any, value: str) -> None:
    params.cpuparams.n_threads = int(value)


def _keys(x: Any, params: Any, value: str) -> None:
    with open(value, encoding="utf-8") as file:
        params.api_keys = [line.strip() for line in file if line.strip() and not line.startswith("#")]


FLAGS: dict[tuple[str, ...], tuple[str, Callable[[Any, Any, str], None]]] = {
    ("-m", "--model"): ("FNAME", _model),
    ("-c", "--ctx-size"): ("N", _plain("n_ctx")),
    ("-ctk", "--cache-type-k"): ("TYPE", _type("cache_type_k")),
    ("-ctv", "--cache-type-v"): ("TYPE", _type("cache_type_v")),
    ("-fa", "--flash-attn"): ("[on|off|auto]", _flash),
    ("-np", "--parallel"): ("N", _plain("n_parallel")),
    ("-kvu", "--kv-unified"): ("", _switch("kv_unified")),
    ("-no-kvu", "--no-kv-unified"): ("", _switch("kv_unified", False)),
    ("-ub", "--ubatch-size"): ("N", _plain("n_ubatch")),
    ("-b", "--batch-size"): ("N", _plain("n_batch")),
    ("--swa-full",): ("", _switch("swa_full")),
    ("-ngl", "--gpu-layers"): ("N", _gpu_layers),
    ("-ts", "--tensor-split"): ("N0,N1,N2,...", _split),
    ("-lm", "--load-mode"): ("MODE", _load_mode),
    ("-mm", "--mmproj"): ("FILE", _mmproj),
    ("-a", "--alias"): ("STRING", _alias),
    ("--chat-template-file",): ("FILE", _template),
    ("-t", "--threads"): ("N", _threads),
    ("--host",): ("HOST", _host),
    ("--port",): ("PORT", _plain("port")),
    ("--api-key-file",): ("FNAME", _keys),
    ("--metrics",): ("", _switch("endpoint_metrics")),
    ("--props",): ("", _switch("endpoint_props")),
    ("-lv", "--verbosity"): ("N", _plain("verbosity")),
}
"""Spellings, name of the value, and how it is set."""


def capabilities() -> Capabilities:
    """What this program takes, as the help of llama-server would say it."""
    return Capabilities(
        tuple(Option(names, value, default="3" if "-lv" in names else "") for names, (value, _) in FLAGS.items()),
        commit=f"{PACKAGE} {available() or ''}".strip(),
    )


def main(args: Sequence[str]) -> int:
    """Serve until a signal comes; exit code 2 for options it does not know, 1 when the model does not load."""
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    # Threads that spin while they wait cost more than they gain as soon as anything else runs here: 7 tokens a second
    # in place of 75 on a busy machine. Read when the library is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import xllamacpp as x

    params = x.CommonParams()
    words = list(args)
    by_name = {name: entry for names, entry in FLAGS.items() for name in names}
    while words:
        name = words.pop(0)
        if name not in by_name:
            sys.stderr.write(f"error: invalid argument: {name}\n")
            return 2
        value, apply = by_name[name]
        if value and not words:
            sys.stderr.write(f'error while handling argument "{name}": expected value for argument\n')
            return 2
        try:
            apply(x, params, words.pop(0) if value else "")
        except (ValueError, KeyError, AttributeError, OSError) as error:
            sys.stderr.write(f'error while handling argument "{name}": {error}\n')
            return 2
    try:
        server = x.Server(params)
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    # The wheel's server does not log where it listens.
    sys.stderr.write(f"listening on {server.listening_address}\n")
    sys.stderr.flush()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    # Not `del server`: the library waits for open connections, and the process is about to end anyway.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
