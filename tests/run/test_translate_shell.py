"""Commands as a shell reads them: what bash makes of a printed line is what it makes of the given one."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from gguftool.errors import UsageError
from gguftool.run.capabilities import known
from gguftool.run.translate import translate, translate_script
from gguftool.run.translation.windows import read
from gguftool.shell import shell

PIECES = [
    "a", "B9", "_x", " ", "  ", "\\\n", "'q r'", '"s t"', "$A", "${A}", "${B:-q r}", "$(echo hi)", '$(echo "a ) b")',
    "`echo z`", "~/", "/", "=", "--o=", "-m", "\\$", "\\\\", '"$A"', '"x $A y"', "$'\\n'", "$'q\\x41'", "{a,b}", "?",
    "x.gguf", ",", ":", "%", "^", "!", "é", "\t", "'", '"',
]  # fmt: skip
SHOW = "c() { printf '%s\\0' \"$@\"; }\n"


def said(line: str, folder: Path) -> bytes | None:
    """What bash hands to a program; None when the line is none."""
    environment = {"A": "va l", "HOME": "/h m", "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", SHOW + line], capture_output=True, cwd=folder, env=environment, check=False)
    return None if done.returncode or done.stderr else done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize("seed", range(120))
def test_a_printed_word_expands_to_what_was_given(seed: int, tmp_path: Path) -> None:
    made = random.Random(seed)
    text = "c " + "".join(made.choice(PIECES) for _ in range(made.randint(1, 9)))
    wanted = said(text, tmp_path)
    try:
        found = read(text).commands
    except UsageError:
        assert wanted is None, text
        return
    if wanted is not None:
        assert len(found) == 1
        assert said(shell(found[0].words), tmp_path) == wanted, text


def line(text: str) -> str:
    return translate_script(text, known()).text


BLOCK = """./main \\
  -m ./qwen2-7b.Q4_K_M.gguf \\     # the model
  --ctx-size 32768 \\              # context
  --ctk q4_0 \\                    # cache
  # a line of its own
  --rope-scale 4 --no-rope-shift \\  # rope
  --batch-size 512 \\
  --threads $(nproc) \\            # all cores
  --flash-attn \\                  # fast
"""


def test_the_block_of_the_article_with_its_comments() -> None:
    assert line(BLOCK) == (
        "llama-server -m ./qwen2-7b.Q4_K_M.gguf --ctx-size 32768 -ctk q4_0 --rope-scale 4 --batch-size 512 "
        "--threads $(nproc) --flash-attn on -np 1 -lv 4"
    )


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("llama-server -m $MODEL -c ${CTX}", "llama-server -m $MODEL -c ${CTX} @"),
        ("llama-server -m ~/models/x.gguf", "llama-server -m ~/models/x.gguf @"),
        ('llama-server -m "$HOME/my models/x.gguf"', "llama-server -m \"$HOME\"'/my models/x.gguf' @"),
        ("llama-server --model=~/x.gguf -t `nproc`", "llama-server --model ~/x.gguf -t `nproc` @"),
        ("llama-server -m x 2>&1 | tee log", "llama-server -m x @ 2>&1 | tee log"),
        ("llama-server -m x > out.log 2>&1 &", "llama-server -m x @ >out.log 2>&1 &"),
        ("cd llama.cpp && ./server -m x", "cd llama.cpp && llama-server -m x @"),
        ("export M=x.gguf; llama-server -m $M", "export M=x.gguf\nllama-server -m $M @"),
        ("sudo -u llama nohup ./server -m x", "sudo -u llama nohup llama-server -m x @"),
        ("env A=1 nice -n 5 taskset -c 0-3 llama-server -m x", "env A=1 nice -n 5 taskset -c 0-3 llama-server -m x @"),
        ("CUDA_VISIBLE_DEVICES=0,1 exec llama-server -m x", "CUDA_VISIBLE_DEVICES=0,1 exec llama-server -m x @"),
        ("$ llama-server -m x  # start it", "llama-server -m x @"),
        ("ExecStart=/usr/bin/llama-server -m /x.gguf", "/usr/bin/llama-server -m /x.gguf @"),
        ("llama-server -m x \\\n  -ngl 99\n  -c 4096", "llama-server -m x -ngl 99 -c 4096 @"),
        ("llama-server \u2013m x \u2014ctx-size 4096", "llama-server -m x --ctx-size 4096 @"),
        ("llama-server -m \u201ca b.gguf\u201d", "llama-server -m 'a b.gguf' @"),
        ("llama-server -m x -ot '\\.ffn_.*_exps\\.=CPU'", "llama-server -m x -ot '\\.ffn_.*_exps\\.=CPU' @"),
        ("$LLAMA/main -m x", "$LLAMA/llama-server -m x @"),
        ("llama-server -m x -ngl all -fa auto", "llama-server -m x -ngl all -fa auto @"),
        ("LLAMA_ARG_CTX_SIZE=32k llama-server -m x", "LLAMA_ARG_CTX_SIZE=32768 llama-server -m x @"),
    ],
)
def test_posix(given: str, wanted: str) -> None:
    assert line(given) == wanted.replace("@", "-np 1 -lv 4")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (
            "llama-server.exe -m C:\\models\\q.gguf -c 4096 ^\n -ngl 99",
            "llama-server.exe -m C:\\models\\q.gguf -c 4096 -ngl 99 @",
        ),
        (
            '.\\main.exe -m "D:\\my models\\q.gguf" `\n  -ctk q8_0',
            '.\\llama-server.exe -m "D:\\my models\\q.gguf" -ctk q8_0 @',
        ),
        (
            '& "C:\\Program Files\\l\\llama-server.exe" -m $env:M',
            '& "C:\\Program Files\\l\\llama-server.exe" -m $env:M @',
        ),
        (
            "C:\\llama>llama-server.exe -m %USERPROFILE%\\q.gguf -ts 3,1",
            'llama-server.exe -m %USERPROFILE%\\q.gguf -ts "3,1" @',
        ),
        ('$env:X="a b"; .\\llama-server.exe -m q.gguf', '$env:X="a b"\n.\\llama-server.exe -m q.gguf -np 1 -lv 4'),
        ("PS C:\\l> .\\llama-server.exe -m q.gguf --port 8080", ".\\llama-server.exe -m q.gguf --port 8080 @"),
        ("set X=1\nllama-server.exe -m q.gguf > log.txt 2>&1", "set X=1\nllama-server.exe -m q.gguf @ >log.txt 2>&1"),
        ("llama-server.exe -m \\\\nas\\m\\q.gguf", "llama-server.exe -m \\\\nas\\m\\q.gguf @"),
        ("llama-server.exe -m C:\\models\\q.gguf \\\n -c 4096", "llama-server.exe -m C:\\models\\q.gguf -c 4096 @"),
    ],
)
def test_windows(given: str, wanted: str) -> None:
    """Backslashes are those of paths, ``^`` and the backquote join lines, quotes are those the shell has."""
    assert line(given) == wanted.replace("@", "-np 1 -lv 4")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("gguf-dump model.gguf | grep kv_cache", "gguftool dump --keys '*kv_cache*' --no-tensors model.gguf"),
        ("gguf-dump m.gguf | grep -E 'rope|ctx'", "gguftool dump --keys '*rope*' --keys '*ctx*' --no-tensors m.gguf"),
        ("python -m gguf.scripts.gguf_dump --json m.gguf", "gguftool dump --format json m.gguf"),
        ("file model.gguf", "gguftool dump --overview model.gguf"),
        ("sha256sum model.gguf", "gguftool hash model.gguf"),
        ("certutil -hashfile model.gguf SHA256", "gguftool hash model.gguf"),
        ("watch -n 1 nvidia-smi", "gguftool doctor"),
        ("nvidia-smi -l 1", "gguftool doctor"),
        ("free -h", "gguftool doctor"),
        ("gguf-set-metadata m.gguf general.name Foo", "gguftool fix m.gguf --set general.name=Foo"),
        (
            "gguf-new-metadata --general-name X a.gguf b.gguf",
            "gguftool fix a.gguf --set general.name=X --output b.gguf",
        ),
        (
            "gguf-new-metadata --chat-template-config t.json a.gguf b.gguf",
            "gguftool fix a.gguf --chat-template t.json --output b.gguf",
        ),
        (
            "python convert_hf_to_gguf.py ./m --outfile o.gguf --outtype f16",
            "gguftool convert ./m -o o.gguf --outtype f16",
        ),
        ("ollama run llama3.2:3b", "gguftool launch ollama://llama3.2:3b"),
        ("OLLAMA_KV_CACHE_TYPE=q8_0 ollama run qwen3", "gguftool launch ollama://qwen3 --cache-type q8_0"),
        ("shasum -a 256 model.gguf", "gguftool hash model.gguf"),
        ("ollama show llama3.2", "gguftool dump --overview ollama://llama3.2"),
    ],
)
def test_other_programs_have_their_counterpart(given: str, wanted: str) -> None:
    script = translate_script(given, known())
    assert script.text == wanted
    assert not script.lost


@pytest.mark.parametrize(
    ("given", "way"),
    [
        ("make LLAMA_CUDA=1", "-DGGML_CUDA=ON"),
        ("cmake -B build -DLLAMA_CUBLAS=ON", "CMake stops at it. Write -DGGML_CUDA=ON"),
        ("bash run.sh", "command inside"),
        ("docker run ollama/ollama", "behind the image"),
        ("vllm serve Qwen/Qwen3-8B --max-model-len 4096", "gguftool convert"),
        ("lms load qwen --gpu max", "gguftool launch"),
        ("pip install llama-cpp-python", "gguftool doctor"),
        ("ollama push x", "num_ctx"),
        ("for f in *.gguf; do llama-cli -m $f; done", "command inside"),
        ("frobnicate -x", "are translated"),
        ("sha256sum -c SHA256SUMS", "gguftool verify"),
        ("(llama-server -m x)", "for itself"),
        ("llama-quantize in.gguf out.gguf UD-Q4_K_XL", "quantize --list"),
        ("llama-perplexity -f wiki.txt", "-m MODEL"),
        ("llama-gguf-split --merge a.gguf", "--help"),
        ("wget https://x/y.gguf", "hf://"),
    ],
)
def test_everything_else_is_refused_with_a_way(given: str, way: str) -> None:
    with pytest.raises(UsageError) as caught:
        translate_script(given, known())
    assert way in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("given", "wanted", "lost"),
    [
        ("./llama-quantize m.gguf out.gguf q4_k_m", "./llama-quantize m.gguf out.gguf q4_k_m", False),
        ("./quantize m.gguf out.gguf Q4_K_M 8", "llama-quantize m.gguf out.gguf Q4_K_M 8", False),
        (
            "llama-quantize in.gguf out.gguf Q4_K_M --imatrix i.dat",
            "llama-quantize --imatrix i.dat in.gguf out.gguf Q4_K_M",
            False,
        ),
        (
            "llama-quantize --allow-requantize --pure a.gguf Q8_0",
            "llama-quantize --allow-requantize --pure a.gguf Q8_0",
            False,
        ),
        ("llama-quantize --frob a.gguf b.gguf Q8_0", "llama-quantize a.gguf b.gguf Q8_0", True),
        (
            "llama-perplexity -m m.gguf -f wiki.txt --chunks 10",
            "llama-perplexity -m m.gguf -f wiki.txt --chunks 10",
            False,
        ),
        ("llama-perplexity -m m.gguf -f wiki.txt --host x", "llama-perplexity -m m.gguf -f wiki.txt", True),
        ("llama-imatrix -m m.gguf -f c.txt -o i.gguf", "llama-imatrix -m m.gguf -f c.txt -o i.gguf", False),
        (
            "llama-bench -m x -fa 1 -ctk q4_0,q8_0 -mmp 0 -p 512",
            "llama-bench -m x -fa 1 -ctk q4_0,q8_0 -lm none -p 512",
            False,
        ),
        ("llama-gguf-split --split-max-size 4G in.gguf out", "llama-gguf-split --split-max-size 4G in.gguf out", False),
        ("rpc-server -H 0.0.0.0 -p 50052 -c", "ggml-rpc-server -H 0.0.0.0 -p 50052 -c", False),
        ("llama-tokenize -m m.gguf -p hi", "llama-tokenize -m m.gguf -p hi", False),
        ("llama-embedding -m m.gguf -p hi --pooling mean", "llama-embedding -m m.gguf -p hi --pooling mean", False),
        ("llama-fit-params -m m.gguf -c 32k", "llama-fit-params -m m.gguf -c 32768", False),
        (
            "llama-export-lora -m m.gguf --lora a.gguf -o o.gguf",
            "llama-export-lora -m m.gguf --lora a.gguf -o o.gguf",
            False,
        ),
        ("llama bench -m m.gguf", "llama-bench -m m.gguf", False),
    ],
)
def test_other_programs_of_llama_cpp_keep_their_own_options(given: str, wanted: str, lost: bool) -> None:
    script = translate_script(given, known())
    assert (script.text, script.lost) == (wanted, lost)


def test_docker_with_an_image_of_llama_cpp() -> None:
    head = "docker run --gpus all -v /m:/models -p 8080:8000 ghcr.io/ggml-org/llama.cpp:"
    assert line(f"{head}server-cuda -m /models/m.gguf -fa --port 8000") == (
        f"{head}server-cuda -m /models/m.gguf -fa on --port 8000 -np 1 -lv 4"
    )
    assert line(f"{head}full --quantize /models/a.gguf /models/b.gguf Q4_K_M").endswith(
        "full --quantize /models/a.gguf /models/b.gguf Q4_K_M"
    )


def test_what_was_lost_is_said_line_by_line(cli) -> None:  # type: ignore[no-untyped-def]
    found = cli(
        "launch", "--translate", "llama-cli -m x.gguf -p hi -ctv q4_0 -fa off --frobnicate 3 -c abc", "--format", "json"
    )
    assert found.code == 1
    lost = {c["was"] for c in found.json["changes"] if c["lost"]}
    assert lost == {"-p hi", "-fa off", "--frobnicate 3", "-c abc"}
    assert found.json["shell"].endswith("-m x.gguf -ctv q4_0 -fa on -np 1 -lv 4")
    assert cli("launch", "--translate", "sha256sum x.gguf").code == 0
    assert cli("launch", "--translate", "pip install x").code == 2


def test_several_commands_are_each_judged(cli) -> None:  # type: ignore[no-untyped-def]
    text = "cd llama.cpp\nmake LLAMA_CUDA=1\n./main -m x.gguf\nsha256sum x.gguf\n"
    found = cli("launch", "--translate", "-", "--format", "json", stdin=text)
    assert found.code == 1
    assert [c["kind"] for c in found.json["commands"]] == ["kept", "refused", "translated", "instead"]
    assert found.json["text"].splitlines()[0] == "cd llama.cpp"
    assert found.json["text"].splitlines()[-1] == "gguftool hash x.gguf"


def test_one_command_is_asked_for() -> None:
    with pytest.raises(UsageError, match="2 commands"):
        translate("llama-server -m x; llama-server -m y", known())
