"""One meaning, one name; and every other spelling says the same."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import click
import pytest

from gguftool.cli.group import gguftool
from gguftool.cli.names import HALVES, SPELLINGS
from gguftool.cli.options import Command
from gguftool.cli.spelled import Option, spellings

ROOT = click.Context(gguftool, info_name="gguftool", help_option_names=["-h", "--help"])
NEEDED = {
    "diff": ("a", "b"), "merge": ("a", "-o", "o"), "explain": ("k",), "rules": (), "completion": ("bash",),
    "prepare": ("s", "-o", "o"), "doctor": (), "quantize": ("m.gguf", "Q4_K_M"),
    "quant-test": ("a", "b"),
}  # fmt: skip
"""Words that a command cannot do without, where it is not one model."""

NOTIONS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "context": (
        "lint fix prepare plan launch kv-test",
        "--ctx 32768",
        ("--ctx=32k", "--ctx 32K", "--ctx 32_768", "--ctx 32,768", "-c 32768", "-c32768", "--ctx-size 32768",
         "--ctx_size 32768", "--context-length 32768", "--context 32k"),
    ),
    "cache type": (
        "lint fix prepare plan launch kv-test",
        "--cache-type q8_0/q4_0",
        ("--kv-cache-type q8_0/q4_0", "-ctk q8_0 -ctv q4_0", "-ctv q4_0 -ctk q8_0", "--cache-type q8_0 -ctv q4_0",
         "--cache-type-k q8_0 --cache-type-v q4_0", "--cache_type_k=q8_0 --cache_type_v=q4_0"),
    ),
    "output": ("fix split convert", "--output x", ("-o x", "-ox", "--out x", "--outfile x", "--output-file x")),
    "output of quantize": ("quantize", "--output x", ("-o x", "--outfile x")),
    "preview": ("fix lint split quantize convert verify", "--dry-run", ("-n", "--preview", "--dry_run")),
    "preview of merge": ("merge", "--dry-run", ("-n",)),
    "former previews of lint": ("lint", "--dry-run", ("--diff",)),
    "former previews of convert": ("convert", "--dry-run", ("--check",)),
    "preview of undo": ("undo", "--list", ("-n", "--dry-run")),
    "overwriting": ("quantize prepare", "--overwrite", ("--force",)),
    "preview of launch": ("launch", "--print", ("-n", "--dry-run")),
    "consent": ("fix verify prepare convert", "--yes", ("-y",)),
    "consent to convert": ("convert", "--yes", ("--force",)),
    "consent to merge": ("merge", "--allow-foreign", ("-y", "--yes")),
    "consent to quantize": ("quantize", "--allow-requantize", ("-y", "--yes")),
    "consent to launch": ("launch", "--force", ("-y", "--yes")),
    "llama.cpp": (
        "quantize prepare convert plan launch kv-test quant-test doctor explain",
        "--llama-cpp x",
        ("--llama-cpp=x", "--llama_cpp x", "--llama-cpp-dir x", "--server x"),
    ),
    "threads": ("quantize prepare kv-test quant-test launch", "--threads 4", ("-t 4", "--n-threads 4")),
    "RoPE base": ("fix prepare", "--rope-freq-base 5e5", ("--rope_freq_base 5e5", "--rope-theta 5e5")),
    "RoPE factor": ("fix prepare", "--rope-scale-factor 4", ("--rope-scale 4",)),
    "RoPE scale": ("fix prepare", "--rope-freq-scale 0.25", ("--rope_freq_scale=0.25",)),
    "template": ("fix", "--chat-template x", ("--chat-template-file x",)),
    "parts": ("split", "--max-size 2G", ("--split-max-size 2G",)),
    "tensors of a part": ("split", "--max-tensors 9", ("--split-max-tensors 9",)),
    "layers": ("plan launch", "--gpu-layers 9", ("-ngl 9", "--n-gpu-layers 9", "--n_gpu_layers 9")),
    "slots": ("plan launch", "--parallel 2", ("-np 2", "--n-parallel 2")),
    "ubatch": ("plan launch", "--ubatch 256", ("-ub 256", "--ubatch-size 256")),
    "batch": ("plan launch", "--batch 256", ("-b 256", "--batch-size 256")),
    "flash attention": ("plan launch", "--flash-attn on", ("-fa on", "--flash_attn on")),
    "shares": ("plan launch", "--tensor-split 3,1", ("-ts 3,1",)),
    "places": ("plan launch", "--override-tensor x=CPU", ("-ot x=CPU",)),
}  # fmt: skip

# `git show 3b39e28:docs/cli.md`: every option there was before each meaning had one name, with a value it takes.
FORMER = {
    "dump": """
        --format=markdown --keys=x --tensors=x --no-tensors --no-metadata --overview --full --raw=x --layout
        --tokens=0:5
    """,
    "diff": """
        --format=json --data
    """,
    "rules": """
        --format=json
    """,
    "explain": """
        --flag=x --format=json
    """,
    "lint": """
        --format=github --select=x --ignore=x --fail-on=never --exit-zero --fix --fix-unsafe --diff
        --context-length=64 --cache-type=q8_0/q4_0 --against=x --data --policy=x --baseline=x --layout=lmstudio
        --config=x --no-config --no-load
    """,
    "verify": """
        --hash --sha256=x --against=x --data --write-manifest=x --repair-from=x --repair-names --prefix=x
        --link-to=x --join=x --yes --format=json
    """,
    "hash": """
        --tensors --data-section --algorithm=sha1 --format=gguf-hash
    """,
    "fix": """
        --context-length=64 --rope-freq-base=1.5 --rope-freq-scale=1.5 --rope-scaling=yarn --rope-scale-factor=1.5
        --kv-cache-type=q8_0/q4_0 --chat-template=x --sampling=temp=0.5 --special=eos=</s> --set=a.b=1
        --set-file=a.b=x --delete=x --rename=a=b --auto --dedupe --repack --realign=64 --reserve=16GiB
        --strip-padding -n --dry-run -o=x --output=x --strategy=rewrite --in-use=patch --hard-links=break
        --no-undo --preserve-mtime --yes --force --format=json
    """,
    "undo": """
        --all --list --in-use=rewrite --hard-links=break --format=json
    """,
    "recover": """
        --format=json
    """,
    "split": """
        --max-size=16GiB --max-tensors=64 -o=x --output=x --metadata-first --dry-run --format=json
    """,
    "merge": """
        -o=x --output=x --allow-foreign --dry-run --format=json
    """,
    "convert": """
        -o=x --output=x --outtype=tq2_0 --pre=x --llama-cpp=x --converter-arg=x --setup --setup-arg=x --check
        --force --no-fix --overwrite --no-provenance --log=x --format=json
    """,
    "quantize": """
        --dry-run --list --fits=16GiB --imatrix=x --tensor-type=a=q8_0 --output-tensor-type=x
        --token-embedding-type=x --pure --leave-output-tensor --allow-requantize --strict --engine=builtin
        --llama-cpp=x --threads=64 --overwrite --no-provenance --log=x --format=json
    """,
    "prepare": """
        -o=x --output=x --quantize=x --context-length=64 --kv-cache-type=q8_0/q4_0 --rope-freq-base=1.5
        --rope-scaling=yarn --rope-scale-factor=1.5 --outtype=f32 --pre=x --converter-arg=x --imatrix=x
        --tensor-type=a=q8_0 --allow-requantize --engine=builtin --llama-cpp=x --threads=64 --no-auto-fix
        --fail-on=never --vram=16GiB --ram=16GiB --keep --overwrite --restart --yes --format=json
    """,
    "plan": """
        --ctx=64 --max-context --cache-type=q8_0/q4_0 --parallel=auto --kv-unified --no-kv-unified --ubatch=64
        --batch=64 --flash-attn=auto --no-flash-attn --swa-full --vram=16GiB --ram=auto --backend=sycl
        --rpc=10.0.0.2:50052=6GiB --reserve=16GiB -ngl=all --gpu-layers=all --n-cpu-moe=64 --cpu-moe
        --tensor-split=3,1 --override-tensor=x=CPU --no-kv-offload --no-repack --mmproj=x --measure --server=x
        --plot=x.svg --format=json
    """,
    "launch": """
        --ctx=64 --cache-type=q8_0/q4_0 --parallel=auto --kv-unified --no-kv-unified --ubatch=64 --batch=64
        --flash-attn=auto --no-flash-attn --swa-full --vram=16GiB --ram=auto --backend=sycl -ngl=all
        --gpu-layers=all --n-cpu-moe=64 --cpu-moe --override-tensor=x=CPU --no-kv-offload --tensor-split=3,1
        --device=x --rpc=10.0.0.2:50052=6GiB --load-mode=dio --mmproj=x --alias=x --chat-template-file=x
        --threads=64 --host=x --port=64 --api-key-file=x --server=x --engine=library --print --exec --check-only
        --emit=llama-swap --smoke --watch --strict --timeout=64 --log=x --force --translate=x --format=json
    """,
    "check-log": """
        --expect=x --format=json
    """,
    "kv-test": """
        --types=q8_0,q4_0 --text=x --tokens=64 --chunk=64 --ctx=64 --threads=64 --engine=llama-perplexity
        --timeout=64 --plot=x.svg --format=json
    """,
    "doctor": """
        --error=x --format=json
    """,
    "scan": """
        --jobs=64 --no-lint --resume=x --fail-on=never --include=x --exclude=x
        --select=rope --ignore=rope --policy=x --baseline=x --config=x --no-config --scheduler=x --format=markdown
    """,
}


def command(name: str) -> Command:
    found = gguftool.get_command(ROOT, name)
    assert isinstance(found, Command)
    return found


def parsed(name: str, *words: str) -> dict[str, Any]:
    with command(name).make_context(name, [*NEEDED.get(name, ("m.gguf",)), *words], parent=ROOT) as ctx:
        return dict(ctx.params)


@pytest.mark.parametrize(
    ("name", "notion"),
    [(name, notion) for notion, (names, _, _) in NOTIONS.items() for name in names.split()],
)
def test_every_spelling_says_the_same(name: str, notion: str):
    _, one, others = NOTIONS[notion]
    said = parsed(name, *one.split())
    assert said != parsed(name)
    for other in others:
        assert parsed(name, *other.split()) == said, other


@pytest.mark.parametrize(("name", "word"), [(name, word) for name, words in FORMER.items() for word in words.split()])
def test_former_names_are_taken(name: str, word: str):
    needed = ("-o", "o") if name == "prepare" and "-o" not in word else ()
    option, equals, value = word.partition("=")
    assert parsed(name, option, *([value] if equals else []), *needed) != {}
    assert option in spellings(command(name), ROOT)


@pytest.mark.parametrize("name", ["lint", "fix", "prepare", "kv-test", "plan", "launch"])
def test_one_half_of_the_cache_type_says_the_same_everywhere(name: str):
    """llama.cpp leaves the other one at f16."""
    assert parsed(name, "-ctk", "q8_0") == parsed(name, "--cache-type", "q8_0/f16")
    assert parsed(name, "--cache_type_v=q8_0") == parsed(name, "--cache-type", "f16/q8_0")


def test_the_table_of_launch_options_spells_as_all_commands_do():
    from gguftool.run.options.table import options

    shared = {o.ours: o for o in options() if o.ours in SPELLINGS}
    assert set(shared) >= {"--ctx", "--cache-type", "--threads", "--llama-cpp"}
    for ours, o in shared.items():
        assert {name.replace("_", "-") for name in o.spellings} <= {ours, *SPELLINGS[ours]}, ours
    halves = [set(names) for names in HALVES.values()]
    assert all(set(side) <= half for side, half in zip(shared["--cache-type"].sides, halves, strict=True))


@pytest.mark.parametrize("name", gguftool.list_commands(ROOT))
def test_help_shows_one_name_for_one_meaning(cli, name: str):
    shown = cli(name, "--help").out
    for ours, others in SPELLINGS.items():
        if any(f" {ours} " in line or line.endswith(ours) for line in shown.splitlines() if line.startswith("  -")):
            visible = {word for word in others if len(word) > 2 and f"{word} " in shown.partition("Examples:")[0]}
            # The issue's own `fix --context-length 32768` keeps its place beside --ctx.
            assert visible - ({"--context-length"} if name == "fix" else set()) <= _own(name, ours)


def _own(name: str, ours: str) -> set[str]:
    """What other options of the command are called."""
    return {n for p in command(name).params if isinstance(p, Option) and ours not in p.shown for n in p.shown}


def _read(name: str, words: list[str]) -> object:
    """What a command makes of a command line, or what it says of it."""
    try:
        with command(name).make_context(name, list(words), parent=ROOT) as ctx:
            return ctx.params, ctx.args
    except click.UsageError as error:
        # What words in the wrong place were meant to be depends on the options beside them.
        return error.format_message().partition(". ")[0]


@pytest.mark.parametrize("name", gguftool.list_commands(ROOT))
def test_options_that_nobody_names_change_nothing(name: str):
    flags = [p.shown[-1] for p in command(name).params if isinstance(p, Option) and p.is_flag and not p.hidden]
    for words in ([], ["a"], ["a", "b"], ["a", "b", "c"], ["a", "--", "b"], ["a", *flags[:2]], ["a", "--nonsense"]):
        # An option of the session, which changes no parameter, is reason enough to look at all there are.
        assert _read(name, words) == _read(name, ["-q", *words]), words


FIRST = """
import click
from gguftool.cli.group import gguftool
from gguftool.cli.spelled import Option
root = click.Context(gguftool)
for name in gguftool.list_commands(root):
    command = gguftool.get_command(root, name)
    words = [param.name for param in command._own if isinstance(param, click.Argument)]
    for param in command._own:
        for word in param.shown if isinstance(param, Option) else ():
            command._few = command._enough([word])
            parser = command.make_parser(click.Context(command))
            given = parser.parse_args([word] if param.is_flag or param.count else [word, "1"])[0]
            print(name, word, param.name, *(n for n in given if n not in words))
"""


def test_a_name_means_what_the_help_says_of_it_in_the_first_command_line_of_a_process():
    """Of many ways to parse a line the one that a shell takes: nothing has asked for all the options before."""
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["fix", "--yes", "yes", "yes"] in rows
    assert [row for row in rows if row[3:] != [row[2]]] == []


@pytest.mark.parametrize("name", gguftool.list_commands(ROOT))
def test_no_name_means_two_things(name: str):
    owners: dict[str, str] = {}
    for param in command(name).params:
        if isinstance(param, Option):
            for word in param.spellings:
                assert owners.setdefault(word, str(param.name)) == param.name, word


@pytest.mark.parametrize("words", [("--json",), ("--format", "json"), ("--output-format=json",)])
def test_json_by_any_name(cli, words: tuple[str, ...]):
    assert cli("rules", "deploy", *words).json == cli("rules", "deploy", "--format", "json").json
    failed = cli("dump", "no.gguf", *words)
    assert (failed.code, failed.json["ok"]) == (2, False)
    early = cli("dump", *words, "--no-such")
    assert (early.code, early.stdout[:1]) == (2, b"{")


@pytest.mark.parametrize("words", [("-m", "m.gguf"), ("--model", "m.gguf"), ("--model=m.gguf",)])
def test_the_model_as_llama_cpp_names_it(words: tuple[str, ...]):
    for name in ("dump", "lint", "fix", "plan", "launch", "kv-test", "verify", "hash"):
        with command(name).make_context(name, [*words], parent=ROOT) as ctx:
            assert ctx.params.get("model", ctx.params.get("models")) in ("m.gguf", ("m.gguf",))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plan", "m", "--ram", "16"), "16GiB?"),
        (("plan", "m", "--reserve", "2"), "2GiB?"),
        (("split", "m", "--max-size", "4"), "4G?"),
        (("quantize", "m", "--fits", "16"), "16GiB?"),
        (("prepare", "m", "-o", "o", "--ram", "32"), "32GiB?"),
        (("prepare", "m", "-o", "o", "--vram", "24,16"), "24GiB?"),
        (("plan", "m", "--vram", "16"), "16GiB?"),
        (("launch", "m", "--vram", "16GiB,8"), "8GiB?"),
    ],
)
def test_a_forgotten_unit(cli, words: tuple[str, ...], said: str):
    result = cli(*words)
    assert (result.code, said in result.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("lint", "m", "--contex", "5"), "Did you mean `--ctx`?"),
        (("lint", "m", "--ctx-length", "5"), "Did you mean `--ctx`?"),
        (("prepare", "m", "-o", "o", "--kv-quant", "q8_0"), "Did you mean `--cache-type`?"),
        (("launch", "m", "--kv-quant", "q8_0"), "Did you mean `--cache-type`?"),
        (("plan", "m", "--context-lenght", "5"), "Did you mean `--ctx`?"),
        (("lint", "m", "--vram", "5GiB"), "It is an option of `gguftool report`, `gguftool prepare`, `gguftool plan`"),
        (("split", "m", "-ot", "x"), "No such option: -ot."),
        (("dump", "m", "--temp", "1"), "It is llama-server's"),
        (("hash", "m", "--zzzz"), "No such option: --zzzz.\n"),
    ],
)
def test_what_an_unknown_option_is(cli, words: tuple[str, ...], said: str):
    result = cli(*words)
    assert (result.code, said in result.err) == (2, True), result.err


def test_verify_shows_and_does_not_write(cli, tmp_path):
    for writes in (("--yes",), ("--join", "o"), ("--repair-from", "o"), ("--write-manifest", "o")):
        result = cli("verify", "m.gguf", "--dry-run", *writes)
        assert (result.code, "--dry-run writes nothing" in result.err) == (2, True)


def test_one_name_does_not_mean_two_things() -> None:
    # `--against` is the source of the model, for lint, quant-test and the proof of launch (report, plan and pull
    # take launch's options); `--layout` the order of a models folder; others show other names.
    shown = {
        name: {word for p in command(name).params if isinstance(p, Option) for word in p.shown}
        for name in gguftool.list_commands(ROOT)
    }
    against = [c for c, names in shown.items() if "--against" in names]
    assert against == ["report", "lint", "plan", "pull", "launch", "quant-test"]
    assert [c for c, names in shown.items() if "--layout" in names] == ["lint"]
