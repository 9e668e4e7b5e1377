"""``launch --translate``: commands out of articles, as shells, units and compose files write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.fuzz import texts
from tests.fuzz.target import Target, cli

WORDS = [
    "-m", "x.gguf", "-c", "4096", "--cache-type-k", "q8_0", "-ngl", "99", "-lm", "-fa", "on", "--rope-scaling", "yarn",
    "X='0; touch PWNED'", "$HOME", "$(id)", "`id`", "|", "&&", ";", ">", "2>&1", "\\\n", "#", "'", '"', "sudo", "nohup",
    "docker", "run", "--gpus", "all", "ollama", "serve", "-ot", "exps=CPU", "--tensor-split", "3,1", "--host",
    "0.0.0.0",
    "--parallel", "\u00b2", "9" * 5000, "1e999", "-1", "", "--no-such", "--jinja", "-hf", "a/b:Q4_K_M", "%X%", "^",
    "<<EOF",
]  # fmt: skip


def corpus() -> Sequence[bytes]:
    """Commands."""
    return [
        b"./llama-server -m model.gguf -c 8192 -ngl 99 --cache-type-k q8_0 --cache-type-v q8_0 -fa on --port 8080",
        b"docker run -v /m:/models -p 8080:8080 ghcr.io/ggml-org/llama.cpp:server -m /models/x.gguf -c 512",
        b"CUDA_VISIBLE_DEVICES=0 nohup ./server -m a.gguf --ctx_size 2048 --n-gpu-layers 32 > log.txt 2>&1 &",
        b"python3 -m llama_cpp.server --model a.gguf --n_ctx 4096 --n_gpu_layers -1",
        b'llama-cli.exe -m "C:\\models\\x.gguf" ^\r\n  -p "hi" -n 128',
        b'FROM ./x.gguf\nPARAMETER num_ctx 4096\nPARAMETER stop "</s>"\n',
    ]


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """Another command."""
    if rng.random() < 0.5:
        return texts.mutate(rng, given)
    words = rng.choice(given).decode().split(" ")
    for _ in range(rng.randrange(1, 8)):
        words.insert(rng.randrange(len(words) + 1), rng.choice(WORDS))
    return " ".join(words).encode()


def run(data: bytes, folder: Path, rng: Random) -> None:
    """Through stdin, as a text of any length."""
    cli("launch", "--translate", "-", *(("--format", "json") if rng.random() < 0.5 else ()), stdin=data)


TARGET = Target(corpus, mutate, run)
