"""How a program of llama.cpp ends before its time; raised by the machine, caught by whoever runs it."""

from __future__ import annotations


class Refusal(Exception):
    """A C++ exception of llama.cpp: its text, before the stage puts its own words in front."""

    def __init__(self, text: str, where: str = "file", **data: object) -> None:
        super().__init__(text)
        self.text = text
        self.where = where
        self.data = data


class Abort(Exception):
    """The process dies: a failed assertion, a division by zero, a null pointer."""

    def __init__(self, text: str, where: str = "file", **data: object) -> None:
        super().__init__(text)
        self.text = text
        self.where = where
        self.data = data


class Unknown(Exception):
    """The header cannot tell what happens here."""

    def __init__(self, why: str, where: str = "file") -> None:
        super().__init__(why)
        self.why = why
        self.where = where
