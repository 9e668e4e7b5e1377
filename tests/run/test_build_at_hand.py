"""``launch``, ``plan`` and ``doctor`` judge by the llama-server at hand: its build, its options, its defaults."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from gguftool.api.launch import plan_launch
from gguftool.errors import UsageError
from gguftool.run.capabilities import Capabilities, known
from gguftool.run.engine import Engine
from gguftool.run.target import target

HELP = Path(__file__).parent.parent / "data" / "llamacpp" / "help.b11434.txt.gz"


def server(folder: Path, build: int, changed: tuple[str, str] = ("", "")) -> str:
    """A llama-server that prints the recorded help of b11434, and says another build."""
    (folder / "help.txt").write_text(gzip.decompress(HELP.read_bytes()).decode().replace(*changed))
    program = folder / "llama-server"
    version = f"echo 'version: {build} (1782cdfe)' >&2" if build else "echo 'version: 0 (unknown)' >&2"
    program.write_text(
        f"#!/bin/sh\ncase $1 in --help) cat '{folder}/help.txt';; --version) {version};; *) echo none;; esac\n"
    )
    program.chmod(0o755)
    return os.fspath(program)


def test_plan_and_launch_name_the_build_that_does_not_load_it(cli: Any, gemma3: Path, tmp_path: Path) -> None:
    """b4798 is older than gemma3 (b4875)."""
    old = server(tmp_path, 4798)
    planned = cli("plan", gemma3, "--llama-cpp", old)
    assert planned.code == 1
    assert "llama.cpp b4798 does not load it" in planned.out + planned.err
    assert "needs llama.cpp b4875 or newer" in planned.out + planned.err
    printed = cli("launch", gemma3, "--print", "--llama-cpp", old)
    assert printed.code == 1
    assert "llama.cpp b4798 refuses the file" in printed.err
    assert "unknown model architecture: 'gemma3'" in printed.err


def test_a_newer_build_is_told_and_judged_as_the_newest(cli: Any, smollm2: Path, tmp_path: Path) -> None:
    new = server(tmp_path, 99999)
    printed = cli("launch", smollm2, "--print", "--llama-cpp", new)
    assert printed.code == 0
    assert "b99999 is newer than b11434, the newest known here" in printed.err
    assert cli("compat", smollm2, "--server", new).code == 0


def test_the_defaults_are_those_of_the_build(smollm2: Path) -> None:
    """What a build takes when nothing is said is what its help says: a batch of 1024, 8 checkpoints."""
    was = {"-ub": "256", "-b": "1024", "-ctxcp": "8"}
    options = tuple(
        next((type(o)(o.names, o.value, o.env, d) for n, d in was.items() if n in o.names), o) for o in known().options
    )
    engine = Engine("llama-server", ("llama-server",), None, Capabilities(options, 11434))
    s = plan_launch(os.fspath(smollm2), engine=engine, check=False).memory.settings
    assert (s.ubatch, s.batch, s.checkpoints) == (256, 1024, 8)
    here = plan_launch(os.fspath(smollm2), engine=Engine("llama-server", ("llama-server",), None, known()), check=False)
    assert (here.memory.settings.ubatch, here.memory.settings.batch) == (512, 2048)


def test_a_build_that_does_not_say_its_number(tmp_path: Path) -> None:
    found = target(llama_cpp=server(tmp_path, 0))
    assert found is not None
    assert found.build is None
    assert "judged as b11434" in found.notes[0]
    older = gzip.decompress((HELP.parent / "help.b10434.txt.gz").read_bytes()).decode()
    (tmp_path / "help.txt").write_text(older)
    by_options = target(llama_cpp=os.fspath(tmp_path))
    assert by_options is not None
    assert by_options.build is not None
    assert by_options.last is not None
    assert by_options.build <= 10434 <= by_options.last < 10600
    with pytest.raises(UsageError):
        target("b8179", server(tmp_path, 1))


def test_doctor_names_the_build_and_what_it_cannot_load(
    cli: Any, gemma3: Path, smollm2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """b4798 is of 2025-03-01; in a cache with both models it does not load gemma3."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for model in (gemma3, smollm2):
        (cache / model.name).symlink_to(model)
    monkeypatch.setenv("LLAMA_CACHE", os.fspath(cache))
    old = server(tmp_path, 4798)
    found = cli("doctor", "--llama-cpp", old, "--format", "json").json["upgrade"]
    assert (found["build"], found["date"]) == (4798, "2025-03-01")
    assert found["days"] > 300
    mine = [x for x in found["cannot_load"] if x["path"].startswith(os.fspath(cache))]
    assert [(Path(x["path"]).name, x["needs"]) for x in mine] == [
        (gemma3.name, "needs llama.cpp b4875 or newer (architecture gemma3)")
    ]
    shown = cli("doctor", "--llama-cpp", old).out
    assert "llama.cpp b4798 was made on 2025-03-01" in shown
    assert "models that llama.cpp b4798 does not load" in shown
