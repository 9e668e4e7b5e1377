"""Commands out of articles, and what their flags were meant to be. The spellings come from real help texts."""

from __future__ import annotations

import pytest

from gguftool.errors import UsageError
from gguftool.run.capabilities import Capabilities, known, parse_help
from gguftool.run.explained import explain_flag
from gguftool.run.flags import notes, substitutes
from gguftool.run.translate import translate
from tests.run.test_args import OLD, helped

NEW = helped("b11434")


def became(command: str, build: Capabilities = NEW) -> list[str]:
    return list(translate(command, build).argv)


def test_the_command_of_the_articles() -> None:
    made = translate("./main -m m.gguf --ctk q4_0 --rope-scale 4 --no-rope-shift", NEW)
    assert made.argv == ("llama-server", "-m", "m.gguf", "-ctk", "q4_0", "--rope-scale", "4", "-np", "1", "-lv", "4")
    whys = {c.was: c.why for c in made.changes}
    assert "one dash" in whys["--ctk q4_0"]
    assert "context shift" in whys["--no-rope-shift"]
    assert "./main" in whys
    assert any("does not raise the limit" in note for note in made.notes)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("llama-server -m m --no-mmap", ["-lm", "none"]),
        ("llama-server -m m --mlock", ["-lm", "mlock"]),
        ("llama-server -m m --no-mmap --mlock", ["-lm", "mlock"]),
        ("llama-server -m m -fa", ["-fa", "on"]),
        ("llama-server -m m -fa -c 8192", ["-fa", "on", "-c", "8192"]),
        ("llama-server -m m -fa off", ["-fa", "off"]),
        ("llama-server -m m --flash_attn", ["--flash_attn", "on"]),
        ("llama-server -m m --flash-attention", ["-fa", "on"]),
        ("llama-server -m m --n_ctx 4096", ["-c", "4096"]),
        ("llama-server -m m --ctx-size=4096", ["--ctx-size", "4096"]),
        ("llama-server -m m --kv-cache-type q8_0", ["-ctk", "q8_0", "-ctv", "q8_0"]),
        ("llama-server -m m --kv-cache-dtype fp8", ["-ctk", "q8_0", "-ctv", "q8_0"]),
        ("llama-server -m m --kv-bits 4", ["-ctk", "q4_0", "-ctv", "q4_0"]),
        ("llama-server -m m -ctk Q4_K_M", ["-ctk", "q4_0"]),
        ("llama-server -m m -ctv FP16", ["-ctv", "f16"]),
        ("llama-server -m m --rope-freq-scale 0.25", ["--rope-freq-scale", "0.25"]),
        ("llama-server -m m -p hello --color", []),
        ("llama-server -m m --temp -0.5", ["--temp", "-0.5"]),
        ("llama-server \\\n  -m m \\\n  -ngl 99", ["-ngl", "99"]),
        ("python -m llama_cpp.server -m m --n_gpu_layers 40", ["--n_gpu_layers", "40"]),
        ("python -m llama_cpp.server -m m --type_k 8 --type_v 2", ["-ctk", "q8_0", "-ctv", "q4_0"]),
        ("python -m llama_cpp.server -m m --type-k 1 --type_v=30", ["-ctk", "f16", "-ctv", "bf16"]),
        ("llama-server -m m --max-model-len 4096", ["-c", "4096"]),
    ],
)
def test_wrong_words(given: str, wanted: list[str]) -> None:
    argv = became(given)
    assert argv[1:3] == ["-m", "m"]
    assert argv[3:] == [*wanted, "-np", "1", "-lv", "4"]


def test_an_old_build_keeps_its_own_spellings() -> None:
    assert became("llama-server -m m --no-mmap --mlock -fa", OLD)[3:] == ["--no-mmap", "--mlock", "-fa", "-np", "1"]


def test_every_option_of_a_translation_is_one_the_build_has() -> None:
    wrong = " ".join(f"{flag} 4" if s.takes else flag for flag, s in substitutes().items())
    for build in (NEW, helped("b10434")):
        argv = became(f"./server -m m {wrong}", build)
        assert len(argv) > 40
        assert [a for a in argv[1:] if a.startswith("-") and not build.takes(a)] == []


def test_no_note_is_about_an_option_that_does_not_exist() -> None:
    for name in notes()["known"]:
        assert known().takes(name), name


@pytest.mark.parametrize(
    ("command", "way"),
    [
        ("make LLAMA_KV_CACHE=1 LLAMA_CUBLAS=1", "explain --flag"),
        ("docker run --gpus all vllm/vllm-openai --model /models/m.gguf -c 4096", "behind the image"),
        ("gguf-set --key llama.context_length 32768 m.gguf", "`gguftool fix`"),
        ("sudo apt-get install llama", "doctor"),
    ],
)
def test_programs_that_are_not_llama_cpps_are_not_translated(command: str, way: str) -> None:
    """What came out would run: `make -np 1 -lv 4` is a command of make."""
    with pytest.raises(UsageError) as caught:
        translate(command, NEW)
    assert "no program of llama.cpp" in str(caught.value)
    assert way in (caught.value.hint or "")


def test_the_build_switch_of_the_articles_is_no_variable() -> None:
    made = translate("LLAMA_KV_CACHE=1 CUDA_VISIBLE_DEVICES=0 ./server -m m", NEW)
    assert made.environment == ("CUDA_VISIBLE_DEVICES=0",)
    assert "no such variable" in {c.was: c.why for c in made.changes}["LLAMA_KV_CACHE=1"]


def test_quotes_variables_and_prompts() -> None:
    made = translate("CUDA_VISIBLE_DEVICES=0 ./server -m 'my model.gguf'", NEW)
    assert made.environment == ("CUDA_VISIBLE_DEVICES=0",)
    assert made.argv[1:3] == ("-m", "my model.gguf")


def test_an_installed_cli_keeps_its_prompt() -> None:
    made = translate("./main -m m -p 'hello there'", NEW, lambda name: f"/usr/bin/{name}")
    assert made.argv[:5] == ("/usr/bin/llama-cli", "-m", "m", "-p", "hello there")


@pytest.mark.parametrize(
    "command", ["", "   ", "./main -m 'unclosed", "x" * 30_000, "python convert.py --kv-cache-type q8_0"]
)
def test_what_cannot_be_translated(command: str) -> None:
    with pytest.raises(UsageError):
        translate(command, NEW)


def test_a_wrong_flag_is_explained() -> None:
    a = explain_flag("--kv-cache-block-size", NEW)
    assert (a.exists, a.becomes) == (False, "")
    assert "vLLM" in a.why
    a = explain_flag("--ctk", NEW)
    assert (a.exists, a.becomes, a.names) == (False, "-ctk VALUE", ("-ctk", "--cache-type-k"))
    assert explain_flag("ctk", NEW).exists, "the short option, dash left out"
    assert explain_flag("--cache-type-q", NEW).near[0] in ("--cache-type-k", "--cache-type-v")


def test_a_right_flag_is_explained() -> None:
    a = explain_flag("-ctv", NEW)
    assert a.exists
    assert (a.env, a.default) == ("LLAMA_ARG_CACHE_TYPE_V", "f16")
    assert "flash attention" in a.meaning
    assert explain_flag("--cache_type_v=q8_0", NEW).names == a.names


def test_command_line(cli) -> None:  # type: ignore[no-untyped-def]
    result = cli(
        "launch", "--translate", "./main -m m.gguf --ctk q4_0 --rope-scale 4 --no-rope-shift", "--format", "json"
    )
    assert result.code == 0
    assert result.json["command"][1:5] == ["-m", "m.gguf", "-ctk", "q4_0"]
    assert {c["was"]: c["became"] for c in result.json["changes"]}["--no-rope-shift"] is None
    result = cli("explain", "--flag=--kv-cache-block-size", "--format", "json")
    assert result.code == 0
    assert result.json["exists"] is False
    text = cli("explain", "--flag=--no-rope-shift")
    assert "context shift" in text.out
    assert cli("explain").code == 2


def test_terminal_escapes_do_not_come_through(cli) -> None:  # type: ignore[no-untyped-def]
    result = cli("launch", "--translate", "./main -m m --\x1b[31mred 3 -a $'\x1b]0;x'")
    assert "\x1b" not in result.out + result.err


def test_help_parser_sees_no_options_in_nonsense() -> None:
    assert parse_help("no options here\n   at all") == ()


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (
            "llama-server -m a -md d.gguf --draft-max 16 --draft-min 1",
            "-md d.gguf --spec-draft-n-max 16 --spec-draft-n-min 1 --spec-type draft-simple",
        ),
        ("llama-server -m a --draft-model d.gguf", "-md d.gguf --spec-type draft-simple"),
        ("llama-server -m a -md d.gguf -cd 8192 --spec-type ngram-mod", "-md d.gguf --spec-type ngram-mod"),
        ("llama-server -m a --spec-type mtp", "--spec-type draft-mtp"),
        ("llama-server -m a --split-mode graph -t 4", "-t 4"),
        ("llama-server -m a -ts 3/1 -ngl -1", "-ts 3/1 -ngl -1"),
    ],
)
def test_drafts_and_values(command: str, wanted: str) -> None:
    """b11434 loads a draft model without --spec-type and never uses it (`speculative.cpp`); other values it refuses."""
    made = translate(command, known())
    assert " ".join(made.argv) == f"llama-server -m a {wanted} -np 1 -lv 4".replace(
        " --spec-type draft-simple -np 1", " -np 1 --spec-type draft-simple"
    )
