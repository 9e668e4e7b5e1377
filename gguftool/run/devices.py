"""Which devices and how much memory this machine has, as llama.cpp would see them."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator

from gguftool.brief import short_repr
from gguftool.errors import ToolFailed
from gguftool.programs import Tool, run
from gguftool.quantity import whole
from gguftool.records import dataclass
from gguftool.regex import regex

MIB = 1 << 20
KINDS = (
    ("cuda", "cuda"), ("rocm", "rocm"), ("hip", "rocm"), ("vulkan", "vulkan"), ("metal", "metal"), ("mtl", "metal"),
    ("sycl", "sycl"), ("rpc", "rpc"), ("musa", "musa"), ("cann", "cann"), ("gpuopencl", "opencl"), ("opencl", "opencl"),
    ("htp", "hexagon"), ("webgpu", "webgpu"), ("openvino", "openvino"),
)  # fmt: skip
_LISTED = regex(
    r"^\s+(?P<name>[^:\s]+(?:\[[^\]]*\])?): (?P<about>.*) \((?P<total>\d{1,18}) MiB, (?P<free>\d{1,18}) MiB free\)"
)
CGROUP = "/sys/fs/cgroup"
AMD = "/sys/class/drm"
APPLE_SHARE = 0.75
"""Part of its memory a Mac lets the GPU use, as Metal recommends on machines with more than 36 GB; less on others."""
_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """An accelerator.

    Attributes:
        name: as llama.cpp calls it, for example ``CUDA0``.
        kind: a backend, one of the right column of `KINDS`, or "" when it cannot be told.
        about: what it is, for people.
        total, free: bytes.
        source: who said so.
    """

    name: str
    kind: str
    about: str
    total: int
    free: int
    source: str

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Memory of the machine, or of the container we are in.

    Attributes:
        total: bytes that can be had at all.
        free: bytes that can be had now without swapping.
        limited: a container or service limit below the machine's memory holds.
    """

    total: int
    free: int
    limited: bool = False

    __repr__ = short_repr


def devices(tool: Tool | None) -> list[FoundDevice]:
    """The accelerators that the program can use; without a program, those the system knows.

    A program of llama.cpp is the only one to know what it was built for: a CPU build uses no GPU, however many there
    are.
    """
    if tool is not None:
        try:
            done = run(tool, "--list-devices")
        except ToolFailed:
            return []
        if done.returncode == 0 and "vailable devices" in done.stdout + done.stderr:
            return parse_devices(done.stdout + done.stderr)
    return [*nvidia(), *amd()] or apple()


def apple() -> list[FoundDevice]:
    """Macs share one memory between CPU and GPU."""
    host = host_memory() if platform.system() == "Darwin" and platform.machine() == "arm64" else None
    if host is None:
        return []
    share = int(host.total * APPLE_SHARE)
    return [FoundDevice("MTL0", "metal", "Apple GPU, shared memory", share, share, "the system")]


def repacked(cpuinfo: str = "/proc/cpuinfo") -> str:
    """What this processor rearranges (`gguftool.memory.weights.REPACKED`); x86 without a look at it counts as AVX2."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return "neon"
    try:
        with open(cpuinfo, encoding="utf-8", errors="replace") as file:
            words = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        return "avx2"
    if not words:
        return "avx2"
    return "avx512" if "avx512f" in words else "avx2" if "avx2" in words else "none"


def parse_devices(text: str) -> list[FoundDevice]:
    """What ``--list-devices`` prints; the CPU, which newer builds list too, is left out."""
    found = []
    for line in text.splitlines():
        match = _LISTED.match(line)
        if match and not match["name"].upper().startswith(("CPU", "BLAS")):
            found.append(
                FoundDevice(
                    match["name"], kind_of(match["name"]), match["about"], int(match["total"]) * MIB,
                    int(match["free"]) * MIB, "llama-server --list-devices",
                )
            )  # fmt: skip
    return found


def kind_of(name: str) -> str:
    """Backend of a device name."""
    lower = name.lower()
    return next((kind for start, kind in KINDS if lower.startswith(start)), "")


def nvidia() -> list[FoundDevice]:
    """NVIDIA's own word, empty without its driver."""
    rows = command_output(
        "nvidia-smi", "--query-gpu=index,name,memory.total,memory.free", "--format=csv,noheader,nounits"
    )
    out = []
    for row in rows.splitlines():
        parts = [part.strip() for part in row.split(",")]
        numbers = [whole(part) for part in parts]
        if len(parts) == 4 and numbers[0] is not None and numbers[2] is not None and numbers[3] is not None:
            total, free = numbers[2] * MIB, numbers[3] * MIB
            out.append(FoundDevice(f"CUDA{numbers[0]}", "cuda", parts[1], total, free, "nvidia-smi"))
    return out


def amd(root: str = AMD) -> list[FoundDevice]:
    """AMD cards, from the kernel."""
    out: list[FoundDevice] = []
    try:
        cards = sorted(name for name in os.listdir(root) if re.fullmatch(r"card\d+", name))
    except OSError:
        return out
    for card in cards:
        place = os.path.join(root, card, "device")
        total = _number(os.path.join(place, "mem_info_vram_total"))
        used = _number(os.path.join(place, "mem_info_vram_used")) or 0
        if total:
            out.append(FoundDevice(f"ROCm{len(out)}", "rocm", f"AMD {card}", total, max(0, total - used), "kernel"))
    return out


def host_memory(proc: str = "/proc/meminfo", cgroup: str = CGROUP) -> HostMemory | None:
    """Memory of the host, never more than a container's limit; None where the system does not tell."""
    total, free = _meminfo(proc) or _pages() or (0, 0)
    if not total:
        return None
    for limit, used in _limits(cgroup):
        if limit < total:
            return HostMemory(limit, min(free, max(0, limit - used)), True)
    return HostMemory(total, free)


def _meminfo(path: str) -> tuple[int, int] | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            rows = dict(line.split(":", 1) for line in file if line.startswith(("MemTotal:", "MemAvailable:")))
    except OSError:
        return None
    kib = {name: n for name, value in rows.items() if (n := whole("".join(value.split()[:1]))) is not None}
    total = kib.get("MemTotal", 0)
    return total * 1024, kib.get("MemAvailable", total) * 1024


def _pages() -> tuple[int, int] | None:
    """Systems without /proc tell the size at least."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
    return total, total


def _limits(root: str) -> Iterator[tuple[int, int]]:
    """Limits of the control groups we are in: bytes allowed and used."""
    for folder, limit, used in (
        (root, "memory.max", "memory.current"),
        (os.path.join(root, "memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        found = _number(os.path.join(folder, limit))
        if found:
            yield found, (_number(os.path.join(folder, used)) or 0) - _cached(folder)


def _cached(folder: str) -> int:
    """File cache counts as used, but gives way."""
    try:
        with open(os.path.join(folder, "memory.stat"), encoding="utf-8", errors="replace") as file:
            rows = dict(line.split(None, 1) for line in file if len(line.split()) == 2)
    except OSError:
        return 0
    value = rows.get("inactive_file", rows.get("total_inactive_file", "0")).strip()
    return whole(value) or 0


def _number(path: str) -> int | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(64).strip()
    except OSError:
        return None
    return whole(text)


def command_output(*argv: str) -> str:
    """What a program of the system prints; "" when it is missing or fails."""
    # No process is made to find out that there is nothing to run.
    there = (os.access(os.path.join(folder, argv[0]), os.X_OK) for folder in os.get_exec_path())
    if os.name == "posix" and not any(there):
        return ""
    import subprocess

    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_SECONDS,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
