"""One way to read a number, one to guess a name, one to write a size."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gguftool import near, quantity

PACKAGE = Path(quantity.__file__).parent


def test_nobody_else_guesses_names_or_asks_isdigit() -> None:
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        assert "get_close_matches" not in text or path.name == "near.py", path
        assert not re.search(r"\.isdigit\(", text), path


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("42", 42), ("007", 7), ("²", None), ("١٢", None), ("", None), ("-1", None), (" 1", None),
     ("1.5", None), ("9" * 5000, None), ("1_0", None)],
)  # fmt: skip
def test_whole_numbers(text: str, number: int | None) -> None:
    assert quantity.whole(text) == number


@pytest.mark.parametrize(
    ("n", "text"),
    [(0, "0 B"), (512, "512 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (253_134_336, "241.4 MiB"), (1 << 34, "16.0 GiB"),
     (1 << 50, "1.0 PiB"), (1 << 60, "1.0 EiB"), ((1 << 20) - 1, "1.0 MiB"), (1 << 70, "1024.0 EiB"),
     (-2048, "-2.0 KiB")],
)  # fmt: skip
def test_sizes_for_people(n: int, text: str) -> None:
    assert quantity.human(n) == text


def test_sizes_larger_than_any_float() -> None:
    assert quantity.human(1 << 2000).endswith(" EiB")


@pytest.mark.parametrize("n", [0, 1, 1000, 1024, 1 << 20, (1 << 30) + 1, 16 << 30, 3 << 29])
def test_exact_sizes_are_read_back(n: int) -> None:
    assert quantity.size(quantity.exact(n)) == n


def test_the_guessing_of_names_has_limits() -> None:
    assert near.near_names("llama.context_lenght", ["llama.context_length"]) == ["llama.context_length"]
    assert near.near_names("a" * 129, ["a" * 129]) == []
    assert near.near_names("abc", ["a" * 129]) == []
    assert near.near_names("abc", (f"abc{i}" for i in iter(int, 1))) != []
