"""Widths as terminals have them, and what folding does to lines and tables."""

from __future__ import annotations

import pytest

from gguftool.report.lines import columns, fold, paragraph, room, width
from gguftool.report.text import Style, table

WIDTHS = {
    "abc": 3, "日本語": 6, "Grüße": 5, "e\u0301": 1, "한글": 4, "\u1112\u1161\u11ab": 2, "🙂": 2, "ｆｕｌｌ": 8, "ｱ": 1,
    "नि": 2, "ไทย": 3, "กำ": 2, "═█": 2, "…": 1, "\ufe0f": 0, "\x1b[31mred\x1b[0m": 3, "\x1b[1m日\x1b[0m": 2, "": 0,
}  # fmt: skip
"""Columns that the cursor of tmux 3.3 goes on by."""


@pytest.mark.parametrize("text", WIDTHS)
def test_width(text: str):
    assert width(text) == WIDTHS[text]


def test_a_pipe_gets_lines_as_they_are():
    line = "word " * 100
    assert columns() is None
    assert fold(line) == line
    assert table([["x" * 50, "y " * 50]]) == f"{'x' * 50}  {('y ' * 50).rstrip()}"


@pytest.mark.parametrize(
    ("line", "most", "out"),
    [
        ("one two three four", 10, ["one two", "  three", "  four"]),
        ("  m   one two three four five", 20, ["  m   one two three", "      four five"]),
        ("say: gguftool fix model.gguf --set a=b", 24, ["say:", "  gguftool fix model.gguf --set a=b"]),
        ("see `gguftool a --long-option b` for more", 24, ["see", "  `gguftool a --long-option b`", "  for more"]),
        ("/a/path/that/is/wider/than/it.gguf is there", 24, ["/a/path/that/is/wider/than/it.gguf", "  is there"]),
        ("日本語日本語日本語", 8, ["日本語日", "  本語日", "  本語"]),
        ("/模型/日本語日本語日本語.gguf", 8, ["/模型/日本語日本語日本語.gguf"]),
        ("[one|two|three|four|five]", 12, ["[one|two|", "  three|", "  four|five]"]),
        ("\x1b[31mone two three\x1b[0m four", 9, ["\x1b[31mone two\x1b[0m", "  \x1b[31mthree\x1b[0m", "  four"]),
    ],
)  # fmt: skip
def test_fold(line: str, most: int, out: list[str]):
    assert fold(line, most).split("\n") == out
    assert fold("\n".join(out), 100).split("\n") == out


def test_a_comment_stands_below_its_command():
    assert fold("  gguftool lint m.gguf          what is wrong with it\n" + " " * 32 + "and more", 40).split("\n") == [
        "  gguftool lint m.gguf",
        "    what is wrong with it",
        "    and more",
    ]


def test_a_table_wraps_its_text():
    rows = [("a", 1, "some words that go on"), ("b", 22, "few")]
    with room(28):
        assert table(rows, ("name", "n", "about")).split("\n") == [
            "name   n  about",
            "a      1  some words that go",
            "          on",
            "b     22  few",
        ]


def test_a_table_that_cannot_gives_each_row_lines_of_its_own():
    rows = [("a" * 20, "b" * 20, 5), ("c", "d", None)]
    with room(30):
        assert table(rows, ("first", "second", "n"), indent="  ").split("\n") == [
            f"  {'a' * 20}  second",
            f"      {'b' * 20}",
            "      n 5",
            "  c  second d",
        ]


def test_colours_end_with_their_line():
    style = Style(enabled=True)
    with room(24):
        lines = table([("x", style.red("one two three four five")), ("y", "z")], ("k", "value")).split("\n")
    assert lines == ["k  value", "x  \x1b[31mone two three four\x1b[0m", "   \x1b[31mfive\x1b[0m", "y  z"]


@pytest.mark.parametrize("most", [24, 40, 60, 80, 200])
def test_nothing_is_lost(most: int):
    text = "a few words, 日本語 and `some code` in 1,234 pieces; e\u0301 combined"
    folded = fold(f"  label   {text}", most)
    assert " ".join(folded.split()) == f"label {text}"
    assert all(width(line) <= most for line in folded.split("\n"))


def test_running_text_has_a_hundred_columns_at_most():
    text = "word " * 60
    assert max(map(len, paragraph("  Why  ", text, 7).split("\n"))) <= 100
    with room(40):
        assert max(map(len, paragraph("  Why  ", text, 7).split("\n"))) <= 40
    with room(200):
        assert max(map(len, paragraph("  Why  ", text, 7).split("\n"))) <= 100
