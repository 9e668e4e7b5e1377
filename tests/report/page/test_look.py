"""The page in a real browser: nothing fails, nothing is fetched, everybody can read and use it, in light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gguftool
from gguftool.report.page.filters import percent
from gguftool.report.page.render import report_page
from gguftool.report.text import count, size
from tests.report.page.browser import WIDTHS
from tests.report.page.pages import ADDRESS, HOSTILE, hostile, pages

KINDS = ("model", "pair", "repository", "fleet")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "fleet").mkdir()
    return pages(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing_and_nothing_is_asked_for(kind: str, made: dict[str, str], look: Any) -> None:
    seen = look(made[kind])
    seen.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert seen.axe() == []
    seen.page.emulate_media(color_scheme="dark")
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(14, 17, 22)"
    assert seen.axe(runOnly=["color-contrast"]) == []
    seen.quiet()


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_as_wide_as_the_window(kind: str, made: dict[str, str], look: Any) -> None:
    seen = look(made[kind], width=360)
    for width in WIDTHS:
        seen.page.set_viewport_size({"width": width, "height": 900})
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("kind", KINDS)
def test_without_scripts_it_can_be_read(kind: str, made: dict[str, str], look: Any) -> None:
    seen = look(made[kind], java_script_enabled=False)
    text = seen.page.inner_text("main")
    assert seen.page.locator("button:visible, select:visible, input:visible, [role=listbox]:visible").count() == 0
    words = {
        "model": (
            "blk.1.ffn_down.weight",
            "rope.scaling.type",
            "user: How cold is it in Oslo?",
            "looks back at everything",
            "b11434",
        ),
        "pair": ("--mmproj", "mmproj.gguf", "--mmproj fits"),
        "repository": ("good.gguf", "does not fit"),
        "fleet": ("bad.gguf", "cut.gguf", "with errors", "broken"),
    }[kind]
    if kind == "model":
        seen.page.click("text=Every tensor")
        text = seen.page.inner_text("main")
    for word in words:
        assert word in text
    seen.quiet()


def test_the_map_is_used_by_keyboard_and_mouse(made: dict[str, str], look: Any) -> None:
    page = look(made["model"]).page
    about = page.locator("#bytes .about")
    assert about.locator("h3").inner_text() == "token_embd.weight"
    page.focus("#bytes .map")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    other = about.locator("h3").inner_text()
    assert other != "token_embd.weight"
    assert page.locator("#bytes .cell[aria-selected=true]").get_attribute("aria-label").startswith(other + ", ")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert about.locator("h3").inner_text() == "token_embd.weight"
    page.click("#bytes .cell[aria-label^='blk.1.ffn_down']")
    facts = dict(zip(about.locator("dt").all_inner_texts(), about.locator("dd").all_inner_texts(), strict=True))
    assert facts["shape"] == "128 × 64"
    assert facts["type"].startswith("F32, 32.00 bits")
    assert facts["bytes"].startswith("32,768 (")
    assert len(facts["sha256"].split()[0]) == 64
    assert " … " in facts["range"]
    assert "6 × rms" in facts["outliers"]
    assert about.locator("svg[role=img]").get_attribute("aria-label").startswith("From -")


def test_the_map_is_grouped_and_searched(made: dict[str, str], look: Any) -> None:
    page = look(made["model"]).page
    groups = "els => els.map(e => e.getAttribute('aria-label').split(',')[0])"
    assert page.eval_on_selector_all("#bytes .group", groups) == ["outside the layers", "blk.0", "blk.1"]
    page.click("#bytes button[value=kind]")
    assert page.eval_on_selector_all("#bytes .group", groups)[:2] == ["feed-forward", "attention"]
    page.click("#bytes button[value=type]")
    assert page.eval_on_selector_all("#bytes .group", groups) == ["F32"]
    page.fill("#bytes input[type=search]", "attn_q")
    assert page.inner_text("#bytes .found").startswith("2 of 20, 32.0 KiB")
    page.keyboard.press("Enter")
    assert page.inner_text("#bytes .about h3") == "blk.0.attn_q.weight"


def test_areas_are_as_large_as_the_bytes(made: dict[str, str], look: Any) -> None:
    page = look(made["model"]).page
    # One call: between finding the cells and measuring them the map may be drawn anew, and what was found has no area.
    sizes = page.evaluate("""() => [...document.querySelectorAll("#bytes .cell")].map(e => {
        const b = e.getBoundingClientRect(); return [e.item.bytes, b.width * b.height] })""")
    rates = [area / n for n, area in sizes if n > 8000]
    assert max(rates) / min(rates) < 1.35  # what the titles and gaps of the groups take


def test_scripts_write_numbers_as_the_page_does(made: dict[str, str], look: Any) -> None:
    page = look(made["fleet"]).page
    bytes_of = [0, 1, 1023, 1024, 1280, 1535, 1792, 1024**2 - 1, 1024**2, 5 * 1024**3 + 1, 1024**4, 3 * 1024**5]
    bytes_of += [int(1.03**n) for n in range(1100)]
    assert page.evaluate("xs => xs.map(gguftool.size)", bytes_of) == [size(n) for n in bytes_of]
    assert page.evaluate("xs => xs.map(gguftool.count)", bytes_of) == [count(n) for n in bytes_of]
    parts = [0, 0.00002, 0.0009, 0.0025, 0.0149, 0.094, 0.0951, 0.125, 0.4949, 1, *(n / 777 for n in range(777))]
    assert page.evaluate("xs => xs.map(gguftool.percent)", parts) == [percent(x) for x in parts]


def test_light_and_dark_are_switched_and_kept(made: dict[str, str], look: Any) -> None:
    page = look(made["fleet"], color_scheme="light").page
    dark = "getComputedStyle(document.body).backgroundColor === 'rgb(14, 17, 22)'"
    assert not page.evaluate(dark)
    page.click("text=Dark")
    assert page.evaluate(dark)
    page.reload()
    assert page.evaluate(dark)
    page.click("text=Light")
    page.emulate_media(color_scheme="dark")
    assert not page.evaluate(dark)


def test_a_command_is_copied(made: dict[str, str], look: Any) -> None:
    seen = look(made["model"], permissions=["clipboard-read", "clipboard-write"])
    button = seen.page.locator("#verdict .command button").first
    button.click()
    button.locator("text=Copied").wait_for()
    copied = seen.page.evaluate("navigator.clipboard.readText()")
    assert copied == seen.page.inner_text("#verdict .command pre >> nth=0")
    assert copied.startswith("gguftool ")
    seen.quiet()


def test_every_stop_of_the_keyboard_shows_itself(made: dict[str, str], look: Any) -> None:
    page = look(made["model"]).page
    want = page.locator(
        "a:visible, button:visible, select:visible, input:visible, summary:visible, [tabindex='0']:visible"
    ).count()
    seen = []
    for _ in range(want + 1):
        page.keyboard.press("Tab")
        at = page.evaluate(
            "() => { const e = document.activeElement, s = getComputedStyle(e);"
            " return e === document.body ? null"
            " : [e.outerHTML.slice(0, 80), s.outlineStyle, parseFloat(s.outlineWidth)] }"
        )
        if at is None:
            break
        seen.append(at)
    assert len(seen) >= want
    assert [at for at in seen if at[1] == "none" or at[2] < 2] == []


def test_one_conversation_at_a_time(made: dict[str, str], look: Any) -> None:
    page = look(made["model"]).page
    assert page.locator(".prompt:visible").count() == 1
    assert page.inner_text(".prompt:visible").startswith("user: How cold is it in Oslo?")
    titles = page.locator("#talk option").all_inner_texts()
    assert len(titles) > 10
    page.select_option("#talk", index=2)
    assert page.get_attribute(".prompt:visible", "aria-label") == f"Prompt: {titles[2]}"


def test_tables_are_sorted_by_their_heads(made: dict[str, str], look: Any) -> None:
    page = look(made["fleet"]).page
    rows = "#models tbody th"
    page.click("#models thead button:has-text('Size')")
    up = page.locator(rows).all_inner_texts()
    page.keyboard.press("Enter")
    assert page.locator(rows).all_inner_texts() == up[::-1]
    assert page.get_attribute("#models th:has-text('Size')", "aria-sort") == "descending"


def test_nothing_moves_for_who_asked_for_it(made: dict[str, str], look: Any) -> None:
    page = look(made["model"], reduced_motion="reduce").page
    moving = (
        "[...document.querySelectorAll('*')].filter(e => { const s = getComputedStyle(e);"
        " return parseFloat(s.transitionDuration) > 0 || s.animationName !== 'none' || s.scrollBehavior !== 'auto' })"
        ".length"
    )
    assert page.evaluate(moving) == 0
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(moving) > 0


def test_on_paper(made: dict[str, str], look: Any) -> None:
    page = look(made["model"], color_scheme="dark").page
    assert page.pdf(format="A4").startswith(b"%PDF-")
    folded = "document.querySelector('#builds details table').checkVisibility()"
    assert not page.evaluate(folded)
    page.emulate_media(media="print")
    assert page.evaluate(folded)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('#verdict h2')).color") == "rgb(22, 25, 29)"
    assert not page.locator(".bar:visible, .command button:visible, input:visible").count()
    assert page.locator("#verdict .command pre").first.is_visible()
    assert page.locator("#bytes .cell").first.is_visible()
    # Nothing is cut off by a box that would scroll.
    cut = (
        "[...document.querySelectorAll('main *')].filter(e => e.scrollHeight > e.clientHeight + 2"
        " && ['auto', 'scroll'].includes(getComputedStyle(e).overflowY)).map(e => e.outerHTML.slice(0, 80))"
    )
    assert page.evaluate(cut) == []


def test_text_of_a_file_is_only_ever_text(tmp_path: Path, look: Any) -> None:
    path = hostile().write(tmp_path / "x.gguf")
    seen = look(report_page(gguftool.report(path)))
    page = seen.page
    page.click("#bytes .cell >> nth=0")
    for value in ("kind", "type", "layer"):
        page.click(f"#bytes button[value={value}]")
    page.fill("#bytes input[type=search]", "script")
    page.keyboard.press("Enter")
    for i in range(3):
        page.select_option("#talk", index=i)
    text = page.inner_text("main")
    assert HOSTILE in text
    assert "javascript:alert(3)" in text
    assert "\u202e" not in text
    assert ADDRESS not in text
    assert (
        page.locator("main script, main img, main iframe, main object, main form, main link, main style").count() == 0
    )
    assert page.locator("script").count() == 2
    assert (
        page.eval_on_selector_all("a", "els => els.map(e => e.getAttribute('href')).filter(h => !h.startsWith('#'))")
        == []
    )
    on = "[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on'))).length"
    assert page.evaluate(on) == 0
    seen.quiet()


def test_what_would_run_does_not(made: dict[str, str], look: Any) -> None:
    """The policy holds also if a text ever got through as markup."""
    evil = (
        "<script>alert(4)</script><img src=https://evil.example/ onerror=alert(5)>"
        "<a href='javascript:alert(6)' id=bad>b</a>"
    )
    seen = look(made["fleet"].replace("</main>", f"{evil}</main>"))
    seen.page.click("#bad")
    with pytest.raises(Exception, match="TrustedHTML"):
        seen.page.evaluate("() => { document.body.innerHTML = '<b>x</b>' }")
    assert not [x for x in seen.errors if x.startswith("dialog")]
    assert all("Content Security Policy" in x or "TrustedHTML" in x for x in seen.errors), seen.errors
    assert seen.requests == []
