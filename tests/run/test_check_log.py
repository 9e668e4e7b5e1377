"""``gguftool check-log``: exit codes, JSON, the comparison with a plan."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

LOGS = Path(__file__).parent.parent / "data" / "logs"


@pytest.fixture
def plan(cli, gemma3, tmp_path):
    """What gguftool itself plans for the run in server.lv4_kv_q8_q4_fa_32k.log."""
    made = cli(
        "launch", gemma3, "--print", "--ctx", 32768, "--cache-type", "q8_0/q4_0", "--parallel", 4, "--kv-unified",
        "--format", "json",
    )  # fmt: skip
    assert made.code == 0
    path = tmp_path / "plan.json"
    path.write_bytes(made.stdout)
    assert made.json["context"]["total"] == 32768
    return path


def test_a_good_log_is_what_was_planned(cli, plan):
    result = cli("check-log", LOGS / "server.lv4_kv_q8_q4_fa_32k.log.gz", "--expect", plan, "--format", "json")
    assert result.code == 0
    found = {c["what"]: c for c in result.json["checks"]}
    assert found["KV cache"] == {"what": "KV cache", "expected": "54.23 MiB", "observed": "54.23 MiB", "ok": True}
    assert found["K cache type"]["observed"] == "q8_0"
    assert found["V cache type"]["observed"] == "q4_0"
    assert all(c["ok"] for c in found.values())
    assert result.json["error"] is None


def test_the_plan_of_gguftool_plan(cli, gemma3, tmp_path):
    made = cli("plan", gemma3, "--ctx", 32768, "--cache-type", "q8_0/q4_0", "--parallel", "auto", "--format", "json")
    assert made.code == 0
    plan = tmp_path / "plan.json"
    plan.write_bytes(made.stdout)
    result = cli("check-log", LOGS / "server.lv4_kv_q8_q4_fa_32k.log.gz", "--expect", plan, "--format", "json")
    assert result.code == 0
    found = {c["what"]: c["ok"] for c in result.json["checks"]}
    assert {"weights", "flash attention", "window cache: V", "KV cache", "slots share the context"} <= set(found)
    assert all(found.values())


def test_another_run_is_not(cli, plan):
    result = cli("check-log", LOGS / "server.lv4_default.log.gz", "--expect", plan, "--format", "json")
    assert result.code == 1
    wrong = {c["what"] for c in result.json["checks"] if c["ok"] is False}
    sizes = {f"{name} cache: {side}" for name in ("full", "window") for side in "KV"}
    assert wrong == {"K cache type", "V cache type", "KV cache"} | sizes
    text = cli("check-log", LOGS / "server.lv4_default.log.gz", "--expect", plan)
    assert text.code == 1
    assert "differs" in text.out


def test_a_log_that_does_not_show_it_proves_nothing(cli, plan):
    result = cli("check-log", LOGS / "server.kv_q8_q4_fa_32k.log.gz", "--expect", plan)
    assert result.code == 1
    assert "not seen" in result.out
    assert "-lv 4" in result.out


def test_a_failed_start(cli):
    result = cli("check-log", LOGS / "server.tiny_deepseek2-mla_kv_mixed.log.gz", "--format", "json")
    assert result.code == 1
    assert result.json["status"] == "failed"
    assert result.json["error"]["kind"] == "cache-type-mixed"
    assert result.json["error"]["remedy"] == "--cache-type q8_0"
    assert result.json["errors"] == []


def test_an_unknown_option_is_explained(cli):
    result = cli("check-log", LOGS / "server.no_mmap.log.gz", "--format", "json")
    assert result.json["error"]["remedy"] == "write -lm none"
    assert "--load-mode" in result.json["error"]["cause"]
    assert result.json["error"]["line"] == "error: invalid argument: --no-mmap", "the line as it stands in the log"
    text = cli("check-log", LOGS / "server.no_mmap.log.gz").out
    assert "error: invalid argument: --no-mmap" in text
    assert "error: error:" not in text


def test_stdin(cli):
    text = gzip.decompress((LOGS / "server.lv4_np1_8k.log.gz").read_bytes()).decode()
    assert cli("check-log", "-", stdin=text).code == 0
    gui = cli("check-log", "-", stdin="No LM Runtime found for model format 'gguf'!")
    assert gui.code == 1
    assert "AVX2" in gui.out


def test_terminal_escapes_of_a_log_do_not_reach_the_terminal(cli):
    result = cli("check-log", "-", stdin="error: invalid argument: --\x1b]0;owned\x07\x1b[31mx\n")
    assert result.code == 1
    assert "\x1b" not in result.out + result.err


@pytest.mark.parametrize(
    "content",
    [b"not json", b"[]", b"{}", b'{"context": {}}', b'{"context": 3}', b'{"expected": {"caches": [1]}}', None],
)
def test_bad_plans(cli, tmp_path, content):
    plan = tmp_path / "p.json"
    if content is not None:
        plan.write_bytes(content)
    result = cli("check-log", LOGS / "server.default.log.gz", "--expect", plan, "--format", "json")
    assert result.code == 2
    assert json.loads(result.stdout)["errors"][0]["message"]


def test_no_such_log(cli, tmp_path):
    assert cli("check-log", tmp_path / "none.log").code == 2
    assert cli("check-log", tmp_path).code == 3
