"""Commands as public READMEs, issues and articles have them: each by its meaning, and each started for real.

A command is a fact: which program with which options. The real llama-server reads every translated one; the only thing
that may stop it is the model, which is not there.
"""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from gguftool.errors import UsageError
from gguftool.programs import Tool
from gguftool.run.capabilities import Capabilities, capabilities, known
from gguftool.run.translate import translate_script
from gguftool.run.translation.result import Translation
from gguftool.shell import Expands

SERVED = [
    ("./main -m ./models/7B/ggml-model-q4_0.gguf -p 'Building a website' -n 512 -e", "-n 512 -e"),
    ("./main -ins -m models/7B/ggml-model-q4_0.gguf -c 2048 --repeat_penalty 1.1", "-c 2048 --repeat_penalty 1.1"),
    ("./main -t 10 -ngl 32 -m llama-2-7b.Q4_K_M.gguf --color -c 4096 --temp 0.7 -n -1 -p 'x'", "-t 10 -ngl 32"),
    ("./server -m models/7B/ggml-model.gguf -c 2048", "-c 2048"),
    ("server.exe -m models\\7B\\ggml-model.gguf -c 2048", "-c 2048"),
    ("./server -m model.gguf --host 127.0.0.1 --port 8080 -cb -np 4 --embedding", "-cb -np 4 --embedding"),
    ("./llama-server -m model.gguf --port 8080 --n-gpu-layers 35 --ctx-size 4096 --mlock", "-lm mlock"),
    ("llama-server -m model.gguf --no-mmap --numa distribute --threads-batch 16", "-lm none --numa distribute"),
    ("llama-server -m model.gguf -fa -ctk q8_0 -ctv q8_0 -c 32768", "-fa on -ctk q8_0 -ctv q8_0 -c 32768"),
    (
        "llama-server -m model.gguf --flash-attn --cache-type-k q4_0 --cache-type-v q4_0",
        "--flash-attn on --cache-type-k q4_0",
    ),
    ("llama-server -m model.gguf --reranking", "--reranking"),
    ("llama-server -m model.gguf --embedding --pooling cls -ub 8192", "--embedding --pooling cls -ub 8192"),
    ("llama-server -m model.gguf --jinja --chat-template-file t.jinja", "--jinja"),
    ("llama-server -m model.gguf --jinja --reasoning-format none", "--reasoning-format none"),
    (
        "llama-server -m model.gguf --chat-template chatml --temp 0.6 --top-p 0.95 --top-k 20 --min-p 0",
        "--top-k 20 --min-p 0",
    ),
    ("llama-server -m model.gguf --grammar 'root ::= \"a\"'", "--grammar"),
    ("llama-server -m model.gguf --samplers 'top_k;temperature' --seed 42 --ignore-eos", "--seed 42 --ignore-eos"),
    ("llama-server -m model.gguf -md draft.gguf --draft 16 -ngld 99", "--spec-draft-n-max 16 -ngld 99"),
    ("llama-server -m model.gguf -md draft.gguf -cd 8192 --draft-max 8 --draft-min 2", "--spec-draft-n-min 2"),
    ("llama-server -m model.gguf --lora a.gguf --lora-scaled b.gguf 0.5", "--lora a.gguf"),
    (
        "llama-server -m model.gguf --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768 -c 131072",
        "--yarn-orig-ctx 32768",
    ),
    ("llama-server -m model.gguf -ngl 99 -ot '.ffn_.*_exps.=CPU' -c 16384", "-ot '.ffn_.*_exps.=CPU'"),
    ("llama-server -m model.gguf -ngl 99 --override-tensor 'blk\\.(1|2)\\.ffn=CPU'", "-ngl 99"),
    ("llama-server -m model.gguf --n-cpu-moe 30 -ngl 999", "--n-cpu-moe 30 -ngl 999"),
    ("llama-server -m model.gguf -ngl 999 -ts 3,1 -mg 0 -sm layer", "-mg 0 -sm layer"),
    ("llama-server -m model.gguf -sm row --main-gpu 1", "-sm row --main-gpu 1"),
    ("llama-server -m model.gguf --slots --metrics --props --api-key secret", "--slots --metrics --props"),
    ("llama-server -m model.gguf --log-disable", "--log-disable"),
    ("llama-server -m model.gguf --slot-save-path /tmp", "--slot-save-path /tmp"),
    ("llama-server -m model.gguf --cont-batching --defrag-thold 0.1 -gan 4 -gaw 2048", "--cont-batching"),
    ("llama-server -m model.gguf --alias gpt-4 --timeout 600 --threads-http 8", "--alias gpt-4 --timeout 600"),
    ("llama-server -m model.gguf --mmproj mmproj.gguf -c 8192", "--mmproj mmproj.gguf -c 8192"),
    ("llama-server -m model.gguf --parallel 8 --ctx-size 65536 --batch-size 2048 --ubatch-size 512", "--parallel 8"),
    ("llama-server -m model.gguf --cache-reuse 256 --cache-ram 0 --ctx-checkpoints 4", "--cache-reuse 256"),
    ("llama-server -m model.gguf -ctk turbo4 -ctv turbo4 -fa 1", "-ctk q8_0 -ctv q8_0 -fa 1"),
    ("llama-server -m model.gguf -mla 3 -fmoe -rtr -amb 512 -b 4096 -ub 4096", "-b 4096 -ub 4096"),
    ("llama-server -m model.gguf -c 32k -n 1k", "-c 32768 -n 1024"),
    ("llama-server -m model.gguf --ctx-size=8192 --n-gpu-layers=99", "--ctx-size 8192 --n-gpu-layers 99"),
    ("llama-server -m model.gguf --split-mode graph --spec-type mtp", "--spec-type"),
    ("llama-server -m model.gguf --tensor-split 24 8 -ngl 99", "-ngl 99"),
    ("llama-server -m model.gguf --override-kv tokenizer.ggml.add_bos_token=bool:false", "add_bos_token=bool:false"),
    ("llama-server -m model.gguf --kv-cache-type q8_0 --kv-cache-block-size 32", "-ctk q8_0 -ctv q8_0"),
    ("llama-server -m model.gguf --temp high --top-k 40", "--top-k 40"),
    ("llama-server -m model.gguf --chat-template-kwargs '{\"enable_thinking\":false}'", "--chat-template-kwargs"),
    ('llama-server -m model.gguf --chat-template-kwargs {"enable_thinking":false} -c 512', "-c 512"),
    ("llama-cli -m model.gguf -cnv -p 'You are a helpful assistant' --chat-template chatml", "--chat-template chatml"),
    ("llama-cli -m model.gguf -sys 'Be brief' -st --no-display-prompt -t 8", "-t 8"),
    ("llama-cli -m model.gguf --prompt-cache c.bin -f prompt.txt -c 4096", "-c 4096"),
    ("llama-cli -m model.gguf -i -r 'User:' --in-prefix ' ' -ngl 20", "-ngl 20"),
    ("llama-mtmd-cli -m model.gguf --mmproj p.gguf --image a.png -p 'what is it'", "--mmproj p.gguf"),
    ("llama-llava-cli -m model.gguf --mmproj p.gguf --image a.png --temp 0.1", "--mmproj p.gguf --temp 0.1"),
    ("llama-run --ngl 99 model.gguf Hello", "-m model.gguf -ngl 99"),
    ("python3 -m llama_cpp.server --model m.gguf --n_gpu_layers 35 --n_ctx 8192 --chat_format chatml", "-c 8192"),
    ("python -m llama_cpp.server --model m.gguf --type_k 8 --type_v 8 --flash_attn true", "-ctk q8_0 -ctv q8_0"),
    ("python -m llama_cpp.server --model m.gguf --draft_model prompt-lookup-decoding", "--spec-type ngram-simple"),
    (
        "python koboldcpp.py --model m.gguf --contextsize 8192 --gpulayers 35 --usecublas normal 0 1 --port 5001",
        "-c 8192 -ngl 35 --port 5001",
    ),
    (
        "./koboldcpp --model m.gguf --quantkv 2 --flashattention --blasbatchsize 512 --quiet",
        "-ctk q4_0 -ctv q4_0 -fa on -b 512",
    ),
    ("koboldcpp --model m.gguf --usecublas normal", "--model m.gguf"),
    ("./llamafile -m model.gguf --nobrowser -ngl 999 --host 0.0.0.0", "-ngl 999 --host 0.0.0.0"),
    ("vllm serve ./m.gguf --max-model-len 4096 --tensor-parallel-size 2", "-m ./m.gguf -c 4096 -sm layer"),
    ("CUDA_VISIBLE_DEVICES=0 ./build/bin/llama-server -m m.gguf -ngl 99 --port 8001 &", "-ngl 99 --port 8001"),
    ("GGML_CUDA_ENABLE_UNIFIED_MEMORY=1 llama-server -m m.gguf -ngl 99 2>&1 | tee server.log", "| tee server.log"),
    ("LLAMA_ARG_CTX_SIZE=8192 LLAMA_ARG_FROBNICATE=1 llama-server -m m.gguf", "LLAMA_ARG_CTX_SIZE=8192"),
    (
        "docker run -p 8080:8080 -v ~/m:/m ghcr.io/ggml-org/llama.cpp:server -m /m/m.gguf -c 512 --host 0.0.0.0",
        "-v ~/m:/m",
    ),
    (
        "docker run --rm -it --gpus all local/llama.cpp:server-cuda -m /m/7B.gguf --port 8000 -n 512 --n-gpu-layers 1",
        "-n 512 --n-gpu-layers 1",
    ),
    ("llama serve -m m.gguf -c 0 -fa auto", "-c 0 -fa auto"),
]


@pytest.mark.parametrize(("command", "part"), SERVED, ids=range(len(SERVED)))
def test_the_meaning_stays(command: str, part: str) -> None:
    script = translate_script(command, known())
    assert part in script.text
    found = next(p for p in script.parts if isinstance(p, Translation))
    build = known()
    wrong = [
        w
        for w in found.argv
        if w.startswith("--") and not build.takes(w.replace("_", "-")) and "docker" not in found.argv
    ]
    assert wrong == []


@pytest.fixture(scope="session")
def build(server: str) -> Capabilities:
    return capabilities(Tool("llama-server", server, "test"))


@pytest.mark.parametrize("command", [c for c, _ in SERVED], ids=range(len(SERVED)))
def test_the_real_server_reads_what_is_printed(command: str, server: str, build: Capabilities, tmp_path: Path) -> None:
    """It starts and does not find the model; a usage error would say which argument it does not take."""
    script = translate_script(command, build)
    found = next(p for p in script.parts if isinstance(p, Translation))
    if "docker" in found.argv:
        return
    args = ["llama-missing.gguf" if isinstance(w, Expands) else w for w in found.argv[1:]]
    for name in ("t.jinja",):
        (tmp_path / name).write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    environment = {**os.environ, **dict(e.split("=", 1) for e in found.environment), "GGML_NO_BACKTRACE": "1"}
    done = subprocess.run(
        [server, *args, "--port", "0"], capture_output=True, text=True, cwd=tmp_path, timeout=60, env=environment,
        check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert "error while handling" not in said, said[:500]
    assert "invalid argument" not in said
    assert done.returncode != 0


PARTS = [
    "llama-server ",
    "./main ",
    "llama-quantize ",
    "docker run ",
    "ghcr.io/ggml-org/llama.cpp:server ",
    "llama serve ",
    "python -m llama_cpp.server ",
    "koboldcpp ",
    "gguf-dump ",
    "hf download ",
    "ollama run ",
    "-m x.gguf ",
    "-c 4096 ",
    "--usecublas ",
    "normal ",
    "-fa ",
    "--port ",
    "C:\\x\\y.gguf ",
    "^\n",
    "`\n",
    "\\\n",
    "'",
    '"',
    "$X ",
    "$(y) ",
    "| ",
    "&& ",
    "; ",
    "> ",
    "2>&1 ",
    "(",
    "<<EOF\n",
    "EOF\n",
    "# c\n",
    "\n",
    "%A% ",
    "$env:X=1; ",
    "X=1 ",
    "sudo ",
    "-u ",
    "--a=b ",
    "\x1b[31m",
    "-",
    "é ",
    "{a,b} ",
    "*.gguf ",
    "~/x ",
    "vllm serve ",
    "make LLAMA_CUDA=1 ",
    "-md d.gguf ",
]


@pytest.mark.parametrize("seed", range(300))
def test_whatever_is_pasted_is_read_or_refused(seed: int) -> None:
    made = random.Random(seed)
    text = "".join(made.choice(PARTS) for _ in range(made.randint(1, 9)))
    try:
        script = translate_script(text, known())
    except UsageError:
        return
    assert "\x1b" not in script.text
