"""llama.cpp's server out of the ``xllamacpp`` wheel, run as a program of its own.

``python -m gguftool.run.embedded -m MODEL -c 8192 …`` takes the options of llama-server that `flags` lists,
spelled the same, and serves until it gets SIGTERM or SIGINT. A process of its own, because its log goes to file
descriptor 2 and because an assertion of llama.cpp ends the process it happens in.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from gguftool.endings import die_with_parent
from gguftool.errors import UsageError
from gguftool.run.args import MODEL
from gguftool.run.capabilities import Capabilities, Option, known
from gguftool.run.options.kinds import row
from gguftool.run.options.table import options

Setter = Callable[[Any, Any, Any], None]
"""Sets an option: the library, its parameters, the value."""
PACKAGE = "xllamacpp"
MODULE = "gguftool.run.embedded"


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


def _enum(kind: str, prefix: str, names: dict[str, str] | None = None) -> Callable[[Any, str], Any]:
    """A member of one of the library's enumerations, by the word of the command line."""

    def member(x: Any, word: str) -> Any:
        return getattr(getattr(x, kind), f"{prefix}_{(names or {}).get(word, word.upper())}")

    return member


_FLASH = _enum("llama_flash_attn_type", "LLAMA_FLASH_ATTN_TYPE", {"on": "ENABLED", "off": "DISABLED"})
_LOAD_MODE = _enum("llama_load_mode", "LLAMA_LOAD_MODE", {"mmap+mlock": "MMAP_MLOCK", "dio": "DIRECT_IO"})
_SPLIT_MODE = _enum("llama_split_mode", "LLAMA_SPLIT_MODE")
_POOLING = _enum("llama_pooling_type", "LLAMA_POOLING_TYPE")
_TYPE = _enum("ggml_type", "GGML_TYPE")


def _attribute(name: str, convert: Callable[[Any, Any], Any] = lambda x, value: value) -> Setter:
    def apply(x: Any, params: Any, value: Any) -> None:
        setattr(params, name, convert(x, value))

    return apply


def _inverted(name: str) -> Setter:
    return _attribute(name, lambda x, value: not value)


def _model(x: Any, params: Any, value: str) -> None:
    params.model.path = value


def _mmproj(x: Any, params: Any, value: str) -> None:
    params.mmproj.path = value


def _split(x: Any, params: Any, shares: tuple[float, ...]) -> None:
    params.tensor_split = [*shares, *[0.0] * (len(params.tensor_split) - len(shares))]


def _template(x: Any, params: Any, value: str) -> None:
    with open(value, encoding="utf-8") as file:
        params.chat_template = file.read()


def _threads(x: Any, params: Any, value: int) -> None:
    params.cpuparams.n_threads = value


def _keys(x: Any, params: Any, value: str) -> None:
    with open(value, encoding="utf-8") as file:
        params.api_keys = [line.strip() for line in file if line.strip() and not line.startswith("#")]


def _rerank(x: Any, params: Any, value: bool) -> None:
    params.embedding = True
    params.pooling_type = _POOLING(x, "rank")


SETTERS: dict[str, Setter] = {
    "flash_attn": _attribute("flash_attn_type", _FLASH),
    "tensor_split": _split,
    "split_mode": _attribute("split_mode", _SPLIT_MODE),
    "kv_offload": _inverted("no_kv_offload"),
    "op_offload": _inverted("no_op_offload"),
    "repack": _inverted("no_extra_bufts"),
    "host_buffers": _inverted("no_host"),
    "fit": _attribute("fit_params", lambda x, value: value == "on"),
    "load_mode": _attribute("load_mode", _LOAD_MODE),
    "mmproj": _mmproj,
    "template": _template,
    "alias": _attribute("model_alias", lambda x, value: set(value.split(","))),
    "threads": _threads,
    "rerank": _rerank,
    "pooling": _attribute("pooling_type", _POOLING),
    "host": _attribute("hostnames", lambda x, value: [part.strip() for part in value.split(",")]),
    "api_key": _attribute("api_keys", lambda x, value: [key for key in row(value) if key]),
    "api_key_file": _keys,
}
"""How options are set that are not one attribute of the same value, by field of the table."""
SIDES: dict[str, tuple[Setter, ...]] = {
    "cache_type": (_attribute("cache_type_k", _TYPE), _attribute("cache_type_v", _TYPE)),
}


@cache
def flags() -> dict[tuple[str, ...], tuple[str, Callable[[str], Any], Setter]]:
    """What this program takes: spellings; name of the value, how it is read, and how it is set.

    The options of the table that the library has; those of llama.cpp's names that our facts know.
    """
    out: dict[tuple[str, ...], tuple[str, Callable[[str], Any], Setter]] = {MODEL: ("FILE", str, _model)}
    takes = known().takes
    for o in options():
        setter = _attribute(o.library) if o.library else SETTERS.get(o.field)
        groups = [(names, o.kind.metavar, o.kind.parse, side)
                  for names, side in zip(o.sides, SIDES.get(o.field, ()), strict=False)]  # fmt: skip
        if setter is not None:
            groups.append((o.names, o.kind.metavar, o.kind.parse, setter))
            groups += [(c.names, "", _constant(c.value), setter) for c in o.constants]
        for names, metavar, read, apply in groups:
            if there := tuple(n for n in names if takes(n)):
                out[there] = (metavar, read, apply)
    return out


def _constant(value: Any) -> Callable[[str], Any]:
    return lambda text: value


def capabilities() -> Capabilities:
    """What this program takes, as the help of llama-server would say it."""
    return Capabilities(
        tuple(Option(names, value, default="3" if "-lv" in names else "") for names, (value, _, _) in flags().items()),
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
    by_name = {name: entry for names, entry in flags().items() for name in names}
    while words:
        name = words.pop(0)
        if name not in by_name:
            sys.stderr.write(f"error: invalid argument: {name}\n")
            return 2
        metavar, read, apply = by_name[name]
        if metavar and not words:
            sys.stderr.write(f'error while handling argument "{name}": expected value for argument\n')
            return 2
        try:
            apply(x, params, read(words.pop(0) if metavar else ""))
        except (UsageError, ValueError, KeyError, AttributeError, OSError) as error:
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
