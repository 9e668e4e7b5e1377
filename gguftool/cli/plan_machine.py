"""Options of `gguftool plan` that say where a model shall run, as a `Machine` and a `Placement`."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from typing import Any

from gguftool.cli.values import SIZE
from gguftool.errors import UsageError
from gguftool.memory.devices import Device
from gguftool.memory.plan import Machine
from gguftool.memory.weights import Placement

_NAMES = {"cuda": "CUDA", "rocm": "ROCm", "vulkan": "Vulkan", "metal": "MTL", "sycl": "SYCL"}
APPLE_SHARE = 0.75
"""Part of its memory a Mac lets the GPU use, as Metal recommends on machines with more than 36 GB; less on others."""


def machine(options: Mapping[str, Any]) -> Machine:
    """The machine: named sizes, or what is found here.

    Raises:
        UsageError: a size or an RPC host nobody understands.
    """
    from gguftool.run.devices import host_memory

    local = named_devices(options["vram"], options["backend"]) if options["vram"] not in (None, "auto") else None
    if local is None:
        local = _found(ask_program=options["vram"] == "auto", server=options["server"])
    # llama.cpp puts RPC hosts before the devices of its own machine.
    devices = [*_rpc(options["rpc"]), *local]
    host = host_memory()
    ram = options["ram"] if options["ram"] is not None else host.free if host else None
    return Machine(
        tuple(devices),
        ram,
        reserve=options["reserve"],
        ram_reserve=options["reserve"],
        repack="none" if options["no_repack"] else _repack(),
    )


def placement(options: Mapping[str, Any]) -> Placement:
    """Where to put things, as asked."""
    layers = options["gpu_layers"]
    wanted: int | None = None
    if layers not in (None, "all", "auto"):
        if not str(layers).isdigit():
            raise UsageError(f"--gpu-layers {layers}: expected a number, all or auto")
        wanted = int(layers)
    return Placement(
        gpu_layers=wanted,
        cpu_moe=1 << 20 if options["cpu_moe"] else options["n_cpu_moe"] or 0,
        split=_split(options["tensor_split"]),
        kv_offload=not options["no_kv_offload"],
    )


def overrides(options: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """`-ot` patterns: ``REGEX=DEVICE``, several separated by commas or given again."""
    out = []
    for text in options["override_tensor"]:
        for part in text.split(","):
            pattern, equals, device = part.rpartition("=")
            if not equals or not pattern or not device:
                raise UsageError(f"--override-tensor {part}: expected REGEX=DEVICE", r"for example 'ffn_.*_exps=CPU'")
            out.append((pattern, device))
    return tuple(out)


def named_devices(text: str, backend: str) -> list[Device]:
    """``16GiB,24GiB`` as devices of a backend; ``none`` or ``0``: none."""
    if text.lower() in ("0", "none"):
        return []
    out = []
    for i, part in enumerate(text.split(",")):
        size = SIZE.convert(part, None, None)
        if size:
            out.append(Device(f"{_NAMES[backend]}{i}", backend, size))
    return out


def _found(*, ask_program: bool, server: str | None) -> list[Device]:
    from gguftool.run.devices import devices

    tool = None
    if ask_program:
        from gguftool.run.tool import find

        tool = find("llama-server", server)
    found = [Device(d.name, d.kind or "cuda", d.free, d.about) for d in devices(tool)]
    return found or _apple()


def _apple() -> list[Device]:
    """Macs share one memory between CPU and GPU."""
    if platform.system() != "Darwin" or platform.machine() != "arm64":
        return []
    from gguftool.run.devices import host_memory

    host = host_memory()
    return [Device("MTL0", "metal", int(host.total * APPLE_SHARE), "Apple GPU, shared memory")] if host else []


def _rpc(text: str | None) -> list[Device]:
    out = []
    for i, part in enumerate(text.split(",") if text else ()):
        host, equals, size = part.partition("=")
        if not re.fullmatch(r".+:\d+", host):
            raise UsageError(f"--rpc {part}: expected HOST:PORT or HOST:PORT=SIZE", "for example 10.0.0.2:50052=24GiB")
        out.append(Device(f"RPC{i}", "rpc", SIZE.convert(size, None, None) if equals else None, host))
    return out


def _split(text: str | None) -> tuple[float, ...]:
    if not text:
        return ()
    try:
        return tuple(float(x) for x in re.split(r"[,/]", text))
    except ValueError:
        raise UsageError(f"--tensor-split {text}: expected numbers", "for example 3,1") from None


def _repack() -> str:
    """What this processor rearranges; x86 without a look at it counts as AVX2."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return "neon"
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            flags = next((line for line in file if line.startswith("flags")), "")
    except OSError:
        return "avx2"
    words = flags.split()
    if not words:
        return "avx2"
    return "avx512" if "avx512f" in words else "avx2" if "avx2" in words else "none"
