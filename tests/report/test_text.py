from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gguftool.report.text import Style, bar, count, markdown_table, safe, safe_lines, shorten, size, table, width


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("日本語 é", "日本語 é"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b2J", "\\x9b2J"),
        ("a\u202eb", "a\\u202eb"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\ufeffbom", "\\ufeffbom"),
        ("tag\U000e0041", "tag\\U000e0041"),
        (b"caf\xe9".decode("utf-8", "surrogateescape"), "caf\\xe9"),
        ("\ud800", "\\ud800"),
        ("back\\slash", "back\\slash"),
    ],
)
def test_safe(raw: str, shown: str):
    assert safe(raw) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_safe_text_has_nothing_hidden_and_stays_as_it_is(text: str):
    shown = safe(text)
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert safe(shown) == shown
    shown.encode()


def test_safe_covers_every_format_character_that_hides_or_reorders():
    every = map(chr, range(sys.maxunicode + 1))
    shown = {char for char in every if unicodedata.category(char) == "Cf" and safe(char) == char}
    # What is left of the class Cf shows itself: Arabic, Syriac, Kaithi number marks and the like.
    assert {unicodedata.bidirectional(char) for char in shown} <= {"AN", "AL", "L", "BN", "ON", "NSM"}
    assert not shown & set("\u061c\u200b\u200c\u200d\u200e\u200f\u2060\u2066\u2067\u2068\u2069\u202a\u202e\ufeff\xad")


def test_safe_lines_keeps_lines():
    assert safe_lines("a\n\tb\x1b") == "a\n\tb\\x1b"


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1024 * 1024 - 1, "1.0 MiB"),
        (253113024, "241.4 MiB"),
        (5 * 1024**4, "5.0 TiB"),
        (2 * 1024**6, "2.0 EiB"),
        (-2048, "-2.0 KiB"),
    ],
)
def test_size(number: int, shown: str):
    assert size(number) == shown


def test_count():
    assert count(262144) == "262,144"


def test_width():
    assert [width(text) for text in ("abc", "日本", "e\u0301", "\x1b[1mab\x1b[0m")] == [3, 4, 1, 2]


def test_shorten():
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefg", 6) == "abcde…"
    assert shorten("日本語日本語", 6) == "日本…"
    assert shorten("a\nb", 10) == "a\\nb"


def test_table_lines_up():
    text = table([["a\x1b", 1, None], ["日本", 262144, "x"]], ["name", "n", "note"])
    assert text.splitlines() == [
        "name         n  note",
        "a\\x1b        1",
        "日本   262,144  x",
    ]


def test_table_without_rows_or_headers():
    assert table([]) == ""
    assert table([], ["a", "b"]) == "a  b"
    assert table([[1], [22]], indent="  ") == "   1\n  22"


def test_table_with_colours_lines_up():
    style = Style(enabled=True)
    lines = table([[style.red("bad"), "x"], ["longer", "y"]], style=style).splitlines()
    assert lines == ["\x1b[31mbad\x1b[0m     x", "longer  y"]


def test_style_cannot_be_broken_out_of():
    assert Style(enabled=False).red("a\x1b[0m") == "a\\x1b[0m"
    assert Style(enabled=True).bold("a\x1b[0m") == "\x1b[1ma\\x1b[0m\x1b[0m"


def test_markdown_table():
    text = markdown_table([["a|b", 1]], ["x", "y"])
    assert "| a\\|b | 1   |" in text.splitlines()


@pytest.mark.parametrize(("fraction", "full"), [(0, 0), (0.001, 1), (0.5, 10), (1, 20), (7, 20), (-1, 0)])
def test_bar(fraction: float, full: int):
    assert bar(fraction) == "█" * full + "░" * (20 - full)
