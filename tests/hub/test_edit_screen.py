"""`gguftool edit` of a model that lies on a server: shown from its header, and nothing can be changed."""

from __future__ import annotations

import pytest

pytest.importorskip("textual", reason="the extra tui is not installed")

from gguftool.screen.forms import Words
from tests.build import llama
from tests.hub.server import Site
from tests.screen.walk import at, lines, settled, shown, walked


def test_an_address_is_only_shown(site: Site):
    made = llama().tensor("more.weight", (256, 4000), "f32")
    site.repos["owner/repo"] = {"m.gguf": made.bytes()}

    async def walk(app, pilot):
        assert "read-only" in shown(app, "#top")
        await at(app, pilot, "llama.kv_cache_type")
        assert "kv-cache-type-missing" in shown(app, "#about")
        for key in ("x", "a"):
            await pilot.press(key)
            await settled(app, pilot)
            assert isinstance(app.screen, Words)
            said = " ".join("".join(lines(app)).split())
            assert "is not on this machine, so it is only shown" in said
            assert "--patch-out" in said
            await pilot.press("escape")
        assert not app.editing.steps

    app = walked("hf://owner/repo/m.gguf", walk)
    assert app.written == []
    assert site.body < len(made.header()) + (128 << 10)
