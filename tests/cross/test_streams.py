"""Stdout and stderr that are full or closed: every command, text and JSON; what was done is never called a failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gguftool.cli.group import TABLE
from tests.build import GGUF

SHELLS = {"no-stdout": ">&-", "no-stderr": "2>&-", "none": "<&- >&- 2>&-", "no-log": "2> /dev/full"}

# What each command is asked, and for those that change something what there is to see afterwards.
CALLS: dict[str, tuple[str, str | None]] = {
    "dump": ("m.gguf", None),
    "diff": ("m.gguf m.gguf", None),
    "render": ("m.gguf", None),
    "report": ("m.gguf --output r.html", "r.html"),
    "rules": ("", None),
    "explain": ("general.name", None),
    "lint": ("m.gguf --no-config --exit-zero", None),
    "verify": ("m.gguf", None),
    "compat": ("m.gguf", None),
    "push-check": ("m.gguf --exit-zero", None),
    "hash": ("m.gguf", None),
    "fix": ("m.gguf --set general.name=there", "m.gguf"),
    "edit": ("--help", None),
    "undo": ("edited.gguf", "edited.gguf"),
    "recover": ("m.gguf", "m.gguf"),
    "split": ("m.gguf --max-tensors 1", "m-00001-of-00002.gguf"),
    "merge": ("s-00001-of-00002.gguf --output joined.gguf", "joined.gguf"),
    "convert": ("--check .", None),
    "quantize": ("m.gguf Q8_0 --engine builtin --output q.gguf", "q.gguf"),
    "imatrix": ("--show i.gguf", None),
    "mix": ("m.gguf --target 9bpw --sensitivity usual --save types.txt", "types.txt"),
    "prepare": ("--help", None),
    "plan": ("m.gguf", None),
    "pull": ("--help", None),
    "launch": ("--help", None),
    "check-log": ("--help", None),
    "kv-test": ("--help", None),
    "quant-test": ("--help", None),
    "diagnose": ("m.gguf --no-run", None),
    "doctor": ("--error 'out of memory'", None),
    "scan": ("m.gguf", None),
    "completion": ("bash", None),
}
NO_JSON = ("--help", "bash")
FORMS = [(c, f) for c, (args, _) in CALLS.items() for f in ("text", "json") if f == "text" or args not in NO_JSON]


def gguf() -> GGUF:
    made = GGUF("llama").kv("general.name", "before").kv("llama.context_length", 64).kv("llama.block_count", 1)
    made.kv("llama.embedding_length", 32).kv("llama.feed_forward_length", 64).kv("llama.attention.head_count", 2)
    return made.tensor("output_norm.weight", (32,), "f32").tensor("token_embd.weight", (32, 32), "f32")


def matrix() -> GGUF:
    """An importance matrix of one tensor."""
    made = GGUF("").kv("general.type", "imatrix").kv("imatrix.datasets", ["a.txt"]).kv("imatrix.chunk_count", 20)
    made.kv("imatrix.chunk_size", 512).tensor("blk.0.attn_q.weight.in_sum2", (32,), "f32", b"\0\0\x80?" * 32)
    return made.tensor("blk.0.attn_q.weight.counts", (1,), "f32", b"\0\0\x80?")


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that every call starts from."""
    folder = tmp_path_factory.mktemp("ready")
    for name in ("m", "edited", "s"):
        (folder / f"{name}.gguf").write_bytes(gguf().bytes())
    (folder / "i.gguf").write_bytes(matrix().bytes())
    for line in ("fix edited.gguf --set general.name=there", "split s.gguf --max-tensors 1"):
        subprocess.run([sys.executable, "-m", "gguftool", *line.split()], cwd=folder, check=True, capture_output=True)
    return folder


def run(ready: Path, to: Path, line: str, shell: str) -> subprocess.CompletedProcess[bytes]:
    for path in ready.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    command = f"{sys.executable} -m gguftool {line} {shell}"
    return subprocess.run(["bash", "-c", command], cwd=to, capture_output=True, timeout=120)


def test_every_command_is_walked():
    assert set(CALLS) == {entry.name for entry in TABLE}


@pytest.mark.parametrize(("command", "form"), FORMS)
def test_a_full_stdout(ready: Path, tmp_path: Path, command: str, form: str):
    args, made = CALLS[command]
    if form == "json":
        args += " --format json"
    done = run(ready, tmp_path, f"{command} {args}", "> /dev/full")
    said = done.stderr.decode()
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert "No space left on device" in said
    if made is None:
        assert done.returncode == 5
        assert [line for line in said.splitlines() if line.startswith("error:")] == [
            "error: stdout cannot be written: No space left on device"
        ]
    else:
        assert done.returncode == 0
        assert "error" not in said
        assert "the work is done" in said
        assert (tmp_path / made).exists()


@pytest.mark.parametrize(("command", "form"), FORMS)
def test_closed_streams(ready: Path, tmp_path: Path, command: str, form: str):
    """The same exit code, the same files and the same stdout as with all three open."""
    args, _ = CALLS[command]
    if form == "json":
        args += " --format json"
    (a := tmp_path / "open").mkdir()
    with_all = run(ready, a, f"{command} {args}", "< /dev/null")
    # Half of the ways for each, every way for half of them; all under all is a part of `./dev crash`.
    ways = list(SHELLS) if form == "text" else ["no-stdout", "no-stderr"]
    for name in ways[list(CALLS).index(command) % 2 :: 2]:
        (b := tmp_path / name).mkdir()
        without = run(ready, b, f"{command} {args}", SHELLS[name])
        assert without.returncode == with_all.returncode < 5, (name, without.stderr)
        assert b"Traceback" not in without.stderr
        assert sorted(os.listdir(a)) == sorted(os.listdir(b))
        for made in a.glob("*.gguf"):
            assert made.read_bytes() == (b / made.name).read_bytes(), name
        if name in ("no-stderr", "no-log"):
            assert bool(without.stdout) == bool(with_all.stdout)
            if form == "json":
                assert json.loads(without.stdout)["ok"] == json.loads(with_all.stdout)["ok"]


@pytest.mark.parametrize("form", ["", " --format json"])
def test_nobody_reads_what_was_done(ready: Path, tmp_path: Path, form: str):
    """A pipe whose reader has gone, on either stream."""
    for gone in ("| :", "2> >(:)"):
        args = f"fix m.gguf --set general.name=there --set general.description=$(seq -s, 2000){form}"
        done = run(ready, tmp_path, args, f"{gone}; exit ${{PIPESTATUS[0]}}")
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr


def test_version_to_a_full_disk(ready: Path, tmp_path: Path):
    done = run(ready, tmp_path, "--version", "> /dev/full")
    assert done.returncode == 5
    assert done.stderr.decode() == "error: stdout cannot be written: No space left on device\n"


@pytest.mark.parametrize("form", ["", " --format json"])
def test_a_failure_stays_the_failure_it_is(ready: Path, tmp_path: Path, form: str):
    """No report, but the exit code and the words of what was wrong."""
    done = run(ready, tmp_path, f"dump there-is-none.gguf{form}", "> /dev/full")
    assert done.returncode == 2
    assert b"there-is-none.gguf" in done.stderr
    assert b"Traceback" not in done.stderr


def test_no_file_gets_the_number_of_a_missing_descriptor(tmp_path: Path):
    """Else the model itself could be stderr."""
    code = (
        "import os, sys; from gguftool.cli.streams import ready; ready(); fd = os.open('/dev/null', os.O_RDONLY); "
        "sys.exit(fd)"
    )
    for closed in ("0<&-", "1>&-", "2>&-", "<&- >&- 2>&-"):
        assert subprocess.run(["bash", "-c", f'{sys.executable} -c "{code}" {closed}']).returncode >= 3


def test_what_was_fixed_is_said_when_lint_cannot_report(ready: Path, tmp_path: Path):
    made = gguf().kv("general.name", "again")
    (tmp_path / "twice.gguf").write_bytes(made.bytes())
    done = run(ready, tmp_path, "lint twice.gguf --fix --exit-zero --no-config", "> /dev/full")
    assert done.returncode == 0
    assert b"the work is done: fixed twice.gguf" in done.stderr
