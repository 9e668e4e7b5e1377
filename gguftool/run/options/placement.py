"""Options about where weights and caches lie."""

from __future__ import annotations

from gguftool.records import dataclass
from gguftool.run.options.context import ContextWishes
from gguftool.run.options.kinds import (
    DEVICES,
    LAYERS,
    ON_OFF_WORDS,
    OVERRIDES,
    RPC,
    SPLIT,
    SWITCH,
    Kind,
    RpcServer,
    choice,
    numbers,
    row,
    shown_row,
)  # fmt: skip
from gguftool.run.options.row import Constant, option

ALL_EXPERTS = 1 << 20
"""More layers than any model has."""
LOAD_MODES = ("auto", "none", "mmap", "mlock", "mmap+mlock", "dio")
TARGETS = Kind("MIB[,MIB…]", lambda text: tuple(int(numbers(0).parse(x)) for x in row(text.replace("/", ","))),
               lambda found: shown_row(tuple(str(n) for n in found)))  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlacementWishes(ContextWishes):
    """What is asked about devices."""

    rpc: tuple[RpcServer, ...] = option(
        RPC, (), "Machines that run ggml-rpc-server, and the memory to count on.", names=("--rpc",), plan=True
    )
    gpu_layers: int | None = option(
        LAYERS, help="Layers on the devices, the output layer counting as one; default: all that fit.",
        names=("-ngl", "--gpu-layers", "--n-gpu-layers"), ours="--gpu-layers", plan=True, library="n_gpu_layers",
    )  # fmt: skip
    tensor_split: tuple[float, ...] = option(
        SPLIT, (), "Shares of the devices.", names=("-ts", "--tensor-split"), plan=True
    )
    device: tuple[str, ...] = option(
        DEVICES, (), "Devices to use, in this order; `none` for the CPU.", names=("-dev", "--device"), plan=True
    )
    split_mode: str | None = option(
        choice("none", "layer", "row", "tensor"), help="How several devices share the model.",
        names=("-sm", "--split-mode"), plan=True,
    )  # fmt: skip
    main_gpu: int | None = option(
        numbers(-1), help="The one device of --split-mode none.", names=("-mg", "--main-gpu"), plan=True,
        library="main_gpu",
    )  # fmt: skip
    overrides: tuple[tuple[str, str], ...] = option(
        OVERRIDES, (), "Where single tensors go.", names=("-ot", "--override-tensor"), ours="--override-tensor",
        plan=True,
    )  # fmt: skip
    cpu_moe: int | None = option(
        numbers(0, 2**31 - 1), help="Experts of the first N layers stay on the host.", names=("-ncmoe", "--n-cpu-moe"),
        ours="--n-cpu-moe", plan=True,
        constants=(Constant(("-cmoe", "--cpu-moe"), ALL_EXPERTS, "All experts stay on the host."),),
    )  # fmt: skip
    cpu_ffn: int | None = option(
        numbers(0, 1 << 12), help="Dense feed-forward weights of the first N layers stay on the host.",
        names=("-ncffn", "--n-cpu-ffn"), ours="--n-cpu-ffn", plan=True,
    )  # fmt: skip
    kv_offload: bool = option(
        SWITCH, True, names=("-kvo", "--kv-offload"), plan=True,
        constants=(Constant(("-nkvo", "--no-kv-offload"), False, "Caches stay on the host."),),
    )  # fmt: skip
    op_offload: bool = option(
        SWITCH, True, names=("--op-offload",), plan=True,
        constants=(Constant(("--no-op-offload",), False, "Devices compute nothing that lies on the host."),),
    )  # fmt: skip
    repack: bool = option(
        SWITCH, True, names=("--repack",), plan=True,
        constants=(Constant(("-nr", "--no-repack"), False, "The host does not rearrange weights."),),
    )  # fmt: skip
    host_buffers: bool = option(
        SWITCH, True, ours="--host-buffers", plan=True,
        constants=(Constant(("--no-host",), False, "No pinned memory of the devices for weights on the host."),),
    )  # fmt: skip
    fit: str | None = option(
        choice("on", "off", also={k: v for k, v in ON_OFF_WORDS.items() if v != "auto"}), names=("-fit", "--fit"),
        plan=True, must=False,
    )  # fmt: skip
    fit_target: tuple[int, ...] = option(TARGETS, (), names=("-fitt", "--fit-target"), plan=True, must=False)
    load_mode: str | None = option(
        choice(*LOAD_MODES), help="How the file is read.", names=("-lm", "--load-mode"), plan=True, must=False,
        constants=(
            Constant(("--no-mmap",), "none"), Constant(("--mmap",), "mmap"), Constant(("--mlock",), "mlock"),
            Constant(("-dio", "--direct-io"), "dio"),
        ),
    )  # fmt: skip
