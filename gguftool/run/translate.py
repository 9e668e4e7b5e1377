"""Turn a command out of an article into one that the build at hand takes; say what each wrong flag was meant to be."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field

from gguftool.brief import short_repr
from gguftool.errors import GgufToolError, UsageError
from gguftool.facts.cachetypes import CACHE_TYPES
from gguftool.format.types import TENSOR_TYPES
from gguftool.model.drafting import KINDS, MTP, SIMPLE
from gguftool.quantity import is_number
from gguftool.run.args import TRACE, has_levels, spellings
from gguftool.run.capabilities import Capabilities, Option
from gguftool.run.flags import explain_flag, normal, notes, substitutes
from gguftool.run.options.extra import ours, refused_value
from gguftool.run.options.table import by_name
from gguftool.run.speculative import kind_by_name, kind_of

__all__ = ["Change", "Translation", "explain_flag", "translate"]

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL | re.ASCII)
_SERVERS = ("llama-server", "llama-cli")
_BUILDS = (
    "it builds programs, it starts none",
    "`gguftool explain --flag` tells what a build switch was meant to be",
)
_ANOTHER = {
    **dict.fromkeys(("make", "cmake", "ninja"), _BUILDS),
    **dict.fromkeys(
        ("docker", "podman"),
        ("its own options cannot be told from llama.cpp's", "give what stands behind the image, after llama-server"),
    ),
    **dict.fromkeys(
        ("gguf-set", "gguf-set-metadata", "gguf_set_metadata", "gguf-new-metadata", "gguf_new_metadata"),
        ("it changes a file", "`gguftool fix` does, with --set"),
    ),
    **dict.fromkeys(
        ("pip", "pip3", "git", "brew", "apt", "apt-get", "conda"), ("it installs something", "gguftool doctor")
    ),
    "ollama": ("it has no options of llama.cpp", "`gguftool launch` takes the addresses of its models, ollama://…"),
}
"""Programs that articles name beside llama.cpp's: why they are not translated, and the way on."""
_BUILD_SWITCHES = ("LLAMA_KV_CACHE", "LLAMA_CUBLAS", "LLAMA_CUDA", "LLAMA_METAL", "GGML_CUDA", "GGML_METAL")
"""Set before a command they do nothing: at most they are, or were, options of the build."""
COUNTED = ("--type-k", "--type-v")
"""Options of llama-cpp-python whose value is the number of a type in ggml."""
LOOKUP = "prompt-lookup-decoding"
"""What llama-cpp-python takes in the place of a draft model."""
LONGEST = 20_000


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was changed.

    Attributes:
        was: words of the command as given, "" for something added.
        became: words that took their place, "" for nothing.
        why: the reason.
    """

    was: str
    became: str
    why: str

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Translation:
    """A command as it should be.

    Attributes:
        environment: variables set before it.
        argv: program and arguments.
        changes: what differs from the command given, in order.
        notes: what is worth knowing.
    """

    environment: tuple[str, ...]
    argv: tuple[str, ...]
    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    __repr__ = short_repr


@dataclass(slots=True)
class _Work:
    build: Capabilities
    words: list[str]
    cli: bool = False
    args: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def change(self, was: str, became: str, why: str) -> None:
        self.changes.append(Change(was, became, why))


def translate(command: str, build: Capabilities, find: Callable[[str], str | None] = lambda _: None) -> Translation:
    """The command for this build.

    Args:
        command: what the article says, backslashes at line ends and all.
        build: what the llama-server at hand takes.
        find: path of a program by name, None when it is not installed.

    Raises:
        UsageError: it is no command (unbalanced quotes, empty), or one of a program that is not llama.cpp's.
    """
    words = _words(command)
    environment = []
    while words and _ASSIGNMENT.fullmatch(words[0]):
        environment.append(words.pop(0))
    if words and words[0] in ("$", "sudo", "nohup", "exec", "time"):
        words.pop(0)
    if not words:
        raise UsageError("there is no command to translate")
    w = _Work(build, words)
    for setting in [e for e in environment if e.partition("=")[0] in _BUILD_SWITCHES]:
        environment.remove(setting)
        w.change(
            setting, "", "llama.cpp reads no such variable: cache types come from -ctk and -ctv, GPUs from the build"
        )
    program = _program(w, find)
    while w.words:
        _word(w)
    _always(w)
    return Translation(tuple(environment), (program, *w.args), tuple(w.changes), tuple(w.notes))


def _words(command: str) -> list[str]:
    if len(command) > LONGEST:
        raise UsageError(f"the command is longer than {LONGEST} characters")
    joined = re.sub(r"[\\^`]\s*\n", " ", command)
    try:
        return shlex.split(joined.replace("\u2013", "--").replace("\u2014", "--"))
    except ValueError as error:
        raise UsageError(f"the command cannot be read: {str(error).lower()}", "check its quotes") from None


def _program(w: _Work, find: Callable[[str], str | None]) -> str:
    given = w.words.pop(0)
    if given.startswith("-"):
        w.words.insert(0, given)
        w.change("", "llama-server", "the program was missing")
        return find("llama-server") or "llama-server"
    base = os.path.basename(given).removesuffix(".exe")
    if base.startswith("python") and w.words:
        return _python(w, given, find)
    if base in _ANOTHER:
        why, way = _ANOTHER[base]
        raise UsageError(f"{base} is no program of llama.cpp: {why}", way)
    name = notes()["programs"].get(base, base)
    if name != base:
        w.change(given, name, "renamed in 2024: the programs carry the prefix llama-")
    if name == "llama-cli" and find("llama-cli") is None:
        w.change(name, "llama-server", "it is the program at hand; it takes the same options for model and context")
        name = "llama-server"
    w.cli = name == "llama-cli"
    if name not in _SERVERS:
        w.notes.append(f"{name} has options of its own; they are checked against those of llama-server")
    return find(name) or name


def _python(w: _Work, given: str, find: Callable[[str], str | None]) -> str:
    """``python -m llama_cpp.server``, ``python convert.py``."""
    if w.words[0] == "-m" and len(w.words) > 1:
        w.words.pop(0)
    script = w.words.pop(0)
    if "convert" in script:
        raise UsageError(
            f"{script} converts a model; llama.cpp has no convert.py any more, and a KV cache type cannot be baked in",
            "`gguftool convert` does",
        )
    w.change(f"{given} {script}", "llama-server", "llama.cpp's own server does the same")
    return find("llama-server") or "llama-server"


def _word(w: _Work) -> None:
    word = w.words.pop(0)
    if not word.startswith("-") or is_number(word):
        w.change(word, "", "stands alone: llama.cpp takes no arguments without an option")
        return
    if word.startswith("--") and "=" in word:
        name, _, value = word.partition("=")
        w.words.insert(0, value)
        w.change(word, f"{name} {value}", "llama.cpp takes no --option=value: the value is a word of its own")
        word = name
    name = normal(word)
    option = w.build.by_name.get(name)
    if name in notes()["cli_only"] and option is None:
        value = w.words.pop(0) if name in notes()["cli_only_takes"] and w.words else ""
        if w.cli:
            w.args += [word, value] if value else [word]
            return
        w.change(f"{word} {value}".strip(), "", "only for llama-cli: a server gets its prompts over HTTP")
        return
    if option is None or option.removed or (option.deprecated and name in substitutes()):
        _wrong(w, word, name)
        return
    _right(w, word, option)


def _right(w: _Work, word: str, option: Option) -> None:
    if not option.value:
        w.args.append(word)
        return
    if option.names[0] == "-fa" and (not w.words or w.words[0].startswith("-")):
        w.args += [word, "on"]
        w.change(word, f"{word} on", "the option takes a value now: on, off or auto")
        return
    if not w.words:
        w.change(word, "", "takes a value, and none was given")
        return
    value = w.words.pop(0)
    if value == LOOKUP and set(option.names) & set(spellings("draft")):
        kind = w.build.spelling(spellings("spec_type")) or "--spec-type"
        w.args += [kind, "ngram-simple"]
        w.change(f"{word} {value}", f"{kind} ngram-simple", "no model drafts there, but the text that has been")
        return
    if option.names[0] in ("-ctk", "-ctv"):
        value = _type(w, word, value)
    else:
        why, meant = refused_value(word, value, option)
        if why:
            w.change(f"{word} {value}", f"{word} {meant}" if meant else "", why)
            value = meant
    if value:
        w.args += [word, value]


def _type(w: _Work, word: str, value: str) -> str:
    lower = value.lower()
    right = lower if lower in CACHE_TYPES else notes()["types"].get(lower)
    if right is None:
        w.change(f"{word} {value}", f"{word} q8_0", f"{value} is no cache type; q8_0 is the usual one")
        return "q8_0"
    if right != value:
        w.change(f"{word} {value}", f"{word} {right}", f"{value} is no cache type of llama.cpp; {right} comes closest")
    return right


def _wrong(w: _Work, word: str, name: str) -> None:
    found = substitutes().get(name)
    follows = bool(w.words) and (not w.words[0].startswith("-") or is_number(w.words[0]))
    spelled = ours(name)
    if found is None and spelled is not None and (now := w.build.spelling(spelled.option.names)):
        # A name llama.cpp once had, or that people give it.
        w.words[:0] = [now]
        w.change(word, now, f"the option is {now}")
        return
    if found is None:
        near = w.build.nearest(name)
        value = w.words.pop(0) if follows else ""
        guess = f"; the nearest is {near[0]}" if near else ""
        w.change(f"{word} {value}".strip(), "", f"llama.cpp has no such option{guess}")
        return
    value = w.words.pop(0) if found.takes and follows else ""
    if not found.takes and follows and w.words[0].lower() in ("true", "false", "on", "off", "1", "0"):
        w.words.pop(0)
    if found.becomes is None:
        w.change(f"{word} {value}".strip(), "", found.why)
        return
    words = found.becomes.replace("{value}", _of_ggml(value) if name in COUNTED else value).split()
    if words[0] in ("-ctk", "-ctv") and value:
        words = _typed(words)
    became = _spelled(w, words)
    if missing := next((x for x in became if x.startswith("-") and not is_number(x) and not w.build.takes(x)), None):
        w.change(f"{word} {value}".strip(), "", f"{found.why} This build has no {missing}.")
        return
    if became[0] in spellings("load_mode") and became[0] in w.args:
        # Two old switches that now are values of one option: the last one counts.
        at = w.args.index(became[0])
        del w.args[at : at + 2]
    w.args += became
    w.change(f"{word} {value}".strip(), " ".join(became), found.why)


def _of_ggml(value: str) -> str:
    """The name of a type that is given by its number in ggml."""
    found = next((t.name.lower() for t in TENSOR_TYPES.values() if str(t.id) == value), value)
    return found if found in CACHE_TYPES else value


def _typed(words: list[str]) -> list[str]:
    """Names of types that other programs use, as llama.cpp's."""
    known: dict[str, str] = notes()["types"]
    return [x if x.startswith("-") or x.lower() in CACHE_TYPES else known.get(x.lower(), "q8_0") for x in words]


def _spelled(w: _Work, words: list[str]) -> list[str]:
    """The substitute in a spelling of this build; options that old builds lack are left as we know them."""
    out = []
    for word in words:
        found = by_name().get(word)
        names = next((n for n in (found.option.names, *found.option.sides) if word in n), None) if found else None
        out.append((w.build.spelling(names) if names else None) or word)
    return out


def _always(w: _Work) -> None:
    """What a good command says, and what the given one leaves to chance."""
    given = set(w.args)
    if not given & {"-m", "--model", "-hf", "-hfr", "--hf-repo", "-mu", "--model-url"}:
        w.notes.append("it names no model: add -m MODEL")
    if not given & set(spellings("parallel")) and (name := w.build.spelling(spellings("parallel"))):
        w.args += [name, "1"]
        w.change("", f"{name} 1", "without it llama-server opens 4 slots; one keeps the whole context to itself")
    _drafts(w)
    verbosity = w.build.spelling(spellings("verbosity"))
    if verbosity and has_levels(w.build, verbosity) and not given & set(spellings("verbosity")):
        w.args += [verbosity, str(TRACE)]
        w.change("", f"{verbosity} {TRACE}", "for a log with sizes and cache types, which `gguftool check-log` reads")
    _notes(w, given)


def _drafts(w: _Work) -> None:
    """Something that drafts is named, and nothing says how; or the other way round."""
    name = w.build.spelling(spellings("spec_type"))
    if name is None:
        return
    draft = _value(w, *spellings("draft"), *_FROM_THE_HUB)
    kinds = (_value(w, *spellings("spec_type")) or "").split(",")
    if draft is not None and kinds == [""] and "--spec-default" not in w.args:
        kind, made = _kind(draft)
        w.args += [name, kind]
        made = f"{made}; " if made else ""
        w.change("", f"{name} {kind}", f"{made}without it llama.cpp loads the draft model and never uses it")
    elif draft is not None and not set(kinds) & set(KINDS):
        w.notes.append(f"llama.cpp loads the draft model and never uses it: {name} must name {_kind(draft)[0]}, too")
    most = _value(w, *spellings("draft_max"))
    if most is not None and kinds != [""] and not set(kinds) & set(KINDS):
        sizes = [f"--spec-{k}-{'n-max' if k == 'ngram-mod' else 'size-m'} {most}" for k in kinds if k in _SIZED]
        w.notes.append(f"--spec-draft-n-max counts for drafts alone; here it is {' '.join(sizes) or 'nothing'}")
    if draft is None and (alone := [k for k in kinds if k in KINDS and k != MTP]):
        w.notes.append(f"{name} {alone[0]} drafts nothing without a draft model: add -md FILE")


_SIZED = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod")
_FROM_THE_HUB = ("--spec-draft-hf", "-hfd", "-hfrd", "--hf-repo-draft")


def _kind(draft: str) -> tuple[str, str]:
    """The kind that a draft needs, and how it is known: by what is in the file, else by its name."""
    if os.path.isfile(draft):
        try:
            return kind_of(draft), "the file says so"
        except GgufToolError:
            return SIMPLE, ""
    named = kind_by_name(draft)
    return (named, "its name says so") if named else (SIMPLE, "")


def _notes(w: _Work, given: set[str]) -> None:
    if "--rope-scale" in given and "yarn" not in given:
        w.notes.append(
            "--rope-scale alone scales linearly and does not raise the limit of a slot, which stays the file's context "
            "length: use --rope-scaling yarn, or raise the length with `gguftool fix --ctx`"
        )
    v = _value(w, "-ctv", "--cache-type-v")
    if v and CACHE_TYPES[v].quantized and _value(w, "-fa", "--flash-attn") == "off":
        w.notes.append("a quantised V cache needs flash attention: llama.cpp refuses it with -fa off")
    k = _value(w, "-ctk", "--cache-type-k")
    if k and CACHE_TYPES[k].quantized and v is None:
        w.notes.append("only K is quantised; -ctv says the type of V, and both equal is the fast choice on a GPU")


def _value(w: _Work, *names: str) -> str | None:
    return next((w.args[i + 1] for i, a in enumerate(w.args[:-1]) if a in names), None)
