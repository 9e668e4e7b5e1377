"""The words behind a program of llama.cpp, one option after the other: right, renamed, or out of another program."""

from __future__ import annotations

from collections.abc import Callable

from gguftool.facts.cachetypes import CACHE_TYPES
from gguftool.format.types import TENSOR_TYPES
from gguftool.quantity import is_number
from gguftool.reading import Malformed, from_json
from gguftool.regex import regex
from gguftool.run import tools
from gguftool.run.args import spellings
from gguftool.run.capabilities import Option
from gguftool.run.flags import Substitute, normal, notes, substitutes
from gguftool.run.options import kinds
from gguftool.run.options.behind import ours, refused_value
from gguftool.run.options.table import by_name
from gguftool.run.translation.result import Work
from gguftool.shell import Expands

COUNTED = ("--type-k", "--type-v")
"""Options of llama-cpp-python whose value is the number of a type in ggml."""
LOOKUP = "prompt-lookup-decoding"
"""What llama-cpp-python takes in the place of a draft model."""
CACHE = frozenset({"-ctk", "-ctv", "-ctkd", "-ctvd"})
INTERACTIVE = ("llama-cli", "llama-completion", "llama-mtmd-cli")
OF_ITSELF = frozenset(
    "-i --interactive -if --interactive-first -cnv --conversation -no-cnv --no-conversation -st --single-turn --color "
    "-co --colors --simple-io --no-display-prompt --display-prompt -ml --multiline-input --verbose-prompt "
    "--prompt-cache-all --log-disable".split()
)
"""Options of a program at a terminal: where a server is started, nothing of them is missed."""


def every(w: Work) -> None:
    """Take all words of a program whose options are those of `common/arg.cpp`."""
    while w.words:
        word(w)


def word(w: Work) -> None:
    """Take one option with its value."""
    given = w.words.pop(0)
    if not given.startswith("-") or is_number(given):
        if isinstance(given, Expands) and given.startswith("$"):
            w.args.append(given)
            w.notes.append(f"{given} is left as it is: what a shell puts there was not checked")
            return
        w.change(given, "", "stands alone: llama.cpp takes no arguments without an option", lost=True)
        return
    if given.startswith("--") and "=" in given:
        given = _apart(w, given)
    name = normal(given)
    option = w.build.by_name.get(name)
    if option is None and name not in substitutes() and _at_a_terminal(w, given, name):
        return
    if option is None or option.removed or (option.deprecated and name in substitutes()):
        _wrong(w, given, name)
        return
    _right(w, given, option)


def _apart(w: Work, given: str) -> str:
    name, _, value = given.partition("=")
    value = Expands(value) if isinstance(given, Expands) else value
    w.words.insert(0, value)
    w.change(given, f"{name} {value}", "llama.cpp takes no --option=value: the value is a word of its own")
    return name


def _at_a_terminal(w: Work, given: str, name: str) -> bool:
    """An option of the programs that talk at a terminal, which this one has not."""
    table = tools.programs()
    found = next((table[p].by_name[name] for p in INTERACTIVE if p in table and name in table[p].by_name), None)
    if found is None and name not in OF_ITSELF:
        return False
    if w.program in INTERACTIVE and name in OF_ITSELF:
        w.change(given, "", f"{w.program} does not have it: it talks by itself")
        return True
    value = ""
    takes = (
        found is not None
        and found.value
        and (name not in ("--color", "-co") or w.words[:1] in (["on"], ["off"], ["auto"]))
    )
    if takes and w.words:
        value = w.words.pop(0)
    why = "only for llama-cli: a server gets its prompts over HTTP"
    if w.program != tools.SERVER:
        why = f"{w.program} has no such option"
    w.change(f"{given} {value}".strip(), "", why, lost=name not in OF_ITSELF)
    return True


def _right(w: Work, given: str, option: Option) -> None:
    if not option.value:
        w.args.append(given)
        return
    if option.names[0] in ("-fa", "-co") and (not w.words or w.words[0].startswith("-") or not w.words[0].strip()):
        if w.words and not w.words[0].strip():
            w.words.pop(0)
        w.args += [given, "on"]
        w.change(given, f"{given} on", "the option takes a value now: on, off or auto")
        return
    count = len(option.value.split()) if option.value == "START END" else 1
    if len(w.words) < count or _is_option(w, w.words[0]):
        w.change(given, "", "takes a value, and none was given", lost=True)
        return
    value = w.words.pop(0)
    if value == LOOKUP and set(option.names) & set(spellings("draft")):
        kind = w.build.spelling(spellings("spec_type")) or "--spec-type"
        w.args += [kind, "ngram-simple"]
        w.change(f"{given} {value}", f"{kind} ngram-simple", "no model drafts there, but the text that has been")
        return
    if not isinstance(value, Expands):
        value = _checked(w, given, value, option)
    if value:
        w.args += [given, value]
    if count == 2:
        w.args.append(w.words.pop(0))


def _is_json(text: str) -> bool:
    try:
        from_json(text)
    except Malformed:
        return False
    return True


_FORMS: dict[str, tuple[Callable[[str], object], str]] = {
    "--json-schema": (_is_json, "it is no JSON: the shell of the article has eaten its quotes, or never had them"),
    "--chat-template-kwargs": (
        _is_json,
        "it is no JSON: the shell of the article has eaten its quotes, or never had them",
    ),
    **dict.fromkeys(
        ("-ot", "--override-tensor"),
        (
            regex(
                r"(?:[^,=]+=(?:CPU|CUDA|ROCm|MUSA|Vulkan|Metal|MTL|SYCL|CANN|OpenCL|GPUOpenCL|RPC|HTP|WebGPU|BLAS|AMX|"
                r"OPENVINO|VirtGPU|Meta)[^,=]*,?)+"
            ).fullmatch,
            "llama.cpp reads PATTERN=BUFFER with the name of a kind of buffer: CPU, CUDA0, Vulkan0, ROCm0, Metal …",
        ),
    ),
    "--override-kv": (
        regex(r"(?:[^=]+=(?:int|float|bool|str):[^,]*,?)+").fullmatch,
        "llama.cpp reads KEY=TYPE:VALUE, with int, float, bool or str",
    ),
}
"""Values whose form llama.cpp demands (`common/arg.cpp`, b11434)."""


def _is_option(w: Work, word: str) -> bool:
    """Whether a word where a value belongs is the next option: its value was forgotten."""
    return word.startswith("--") and w.build.takes(normal(word))


def _checked(w: Work, given: str, value: str, option: Option) -> str:
    """The value as this build takes it; "" where it takes none like it."""
    if CACHE & set(option.names):
        return cache_type(w, given, value)
    found = ours(normal(given))
    why, meant = "", ""
    if found is not None and found.takes and found.option.kind is kinds.RPC and "=" in value:
        meant, why = (
            ",".join(part.partition("=")[0] for part in value.split(",")),
            "the memory of a server is for a plan",
        )
    if not why:
        why, meant = tools.refused(given, value)
    if not why:
        why, meant = refused_value(given, value, option)
    if not why and (wrong := next((w for n, w in _FORMS.items() if n in option.names and not w[0](value)), None)):
        why = wrong[1]
    if why:
        w.change(f"{given} {value}", f"{given} {meant}" if meant else "", why, lost=not meant)
        return meant
    return value


def cache_type(w: Work, given: str, value: str) -> str:
    """A type of the KV cache, by the name llama.cpp gives it."""
    lower = value.lower()
    right = lower if lower in CACHE_TYPES else notes()["types"].get(lower)
    if right is None:
        w.change(f"{given} {value}", f"{given} q8_0", f"{value} is no cache type; q8_0 is the usual one")
        return "q8_0"
    if right != value:
        w.change(
            f"{given} {value}", f"{given} {right}", f"{value} is no cache type of llama.cpp; {right} comes closest"
        )
    return str(right)


def _wrong(w: Work, given: str, name: str) -> None:
    found = substitutes().get(name)
    follows = bool(w.words) and (not w.words[0].startswith("-") or is_number(w.words[0]))
    spelled = ours(name)
    if found is None and (now := _otherwise(w, name, spelled.option.names if spelled else ())):
        # A name llama.cpp once had, one that people give it, or one with the wrong number of dashes.
        w.words[:0] = [now]
        w.change(given, now, f"the option is {now}")
        return
    if found is None:
        near = w.build.nearest(name)
        value = w.words.pop(0) if follows else ""
        whose = [p for p in tools.having(name) if p != w.program]
        owner = f"; it is one of {whose[0]}" if whose else ""
        guess = f"; the nearest is {near[0]}" if near and not whose else ""
        w.change(
            f"{given} {value}".strip(), "", f"{w.program or tools.SERVER} has no such option{owner}{guess}", lost=True
        )
        return
    value = w.words.pop(0) if found.takes and follows else ""
    while found.many and w.words and not w.words[0].startswith("-") and not w.words[0].lower().endswith(".gguf"):
        value = f"{value} {w.words.pop(0)}".strip()
    if not found.takes and w.words and w.words[0].lower() in ("true", "false", "on", "off", "1", "0"):
        w.words.pop(0)
    _substituted(w, f"{given} {value}".strip(), name, value, found)


def _otherwise(w: Work, name: str, names: tuple[str, ...]) -> str | None:
    bare = name.lstrip("-")
    dashes = [f"-{bare}"] if name.startswith("--") else [f"--{bare}"] if len(bare) > 2 else []
    return w.build.spelling((*names, *dashes))


def _substituted(w: Work, was: str, name: str, value: str, found: Substitute) -> None:
    if found.becomes is None:
        w.change(was, "", found.why, lost=found.lost)
        return
    if found.takes and not value:
        w.change(was, "", "takes a value, and none was given", lost=True)
        return
    told = _of_ggml(value) if name in COUNTED else found.values.get(value, value)
    words = [x.replace("{value}", told) for x in found.becomes.split()]
    if words[0] in ("-ctk", "-ctv") and value and not isinstance(value, Expands):
        words = _typed(words)
    became = _spelled(w, words)
    if missing := next((x for x in became if x.startswith("-") and not is_number(x) and not w.build.takes(x)), None):
        w.change(was, "", f"{found.why} This build has no {missing}.", lost=True)
        return
    if isinstance(value, Expands):
        became = [Expands(x) if x == value else x for x in became]
    elif (
        found.takes
        and len(became) == 2
        and became[0] in w.build.by_name
        and not CACHE & set(w.build.by_name[became[0]].names)
    ):
        why, meant = tools.refused(became[0], became[1])
        why, meant = (why, meant) if why else refused_value(became[0], became[1], w.build.by_name[became[0]])
        if why and not meant:
            w.change(was, "", f"{found.why} {why}.", lost=True)
            return
        became[1] = meant or became[1]
    if became[0] in spellings("load_mode") and became[0] in w.args:
        # Two old switches that now are values of one option: the last one counts.
        at = w.args.index(became[0])
        del w.args[at : at + 2]
    w.args += became
    w.change(was, " ".join(became), found.why)


def _of_ggml(value: str) -> str:
    """The name of a type that is given by its number in ggml."""
    found = next((t.name.lower() for t in TENSOR_TYPES.values() if str(t.id) == value), value)
    return found if found in CACHE_TYPES else value


def _typed(words: list[str]) -> list[str]:
    """Names of types that other programs use, as llama.cpp's."""
    known: dict[str, str] = notes()["types"]
    return [x if x.startswith("-") or x.lower() in CACHE_TYPES else known.get(x.lower(), "q8_0") for x in words]


def _spelled(w: Work, words: list[str]) -> list[str]:
    """The substitute in a spelling of this build; options that old builds lack are left as we know them."""
    out = []
    for x in words:
        found = by_name().get(x)
        names = next((n for n in (found.option.names, *found.option.sides) if x in n), None) if found else None
        out.append((w.build.spelling(names) if names else None) or x)
    return out


def model_of(w: Work) -> bool:
    """Whether the arguments so far name a model, or a folder of them."""
    named = {"-m", "--model", "-hf", "-hfr", "--hf-repo", "-mu", "--model-url", "-dr", "--docker-repo", "--models-dir",
             "--models-preset"}  # fmt: skip
    presets = {
        n
        for o in w.build.options
        for n in o.names
        if not o.value and n.startswith(("--gpt-oss", "--qwen", "--fim", "--embd-", "--vision-"))
    }
    return bool({normal(a) for a in w.args} & (named | presets))
