"""Whatever stands in a file, its page runs nothing, asks for nothing, hides nothing and stays within its bound."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import gguftool
from gguftool.report.page.fitting import fitted
from gguftool.report.page.render import LIMIT, for_script, inert
from gguftool.report.text import safe_lines
from tests.build import GGUF, llama

TEXTS = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "javascript:alert(3)",
    "<!--<script>",
    "-->]]>",
    "<img src=x onerror=alert(4)>",
    "' onmouseover='alert(5)",
    '" autofocus onfocus="alert(6)',
    "</title></style></textarea></pre><svg onload=alert(7)>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&#60;script&#62;",
    "\u202egnp.exe\u2066\u200b\u2028",
    "\x00\x1b]0;t\x07\x1b[31m",
    "\udced\udca0\udc80\udcff",
    "https://evil.example/?a=b",
    "url(https://evil.example/)",
)
ONES = {"html", "head", "body", "main", "footer", "style"}
"""Elements of which a page has one at most."""


def hostile(n: int = 1) -> GGUF:
    """A model that has such texts wherever a file can have one; long ones ``n`` times."""
    g = llama()
    g.replace("general.name", TEXTS[0] * n).replace("tokenizer.ggml.pre", TEXTS[1] * n)
    g.kv("general.description", TEXTS[8] * n).kv("general.url", TEXTS[2]).kv("general.license", TEXTS[14])
    template = "{% for m in messages %}" + "".join(TEXTS[:9]) + "{{ m.role }}{{ m.content }}{% endfor %}"
    refusal = "{% if tools %}{{ raise_exception('" + TEXTS[0] + "') }}{% endif %}"
    g.replace("tokenizer.chat_template", refusal + template * n).kv(f"tokenizer.chat_template.{TEXTS[0]}", TEXTS[0])
    for i, text in enumerate(TEXTS):
        g.kv(f"{text}.{i}", text * n).kv(f"llama.{text}.{i}", [text, text])
        g.tensor(f"blk.0.{text}{i}", (32,), "f32", bytes(128))
    return g.kv("quantize.imatrix.file", TEXTS[0]).kv("general.tags", list(TEXTS))


class Seen(HTMLParser):
    """What a parser of HTML makes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.comments: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def check(page: str) -> Seen:
    """Nothing of the file is anything but text."""
    seen = Seen(page)
    names = [tag for tag, _ in seen.tags]
    assert seen.comments == []
    for name in ONES:
        assert names.count(name) <= 1, name
    scripts = [attrs for tag, attrs in seen.tags if tag == "script"]
    assert [x.get("type") for x in scripts] in ([], ["application/json", None])
    assert not {"img", "iframe", "object", "embed", "base", "form"} & set(names)
    for tag, attrs in seen.tags:
        assert not [name for name in attrs if name.startswith("on") or name in ("style", "src", "action")], tag
        if "href" in attrs and tag != "link":
            assert re.fullmatch(r"#[\w-]+", attrs["href"] or ""), attrs
        if tag == "link":
            assert (attrs["rel"], (attrs["href"] or "")[:19]) == ("icon", "data:image/svg+xml,"), attrs
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]", page
    )
    assert len(page.encode()) <= LIMIT
    return seen


def page_of(path: Path, **asked: Any) -> str:
    return gguftool.report_page(gguftool.report(path, **asked))


def test_every_text_is_text(tmp_path: Path) -> None:
    page = page_of(hostile().write(tmp_path / "m.gguf"), data=True, hashes=True)
    seen = check(page)
    shown = "".join(seen.texts)
    # They are there to be read, and none was taken for a template of ours.
    for text in TEXTS:
        assert safe_lines(text) in shown, text
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])  # type: ignore[index]
    assert f"blk.0.{TEXTS[1]}1" in data["tensors"]["name"]


def test_names_of_files_are_text_too(tmp_path: Path) -> None:
    path = hostile().write(tmp_path / "<script>alert(1)<.gguf")
    check(page_of(path))
    side = hostile().write(tmp_path / "' onclick='alert(1).gguf")
    check(page_of(path, draft=str(side)))
    (folder := tmp_path / "<!-- f").mkdir()
    hostile().write(folder / "'\"><script>.gguf")
    hostile().write(folder / "b.gguf")
    check(page_of(folder))


def test_in_the_browser_nothing_happens(look: Any, tmp_path: Path) -> None:
    seen = look(page_of(hostile().write(tmp_path / "m.gguf"), data=True))
    seen.page.wait_for_load_state()
    seen.quiet()
    assert seen.page.evaluate("document.scripts.length") == 2
    # The policy stands: a script that somebody put there all the same would not run.
    put = "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s)"
    seen.page.evaluate(f"() => {{ try {{ {put} }} catch {{}} }}")
    assert seen.page.evaluate("window.ran") is None


def test_long_texts_are_cut(tmp_path: Path) -> None:
    """Hundreds of kilobytes of each text."""
    page = page_of(hostile(8000).write(tmp_path / "m.gguf"))
    seen = check(page)
    assert any("more characters" in text for text in seen.texts)


def test_many_tensors_stay_within_the_bound(tmp_path: Path) -> None:
    g = llama()
    for i in range(4400):
        g.tensor(f"blk.{i}.{'<' * 40}.weight", (32, 1 + i % 3), "f32", bytes(128 * (1 + i % 3)))
    found = gguftool.report(g.write(tmp_path / "m.gguf"))
    page = gguftool.report_page(found)
    check(page)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])["tensors"]  # type: ignore[index]
    assert 500 < data["count"] < 4411
    # Those with the most bytes are shown.
    assert min(data["bytes"]) >= 256
    assert f"{4411 - data['count']:,}" in page


@pytest.mark.parametrize("text", [*TEXTS, "</SCRIPT\t>", "<!-", "a\u2029b"])
def test_data_for_scripts_cannot_end_its_element(text: str) -> None:
    made = for_script(inert({"a": text, text: [text]}))
    assert not re.search("[<>&\u2028\u2029]", made)
    assert json.loads(made) == inert({"a": text, text: [text]})


def test_a_page_that_does_not_fit_loses_rows_evenly_and_says_so() -> None:
    rows = [{"key": str(i)} for i in range(5000)]
    found = {"model": {"keys": rows, "tensors": []}, "repository": None, "fleet": None}
    made: list[dict[str, Any]] = []

    def make(less: dict[str, Any]) -> str:
        made.append(less)
        return json.dumps(less["model"]["keys"])

    page = fitted(found, make, 20_000)
    assert len(page) <= 20_000
    last = made[-1]
    assert len(last["model"]["keys"]) + last["left"]["keys"] == 5000
    assert last["model"]["keys"][0] == {"key": "0"}
