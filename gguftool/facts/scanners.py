"""Scanners of model files that stand in gates, and what makes them fail in a sound file; each of them was run."""

from __future__ import annotations

import re
from typing import Final

from gguftool.regex import regex

C4NARY: Final = "c4nary 0.3.1 (canary scan --fail-on warn)"
MODELAUDIT: Final = "modelaudit 0.2.54"
GLYPHHOUND: Final = "glyphhound 0.1.0"
AISBOM: Final = "aisbom 1.7.0"
PILLAR: Final = "pillar-gguf-scanner 0.1.2"

LONGEST_TEXT = 8192
"""Characters of a text, above which c4nary sees a payload (MET002)."""
LONGEST_TEMPLATE = 50_000
"""Bytes of a chat template, above which c4nary warns (TPL012) and modelaudit's scan counts as incomplete."""
MAY_HOLD_ADDRESSES = ("url", "repo", "source", "homepage", "website", "huggingface", "doi")
"""Words in a key whose value c4nary lets be an address (MET001); not "link"."""
_ADDRESS = regex(r"https?://[^\s\"'<>`)]", re.IGNORECASE)
_NUMBERS = regex(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_RISKS = ("non-commercial", "cc-by-nc", "agpl", "commons clause")
_OBJECTED = regex(r"(?:a|l)?gpl-|cc-by-(?:nc|sa)", re.IGNORECASE)

OF_TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    "url": (f"{C4NARY} TPL011", PILLAR),
    "date": (f"{C4NARY} TPL022",),
    "invisible": (f"{C4NARY} TPL024",),
    "phrase": (f"{C4NARY} TPL023",),
    "loads": (f"{C4NARY} TPL031", AISBOM),
    "code": (f"{C4NARY} TPL001", MODELAUDIT, GLYPHHOUND, AISBOM),
}
"""What `gguftool.chat.scan` finds in a template, and who fails over it."""


def address(text: str) -> str:
    """The first web address in a text; "" without one."""
    found = _ADDRESS.search(text)
    return text[found.start() :].split(maxsplit=1)[0] if found else ""


def ip_number(text: str) -> str:
    """The first IP number in a text; "" without one."""
    return next((n for n in _NUMBERS.findall(text) if all(int(part) < 256 for part in n.split("."))), "")


def may_hold_address(key: str) -> bool:
    """Whether c4nary expects an address under a key; an IP number it warns of everywhere."""
    return any(word in key.lower() for word in MAY_HOLD_ADDRESSES)


def of_licence(name: str) -> tuple[str, ...]:
    """Who fails over a licence as the Hub calls it: strong copyleft, and what forbids commercial use or changes."""
    by_audit = (MODELAUDIT,) if _OBJECTED.match(name) else ()
    return (*by_audit, *((AISBOM,) if any(risk in name.lower() for risk in _RISKS) else ()))
