"""The page: the fields of a report put into its templates; every text out of a file is inert, whatever it holds.

Safety stands on four legs: `inert` takes what is hidden out of every text and cuts it; jinja2 escapes all that a
template writes; the data for the scripts is JSON in which nothing can end its element; and the page forbids by its
own policy every script, style and address that is not its own.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from gguftool.api.report import Reported
from gguftool.report.envelope import TOOL, dumps
from gguftool.report.page.columns import data_for_scripts
from gguftool.report.page.data import Body, body
from gguftool.report.page.filters import FILTERS
from gguftool.report.page.fitting import fitted
from gguftool.report.text import safe_lines

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

LONGEST = 4000
"""Characters of one text that a page shows; prompts have a bound of their own, below it or not."""
LIMIT = 1_000_000
"""Bytes of a page."""
FIRST = ("page.js", "treemap.js", "style.css")
"""Files that stand before the others of their kind, which use them."""


def report_page(reported: Reported) -> str:
    """The report as one page of HTML: nothing is fetched, all that it needs stands in it, at most `LIMIT` bytes.

    Args:
        reported: what `gguftool.report` gathered.
    """
    found = inert(body(reported))
    return fitted(found, lambda less: page(less), LIMIT)


def page(found: Body) -> str:
    """The page of these fields, however long it gets."""
    script, style = _joined(".js"), _joined(".css")
    policy = (
        f"default-src 'none'; style-src 'sha256-{_sha(style)}'; script-src 'sha256-{_sha(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    data = for_script(data_for_scripts(found))
    template = _environment().get_template(f"{found['kind']}.html")
    text: str = template.render(r=found, policy=policy, style=style, script=script, data=data, tool=TOOL)
    return text


def inert(value: Any) -> Any:
    """The same with every text cut to `LONGEST` characters, and what is hidden or not UTF-8 in it spelled out."""
    if isinstance(value, str):
        cut = value if len(value) <= LONGEST else f"{value[:LONGEST]}… {len(value) - LONGEST:,} more characters"
        return safe_lines(cut)
    if isinstance(value, Mapping):
        return {inert(str(key)): inert(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [inert(item) for item in value]
    return value


def for_script(data: object) -> str:
    """JSON that can stand inside a script element: nothing in it ends one, or begins a comment."""
    text = dumps(data, compact=True)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _sha(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _home() -> Traversable:
    return files("gguftool.report.page") / "files"


@cache
def _text(name: str) -> str | None:
    there = _home().joinpath(*name.split("/"))
    return there.read_text("utf-8") if there.is_file() else None


@cache
def _joined(ending: str) -> str:
    """All files of a kind as one, `FIRST` before the others, by name."""
    names = sorted((x.name for x in _home().iterdir() if x.name.endswith(ending)), key=_place)
    return "\n".join(_text(name) or "" for name in names)


def _place(name: str) -> tuple[int, str]:
    return FIRST.index(name) if name in FIRST else len(FIRST), name


@cache
def _environment() -> Any:
    import jinja2

    env = jinja2.Environment(
        loader=jinja2.FunctionLoader(_text),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters.update(FILTERS)
    return env
