"""Whether a file is a report of ours, by its first bytes: what may be replaced by another one."""

from __future__ import annotations

import re

from gguftool.regex import regex

_OURS = regex(rb'\A\s*\{\s*"format":\s*"gguftool\.([a-z-]+)/')
_REPORTS = (b"lint", b"scan", b"scan-row", b"push-check")
_SUMMARY = rb"(?:Nothing found|[\d,]+ (?:errors?|warnings?|info|not readable|rules? failed)\b[^\n]*) in [\d,]+ files?\."
_MARKS = tuple(
    regex(mark, re.MULTILINE)
    for mark in (
        # SARIF, CycloneDX, SPDX, code quality
        rb'\A\s*\{(?s:.*?)"name":\s*"gguftool"',
        rb'\A\s*\{(?s:.*?)"Tool: gguftool-',
        rb'\A\[(?s:.*?)"check_name":\s*"gguftool/',
        rb"\A\[\]\s*\Z",
        rb'\A<\?xml[^>]*>\s*<testsuites name="gguftool',
        rb"\A::(?:error|warning|notice) file=[^\n]*,title=gguftool%3A",
        rb"\A<!DOCTYPE html>(?s:.*?)<title>gguftool scan</title>",
        # tables of scan, text of lint
        rb"\A\| model \| role \| arch \|",
        rb"\A(?:[^\n]*\n)?model +role +arch ",
        rb"\Ano models found$",
        rb"^" + _SUMMARY + rb"$",
    )
)


def is_report(begin: bytes) -> bool:
    """Whether a file with these first bytes is a report of lint or scan, in whatever format."""
    if ours := _OURS.match(begin):
        return ours[1] in _REPORTS
    return any(mark.search(begin) for mark in _MARKS)
