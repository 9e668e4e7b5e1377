"""What stands before the program of a command: variables, ``sudo``, ``docker run …``; and which program it is."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from gguftool.facts.data import load
from gguftool.records import dataclass, field
from gguftool.regex import regex
from gguftool.run import tools
from gguftool.run.flags import notes
from gguftool.run.translation.words import assignment
from gguftool.shell import Expands

_IMAGE = regex(r"(?:ghcr\.io/)?(?:ggml-org|ggerganov|local)/llama\.cpp(?::([\w.-]+))?(?:@sha256:\w+)?", re.ASCII)
_SWITCHES = frozenset(
    "-d --detach -i --interactive -t --tty -it -ti -dit -itd -td --rm --privileged --init --read-only -P --publish-all "
    "--no-healthcheck --oom-kill-disable -q --quiet --replace --rmi".split()
)
"""Options of ``docker run`` that take no value."""
_FULL = {
    **dict.fromkeys(("--server", "-s"), "llama-server"), **dict.fromkeys(("--run", "-r"), "llama-cli"),
    **dict.fromkeys(("--run-legacy", "-l"), "llama-completion"),
    **dict.fromkeys(("--quantize", "-q"), "llama-quantize"),
    **dict.fromkeys(("--bench", "-b"), "llama-bench"), **dict.fromkeys(("--perplexity", "-p"), "llama-perplexity"),
    **dict.fromkeys(("--convert", "-c"), "convert_hf_to_gguf.py"),
}  # fmt: skip
"""What the first word is for the image ``full`` (`.devops/tools.sh`, b11434)."""
MODULES = {
    "llama_cpp.server": "llama_cpp.server", "gguf.scripts.gguf_dump": "gguf_dump.py",
    "gguf.scripts.gguf_set_metadata": "gguf_set_metadata.py", "gguf.scripts.gguf_new_metadata": "gguf_new_metadata.py",
    "vllm.entrypoints.openai.api_server": "vllm", "mlx_lm.server": "mlx_lm.server", "mlx_lm": "mlx_lm",
    "huggingface_hub.commands.huggingface_cli": "huggingface-cli", "sglang.launch_server": "sglang", "pip": "pip",
}  # fmt: skip
"""Modules that ``python -m`` starts."""


@dataclass(slots=True)
class Start:
    """The beginning of a command.

    Attributes:
        environment, prefix: variables, and what starts the program.
        given: the program's words as they were given; ``python -m x`` is three.
        name: what the program is called today.
        words: what stands behind it.
        image: it runs in an image of llama.cpp; ``prefix`` ends with that then.
    """

    environment: list[str] = field(default_factory=list)
    prefix: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    name: str = ""
    words: list[str] = field(default_factory=list)
    image: bool = False


@cache
def others() -> Any:
    """The table of what stands beside llama.cpp's programs."""
    return load("other_programs.json")


def start(words: tuple[str, ...]) -> Start:
    """What a command starts with."""
    rest = list(words)
    s = Start()
    _wrapped(s, rest)
    if not rest:
        return s
    if _container(s, rest):
        return s
    given = rest.pop(0)
    s.given, s.name = [given], base(given)
    if given.startswith("-"):
        s.given, s.name, rest = [], "", [given, *rest]
    elif re.fullmatch(r"python[\d.]*w?|py", s.name):
        _python(s, rest)
    elif s.name in ("llama", "llama-app") and rest and (of := tools.of_app(rest[0])):
        s.given.append(rest.pop(0))
        s.name = of
    else:
        s.name = notes()["programs"].get(s.name, s.name)
    s.words = rest
    return s


def base(given: str) -> str:
    """The name of a program, without its folder and without .exe."""
    bare = str(given).strip("\"'") if isinstance(given, Expands) else given
    name = re.split(r"[\\/]", bare)[-1]
    return name[:-4] if name.lower().endswith(".exe") else name


def _wrapped(s: Start, rest: list[str]) -> None:
    prefixes = others()["prefixes"]
    while rest:
        if assignment(rest[0]):
            (s.prefix if s.prefix else s.environment).append(rest.pop(0))
            continue
        if base(rest[0]).lower() == "start" and len(rest) > 1:
            _apart(s, rest)
            continue
        known = prefixes.get(base(rest[0]))
        if known is None or len(rest) == 1:
            return
        s.prefix.append(rest.pop(0))
        takes = known["takes"].split()
        while rest and rest[0].startswith("-") and rest[0] != "-":
            if rest[0] == "-c" and s.prefix[-1] == "taskset":
                s.prefix.append(rest.pop(0))
                break
            s.prefix.append(rest.pop(0))
            if s.prefix[-1] in takes and rest:
                s.prefix.append(rest.pop(0))
        for _ in range(min(known["words"], len(rest))):
            s.prefix.append(rest.pop(0))


def _apart(s: Start, rest: list[str]) -> None:
    """``start "title" /b PROGRAM``: cmd.exe's way to go on without waiting."""
    s.prefix.append(rest.pop(0))
    if rest and (not rest[0] or " " in rest[0]) and not rest[0].lower().endswith(".exe"):
        s.prefix.append(rest.pop(0))
    while len(rest) > 1 and rest[0].startswith("/"):
        s.prefix.append(rest.pop(0))
        if s.prefix[-1].lower() == "/d":
            s.prefix.append(rest.pop(0))


def _container(s: Start, rest: list[str]) -> bool:
    """``docker run … IMAGE …`` with an image of llama.cpp."""
    if base(rest[0]) not in ("docker", "podman", "nerdctl") or rest[1:2] != ["run"]:
        return False
    at, entry = 2, ""
    while at < len(rest) and rest[at].startswith("-"):
        word = rest[at]
        if word.startswith("--entrypoint"):
            entry = word.partition("=")[2] or "".join(rest[at + 1 : at + 2])
        at += 1 if word in _SWITCHES or "=" in word else 2
    found = _IMAGE.fullmatch(rest[at]) if at < len(rest) else None
    if found is None:
        return False
    tag = found[1] or "full"
    head, behind = rest[: at + 1], rest[at + 1 :]
    name = (
        base(entry)
        if entry
        else "llama-server"
        if tag.startswith("server")
        else "llama-cli"
        if tag.startswith("light")
        else ""
    )
    if not name:
        name = _FULL.get(behind[0], "") if behind else ""
        if not name:
            return False
        head.append(behind.pop(0))
    s.prefix += head
    s.name, s.words, s.image = name, behind, True
    return True


def _python(s: Start, rest: list[str]) -> None:
    while rest and rest[0] in ("-u", "-O", "-B", "-I"):
        s.given.append(rest.pop(0))
    if rest[:1] == ["-m"] and len(rest) > 1:
        s.given += [rest.pop(0), rest.pop(0)]
        s.name = MODULES.get(s.given[-1], s.given[-1])
    elif rest and not rest[0].startswith("-"):
        s.given.append(rest.pop(0))
        name = base(s.given[-1])
        s.name = notes()["programs"].get(name, name)
