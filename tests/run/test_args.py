"""Spellings follow the build at hand; nothing here needs a program."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from gguftool.run.args import server_command
from gguftool.run.capabilities import Capabilities, Option, known, parse_help, parse_version
from gguftool.run.options.behind import take_in
from gguftool.run.wishes import Wishes

DATA = Path(__file__).parent.parent / "data" / "llamacpp"

# The help of a build of 2024 (b4000), as far as it matters here: flash attention is a switch, mmap has its own
# switches, the levels of -lv are others, and there is no --kv-unified.
OLD_HELP = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
-c,    --ctx-size N                     size of the prompt context (default: 4096, 0 = loaded from model)
                                        (env: LLAMA_ARG_CTX_SIZE)
-fa,   --flash-attn                     enable Flash Attention (default: disabled)
                                        (env: LLAMA_ARG_FLASH_ATTN)
-ctk,  --cache-type-k TYPE              KV cache data type for K (default: f16)
-ctv,  --cache-type-v TYPE              KV cache data type for V (default: f16)
-np,   --parallel N                     number of parallel sequences to decode (default: 1)
--mlock                                 force system to keep model in RAM rather than swapping or compressing
--no-mmap                               do not memory-map model (slower load but may reduce pageouts if not
                                        using mlock)
-ngl,  --gpu-layers, --n-gpu-layers N   number of layers to store in VRAM
-m,    --model FNAME                    model path (default: `models/$filename`)
-lv,   --verbosity, --log-verbosity N   Set the verbosity threshold. Messages with a higher verbosity will be
                                        ignored. (default: 0)
--host HOST                             ip address to listen (default: 127.0.0.1)
--port PORT                             port to listen (default: 8080)
"""


def helped(name: str) -> Capabilities:
    return Capabilities(parse_help(gzip.decompress((DATA / f"help.{name}.txt.gz").read_bytes()).decode()))


OLD = Capabilities(parse_help(OLD_HELP))
OPTIONS = Wishes(ctx=32768, cache_type=("q8_0", "q8_0"))


def test_every_option_of_a_real_help_is_read() -> None:
    build = helped("b11434")
    assert len(build.options) == 256
    assert build.by_name["-kvu"].names == ("-kvu", "--kv-unified", "-no-kvu", "--no-kv-unified")
    assert build.by_name["-ngl"].names == ("-ngl", "--gpu-layers", "--n-gpu-layers")
    assert build.by_name["-fa"].value == "[on|off|auto]"
    assert build.by_name["-ot"].value == "<tensor name pattern>=<buffer type>,..."
    assert build.by_name["-ctk"].env == "LLAMA_ARG_CACHE_TYPE_K"
    assert build.by_name["-lv"].default == "3"
    assert not build.takes("--mlock")
    assert not build.takes("--draft-max"), "listed only to say that it was removed"


def test_our_table_is_what_the_real_help_says() -> None:
    assert {o.names: o.value for o in known().options} == {o.names: o.value for o in helped("b11434").options}


def test_command_for_b11434() -> None:
    assert server_command("/m.gguf", OPTIONS, helped("b11434")).args == (
        "-m", "/m.gguf", "-c", "32768", "-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on", "-np", "1",
        "--host", "127.0.0.1", "--port", "8080", "-lv", "4",
    )  # fmt: skip


def test_old_build_has_flash_attention_as_a_switch_and_other_log_levels() -> None:
    made = server_command("/m.gguf", OPTIONS, OLD)
    assert "-fa" in made.args
    assert made.args[made.args.index("-fa") + 1] == "-np"
    assert "-lv" not in made.args
    assert not made.blockers


@pytest.mark.parametrize(
    ("mode", "build", "wanted"),
    [
        ("none", "b11434", ["-lm", "none"]),
        ("mlock", "b11434", ["-lm", "mlock"]),
        ("none", "b10434", ["-lm", "none"]),
        ("none", "old", ["--no-mmap"]),
        ("mlock", "old", ["--mlock"]),
        ("mmap", "old", []),
    ],
)
def test_load_mode(mode: str, build: str, wanted: list[str]) -> None:
    build_ = OLD if build == "old" else helped(build)
    plain = server_command("/m.gguf", OPTIONS, build_).args
    made = server_command("/m.gguf", replace(OPTIONS, load_mode=mode), build_)
    assert [a for a in made.args if a not in plain] == wanted
    assert not made.notes


def test_a_wish_that_cannot_be_said_is_a_blocker_not_a_wrong_flag() -> None:
    made = server_command("/m.gguf", replace(OPTIONS, parallel=4, kv_unified=True), OLD)
    assert made.blockers == ("this build has no --kv-unified",)
    assert not any("unified" in a or a == "-kvu" for a in made.args)


def test_quantised_v_without_flash_attention_is_a_blocker() -> None:
    build = Capabilities(tuple(o for o in OLD.options if "-fa" not in o.names))
    assert server_command("/m.gguf", OPTIONS, build).blockers == ("this build has no --flash-attn",)


def test_parallel_is_always_said() -> None:
    for build in (OLD, helped("b11434"), helped("b10434")):
        args = server_command("/m.gguf", OPTIONS, build).args
        assert args[args.index("-np") + 1] == "1"


def test_separate_contexts_are_said_where_they_can_be() -> None:
    args = server_command("/m.gguf", replace(OPTIONS, parallel=4, kv_unified=False), helped("b11434")).args
    assert "-no-kvu" in args


@pytest.mark.parametrize(
    ("text", "build", "commit"),
    [
        ("version: 4404 (0827b2c1)\nbuilt with cc", 4404, "0827b2c1"),
        ("version: 0.1.0-dev (build 11434, commit 7e4c0a9)", 11434, "7e4c0a9"),
        ("version: 0.1.0-dev (build 1, commit 7e4c0a9)", None, "7e4c0a9"),
        ("common_params_print_info: build 0 (unknown) with GNU", None, ""),
        ("srv          init: build_info: b6527-7f766929", 6527, "7f766929"),
        ("", None, ""),
    ],
)
def test_version(text: str, build: int | None, commit: str) -> None:
    assert parse_version(text) == (build, commit)


def behind(*words: str) -> tuple[Wishes, list[str]]:
    """What comes of words behind ``--``."""
    taken = take_in(Wishes(extra=words), helped("b11434"))
    return taken.wishes, taken.problems


def test_extra_arguments_are_checked_against_the_build() -> None:
    wishes, problems = behind("--metrics", "--temp", "-0.5", "--lora", "a.gguf", "--chat_template", "x")
    assert problems == []
    assert wishes.metrics
    assert wishes.lora == ("a.gguf",)
    assert wishes.extra == ("--temp", "-0.5", "--chat_template", "x")
    assert behind("--control-vector-layer-range", "1", "8", "--no-slots") == (
        Wishes(slots=False, extra=("--control-vector-layer-range", "1", "8")), [],
    )  # fmt: skip
    [near] = behind("--cache-typ-k", "q8_0")[1]
    assert "--cache-type-k" in near
    assert "stands alone" in behind("q8_0")[1][0]


def test_names_and_text_on_separate_lines() -> None:
    [option] = parse_help("-kvo,  --kv-offload, -nkvo, --no-kv-offload\n       whether (default: enabled)\n")
    assert option == Option(("-kvo", "--kv-offload", "-nkvo", "--no-kv-offload"), default="enabled")
