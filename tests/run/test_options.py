"""The table of options: every field is carried by all that is made of it, and every flag of llama.cpp is known."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from gguftool.errors import UsageError
from gguftool.run.args import own_words, server_command
from gguftool.run.capabilities import known
from gguftool.run.embedded import flags
from gguftool.run.options import kinds
from gguftool.run.options.behind import declared, listed, take_in
from gguftool.run.options.extra import roles
from gguftool.run.options.placement import ALL_EXPERTS
from gguftool.run.options.side import SPEC_TYPES
from gguftool.run.options.table import by_field, by_name, options, shown
from gguftool.run.options.table import read as read_value
from gguftool.run.wishes import RpcServer, Wishes

SAMPLES: dict[str, Any] = {
    "ctx": 32768, "cache_type": ("q8_0", "q4_0"), "flash_attn": "off", "parallel": 3, "kv_unified": True,
    "slot_ctx": 4096, "ubatch": 128, "batch": 1024, "swa_full": True,
    "rpc": (RpcServer("10.0.0.7:50052", 24 << 30), RpcServer("[fe80::1]:50052")), "gpu_layers": 20,
    "tensor_split": (3.0, 1.5), "device": ("CUDA1", "CUDA0"), "split_mode": "none", "main_gpu": 1,
    "overrides": (("ffn_.*_exps", "CPU"), ("blk\\.1\\.", "CUDA1")), "cpu_moe": 7, "cpu_ffn": 2, "kv_offload": False,
    "op_offload": False, "repack": False, "host_buffers": False, "fit": "off", "fit_target": (512, 1024),
    "load_mode": "mlock", "mmproj": "mm proj.gguf", "mmproj_offload": False, "mmproj_device": "CUDA1",
    "lora": ("a,b.gguf", "c.gguf"), "lora_scaled": (("a.gguf", 0.5),), "control_vector": ("v.gguf",),
    "control_vector_scaled": (("v.gguf", -1.25),), "draft": "d.gguf", "spec_type": ("draft-simple", "ngram-mod"),
    "draft_max": 8, "draft_min": 2, "draft_type_k": "q8_0", "draft_type_v": "q4_0", "draft_gpu_layers": -2,
    "draft_device": ("CUDA1",), "ngram_mod_max": 32, "ngram_simple_m": 24, "ngram_map_k_m": 20, "ngram_map_k4v_m": 16,
    "lookup_static": "s.bin", "lookup_dynamic": "d 1.bin",
    "template": "t $x.jinja", "cache_ram": 0, "ctx_checkpoints": 4, "alias": "it's me",
    "threads": 6, "embeddings": True, "rerank": True, "pooling": "cls", "metrics": True, "props": True, "slots": False,
    "embd_normalize": -1, "against": "vectors.json",
    "host": "0.0.0.0", "port": 9000, "api_key": "sekrit", "api_key_file": "keys.txt", "api_prefix": "/llm",
    "ssl_key_file": "k.pem", "ssl_cert_file": "c.pem", "verbosity": 5, "vram": (16 << 30, 24 << 30), "ram": 3 << 30,
    "bandwidth": (("", "RTX 3090"), ("CPU", "DDR5-5600x2")), "backend": "vulkan", "reserve": 512 << 20,
    "server": "/opt/llama-server", "engine": "library", "smoke": True,
    "watch": True, "strict": True, "timeout": 30.5, "log": "server.log", "extra": ("--temp", "0.5", "--seed", "1"),
}  # fmt: skip
FURTHER: dict[str, list[Any]] = {
    "ctx": [0, 1], "parallel": [None, 256], "kv_unified": [False], "flash_attn": ["on"], "gpu_layers": [0, -1, -2],
    "tensor_split": [(1.0, 0.0), (0.1, 1e-07)], "device": [("none",)], "cpu_moe": [0, ALL_EXPERTS], "port": [0],
    "vram": [(), "auto"], "ram": ["auto", 5000001], "reserve": [0], "cache_ram": [-1], "load_mode": ["none", "dio"],
    "cache_type": [("f16", "f16"), ("f32", "iq4_nl")], "spec_type": [("none",)], "verbosity": [0],
}  # fmt: skip
CASES = [*SAMPLES.items(), *((f, v) for f, values in FURTHER.items() for v in values)]


def parsed(words: list[str], command: str = "launch") -> Wishes:
    """What the real command makes of these words."""
    from importlib import import_module

    from gguftool.cli.wishes import wished

    made = getattr(import_module(f"gguftool.cli.{command}"), command)
    with made.make_context(command, ["m.gguf", *words]) as ctx:
        return wished(tuple(ctx.params["extra"]))


def test_there_is_a_sample_of_every_field() -> None:
    """A new option fails here until it has one, and then wherever it is not carried."""
    assert set(SAMPLES) == {f.name for f in fields(Wishes)}
    for field, value in SAMPLES.items():
        assert value != getattr(Wishes(), field), field


@pytest.mark.parametrize(("field", "value"), CASES)
@pytest.mark.parametrize("command", ["launch", "plan"])
def test_our_own_command_says_every_field(command: str, field: str, value: Any) -> None:
    wishes = replace(Wishes(), **{field: value})
    assert parsed(own_words(wishes), command) == wishes


def test_our_own_command_says_all_of_them_at_once() -> None:
    wishes = Wishes(**SAMPLES)
    assert parsed(own_words(wishes)) == wishes


def _of_llama_server(field: str) -> bool:
    o = by_field().get(field)
    return o is None or bool(o.names or o.sides or o.constants)


@pytest.mark.parametrize(("field", "value"), [case for case in CASES if _of_llama_server(case[0])])
def test_the_command_of_llama_server_says_every_field(field: str, value: Any) -> None:
    wishes = replace(Wishes(), **{field: value})
    made = server_command("/m.gguf", wishes, known())
    assert not made.blockers
    assert not made.notes
    taken = take_in(Wishes(extra=made.args[2:]), known())
    assert taken.problems == []
    found = getattr(taken.wishes, field)
    if field == "rpc":
        # The memory to count on is for the plan alone.
        assert found == tuple(RpcServer(r.endpoint) for r in value)
    elif field == "ctx" and value == 0:
        assert found == 0
    elif field == "kv_unified" and value is False:
        # With one slot there is nothing to share.
        assert "-kvu" not in made.args
    elif field == "parallel" and value is None:
        assert "-np -1" in " ".join(made.args)
    else:
        assert found == value


def test_a_build_that_cannot_say_it_is_told_so() -> None:
    """Nothing asked for is dropped without a word."""
    from gguftool.run.capabilities import Capabilities, Option

    bare = Capabilities((Option(("-m", "--model"), "FNAME"), Option(("-c", "--ctx-size"), "N")))
    plain = server_command("/m", Wishes(ctx=1), bare)
    for field, value in SAMPLES.items():
        o = by_field().get(field)
        if o is None or not (o.names or o.sides or o.constants) or field == "ctx":
            continue
        made = server_command("/m", replace(Wishes(ctx=1), **{field: value}), bare)
        told = {*made.notes, *made.blockers} - {*plain.notes, *plain.blockers}
        assert told or field in ("flash_attn", "parallel", "verbosity", "host", "port"), field


def test_every_flag_of_llama_cpp_is_declared() -> None:
    """In the table, or in flag_roles.json with what it does to a launch."""
    names = {name for option in known().options for name in option.names}
    assert names - declared() == set()
    both = {name for name in roles() if (s := by_name().get(name)) and (s.option.names or s.option.sides)}
    assert both == set(), "one home each"
    for name, role in roles().items():
        assert role.role in ("free", "rope", "keys", "quiet", "refused"), name
        assert bool(role.why) == (role.role in ("refused", "keys")), name


def test_no_spelling_means_two_things() -> None:
    seen: dict[str, str] = {}
    for o in options():
        for name in (
            *o.spellings,
            *(n for c in o.constants for n in c.names),
            *(n for names in o.sides for n in names),
        ):
            assert seen.setdefault(name, o.field) == o.field, name


def test_the_values_are_those_of_llama_cpp() -> None:
    for o in options():
        for name in o.names:
            option = known().by_name.get(name)
            allowed = listed(option) if option else ()
            if allowed:
                assert set(o.kind.values) == set(allowed), name
    assert known().by_name["--spec-type"].value == ",".join(SPEC_TYPES)


def test_files_say_so() -> None:
    """Whatever llama.cpp's help calls a file is one for us, too: it must be there, and be found from everywhere."""
    for option in known().options:
        if "FNAME" not in option.value and option.value not in ("FILE", "JINJA_TEMPLATE_FILE", "PATH", "DIR"):
            continue
        for name in option.names:
            spelling, role = by_name().get(name), roles().get(name)
            if role is not None and (role.role == "refused" or name == "--hf-file"):
                continue
            path = spelling.option.path if spelling and spelling.option.names else role.path if role else ""
            assert path, name


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["-c", "4096"], "ctx", 4096), (["--ctx-size", "32k"], "ctx", 32768),
        (["--context-length", "8192"], "ctx", 8192),
        (["-ctk", "q8_0"], "cache_type", ("q8_0", "f16")), (["-ctv", "q4_0"], "cache_type", ("f16", "q4_0")),
        (["-ctk", "q8_0", "-ctv", "q4_0"], "cache_type", ("q8_0", "q4_0")),
        (["--cache-type", "q8_0", "-ctv", "f16"], "cache_type", ("q8_0", "f16")),
        (["-np", "4"], "parallel", 4), (["--parallel", "auto"], "parallel", None), (["-np", "-1"], "parallel", None),
        (["-fa", "1"], "flash_attn", "on"), (["--no-flash-attn"], "flash_attn", "off"),
        (["-ngl", "99"], "gpu_layers", 99), (["--n-gpu-layers", "all"], "gpu_layers", -2),
        (["-ngl", "-1"], "gpu_layers", -1),
        (["-ub", "128"], "ubatch", 128), (["--ubatch-size", "128"], "ubatch", 128), (["-b", "64"], "batch", 64),
        (["-ts", "3/1"], "tensor_split", (3.0, 1.0)), (["-ts", "1e0,3"], "tensor_split", (1.0, 3.0)),
        (["-ot", "a=CPU", "-ot", "b=CUDA0"], "overrides", (("a", "CPU"), ("b", "CUDA0"))),
        (["-sm", "none"], "split_mode", "none"), (["-mg", "1"], "main_gpu", 1), (["-nkvo"], "kv_offload", False),
        (["-cmoe"], "cpu_moe", ALL_EXPERTS), (["-ncmoe", "3"], "cpu_moe", 3), (["--no-mmap"], "load_mode", "none"),
        (["--mlock"], "load_mode", "mlock"), (["-md", "d.gguf"], "draft", "d.gguf"),
        (["--draft-model", "d.gguf"], "draft", "d.gguf"), (["-dev", "CUDA1,CUDA0"], "device", ("CUDA1", "CUDA0")),
        (["--rpc", " h:50052"], "rpc", (RpcServer("h:50052"),)), (["-a", "x"], "alias", "x"),
        (["-t", "4"], "threads", 4),
        (["-kvu"], "kv_unified", True), (["-no-kvu"], "kv_unified", False), (["--ctx_size", "512"], "ctx", 512),
        (["-lv", "4"], "verbosity", 4), (["--draft-max", "4"], "draft_max", 4),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["launch", "plan"])
def test_the_spellings_of_llama_cpp_and_former_ones(command: str, words: list[str], field: str, value: Any) -> None:
    assert getattr(parsed(words, command), field) == value
    if words[0] not in ("--context-length", "--no-flash-attn", "--cache-type", "--parallel"):
        taken = take_in(parsed(["--", *words], command), known())
        assert (getattr(taken.wishes, field), taken.problems) == (value, [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--split-mode", "graph"], "layer"), (["--spec-type", "mtp"], "draft-mtp"), (["-ctk", "q6_K"], "iq4_nl"),
        (["-ngl", "x"], "number"), (["-ngl", "²"], "number"), (["-np", "²"], "number"), (["-np", "0"], "256"),
        (["-ts", "abc,1"], "numbers"), (["-ts", "0,0"], "share"), (["--rpc", "host:0"], "HOST:PORT"),
        (["--rpc", "host:99999"], "HOST:PORT"), (["--rpc", "h:²"], "HOST:PORT"), (["-ot", "x"], "REGEX=DEVICE"),
        (["-fa", "--ctx-size"], "auto"), (["-lm", "fast"], "mmap"), (["--fit", "maybe"], "on"),
        (["-dev", "CUDA0,none"], "none"),
        (["--pooling", "max"], "mean"), (["-c", "x"], "number"), (["-cram", "-2"], "-1"),
    ],
)  # fmt: skip
def test_values_are_checked_before_and_behind_the_dashes(cli, words: list[str], said: str) -> None:
    import click

    for command in ("launch", "plan"):
        with pytest.raises(click.BadParameter) as caught:
            parsed(words, command)
        assert said in caught.value.message
    [problem] = take_in(Wishes(extra=tuple(words)), known()).problems
    assert said in problem


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-hf", "a/b"], "MODEL"), (["-m", "x.gguf"], "MODEL"), (["--models-dir", "/m"], "other models"),
        (["--override-kv", "llama.context_length=int:99"], "gguftool fix"), (["--version"], "ends"),
        (["--cpu-strict", "2"], "0, 1"), (["--reasoning", "maybe"], "auto"), (["--rope-scaling", "longrope"], "yarn"),
        (["--seed"], "value"), (["--lora"], "value"), (["--nosuch", "1"], "no option"), (["x"], "stands alone"),
        (["-mmu", "http://x"], "--mmproj"), (["--gpt-oss-20b-default"], "another model"),
    ],
)  # fmt: skip
def test_what_is_refused_behind_the_dashes(words: list[str], said: str) -> None:
    [problem] = take_in(Wishes(extra=tuple(words)), known()).problems
    assert said in problem


def test_what_goes_on_behind_the_dashes() -> None:
    words = (
        "--seed",
        "-1",
        "--temp=0.5",
        "--override-kv",
        "tokenizer.ggml.add_bos_token=bool:false",
        "--log_colors",
        "off",
    )
    taken = take_in(Wishes(extra=words), known())
    assert taken.problems == []
    assert taken.wishes.extra == (
        "--seed", "-1", "--temp", "0.5", "--override-kv", "tokenizer.ggml.add_bos_token=bool:false",
        "--log_colors", "off",
    )  # fmt: skip
    # The server's own --timeout is not gguftool's.
    server = take_in(Wishes(extra=("--timeout", "5")), known()).wishes
    assert (server.timeout, server.extra) == (600.0, ("--timeout", "5"))


def test_words_for_on_and_off_and_what_an_older_build_takes() -> None:
    """`arg.cpp:is_truthy` takes 1, true and enabled as well; a build has its own list of values."""
    from gguftool.run.capabilities import Capabilities, Option

    for word in ("on", "1", "true", "enabled", "auto"):
        assert take_in(Wishes(extra=("--log-colors", word)), known()).problems == []
    assert take_in(Wishes(extra=("--log-colors", "maybe")), known()).problems
    older = Capabilities((*known().options, Option(("-sm", "--split-mode"), "{none,layer,row}")))
    [blocker] = server_command("/m", Wishes(ctx=1, split_mode="tensor"), older).blockers
    assert "none, layer, row" in blocker
    assert server_command("/m", Wishes(ctx=1, split_mode="row"), older).blockers == ()


def test_said_twice() -> None:
    [problem] = take_in(Wishes(ctx=1024, extra=("-c", "99999")), known()).problems
    assert "--ctx" in problem
    assert take_in(Wishes(ctx=1024, extra=("-c", "1024")), known()).problems == []
    assert take_in(Wishes(lora=("a",), extra=("--lora", "b")), known()).wishes.lora == ("a", "b")
    [secret] = take_in(Wishes(api_key="a", extra=("--api-key", "sekrit")), known()).problems
    assert "sekrit" not in secret


@pytest.mark.parametrize(
    ("text", "shares"),
    [("3,1", (3.0, 1.0)), ("3/1", (3.0, 1.0)), ("1e0,3", (1.0, 3.0)), ("0x2,.5", (2.0, 0.5)), (" 1,2,", (1.0, 2.0)),
     ("2.5abc,1", (2.5, 1.0)), ("1,,2", (1.0, 2.0)), ("0,1", (0.0, 1.0))],
)  # fmt: skip
def test_shares_as_stof_reads_them(text: str, shares: tuple[float, ...]) -> None:
    assert kinds.split(text) == shares


def test_shares_that_are_none() -> None:
    for bad in ("", ",1", "a", "-1,2", "nan", "inf,1", "x/y", ",".join("1" * 128)):
        with pytest.raises(UsageError):
            kinds.split(bad)


def test_the_embedded_server_has_what_the_library_has() -> None:
    x = pytest.importorskip("xllamacpp")
    params = x.CommonParams()
    missing = [o.library for o in options() if o.library and not hasattr(params, o.library)]
    assert missing == []
    # One value of each goes through its setter.
    for names, (metavar, read, apply) in flags().items():
        found = by_name().get(names[0])
        if found is None or found.option.path:
            continue
        o = found.option
        value = SAMPLES[o.field]
        if found.side is not None:
            value = value[found.side]
        text = o.kind.show(value) if metavar else ""
        apply(x, params, read(text))


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["-ts", "0x1p1,0x.8"], (2.0, 0.5)),
        (["-ts", "0x1p99999"], None),
        (["-ts", "1e39"], None),
        (["--timeout", "0x10"], 16.0),
        (["--timeout", "1e999"], None),
        (["--timeout", "nan"], None),
        (["--lora-scaled", "a.gguf:0x1p-1"], (("a.gguf", 0.5),)),
        (["--lora-scaled", "a.gguf:1e999"], None),
        (["--control-vector-scaled", "a.gguf:0x1p2000"], None),
    ],
)
def test_numbers_of_every_spelling_and_size(words: list[str], wanted: object) -> None:
    """A hexadecimal one and one past every float ended as "this is a bug in gguftool"."""
    found = by_name()[words[0]]
    if wanted is None:
        with pytest.raises(UsageError):
            read_value(found, words[1])
        return
    value = read_value(found, words[1])
    assert value == wanted
    assert read_value(found, shown(found.option, value)) == wanted


def test_the_halves_of_the_cache_type_are_spelled_the_same_everywhere() -> None:
    from gguftool.cli.names import HALVES

    assert tuple(HALVES.values()) == by_field()["cache_type"].sides


@pytest.mark.parametrize("option", ["--log-file", "-lcd", "--log-prompts-dir", "--grammar-file", "--path", "--lora"])
def test_a_file_without_a_name_is_refused(option: str) -> None:
    """The folder of the moment stood in its place."""
    from gguftool.run.sidefiles import checked

    taken = take_in(Wishes(extra=(option, "")))
    if not taken.problems:
        with pytest.raises(UsageError):
            checked(taken.wishes)
