"""How answers are sampled and which further templates there are, against the source."""

from __future__ import annotations

import math
import re

from gguftool.chat.talk import KEY
from gguftool.edit.ops import Set
from gguftool.edit.template import LIST
from gguftool.facts.generation import PREFIX, written
from gguftool.lint.rule import Context, Drafts, Fix, Scope, Severity, found, rule
from gguftool.lint.rules.source.numbers import same_model, source
from gguftool.model import Model


@rule(Severity.INFO, scope=Scope.SOURCE, chat=True)
def source_sampling(m: Model, ctx: Context) -> Drafts:
    """Answers should be sampled as the makers of the model recommend.

    Why. llama.cpp takes `general.sampling.*` as the defaults of --temp, --top-k, --top-p …; without them a model gets
    llama.cpp's own, and a reasoning model may repeat itself.
    Evidence. generation_config.json; `gguf-py/gguf/metadata.py`, `common.cpp:common_init_sampler_from_model` (b11434).
    Example. general.sampling.penalty_repeat is missing, generation_config.json has repetition_penalty 1.05
    Fix. Writes what generation_config.json has; `gguftool convert` does it by itself.
    """
    folder = source(ctx)
    if not same_model(m, ctx):
        return
    for setting, there in written(folder.generation).items():
        key = PREFIX + setting.key
        here = m.get(key)
        if here is None and setting.idle is not None and there == setting.idle:
            continue
        if here == there or (_number(here) and _number(there) and math.isclose(here, there, rel_tol=1e-6)):  # type: ignore[arg-type]
            continue
        name = next(n for n in setting.names if n in folder.generation)
        has = "is missing" if here is None else f"is {here}"
        yield found(
            f"{key} {has}, generation_config.json has {name} {there}",
            where=f"field:{key}",
            fix=Fix(f"write {there}", (Set(key, there, setting.type),)),
            file=here,
            source=there,
        )


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@rule(Severity.INFO, scope=Scope.SOURCE, chat=True)
def source_templates(m: Model, ctx: Context) -> Drafts:
    """Further chat templates of the source should be in the file.

    Why. llama-server takes `tokenizer.chat_template.tool_use` for requests with tools; others (`rag`) are for programs
    that ask for them by name. The converter passes them over where they lie beside a template that it does not take.
    Evidence. `gguf-py/gguf/vocab.py`, `gguf_writer.py:add_chat_template`; `common/chat.cpp:common_chat_templates_init`
    (b11434).
    Example. no tokenizer.chat_template.tool_use, additional_chat_templates of ./model has one
    Fix. Writes them; `gguftool convert` does it by itself.
    """
    folder = source(ctx)
    if not same_model(m, ctx):
        return
    there = {re.sub(r"[^A-Za-z0-9]", "_", name): text for name, text in folder.templates.named.items() if text.strip()}
    lost = {name: text for name, text in there.items() if name and m.get(f"{KEY}.{name}") is None}
    if not lost:
        return
    has = sorted({*lost, *(key.removeprefix(f"{KEY}.") for key in m.fields if key.startswith(f"{KEY}."))})
    for name, text in lost.items():
        key = f"{KEY}.{name}"
        ops = (Set(key, text, "str"), Set(LIST, has, "[str]"))
        yield found(
            f"no {key}, {folder.name} has a template of that name",
            where=f"field:{key}",
            fix=Fix(f"write the template {name}", ops),
            template=name,
        )
