"""Options of gguftool alone: the machine to plan for, what serves, and how the start is judged."""

from __future__ import annotations

from gguftool.memory.plan import DEFAULT_RESERVE
from gguftool.records import dataclass
from gguftool.run.options.kinds import BANDWIDTH, FILE, RAM, SECONDS, SIZE, SIZES, SWITCH, TEXT, choice
from gguftool.run.options.row import LAUNCH, option
from gguftool.run.options.serving import ServingWishes

BACKENDS = {"cuda": "CUDA", "rocm": "ROCm", "vulkan": "Vulkan", "metal": "MTL", "sycl": "SYCL"}
"""Backends, and how llama.cpp names their devices."""
HERE = (LAUNCH,)


@dataclass(frozen=True, slots=True)
class OwnWishes(ServingWishes):
    """What is asked of gguftool itself."""

    vram: tuple[int, ...] | str | None = option(
        SIZES, help="Memory of each device; default: what the program finds.", ours="--vram", plan=True
    )
    ram: int | str | None = option(RAM, help="Memory of the host; default: what is free.", ours="--ram", plan=True)
    backend: str = option(
        choice(*BACKENDS), "cuda", "What the devices named with --vram are.", ours="--backend", plan=True
    )
    bandwidth: tuple[tuple[str, str], ...] = option(
        BANDWIDTH, (), "Of a device, for the estimate of speed: GB/s, its name, or its memory modules.",
        ours="--bandwidth",
    )  # fmt: skip
    reserve: int = option(SIZE, DEFAULT_RESERVE, "Left free on each device.", ours="--reserve", plan=True)
    server: str | None = option(
        FILE,
        help="The llama.cpp to use and to ask: its folder, or a program of it.",
        ours="--llama-cpp",
        former=("--server",),
        plan=True,
    )
    engine: str = option(
        choice("auto", "llama-server", "library"), "auto",
        "The program, or the server inside the xllamacpp package (extra `server`).", ours="--engine", shown=HERE,
    )  # fmt: skip
    smoke: bool = option(SWITCH, False, "Also ask for what every language model knows.", ours="--smoke", shown=HERE)
    # A file or a folder, of the proof alone: no service needs it.
    against: str | None = option(
        TEXT, help="Hold embeddings against those of the source: its folder, or a JSON file of texts and vectors.",
        ours="--against", shown=HERE,
    )  # fmt: skip
    watch: bool = option(SWITCH, False, "Keep a status line: slots, speed, fill, memory.", ours="--watch", shown=HERE)
    strict: bool = option(
        SWITCH, False, "Stop the server when it is not what was planned.", ours="--strict", shown=HERE
    )
    timeout: float = option(
        SECONDS, 600.0, "Seconds it may take to load.", ours="--timeout", former=("--load-timeout",), shown=HERE
    )
    log: str | None = option(FILE, help="Where the server's log goes.", ours="--log", path="write", shown=HERE)
