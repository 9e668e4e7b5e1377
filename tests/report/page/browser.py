"""A page as people see it: opened from the disk in Debian's Chromium, everything it does written down."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
).split()
WIDTHS = (360, 820, 1440)
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")


@dataclass(slots=True)
class Look:
    """One open page, and what should not have happened on it."""

    page: Any
    errors: list[str] = field(default_factory=list)
    """Of the console (a broken content security policy among them), of scripts, and of dialogs."""
    requests: list[str] = field(default_factory=list)
    """Addresses asked for beside the file itself; none was let through."""

    def axe(self, within: str = "", **options: Any) -> list[str]:
        """What axe-core finds, in one element or all of the page: rule, impact, and the elements. Its best practices
        count, too."""
        self.page.evaluate(_axe())
        # A page that is still fading in has other colours than the one that is read.
        self.page.evaluate("() => Promise.all(document.getAnimations().map(a => a.finished.catch(() => 0)))")
        run = "([within, options]) => axe.run(within || document, options)"
        found = self.page.evaluate(run, [within, options])
        return [
            f"{v['id']} ({v['impact']}): {', '.join(str(n['target']) for n in v['nodes'][:5])}: {v['help']}"
            for v in found["violations"]
        ]

    def quiet(self) -> None:
        """Nothing failed and nothing was asked for."""
        assert (self.errors, self.requests) == ([], [])


@cache
def _axe() -> str:
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


@contextmanager
def look(browser: Any, file: Path, *, width: int = 1440, height: int = 900, **how: Any) -> Iterator[Look]:
    """Opens a file; ``how`` goes to the browser's context: ``color_scheme="dark"``, ``java_script_enabled=False`` …"""
    context = browser.new_context(viewport={"width": width, "height": height}, **how)
    try:
        seen = Look(context.new_page())
        address = file.resolve().as_uri()

        def door(route: Any) -> None:
            wanted = route.request.url
            if wanted.partition("#")[0] == address:
                route.continue_()
            else:
                seen.requests.append(wanted)
                route.abort()

        def dialog(opened: Any) -> None:
            seen.errors.append(f"dialog: {opened.message}")
            opened.dismiss()

        context.route("**/*", door)
        seen.page.on("console", lambda m: m.type in ("error", "warning") and seen.errors.append(m.text))
        seen.page.on("pageerror", lambda e: seen.errors.append(str(e)))
        seen.page.on("dialog", dialog)
        context.on("page", lambda p: p is not seen.page and seen.requests.append(f"new window: {p.url}"))
        seen.page.goto(address)
        yield seen
    finally:
        context.close()
