"""The public names and where each lives; nothing is imported before it is used.

Some rooms have the name of what they are for: `gguftool.lint` is a package and a function. Which of the two Python
finds at that name depends on what was imported before, so the package is made to be the function, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any


@cache
def public_names() -> dict[str, str]:
    """Where each public name lives: ``module:attribute``."""
    return {
        name: f"gguftool.{module}:{attribute or name}"
        for module, names in {
            "api.plan": "Planned plan",
            "api.diagnosed": "Cause Diagnosed diagnose",
            "api.glance": "Glance glance",
            "api.known": "known_text",
            "api.edits": "apply_patch edit make_patch plan_edit recover undo",
            "api.mix": "Mixed mix",
            "api.models": "diff fixes hash_tensors memory misfits overview predict",
            "api.compat": "Compatibility compat",
            "api.converted": "Converted check_converted convert",
            "api.health": "Health doctor",
            "api.imatrix": "ImatrixReport examine_imatrix merge_imatrix",
            "api.launch": "Served launch plan_launch",
            "api.translated": "translate translate_script",
            "api.logs": "LogCheck check_log",
            "api.prepare": "Prepared prepare",
            "api.pulled": "Pulled pull",
            "api.push": "Pushed push_check",
            "api.render": "Prompt compare_templates render",
            "api.report": "Reported report",
            "api.serving": "serve_folder",
            "api.stored": "Stored stored_models",
            "api.tokenizer": "compare_tokenizers",
            "build.judged": "Check",
            "build.quantize": "Quantized quantize",
            "edit.changes": "Change",
            "edit.ops": "Dedupe Delete Operation Realign Rename Repack Reserve Set SetElement Strip",
            "edit.patched": "PatchPlan",
            "edit.plan": "EditPlan Result",
            "edit.undo": "Undone",
            "errors": "ChangedMeanwhile FormatError GgufToolError InterruptedEdit MissingFile NoRoom NotGguf Refused "
            "ToolFailed Unreadable UsageError",
            "facts": "BUILD",
            "fleet.row": "Row",
            "fleet.scan": "scan",
            "fleet.watch": "watch",
            "fleet.watched": "Event",
            "format.header": "Field",
            "hub": "open=open_any",
            "lint.call": "lint",
            "lint.explain": "Explanation explain",
            "lint.fixes": "Fixes",
            "lint.rule": "Finding Fix Rule Severity",
            "lint.tokenized": "Compared",
            "lint.rules": "rules=catalogue",
            "lint.run": "Report",
            "memory.plan": "MemoryPlan",
            "model.compare": "Difference",
            "model.model": "Model",
            "model.overview": "Overview",
            "model.part": "Tensor",
            "predict": "AfterLoad Harm Prediction",
            "predict.needs": "Need",
            "predict.pairs.misfit": "Misfit",
            "report.page.render": "report_page",
            "run.diagnose": "Diagnosis Judgement explain_error=explain_text judge_log=judge",
            "run.doctor": "Examination examine",
            "run.explained": "FlagAnswer explain_flag",
            "run.known": "Known",
            "run.imatrix": "MeasuredImatrix=Measured WantedImatrix=Wanted measure_imatrix",
            "run.kvtest": "KvTest kv_test",
            "run.quanttest": "QuantTest quant_test",
            "run.emit": "emit",
            "run.emit.folder": "emit_folder",
            "run.launch": "LaunchPlan",
            "run.translation.result": "Script Translation",
            "run.wishes": "Obstacle Wishes",
            "verify.call": "join merge rename_shards repair split verify write_manifest",
            "verify.hashes": "FileHashes TensorHash hash_file",
            "verify.names": "Renaming",
            "verify.repair": "Repaired",
            "verify.result": "Fault FileReport Verification",
            "verify.resplit": "Written",
        }.items()
        for name, _, attribute in (word.partition("=") for word in names.split())
    }


def public(name: str) -> Any:
    """What a public name stands for.

    Raises:
        AttributeError: it is no public name.
    """
    try:
        module, _, attribute = public_names()[name].partition(":")
    except KeyError:
        raise AttributeError(f"module 'gguftool' has no attribute {name!r}") from None
    return getattr(import_module(module), attribute)


def inner(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """``__getattr__`` of a package whose names are loaded at their first use.

    Args:
        package: its name.
        homes: the module of each name, below the package.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find


class _Room(ModuleType):
    """A package that is the function of its own name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    @property
    def __wrapped__(self) -> Any:
        """The function; `inspect.signature` and `help` of editors look here."""
        return public(self.__name__.rpartition(".")[2])


def also_function(package: str) -> None:
    """Let a package be called as the public function of its name."""
    sys.modules[package].__class__ = _Room
