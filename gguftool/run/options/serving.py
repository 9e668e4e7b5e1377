"""Options about the server: its name and address, who may use it, what it answers and logs."""

from __future__ import annotations

from gguftool.records import dataclass
from gguftool.run.options.kinds import FILE, SWITCH, TEXT, choice, numbers
from gguftool.run.options.row import LAUNCH, Constant, option
from gguftool.run.options.side import SideWishes

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8080
HERE = (LAUNCH,)


@dataclass(frozen=True, slots=True)
class ServingWishes(SideWishes):
    """What is asked of the server."""

    cache_ram: int | None = option(
        numbers(-1), help="MiB of host memory for prompts seen before (llama.cpp: 8192; 0: none).",
        names=("-cram", "--cache-ram"), must=False, library="cache_ram_mib", plan=True,
    )  # fmt: skip
    ctx_checkpoints: int | None = option(
        numbers(0), help="Most checkpoints of a slot (llama.cpp: 32; 0: none).",
        names=("-ctxcp", "--ctx-checkpoints", "--swa-checkpoints"), ours="--ctx-checkpoints",
        must=False, library="n_ctx_checkpoints", plan=True,
    )  # fmt: skip
    alias: str | None = option(
        TEXT, help="Name of the model in the API.", names=("-a", "--alias"), must=False, shown=HERE
    )
    threads: int | None = option(
        numbers(1), help="Threads for computing.", names=("-t", "--threads"), must=False, shown=HERE
    )
    embeddings: bool = option(
        SWITCH, False, "Give embeddings, not text.", names=("--embeddings", "--embedding"), ours="--embeddings",
        plan=True, library="embedding", shown=HERE,
    )  # fmt: skip
    rerank: bool = option(
        SWITCH, False, "Rank documents.", names=("--rerank", "--reranking"), ours="--rerank", plan=True, shown=HERE
    )
    pooling: str | None = option(choice("none", "mean", "cls", "last", "rank"), names=("--pooling",), plan=True)
    embd_normalize: int | None = option(numbers(-1), names=("--embd-normalize",), library="embd_normalize", must=False)
    metrics: bool = option(SWITCH, False, names=("--metrics",), library="endpoint_metrics")
    props: bool = option(SWITCH, False, names=("--props",), library="endpoint_props")
    slots: bool = option(
        SWITCH, True, names=("--slots",), constants=(Constant(("--no-slots",), False),),
        library="endpoint_slots",
    )  # fmt: skip
    host: str = option(TEXT, LOOPBACK, "Address to listen on.", names=("--host",), shown=HERE)
    port: int = option(numbers(0, 65535), DEFAULT_PORT, "0: a free one.", names=("--port",), library="port", shown=HERE)
    api_key: str | None = option(TEXT, names=("--api-key",), secret=True)
    api_key_file: str | None = option(
        FILE, help="Keys that clients must send, one a line.", names=("--api-key-file",), path="read", shown=HERE
    )
    api_prefix: str | None = option(TEXT, names=("--api-prefix",), library="api_prefix")
    ssl_key_file: str | None = option(
        FILE, names=("--ssl-key-file",), path="read", needs="ssl_cert_file", library="ssl_file_key"
    )
    ssl_cert_file: str | None = option(
        FILE, names=("--ssl-cert-file",), path="read", needs="ssl_key_file", library="ssl_file_cert"
    )
    verbosity: int | None = option(
        numbers(0), ours="--verbosity", names=("-lv", "--log-verbosity", "--verbosity"), plan=True, must=False,
        library="verbosity",
    )  # fmt: skip
