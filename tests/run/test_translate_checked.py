"""A translated command starts: values as the parser takes them, the model here held against what `launch` refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.api.translated import translate, translate_script
from gguftool.run.capabilities import known
from gguftool.run.translate import translate as spelled
from gguftool.run.translate import translate_script as script
from tests.beside import projector
from tests.build import llama


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return llama(layers=3).write(tmp_path / "m.gguf")


def test_what_starts_is_printed(model: Path) -> None:
    t = translate("./main -m m.gguf -c 512 -ngl 0 --ctk bf16 --override-kv llama.context_length=int:9999 --no-webui")
    assert t.stops == ()
    assert " -m m.gguf -c 512 " in t.line


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--mmproj mm.gguf", "of another model"),
        ("--chat-template-file nosuch", "no such file"),
        ("--device CUDA9", "no such device"),
        ("--rpc [fe80::1]:50052", "no IPv6 address"),
    ],
)
def test_what_launch_refuses_is_not_printed(cli, model: Path, tmp_path: Path, words: str, why: str) -> None:
    projector(width=96).write(tmp_path / "mm.gguf")
    r = cli("launch", "--translate", f"llama-server -m m.gguf -c 512 {words}", "--format", "json")
    assert r.code == 1
    assert (r.json["text"], r.json["shell"], r.json["lost"]) == ("", "", True)
    assert why in " ".join(r.json["stops"])
    # Where the model is not here nothing can be told of it.
    if "mmproj" in words:
        assert translate(f"llama-server -m /other/m.gguf -c 512 {words}").line


@pytest.mark.parametrize(
    "g", [llama().truncate(-64), llama().replace("tokenizer.ggml.model", "foo"), projector(width=64)]
)
def test_a_model_that_does_not_load(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, g) -> None:
    monkeypatch.chdir(tmp_path)
    g.write(tmp_path / "m.gguf")
    r = cli("launch", "--translate", "cd . && llama-server -m m.gguf -c 512 | tee log")
    assert r.code == 1
    assert "llama-server" not in r.out
    assert "no command: it would not start here: " in r.err


def test_of_a_shell_variable_nothing_is_known(model: Path) -> None:
    assert "-m $M" in translate_script("M=nosuch.gguf; llama-server -m $M -c 512").text


@pytest.mark.parametrize(
    "words",
    [
        # `common/arg.cpp` (b11434) throws at each; found by handing them to the program itself.
        "--reasoning-format foo", "--reasoning-budget -2", "--cpu-mask zz", "--cpu-range x", "--prio 9",
        "--logit-bias foo", "-l 15+x", "-hf foo", "-mu foo", "--sleep-idle-seconds 0", "--sleep-idle-seconds -5",
        "-ot foo=BAR", "-cms -1", "--repeat-last-n -1", "--spec-ngram-simple-size-n 0", "--spec-ngram-mod-n-min 2000",
    ],
)  # fmt: skip
def test_values_that_the_parser_throws_at(words: str) -> None:
    t = spelled(f"llama-server -m m.gguf {words}", known())
    assert t.lost
    assert words.split()[0] not in t.argv


@pytest.mark.parametrize(
    "words",
    [
        "--reasoning-format deepseek-legacy", "--reasoning-budget -1", "--cpu-mask 0xfF", "--cpu-range 0-3",
        "--cpu-range -3", "--prio -1", "--prio 3", "-l 15043+1", "-l 15043-0.5", "-l 15043-inf", "-hf a/b:Q4_K_M",
        "-mu https://x/y.gguf", "--sleep-idle-seconds -1", "--sleep-idle-seconds 60", "-ot .*=CPU",
        r"-ot blk\.(1|2)\.ffn=CUDA1,exps=CPU", "-cms 0", "--repeat-last-n 64", "--spec-ngram-simple-size-n 12",
    ],
)  # fmt: skip
def test_values_that_it_takes(words: str) -> None:
    name, value = words.split()
    t = spelled(f"llama-server -m m.gguf {name} '{value}'", known())
    assert not t.lost
    assert value in t.argv


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ('start "" llama-server.exe -m q.gguf', 'start "" llama-server.exe -m q.gguf -np 1 -lv 4'),
        ("start /b llama-server.exe -m q.gguf", "start /b llama-server.exe -m q.gguf -np 1 -lv 4"),
        (
            r'start "my server" /d C:\x "C:\a b\llama-server.exe" -m q.gguf',
            r'start "my server" /d C:\x "C:\a b\llama-server.exe" -m q.gguf -np 1 -lv 4',
        ),
        (
            r'Start-Process -FilePath .\llama-server.exe -ArgumentList "-m","q.gguf","-c","512" -NoNewWindow',
            r".\llama-server.exe -m q.gguf -c 512 -np 1 -lv 4",
        ),
        (
            'Start-Process llama-server.exe -ArgumentList "-m q.gguf -c 512" -WindowStyle Hidden',
            "llama-server.exe -m q.gguf -c 512 -np 1 -lv 4",
        ),
        ('cmd /c "llama-server.exe -m q.gguf"', "llama-server.exe -m q.gguf -np 1 -lv 4"),
        ('powershell -NoProfile -Command "llama-server.exe -m q.gguf"', "llama-server.exe -m q.gguf -np 1 -lv 4"),
        ("bash -c 'llama-server -m q.gguf -c 512 | tee x'", "llama-server -m q.gguf -c 512 -np 1 -lv 4 | tee x"),
        ("sh -c \"bash -c 'llama-server -m q.gguf'\"", "llama-server -m q.gguf -np 1 -lv 4"),
        ("wsl llama-server -m q.gguf", "wsl llama-server -m q.gguf -np 1 -lv 4"),
    ],
)
def test_commands_that_another_program_starts(given: str, made: str) -> None:
    assert script(given, known()).text == made


def test_ollama_create_is_answered_with_the_file_of_ours(cli, model: Path, tmp_path: Path) -> None:
    (tmp_path / "Modelfile").write_text("FROM ./m.gguf\nPARAMETER num_ctx 512\n")
    r = cli("launch", "--translate", "ollama create foo -f Modelfile")
    assert (r.code, r.out.strip()) == (0, "gguftool launch ./m.gguf --emit ollama")
    assert "ollama create foo -f Modelfile" in r.err
    r = cli("launch", "--translate", "ollama create foo -f nosuch")
    assert (r.code, r.out.strip()) == (1, "gguftool launch MODEL.gguf --emit ollama")
