"""Statements that end a C++ program, which both translators read alike."""

from __future__ import annotations

import re
from typing import Any

from cpp_operators import Operators


class Ends(Operators):
    """``throw`` and failed assertions, as rows."""

    def _call(self) -> list[str]:
        """Arguments of a call that is a statement, as they stand in the source."""
        out = self.raw_arguments()
        self.needs(";")
        return out

    def _do_throw(self) -> list[list[Any]]:
        self.next()
        self.needs("(")
        words = self.expression()
        self.needs(")")
        self.needs(";")
        return [["fail", words]]

    def _do_GGML_ASSERT(self) -> list[list[Any]]:
        raw = ", ".join(self._call())
        words = re.sub(r"\s+", " ", raw)
        return [["assert", self.translated(raw), f"GGML_ASSERT({words}) failed"]]
