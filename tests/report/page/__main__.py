"""Pictures of the page, to be looked at: ``python -m tests.report.page FOLDER MODEL [OPTIONS OF report …]``.

Writes the page, and what it looks like at three widths in light and dark and on paper. With ``--pictures FOLDER`` it
writes those of the README there, too: ``python -m tests.report.page /tmp/look model.gguf --pictures docs/images``.
"""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.report.page.browser import CHROMIUM, FLAGS, WIDTHS, look


def main(folder: Path, model: str, *options: str) -> None:
    """Write all pictures of the page of a model."""
    pictures = None
    if "--pictures" in options:
        at = options.index("--pictures")
        pictures, options = Path(options[at + 1]), options[:at] + options[at + 2 :]
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "report.html"
    line = [sys.executable, "-m", "gguftool", "report", model, "-o", str(page), "--overwrite", *options]
    subprocess.run(line, check=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                with look(browser, page, width=width, color_scheme=scheme) as seen:
                    seen.page.screenshot(path=folder / f"{width}-{scheme}.png", full_page=True)
                    print(f"{width} {scheme}: {seen.errors or 'no errors'}, axe: {seen.axe() or 'nothing'}")
        with look(browser, page) as seen:
            seen.page.pdf(path=folder / "paper.pdf", format="A4")
        for scheme in ("light", "dark") if pictures is not None else ():
            with look(browser, page, width=1240, height=1100, color_scheme=scheme) as seen:
                seen.page.wait_for_timeout(300)
                session = seen.page.context.new_cdp_session(seen.page)
                shot = session.send("Page.captureScreenshot", {"format": "webp", "quality": 80})
                (pictures / f"report-{scheme}.webp").write_bytes(base64.b64decode(shot["data"]))
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
