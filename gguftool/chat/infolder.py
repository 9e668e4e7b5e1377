"""The chat templates of a Hugging Face folder: the one in use, and the one the converter writes.

A folder may hold several, and programs do not agree which counts. Training and transformers (5.24,
`tokenization_utils_base.py:_from_pretrained`) take ``chat_template.jinja``; a model with a processor
(`processing_utils.py:get_processor_dict`) prefers ``chat_template.json``, which a tokenizer does not read. The
converter (`gguf-py/gguf/vocab.py:_try_load_from_tokenizer_json`, b11434) prefers what ``tokenizer_config.json`` says,
and writes none without that file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gguftool.brief import short_repr
from gguftool.records import dataclass, field

JINJA, LEGACY, CONFIG = "chat_template.jinja", "chat_template.json", "tokenizer_config.json"
ADDITIONAL = "additional_chat_templates"
"""Folder with named templates, ``NAME.jinja``, beside `JINJA`."""
PROCESSORS = ("processor_config.json", "preprocessor_config.json")
"""Files of a model whose prompts a processor makes, of pictures or sound besides text."""
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Template:
    """A template and the file it stands in."""

    text: str
    file: str

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Templates:
    """What a folder holds.

    Attributes:
        used: the default template that training and transformers take; None when there is none.
        converted: the one the converter writes; None when it writes none.
        named: further templates by name, of the file that counts.
    """

    used: Template | None
    converted: Template | None
    named: Mapping[str, str] = field(default_factory=dict)

    __repr__ = short_repr

    @property
    def apart(self) -> bool:
        """The converter writes another one than is in use, or none."""
        if self.used is None:
            return False
        return self.converted is None or self.converted.text != self.used.text


def order(names: Iterable[str]) -> tuple[str, ...]:
    """The files that may hold the template in use, the one that counts first.

    Args:
        names: of the files in the folder.
    """
    processor = not set(PROCESSORS).isdisjoint(names)
    return (LEGACY, JINJA, CONFIG) if processor else (JINJA, CONFIG, LEGACY)


def templates(
    names: Iterable[str],
    tokenizer: Mapping[str, Any] | None,
    jinja: str | None,
    legacy: object = None,
    additional: Mapping[str, str] | None = None,
) -> Templates:
    """The templates of a folder.

    Args:
        names: of the files in the folder.
        tokenizer: tokenizer_config.json; None when there is none.
        jinja: text of chat_template.jinja.
        legacy: what chat_template.json says under ``chat_template``.
        additional: texts in additional_chat_templates by name.
    """
    said = (tokenizer or {}).get("chat_template")
    inside = _named(said)
    beside = {**({DEFAULT: jinja} if jinja is not None else {}), **(additional or {} if jinja is not None else {})}
    held = {CONFIG: inside, JINJA: beside, LEGACY: _named(legacy)}
    first = next((file for file in order(names) if DEFAULT in held[file]), "")
    used = Template(held[first][DEFAULT], first) if first else None
    named = {name: text for name, text in held.get(first, {}).items() if name != DEFAULT}
    return Templates(used, _converted(tokenizer, held), named)


def _converted(tokenizer: Mapping[str, Any] | None, held: Mapping[str, Mapping[str, str]]) -> Template | None:
    if not tokenizer:
        return None
    # An entry that is null counts as one, too.
    file = CONFIG if "chat_template" in tokenizer else JINJA if held[JINJA] else LEGACY
    return Template(held[file][DEFAULT], file) if DEFAULT in held[file] else None


def _named(value: object) -> dict[str, str]:
    """The templates in an entry ``chat_template``: one text, or a list of named ones."""
    if isinstance(value, str):
        return {DEFAULT: value}
    if isinstance(value, Mapping):
        return {str(k): v for k, v in value.items() if isinstance(v, str)}
    if isinstance(value, list):
        rows = [row for row in value if isinstance(row, Mapping)]
        return {str(row.get("name")): row["template"] for row in rows if isinstance(row.get("template"), str)}
    return {}
