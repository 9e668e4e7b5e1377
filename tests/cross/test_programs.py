"""One finder of llama.cpp: every command takes the same programs, however somebody names them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from gguftool import programs
from gguftool.errors import MissingFile
from tests.build import llama
from tests.building import hf

HELP = Path(__file__).parent.parent / "data" / "llamacpp" / "help.b11434.txt.gz"
# A program of a llama.cpp build that says what it is asked and tells on itself.
STAND_IN = """#!/bin/sh
echo "$0" >> "$RECORD"
case "$*" in
  *--help*) cat "$HELP_TEXT" ;;
  *--version*) echo "version: 11434 (0123abc)" ;;
  *--list-devices*) echo "Available devices:" ;;
  *) exit 1 ;;
esac
"""
WAYS = {
    "LLAMA_CPP_DIR is the root": ({"LLAMA_CPP_DIR": "{root}"}, None),
    "LLAMA_CPP_DIR is the folder of programs": ({"LLAMA_CPP_DIR": "{bin}"}, None),
    "LLAMA_CPP_DIR is a program": ({"LLAMA_CPP_DIR": "{bin}/llama-server"}, None),
    "PATH": ({"PATH": "{bin}:/usr/bin:/bin"}, None),
    "--llama-cpp ROOT": ({}, ("--llama-cpp", "{root}")),
    "--llama-cpp PROGRAM": ({}, ("--llama-cpp", "{bin}/llama-quantize")),
    "--server ROOT": ({}, ("--server", "{root}")),
    "--server PROGRAM": ({}, ("--server", "{bin}/llama-server")),
    "its own variable": ({programs.variable(n): f"{{bin}}/{n}" for n in programs.PROGRAMS}, None),
    "the option wins": ({"LLAMA_CPP_DIR": "{decoy}", "GGUFTOOL_LLAMA_SERVER": "{decoy}"}, ("--server", "{root}")),
}
COMMANDS = {
    "launch --print -- {model}": "llama-server",
    "launch --translate ./main\\ -m\\ x.gguf": "llama-server",
    "plan --vram auto -- {model}": "llama-server",
    "plan --measure --vram 16GiB -- {model}": "llama-fit-params",
    "plan --measure --vram none -- {model}": "llama-fit-params",
    "kv-test --engine llama-perplexity --cache-type q8_0 -- {model}": "llama-perplexity",
    "quantize --engine llama-quantize --dry-run -- {model} Q8_0": "llama-quantize",
    "quantize --dry-run -- {model} Q8_0": "llama-quantize",
    "prepare -o {folder}/ready.gguf --quantize Q8_0 -- {model}": "llama-quantize",
    "explain --flag=-fa": "llama-server",
    "convert -o {folder}/made.gguf -- {hf}": "convert_hf_to_gguf.py",
    "doctor": "",
}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A llama.cpp built in its source tree, another on PATH that must not be taken, a model, a folder to convert."""
    text = tmp_path / "help.txt"
    text.write_bytes(gzip.decompress(HELP.read_bytes()))
    monkeypatch.setenv("HELP_TEXT", str(text))
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    for name in ("LLAMA_CPP_DIR", *map(programs.variable, programs.PROGRAMS)):
        monkeypatch.delenv(name, raising=False)
    for root in ("llama.cpp", "decoy"):
        folder = tmp_path / root / "build" / "bin"
        folder.mkdir(parents=True)
        for name in programs.PROGRAMS:
            (folder / name).write_text(STAND_IN)
            (folder / name).chmod(0o755)
        script = tmp_path / root / programs.CONVERTER
        script.write_text("")
        script.chmod(0o755)
        (folder / programs.CONVERTER).symlink_to(script)
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\n[ "$1" = -c ] && exit 0\n'
        f'for a; do case "$a" in *{programs.CONVERTER}) readlink -f "$a" >> "$RECORD"; esac; done\nexit 1\n'
    )
    python.chmod(0o755)
    monkeypatch.setenv("GGUFTOOL_CONVERTER_PYTHON", str(python))
    decoy = tmp_path / "decoy" / "build" / "bin"
    monkeypatch.setenv("PATH", f"{decoy}:/usr/bin:/bin")
    return {
        "root": str(tmp_path / "llama.cpp"),
        "bin": str(tmp_path / "llama.cpp" / "build" / "bin"),
        "decoy": str(tmp_path / "decoy"),
        "folder": str(tmp_path),
        "model": str(llama().write(tmp_path / "m.gguf")),
        "hf": str(hf.folder(tmp_path / "hf", "llama")),
    }


# The converter has no variable of its own; what merely lies on PATH was not named, and the library measures.
PAIRS = [
    (command, way)
    for command, program in COMMANDS.items()
    for way in WAYS
    if (program, way) != (programs.CONVERTER, "its own variable") and not (way == "PATH" and "--vram none" in command)
]


@pytest.mark.parametrize(("command", "way"), PAIRS)
def test_the_same_program_is_found(cli, world: dict[str, str], monkeypatch, command: str, way: str) -> None:  # type: ignore[no-untyped-def]
    program = COMMANDS[command]
    environment, given = WAYS[way]
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(**world))
    words = [w.replace("\\ ", " ").format(**world) for w in command.replace("\\ ", "\0").split()]
    words = [w.replace("\0", " ") for w in words]
    option = [w.format(**world) for w in given or ()]
    result = cli(words[0], *option, *words[1:], *(["--format", "json"] if words[0] == "doctor" else []))
    assert result.code != 2, result.err
    if words[0] == "doctor":
        found = {p["name"]: p["path"] for p in reversed(result.json["programs"])}
        assert found == {name: f"{world['bin']}/{name}" for name in programs.PROGRAMS}
        assert result.json["missing"] == []
        builders = {b["name"]: b["path"] for b in result.json["builders"]}
        assert builders["quantiser"] == found["llama-quantize"]
        if way != "its own variable":
            assert os.path.realpath(builders["converter"]) == f"{world['root']}/{programs.CONVERTER}"
        return
    record = Path(os.environ["RECORD"])
    asked = record.read_text().splitlines() if record.exists() else []
    expected = f"{world['root']}/{program}" if program == programs.CONVERTER else f"{world['bin']}/{program}"
    assert expected in asked, (asked, result.err)
    if way != "its own variable" or program != "llama-server":
        assert not [line for line in asked if line.startswith(world["decoy"])], result.err


@pytest.mark.parametrize("command", [c for c in COMMANDS if c != "doctor"] + ["doctor"])
def test_what_is_named_must_be_there(cli, world: dict[str, str], command: str) -> None:  # type: ignore[no-untyped-def]
    words = command.replace("\\ ", "_").format(**world).split()
    result = cli(words[0], "--llama-cpp", "/no/such/folder", *words[1:])
    assert result.code == 2
    assert "/no/such/folder" in result.err


def test_a_folder_without_the_program_is_no_leave_to_take_another(world: dict[str, str], tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(MissingFile, match="holds no llama-server"):
        programs.find("llama-server", str(empty))
    assert programs.find("llama-server", str(empty), may_lack=True) is None
    alone = empty / "llama-cli"
    alone.write_text(STAND_IN)
    alone.chmod(0o755)
    with pytest.raises(MissingFile, match="is llama-cli, and no llama-server lies beside it"):
        programs.find("llama-server", str(alone))
    # A name that is none of llama.cpp's is taken at its word.
    own = empty / "my-server"
    alone.rename(own)
    found = programs.find("llama-server", str(own))
    assert found is not None
    assert found.path == str(own)


def test_doctor_says_that_a_variable_names_nothing(cli, world: dict[str, str], monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("LLAMA_CPP_DIR", "/no/such/folder")
    traps = {t["kind"]: t["message"] for t in cli("doctor", "--format", "json").json["traps"]}
    assert "/no/such/folder" in traps["named-nowhere"]
    assert programs.find("llama-server").path.startswith(world["decoy"])  # type: ignore[union-attr]


def test_a_script_in_a_parent_folder_is_not_run(world: dict[str, str], tmp_path: Path) -> None:
    """Only out of build folders one climbs to the tree: a script that lies in /tmp is nobody's converter."""
    inside = tmp_path / "llama.cpp" / "models"
    inside.mkdir()
    found = programs.converter(str(inside))
    assert found is not None
    assert found.startswith(world["decoy"])
    assert programs.converter(world["bin"]) == f"{world['bin']}/{programs.CONVERTER}"
    os.unlink(f"{world['bin']}/{programs.CONVERTER}")
    assert programs.converter(world["bin"]) == f"{world['root']}/{programs.CONVERTER}"
