"""A Modelfile of Ollama, with what gets lost on the way."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import pairwise

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.model import Model, open_model
from gguftool.model.vocab import vocabulary
from gguftool.records import dataclass, replace
from gguftool.regex import regex
from gguftool.run.args import masked, own_words
from gguftool.run.capabilities import known
from gguftool.run.emit.words import comment, title
from gguftool.run.launch import LaunchPlan
from gguftool.run.options.serving import DEFAULT_PORT
from gguftool.run.options.table import normal, options
from gguftool.run.wishes import Wishes
from gguftool.shell import gguftool, path_word, shell

_SAMPLING = {
    "--temp": "temperature", "--top-k": "top_k", "--top-p": "top_p", "--min-p": "min_p", "--typical": "typical_p",
    "--repeat-last-n": "repeat_last_n", "--repeat-penalty": "repeat_penalty", "--presence-penalty": "presence_penalty",
    "--frequency-penalty": "frequency_penalty", "-s": "seed", "-n": "num_predict", "--keep": "num_keep",
}  # fmt: skip
"""llama.cpp's options, and Ollama's parameters for the same (`api/types.go:Options`)."""
_FILE = {
    "temp": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p", "penalty_last_n": "repeat_last_n",
    "penalty_repeat": "repeat_penalty",
}  # fmt: skip
"""What a file records of them, behind ``general.sampling.``."""
_NAME = regex(r"[A-Za-z0-9][A-Za-z0-9._-]*(:[A-Za-z0-9._-]+)?")
"""A model's name (`types/model/name.go:isValidPart`), and a tag."""
_CACHE_TYPES = ("f16", "q8_0", "q4_0")
_SAID = {
    "ctx", "cache_type", "flash_attn", "parallel", "kv_unified", "slot_ctx", "ubatch", "batch", "gpu_layers", "mmproj",
    "lora", "lora_scaled", "draft", "draft_max", "template", "threads", "host", "port", "verbosity", "main_gpu",
    "alias",
}  # fmt: skip
"""Fields that have a form here, or for which what is lost is told on the spot; of `load_mode` one value has."""


@dataclass(frozen=True, slots=True)
class Modelfile:
    """A model as Ollama has it.

    Attributes:
        called: its name there.
        first: commands that have to be run before.
        environment: variables of the server, which are for all its models.
        lost: what has no form there.
        text: the Modelfile.
    """

    called: str
    first: tuple[str, ...]
    environment: tuple[str, ...]
    lost: tuple[str, ...]
    text: str

    __repr__ = short_repr


def ollama(plan: LaunchPlan, force: tuple[str, ...], image: str | None = None) -> str:
    """The Modelfile, with the commands that merge, create and run in front of it.

    Raises:
        UsageError: the path of a file cannot be said in a Modelfile.
    """
    made = modelfile(plan)
    head = [
        f"Ollama's form of {comment(os.path.basename(plan.model))}. Nothing checks the model on its way.",
        *made.first,
        "Save this as Modelfile, then: " + shell(("ollama", "create", made.called, "-f", "Modelfile")),
        "The server's settings are for all its models: " + shell(("ollama", "serve"), environment=made.environment),
        *(f"Lost: {comment(x)}" for x in made.lost),
    ]
    return "".join(f"# {line}\n" for line in head) + made.text


def modelfile(plan: LaunchPlan) -> Modelfile:
    """The model as Ollama has it.

    Raises:
        UsageError: the path of a file cannot be said in a Modelfile.
    """
    w = plan.wishes
    with open_model(plan.model) as model:
        lost = list(_lost(w))
        source, first = _source(plan)
        lines = [f"FROM {_path(source)}"]
        lines += [f"FROM {_path(w.mmproj)}"] if w.mmproj else []
        lines += _beside(w, lost)
        lines += _template(model, w, lost)
        pairs = [*_running(plan, lost), *_sampling(model, w)]
        lines += [f"PARAMETER {key} {value}" for key, value in pairs]
        lines += _stops(model, lost)
    called = w.alias if w.alias and _NAME.fullmatch(w.alias) else title(plan.model)
    environment = tuple(_environment(plan, lost))
    return Modelfile(called, tuple(first), environment, tuple(dict.fromkeys(lost)), "\n".join(lines) + "\n")


def said(text: str) -> str | None:
    """A value as Ollama's parser reads it back (`parser.go:ParseFile`), None when it cannot be said.

    Three quotes begin and end a text; it ends early where three quotes end a line, and what does not print is left out.
    """
    if not all(c.isprintable() or c in "\n\r\t" for c in text):
        return None
    quoted = f'"""{text}"""'
    for found in re.finditer(r"[\n\r]", text):
        begun = quoted[: found.start() + 3].strip()
        if len(begun) >= 6 and begun.endswith('"""'):
            return None
    return quoted


def _path(path: str) -> str:
    made = said(path)
    if made is None:
        raise UsageError(f"{path!r}: a Modelfile cannot hold this path", "a path without control characters")
    return made


def _source(plan: LaunchPlan) -> tuple[str, list[str]]:
    """The file to take, and what has to be done first."""
    if len(plan.files) < 2:
        return plan.model, []
    whole = re.sub(r"-\d{5}-of-\d{5}(?=\.gguf$)", "", plan.model)
    return whole, ["First: " + gguftool("merge", path_word(plan.model), "-o", path_word(whole))]


def _beside(w: Wishes, lost: list[str]) -> Iterator[str]:
    adapters = [*w.lora, *(path for path, _ in w.lora_scaled)]
    if adapters:
        yield f"ADAPTER {_path(adapters[0])}"
    if len(adapters) > 1:
        lost.append("Ollama takes one adapter alone: " + ", ".join(adapters[1:]))
    if w.lora_scaled:
        lost.append("--lora-scaled: an adapter of Ollama has no scale")
    if w.draft:
        yield f"DRAFT {_path(w.draft)}"


def _template(model: Model, w: Wishes, lost: list[str]) -> Iterator[str]:
    """The template of the file, or the one asked for, in Ollama's form; where there is none Ollama guesses one."""
    from gguftool.chat.document import DEFAULT
    from gguftool.chat.engine.request import Asked
    from gguftool.chat.prompts import server, templates
    from gguftool.chat.turns import NOWHERE, turns

    named = templates(model)
    if w.template:
        with open(w.template, encoding="utf-8", errors="replace") as file:
            named = {DEFAULT: file.read()}
    if DEFAULT not in named:
        return
    made = server(model, named)

    def render(messages: object, opened: bool) -> str | None:
        result = made.prompt(Asked(tuple(messages), open=opened, prefill=False))  # type: ignore[arg-type]
        return None if result.kind else result.text

    vocab = vocabulary(model)
    end = vocab.special("eos")
    found = turns(render, "" if end is None else vocab.text(end))
    text = said(found.go()) if found else None
    if found is None or text is None:
        lost.append("the chat template has no form in Ollama that makes the same prompts; Ollama guesses one")
        return
    yield f"TEMPLATE {text}"
    if found.system == NOWHERE:
        lost.append("a system message: the template takes none")
    lost += [f"{what} of the chat template" for what in ("tools", "reasoning_content") if what in named[DEFAULT]]
    if re.search(r"strftime_now|date_string|currentDate", named[DEFAULT]):
        lost.append("the date of the chat template: the one of today stays")


def _running(plan: LaunchPlan, lost: list[str]) -> Iterator[tuple[str, object]]:
    w = plan.wishes
    yield "num_ctx", plan.memory.cache.context.per_slot
    if w.gpu_layers is not None and w.gpu_layers != -1:
        yield "num_gpu", 999 if w.gpu_layers < 0 else w.gpu_layers
    if w.ubatch or w.batch:
        yield "num_batch", w.ubatch or w.batch
        if w.ubatch and w.batch and w.ubatch != w.batch:
            lost.append(f"--batch {w.batch}: Ollama has one size for both, {w.ubatch} is taken")
    if w.main_gpu is not None:
        yield "main_gpu", w.main_gpu
    if w.load_mode == "none":
        yield "use_mmap", "false"
    if w.threads:
        yield "num_thread", w.threads
    if w.draft_max is not None:
        yield "draft_num_predict", w.draft_max


def _sampling(model: Model, w: Wishes) -> list[tuple[str, object]]:
    out: dict[str, object] = {}
    for key, parameter in _FILE.items():
        value = model.get(f"general.sampling.{key}")
        if isinstance(value, int | float) and not isinstance(value, bool):
            out[parameter] = f"{value:.7g}" if isinstance(value, float) else value
    words = list(w.extra)
    for word, value in pairwise(words):
        if (parameter := _parameter(word)) and re.fullmatch(r"-?[0-9.]+(e-?[0-9]+)?", value, re.ASCII):
            out[parameter] = value
    return list(out.items())


def _parameter(word: str) -> str:
    option = known().by_name.get(normal(word))
    return next((p for o, p in _SAMPLING.items() if option and o in option.names), "")


def _stops(model: Model, lost: list[str]) -> Iterator[str]:
    vocab = vocabulary(model)
    for token in sorted(vocab.eog):
        text = said(vocab.text(token))
        if text is None or not vocab.text(token).strip():
            lost.append(f"the token {token}, which ends a generation: its text cannot be said")
        else:
            yield f"PARAMETER stop {text}"


def _environment(plan: LaunchPlan, lost: list[str]) -> list[str]:
    w, c = plan.wishes, plan.memory.cache.context
    types = w.cache_type or ("f16", "f16")
    out = []
    if types[0] != types[1] or types[0] not in _CACHE_TYPES:
        lost.append(f"--cache-type {','.join(types)}: Ollama has one type for both, " + ", ".join(_CACHE_TYPES))
    elif types[0] != "f16":
        out += [f"OLLAMA_KV_CACHE_TYPE={types[0]}"]
    if w.flash_attn == "on" or any(x.startswith("OLLAMA_KV") for x in out):
        out += ["OLLAMA_FLASH_ATTENTION=1"]
    elif w.flash_attn == "off":
        out += ["OLLAMA_FLASH_ATTENTION=0"]
    if c.slots > 1:
        out += [f"OLLAMA_NUM_PARALLEL={c.slots}"]
    if (w.host, w.port) != (Wishes().host, DEFAULT_PORT) and not w.host.endswith(".sock"):
        out += [f"OLLAMA_HOST={w.host}:{w.port}"]
    return out


def _lost(w: Wishes) -> Iterator[str]:
    """What was asked of llama-server and has no form here, option by option."""
    none = Wishes()
    for o in options():
        value = getattr(w, o.field)
        has = o.field in _SAID or (o.field == "load_mode" and value in ("none", "mmap", "auto"))
        if value == o.default or has or not (o.names or o.constants):
            continue
        yield " ".join(masked(own_words(replace(none, **{o.field: value}))))
    words = list(w.extra)
    while words:
        word = words.pop(0)
        option = known().by_name.get(normal(word))
        value = words.pop(0) if option and option.value and words else ""
        if not _parameter(word):
            yield " ".join(masked([word, *([value] if value else [])]))
