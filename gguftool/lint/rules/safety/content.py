"""What the file is for, and text that is not what it looks like."""

from __future__ import annotations

from gguftool.facts import llama_cpp
from gguftool.facts.arch import facts
from gguftool.format.types import STR
from gguftool.lint.rule import Context, Drafts, Severity, found, rule
from gguftool.model import Model
from gguftool.model.origin import origin
from gguftool.model.role import ROLES, made_for, role, way_on, what_it_is
from gguftool.regex import regex

LONG = 1 << 20
_HIDDEN = regex("[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")
_CONTROL = regex("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_TEMPLATE = "tokenizer.chat_template"


@rule(Severity.INFO, role="any")
def not_a_model(m: Model, ctx: Context) -> Drafts:
    """The file should be a language model where one is expected.

    Why. Projectors, adapters, importance matrices and image models travel as GGUF too. llama-server refuses them
    with texts that do not say so. Rules for models are not evaluated on such files. A model of another program is told
    with what shows it and what runs it; so is a layout that llama.cpp has left behind.
    Evidence. `llama-model.cpp` (b11434): "CLIP cannot be used as main model, use it with --mmproj instead",
    "unknown model architecture: 'qwen_image'"; llama.cpp issue 15143.
    Example. an image or diffusion model (architecture flux): made for ComfyUI with ComfyUI-GGUF, not for llama.cpp
    Fix. None: use the program it was made for, or what the finding names.
    """
    what = ctx.once("role", lambda: role(m))
    if ROLES[what].runs:
        return
    if program := made_for(m):
        made = origin(m)
        arch = m.architecture
        unknown = facts(arch) is None
        why = made.why if made is not None else arch
        yield found(
            f"{ROLES[what].what} ({why}): made for {program}, not for {llama_cpp()}; {way_on(m)}",
            where="field:general.architecture" if arch and unknown else "file",
            severity=Severity.ERROR,
            llama_cpp=f"unknown model architecture: '{arch}'" if unknown else None,
            role=what,
            program=program,
        )
    elif what == "nothing":
        yield found(ROLES[what].what, where="file", severity=Severity.ERROR, role=what)
    else:
        where = "field:general.type" if "general.type" in m else "file"
        text = f"the file is {what_it_is(m)}, not a model to be loaded by itself; {way_on(m)}"
        yield found(text, where=where, role=what)


def _strings(m: Model) -> list[tuple[str, str]]:
    """Text values of all shards but chat templates, which have rules of their own."""
    out = []
    for part in m.parts:
        for f in part.header.fields:
            if f.type == STR and not f.key.startswith(_TEMPLATE):
                text = f.told
                if isinstance(text, str):
                    out.append((f.key, text))
    return out


@rule(Severity.WARNING, role="any", whole=False)
def control_characters(m: Model, ctx: Context) -> Drafts:
    r"""Keys and text values should hold no control characters.

    Why. llama.cpp prints them as they are: an escape sequence in `general.name` clears the screen, retitles the
    terminal or hides lines of the log. gguftool shows them escaped.
    Evidence. `llama-model-loader.cpp` (b11434) prints values with newlines replaced, other control characters
    not.
    Example. general.name holds control characters: \x1b[2J
    Fix. `gguftool fix --set KEY=TEXT`.
    """
    keys = [(f.key, f.key) for part in m.parts for f in part.header.fields]
    for key, text in [*keys, *_strings(m)]:
        if _CONTROL.search(text):
            what = "the key" if text is key else key
            yield found(f"{what} holds control characters: {text[:60]}", where=f"field:{key}")


@rule(Severity.WARNING, role="any", whole=False, changes_run=False)
def hidden_characters(m: Model, ctx: Context) -> Drafts:
    r"""Keys and text values should hold no invisible characters.

    Why. Zero-width, direction and tag characters make two names look the same, or hide text from people that
    programs read.
    Evidence. Unicode Technical Report 36.
    Example. general.name holds invisible characters: Lla\u200bma
    Fix. `gguftool fix --set KEY=TEXT`.
    """
    keys = [(f.key, f.key) for part in m.parts for f in part.header.fields]
    for key, text in [*keys, *_strings(m)]:
        if not text.isascii() and _HIDDEN.search(text):
            what = "the key" if text is key else key
            yield found(f"{what} holds invisible characters: {text[:60]}", where=f"field:{key}")


@rule(Severity.WARNING, role="any", whole=False, changes_run=False)
def text_oversized(m: Model, ctx: Context) -> Drafts:
    """A text value should not be larger than 1 MiB.

    Why. Every program that opens the file reads it; nothing in the specification needs so much. It is filler, a
    whole tokenizer.json that nobody reads, or something hidden in the file.
    Evidence. llama.cpp b11434 takes strings up to 1 GiB.
    Example. general.description has 3,145,728 characters
    Fix. `gguftool fix --delete KEY`.
    """
    for part in m.parts:
        for f in part.header.fields:
            n = len(f.value_bytes)
            if f.type == STR and n > LONG and not f.key.startswith("gguftool."):
                yield found(f"{f.key} has {n:,} bytes of text", where=f"field:{f.key}", span=f.span, path=part.name)
