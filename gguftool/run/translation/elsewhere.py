"""Commands of other programs: what gguftool has for the same, or why they are not translated and what helps."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from gguftool.build.ftypes import OUTTYPES
from gguftool.regex import regex
from gguftool.run import tools
from gguftool.run.explained import explain_flag
from gguftool.run.translation.result import Answer
from gguftool.run.translation.starts import Start, others
from gguftool.shell import Expands, blank, path_word, shell

_GREP = regex(r"[\w.-]+", re.ASCII)
_REPO = regex(r"[\w.-]+/[\w.-]+", re.ASCII)
_OF_HASHES = ("dgst", "-hashfile", "sha256", "sha512", "md5", "-algorithm", "-a", "1", "256", "512")
LARGEST = 1 << 20
"""Bytes of a Modelfile that are looked at."""
_DOCTOR = ("gguftool", "doctor")
Filters = Iterable[tuple[str, ...]]


def answer(s: Start, filters: Filters = ()) -> Answer | None:
    """What to do in place of a command; None when nothing is known of its program.

    Args:
        s: the command.
        filters: the words of the commands behind it in its pipe.
    """
    made = _WAYS.get(s.name.lower())
    if made is not None:
        return made(s, filters)
    if s.name == "watch" and (rest := [x for x in s.words if x in _WAYS]):
        return _WAYS[rest[0]](s, filters)
    why, way = next(((r["why"], r["way"]) for r in others()["programs"] if s.name in r["names"].split()), ("", ""))
    if s.name in ("make", "gmake", "cmake"):
        way = "; ".join(x for x in (_switches(s.words), way) if x)
    return Answer(s.name, _given(s), (), why, way, lost=True) if why else None


def _switches(words: list[str]) -> str:
    """What the old switches of a build are today."""
    found = {word: explain_flag(word) for word in words}
    return "; ".join(
        f"{word}: {a.why}" + (f" Write {a.becomes}" if a.becomes else "")
        for word, a in found.items()
        if a.kind == "switch" and not a.exists
    )


def _given(s: Start) -> str:
    return shell((*s.given, *s.words))


def _models(words: Iterable[str]) -> list[str]:
    """Words that name files, those of a glob too."""
    return [w for w in words if not w.startswith("-")]


def _path(word: str) -> str:
    return word if isinstance(word, Expands) else path_word(word)


def _dump(s: Start, filters: Filters) -> Answer:
    argv = ["gguftool", "dump"]
    for words in filters:
        if words and words[0] in ("grep", "egrep", "rg", "findstr", "Select-String"):
            pattern = next((w for w in words[1:] if not w.startswith(("-", "/"))), "")
            parts = pattern.replace(".*", "*").replace("\\", "").split("|")
            for part in parts:
                argv += ["--keys", f"*{part}*"] if _GREP.fullmatch(part.replace("*", "")) else []
    if "--keys" in argv or "--no-tensors" in s.words:
        argv.append("--no-tensors")
    if {"--json", "--json-array"} & set(s.words):
        argv += ["--format", "json"]
    return _about(s, argv, "`gguftool dump` shows keys and tensors")


def _about(s: Start, argv: list[str], why: str, way: str = "") -> Answer:
    """The command for the first model among the words; a refusal that names it where there is none."""
    models = _models(s.words)
    if not models:
        return Answer(s.name, _given(s), (), why, way or f"name a model: {shell([*argv, blank()])}", lost=True)
    return Answer(s.name, _given(s), (*argv, *map(_path, models[:1])), why, way)


def _overview(s: Start, filters: Filters) -> Answer:
    return _about(s, ["gguftool", "dump", "--overview"], "the first screen of `gguftool dump` says what a file is")


def _hash(s: Start, filters: Filters) -> Answer:
    words = [w for w in s.words if w.lower() not in _OF_HASHES]
    if {"-c", "--check"} & set(s.words):
        listed = _models(words)
        way = shell(["gguftool", "verify", blank(), "--sums", *(listed[:1] or [blank()])])
        return Answer(s.name, _given(s), (), "`gguftool verify` compares a model with a list of hashes", way, lost=True)
    models = _models(words)
    why = "`gguftool hash` prints the sha256, in the form of sha256sum"
    if not models:
        return Answer(s.name, _given(s), (), why, f"name a model: {shell(['gguftool', 'hash', blank()])}", lost=True)
    return Answer(s.name, _given(s), ("gguftool", "hash", *map(_path, models)), why)


def _machine(s: Start, filters: Filters) -> Answer:
    if "--gpu-reset" in s.words or "-r" in s.words:
        why = "a reset of the card ends every program on it: memory is free as soon as the program that holds it ends"
        return Answer(s.name, _given(s), _DOCTOR, why, "`gguftool doctor` names the programs that hold it", lost=True)
    watch = "`gguftool launch MODEL --watch` follows the memory of a server that runs"
    return Answer(s.name, _given(s), _DOCTOR, "`gguftool doctor` shows memory, devices and what holds them", watch)


def _set(s: Start, filters: Filters) -> Answer:
    words = _models(s.words)
    why = "`gguftool fix` sets keys in place, and can be undone"
    if len(words) != 3:
        way = shell(["gguftool", "fix", blank(), "--set", blank("KEY=")])
        return Answer(s.name, _given(s), (), why, way, lost=True)
    model, key, value = words
    return Answer(s.name, _given(s), ("gguftool", "fix", _path(model), "--set", _joined(key, value)), why)


def _joined(key: str, value: str) -> str:
    return Expands(f"{key}={value}") if isinstance(value, Expands) else f"{key}={value}"


_NEW = {
    "--general-name": ("--set", "general.name="), "--general-description": ("--set", "general.description="),
    "--pre-tokenizer": ("--set", "tokenizer.ggml.pre="), "--chat-template-config": ("--chat-template", ""),
    "--chat-template-file": ("--chat-template", ""), "--remove-metadata": ("--delete", ""),
}  # fmt: skip


def _new(s: Start, filters: Filters) -> Answer:
    words, files, argv, lost = list(s.words), list[str](), list[str](), False
    while words:
        word = words.pop(0)
        if word in _NEW and words:
            option, before = _NEW[word]
            argv += [option, _joined(before[:-1], words.pop(0)) if before else words.pop(0)]
        elif word in ("--special-token", "--special-token-by-id") and len(words) > 1:
            argv += ["--special", f"{words.pop(0)}={words.pop(0)}"]
        elif word.startswith("-"):
            lost |= word not in ("--force", "--verbose")
        else:
            files.append(word)
    why = "`gguftool fix --output` writes a changed copy; without --output it edits in place"
    if len(files) != 2:
        return Answer(s.name, _given(s), (), why, shell(["gguftool", "fix", blank(), "--output", blank()]), lost=True)
    return Answer(
        s.name, _given(s), ("gguftool", "fix", _path(files[0]), *argv, "--output", _path(files[1])), why, lost=lost
    )


_CONVERT = {"--outfile": "-o", "--outtype": "--outtype"}


def _convert(s: Start, filters: Filters) -> Answer:
    """`convert_hf_to_gguf.py`; what gguftool has no option for is handed on."""
    known = tools.programs()["convert_hf_to_gguf.py"].by_name
    words, argv, folder, lost = list(s.words), list[str](), "", False
    while words:
        word, equals, inline = words.pop(0).partition("=")
        if not word.startswith("-"):
            folder = folder or word + equals + inline
            continue
        option = known.get(word)
        value = inline if equals else words.pop(0) if option and option.value and words else ""
        if option is None or (word == "--outtype" and value.lower() not in OUTTYPES):
            lost = True
        elif word in _CONVERT:
            argv += [_CONVERT[word], value]
        elif word == "--dry-run":
            argv.append(word)
        elif word not in ("--verbose", "--use-temp-file", "--no-lazy"):
            argv += [x for part in (word, value) if part for x in ("--converter-arg", part)]
    why = "`gguftool convert` drives llama.cpp's converter, and checks and mends what comes out"
    if lost:
        why += (
            "; what the converter never had is left out: it writes no K-quants (`gguftool quantize` does), and a cache "
            "type cannot be baked in"
        )
    if not folder:
        return Answer(s.name, _given(s), (), why, shell(["gguftool", "convert", blank()]), lost=True)
    return Answer(s.name, _given(s), ("gguftool", "convert", _path(folder), *argv), why, lost=lost)


def _hub(s: Start, filters: Filters) -> Answer:
    """``hf download REPO FILE``."""
    words = [w for w in s.words if not w.startswith("-")]
    names = [w for w in words if w != "download"]
    why = "models on the Hub are read in place, by their address"
    if "download" not in words or not names or not _REPO.fullmatch(names[0]):
        return Answer(
            s.name,
            _given(s),
            (),
            "it speaks to the Hub",
            "an address hf://OWNER/REPO/FILE names a model in every command",
            lost=True,
        )
    at = s.words.index(names[0])
    file = s.words[at + 1] if len(s.words) > at + 1 and s.words[at + 1].endswith(".gguf") else ""
    address = "/".join(["hf:/", names[0], *([file] if file else [])])
    command = ("gguftool", "dump", "--overview", address) if file else ("gguftool", "scan", address)
    return Answer(
        s.name,
        _given(s),
        command,
        why,
        f"what is to lie here is fetched by that command itself; its address is {address}",
        lost=True,
    )


_OLLAMA = {
    "OLLAMA_KV_CACHE_TYPE": "--cache-type", "OLLAMA_CONTEXT_LENGTH": "--ctx", "OLLAMA_NUM_PARALLEL": "--parallel",
}  # fmt: skip


def _ollama(s: Start, filters: Filters) -> Answer:
    verb = s.words[0] if s.words else ""
    name = next(iter(_models(s.words[1:])), "")
    address = f"ollama://{name}"
    if verb == "run" and name:
        said = dict(e.split("=", 1) for e in s.environment)
        argv = [x for k, option in _OLLAMA.items() if k in said for x in (option, said[k])]
        left = sorted(k for k in said if k.startswith("OLLAMA_") and k not in _OLLAMA)
        way = f"not carried: {', '.join(left)}; `gguftool explain --flag=NAME` tells what says it here" if left else ""
        why = "`gguftool launch` serves a model of its store"
        return Answer(s.name, _given(s), ("gguftool", "launch", address, *argv), why, way, lost=bool(left))
    if verb == "show" and name:
        return Answer(
            s.name, _given(s), ("gguftool", "dump", "--overview", address), "`gguftool dump` shows a model of its store"
        )
    if verb in ("list", "ls", "ps"):
        return Answer(s.name, _given(s), _DOCTOR, "`gguftool doctor` shows its store and what runs")
    if verb == "create" and name:
        return _create(s, name)
    way = (
        "`gguftool launch` takes the addresses of its models, ollama://…; `gguftool explain --flag=num_ctx` tells what "
        "its parameters are here"
    )
    return Answer(s.name, _given(s), (), "it has no options of llama.cpp", way, lost=True)


def _create(s: Start, name: str) -> Answer:
    """A Modelfile is read where it is here: what its FROM names can be made one again, checked."""
    at = next((i for i, word in enumerate(s.words[:-1]) if word in ("-f", "--file")), None)
    path = s.words[at + 1] if at is not None else "Modelfile"
    model = _from(path) or "MODEL.gguf"
    there = "" if model != "MODEL.gguf" else "; name the model"
    return Answer(
        s.name, _given(s), ("gguftool", "launch", path_word(model), "--emit", "ollama"),
        f"`gguftool launch --emit ollama` writes a Modelfile of a checked model, with the `ollama create` line{there}",
        f"save it as Modelfile, then: ollama create {shell((name,))} -f Modelfile", lost=model == "MODEL.gguf",
    )  # fmt: skip


def _from(path: str) -> str:
    """The file that a Modelfile is made of; "" when it is not here, or of Ollama's own store."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line.split(None, 1) for line in file.read(LARGEST).splitlines()]
    except OSError:
        return ""
    named = next((x[1].strip().strip('"') for x in lines if len(x) == 2 and x[0].upper() == "FROM"), "")
    return os.path.join(os.path.dirname(path), named) if named.lower().endswith(".gguf") else ""


_WAYS: dict[str, Callable[[Start, Filters], Answer]] = {
    "gguf_dump.py": _dump,
    **dict.fromkeys("sha256sum sha1sum sha512sum md5sum shasum b3sum openssl certutil get-filehash".split(), _hash),
    **dict.fromkeys("file xxd hexdump od strings head tail less more stat ls dir du wc".split(), _overview),
    **dict.fromkeys(
        "nvidia-smi nvtop nvitop gpustat rocm-smi amd-smi rocminfo radeontop free vmstat lscpu lspci vulkaninfo clinfo "
        "df uname nproc nvcc sycl-ls intel_gpu_top system_profiler".split(),
        _machine,
    ),
    "gguf_set_metadata.py": _set,
    "gguf_new_metadata.py": _new,
    "convert_hf_to_gguf.py": _convert,
    "huggingface-cli": _hub,
    "hf": _hub,
    "ollama": _ollama,
}  # fmt: skip
