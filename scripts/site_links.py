"""A hook of mkdocs: pages and files of the repository that lie outside of docs/, where its pages link to them.

README.md and its kin become pages under ``project/``; what else is linked to (fixtures, schemas) is taken along under
``source/``, a folder with a page that lists it. Links are led there; those within docs/ stay as they are.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PROJECT = {
    "README.md": "project/about.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
    "NOTICE.md": "project/notice.md",
}
_LINK = re.compile(r"(\]\(|<(?:img|source)\b[^>]*?\bsrc(?:set)?=\")([^)#\s\"]+)((?:#[^)]*)?\)|\")")
_FENCE = re.compile(r"^\s*(```|~~~)")


def place(path: str) -> str:
    """Where something of the repository is in the site."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path in PROJECT:
        return PROJECT[path]
    return f"source/{path}/README.md" if (ROOT / path).is_dir() else f"source/{path}"


def outside(text: str, page: str) -> Iterator[str]:
    """What a page links to that is not in docs/, by its path in the repository."""
    for target in (found[2] for line in _prose(text) for found in _LINK.finditer(line)):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if "://" not in target and not path.startswith("docs/") and (ROOT / path).exists():
            yield path


def _prose(text: str) -> Iterator[str]:
    """The lines outside of fences."""
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield line


def led(text: str, page: str) -> str:
    """A page of the repository with its links as they are in the site."""
    here = posixpath.dirname(place(page))

    def lead(found: re.Match[str]) -> str:
        target = found[2]
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        return f"{found[1]}{posixpath.relpath(place(path), here or '.')}{found[3]}"

    lines, fenced = [], False
    for line in text.split("\n"):
        fenced = fenced ^ bool(_FENCE.match(line))
        lines.append(line if fenced else _LINK.sub(lead, line))
    return "\n".join(lines)


def on_files(files: Files, config: Any) -> Files:
    """Take along what pages link to."""
    pages = {name: (ROOT / name).read_text(encoding="utf-8") for name in PROJECT}
    pages |= {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    wanted = {path for page, text in pages.items() for path in outside(text, page)} - set(PROJECT)
    for path in sorted(wanted):
        if (ROOT / path).is_dir():
            inside = sorted(p for p in (ROOT / path).rglob("*") if p.is_file() and "__pycache__" not in p.parts)
            names = [p.relative_to(ROOT / path).as_posix() for p in inside]
            # A README of the folder would be in the way of this page, which has the links.
            listed = "".join(f"- [{name}]({name})\n" for name in names if name != "README.md")
            files.append(File.generated(config, place(path), content=f"# {path}\n\n{listed}"))
            wanted = wanted | {f"{path}/{name}" for name in names if name != "README.md"}
    for path in sorted(wanted):
        if (ROOT / path).is_file():
            files.append(File.generated(config, place(path), abs_src_path=str(ROOT / path)))
    for name in PROJECT:
        files.append(File.generated(config, PROJECT[name], content=pages[name]))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead its links."""
    uri = page.file.src_uri
    if uri.startswith("source/"):
        return markdown
    return led(markdown, {new: old for old, new in PROJECT.items()}.get(uri, f"docs/{uri}"))
