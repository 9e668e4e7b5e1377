"""Commands in the card of a repository, held against the options of their programs and the files that are there."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence

from gguftool.errors import UsageError
from gguftool.lint.publishing import CardCommand
from gguftool.model.role import sidecar_by_name
from gguftool.model.shards import NAME
from gguftool.near import near_names
from gguftool.quantity import is_number
from gguftool.regex import regex
from gguftool.run import tools
from gguftool.run.capabilities import Capabilities
from gguftool.run.flags import normal
from gguftool.run.translation.starts import Start, start
from gguftool.run.translation.windows import read
from gguftool.shell import shell

MOST = 200
"""Commands of a card that are looked at."""
_FENCE = regex(r"(?P<mark>```+|~~~+)[ \t]*(?P<kind>[\w+-]*)")
_TEXTS = 500
"""Pieces of code that are looked at."""
_OURS = regex(r"llama|\bhf |huggingface-cli|\bmain\b|\bserver\b|quantize|gguf")
"""What stands in any command that is judged."""
_INLINE = regex(r"(?<!`)`([^`\n]{4,2000})`(?!`)")
_SHELLS = frozenset({"", "sh", "bash", "shell", "console", "zsh", "text", "txt", "cmd", "powershell", "shellsession"})
_BLANK = regex(r"[<>{}…]|\.\.\.|YOUR|path/to|PATH|\$|\*")
"""What a reader of the card has to put a value for."""
_HUB = regex(r"(?:https?://)?(?:hf\.co|huggingface\.co)/([\w.-]+/[\w.-]+)(?::(\S+))?")
_MODEL = frozenset({"-m", "--model"})
_FILES = _MODEL | {"-mm", "--mmproj", "-hff", "--hf-file", "-md", "--model-draft", "--spec-draft-model"}
_REPO = frozenset({"-hf", "-hfr", "--hf-repo"})
_FETCHERS = frozenset({"hf", "huggingface-cli", "ollama"})


def judged(body: str, repo: str, files: Sequence[str]) -> tuple[CardCommand, ...]:
    """The commands in the text of a card, each with what is wrong with it.

    Args:
        body: the card without its metadata.
        repo: ``owner/name`` that it is the card of; "" when that is not known.
        files: names of the model files in the repository.
    """
    found: dict[str, str] = {}
    for words in _commands(body):
        line = shell(words)
        if line not in found and len(found) < MOST:
            s = start(words)
            if s.name in tools.programs():
                found[line] = _of_llama_cpp(s, repo, files)
            elif s.name in _FETCHERS:
                found[line] = _fetches(s, repo, files)
    return tuple(CardCommand(line, fault) for line, fault in found.items())


def taken(files: Sequence[str], tag: str) -> str:
    """The file that ``-hf REPO:TAG`` takes; "" for none.

    Source: `common/download.cpp:find_best_model` (b11434): the first whose name has the tag with a dot or a dash
    behind it; without a tag Q4_K_M, Q8_0, then the first model.
    """
    models = [f for f in sorted(files) if f.endswith(".gguf") and not sidecar_by_name(f) and _is_first(f)]
    for wanted in [tag] if tag else ["Q4_K_M", "Q8_0"]:
        for name in models:
            if re.search(re.escape(wanted) + "[.-]", name, re.I):
                return name
    return models[0] if models and not tag else ""


def _is_first(name: str) -> bool:
    shard = NAME.match(name)
    return shard is None or int(shard["no"]) == 1


def _commands(body: str) -> Iterator[tuple[str, ...]]:
    blocks, prose = _blocks(body)
    texts = [text for text in (*blocks, *_INLINE.findall(prose)) if _OURS.search(text)][:_TEXTS]
    for text in texts:
        try:
            commands = read(text).commands
        except UsageError:
            continue  # no shell's
        for command in commands:
            words = command.words[1:] if command.words[:1] in (("$",), (">",), ("#",)) else command.words
            if words:
                yield words


def _blocks(body: str) -> tuple[list[str], str]:
    """The blocks of a shell in Markdown, and what stands outside of any block."""
    blocks, prose, block, mark, kind = list[str](), list[str](), list[str](), "", ""
    for line in body.splitlines():
        if mark:
            if line.strip() == mark:
                blocks += ["\n".join(block)] if kind in _SHELLS else []
                block, mark = [], ""
            else:
                block.append(line)
        elif fence := _FENCE.match(line.lstrip()):
            mark, kind = fence["mark"], fence["kind"].lower()
        else:
            prose.append(line)
    return blocks, "\n".join(prose)


def _of_llama_cpp(s: Start, repo: str, files: Sequence[str]) -> str:
    caps = tools.programs()[s.name]
    words = list(s.words)
    while words:
        given = words.pop(0)
        if not given.startswith("-") or is_number(given) or given == "-" or _BLANK.search(given):
            continue
        name = normal(given.partition("=")[0])
        option = caps.by_name.get(name)
        if option is None or option.removed:
            return _unknown(s.name, given, caps)
        if not option.value:
            continue
        if not words:
            return f"{given} takes a value"
        value = words.pop(0)
        if _BLANK.search(value):
            continue
        why = tools.refused(name, value)[0]
        if not why and name in _REPO:
            why = _address(value, repo, files)
        if not why and name in _FILES:
            why = _file(value, files)
        if why:
            return why
    return ""


def _unknown(program: str, given: str, caps: Capabilities) -> str:
    option = caps.by_name.get(normal(given.partition("=")[0]))
    if option is not None:
        return f"{program} has no {given} any more"
    near = caps.nearest(given)
    return f"{program} has no option {given}" + (f"; near: {near[0]}" if near else "")


def _address(value: str, repo: str, files: Sequence[str]) -> str:
    name, _, tag = value.partition(":")
    if repo and "/" in name and name.lower() != repo.lower():
        return f"it names {name}, this is {repo}"
    if taken(files, tag):
        return ""
    near = near_names(tag, [label for f in files for label in re.findall(r"[A-Z0-9_]{4,}", f)], 1, 0.6)
    return f"no file here has {tag} in its name" + (f"; near: {near[0]}" if near else "")


def _file(value: str, files: Sequence[str]) -> str:
    name = re.split(r"[\\/]", value)[-1]
    here = {f.rpartition("/")[2] for f in files}
    return "" if not name.endswith(".gguf") or name in here else f"there is no {name} here"


def _fetches(s: Start, repo: str, files: Sequence[str]) -> str:
    if s.name == "ollama":
        found = next((m for w in s.words if (m := _HUB.fullmatch(w))), None)
        return _address(f"{found[1]}:{found[2] or ''}".rstrip(":"), repo, files) if found else ""
    if s.words[:1] != ["download"]:
        return ""
    alone: list[str] = []
    patterns: list[str] = []
    words = s.words[1:]
    while words:
        word = words.pop(0)
        if word in ("--include", "--exclude", "--local-dir", "--revision", "--repo-type", "--token", "--cache-dir"):
            value = words.pop(0) if words else ""
            patterns += [value] if word == "--include" else []
        elif not word.startswith("-"):
            alone.append(word)
    if alone and repo and not _BLANK.search(alone[0]) and alone[0].lower() != repo.lower():
        return f"it names {alone[0]}, this is {repo}"
    for name in [*alone[1:], *patterns]:
        wild = "*" in name
        if (not wild and _BLANK.search(name)) or not name.endswith((".gguf", "*")):
            continue
        if not any(fnmatch.fnmatch(f, name) for f in files):
            return f"no file here is {name}"
    return ""
