"""What a user asks of a launch, and what stands in its way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gguftool.errors import UsageError
from gguftool.run.args import DEFAULT_PORT, LOOPBACK, SPELLINGS
from gguftool.run.capabilities import Capabilities

OURS = {
    "model": "MODEL", "ctx": "--ctx", "type_k": "--cache-type", "type_v": "--cache-type", "flash_attn": "--flash-attn",
    "parallel": "--parallel", "kv_unified": "--kv-unified", "no_kv_unified": "--no-kv-unified", "ubatch": "--ubatch",
    "batch": "--batch", "swa_full": "--swa-full", "rpc": "--rpc", "host": "--host", "port": "--port",
    "gpu_layers": "--gpu-layers", "tensor_split": "--tensor-split", "cpu_moe": "--n-cpu-moe",
    "override_tensor": "--override-tensor", "no_kv_offload": "--no-kv-offload",
}  # fmt: skip
"""Options of llama-server that the plan depends on, and how to give them to us."""


@dataclass(frozen=True, slots=True)
class RpcServer:
    """A ``ggml-rpc-server``: where it listens, and bytes of memory to count on (None: what it says itself)."""

    endpoint: str
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user asks of a launch; None: the file's record, else llama.cpp's default."""

    ctx: int | None = None
    cache_type: tuple[str, str] | None = None
    flash_attn: str = "auto"
    parallel: int = 1
    kv_unified: bool | None = None
    ubatch: int | None = None
    batch: int | None = None
    swa_full: bool = False
    gpu_layers: str | None = None
    tensor_split: str | None = None
    device: str | None = None
    rpc: tuple[RpcServer, ...] = ()
    load_mode: str | None = None
    mmproj: str | None = None
    alias: str | None = None
    template: str | None = None
    threads: int | None = None
    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    api_key_file: str | None = None
    cpu_moe: int | None = None
    overrides: tuple[tuple[str, str], ...] = ()
    kv_offload: bool = True
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A reason not to start.

    Attributes:
        where: ``model``, ``cache``, ``context``, ``room`` (memory), ``build``, ``network``, ``lint``, ``verify``.
        message: what is wrong.
        remedy: what helps, a command where there is one.
        severity: ``error``: llama.cpp would refuse or do something else; ``warning``: it would start.
    """

    where: str
    message: str
    remedy: str = ""
    severity: str = "error"


def rpc_servers(text: str, size: object = None) -> tuple[RpcServer, ...]:
    """``host:port=24GiB,host:port`` as data.

    Args:
        text: what the user typed.
        size: function from text to bytes.

    Raises:
        UsageError: not host:port, or not a size.
    """
    out = []
    for part in text.split(","):
        endpoint, equals, memory = part.strip().partition("=")
        host, colon, port = endpoint.rpartition(":")
        if not (host and colon and port.isdigit() and 0 < int(port) < 65536):
            raise UsageError(f"--rpc {part}: not HOST:PORT", "for example --rpc 192.168.1.7:50052=24GiB")
        out.append(RpcServer(endpoint, int(size(memory)) if equals and callable(size) else None))
    return tuple(out)


def unknown_extra(extra: Sequence[str], build: Capabilities) -> list[str]:
    """Arguments behind ``--`` that this build would not parse, or that would turn over what was planned."""
    ours = {name: OURS[what] for what, names in SPELLINGS.items() if what in OURS for name in names}
    out: list[str] = []
    skip = 0
    for word in extra:
        if skip:
            skip -= 1
            continue
        if not word.startswith("-") or _is_number(word):
            out.append(f"{word!r} stands alone: llama-server takes no arguments without an option")
            continue
        name = word.replace("_", "-") if word.startswith("--") else word
        option = build.by_name.get(name)
        if option is None:
            near = build.nearest(name)
            out.append(f"this build has no option {word}" + (f"; did you mean {' or '.join(near)}?" if near else ""))
            skip = 1
            continue
        if option.removed:
            out.append(f"the option {word} has been removed from this build")
        elif name in ours:
            out.append(f"{word} changes what is planned: say it with {ours[name]} before the --")
        skip = 2 if option.value == "START END" else 1 if option.value else 0
    return out


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
