"""What is asked of a server beyond sizes and types: features that its log may say are off, and its chat template."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gguftool.chat.sources import main_source
from gguftool.digest import sha256
from gguftool.model import Model
from gguftool.run.capabilities import known
from gguftool.run.files import whole_text
from gguftool.run.options.table import normal
from gguftool.run.silent import TEMPLATE_FILE, applied
from gguftool.run.wishes import Wishes

TEMPLATE, TOOL_USE = "tokenizer.chat_template", "tokenizer.chat_template.tool_use"
_MAPPED, _LOCKED = ("mmap", "mmap+mlock"), ("mlock", "mmap+mlock")


def features(w: Wishes) -> tuple[str, ...]:
    """What was asked for by name, as the table of messages calls it (``off``): what nobody asked for may be off.

    Args:
        w: the wishes; options that stand behind ``--`` count by their names.
    """
    devices = bool(w.device) and "none" not in w.device
    asked = {
        "gpu-layers": devices or (w.gpu_layers is not None and w.gpu_layers > 0),
        "flash-attn": w.flash_attn == "on",
        "mmap": w.load_mode in _MAPPED,
        "mlock": w.load_mode in _LOCKED,
        "direct-io": w.load_mode == "dio",
    }
    return (*(name for name, said in asked.items() if said), *(_spelled(x) for x in w.extra if x.startswith("-")))


def _spelled(word: str) -> str:
    """An option by its first long name; one that switches something off stays as it is."""
    name = normal(word)
    option = None if name.startswith("--no-") else known().by_name.get(name)
    return next((x for x in option.names if x.startswith("--")), name) if option else name


def template(model: Model, w: Wishes, environment: Mapping[str, str] = os.environ) -> str | None:
    """The mark of the chat template that the server must say it uses; None where it takes one of its own.

    Args:
        model: its header has the template.
        w: the wishes: ``--chat-template-file``, ``--chat-template`` behind ``--``; the last one counts.
        environment: variables that llama.cpp reads itself.
    """
    if any(TEMPLATE in word for word in w.extra):
        return None
    said = _said(w, environment)
    own, tools = (x if isinstance(x := model.get(key), str) else "" for key in (TEMPLATE, TOOL_USE))
    source = main_source(said, "") if said else main_source(own, tools)
    # ChatML as a build has it: its text is not the same in all.
    return mark(source) if said or own or tools else None


def mark(text: str) -> str:
    """A template in short: its hash and length.

    Line ends and a last one are as llama.cpp's reader makes them (`jinja/lexer.cpp`, b11434), which other builds leave.
    """
    plain = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    digest = sha256(plain.encode("utf-8", "replace")).hexdigest()
    return f"{digest[:12]} ({len(plain):,} characters)"


def _said(w: Wishes, environment: Mapping[str, str]) -> str:
    """The template that an option names, else a variable or a configuration file."""
    silent = applied(environment, known())
    found = silent.get("LLAMA_ARG_CHAT_TEMPLATE", "")
    if path := silent.get(TEMPLATE_FILE):
        found = whole_text(path)
    if w.template is not None:
        found = whole_text(w.template)
    words = iter(w.extra)
    for word in words:
        if normal(word) == "--chat-template":
            found = next(words, "")
    return found
