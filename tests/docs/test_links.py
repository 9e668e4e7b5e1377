"""Links of the pages lead somewhere; the site is built of them without a warning and needs nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.blocks import ROOT, pages


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        capture_output=True, text=True, cwd=ROOT, env={"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def test_the_site_holds_every_page(site: Path) -> None:
    for page in pages():
        inside = page.relative_to(ROOT).as_posix()
        if inside.startswith("docs/"):
            name = inside.removeprefix("docs/").replace("README.md", "index.md")
            assert (site / name).with_suffix(".html").is_file(), inside


def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    """No font, script, style or picture of another host: what a page loads is beside it."""
    for page in site.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=\"([^\"]+)\"", text)
        assert [url for url in loaded if urlsplit(url).netloc] == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(?:https?:)?//", sheet.read_text()), sheet


def test_links_out_of_the_pages_are_led_along() -> None:
    pytest.importorskip("mkdocs")
    code = "from site_links import led; import sys; sys.stdout.write(led(sys.stdin.read(), sys.argv[1]))"

    def led(text: str, page: str) -> str:
        words = [sys.executable, "-c", code, page]
        return subprocess.run(words, input=text, capture_output=True, text=True, cwd=ROOT / "scripts").stdout

    assert (
        led("[a](docs/lint.md#x) ![b](docs/images/p.webp)", "README.md") == "[a](../lint.md#x) ![b](../images/p.webp)"
    )
    assert led('<source srcset="docs/a.webp"><img alt="x" src="docs/b.webp">', "README.md") == (
        '<source srcset="../a.webp"><img alt="x" src="../b.webp">'
    )
    assert led("[a](../fixtures/hooks) [b](https://x.org)\n```sh\n[c](x)\n```", "docs/hooks.md") == (
        "[a](source/fixtures/hooks/README.md) [b](https://x.org)\n```sh\n[c](x)\n```"
    )
    assert led("[a](../../CONTRIBUTING.md)", "docs/how-to/x.md") == "[a](../project/contributing.md)"


def test_links_of_the_site_lead_into_it(site: Path) -> None:
    for page in site.rglob("*.html"):
        for target in re.findall(r"\b(?:href|src|srcset)=\"([^\"#?]+)", page.read_text()):
            if not urlsplit(target).scheme and page.name != "404.html":
                assert (page.parent / target).resolve().exists(), f"{page.relative_to(site)}: {target}"


def test_the_index_leads_to_every_page() -> None:
    docs = ROOT / "docs"
    indexes = [docs / "README.md", *docs.glob("*/README.md")]
    led = {(i.parent / target).resolve() for i in indexes for target in re.findall(r"\]\(([^)#]+)", i.read_text())}
    assert [page for page in docs.rglob("*.md") if page not in {docs / "README.md", *led}] == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        parts = urlsplit(target)
        if not parts.scheme:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
        elif parts.scheme != "mailto":
            # Whether it is there is asked of nobody here.
            assert parts.scheme == "https", target
            assert re.fullmatch(r"[a-z0-9.-]+\.[a-z]+", parts.netloc), target
