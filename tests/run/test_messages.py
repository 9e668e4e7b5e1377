"""Every message of llama.cpp's sources is explained, or judged internal; the table is found by words, not by trying."""

from __future__ import annotations

import re
import string
import subprocess
import sys
from collections import Counter
from pathlib import Path
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from gguftool.run.diagnose import explain_line, explain_text, judge
from gguftool.run.messages import ANY, KnownError, anchor, find, table, values
from gguftool.run.said import Said, judged, messages, reasons, row_of, rules, where
from tests.pace import within

FILL = ("7", "x", "blk.0.attn_q.weight", "7.5", "/m/x.gguf:7")
"""What may stand in place of a value."""
IN_ARGUMENT = 'error while handling argument "--x": '
INSIDE = {("common/arg.cpp", "throw"): IN_ARGUMENT, ("common/common.h", "throw"): IN_ARGUMENT}
"""What another place of the source puts before all messages of a file (`arg.cpp:common_params_parse_ex`)."""


def row(said: Said) -> KnownError | None:
    """The row that knows the message by its text."""
    texts = (INSIDE.get((said.file, said.level), "") + said.text.replace("{}", x) for x in FILL)
    found = [hit.row for text in texts if (hit := find(text))]
    return next((r for r in found if not r.symptom), found[0] if found else None)


def test_every_message_is_judged() -> None:
    """A new one in a later release lands here: explain it in errors.json, or judge it in judged.json."""
    counted: Counter[int] = Counter()
    explained = symptoms = internal = 0
    left: list[str] = []
    for said in messages():
        known = row(said)
        if known is not None and not known.symptom:
            explained += 1
            continue
        rule = judged(said)
        if rule is None:
            symptoms += known is not None
            left += [f"{said.file}: {said.text}"] if known is None else []
            continue
        counted[rules().index(rule)] += 1
        internal += bool(rule.reason)
        explained += bool(rule.kind)
    assert left == []
    differs = {i: (counted[i], rule.count) for i, rule in enumerate(rules()) if counted[i] != rule.count}
    assert not differs, f"rule: (messages now, judged): {differs}"
    met = explained + symptoms
    assert met + internal == len(messages())
    told = (Path(__file__).parents[2] / "docs" / "launch.md").read_text()
    assert all(f"{n:,}" in told for n in (len(messages()), internal, explained)), (len(messages()), internal, explained)
    assert explained / met >= 0.95, f"{explained} of {met} messages that a user can meet are explained"


def test_rules_name_what_there_is() -> None:
    kinds = {r.kind for r in table()}
    for rule in rules():
        assert bool(rule.kind) != bool(rule.reason)
        assert rule.kind in kinds if rule.kind else rule.reason in reasons()
        if rule.kind:
            names = {n for _, n, _, _ in string.Formatter().parse(row_of(rule.kind).cause) if n}
            assert names <= {"why", "what"}, "a row that stands for a file has no value of the line"


@pytest.mark.parametrize("known", table(), ids=lambda r: r.kind)
def test_a_row_is_found_by_a_word(known: KnownError) -> None:
    assert known.cause
    assert known.remedy
    assert not (known.pattern and known.says)
    assert bool(known.words) == bool(known.pattern)
    assert not any(re.search(r"\(\?|\\[dsSw]|\.\*", text) for text in known.says), "a text is no pattern"
    names = {n for _, n, _, _ in string.Formatter().parse(known.cause + known.remedy) if n}
    for text in known.says:
        assert anchor(text), f"{text}: no whole word"
        assert values(text, re.sub(r"\{\w*\}", "7", text)) is not None
        assert names <= set(re.findall(r"\{(\w+)\}", text)), f"{text} lacks a value of the cause"
    if known.pattern and known.words != (ANY,):
        for words in branches(known.pattern):
            assert words & set(known.words), f"no word of {known.words} stands in {words}"


def branches(pattern: str) -> list[set[str]]:
    """The whole words of each way in which a pattern may be read."""
    found = []
    for way in _ways(parser.parse(pattern)):
        text = "".join(way)
        words = re.finditer(r"\w+", text)
        found.append({m[0].lower() for m in words if "\0" not in text[max(m.start() - 1, 0) : m.end() + 1]})
    return found


def _ways(tree: Any) -> list[list[str]]:
    ways: list[list[str]] = [[]]
    for op, argument in tree:
        ways = [a + b for a in ways for b in _one(op, argument)]
    return ways


def _one(op: Any, argument: Any) -> list[list[str]]:
    if op is ops.LITERAL:
        return [[chr(argument)]]
    if op is ops.BRANCH:
        return [way for branch in argument[1] for way in _ways(branch)]
    if op is ops.SUBPATTERN:
        return _ways(argument[3])
    if op in (ops.AT, ops.ASSERT, ops.ASSERT_NOT):
        return [[""]]
    if op is ops.IN and all(o is ops.CATEGORY and v is ops.CATEGORY_SPACE for o, v in argument):
        return [[" "]]
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
        inner = _ways(argument[2])
        if all(not re.match(r"[\w\0]", x) for way in inner for x in way):
            return [[" "]]
        return [[""], *inner] if argument[:2] == (0, 1) else [["\0"]]
    return [["\0"]]


def test_a_symptom_states_no_cause() -> None:
    """Finding: "it is no projector" where the real cause stood a line above."""
    words = re.compile(r"because|incomplete|damaged|another model|is no |belongs to|too small|too large", re.IGNORECASE)
    for known in table():
        if known.symptom and not known.program:
            assert not words.search(known.cause), known.kind
            assert "{what}" not in known.cause or known.kind in ("assert", "python-end")


def test_nothing_is_compiled_before_a_line_asks_for_it() -> None:
    code = (
        "import re, sys; import gguftool.run.diagnose; from gguftool.run import messages as m\n"
        "m.find('hello world', ()); print(m._compiled.cache_info().currsize)\n"
        "print('messages.json' in str(sys.modules.get('gguftool.run.said')._index.cache_info().currsize))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert out == ["0", "False"]


def test_a_thousand_lines_are_looked_up_fast() -> None:
    find("warm up")
    where("warm up the index of the sources")
    with within(2):
        for i in range(1000):
            find(f"llama_model_load: error loading the model number {i}: check_tensor_dims failed to do it")
            where(f"llama_model_load: error loading the model number {i}: check_tensor_dims failed to do it")


def test_a_check_of_llama_cpp_itself_is_told_with_its_place() -> None:
    found = explain_text("common_batch was not initialized with a context")
    assert found is not None
    assert found.kind == "internal"
    assert "common/common.cpp" in found.cause


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        # The real b11434, cut to the telling lines: a build without TLS; an address of no interface; another model's
        # projector; another RPC version; memory that grew after the start
        (
            "0.00.012.277 E get_repo_commit: error: HTTPS is not supported. Please rebuild with one of:\n"
            "0.00.012.319 W get_repo_files: failed to resolve commit for ggml-org/gemma-3-270m-GGUF\n"
            "0.00.015.545 E llama_model_load_from_file_impl: exactly one out metadata, path_model, and file must be "
            "defined\n0.00.015.569 E common_fit_params: encountered an error while trying to fit params to free device "
            "memory: failed to load model\n0.00.015.612 E cmn  common_init_: failed to load model ''\n"
            "0.00.017.779 E srv  llama_server: exiting due to model loading error\n",
            "https-missing",
        ),
        (
            "0.00.026.683 E srv         start: couldn't bind HTTP server socket, hostname: 10.1.2.3, port: 18250\n"
            "0.00.034.469 E srv  llama_server: exiting due to HTTP server error\n",
            "bind-failed",
        ),
        (
            "0.06.327.701 E mtmd_init_from_file: error: mismatch between text model (n_embd = 576) and mmproj "
            "(n_embd = 5120)\n0.06.327.774 E srv    load_model: failed to load multimodal model, 'mmproj-27b.gguf'\n",
            "projector-width",
        ),
        (
            "ggml/src/ggml-rpc/ggml-rpc.cpp:550: RPC handshake failed for 127.0.0.1:50063\n"
            "0.00.007.507 E RPC server version mismatch: 5.0.0\n",
            "rpc-version",
        ),
        (
            "0.02.700.000 I srv  llama_server: server is listening on http://127.0.0.1:8080\n"
            "9.40.000.000 I srv  update:  - cache state: 19 prompts, 5377.676 MiB (limits: 8192.000 MiB)\nKilled\n",
            "memory-growth",
        ),
        (
            "0.01.400.000 I srv    load_model: loading draft model '/m/small.gguf'\n"
            "0.01.500.000 E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 3584.00 MiB on device 0: cudaMalloc "
            "failed: out of memory\n0.01.500.100 E srv    load_model: failed to load draft model, '/m/small.gguf'\n",
            "draft-memory",
        ),
        (
            "0.00.100.000 E parse: error parsing grammar: expecting ')' at \n"
            "0.00.100.100 E llama_grammar_init_impl: failed to parse grammar\nSegmentation fault\n",
            "grammar-request",
        ),
    ],
)
def test_the_line_that_names_the_cause_wins(lines: str, kind: str) -> None:
    error = judge(lines).error
    assert error is not None
    assert error.kind == kind


def test_the_cause_of_a_port_is_not_guessed() -> None:
    """Finding: "another program listens on that port" of an address that no interface has."""
    found = explain_line("couldn't bind HTTP server socket, hostname: 203.0.113.7, port: 0")
    assert found is not None
    assert "address is none of this machine's" in found.cause
    assert "below 1024" in found.cause


def test_memory_of_a_draft_is_known_by_what_was_said_before() -> None:
    """The same line of the model itself is not about the draft."""
    line = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 14336.00 MiB on device 0: cudaMalloc failed: x\n"
    error = judge(f"srv    load_model: loading model 'm.gguf'\n{line}").error
    assert error is not None
    assert error.kind == "gpu-memory"


def test_commands_that_help_exist() -> None:
    """A remedy names no option that its command does not have."""
    import click

    from gguftool.cli.group import gguftool as group

    for known in table():
        for name, rest in re.findall(r"`?gguftool ([a-z-]+)((?: [^;,`()]+)?)", known.remedy):
            command = group.get_command(click.Context(group), name)
            assert command is not None, known.remedy
            words = re.sub(r" (?:says|shows|tells|names|of|takes|chooses|writes|asks|knows|predicts).*", "", rest)
            there = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
            for option in re.findall(r"(?<=\s)(-{1,2}[a-z][a-z-]*)(?==|\s|$)", words):
                assert option in there, (known.kind, option, known.remedy)


def test_options_that_help_exist() -> None:
    """An option in a remedy for one of llama.cpp's messages is taken by a program of llama.cpp, or is gguftool's."""
    import click

    from gguftool.cli.group import gguftool as group
    from gguftool.run import tools
    from gguftool.run.capabilities import known as newest

    there = {"--gpus", "--summary", *newest().by_name}  # of docker and vulkaninfo
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        there |= {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
    for known in table():
        if not known.program:
            named = re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]", known.remedy)
            assert not [o for o in named if o not in there and not tools.having(o)], (known.kind, known.remedy)


def test_the_count_of_answers_is_told() -> None:
    """Those with an answer of their own, and those that only their place in the sources answers."""
    direct = sum((known := row(said)) is not None and not known.symptom for said in messages())
    told = " ".join((Path(__file__).parents[2] / "docs" / "launch.md").read_text().split())
    assert f"Of those explained {direct:,} have an answer of their own" in told


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("llm_load_vocab: missing or unrecognized pre-tokenizer type, using: 'default'", "pre-tokenizer-missing"),
        ("llm_load_vocab: GENERATION QUALITY WILL BE DEGRADED!", "pre-tokenizer-missing"),
        ("update_slots : failed to find free space in the KV cache, retrying with smaller batch size", "cache-full"),
        ("main: prompt is too long (5000 tokens, max 4092)", "prompt-long"),
        (
            "main: error: Input prompt is too big compared to KV size. Please try increasing KV size.",
            "prompt-too-long-old",
        ),
        ("gguf_init_from_file: invalid magic characters 'tjgg'", "old-ggml"),
        ("error loading model: unknown (magic, version) combination: 67676a74, 00000003", "magic-old"),
        ("done_getting_tensors: wrong number of tensors; expected 292, got 291", "tensor-count"),
        ("warning: not compiled with GPU offload support, --gpu-layers option will be ignored", "cpu-build"),
        ("srv  log_server_r: Invalid slot ID", "request-slot"),
        ("got exception: Invalid tool_choice: any", "request-tool-choice"),
        ("Cannot perform operation on null values", "jinja-undefined"),
        ("common_ngram: failed to open static lookup cache: /m/x.bin", "lookup-cache"),
        ("llama_kv_cache: mismatched key type (8 != 1, layer 0)", "state-other-settings"),
    ],
)
def test_messages_of_old_and_new_builds_have_answers_of_their_own(line: str, kind: str) -> None:
    found = explain_line(line)
    assert found is not None
    assert found.kind == kind
