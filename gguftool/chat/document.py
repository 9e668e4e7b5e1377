"""Chat templates that came in a document: `tokenizer_config.json` and its like (Hugging Face `transformers`)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gguftool.reading import Malformed, from_json
from gguftool.regex import regex

_BEGINS = regex(r'\s*(?:\{\s*"[^"\n{}%]{1,80}"\s*:|\[\s*\{\s*"[^"\n{}%]{1,80}"\s*:|\[\s*")')
"""How a JSON object or list of such begins; a template begins with text or a brace and a second sign."""
_STRINGS = regex(r'"(?:[^"\\]++|\\.)*+(?:"|\\?$)', re.S)
DEFAULT = "default"


def json_kind(text: str) -> str:
    """What kind of JSON a text is: ``object``, ``list``, ``text``, ``broken`` for the beginning of one, or "" for none.

    Plain numbers, true, false and null are texts like any other.
    """
    try:
        value = from_json(text)
    except Malformed:
        # A template that writes JSON has its tags between the strings.
        tags = _BEGINS.match(text) and re.search(r"\{[{%]", _STRINGS.sub("", text))
        return "broken" if _BEGINS.match(text) and not tags else ""
    for kind, name in ((dict, "object"), (list, "list"), (str, "text")):
        if isinstance(value, kind):
            return name
    return ""


def begins(error: Malformed) -> str:
    """What is wrong with a text that began like JSON."""
    return str(error).replace("is not JSON", "begins like JSON, and is not", 1)


def templates_of(text: str) -> dict[str, str]:
    """The templates of a JSON document by name; ``default`` is the main one.

    ``chat_template`` may be one template, a list of named ones or an object of them; such a list may stand alone.

    Raises:
        ValueError: it is another document; says what stands in it.
    """
    try:
        value = from_json(text)
    except Malformed as e:
        raise ValueError(begins(e)) from None
    if isinstance(value, dict):
        if "chat_template" not in value:
            keys = ", ".join(list(map(str, value))[:4]) + (", …" if len(value) > 4 else "")
            raise ValueError(f"is JSON without a chat_template; it has {keys or 'nothing'}")
        value = value["chat_template"]
    elif not isinstance(value, list):
        raise ValueError("is JSON without a chat_template")
    return _named(value)


def _named(value: object) -> dict[str, str]:
    if isinstance(value, str):
        found: Mapping[object, object] = {DEFAULT: value}
    elif isinstance(value, dict):
        found = value
    elif isinstance(value, list) and all(isinstance(v, dict) and {"name", "template"} <= v.keys() for v in value):
        found = {v["name"]: v["template"] for v in value}
        if len(found) < len(value):
            raise ValueError("names a template twice")
    else:
        raise ValueError("holds a chat_template that is neither text nor a list of named ones")
    out: dict[str, str] = {}
    for name, template in found.items():
        if not isinstance(name, str) or not isinstance(template, str):
            raise ValueError("holds a chat_template that is neither text nor a list of named ones")
        if not template.strip():
            raise ValueError("holds an empty chat_template")
        if json_kind(template):
            raise ValueError("holds a chat_template that is JSON itself")
        out[re.sub(r"[^A-Za-z0-9_]", "_", name)] = template
    if not out:
        raise ValueError("holds no chat_template")
    return out
