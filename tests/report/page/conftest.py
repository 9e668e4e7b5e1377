"""One Chromium for this folder; without one its tests are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.report.page import browser


# Of the folder, not of the session: while playwright runs, its event loop stands in the way of other tests' own.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """A playwright ``Browser``."""
    if not browser.CHROMIUM:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium; or CHROMIUM=/path/to/it)")
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python (extra test) is not installed")
    sync = pytest.importorskip("playwright.sync_api", reason="playwright (extra test) is not installed")
    with sync.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser.CHROMIUM, args=browser.FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def look(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., browser.Look]]:
    """``look(html)`` or ``look(path)`` opens a page; what goes wrong on it is kept in ``.errors`` and ``.requests``."""
    with ExitStack() as open_pages:

        def opener(page: str | Path, **how: Any) -> browser.Look:
            if isinstance(page, str):
                file = tmp_path / "page.html"
                file.write_text(page, "utf-8")
            else:
                file = page
            return open_pages.enter_context(browser.look(chromium, file, **how))

        yield opener
