"""Logs of all programs of llama.cpp: what proves the end, lines after "ready", and what others put before a line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gguftool.api.logs import check_log
from gguftool.run.diagnose import judge
from gguftool.run.lines import FIRST, LAST, lines_of
from gguftool.run.logprograms import PROGRAMS

LOGS = Path(__file__).parent.parent / "data" / "logs"
RUNS: list[dict[str, Any]] = json.loads((LOGS / "programs.json").read_text())
EVERY_LINE_PROVES = {"tokenize.good.log", "fit-params.good.log", "gguf-hash.good.log"}
"""Nothing else in them tells the program."""


def log(name: str) -> str:
    return gzip.decompress((LOGS / f"{name}.gz").read_bytes()).decode()


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["log"])
def test_every_program_is_known_and_judged_right(run: dict[str, Any]) -> None:
    judged = judge(log(run["log"]))
    found = judged.facts.program, judged.status, judged.error.kind if judged.error else None
    assert found == (run["program"], run["status"], run["kind"])
    assert check_log(log(run["log"]).encode()).ok == (run["status"] in ("ready", "finished"))


def test_there_are_good_and_bad_ones() -> None:
    assert sum(run["status"] == "failed" for run in RUNS) >= 13
    assert len({run["program"] for run in RUNS}) >= 13


@pytest.mark.parametrize("run", [r for r in RUNS if r["status"] == "finished"], ids=lambda run: run["log"])
def test_without_the_line_that_proves_its_end_it_broke_off(run: dict[str, Any]) -> None:
    """Finding: five failed quantise and split runs "ran to their end", for nothing spoke against it."""
    [known] = [x for x in PROGRAMS if x.name == run["program"]]
    rest = [line for line in log(run["log"]).splitlines() if not known.done.search(line)]
    assert judge("\n".join(rest)).status in ("broke-off", *(("unknown",) if run["log"] in EVERY_LINE_PROVES else ()))


READY = "0.02.600.000 I srv  llama_server: model loaded\n0.02.700.000 I srv  llama_server: listening on http://h:1\n"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("E srv    send_error: task id = 4, error: Context size has been exceeded.", "context-exceeded"),
        (
            "E srv    send_error: task id = 7, error: input (901 tokens) is too large to process. increase the "
            "physical batch size (current batch size: 512)",
            "text-over-batch",
        ),
        ("W decode: failed to find a memory slot for batch of size 512", "cache-full"),
        ("E srv    send_error: task id = 1, error: something nobody has seen", "request-failed"),
        ("E frob_run: something nobody has seen", "unknown"),
    ],
)
def test_lines_after_ready_are_read_to_the_end(cli, line: str, kind: str) -> None:
    """Finding: exit 0 and no notice although all requests had failed with HTTP 500."""
    text = READY + f"0.40.000.000 {line}\n" + "0.50.000.000 I srv  update_slots: all slots are idle\n"
    judged = judge(text)
    assert judged.status == "ready"
    assert [n.kind for n in judged.notices] == [kind]
    assert cli("check-log", "-", stdin=text).code == (1 if line.startswith("E") else 0)


LINE = (
    "llama_kv_cache: size =   39.00 MiB ( 32768 cells,   3 layers,  4/1 seqs), "
    "K (q8_0):   25.50 MiB, V (q4_0):   13.50 MiB"
)
OWN = f"0.02.078.300 E {LINE}"


@pytest.mark.parametrize(
    ("text", "level"),
    [
        (OWN, "E"),
        (f"Nov 29 10:00:00 host llama-server[812]: {OWN}", "E"),
        (f"<30>Nov 29 10:00:00 host llama-server[812]: {OWN}", "E"),
        (f"2026-03-25T19:17:07+02:00 gemma3 server[16376]: {LINE}", ""),
        (f"2026-03-25T19:17:07.123456789Z {OWN}", "E"),
        (f"2026-03-25T19:17:07.123456789Z stderr F {OWN}", "E"),
        (f"llama-1  | {OWN}", "E"),
        (f"my-llama_server-1  | 2026-03-25T19:17:07.1Z {LINE}", ""),
        (f"[pod/llama-0/server] {OWN}", "E"),
        (json.dumps({"log": OWN + "\n", "stream": "stderr", "time": "2026-03-25T19:17:07Z"}), "E"),
        (json.dumps({"MESSAGE": OWN, "_PID": "3", "PRIORITY": "6"}), "E"),
        (json.dumps({"type": "log", "time": 1, "level": "error", "msg": LINE + "\n"}), "E"),
        (json.dumps({"log": json.dumps({"level": "error", "msg": LINE})}), "E"),
        (f"2026-07-04 00:23:03 [DEBUG] {LINE}", ""),
        (f"[2026-07-04 00:23:03][DEBUG][LM Studio] {LINE}", ""),
        (f"time=2026-03-25T19:17:07.000+02:00 level=ERROR source=server.go:512 msg=\"{LINE}\" pid=1", "E"),
        (f"Mar 25 19:17:07 host ollama[1]: time=2026-03-25T19:17:07Z level=ERROR source=x:1 msg=\"{LINE}\"", "E"),
        (f"10:00AM DBG GRPC(m.gguf-127.0.0.1:41877): stderr {LINE}", ""),
        (f"[Nov 29 10:00:00] {LINE}", ""),
        (f"\x1b[2m10\x1b[0m\x1b[32m {OWN}", "E"),
        (f"llama-server.exe : {LINE}", ""),
    ],
)  # fmt: skip
def test_what_others_put_before_a_line_is_stripped(text: str, level: str) -> None:
    [line] = lines_of(text)
    assert line.level == level
    assert line.text.startswith(LINE)
    [cache] = judge(text).facts.caches
    assert (cache.cells, cache.type_k, cache.type_v) == (32768, "q8_0", "q4_0")


PREFIXES = (
    # journalctl -o short, short-full, short-precise, short-iso, short-iso-precise, short-unix, short-monotonic; syslog
    "Jul 04 00:23:03 host llama-server[123]: ", "Sat 2026-07-04 00:23:03 CEST host llama@a.service[9]: ",
    "Jul 04 00:23:03.123456 host llama-server[123]: ", "2026-07-04T00:23:03+02:00 host llama-server[123]: ",
    "2026-07-04T00:23:03.123456+0200 my-host.example.com llama-server[123]: ",
    "1783117383.123456 host llama-server[123]: ", "[    5.123456] host llama-server[123]: ",
    "<30>1 2026-07-04T00:23:03.123Z host llama-server 123 - - ",
    # kubectl logs --timestamps, --prefix with it, stern, with a namespace, CRI's files, kubelet, docker build
    "2026-07-04T00:23:03.123456789Z ", "[pod/llama-5d8f7b9c4-bcdfg/server] 2026-07-04T00:23:03.1Z ",
    "llama-5d8f7b9c4-bcdfg server ", "default llama-5d8f7b9c4-bcdfg server 2026-07-04T00:23:03.1Z ",
    "2026-07-04T00:23:03.1+00:00 stdout F ", "I0704 00:23:03.123456       1 log.go:1] ", "#12 1.234 ",
    # docker compose logs, with --timestamps, in colours
    "llama-server-1  | ", "llama-server-1  | 2026-07-04T00:23:03.123456789Z ", "\x1b[36mllama-1  | \x1b[0m",
    # LM Studio, Ollama under a unit, Python's logging, loguru, env_logger, ts
    "[2026-07-04 00:23:03][ERROR][llama.cpp] ", "2026-07-04 00:23:03  [INFO] [LM STUDIO SERVER] ",
    "Jul 04 00:23:03 host ollama[123]: ", "2026-07-04 00:23:03,123 - llama - INFO - ", "INFO:llama_cpp:",
    "2026-07-04 00:23:03.123 | INFO     | a:b:1 - ", "[2026-07-04T00:23:03Z INFO  llama] ", "00:23:03.123 ",
    "[00:23:03] ", "stderr: ", "[stdout] ",
)  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_form_of_a_prefix(prefix: str) -> None:
    lines = (
        "common_params_print_info: verbosity = 4 (adjust with the `-lv N` CLI arg)", LINE,
        "srv  llama_server: model loaded", "srv    send_error: task id = 7, error: Context size has been exceeded.",
    )  # fmt: skip
    for level in ("", "0.00.000.001 I ", "E "):
        text = "\n".join(f"{prefix}{level}{x}" for x in lines)
        assert [x.text for x in lines_of(text)] == list(lines)
        assert (judge(text).status, len(judge(text).facts.caches)) == ("ready", 1)


def test_lm_studio_with_its_marks_on_lines_of_their_own() -> None:
    """Finding: "nothing in it is known to come from llama.cpp" above the sizes that were read from it."""
    text = f"2026-07-04 00:23:03 [DEBUG]\n\n2026-07-04 00:23:03 [DEBUG]\n{LINE}\n2026-07-04 00:23:04 [DEBUG]\n"
    assert judge(text).status == "starting"
    assert [x.text for x in lines_of(text) if x.text.strip()] == [LINE]


def test_words_of_a_model_that_look_like_a_prefix_stay() -> None:
    for text in (
        "llama-server exited with code", "ggml-alloc: failed", "I have 12:30:00 here", "E for effort",
        "server-context error here", "[1]4.1234,[2]5.1,", "INFO:hf-to-gguf:Model successfully exported to x",
    ):  # fmt: skip
        assert next(lines_of(text)).text == text
    for text in ("load: printing all EOG tokens:", "The model said | this", "a_b | c", "1 | 2 | 3"):
        assert next(lines_of(text)).text.endswith(text.rpartition("| ")[2])
    assert next(lines_of("print_info: arch = llama")).text == "print_info: arch = llama"


def test_a_traceback_is_quoted_safely(cli) -> None:
    text = (
        "INFO:hf-to-gguf:Loading model: m\nTraceback (most recent call last):\n"
        '  File "/x/convert_hf_to_gguf.py", line 9, in <module>\n    main()\n'
        "ValueError: Can not map tensor 'a\x1b]0;owned\x07{kind}.weight'\n"
    )
    result = cli("check-log", "-", stdin=text)
    assert result.code == 1
    assert "\x1b" not in result.out
    assert "no place for" in result.out
    other = 'Traceback (most recent call last):\n  File "x.py", line 1\nmy.OddError: {0.__class__} \x1b[2J\n'
    judged = judge(other)
    assert judged.error is not None
    assert judged.error.kind == "python-end"
    assert "my.OddError" in judged.error.cause


def test_a_log_of_nothing_but_lines_is_bounded() -> None:
    """The first and the last lines of a huge one are read, and keep their numbers."""
    lines = [line.number for line in lines_of("a\n" * (FIRST + LAST + 50_000))]
    assert len(lines) <= FIRST + LAST + 1
    assert (lines[0], lines[FIRST - 1]) == (1, FIRST)
    assert lines[-2:] == [FIRST + LAST + 50_000, FIRST + LAST + 50_001]


@pytest.mark.parametrize(
    "text",
    [
        "{" * 5000, '{"log": ' * 800, "[" * 5000, "time=" * 900, "a-" * 2000 + "| x", "1 | " * 1000, "\x1b[" * 2000,
        'time=x level=E source=y msg="' + "\\" * 4000, "2026-01-01T00:00:00Z " * 190, "key '" * 800 + "x",
    ],
)  # fmt: skip
def test_hostile_lines_take_no_time(text: str) -> None:
    import time

    began = time.process_time()
    judge((text + "\n") * 100)
    assert time.process_time() - began < 5


def test_the_end_of_a_log_of_a_server_that_runs() -> None:
    """`journalctl -n`: requests that failed are no reason why it did not start."""
    judged = judge("0.40.000.000 E srv    send_error: task id = 4, error: Context size has been exceeded.\n")
    assert (judged.status, judged.error) == ("starting", None)
    assert [n.kind for n in judged.notices] == ["context-exceeded"]


def test_of_a_huge_stdin_the_beginning_and_the_end_are_read(monkeypatch) -> None:
    import io
    import sys
    from types import SimpleNamespace

    from gguftool.cli.streams import stdin_bytes

    data = b"".join(b"%07d\n" % i for i in range(600_000))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    kept = stdin_bytes(1 << 20)
    assert kept.startswith(b"0000000\n")
    assert kept.endswith(b"0599999\n")
    assert len(kept) == (1 << 20) + (1 << 17) + 1
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"short")))
    assert stdin_bytes(1 << 20) == b"short"


def test_a_compressed_log_as_bytes() -> None:
    assert check_log((LOGS / "quantize.good.log.gz").read_bytes()).judgement.status == "finished"


def test_words_of_a_prompt_are_no_errors() -> None:
    """At `-lv 5` llama-server prints what was asked and answered."""
    said = "why does docker say Permission denied, CUDA out of memory, exited with code 137, No space left on device?"
    for level in "ID":
        judged = judge(READY + f'0.50.000.000 {level} srv  log_server_r: request: {{"prompt": "{said}"}}\n')
        assert (judged.status, judged.notices) == ("ready", ())
