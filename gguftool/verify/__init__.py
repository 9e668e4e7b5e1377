"""Integrity: is a file whole, is it what was published, do these shards belong together, is the data sane."""

from __future__ import annotations

from gguftool.verify.check import check, models_of
from gguftool.verify.quick import quick
from gguftool.verify.result import Fault, FileReport, SetReport, Verification

__all__ = ["Fault", "FileReport", "SetReport", "Verification", "check", "models_of", "quick"]
