"""Rows of a scan, one module for each format; `FORMATS` is the table of them."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from gguftool.report.scan.shown import Format

FORMATS = {
    "text": "text:TEXT",
    "json": "json:JSON",
    "jsonl": "json:JSONL",
    "markdown": "markdown:MARKDOWN",
    "html": "html:HTML",
    "cyclonedx": "cyclonedx:CYCLONEDX",
    "spdx": "spdx:SPDX",
}
"""Name of a format -> where its `Format` is; one that nobody asks for is not imported."""


def format_named(name: str) -> Format:
    """The format of that name."""
    module, _, what = FORMATS[name].partition(":")
    return cast(Format, getattr(import_module(f"gguftool.report.scan.{module}"), what))
