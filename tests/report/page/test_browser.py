"""The instrument itself: what it must notice, and what it must not take for a fault."""

from __future__ import annotations

from tests.report.page.browser import Look

GOOD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>t</title></head>
<body><main><h1>A heading</h1><p>text</p></main></body></html>"""


def test_a_good_page_is_quiet(look):
    seen: Look = look(GOOD)
    assert seen.page.inner_text("h1") == "A heading"
    assert seen.axe() == []
    seen.quiet()


def test_what_a_page_does_is_noticed(look):
    seen: Look = look(
        GOOD.replace(
            "<p>text</p>",
            '<p style="color:#bbb">pale</p><img src="https://example.com/a.png"><script>alert("boo")</script>'
            '<script>window.open("https://example.com/b"); console.error("oh"); nothing()</script>',
        )
    )
    seen.page.wait_for_load_state()
    assert {"color-contrast", "image-alt"} <= {found.split(" ")[0] for found in seen.axe()}
    assert any("dialog: boo" in error for error in seen.errors)
    assert "oh" in seen.errors
    assert any("nothing is not defined" in error for error in seen.errors)
    assert "https://example.com/a.png" in seen.requests


def test_a_policy_that_a_page_breaks_is_an_error(look):
    policy = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
    seen: Look = look(GOOD.replace("<title>", policy + "<title>").replace("<p>", '<p style="color:red">'))
    assert any("Content Security Policy" in error for error in seen.errors)
