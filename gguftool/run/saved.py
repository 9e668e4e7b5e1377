"""Commands of llama-server that stand in files: units of systemd, Compose and Kubernetes, llama-swap, scripts.

Only what starts llama-server counts; of ``gguftool launch`` only what stands behind ``--``: it spells the rest
itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gguftool.brief import short_repr
from gguftool.errors import MissingFile, Unreadable, UsageError
from gguftool.programs import SERVER
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.run.translation.starts import start
from gguftool.run.translation.windows import read
from gguftool.run.translation.words import LONGEST

MOST = 1 << 20
"""Bytes of a file; a longer one is no file of commands."""
_UNIT = regex(r"^\s*Exec(?:Start|StartPre|Reload)\s*=\s*[-@:+!|]*\s*(?P<words>(?:[^\n]*\\\n)*[^\n]*)", re.M)
_WORDS = ("args", "command", "entrypoint")
"""Keys of a container whose words are run, the last first."""
_MACRO = regex(r"\$\{([\w.-]+)\}")


@dataclass(frozen=True, slots=True)
class Saved:
    """One command that a file holds.

    Attributes:
        where: its place in the file, for people: ``ExecStart``, ``services.llama.command``, ``command 2``.
        words: the arguments of llama-server.
    """

    where: str
    words: tuple[str, ...]

    __repr__ = short_repr


def saved(path: str) -> tuple[Saved, ...]:
    """The commands of llama-server in a file.

    Raises:
        MissingFile, Unreadable: there is no such file, or it cannot be read.
        UsageError: no command of llama-server stands in it.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MOST + 1)
    except FileNotFoundError:
        raise MissingFile(f"{path}: no such file") from None
    except OSError as error:
        raise Unreadable(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > MOST or b"\0" in data:
        raise UsageError(f"{path}: no file of commands", "name a unit, a compose file, a llama-swap.yaml or a script")
    found = tuple(of_text(data.decode("utf-8", "replace"), path))
    if not found:
        raise UsageError(f"{path}: no command of llama-server stands in it")
    return found


def of_text(text: str, path: str = "") -> Iterator[Saved]:
    """The commands in the text of such a file; ``path`` says by its end what it is."""
    if re.search(r"^\s*\[(?:Service|Container)\]", text, re.M):
        for match in _UNIT.finditer(text):
            yield from _spoken(match.group("words").replace("\\\n", " "), "ExecStart")
    elif path.lower().endswith((".yaml", ".yml", ".json")) or re.search(
        r"^(?:services|models|apiVersion):", text, re.M
    ):
        for document in _documents(text, path):
            yield from _inside(document, (), _macros(document))
    else:
        yield from _spoken(text, "command")


def _documents(text: str, path: str) -> list[Any]:
    import yaml

    try:
        return list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError) as error:
        said = str(error).partition("\n")[0]
        raise UsageError(f"{path}: cannot be read as YAML: {said}") from None


def _macros(document: Any) -> Mapping[str, str]:
    """What llama-swap puts in the place of a name."""
    found = document.get("macros") if isinstance(document, Mapping) else None
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, Mapping) else {}


def _inside(node: Any, at: tuple[str, ...], macros: Mapping[str, str]) -> Iterator[Saved]:
    """Mappings that start a program: a service, a container, a model of llama-swap."""
    if isinstance(node, list):
        for i, one in enumerate(node):
            named = one.get("name") if isinstance(one, Mapping) else None
            yield from _inside(one, (*at, str(named or i)), macros)
    if not isinstance(node, Mapping):
        return
    if isinstance(node.get("cmd"), str):
        text = node["cmd"]
        for _ in range(len(macros)):
            if len(text) < LONGEST:
                text = _MACRO.sub(lambda m: macros.get(m[1], m[0]), text)
        yield from _spoken(text, ".".join((*at, "cmd")))
    elif words := _listed(node):
        yield from _words(words, ".".join((*at, next(key for key in _WORDS if key in node))))
    for key, value in node.items():
        if isinstance(value, (Mapping, list)) and key not in _WORDS:
            yield from _inside(value, (*at, str(key)), macros)


def _listed(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Entry point, command and arguments of a container, in the order in which they are run."""
    out: list[str] = []
    for key in reversed(_WORDS):
        value = node.get(key)
        if isinstance(value, list) and all(isinstance(x, (str, int, float)) for x in value):
            out += [str(x).replace("$$", "$") for x in value]
        elif isinstance(value, str):
            try:
                commands = read(value.replace("$$", "$")).commands
            except UsageError:
                continue
            out += [w for c in commands[:1] for w in c.words]
    return tuple(out)


def _spoken(text: str, where: str) -> Iterator[Saved]:
    """Commands in words of a shell."""
    try:
        commands = read(text).commands
    except UsageError:
        return
    for i, c in enumerate(commands):
        yield from _words(c.words, where if len(commands) == 1 else f"{where} {i + 1}")


def _words(words: tuple[str, ...], where: str) -> Iterator[Saved]:
    """The arguments, where this starts llama-server."""
    if words[:2] in (("sh", "-c"), ("bash", "-c"), ("/bin/sh", "-c"), ("/bin/bash", "-c")) and len(words) > 2:
        yield from _spoken(words[2], where)
        return
    s = start(words)
    if s.name == SERVER:
        yield Saved(where, tuple(s.words))
    elif s.name == "gguftool" and "launch" in s.words[:1]:
        yield Saved(where, tuple(s.words[s.words.index("--") + 1 :]) if "--" in s.words else ())
    elif not s.name and {w.partition("=")[0] for w in words} & {"-m", "--model", "-hf", "--hf-repo"}:
        # Of a container whose image starts the program.
        yield Saved(where, words)
