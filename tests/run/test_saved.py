"""Commands that stand in files, and what of them another build takes otherwise."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from gguftool.api.translated import translate
from gguftool.errors import UsageError
from gguftool.run.bybuild import of_build
from gguftool.run.capabilities import Capabilities, Option, known, parse_help
from gguftool.run.changed import changes
from gguftool.run.saved import of_text, saved

DATA = Path(__file__).parent.parent / "data" / "llamacpp"
HOOKS = Path(__file__).parent.parent.parent / "fixtures" / "hooks"
UNIT = """\
[Unit]
Description=x
[Service]
Environment=A=b
ExecStartPre=/bin/true
ExecStart=-/usr/bin/env LLAMA_ARG_THREADS=4 /opt/llama.cpp/llama-server -m "/srv/my model.gguf" \\
    -c 4096 --no-mmap
Restart=always
"""
COMPOSE = """\
services:
  listed:
    image: ghcr.io/ggml-org/llama.cpp:server
    command: ["-m", "/m.gguf", "--mlock"]
  spoken:
    image: ghcr.io/ggml-org/llama.cpp:server
    command: >
      -m /m.gguf
      --ctx-size 4096
  shell:
    image: x
    entrypoint: ["sh", "-c", "exec llama-server -m /m.gguf -np $$N"]
  database:
    image: postgres
    command: postgres -c max_connections=10
"""
SWAP = """\
macros:
  base: /opt/llama-server --port ${PORT}
models:
  qwen:
    cmd: |
      ${base}
      -m /m.gguf
      --mlock
  in-docker:
    cmd: docker run --rm -p 8080:8080 ghcr.io/ggml-org/llama.cpp:server -m /m.gguf
"""


def found(text: str, path: str = "") -> dict[str, tuple[str, ...]]:
    return {s.where: tuple(str(w) for w in s.words) for s in of_text(text, path)}


def test_a_unit() -> None:
    assert found(UNIT, "llama.service") == {
        "ExecStart": ("-m", "/srv/my model.gguf", "-c", "4096", "--no-mmap"),
    }


def test_a_compose_file() -> None:
    assert found(COMPOSE, "compose.yaml") == {
        "services.listed.command": ("-m", "/m.gguf", "--mlock"),
        "services.spoken.command": ("-m", "/m.gguf", "--ctx-size", "4096"),
        "services.shell.entrypoint": ("-m", "/m.gguf", "-np", "$N"),
    }


def test_llama_swap() -> None:
    assert found(SWAP, "llama-swap.yaml") == {
        "models.qwen.cmd": ("--port", "${PORT}", "-m", "/m.gguf", "--mlock"),
        "models.in-docker.cmd": ("-m", "/m.gguf"),
    }


def test_a_pod_and_a_script() -> None:
    pod = saved(os.fspath(HOOKS / "pod.yaml"))
    assert [s.where for s in pod] == ["spec.containers.server.args"]
    assert pod[0].words[:2] == ("--model", "/models/model.gguf")
    script = saved(os.fspath(HOOKS / "entrypoint.sh"))
    assert [str(w) for w in script[0].words[2:3]] == ["--ctx-size"]


def test_gguftool_spells_its_own_words() -> None:
    unit = "[Service]\nExecStart=/usr/bin/gguftool launch /m.gguf --exec --ctx 4096 -- --mlock\n"
    assert found(unit) == {"ExecStart": ("--mlock",)}


def test_what_holds_no_command(tmp_path: Path) -> None:
    for name, text in (("a.service", "[Service]\nExecStart=/bin/true\n"), ("b.yaml", "a: [1,"), ("c.sh", "echo\n")):
        (tmp_path / name).write_text(text)
        with pytest.raises(UsageError):
            saved(os.fspath(tmp_path / name))
    (tmp_path / "d").write_bytes(b"\0" * 100)
    with pytest.raises(UsageError):
        saved(os.fspath(tmp_path / "d"))


def older() -> Capabilities:
    """What the real b10434 takes, as it says itself."""
    return Capabilities(parse_help(gzip.decompress((DATA / "help.b10434.txt.gz").read_bytes()).decode()), 10434)


def test_options_that_went_between_two_real_builds() -> None:
    """b11434 has one --load-mode in the place of the switches of b10434 (both recorded from ``--help``)."""
    words = ["-m", "x", "--no-mmap", "--mlock", "-ngl", "9"]
    kinds = {c.option: (c.kind, c.becomes) for c in changes(words, older(), known())}
    assert kinds == {"--no-mmap": ("renamed", "-lm none"), "--mlock": ("renamed", "-lm mlock")}


def test_every_kind_of_change() -> None:
    old = Capabilities((
        Option(("-fa", "--flash-attn")), Option(("-np", "--parallel"), "N", default="1"),
        Option(("--gone",), "N"), Option(("--mode",), "[a|b]"),
    ), 1)  # fmt: skip
    new = Capabilities((
        Option(("-fa", "--flash-attn"), "[on|off|auto]"), Option(("-np", "--parallel"), "N", default="-1, -1 = auto"),
        Option(("--mode",), "[b|c]"), Option(("--fresh",)), Option(("--gone",), "N", removed=True),
    ), 2)  # fmt: skip
    said = changes(["-fa", "-np", "2", "--gone", "3", "--mode=a", "--fresh"], old, new)
    assert [(c.option, c.kind) for c in said] == [
        ("-fa", "values"), ("-np", "default"), ("--gone", "gone"), ("--mode", "values"), ("--fresh", "later"),
    ]  # fmt: skip
    (unsaid,) = changes(["-m", "x"], old, new)
    assert (unsaid.option, unsaid.kind, unsaid.was, unsaid.becomes, unsaid.said) == (
        "--parallel", "default", "1", "-1", False,
    )  # fmt: skip
    assert changes(["-m", "x"], old, old) == []


def test_the_options_of_a_build_without_its_program() -> None:
    """The timeline knows every option of the real b10434, and no other (its own ``--help`` is recorded)."""
    made, real = of_build(10434), older()
    assert {n for n in made.by_name if made.takes(n)} == {n for n in real.by_name if real.takes(n)}
    taken = [n for n in real.by_name if real.takes(n)]
    assert [n for n in taken if bool(made.by_name[n].value) != bool(real.by_name[n].value)] == []


def test_flash_attention_was_a_switch() -> None:
    """``-fa`` takes a value since b6325 (2025-08-30), slots keep 32 checkpoints since b8218 (8 before)."""
    assert (of_build(6324).by_name["-fa"].value, of_build(6325).by_name["-fa"].value) == (
        "",
        "[auto|disabled|enabled|off|on]",
    )
    assert (of_build(8217).by_name["--ctx-checkpoints"].default, of_build(8217).takes("--load-mode")) == ("8", False)
    (change,) = [c for c in changes(["-fa", "-m", "x"], of_build(6000), known()) if c.said]
    assert (change.option, change.kind) == ("-fa", "values")
    old = translate("llama-server -m m.gguf -fa --no-mmap", build="b6000")
    assert old.argv == ("llama-server", "-m", "m.gguf", "-fa", "--no-mmap")
    new = translate("llama-server -m m.gguf -fa --no-mmap", build=11434)
    assert new.argv[:7] == ("llama-server", "-m", "m.gguf", "-fa", "on", "-lm", "none")
