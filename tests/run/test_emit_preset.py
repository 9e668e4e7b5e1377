"""`--emit preset`: llama-server's router reads the file, and starts the model as it was planned."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from gguftool.errors import UsageError
from gguftool.run.capabilities import known
from gguftool.run.emit import emit
from gguftool.run.options.behind import take_in
from gguftool.run.wishes import Wishes
from tests.run.emitted import filled, planned
from tests.run.test_emit_live import status
from tests.run.test_emit_systemd import free_port


def ini(text: str) -> dict[str, dict[str, str]]:
    """As `preset.cpp:parse_ini_from_file` (b11434) reads it: a value ends before blanks and ``;`` or ``#``."""
    out: dict[str, dict[str, str]] = {"": {}}
    section = ""
    for line in re.split(r"\r\n|\n|\r", text):
        if re.fullmatch(r"[ \t]*([;#].*)?", line):
            continue
        if head := re.fullmatch(r"\[[ \t]*([^]]+)[ \t]*\][ \t]*([;#].*)?", line):
            section = head[1]
            out[section] = {}
            continue
        pair = re.fullmatch(r"([a-zA-Z_][a-zA-Z0-9_.-]*)[ \t]*=[ \t]*(.*?)(?=[ \t]*([;#]|$)).*", line)
        assert pair, line
        out[section][pair[1]] = pair[2]
    return out


def said(text: str) -> Wishes:
    """The wishes that the one section says."""
    found = ini(text)
    assert found.pop("") == {"version": "1"}
    [keys] = found.values()
    words: list[str] = []
    for key, value in keys.items():
        name = next(n for n in known().by_name if n.lstrip("-") == key)
        words += [name, value] if known().by_name[name].value else [name]
        assert known().by_name[name].value or value == "true"
    return take_in(Wishes(extra=tuple(words[2:])), known()).wishes


def test_the_section_says_what_was_asked(tmp_path: Path) -> None:
    place = filled(tmp_path)
    plan = planned(
        place, ctx=512, kv_offload=False, lora=(str(place / "mm.gguf"),), cache_type=("q8_0", "q4_0"), alias="it's me"
    )
    text = emit("preset", plan)
    assert "it's me" in ini(text)
    found = said(text)
    for field in ("ctx", "kv_offload", "lora", "cache_type", "parallel"):
        assert getattr(found, field) == getattr(plan.wishes, field), field


def test_keys_and_address_are_the_routers(tmp_path: Path) -> None:
    place = filled(tmp_path)
    text = emit("preset", planned(place, port=9000, api_key_file=str(place / "file"), api_prefix="/llm"))
    first = text.splitlines()[0]
    assert f"--port 9000 --api-key-file {place}/file --api-prefix /llm" in first
    assert not {"port", "host", "api-key-file", "api-prefix"} & set(next(v for k, v in ini(text).items() if k))


@pytest.mark.parametrize("name", ["a;b", "a#b", "a\nb", " a"])
def test_what_the_file_cannot_hold_is_refused(name: str, tmp_path: Path) -> None:
    place = filled(tmp_path)
    (place / name).write_text("x")
    if name == " a":
        with pytest.raises(UsageError, match="section"):
            emit("preset", planned(place, alias=name))
        return
    with pytest.raises(UsageError, match="preset holds"):
        emit("preset", planned(place, template=str(place / name)))


@pytest.mark.real
def test_the_router_starts_it(cli, smollm2: Path, server: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    result = cli(
        "launch", smollm2, "--ctx", 512, "--cache-type", "q8_0", "--no-kv-offload", "--alias", "small one",
        "--llama-cpp", server, "--emit", "preset", "--force",
    )  # fmt: skip
    assert result.code == 0, result.err
    (tmp_path / "models.ini").write_text(result.out)
    port = free_port()
    words = [server, "--models-preset", str(tmp_path / "models.ini"), "--port", str(port), "--host", "127.0.0.1"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        assert status(port, "/health", until=60) == 200, (tmp_path / "log").read_text()[-2000:]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/models", timeout=10) as answer:
            listed: dict[str, Any] = {m["id"]: m for m in json.load(answer)["data"]}
        args = listed["small one"]["status"]["args"]
        for option, value in (("--ctx-size", "512"), ("--cache-type-k", "q8_0"), ("--model", str(smollm2))):
            assert args[args.index(option) + 1] == value
        assert "--no-kv-offload" in args
        body = {"model": "small one", "prompt": "a", "n_predict": 1}
        assert status(port, "/completion", body, until=90) == 200
    finally:
        process.terminate()
        process.wait(timeout=30)
